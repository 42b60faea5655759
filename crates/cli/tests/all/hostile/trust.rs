//! What can be trusted, what that covers, and how it is remembered.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// A tool that only a folder's settings allow: whether it ran says whether the folder is trusted.
fn allows_bash(lab: &mut Lab, folder: &str, args: &[&str]) -> (bool, Output) {
    lab.server = Server::start(vec![
        vec![call("c1", "Bash", &json!({"command": "touch made"}))],
        vec![text("Done.")],
    ])
    .unwrap();
    assert!(!folder.is_empty(), "nothing is written outside of the surroundings");
    let settings = json!({"permissions": {"allow": ["Bash"]}});
    lab.env.put(&format!("{folder}/.claude/settings.json"), settings.to_string());
    let cwd = lab.env.path(folder);
    let all: Vec<&str> = args.iter().copied().chain(["Go."]).collect();
    let output = lab.command(&all).current_dir(&cwd).output().unwrap();
    let made = cwd.join("made");
    let is_made = made.exists();
    if is_made {
        fs::remove_file(made).unwrap();
    }
    (is_made, output)
}

fn trust(lab: &Lab, folder: &str) -> Output {
    let mut command = lab.env.command(&["chat", "--trust"]);
    command.current_dir(lab.env.path(folder)).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn trust_is_remembered_and_covers_what_is_below() {
    let mut lab = Lab::says(&[]);
    lab.env.put("demo/src/deep/a", "");
    lab.env.put("demo/vendor/lib/.git/HEAD", "ref: refs/heads/main\n");
    lab.env.put("demo/pkg/HEAD", "ref: refs/heads/main\n");
    lab.env.put("demo/pkg/objects/x", "");
    lab.env.put("demo/pkg/refs/x", "");
    assert!(!allows_bash(&mut lab, "demo", &[]).0);
    let output = trust(&lab, "demo");
    assert_eq!(code(&output), Some(0), "{}", lab.env.show(&output));
    assert!(output.stdout.is_empty() && stderr(&output).contains("is trusted from now on"));
    let list = lab.env.path(".config/quipu/trusted");
    assert!(fs::read_to_string(&list).unwrap().contains(&lab.path("")[..lab.path("").len() - 1]));
    assert_eq!(fs::metadata(&list).unwrap().permissions().mode() & 0o777, 0o600);
    for (folder, is_trusted) in [
        ("demo", true),
        ("demo/src/deep", true),
        ("demo/vendor/lib", false),
        ("demo/vendor/lib/src", false),
        ("demo/pkg", false),
        ("demo2", false),
    ] {
        let (made, output) = allows_bash(&mut lab, folder, &[]);
        assert_eq!(made, is_trusted, "{folder}: {}", lab.env.show(&output));
    }
    // By its real path, however it is reached.
    std::os::unix::fs::symlink(lab.cwd(), lab.env.path("link")).unwrap();
    assert!(allows_bash(&mut lab, "link", &[]).0);
    // A second time changes nothing.
    let before = fs::read(&list).unwrap();
    assert_eq!(code(&trust(&lab, "demo")), Some(0));
    assert_eq!(fs::read(&list).unwrap(), before);
}

#[test]
fn a_home_is_not_trusted_as_a_whole() {
    let mut lab = Lab::says(&[]);
    let output = trust(&lab, ".");
    assert_eq!(code(&output), Some(2), "{}", lab.env.show(&output));
    assert!(stderr(&output).contains("cannot be trusted as a whole"));
    let mut command = lab.env.command(&["chat", "--trust"]);
    for above in [Path::new("/"), lab.env.path("").parent().unwrap()] {
        assert_eq!(code(&command.current_dir(above).output().unwrap()), Some(2));
    }
    assert!(!lab.env.path(".config/quipu/trusted").exists());
    // Whoever starts there has their own settings all the same, and both files of them.
    lab.env.put(".claude/settings.local.json", r#"{"env": {"FOO": "own"}}"#);
    let (made, output) = allows_bash(&mut lab, ".", &["--sandbox", "off", "--no-snapshots"]);
    assert!(made, "{}", lab.env.show(&output));
}

#[test]
fn a_damaged_list_grants_nothing_and_stays() {
    let mut lab = Lab::says(&[]);
    assert_eq!(code(&trust(&lab, "demo")), Some(0));
    let list = lab.env.path(".config/quipu/trusted");
    let whole = fs::read_to_string(&list).unwrap();
    for damaged in [&whole[..whole.len() - 6], "", "[]", "{\"folders\": [\"/../tmp\"]}"] {
        fs::write(&list, damaged).unwrap();
        let (made, output) = allows_bash(&mut lab, "demo", &[]);
        assert!(!made && code(&output) == Some(0), "{}", lab.env.show(&output));
        assert!(stderr(&output).contains("is damaged"), "{}", stderr(&output));
        assert_eq!(code(&trust(&lab, "demo")), Some(2));
        assert_eq!(fs::read_to_string(&list).unwrap(), damaged);
    }
    fs::remove_file(&list).unwrap();
    assert!(Command::new("mkfifo").arg(&list).status().unwrap().success());
    let (made, output) = allows_bash(&mut lab, "demo", &[]);
    assert!(!made && stderr(&output).contains("it is a pipe"), "{}", lab.env.show(&output));
}

#[test]
fn a_folder_in_a_repository_is_not_the_repository() {
    // Who trusts a folder has not trusted the repository around it, whose configuration git obeys.
    let mut lab = Lab::says(&[&[text("Hi.")], &[text("Hi.")]]);
    repository(&lab);
    lab.env.put("demo/sub/a", "");
    assert_eq!(code(&trust(&lab, "demo/sub")), Some(0));
    let cwd = lab.cwd().join("sub");
    lab.command(&["Hi"]).current_dir(&cwd).output().unwrap();
    assert_eq!(code(&trust(&lab, "demo")), Some(0));
    lab.command(&["Hi"]).current_dir(&cwd).output().unwrap();
    let requests = lab.server.requests();
    let has_log = |number: usize| requests[number]["system"].to_string().contains("Last commits");
    assert_eq!((has_log(0), has_log(1)), (false, true));
}
