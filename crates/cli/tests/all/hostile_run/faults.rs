//! G3 and G5: readers that go away, agents that are killed, files that change, histories that are
//! cut.

use super::*;

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether some process sleeps for so many seconds.
fn sleeps(seconds: &str) -> bool {
    let wanted = format!("sleep\0{seconds}\0");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|one| fs::read_to_string(one.path().join("cmdline")).ok());
    lines.into_iter().any(|line| line == wanted)
}

#[test]
fn g5_nothing_is_done_that_nobody_reads() {
    let stream = ["--output-format", "stream-json", "--verbose"];
    // Somebody reads a line and goes, as `head -1` does; or a host dies while a command runs and
    // nothing is said.
    for (name, args, reads) in [("events", &stream[..], true), ("a text", &[][..], false)] {
        let lab = Lab::new(&[
            &[bash("c1", "echo $$ >one; sleep 60")],
            &[bash("c2", "touch two")],
            &[text("Done.")],
        ]);
        let all: Vec<&str> = ["--session-id", SESSION, "--dangerously-skip-permissions"]
            .iter()
            .chain(args)
            .copied()
            .chain(["Go."])
            .collect();
        let mut child = lab.command(&all).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        if reads {
            out.read_line(&mut String::new()).unwrap();
        }
        until("the first command", || lab.path("one").exists());
        drop(out);
        // It ends long before the command would.
        assert_eq!(ended(&mut child, Duration::from_secs(20)), Some(141), "{name}");
        thread::sleep(Duration::from_millis(300));
        assert_eq!(lab.server.requests().len(), 1, "{name}");
        assert!(!lab.path("two").exists(), "{name}");
        assert!(lab.transcript().contains("[Request interrupted by user for tool use]"), "{name}");
        assert_eq!(lab.check(), "full", "{name}");
    }
    // While the API is asked.
    let lab = Lab::play(vec![Reply::Silent(
        vec![text("One."), bash("c1", "touch one")],
        3,
        Duration::from_secs(5),
    )]);
    let mut child = lab
        .command(&["--session-id", SESSION, "--dangerously-skip-permissions", "Go."])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    until("the request", || !lab.server.requests().is_empty());
    drop(child.stdout.take());
    assert_eq!(ended(&mut child, Duration::from_secs(3)), Some(141));
    assert!(!lab.path("one").exists());
    // Whoever goes when all is said has what they wanted.
    let lab = Lab::new(&[&[text("Done.")]]);
    let mut child =
        lab.command(&["--session-id", SESSION, "Go."]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    drop(out);
    assert_eq!(ended(&mut child, Duration::from_secs(10)), Some(0));
}

#[test]
fn g5_a_file_that_changed_is_never_replaced_unread() {
    // Each puts other work in the place of what was read, with an older time.
    let ways = [
        "cp -p ../theirs/README.md README.md",
        "rm README.md; tar -C ../theirs -cf - README.md | tar -xf -",
        "rsync -a ../theirs/README.md README.md",
        "touch -r README.md ../stamp; echo '# Work' >README.md; touch -r ../stamp README.md",
    ];
    for way in ways {
        let tool = way.split(' ').next().unwrap();
        if !Command::new("which").arg(tool).stdout(Stdio::null()).status().unwrap().success() {
            println!("not tried: there is no `{tool}`");
            continue;
        }
        for resumed in [true, false] {
            let mut lab = Lab::new(&[]);
            let theirs = lab.env.put("theirs/README.md", "# Work\n");
            let old = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            fs::File::options().append(true).open(&theirs).unwrap().set_modified(old).unwrap();
            let readme = lab.path("README.md");
            let read = vec![call("c1", "Read", &json!({"file_path": readme}))];
            let write =
                vec![call("c3", "Write", &json!({"file_path": readme, "content": "mine\n"}))];
            let args = ["--dangerously-skip-permissions"];
            if resumed {
                lab.server =
                    Server::start(vec![read, vec![text("Read.")], write, vec![text("Done.")]])
                        .unwrap();
                lab.begin(&[args[0], "Read."]);
                let done = Command::new("bash")
                    .args(["-c", way])
                    .current_dir(lab.path(""))
                    .status()
                    .unwrap();
                assert!(done.success(), "{way}");
                lab.run(&[args[0], "--resume", SESSION, "Write."]);
            } else {
                lab.server =
                    Server::start(vec![read, vec![bash("c2", way)], write, vec![text("Done.")]])
                        .unwrap();
                lab.begin(&[args[0], "Write."]);
            }
            assert_eq!(
                fs::read_to_string(&readme).unwrap(),
                "# Work\n",
                "{way}, resumed: {resumed}"
            );
            assert!(lab.transcript().contains("File has changed since it was read"), "{way}");
        }
    }
}

#[test]
fn g5_what_is_known_after_a_resume() {
    let lines: Vec<String> = (1..=30).map(|line| format!("line {line}\n")).collect();
    let lines = lines.concat();
    let edit = |id: &str, name: &str| {
        call(
            id,
            "Edit",
            &json!({"file_path": name, "old_string": "line 7\n", "new_string": "seven\n"}),
        )
    };
    let read = |id: &str, name: &str| call(id, "Read", &json!({"file_path": name}));
    let part = call("r2", "Read", &json!({"file_path": "part.txt", "offset": 1, "limit": 10}));
    let lab = Lab::new(&[
        &[
            read("r1", "whole.txt"),
            part,
            read("r3", "touched.txt"),
            read("r4", "edited.txt"),
            call("w1", "Write", &json!({"file_path": "written.txt", "content": lines})),
        ],
        &[call(
            "e0",
            "Edit",
            &json!({"file_path": "edited.txt", "old_string": "line 9\n", "new_string": "nine\n"}),
        )],
        &[text("Read.")],
        &[
            edit("e1", "whole.txt"),
            edit("e2", "part.txt"),
            edit("e3", "touched.txt"),
            edit("e4", "edited.txt"),
            edit("e5", "written.txt"),
        ],
        &[text("Done.")],
    ]);
    for name in ["whole.txt", "part.txt", "touched.txt", "edited.txt"] {
        lab.env.put(&format!("demo/{name}"), &lines);
    }
    lab.begin(&["--dangerously-skip-permissions", "Read."]);
    // Another time is no other content.
    let later = std::time::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    fs::File::options()
        .append(true)
        .open(lab.path("touched.txt"))
        .unwrap()
        .set_modified(later)
        .unwrap();
    lab.run(&["--dangerously-skip-permissions", "--resume", SESSION, "Edit."]);
    let has = |name: &str| fs::read_to_string(lab.path(name)).unwrap().contains("seven");
    let found = ["whole.txt", "part.txt", "touched.txt", "edited.txt", "written.txt"].map(has);
    // What was read in part has to be read again.
    assert_eq!(found, [true, false, true, true, true], "{}", lab.transcript());
}

#[test]
fn g3_what_had_come_before_an_interrupt_stays() {
    let half = vec![text("All that I know about knots is this.")];
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"});
    for (name, blocks, after, kept) in
        [("a text", half.clone(), 3, true), ("thinking", vec![thinking], 3, false)]
    {
        let mut lab = Lab::play(vec![Reply::Silent(blocks, after, Duration::from_secs(20))]);
        let mut command = lab.command(&["--session-id", SESSION, "Tell me."]);
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        until("the request", || !lab.server.requests().is_empty());
        thread::sleep(Duration::from_millis(400));
        assert!(
            Command::new("kill")
                .args(["-INT", &child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{name}");
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(stdout.contains("about knots is this."), kept, "{name}: {stdout}");
        assert!(stdout.ends_with("Interrupted.\n"), "{stdout}");
        let first_text = |line: &Value| {
            line["message"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
        };
        let assistant = lab
            .lines()
            .iter()
            .filter(|line| line["type"] == "assistant")
            .map(first_text)
            .collect::<Vec<_>>();
        assert_eq!(
            assistant,
            if kept { vec!["All that I know about knots is this.".to_owned()] } else { vec![] },
            "{name}"
        );
        assert_eq!(lab.check(), "full", "{name}");
        // It goes on from there.
        lab.server = Server::start(vec![vec![text("And so on.")]]).unwrap();
        let output = lab.run(&["--resume", SESSION, "Go on."]);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "And so on.\n",
            "{name}: {}",
            shown(&output)
        );
        let sent_text = lab.server.requests()[0]["messages"].to_string();
        assert_eq!(sent_text.contains("about knots is this."), kept, "{name}: {sent_text}");
        assert!(sent_text.contains("[Request interrupted by user]"), "{name}: {sent_text}");
    }
}

#[test]
fn g5_a_killed_agent_leaves_no_command_and_no_output() {
    let lab = Lab::new(&[
        &[
            call(
                "c1",
                "Bash",
                &json!({"command": "sleep 61013 & sleep 62013", "run_in_background": true}),
            ),
            bash("c2", "sleep 63013"),
        ],
        &[text("Done.")],
    ]);
    let args = ["--session-id", SESSION, "--dangerously-skip-permissions", "Wait."];
    // Killed with its group, as a terminal or a host may do it.
    let mut command = lab.command(&args);
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    // By what they do: inside of a sandbox, processes have other numbers.
    let all = ["61013", "62013", "63013"];
    until("the commands", || all.iter().all(|seconds| sleeps(seconds)));
    assert!(
        Command::new("kill")
            .args(["-KILL", "--", &format!("-{}", child.id())])
            .status()
            .unwrap()
            .success()
    );
    child.wait().unwrap();
    until("the end of the commands", || !all.iter().any(|seconds| sleeps(seconds)));
    // What they had put out is removed by the next run that runs one.
    let left = || {
        fs::read_dir(lab.env.path("tmp"))
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name())
            .collect::<Vec<_>>()
    };
    assert_eq!(left().len(), 1);
    let next = Lab {
        server: Server::start(vec![vec![bash("c1", "true")], vec![text("Done.")]]).unwrap(),
        env: lab.env,
    };
    let output = next.run(&["--resume", SESSION, "--dangerously-skip-permissions", "Go on."]);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    assert_eq!(fs::read_dir(next.env.path("tmp")).unwrap().count(), 0);
}

#[test]
fn g5_a_history_without_its_beginning_is_told_the_same() {
    let mut lab = Lab::new(&[&[text("One.")], &[text("Two.")]]);
    lab.env.put("demo/CLAUDE.md", "Be brief.\n");
    lab.begin(&["First."]);
    let kept: String = lab
        .transcript()
        .lines()
        .filter(|line| serde_json::from_str::<Value>(line).unwrap()["type"] != "user")
        .fold(String::new(), |all, line| all + line + "\n");
    fs::write(lab.file(), kept).unwrap();
    fs::remove_dir_all(lab.file().with_extension("")).unwrap();
    lab.server = Server::start(vec![vec![text("Three.")]]).unwrap();
    let output = lab.run(&["--resume", SESSION, "Second."]);
    let requests = lab.server.requests();
    assert_eq!(requests.len(), 1, "{}", shown(&output));
    let messages = requests[0]["messages"].as_array().unwrap();
    assert_eq!(messages[0]["role"], "user");
    assert!(messages[0].to_string().contains("Be brief."), "{messages:?}");
}
