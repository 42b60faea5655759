//! Where results go, and what goes along: pipes, devices, links.

use std::os::unix::fs::{FileTypeExt, symlink};

use super::*;

fn pipe(path: &Path) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
}

#[test]
fn a_pipe_is_written_into_and_stays_one() {
    let env = Env::with_sessions();
    let path = env.path("pipe");
    pipe(&path);
    exits(&env.run(&["clone", NESTED, "-o", "pipe"]), 2, &["is a pipe or a device", "--force"]);
    let args = ["clone", NESTED, "--keep-ids", "-o", "pipe", "--force"];
    // Nobody reads: that is said, and not waited for.
    let begin = Instant::now();
    exits(&env.run(&args), 1, &["no process reads from it"]);
    assert!(begin.elapsed() < Duration::from_secs(10));
    let reader = std::thread::spawn({
        let path = path.clone();
        move || fs::read(path).unwrap()
    });
    exits(&env.run(&args), 0, &[]);
    assert_eq!(reader.join().unwrap(), fs::read(session(&env, NESTED)).unwrap());
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
}

#[test]
fn a_device_is_written_into_and_stays_one() {
    let env = Env::with_sessions();
    let path = env.path("null");
    let (kind, mode) =
        (rustix::fs::FileType::CharacterDevice, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR);
    let node = rustix::fs::mknodat(rustix::fs::CWD, &path, kind, mode, rustix::fs::makedev(1, 3));
    if node.is_err() || fs::OpenOptions::new().write(true).open(&path).is_err() {
        println!("left out: devices can neither be made nor written to here");
        return;
    }
    exits(&env.run(&["clone", NESTED, "-o", "null"]), 2, &["is a pipe or a device"]);
    exits(&env.run(&["clone", NESTED, "-o", "null", "--force"]), 0, &[]);
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_char_device());
}

#[test]
fn what_a_link_leads_to_is_replaced_and_the_link_stays() {
    let env = Env::with_sessions();
    let target = env.put("there/target.jsonl", "old");
    let link = env.path("link.jsonl");
    symlink(&target, &link).unwrap();
    exits(&env.run(&["clone", NESTED, "-o", "link.jsonl"]), 2, &["already exists"]);
    let args = ["clone", NESTED, "--keep-ids", "-o", "link.jsonl", "--force"];
    exits(&env.run(&args), 0, &[]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read(&target).unwrap(), fs::read(session(&env, NESTED)).unwrap());
    symlink(env.path("nowhere"), env.path("dangling")).unwrap();
    exits(&env.run(&["clone", NESTED, "-o", "dangling", "--force"]), 2, &["is a broken link"]);
    exits(&env.run(&["clone", NESTED, "-o", "there", "--force"]), 2, &["is a folder"]);
    let names: Vec<_> = fs::read_dir(env.path("there")).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

/// What stands in a session's folder may lead anywhere: a clone takes what is in the home, and
/// tells of the rest.
#[test]
fn a_clone_takes_nothing_from_outside_of_the_home() {
    let env = Env::with_sessions();
    let folder = format!(".claude/projects/-home-dev-demo/{NESTED}/tool-results");
    env.put(&format!("{folder}/plain.txt"), "plain");
    let secret = env.put("secret.txt", "outside of the home");
    let inside = env.put(".claude/shared.txt", "inside of the home");
    let at = |name: &str| env.path(&format!("{folder}/{name}"));
    symlink(&secret, at("out.txt")).unwrap();
    symlink(env.path("nowhere"), at("dangling.txt")).unwrap();
    symlink(env.path(".claude"), at("folder.txt")).unwrap();
    symlink(&inside, at("in.txt")).unwrap();
    pipe(&at("pipe.txt"));
    let new = "0e000000-1111-4222-8333-444444444444";
    let output = env.command(&["clone", NESTED]).env("QUIPU_ID", new).output().unwrap();
    // Long paths are wrapped.
    let text = env.show(&output).replace("\n           ", " ");
    exits(&text, 0, &["out.txt: a link that leads out of the home"]);
    exits(&text, 0, &["dangling.txt: a broken link"]);
    exits(&text, 0, &["folder.txt: not a regular file", "pipe.txt: not a regular file"]);
    let made = files(&project(&env).join(new));
    let of = |name: &str| made.get(&project(&env).join(new).join("tool-results").join(name));
    assert_eq!(of("plain.txt").unwrap(), b"plain");
    assert_eq!(of("in.txt").unwrap(), b"inside of the home");
    for name in ["out.txt", "dangling.txt", "folder.txt", "pipe.txt"] {
        assert!(of(name).is_none(), "{name}");
    }
    exits(&env.run(&["undo"]), 0, &[]);
    assert!(!project(&env).join(new).exists());
}

/// Where the journal cannot have another name of a file it keeps a copy, and says so.
#[test]
fn on_another_file_system_a_copy_is_kept() {
    let other = Path::new("/dev/shm");
    let env = Env::with_sessions();
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    let state = tempfile::tempdir_in(other).ok();
    let Some(state) = state.filter(|state| device(state.path()) != device(&env.path(""))) else {
        println!("left out: there is no other file system here");
        assert!(!testkit::is_ci(), "in CI nothing is left out");
        return;
    };
    let path = session(&env, NESTED);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let (old, before) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap());
    let run = |args: &[&str]| {
        env.show(&env.command(args).env("XDG_STATE_HOME", state.path()).output().unwrap())
    };
    exits(&run(&STRIP), 0, &["the journal is on another file system, so it keeps a copy"]);
    assert_ne!(fs::read(&path).unwrap(), old);
    let journal = files(state.path());
    let copy = journal.keys().find(|path| path.ends_with("0")).unwrap();
    assert_eq!(fs::metadata(copy).unwrap().mode() & 0o777, 0o600, "nobody else reads it");
    exits(&run(&["undo"]), 0, &["restored"]);
    let after = fs::metadata(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), old);
    assert_eq!(
        (after.mode(), after.modified().unwrap()),
        (before.mode(), before.modified().unwrap())
    );
}

/// Lists show the beginning of a title: that is where it says what a session came from, once.
#[test]
fn derived_sessions_are_marked_at_the_front() {
    let env = Env::with_sessions();
    let (one, two) =
        ("0e000000-1111-4222-8333-444444444444", "0e000001-1111-4222-8333-444444444444");
    let run = |id: &str, args: &[&str]| {
        env.show(&env.command(args).env("QUIPU_ID", id).output().unwrap())
    };
    exits(&run(one, &["repair", DAMAGED]), 0, &["\n  session  ", "\n  folder   /home/dev/demo\n"]);
    exits(&run(two, &["clone", one]), 0, &["\n  session  repair of badc0ffe: "]);
    let list = env.run(&["ls", "--all"]);
    assert!(list.contains("repair of badc0ffe: "), "{list}");
    assert!(
        list.contains("clone of 0e000000: ") && !list.contains("0e000000: repair of"),
        "{list}"
    );
    exits(
        &env.run(&["undo", "--list"]),
        0,
        &["badc0ffe  0e000000  1 file created", "0e000000  0e000001"],
    );
    for command in ["clone", "fork"] {
        assert!(!env.run(&[command, "--help"]).contains("--in-place"), "{command}");
    }
    exits(&env.run(&["strip", "--help"]), 0, &["--in-place", "hard links"]);
}
