//! The pictures of the README: what the program prints on the samples, in colours.
//!
//! `QUIPU_BLESS=1 cargo test -p quipu --test all pictures` draws them anew.

use std::fs;
use std::time::Duration;

use crate::env::{Env, in_a_terminal};

/// A user whose sessions are the samples.
fn with_samples() -> Env {
    let env = Env::bare();
    // They are unpacked, with the times of their records, for whoever looks on a terminal.
    let (code, seen) = in_a_terminal(env.command(&["ls"]), "", Duration::from_secs(20));
    assert_eq!(code, Some(0), "{seen}");
    let unpacked = fs::read_dir(env.path(".cache/quipu")).unwrap().next().unwrap().unwrap();
    fs::rename(unpacked.path(), env.path(".claude")).unwrap();
    env
}

#[test]
fn pictures_show_what_is_printed() {
    let env = with_samples();
    let pictures: [(&str, &[&str]); 3] = [
        ("overview", &[]),
        ("show", &["show", "boots", "--turn", "1"]),
        ("repair", &["repair", "e9ada63f", "--dry-run"]),
    ];
    for (name, args) in pictures {
        let output =
            env.command(args).env("COLUMNS", "100").args(["--color", "always"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        // A home is where a user has it.
        let text = text.replace(env.path("").to_str().unwrap(), "~/");
        let command = ["quipu"].iter().chain(args).copied().collect::<Vec<_>>().join(" ");
        let picture = testkit::picture::svg(&command, &text).unwrap();
        let path = testkit::root().join("docs/pictures").join(format!("{name}.svg"));
        if std::env::var("QUIPU_BLESS").is_ok() {
            fs::write(&path, picture).unwrap();
        } else {
            let drawn = fs::read_to_string(&path).unwrap_or_default();
            assert!(
                drawn == picture,
                "{name}: run: QUIPU_BLESS=1 cargo test -p quipu --test all pictures"
            );
        }
    }
}
