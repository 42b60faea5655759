use super::*;
use crate::scratch::PREFIX;

fn shells() -> (tempfile::TempDir, Shells) {
    let folder = tempfile::tempdir().unwrap();
    let shells = Shells::new(folder.path().join("it's here"));
    (folder, shells)
}

/// Runs a command to its end. Returns its status and output.
fn run(shells: &Shells, command: &str, cwd: &Path) -> (Status, String) {
    shells.start("b1", ("", command), "", cwd, || Ok(None)).unwrap();
    let status = shells.wait("b1", Duration::from_secs(60), |_| false);
    (status, head(&shells.output("b1"), 1_000, &Secrets::default()).unwrap().0)
}

/// Waits until a condition is true.
fn until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20));
        thread::sleep(OFTEN);
    }
}

/// A command that leaves a process running that creates a file after a second.
fn leaving(mark: &Path) -> String {
    format!("(sleep 1; touch {}) & echo begun", mark.display())
}

#[test]
fn what_a_command_has_left_runs_until_the_end() {
    let (folder, shells) = shells();
    let [kept, first, second] = ["kept", "first", "second"].map(|name| folder.path().join(name));
    let done = (Status::Ended(0), "begun\n".to_owned());
    assert_eq!(run(&shells, &leaving(&kept), folder.path()), done);
    shells.forget("b1");
    thread::sleep(Duration::from_millis(1_500));
    assert!(kept.exists());
    assert_eq!(run(&shells, &leaving(&first), folder.path()), done);
    shells.forget("b1");
    assert_eq!(run(&shells, &leaving(&second), folder.path()), done);
    shells.end();
    assert!(shells.start("b2", ("", "true"), "", folder.path(), || Ok(None)).is_err());
    thread::sleep(Duration::from_millis(1_500));
    assert!(!first.exists() && !second.exists());
}

#[test]
fn who_ends_a_command_ends_what_it_has_left() {
    let (folder, shells) = shells();
    let mark = folder.path().join("mark");
    run(&shells, &leaving(&mark), folder.path());
    shells.kill("b1");
    thread::sleep(Duration::from_millis(1_500));
    assert!(!mark.exists());
    // It had ended by itself.
    assert_eq!(shells.known("b1").unwrap().status, Status::Ended(0));
}

#[test]
fn nobody_watches_where_nothing_runs() {
    let (folder, shells) = shells();
    run(&shells, "true", folder.path());
    shells.forget("b1");
    until(|| !shells.state().is_watched);
    assert!(shells.state().left.is_empty());
}

#[test]
fn a_command_is_as_in_a_shell_of_its_own() {
    let (folder, shells) = shells();
    let run = |command: &str| run(&shells, command, folder.path());
    let long = format!(": {}\necho \"$0 $#\"; env | grep -c QUIPU", "x".repeat(300_000));
    assert_eq!(run(&long), (Status::Ended(1), "bash 0\n0\n".to_owned()));
    assert_eq!(run("set -C; mkdir sub; cd sub; exit 4"), (Status::Ended(4), String::new()));
    assert_eq!(shells.cwd("b1"), Some(folder.path().canonicalize().unwrap().join("sub")));
    assert_eq!(run("mkdir gone; cd gone; rmdir ../gone"), (Status::Ended(0), String::new()));
    assert_eq!(shells.cwd("b1"), None);
    assert_eq!(run("kill -9 $$"), (Status::Ended(137), String::new()));
    let (status, text) = run("nosuch");
    assert_eq!(
        (status, text.as_str()),
        (Status::Ended(127), "bash: line 1: nosuch: command not found\n")
    );
    assert_eq!(run("trap 'echo own' EXIT; echo a"), (Status::Ended(0), "a\nown\n".to_owned()));
}

#[test]
fn output_without_an_end_is_ended() {
    let (folder, shells) = shells();
    let (status, _) = run(&shells, "yes", folder.path());
    assert_eq!(status, Status::Flooded);
    assert_eq!(fs::metadata(shells.output("b1")).unwrap().len(), MOST);
    // Also if nothing waits for it, or it was forgotten.
    run(&shells, "yes & echo $!", folder.path());
    shells.forget("b1");
    until(|| shells.state().left.is_empty());
}

#[test]
fn the_keys_of_the_api_stay_here() {
    let (folder, mut shells) = shells();
    shells.env = [
        ("CLAUDE_CODE_OAUTH_TOKEN", "sk-from-settings"),
        ("HTTPS_PROXY", "http://me:hunter22@proxy"),
        ("PLAIN", "seen"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    let inherited = crate::secret::NAMES.map(|name| (name.into(), "key".into())).to_vec();
    let seen = variables::of_command(&[], inherited, &[], &UserPath::default());
    for name in crate::secret::NAMES {
        assert!(!seen.iter().any(|(key, _)| key == name), "{name}");
    }
    let (_, env) = run(&shells, "env | grep -e PLAIN -e PROXY -e OAUTH", folder.path());
    assert!(env.contains("PLAIN=seen") && !env.contains("hunter22"), "{env}");
    assert!(!env.contains("sk-from-settings"), "{env}");
}

#[test]
fn no_piece_of_a_key_is_told_where_output_is_cut() {
    let (folder, _) = shells();
    let (path, key) = (folder.path().join("text"), "sk-ant-0123456789abcdefghij");
    let secrets = Secrets::of([("ANTHROPIC_API_KEY", key)]);
    files::create_private(&path).unwrap().write_all(format!("one {key} two").as_bytes()).unwrap();
    for most in 1..40 {
        for text in [head(&path, most, &secrets).unwrap().0, tail(&path, most, &secrets).unwrap().0]
        {
            assert!(!text.contains("sk-ant-01") && !text.contains("cdefghij"), "{most}: {text}");
        }
    }
    assert_eq!(head(&path, 100, &secrets).unwrap().0, "one [redacted api key] two");
    assert_eq!(tail(&path, 4, &secrets).unwrap().0, " two");
}

#[cfg(unix)]
#[test]
fn what_killed_agents_have_left_is_swept() {
    let (folder, _) = shells();
    let named = |id: u8| folder.path().join(format!("{PREFIX}{}", format!("{id:02x}").repeat(16)));
    // A folder of a killed agent, one in use, one from before there were locks, and folders of
    // other programs.
    let [killed, working, unknown] = [1, 2, 3].map(named);
    for path in [&killed, &working, &unknown, &folder.path().join("quipu-demo-x")] {
        fs::create_dir_all(path).unwrap();
        files::create_private(&path.join("b1.output")).unwrap();
    }
    files::create_private(&killed.join(LOCK)).unwrap().write_all(b"process 1\n").unwrap();
    let Ok(Lock::Held(_held)) = files::try_lock(&working.join(LOCK), "test") else { panic!() };
    std::os::unix::fs::symlink(&working, named(4)).unwrap();
    let shells = Shells::new(named(5));
    run(&shells, "true", folder.path());
    assert!(!killed.exists() && working.exists() && unknown.exists() && named(4).exists());
    assert!(folder.path().join("quipu-demo-x/b1.output").exists() && named(5).exists());
    drop(shells);
    assert!(!named(5).exists());
}

#[cfg(unix)]
#[test]
fn what_is_put_out_is_for_its_user_alone() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, shells) = shells();
    run(&shells, "umask 0; echo a", folder.path());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&shells.folder), 0o700);
    for entry in fs::read_dir(&shells.folder).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[test]
fn the_end_of_a_file_begins_with_a_whole_character() {
    let (folder, _) = shells();
    let path = folder.path().join("text");
    files::create_private(&path).unwrap().write_all("aäöü".as_bytes()).unwrap();
    assert_eq!(tail(&path, 100, &Secrets::default()).unwrap(), ("aäöü".to_owned(), 0));
    assert_eq!(tail(&path, 3, &Secrets::default()).unwrap(), ("ü".to_owned(), 5));
    assert_eq!(tail(&path, 4, &Secrets::default()).unwrap(), ("öü".to_owned(), 3));
}
