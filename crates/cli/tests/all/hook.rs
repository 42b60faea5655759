//! The hook in the client's settings, as a user puts it there: what is shown, what is written, what
//! is not, and what can be taken back.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;

use crate::env::Env;

const SETTINGS: &str = ".claude/settings.json";

/// As people have them: four spaces, another hook, numbers and escapes of their own.
const OTHERS: &str = r#"{
    "model": "opus",
    "numbers": [1e3, 0.10],
    "hooks": {
        "PreToolUse": [{"matcher": "Write|Edit", "hooks": [{"type": "command", "command": "lint"}]}],
        "Stop": [
            {
                "hooks": [
                    {
                        "type": "command",
                        "command": "say \u0022done\u0022"
                    }
                ]
            }
        ]
    },
    "env": {}
}
"#;

/// What is said, with this program's own path taken out.
fn run(env: &Env, args: &[&str]) -> String {
    named(&env.run(args))
}

fn named(text: &str) -> String {
    let program = env!("CARGO_BIN_EXE_quipu");
    text.replace(&format!("'{program}'"), "[QUIPU]").replace(program, "[QUIPU]")
}

/// What is said to all of these, one after the other.
fn story(env: &Env, all: &[&[&str]]) -> String {
    let mut text = String::new();
    for args in all {
        let output = run(env, args);
        let args = args.join(" ").replace(env.path("").to_str().unwrap(), "[HOME]/");
        writeln!(text, "### quipu {args}\n{output}").unwrap();
    }
    text
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// The files in a folder.
fn names(folder: PathBuf) -> Vec<String> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn where_there_are_no_settings() {
    let env = Env::bare();
    assert_snapshot!(story(
        &env,
        &[
            &["hook", "status"],
            &["hook", "uninstall"],
            &["hook", "install"],
            &["hook", "install", "--dry-run"],
            &["hook", "install", "--yes"],
            &["hook", "status"],
            &["undo", "--list"],
            &["undo"],
            &["hook", "status", "--json"],
        ]
    ));
    assert!(names(env.path(".claude")).is_empty());
}

#[test]
fn where_there_are_settings() {
    let env = Env::bare();
    env.put(SETTINGS, OTHERS);
    assert_snapshot!(story(
        &env,
        &[
            &["hook", "install", "--yes"],
            &["hook", "install", "--yes"],
            &["hook", "status"],
            &["hook", "uninstall"],
            &["hook", "uninstall", "--yes"],
            &["hook", "uninstall", "--yes"],
            &["undo", "--list"],
            &["undo", "settings"],
        ]
    ));
    assert!(
        run(&env, &["hook", "status"]).contains("installed for Stop, SubagentStop, SessionEnd")
    );
}

#[test]
fn nothing_is_written_without_a_word() {
    let env = Env::bare();
    let path = env.put(SETTINGS, OTHERS);
    for (args, code) in [
        (&["hook", "install"][..], 2),
        (&["hook", "install", "--dry-run"], 0),
        (&["hook", "install", "--dry-run", "--yes"], 2),
        (&["hook", "uninstall", "--yes"], 0),
        (&["hook", "status"], 0),
    ] {
        assert_eq!(env.output(args).status.code(), Some(code), "{args:?}");
        assert_eq!(read(&path), OTHERS);
        assert_eq!(names(env.path(".claude")), ["settings.json"]);
        assert!(!env.path(".local").exists(), "{args:?}");
    }
}

/// A copy under another name would go on saying what it said.
#[cfg(unix)]
#[test]
fn protected_settings_are_left_alone() {
    use std::os::unix::fs::PermissionsExt;
    let env = Env::bare();
    let path = env.put(SETTINGS, OTHERS);
    let refused = |why: &str| {
        let shown = env.run(&["hook", "install", "--yes"]);
        assert!(shown.starts_with("exit 5") && shown.contains(why), "{shown}");
        assert_eq!(fs::read_to_string(&path).unwrap(), OTHERS);
    };
    fs::hard_link(&path, env.path("dotfiles.json")).unwrap();
    refused("it has 2 names (hard links)");
    fs::remove_file(env.path("dotfiles.json")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    refused("it is write-protected");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(env.run(&["hook", "install", "--yes"]).starts_with("exit 0"));
}

#[test]
fn there_and_back() {
    for text in [
        OTHERS,
        "{}",
        "{\"a\":1}",
        "\u{feff}{\r\n\t\"a\": 1e3,\r\n\t\"b\": \"\\u00e9\"\r\n}",
        "{\n  \"hooks\": {\"Stop\": [{\"hooks\": []}]}\n}\n",
    ] {
        for back in [&["hook", "uninstall", "--yes"][..], &["undo"]] {
            let env = Env::bare();
            let path = env.put(SETTINGS, text);
            let before = fs::metadata(&path).unwrap().modified().unwrap();
            assert!(run(&env, &["hook", "install", "--yes"]).starts_with("exit 0"));
            assert_ne!(read(&path), text);
            assert!(run(&env, back).starts_with("exit 0"));
            assert_eq!(read(&path), text, "{back:?}");
            assert_eq!(names(env.path(".claude")), ["settings.json"]);
            // What was taken out is brought back, and then what was put in is taken back.
            while run(&env, &["undo"]).starts_with("exit 0") {}
            assert_eq!(read(&path), text);
            assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        }
    }
}

#[test]
fn what_is_no_settings_is_left_alone() {
    let mut output = String::new();
    for text in [
        "[]\n",
        "{\n  \"a\": 1,\n}\n",
        "{\n  \"hooks\": []\n}\n",
        "{\n  \"hooks\": {\n    \"SessionEnd\": {}\n  }\n}\n",
    ] {
        let env = Env::bare();
        let path = env.put(SETTINGS, text);
        output += &story(&env, &[&["hook", "install", "--yes"], &["hook", "status"]]);
        assert!(run(&env, &["hook", "uninstall", "--yes"]).starts_with("exit 2"));
        assert_eq!(read(&path), text);
        assert_eq!(names(env.path(".claude")), ["settings.json"]);
    }
    let env = Env::bare();
    env.put(SETTINGS, b"{\"a\": \"\xff\"}");
    output += &story(&env, &[&["hook", "install", "--yes"]]);
    env.put("other/settings.json/file", "");
    output += &story(&env, &[&["hook", "install", "--yes", "--home", "other"]]);
    let without = env.command(&["hook", "install", "--yes"]).env_remove("HOME").output().unwrap();
    output += &env.show(&without);
    assert_snapshot!(output);
}

/// Both usual places are looked at, and what would help is said for each.
#[test]
fn homes_that_nobody_names() {
    let env = Env::bare();
    env.put(".config/claude/settings.json", "{}");
    let output = env.command(&["hook", "status"]).env("COLUMNS", "500").output().unwrap();
    assert_snapshot!(env.show(&output), @r"
    exit 0
    --- stdout
    [HOME]/.claude/settings.json
      hook     not installed: `quipu hook install` installs it
    [HOME]/.config/claude/settings.json
      hook     not installed: `quipu --home [HOME]/.config/claude hook install` installs it
    receiver
      to       none is configured: set LANGFUSE_* or OTEL_EXPORTER_OTLP_* where Claude Code runs, or `[ship]` in the configuration
    ");
}

/// Of several homes none is written if one is wrong; each has its own entry to take back.
#[test]
fn several_homes() {
    let env = Env::bare();
    let (one, two) = (env.put("one/settings.json", "{}\n"), env.put("two/settings.json", "[]\n"));
    let all = ["--home", "one", "--home", "two", "--home", "./one"];
    let with = |args: &[&'static str]| [args, &all].concat();
    let wrong = run(&env, &with(&["hook", "install", "--yes"]));
    assert!(wrong.starts_with("exit 2") && !wrong.contains("+++"), "{wrong}");
    assert_eq!((read(&one), read(&two)), ("{}\n".to_owned(), "[]\n".to_owned()));
    env.put("two/settings.json", "{\"disableAllHooks\":true}");
    assert_snapshot!(story(
        &env,
        &[
            &with(&["hook", "install", "--yes"]),
            &with(&["hook", "status"]),
            &with(&["hook", "status", "--json"]),
            &["undo", "--list"],
        ]
    ));
    let both = format!("{},{}", env.path("one").display(), env.path("two").display());
    let named =
        env.command(&["hook", "uninstall", "--yes"]).env("CLAUDE_CONFIG_DIR", both).output();
    assert!(named.unwrap().status.success());
    assert_eq!(read(&one), "{}\n", "the one that new sessions go to");
    assert!(read(&two).contains("hook stop"));
}

#[test]
fn a_quipu_in_another_place() {
    let env = Env::bare();
    let text = r#"{
  "hooks": {
    "Stop": [{"hooks": [{"type": "command", "command": "'/gone away/quipu' hook stop", "timeout": 3}]}],
    "SessionEnd": [{"hooks": [{"type": "command", "command": "quipu hook stop"}]}]
  }
}
"#;
    env.put(SETTINGS, text);
    assert_snapshot!(story(
        &env,
        &[
            &["hook", "status"],
            &["hook", "status", "--json"],
            &["hook", "install", "--dry-run"],
            &["hook", "uninstall", "--yes"],
        ]
    ));
    assert_eq!(read(&env.path(SETTINGS)), "{}\n");
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let env = Env::bare();
    let path = env.put("dotfiles/claude.json", OTHERS);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    fs::create_dir_all(env.path(".claude")).unwrap();
    symlink("../dotfiles/claude.json", env.path(SETTINGS)).unwrap();
    let output = run(&env, &["hook", "install", "--yes"]);
    assert!(output.contains("written  [HOME]/dotfiles/claude.json\n"), "{output}");
    assert!(env.path(SETTINGS).is_symlink() && !path.is_symlink());
    assert!(read(&path).contains("hook stop"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(run(&env, &["undo"]).starts_with("exit 0"));
    assert!(env.path(SETTINGS).is_symlink());
    assert_eq!(read(&path), OTHERS);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    fs::remove_file(&path).unwrap();
    assert_snapshot!(run(&env, &["hook", "install", "--yes"]), @r"
    exit 4
    --- stderr
    error: cannot read `[HOME]/.claude/settings.json`: it is a link to `../dotfiles/claude.json`: No such file or directory (os error 2)
    ");
    assert!(env.path(SETTINGS).is_symlink());
}

/// In a terminal there is a question, and only a yes is one.
#[cfg(unix)]
#[test]
fn somebody_is_asked() {
    let env = Env::bare();
    let path = env.put(SETTINGS, "{}");
    for typed in ["n\n", "\n", "nay\n"] {
        let output = in_a_terminal(&env, &["hook", "install"], typed);
        assert!(
            output.contains("Write this? [y/N] ") && output.contains("nothing was written"),
            "{output}"
        );
        assert_eq!(read(&path), "{}");
    }
    let output = in_a_terminal(&env, &["hook", "install"], "y\n");
    assert!(output.contains("Write this? [y/N] ") && output.contains("  written  "), "{output}");
    assert!(output.find("+    \"Stop\"") < output.find("Write this?"), "{output}");
    assert!(read(&path).contains("hook stop"));
    let output = in_a_terminal(&env, &["hook", "uninstall", "--yes"], "");
    assert!(!output.contains("Write this?"), "{output}");
    assert_eq!(read(&path), "{}");
}

/// What a terminal shows when that is typed.
#[cfg(unix)]
fn in_a_terminal(env: &Env, args: &[&str], typed: &str) -> String {
    shown_in_a_terminal(env.command(args), typed)
}

#[cfg(unix)]
pub(crate) fn shown_in_a_terminal(command: std::process::Command, typed: &str) -> String {
    let patience = std::time::Duration::from_secs(20);
    let (code, seen) = crate::env::in_a_terminal(command, typed, patience);
    assert_eq!(code, Some(0), "{seen}");
    seen
}
