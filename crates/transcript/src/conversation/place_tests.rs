use std::fs::create_dir_all;

use super::*;

#[allow(clippy::disallowed_methods, reason = "tests make the files they need")]
fn put(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn slugs_are_the_clients() {
    for (cwd, name) in [
        ("/home/dev/demo", "-home-dev-demo"),
        ("/a.b_c d/é", "-a-b-c-d--"),
        ("/emoji/😀/x", "-emoji----x"),
        ("/中文", "---"),
        (r"E:\workspaces\project", "E--workspaces-project"),
        (r"C:\Users\admin\code", "C--Users-admin-code"),
        ("/Users/x/My-App", "-Users-x-My-App"),
    ] {
        assert_eq!(slug(cwd), name, "{cwd}");
    }
}

/// The hash was computed with the client's rule in another language.
#[test]
fn long_slugs_are_cut_and_hashed() {
    let exactly = format!("/{}", "a".repeat(199));
    assert_eq!(slug(&exactly), format!("-{}", "a".repeat(199)));
    let longer = format!("/{}", "a".repeat(200));
    assert_eq!(slug(&longer), format!("-{}-{}", "a".repeat(199), LONG_HASH));
    assert_eq!(slug_uncut(&longer).len(), 201);
    let emoji = format!("/{}", "😀".repeat(120));
    assert_eq!(slug(&emoji), format!("{}-{}", "-".repeat(200), EMOJI_HASH));
}

const LONG_HASH: &str = "b6ymvl";
const EMOJI_HASH: &str = "fp2zqh";

fn line(session: &str) -> String {
    format!("{{\"type\":\"user\",\"uuid\":\"u\",\"sessionId\":\"{session}\"}}\n")
}

fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for (name, session) in [
        ("projects/-p/aaaa1111.jsonl", "aaaa1111"),
        ("projects/-p/aaaa2222.jsonl", "aaaa2222"),
        ("projects/-p/agent-beside.jsonl", "aaaa1111"),
        ("projects/-p/agent-other.jsonl", "aaaa2222"),
        ("projects/-p/aaaa1111/subagents/agent-in.jsonl", "aaaa1111"),
        ("projects/-p/aaaa1111/subagents/team/agent-deep.jsonl", "aaaa1111"),
        ("projects/-p/subagents/agent-seed004.jsonl", "aaaa1111"),
        ("conversations/_p/2025.jsonl", "seed000"),
    ] {
        put(root, name, &line(session));
    }
    put(root, "projects/-p/aaaa1111/subagents/agent-in.meta.json", r#"{"agentType":"x"}"#);
    put(root, "projects/-p/aaaa1111/tool-results/toolu_1.txt", "long");
    put(root, "projects/-p/sessions-index.json", r#"{"entries":[{"sessionId":"aaaa1111"}]}"#);
    put(root, "file-history/aaaa1111/0123@v1", "old");
    put(root, "todos/aaaa1111-agent-aaaa1111.json", "[]");
    put(root, "history.jsonl", "{\"display\":\"x\",\"sessionId\":\"aaaa1111\"}\n");
    put(root, "settings.json", r#"{"cleanupPeriodDays":99}"#);
    let home = Home::open(root).unwrap();
    (folder, home)
}

#[test]
fn a_home_knows_its_sessions() {
    let (_folder, home) = home();
    let ids: Vec<String> = home.sessions().into_iter().map(|session| session.id.into()).collect();
    assert_eq!(ids, ["aaaa1111", "aaaa2222", "2025"]);
    assert_eq!(home.transcripts().len(), 8);
    assert_eq!(home.cleanup_days().unwrap(), 99);
    fs::remove_file(home.settings()).unwrap();
    assert_eq!(home.cleanup_days().unwrap(), CLEANUP_DAYS);
}

/// A folder without folders of sessions is not a home; one whose sessions cannot be read is an
/// error.
#[test]
fn a_home_is_missing_or_unreadable() {
    let (folder, home) = home();
    let open = |root: &Path| Home::open(root).map_err(|error| error.to_string());
    let missing = |root: &Path| Err(format!("`{}` is not a Claude home", root.display()));
    for root in
        [home.root.join("projects"), home.root.join("none"), home.root.join("history.jsonl")]
    {
        assert_eq!(open(&root), missing(&root));
    }
    let root = folder.path().join("other");
    put(&root, "projects", "no folder");
    assert_eq!(open(&root), Err(format!("cannot read `{}`", root.join("projects").display())));
    #[cfg(unix)]
    for to in ["projects", "nowhere"] {
        let path = root.join("projects");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(to, &path).unwrap();
        assert_eq!(open(&root), Err(format!("cannot read `{}`", path.display())));
    }
}

/// A pipe, a device or a cycle of links that is named like a session is not one, and is listed.
#[cfg(unix)]
#[test]
fn only_regular_files_are_sessions() {
    let (folder, home) = home();
    let project = folder.path().join("projects/-p");
    for (name, to) in [("zero", "/dev/zero"), ("loop", "loop.jsonl"), ("gone", "nowhere")] {
        std::os::unix::fs::symlink(to, project.join(format!("{name}.jsonl"))).unwrap();
    }
    let listed = home.list();
    assert_eq!(listed.sessions.len(), 3);
    let names = listed
        .unreadable
        .iter()
        .map(|error| error.path().unwrap().file_name().unwrap().to_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["loop.jsonl", "zero.jsonl"]);
    let homes = [home];
    for name in ["zero", "loop", "/dev/zero", project.join("zero.jsonl").to_str().unwrap()] {
        let found = find(&homes, name);
        assert!(matches!(found, Err(NameError::Unreadable { .. })), "{name}: {found:?}");
    }
    // A file that cannot be read may mention the session.
    fs::remove_file(folder.path().join("history.jsonl")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("history.jsonl")).unwrap();
    let session = find(&homes, "aaaa2222").unwrap();
    assert_eq!(belongings(&session).last().unwrap().thing, Thing::History);
}

/// A slug is compared with the names that are there: it never leads out of the folder.
#[test]
fn a_plan_belongs_to_the_session_with_its_slug() {
    let (folder, home) = home();
    let root = folder.path();
    let named = |slug: &str, text: &str| {
        format!(r#"{{"type":"user","uuid":"u","slug":"{slug}","message":{{"slug":"{text}"}}}}"#)
            + "\n"
    };
    let lines = [line("aaaa2222"), named("calm-kelp", "no-slug"), named("../settings", "x")];
    put(root, "projects/-p/aaaa2222.jsonl", &lines.concat());
    put(root, "settings.md", "outside");
    for name in ["calm-kelp.md", "calm-kelp.txt", "no-slug.md", "other.md"] {
        put(root, &format!("plans/{name}"), "# Plan");
    }
    let plans = |id: &str| -> Vec<PathBuf> {
        let session = find(std::slice::from_ref(&home), id).unwrap();
        let all = belongings(&session).into_iter().filter(|one| one.thing == Thing::Plan);
        all.map(|one| one.path).collect()
    };
    assert_eq!(plans("aaaa2222"), [root.join("plans/calm-kelp.md")]);
    assert!(plans("aaaa1111").is_empty());
}

#[test]
fn sub_agents_of_all_layouts_are_found() {
    let (_folder, home) = home();
    let session = find(std::slice::from_ref(&home), "aaaa1111").unwrap();
    let mut ids: Vec<String> = agents(&session).into_iter().map(|agent| agent.id.into()).collect();
    ids.sort();
    assert_eq!(ids, ["beside", "deep", "in", "seed004"]);
    let with_meta = agents(&session).into_iter().find(|agent| agent.meta.is_some()).unwrap();
    assert_eq!(with_meta.meta().unwrap(), br#"{"agentType":"x"}"#);
}

#[test]
fn belongings_are_complete() {
    let (_folder, home) = home();
    let session = find(std::slice::from_ref(&home), "aaaa1111").unwrap();
    let folder = session.folder();
    put(&folder, "tool-results/deep/er/r.txt", "x");
    put(&folder, "session-memory/summary.md", "x");
    let root = &home.root;
    for name in ["tasks/aaaa1111/.lock", "tasks/aaaa1111/1.json", "image-cache/aaaa1111/1.png"] {
        put(root, name, "x");
    }
    put(root, "session-env/aaaa1111/hook-0.sh", "x");
    put(root, "debug/aaaa1111.txt", "x");
    put(root, "paste-cache/0123456789abcdef.txt", "x");
    // Of others, or of nobody.
    for name in ["debug/aaaa11112.txt", "todos/aaaa11112-agent-x.json", "tasks/aaaa1111x/1.json"] {
        put(root, name, "x");
    }
    put(root, "paste-cache/fedcba9876543210.txt", "x");
    let pasted = r#"{"display":"[Pasted text #1]","pastedContents":{"1":{"id":1,"type":"text","contentHash":"0123456789abcdef"}},"sessionId":"aaaa1111"}"#;
    put(root, "history.jsonl", &format!("{pasted}\n"));
    let things: Vec<&str> = belongings(&session).iter().map(|one| one.thing.name()).collect();
    assert_eq!(
        things,
        [
            "transcript",
            "agent",
            "agent-meta",
            "agent",
            "agent",
            "agent",
            "tool-result",
            "tool-result",
            "side-file",
            "index-row",
            "file-history",
            "todos",
            "task",
            "task",
            "pasted-image",
            "session-env",
            "debug-log",
            "history",
            "pasted-text"
        ]
    );
}

/// What a client names after a session belongs to it, wherever in the home it is.
#[test]
fn what_is_named_after_a_session_belongs_to_it() {
    let (_folder, home) = home();
    let id = "0e000000-1111-4222-8333-444444444444";
    let other = "0e000000-1111-4222-8333-444444444445";
    put(&home.root, &format!("projects/-p/{id}.jsonl"), &line(id));
    let its = [
        format!("later/{id}/deep/x"),
        format!("later/events.{id}.{other}.json"),
        format!("state_{id}.json"),
        format!("usage-data/facets/{id}.json"),
    ];
    for name in &its {
        put(&home.root, name, "x");
    }
    for name in [
        format!("later/{other}/x"),
        format!("later/events.{other}.{id}.json"),
        format!("later/x{id}.json"),
        format!("later/deep/{id}.json"),
        format!("plugins/{id}.json"),
    ] {
        put(&home.root, &name, "x");
    }
    let session = find(std::slice::from_ref(&home), id).unwrap();
    let all = belongings(&session).into_iter().filter(|one| one.thing == Thing::HomeFile);
    let mut found: Vec<PathBuf> = all.map(|one| one.path).collect();
    found.sort();
    assert_eq!(found, its.map(|name| home.root.join(name)));
    // Of a session with an odd name, and around a file that is in no home, nobody knows.
    put(&home.root, "later/aaaa1111.json", "x");
    let odd = find(std::slice::from_ref(&home), "aaaa1111").unwrap();
    assert!(belongings(&odd).iter().all(|one| one.thing != Thing::HomeFile));
    put(&home.root, &format!("backup/-p/{id}.jsonl"), &line(id));
    let copy = Session::at(&home.root.join(format!("backup/-p/{id}.jsonl"))).unwrap();
    assert_eq!(home_of(&copy), None);
    assert!(belongings(&copy).iter().all(|one| one.thing != Thing::HomeFile));
}

#[test]
fn files_of_a_home_have_their_place_for_another_session() {
    let (_folder, home) = home();
    let root = &home.root;
    let session = find(std::slice::from_ref(&home), "aaaa1111").unwrap();
    for (name, around, other) in [
        ("file-history/aaaa1111/0123@v1", "file-history", "file-history/bbbb/0123@v1"),
        ("tasks/aaaa1111/1.json", "tasks", "tasks/bbbb/1.json"),
        ("todos/aaaa1111-agent-aaaa1111.json", "todos", "todos/bbbb-agent-bbbb.json"),
        ("state_aaaa1111.json", "", "state_bbbb.json"),
        ("projects/-p/aaaa1111/x.json", "projects/-p", "projects/-p/bbbb/x.json"),
    ] {
        let path = root.join(name);
        assert_eq!(folder_around(&session, &path), root.join(around), "{name}");
        assert_eq!(for_session(&session, &path, "bbbb"), root.join(other), "{name}");
    }
}

#[test]
fn what_the_client_records_is_told_from_what_people_write() {
    let home = Path::new("/h");
    for name in ["tasks/x/1.json", "debug/x.txt", "plans/a.md", "shell-snapshots/s.sh"] {
        assert!(is_record(home, &home.join(name)), "{name}");
    }
    for name in ["settings.json", "CLAUDE.md", "agents/x.md", "commands/x.md", "tasks.json"] {
        assert!(!is_record(home, &home.join(name)), "{name}");
    }
    assert!(!is_record(home, Path::new("/other/tasks/1.json")));
}

#[test]
fn names_lead_to_one_session_or_say_why_not() {
    let (folder, home) = home();
    put(
        folder.path(),
        "projects/-p/bbbb.jsonl",
        "{\"type\":\"custom-title\",\"customTitle\":\"fix/the thing\",\"sessionId\":\"bbbb\"}\n",
    );
    let homes = [home.clone()];
    let id = |name: &str| find(&homes, name).map(|session| session.id);
    assert_eq!(id("aaaa1111").unwrap(), "aaaa1111");
    assert_eq!(id("aaaa2").unwrap(), "aaaa2222");
    assert_eq!(id("fix/the thing").unwrap(), "bbbb");
    for name in [home.root.join("projects/-p/agent-in.jsonl").to_str().unwrap(), "missing.jsonl"] {
        assert!(matches!(id(name), Err(NameError::NoFile { .. })), "{name}");
    }
    let path = home.root.join("projects/-p/agent-other.jsonl");
    assert_eq!(find(&[], &path.to_string_lossy()).unwrap().id, "agent-other");
    assert!(matches!(id("zzz"), Err(NameError::NotFound { .. })));
    assert!(matches!(id(""), Err(NameError::NotFound { .. })));
    match id("aaaa") {
        Err(NameError::Ambiguous { candidates, .. }) => assert_eq!(candidates.len(), 2),
        other => panic!("{other:?}"),
    }
}

#[test]
fn other_files_are_no_transcripts() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    put(root, "a/history.jsonl", "{\"display\":\"x\",\"timestamp\":1,\"sessionId\":\"s\"}\n");
    put(root, "a/requests.jsonl", "{\"model\":\"m\",\"messages\":[]}\n");
    put(
        root,
        "a/stdout.jsonl",
        "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"uuid\":\"u\"}\n",
    );
    put(root, "a/real.jsonl", &line("s"));
    put(root, "a/empty.jsonl", "");
    put(root, "a/torn.jsonl", "{\"type\":\"us");
    put(root, "a/seed002.jsonl", "{\"type\":\"user\",\"content\":\"hi\"}\n");
    let names: Vec<String> = transcripts_under(root)
        .unwrap()
        .iter()
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, ["empty", "real", "seed002", "torn"]);
    assert!(transcripts_under(&root.join("none")).is_err());
}

#[test]
fn new_types_are_transcripts_too() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "new.jsonl", "{\"type\":\"turn-v3\",\"uuid\":\"u\",\"sessionId\":\"s\"}\n");
    assert_eq!(transcripts_under(folder.path()).unwrap().len(), 1);
}

#[test]
fn only_transcripts_are_taken_from_a_home() {
    let (folder, home) = home();
    put(folder.path(), "projects/-p/memory/notes.jsonl", "{\"note\":1}\n");
    assert_eq!(home.transcripts().len(), 8);
    let with = Beside::in_project(&folder.path().join("projects/-p")).sessions();
    assert_eq!(with.len(), 2);
    assert_eq!(home.unreadable(), Vec::<PathBuf>::new());
}

#[cfg(unix)]
#[test]
fn a_project_that_is_a_link_counts_once() {
    let (folder, home) = home();
    let projects = folder.path().join("projects");
    fs::rename(projects.join("-p"), folder.path().join("elsewhere")).unwrap();
    for name in ["-p", "-q"] {
        std::os::unix::fs::symlink(folder.path().join("elsewhere"), projects.join(name)).unwrap();
    }
    assert_eq!(home.sessions().len(), 3);
}
