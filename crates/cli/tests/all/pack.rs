//! `pack` and `unpack` as a user runs them: what is said, what is written, and what is not.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::Value;

use crate::env::{Env, in_a_terminal};

const NESTED: &str = "c5b9db19-a9fa-42b7-9f6b-0b8b73532119";
const FLAT: &str = "ade43c95-f68a-4a69-9e1e-f0407a2ad094";
const NEW: &str = "0e000000-1111-4222-8333-444444444444";

/// All files below a folder, by their path in it.
fn files(env: &Env, below: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let (root, mut found) = (env.path(below), BTreeMap::new());
    let mut open = vec![root.clone()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                open.push(entry.path());
            } else {
                let path = entry.path().strip_prefix(&root).unwrap().to_owned();
                found.insert(path, fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

/// A home with sessions that have files everywhere.
fn home() -> Env {
    let env = Env::with_sessions();
    for id in [NESTED, FLAT] {
        env.put(&format!(".claude/todos/{id}-agent-{id}.json"), "[]");
        env.put(&format!(".claude/file-history/{id}/0123456789abcdef@v1"), "old text\n");
        env.put(
            &format!(".claude/projects/-home-dev-demo/{id}/tool-results/toolu_1.txt"),
            "a long result\n",
        );
    }
    env
}

fn ok(env: &Env, args: &[&str]) -> String {
    let output = env.show(&env.command(args).env("QUIPU_ID", NEW).output().unwrap());
    assert!(output.starts_with("exit 0"), "{args:?}: {output}");
    output
}

/// The output without what depends on the compression.
fn run(env: &Env, args: &[&str]) -> String {
    env.show(&env.command(args).env("QUIPU_ID", NEW).output().unwrap())
}

#[test]
fn each_says_what_it_does() {
    let env = home();
    let mut text = String::new();
    for args in [
        &["pack", NESTED, "-o", "one.html", "--dry-run"][..],
        &["pack", NESTED, FLAT, "-o", "two.html"],
        &["pack", NESTED, "-o", "two.html"],
        &["pack", NESTED, "-o", "plain.html", "--no-redact"],
        &["pack", "nothing like that", "-o", "x.html"],
        &["unpack", "two.html", "--list"],
        &["unpack", "two.html"],
        &["--home", "new", "unpack", "two.html", "--yes"],
        &["--home", "new", "unpack", "two.html", "--yes"],
        &[
            "--home",
            "third",
            "unpack",
            "plain.html",
            "--dry-run",
            "--map",
            "/home/dev/demo=/srv/app",
        ],
        &["unpack", "plain.html", "--yes", "--map", "nonsense"],
        &["unpack", "no-such-file", "--list"],
        &[
            "unpack",
            ".claude/projects/-home-dev-demo/c5b9db19-a9fa-42b7-9f6b-0b8b73532119.jsonl",
            "--list",
        ],
        &["undo"],
    ] {
        writeln!(text, "### quipu {}\n{}", args.join(" "), run(&env, args)).unwrap();
    }
    assert_snapshot!(text);
    assert!(!env.path("third").exists() && !env.path("new/projects/-home-dev-demo").exists());
}

/// Without redaction, every file is the same in another home; everything else stays behind.
#[test]
fn a_pack_gives_back_every_byte() {
    for id in [NESTED, FLAT] {
        let env = home();
        ok(&env, &["pack", id, "-o", "p.html", "--no-redact"]);
        ok(&env, &["--home", "other", "unpack", "p.html", "--yes"]);
        let (before, after) = (files(&env, ".claude"), files(&env, "other"));
        assert!(after.len() >= 5, "{:?}", after.keys());
        for (path, bytes) in &after {
            assert!(before.get(path) == Some(bytes), "{}", path.display());
        }
        // Redacted, the same files: these sessions have no secrets.
        ok(&env, &["pack", id, "-o", "r.html"]);
        ok(&env, &["--home", "third", "unpack", "r.html", "--yes"]);
        assert_eq!(
            files(&env, "third").keys().collect::<Vec<_>>(),
            after.keys().collect::<Vec<_>>()
        );
        // The same session packed twice is the same file, also through a pipe.
        let piped = env.output(&["pack", id, "-o", "-", "--no-redact"]);
        assert!(piped.stdout == fs::read(env.path("p.html")).unwrap());
    }
}

/// On all recordings: what comes out is what went in.
#[test]
fn all_recordings_come_out_as_they_went_in() {
    let env = Env::in_memory();
    let mut count = 0;
    for file in testkit::own_files() {
        let name = file.path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("agent-")
            || file.path.extension().is_none_or(|ending| ending != "jsonl")
        {
            continue;
        }
        let path = env.put(&format!("in/projects/-p/{name}"), &file.bytes);
        ok(&env, &["pack", path.to_str().unwrap(), "-o", "p.html", "--no-redact", "--force"]);
        ok(&env, &["--home", "out", "unpack", "p.html", "--yes"]);
        let out = files(&env, "out");
        assert_eq!(out.len(), 1, "{name}");
        assert!(out.values().next() == Some(&file.bytes), "{name}");
        fs::remove_dir_all(env.path("out")).unwrap();
        fs::remove_dir_all(env.path("in")).unwrap();
        count += 1;
        if count >= 40 {
            break;
        }
    }
    assert!(count > 20, "{count}");
}

/// A checkout of the same repository elsewhere: its root is mapped, whatever the protocol.
#[test]
fn paths_follow_the_git_remote() {
    let env = home();
    let root = env.path("here/app");
    env.put("here/app/.git/config", "[remote \"origin\"]\n\turl = git@example.org:team/app.git\n");
    let session = format!(".claude/projects/-home-dev-demo/{NESTED}.jsonl");
    // The session was in a folder of the checkout.
    let text = fs::read_to_string(env.path(&session)).unwrap();
    let inside = root.join("sub").display().to_string();
    env.put(&session, text.replace("/home/dev/demo", &inside));
    fs::create_dir_all(root.join("sub")).unwrap();
    ok(&env, &["pack", NESTED, "-o", "p.html", "--no-redact"]);
    env.put(
        "there/copy/.git/config",
        "[remote \"origin\"]\n\turl = https://user:token@example.org/team/app\n",
    );
    let there = env.path("there/copy");
    let output = env
        .command(&["--home", "../../other", "unpack", "../../p.html", "--yes", "--json"])
        .current_dir(&there)
        .output()
        .unwrap();
    let json: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", env.show(&output)));
    let to = there.join("sub").display().to_string();
    assert_eq!(json["sessions"][0]["cwd"], to.as_str());
    assert_eq!(json["map"][0][0], root.display().to_string());
    let made = fs::read_to_string(json["sessions"][0]["path"].as_str().unwrap()).unwrap();
    assert!(made == text.replace("/home/dev/demo", &to));
    assert!(!String::from_utf8_lossy(&fs::read(env.path("p.html")).unwrap()).contains("token@"));
}

/// In a terminal it lists, and asks.
#[cfg(unix)]
#[test]
fn a_terminal_is_asked() {
    let env = home();
    ok(&env, &["pack", NESTED, "-o", "p.html"]);
    let args = ["--home", "other", "unpack", "p.html"];
    let (code, shown) = in_a_terminal(env.command(&args), "n\n", Duration::from_secs(20));
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains(NESTED)
            && shown.contains("Unpack this?")
            && shown.contains("nothing was written")
    );
    assert!(!env.path("other").exists());
    let (code, shown) = in_a_terminal(env.command(&args), "y\n", Duration::from_secs(20));
    assert_eq!(code, Some(0), "{shown}");
    assert!(env.path("other/projects/-home-dev-demo").is_dir());
}

/// What cannot be asked is not done, and a pack that is not there is not found.
#[test]
fn nothing_is_unpacked_without_a_yes() {
    let env = home();
    ok(&env, &["pack", NESTED, "-o", "p.html"]);
    for (args, code, says) in [
        (&["--home", "other", "unpack", "p.html", "--json"][..], 2, "`--json` does not ask"),
        (&["--home", "other", "unpack", "p.html"], 2, "use `--yes`"),
        (&["--home", "other", "unpack", "no.html", "--yes"], 3, "there is no file `no.html`"),
        (&["pack", NESTED, "-o", "no/p.html"], 1, "cannot write `no/p.html`: "),
    ] {
        let output = env.output(args);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {errors}");
        assert!(errors.contains(says) && !errors.contains(".tmp"), "{args:?}: {errors}");
    }
    assert!(!env.path("other").exists());
}

/// Other programs open it, too.
#[test]
fn python_opens_it_as_a_zip_archive() {
    let env = home();
    ok(&env, &["pack", NESTED, "-o", "p.html", "--no-redact"]);
    let check = "import sys, zipfile, json, hashlib\n\
                 z = zipfile.ZipFile(sys.argv[1])\n\
                 assert z.testzip() is None\n\
                 m = json.loads(z.read('manifest.json'))\n\
                 for s in m['sessions']:\n\
                 \x20   for f in s['members']:\n\
                 \x20       assert hashlib.sha256(z.read(f['name'])).hexdigest() == f['sha256'], f\n\
                 assert len(z.namelist()) == 1 + sum(len(s['members']) for s in m['sessions'])\n\
                 from html.parser import HTMLParser\n\
                 class P(HTMLParser):\n\
                 \x20   def __init__(self):\n\
                 \x20       super().__init__(); self.tags = []\n\
                 \x20   def handle_starttag(self, tag, attrs): self.tags.append(tag)\n\
                 \x20   def handle_endtag(self, tag): self.tags.append('/' + tag)\n\
                 p = P(); p.feed(open(sys.argv[1], 'rb').read().decode('latin-1')); p.close()\n\
                 assert p.tags[-4:] == ['script', '/script', '/body', '/html'], p.tags\n\
                 print('fine')";
    let python = Command::new("python3").arg("-c").arg(check).arg(env.path("p.html")).output();
    let Ok(output) = python else {
        assert!(!testkit::is_ci(), "there is no Python");
        eprintln!("left out: there is no Python");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "fine\n", "{output:?}");
}
