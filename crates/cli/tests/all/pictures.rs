//! The pictures of the README: what the program prints on the samples, in colours.
//!
//! `QUIPU_BLESS=1 cargo test -p quipu --test all pictures` draws them anew.

use std::fs;

use crate::env::Env;

#[test]
fn pictures_show_what_is_printed() {
    let env = Env::with_sessions();
    let pictures: [(&str, &[&str]); 3] = [
        ("overview", &[]),
        ("show", &["show", "2bb8"]),
        ("repair", &["repair", "badc0ffe", "--dry-run"]),
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
