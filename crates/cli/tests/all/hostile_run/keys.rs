//! E14: the key is in no environment that a command can see, and nowhere afterwards.

use base64::Engine as _;

use super::*;

/// What must not be found: the key, as it is and within base64.
fn shapes() -> Vec<String> {
    let encoded = (0..3).map(|before| {
        let text = format!("{}{KEY}", "x".repeat(before));
        let whole = base64::engine::general_purpose::STANDARD_NO_PAD.encode(text);
        whole[4..whole.len() - 4].to_owned()
    });
    [KEY.to_owned()].into_iter().chain(encoded).collect()
}

/// Whether a file or an output holds the key, also broken into lines.
fn holds_key(text: &str) -> bool {
    let joined = text.replace(['\n', '\r'], "").replace("\\n", "");
    shapes().iter().any(|shape| joined.contains(shape))
}

/// All files below a folder that hold the key.
fn holding(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(holding(&path));
        } else if kind.is_file() && holds_key(&String::from_utf8_lossy(&fs::read(&path).unwrap())) {
            found.push(path);
        }
    }
    found
}

/// What a command finds that looks for the key in every process of this home: others may have it.
const LOOK: &str = "env; tr '\\0' '\\n' </proc/$PPID/environ; for p in /proc/[0-9]*; do \
    e=$(tr '\\0' '\\n' <$p/environ 2>/dev/null); case $e in *HOME=$HOME*) echo \"$e\";; esac; done; \
    cat /proc/$PPID/cmdline; ls -l /proc/$PPID/fd";

#[test]
fn e14_no_command_sees_the_key() {
    let runs = |lab: &Lab, command: &mut Command| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
        // It went to the API, and the prompt came by the standard input that was there before.
        let sent_text = lab.server.requests().last().unwrap()["messages"].to_string();
        assert!(sent_text.contains("PATH=/usr/local/"), "{sent_text}");
        assert!(
            !sent_text.contains("only-here") && !sent_text.contains("[redacted api key]"),
            "{sent_text}"
        );
        assert!(
            !sent_text.contains("hunter2222") && !sent_text.contains("oauth-token-value"),
            "{sent_text}"
        );
        assert!(holding(&lab.env.path("")).is_empty());
    };
    let answers: [&[Value]; 2] = [&[bash("c1", LOOK)], &[text("Done.")]];
    let lab = Lab::new(&answers);
    let mut command =
        lab.command(&["--session-id", SESSION, "--dangerously-skip-permissions", "Look."]);
    // One of its own: others that are just starting have theirs.
    command.env("ANTHROPIC_API_KEY", "sk-ant-this-key-is-only-here-0123456789");
    command.env("CLAUDE_CODE_OAUTH_TOKEN", "oauth-token-value");
    command.env("HTTPS_PROXY", "http://me:hunter2222@127.0.0.1:9");
    runs(&lab, &mut command);
    // Keys that settings bring do not reach commands either.
    let lab = Lab::new(&answers);
    let settings =
        json!({"env": {"ANTHROPIC_AUTH_TOKEN": KEY, "ANTHROPIC_FOUNDRY_API_KEY": KEY}}).to_string();
    let args = [
        "--session-id",
        SESSION,
        "--dangerously-skip-permissions",
        "--settings",
        &settings,
        "--",
        "Look.",
    ];
    let output = lab.run(&args);
    let sent_text = lab.server.requests()[1]["messages"].to_string();
    // The command line is the user's own: there it is found, and hidden.
    assert!(sent_text.contains("PATH=") && !holds_key(&sent_text), "{}", shown(&output));
    // As another user, who may not look into the process at all.
    let lab = Lab::new(&answers);
    if !Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", "true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("not tried as another user: this one may not become another");
        assert!(!testkit::is_ci(), "in CI nothing is left out");
        return;
    }
    // Without the sandbox, in which the process would not even be seen.
    let mut quipu = lab.command(&["--session-id", SESSION, "--dangerously-skip-permissions"]);
    quipu.args(["--sandbox", "off", "Look."]);
    let program = lab.env.put("bin/quipu", fs::read(quipu.get_program()).unwrap());
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let everything = ["-R", "a+rwX", lab.env.path("").to_str().unwrap()].map(str::to_owned);
    assert!(Command::new("chmod").args(everything).status().unwrap().success());
    let mut other = Command::new("setpriv");
    other
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(quipu.get_args());
    other.env_clear().envs(quipu.get_envs().filter_map(|(name, value)| Some((name, value?))));
    other.current_dir(lab.env.path("demo")).stdin(Stdio::null());
    let output = other.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let sent_text = lab.server.requests()[1]["messages"].to_string();
    assert!(sent_text.contains("Permission denied") && !holds_key(&sent_text), "{sent_text}");
}

#[test]
fn e14_starting_again_changes_nothing_else() {
    // The prompt by the standard input, the name by which it was called, and the exit code.
    let lab = Lab::new(&[&[text("Done.")]]);
    let link = lab.env.path("claude");
    symlink(env!("CARGO_BIN_EXE_quipu"), &link).unwrap();
    let quipu = lab.command(&[]);
    let mut command = Command::new(&link);
    command.args(["-p", "--output-format", "json"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.env_clear().envs(quipu.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = command.current_dir(lab.env.path("demo")).spawn().unwrap();
    let id = child.id();
    child.stdin.take().unwrap().write_all(b"From the pipe.").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{} {id}", shown(&output));
    assert!(lab.server.requests()[0]["messages"].to_string().contains("From the pipe."));
    // A mark that somebody forged is no reason to wait, nor to take what a host says.
    let lab = Lab::new(&[&[text("Done.")]]);
    let script = "QUIPU_HANDOVER=$$ exec \"$@\"";
    let quipu = lab.command(&["Hello"]);
    let mut forged = Command::new("bash");
    forged.args(["-c", script, "bash"]).arg(quipu.get_program()).args(quipu.get_args());
    forged.env_clear().envs(quipu.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    forged.current_dir(lab.env.path("demo")).stdin(std::os::fd::OwnedFd::from(theirs));
    let begin = Instant::now();
    let mut child = forged.stdout(Stdio::piped()).spawn().unwrap();
    (&ours).write_all(b"quip and more").unwrap();
    drop(ours);
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    assert_eq!((child.wait().unwrap().code(), stdout.as_str()), (Some(0), "Done.\n"));
    assert!(begin.elapsed() < Duration::from_secs(3));
    assert!(lab.server.requests()[0]["messages"].to_string().contains("quip and more"));
}

#[test]
fn e14_the_key_is_nowhere_afterwards() {
    let half = KEY.len() / 2;
    let (first, last) = KEY.split_at(half);
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("ab{KEY}\n"));
    let shown_key = [
        bash(
            "c1",
            &format!(
                "echo {KEY}; printf 'x%s' {KEY} | base64; printf %s {KEY} | base64 -w0 | tr '+/' '-_'"
            ),
        ),
        bash("c2", &format!("echo {KEY} >&2; exit 3")),
        // Long enough to be put aside, with the key across a border of any size.
        bash(
            "c3",
            &format!(
                "head -c 65500 /dev/zero | tr '\\0' x; echo {KEY}; head -c 40000 /dev/zero | tr '\\0' y"
            ),
        ),
        bash(
            "c4",
            &format!(
                "head -c 1950 /dev/zero | tr '\\0' x; head -c {half} ../raw.key; sleep 2.6; tail -c +{} ../raw.key; sleep 2.2",
                half + 1
            ),
        ),
        call(
            "c5",
            "Bash",
            &json!({"command": format!("head -c {half} ../raw.key; sleep 0.7; tail -c +{} ../raw.key; sleep 0.3; echo; base64 ../raw.key", half + 1), "run_in_background": true}),
        ),
        call("c6", "Write", &json!({"file_path": "made.txt", "content": KEY})),
        call("c7", "Read", &json!({"file_path": "key.txt"})),
        call("c8", "Grep", &json!({"pattern": "sk-ant", "path": ".", "output_mode": "content"})),
        bash("c9", "sleep 0.4"),
    ];
    let mut lab = Lab::new(&[]);
    lab.env.put("demo/key.txt", format!("one\n{KEY}\n{encoded}\n"));
    lab.env.put("raw.key", KEY);
    let mut reply = vec![text(&format!("The key is {KEY}, and {encoded}."))];
    reply.extend(shown_key);
    lab.server =
        Server::start(vec![reply, vec![text(KEY)], vec![text(&encoded)], vec![text("Done.")]])
            .unwrap();
    let args = [
        "--session-id",
        SESSION,
        "--dangerously-skip-permissions",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
        "Show me.",
    ];
    let output = lab.run(&args);
    let printed = shown(&output);
    assert!(!holds_key(&printed), "{printed}");
    assert!(!printed.contains(first) && !printed.contains(&last[..last.len() - 2]), "{printed}");
    assert!(printed.contains("[redacted api key]"));
    let requests = lab.server.requests();
    assert!(requests.len() >= 3 && !requests.iter().any(|request| holds_key(&request.to_string())));
    fs::remove_file(lab.path("key.txt")).unwrap();
    fs::remove_file(lab.env.path("raw.key")).unwrap();
    // What a model wants to be written is written as it wants it, and copies of it are exact.
    assert_eq!(fs::read_to_string(lab.path("made.txt")).unwrap(), KEY);
    fs::remove_file(lab.path("made.txt")).unwrap();
    fs::remove_dir_all(lab.env.path(".claude/file-history")).unwrap();
    fs::remove_dir_all(lab.env.path(".local/state/quipu/snapshots")).unwrap();
    assert_eq!(holding(&lab.env.path("")), Vec::<PathBuf>::new());
    let transcript = lab.transcript();
    assert!(!transcript.contains(first), "a half of it is there");
    assert_eq!(lab.check(), "full");
    // An error of the API may quote it.
    let body = json!({"type": "error", "error": {"type": "authentication_error", "message": format!("invalid x-api-key: {KEY}")}});
    let lab = Lab::play(vec![Reply::Status(401, String::new(), body.to_string())]);
    let output = lab.begin(&["Hello"]);
    assert!(
        output.status.code() == Some(1) && shown(&output).contains("[redacted api key]"),
        "{}",
        shown(&output)
    );
    assert!(!holds_key(&shown(&output)) && holding(&lab.env.path("")).is_empty());
}

/// A file that holds the key is shown without it: whoever writes what was shown would lose it.
#[test]
fn e14_a_key_in_a_file_is_not_overwritten_by_what_hides_it() {
    let content = "A=1\nANTHROPIC_API_KEY=[redacted api key]\nB=2\n";
    let lab = Lab::new(&[
        &[call("c1", "Read", &json!({"file_path": "demo.env"}))],
        &[call("c2", "Write", &json!({"file_path": "demo.env", "content": content}))],
        &[call(
            "c3",
            "Edit",
            &json!({"file_path": "demo.env", "old_string": "A=1", "new_string": "A=2"}),
        )],
        &[text("Done.")],
    ]);
    lab.env.put("demo/demo.env", format!("A=1\nANTHROPIC_API_KEY={KEY}\n"));
    let output = lab.begin(&["--permission-mode", "acceptEdits", "Add B."]);
    assert_eq!(output.status.code(), Some(0), "{}", shown(&output));
    let sent_text = lab.server.requests()[2]["messages"].to_string();
    assert!(sent_text.contains("holds a key of the API that you were not shown"), "{sent_text}");
    let kept = fs::read_to_string(lab.path("demo.env")).unwrap();
    assert_eq!(kept, format!("A=2\nANTHROPIC_API_KEY={KEY}\n"));
}
