//! The pictures of the documentation: what the program prints on the samples, and the console.
//!
//! `QUIPU_BLESS=1 cargo test -p quipu --test all pictures` draws them anew.

use std::fs;
use std::time::Duration;

use testkit::picture::Theme;

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
        drawn(name, &testkit::picture::svg(&command, &text, Theme::Dark).unwrap());
    }
}

/// Compares a picture with the one in the documentation.
fn drawn(name: &str, picture: &str) {
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

/// What is in the window of the console, in both themes.
#[cfg(unix)]
fn window(name: &str, command: &str, desk: &crate::console::Desk) {
    // What was printed before the last drawing is there.
    std::thread::sleep(Duration::from_millis(400));
    let text = desk.colored().replace(desk.env.path("").to_str().unwrap(), "~/");
    for (theme, end) in [(Theme::Dark, ""), (Theme::Light, "-light")] {
        let picture = testkit::picture::svg(command, &text, theme).unwrap();
        drawn(&format!("{name}{end}"), &picture);
    }
}

#[cfg(unix)]
#[test]
fn pictures_show_the_console() {
    use serde_json::json;
    use testkit::api::Reply;

    use crate::chat::{call, text};

    let words =
        "Each knot adds two; **one** is enough:\n\n```sh\ncount=$((count + 1))  # not 2\n```\n";
    let edit =
        json!({"file_path": "knots.sh", "old_string": "count + 2", "new_string": "count + 1"});
    let todos = json!({"todos": [
        {"content": "Find where knots are counted", "status": "completed", "activeForm": "Finding"},
        {"content": "Count each knot once", "status": "in_progress", "activeForm": "Counting"},
        {"content": "Run it", "status": "pending", "activeForm": "Running"},
    ]});
    let run =
        json!({"command": "sh knots.sh a b c && git commit -am 'Count once'", "description": "x"});
    let replies = [
        vec![
            text("I look at the script first."),
            call("toolu_01", "Read", &json!({"file_path": "knots.sh"})),
            call("toolu_02", "TodoWrite", &todos),
        ],
        vec![text(words), call("toolu_03", "Edit", &edit)],
        vec![text("Fixed: `knots.sh` counts each knot once.")],
        vec![call("toolu_04", "Bash", &run)],
        vec![text("I leave the commit to you.")],
    ];
    let replies = replies.into_iter().map(Reply::Blocks).collect();
    let env = Env::bare();
    let script = "# Counts knots.\ncount=0\nfor knot in \"$@\"; do\n  count=$((count + 2))\ndone\necho \"$count knots\"\n";
    let desk = crate::console::Desk::in_shell(replies, env, (92, 34), |line| {
        format!("{line} --sandbox off; cat")
    });
    let Some(desk) = desk else {
        assert!(!testkit::is_ci(), "there is no tmux");
        return;
    };
    desk.env.put("demo/knots.sh", script);
    desk.wait("lists the keys");
    desk.line("The counter counts every knot twice. Fix it.");
    desk.wait("allow it?");
    window("console", "quipu chat", &desk);
    desk.answer("1");
    desk.wait("counts each knot once.");
    desk.line("Run it, and commit");
    desk.wait("sh knots.sh a b c");
    desk.wait("allow it?");
    window("console-command", "", &desk);
    desk.answer("3");
    desk.line("I commit myself");
    desk.wait("to you.");
    desk.keys(&["C-l"]);
    desk.line("/rewind");
    desk.wait("before which prompt?");
    desk.answer("2");
    desk.wait("What goes back?");
    window("console-rewind", "", &desk);
}
