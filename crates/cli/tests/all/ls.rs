//! `quipu ls` and `quipu files`.

use insta::assert_snapshot;

use crate::env::Env;

#[test]
fn all_sessions_newest_first() {
    assert_snapshot!(Env::with_sessions().run(&["ls", "--all", "--count"]));
}

#[test]
fn the_project_around_us() {
    let env = Env::with_sessions();
    let cwd = env.path("work/here");
    std::fs::create_dir_all(cwd.join("deeper")).unwrap();
    let name = transcript_slug(&cwd.to_string_lossy());
    env.put(
        &format!(".claude/projects/{name}/12345678-aaaa.jsonl"),
        "{\"type\":\"user\",\"uuid\":\"u\",\"message\":{\"content\":\"of this project\"}}\n",
    );
    let output = env.command(&["ls"]).current_dir(cwd.join("deeper")).output().unwrap();
    let text = env.show(&output);
    assert!(text.contains("of this project"), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("12345678")).count(), 1);
    assert!(!text.contains("Do a round"), "{text}");
    assert!(env.run(&["ls"]).contains("showing those of all projects"));
}

/// `last` is the first row of `ls` here, in every command; where `ls` shows other projects'
/// sessions there is none.
#[test]
fn last_is_the_first_row() {
    let env = Env::with_sessions();
    let cwd = env.path("work/here");
    std::fs::create_dir_all(cwd.join("deeper")).unwrap();
    let name = transcript_slug(&cwd.to_string_lossy());
    let script =
        testkit::session::Script::new().prompt("p1", "-", "here").says("a1", "p1", "m1", "a");
    for (id, age) in [("11111111-aaaa", 9_000), ("22222222-bbbb", 8_000), ("33333333-cccc", 8_500)]
    {
        let file = env.put(&format!(".claude/projects/{name}/{id}.jsonl"), script.text());
        crate::env::set_age(&file, age);
    }
    // Other projects have newer ones.
    assert!(
        env.run(&["ls", "--all"]).find("0b204f87") < env.run(&["ls", "--all"]).find("22222222")
    );
    let commands: [&[&str]; 14] = [
        &["show", "last"],
        &["turns", "last"],
        &["tree", "last"],
        &["cat", "last"],
        &["check", "last"],
        &["history", "last"],
        &["files", "last"],
        &["inventory", "last", "--json"],
        &["drift", "last"],
        &["export", "json", "last"],
        &["repair", "last", "--dry-run"],
        &["strip", "last", "--noise", "--dry-run"],
        &["clone", "last", "--dry-run", "--json"],
        &["ship", "last", "--dry-run"],
    ];
    for folder in [&cwd, &cwd.join("deeper")] {
        let run = |args: &[&str]| env.command(args).current_dir(folder).output().unwrap();
        let rows = String::from_utf8(run(&["ls"]).stdout).unwrap();
        assert!(rows.lines().nth(1).unwrap().starts_with("22222222"), "{rows}");
        for args in commands {
            // What is said of it is what is said if it is named by its id.
            let by_id: Vec<&str> =
                args.iter().map(|arg| if *arg == "last" { "22222222" } else { arg }).collect();
            let (last, named) = (run(args), run(&by_id));
            assert_eq!(last.status.code(), named.status.code(), "{args:?}");
            let text =
                |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(" last", " 22222222");
            assert_eq!(text(last.stdout), text(named.stdout), "{args:?}");
        }
    }
    for args in commands {
        let text = env.run(args);
        assert!(text.starts_with("exit 3\n--- stderr\nerror: no session found for"), "{text}");
        assert!(text.contains("`quipu ls --all` lists all"), "{text}");
    }
    // A file of that name is a file.
    env.put("last", script.text());
    assert!(env.run(&["cat", "last"]).starts_with("exit 0"));
}

/// Whoever reads the whole file says what is broken in the middle.
#[test]
fn counting_finds_damage_anywhere() {
    let env = Env::bare();
    let line =
        "{\"type\":\"user\",\"uuid\":\"u\",\"cwd\":\"/w\",\"message\":{\"content\":\"x\"}}\n";
    let long = line.repeat(5_000);
    env.put(".claude/projects/-w/damaged1.jsonl", format!("{long}{{\"type\":\"us\n{long}"));
    env.put(".claude/projects/-w/nulbytes.jsonl", format!("{long}\0\0\0\n{long}"));
    env.put(".claude/projects/-w/healthy1.jsonl", &long);
    let flags = |args: &[&str]| {
        let text = String::from_utf8(env.output(args).stdout).unwrap();
        let rows =
            text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        rows.map(|row| format!("{} {}", row["id"].as_str().unwrap(), row["flags"]))
            .collect::<Vec<_>>()
    };
    let sorted = |mut rows: Vec<String>| {
        rows.sort();
        rows
    };
    assert_eq!(
        sorted(flags(&["ls", "--all", "--json"])),
        ["damaged1 []", "healthy1 []", "nulbytes []"]
    );
    assert_eq!(
        sorted(flags(&["ls", "--all", "--json", "--count"])),
        [r#"damaged1 ["damaged"]"#, "healthy1 []", r#"nulbytes ["nul"]"#]
    );
    let table = env.run(&["ls", "--all", "--count"]);
    assert!(table.contains("10000  damaged") && table.contains("10000  nul"), "{table}");
}

/// The rule in its plainest form; the paths of this test have only ASCII and are short.
fn transcript_slug(cwd: &str) -> String {
    cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[test]
fn filters() {
    let env = Env::with_sessions();
    let ids = |args: &[&str]| {
        let text = String::from_utf8(env.output(args).stdout).unwrap();
        text.lines().skip(1).map(|line| line[..8].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&["ls", "--all", "--since", "3h"]).len(), 3);
    assert_eq!(ids(&["ls", "--all", "--since", "2026-11-19"]).len(), 9);
    assert_eq!(ids(&["ls", "--all", "--since", "2026-11-20"]).len(), 0);
    assert_eq!(ids(&["ls", "--project", "other"]).len(), 1);
    assert_eq!(ids(&["ls", "--project", "/home/dev/demo"]).len(), 8);
    assert_eq!(ids(&["ls", "--project", "/home/dev/demo/"]).len(), 8);
    assert_eq!(ids(&["ls", "--project", "/home/dev/x/../demo"]).len(), 8);
    assert_eq!(ids(&["ls", "--project", "."]).len(), 0);
    assert_eq!(ids(&["ls", "--all", "--since", "2026-11-19T21:30"]).len(), 2);
    assert_eq!(ids(&["ls", "--all", "--since", "2026-11-19T21:30:00Z"]).len(), 2);
    assert_eq!(ids(&["ls", "--all", "--since", "99999999w"]).len(), 9);
}

/// A date is a day where the user is.
#[test]
fn dates_are_of_the_local_time() {
    let env = Env::with_sessions();
    for (zone, expected) in [("UTC", 0), ("JST-9", 7), ("EST5", 0)] {
        let mut command = env.command(&["ls", "--all", "--json", "--since", "2026-11-20"]);
        let text = String::from_utf8(command.env("TZ", zone).output().unwrap().stdout).unwrap();
        assert_eq!(text.lines().count(), expected, "{zone}");
    }
}

#[test]
fn json_is_one_object_a_session() {
    let env = Env::with_sessions();
    let text = String::from_utf8(env.output(&["ls", "--all", "--json", "--count"]).stdout).unwrap();
    let badc0ffe = text.lines().find(|line| line.contains("badc0ffe")).unwrap();
    assert_snapshot!(badc0ffe.replace(env.path("").to_str().unwrap(), "[HOME]/"));
    assert_eq!(text.lines().count(), 9);
}

#[test]
fn a_word_selects_rows() {
    let env = Env::with_sessions();
    let ids = |word: &str| -> Vec<String> {
        let output = env.output(&["ls", "--all", "--json", word]);
        let text = String::from_utf8(output.stdout).unwrap();
        let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
        rows.map(|row: serde_json::Value| row["id"].as_str().unwrap()[..8].to_owned()).collect()
    };
    assert_eq!(ids("LAB session"), ["0b204f87"]);
    assert_eq!(ids("file work"), ["95e0b7f2", "badc0ffe"]);
    assert_eq!(ids("c5b9"), ["c5b9db19"]);
    assert!(ids("dev/demo").len() > 5, "a part of the folder");
    let nothing = "no sessions with `zebra`";
    assert_eq!(env.run(&["ls", "--all", "zebra"]), format!("exit 0\n--- stderr\n{nothing}\n"));
    // A folder without sessions is no reason to look in all: that was done.
    let elsewhere = env.run(&["ls", "zebra"]);
    assert!(elsewhere.ends_with(&format!("{nothing}\n")), "{elsewhere}");
    let name = transcript_slug(env.path("").to_string_lossy().trim_end_matches('/'));
    env.put(&format!(".claude/projects/{name}/12345678-aaaa.jsonl"), "{}\n");
    let here = env.run(&["ls", "zebra"]);
    assert!(here.ends_with(&format!("{nothing}; `--all` looks in all projects\n")), "{here}");
}

#[test]
fn the_files_of_a_session() {
    let env = Env::with_sessions();
    let id = "c5b9db19-a9fa-42b7-9f6b-0b8b73532119";
    env.put(&format!(".claude/projects/-home-dev-demo/{id}/tool-results/toolu_1.txt"), "long");
    env.put(
        &format!(".claude/projects/-home-dev-demo/{id}/subagents/agent-aad5716.meta.json"),
        r#"{"agentType":"Explore","description":"Inspect widget","toolUseId":"toolu_1"}"#,
    );
    env.put(&format!(".claude/file-history/{id}/0123456789abcdef@v1"), "old");
    env.put(".claude/history.jsonl", format!("{{\"display\":\"x\",\"sessionId\":\"{id}\"}}\n"));
    assert_snapshot!(env.run(&["files", "c5b9"]));
}

/// A session can be named by what it is about; a name that several have lists them.
#[test]
fn sessions_are_found_by_their_words() {
    let env = Env::with_sessions();
    let found = |name: &str| env.run(&["show", name]);
    // A part of a title, and of a first prompt, in any case.
    assert!(found("LAB sess").contains("0b204f87"), "{}", found("LAB sess"));
    assert!(found("use a helper").contains("c5b9db19"));
    // A sub-agent.
    assert!(found("aad5716").contains("agent-aad5716"), "{}", found("aad5716"));
    assert_snapshot!(found("file work"));
    // Too short to mean anything.
    assert!(found("la").starts_with("exit 3"));
    // The user is told which one it is.
    assert!(found("LAB sess").contains("session 0b204f87"), "{}", found("LAB sess"));
    // What looks like the start of an id is nothing else to a command that changes something; and a
    // sub-agent is not a session.
    let title = r#"{"type":"custom-title","customTitle":"the decade parser","sessionId":"x"}"#;
    let line = r#"{"type":"user","uuid":"u","message":{"content":"hello"}}"#;
    env.put(".claude/projects/-home-dev-demo/12345678-aaaa.jsonl", format!("{line}\n{title}\n"));
    assert!(found("dec").contains("12345678"), "{}", found("dec"));
    for name in ["dec", "aad5716"] {
        let text = env.run(&["strip", name, "--copies", "--in-place"]);
        assert!(text.starts_with("exit 3"), "{text}");
    }
    assert!(env.run(&["clone", "decade parser", "--dry-run"]).starts_with("exit 0"));
    // Nothing is changed by a name that several have.
    assert!(env.run(&["strip", "file work", "--copies", "--in-place"]).starts_with("exit 3"));
}
