//! Rules against calls: the table, and what must hold for any input.
#![allow(clippy::unwrap_used, reason = "tests may")]

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use rules::{Access, Decision, Judgement, Kind, Mode, Place, Question, Rule, Rulebook, split};

const TABLE: &str = include_str!("table.txt");

/// Where links lead in the session's folder.
fn real(path: &Path) -> PathBuf {
    let links = [
        ("/home/dev/demo/link", "/etc"),
        ("/home/dev/demo/src/link", "/etc"),
        ("/home/dev/demo/hidden-link", "/home/dev/demo/secrets"),
        ("/home/dev/demo/a/b/up", "/home/dev/demo"),
        // Of whoever asks; of a command, it may be another one.
        ("/proc/self/cwd", "/home/dev/demo"),
    ];
    for (link, to) in links {
        if let Ok(rest) = path.strip_prefix(link) {
            return Path::new(to).join(rest);
        }
    }
    path.to_owned()
}

/// The files that there are, for patterns.
#[allow(clippy::unnecessary_wraps, reason = "the form of `Place::fitting`")]
fn fitting(pattern: &Path) -> Option<Vec<PathBuf>> {
    let files = [
        "-R",
        ".envrc",
        "README.md",
        "a.md",
        "link/passwd",
        "secrets/key.txt",
        "src/.envrc",
        "src/a.rs",
        "src/b.rs",
        "src/link",
        "sub/a.txt",
        "sub/b.txt",
    ];
    let found = files.iter().map(|name| Path::new("/home/dev/demo").join(name));
    let is_same = |path: &PathBuf| {
        let (left, right) = (pattern.iter().count(), path.iter().count());
        let mut names = pattern.iter().zip(path.iter());
        left == right
            && names.all(|(sign, name)| {
                rules::fits(&sign.to_string_lossy(), &name.to_string_lossy())
                    && sign.to_string_lossy().starts_with('.')
                        == name.to_string_lossy().starts_with('.')
            })
    };
    Some(found.filter(is_same).collect())
}

fn judged(book: &Rulebook, mode: Mode, tool: &str, input: &str) -> Judgement {
    let root = Path::new("/home/dev/demo");
    let folders = [root.to_owned()];
    let path = || vec![rules::plain(&root.join(input))];
    let access = match tool {
        "Bash" => Access { runs: Some(input.to_owned()), ..Access::default() },
        "Read" | "Glob" | "Grep" => Access { reads: path(), ..Access::default() },
        "Write" | "Edit" | "NotebookEdit" => Access { writes: path(), ..Access::default() },
        "WebFetch" => Access { reaches: vec![input.to_owned()], ..Access::default() },
        "TodoWrite" => Access { is_internal: true, ..Access::default() },
        _ => Access::default(),
    };
    let sensitive = |path: &Path| {
        path.iter().any(|name| [".git", ".claude", ".envrc"].iter().any(|other| name == *other))
    };
    let hold = rules::Hold { is_hidden: &|_| false, writable: &[PathBuf::from("/")] };
    let place = Place {
        // A table without a sandbox says so.
        hold: (!input.contains("unheld")).then_some(hold),
        cwd: root,
        root,
        folders: &folders,
        readable: &[],
        home: Some(Path::new("/home/dev")),
        real: &real,
        fitting: &fitting,
        is_sensitive: &sensitive,
        has_other_names: &|path| path.ends_with("twin.txt"),
        runs_nothing: &|folder| !folder.ends_with("vendor"),
    };
    book.judge(&Question { tool, access: &access }, mode, &place)
}

/// The mode and the rules of a block.
fn block(head: &str) -> (Mode, Rulebook) {
    let mut words = split([head]).into_iter();
    let mode = Mode::named(&words.next().unwrap()).unwrap();
    let rule = |text: String| {
        let kind = match &text[..1] {
            "+" => Kind::Allow,
            "?" => Kind::Ask,
            _ => Kind::Deny,
        };
        Rule::parse(&text[1..], kind, "test", "/home/dev/demo".into()).unwrap()
    };
    (mode, Rulebook { rules: words.map(rule).collect(), allows_sandboxed: false })
}

fn unescaped(text: &str) -> String {
    let text = text.replace("\\n", "\n").replace("\\r", "\r").replace("\\x00", "\0");
    text.replace("\\u00a0", "\u{a0}")
}

#[test]
fn the_table_holds() {
    let (mut mode, mut book) = (Mode::Default, Rulebook::default());
    let (mut count, mut wrong) = (0, Vec::new());
    for line in TABLE.lines().skip_while(|line| *line != "# default") {
        if let Some(head) = line.strip_prefix("# ") {
            // Others are remarks.
            if head.split(' ').next().and_then(Mode::named).is_some() {
                (mode, book) = block(head);
            }
            continue;
        }
        let Some((expected, rest)) = line.split_once(' ').filter(|_| !line.is_empty()) else {
            continue;
        };
        let text = unescaped(rest[1..].strip_prefix(' ').unwrap());
        let (tool, input) = match text.strip_prefix('[').and_then(|text| text.split_once("] ")) {
            Some((tool, input)) if tool.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') => {
                (tool, input)
            }
            _ => ("Bash", text.as_str()),
        };
        count += 1;
        let found = judged(&book, mode, tool, input);
        if found.decision.name() != expected {
            wrong.push(format!(
                "{expected} expected, {}: {tool} {input:?} ({})",
                found.decision.name(),
                found.why
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 250, "{count} cases");
}

#[test]
fn lists_of_rules_are_split_outside_brackets() {
    let found = split(["Bash(git diff:*),Read", "Edit(a b)  Write", "", ","]);
    assert_eq!(found, ["Bash(git diff:*)", "Read", "Edit(a b)", "Write"]);
}

#[test]
fn a_rule_that_is_suggested_allows_that_and_not_anything() {
    for (command, expected) in [
        ("git push origin main", Some("git push:*")),
        ("timeout 5 make", Some("make:*")),
        ("npm run build", Some("npm run:*")),
        ("npm exec x", Some("npm exec x")),
        ("sh -c ls", Some("sh -c ls")),
        ("python3 -c 'print 1'", Some("python3 -c 'print 1'")),
        ("git -c core.pager=x diff", Some("git -c core.pager=x diff")),
        ("sudo make", Some("sudo make")),
        ("xargs rm", Some("rm:*")),
        ("find . -exec rm x ';'", Some("find . -exec rm x ;")),
        ("find . -name '*.rs' -delete", Some("find .:*")),
        ("echo $(x)", None),
    ] {
        let found = rules::suggested(command);
        assert_eq!(found.as_deref(), expected, "{command}");
        let Some(content) = found else { continue };
        let (_, mut book) = block("default");
        let text = format!("Bash({content})");
        book.rules.push(Rule::parse(&text, Kind::Allow, "test", "/".into()).unwrap());
        let judged = judged(&book, Mode::Default, "Bash", command);
        assert_eq!(judged.decision, Decision::Allow, "{command}: {}", judged.why);
    }
}

#[test]
fn what_is_nested_too_deep_or_too_long_is_a_question_soon() {
    for text in [
        "if ".repeat(3_300),
        "while ".repeat(1_600),
        "case x in x) ".repeat(760),
        "until if ".repeat(1_000),
        format!("{}ls", "cd a && ".repeat(1_200)),
        format!("{}rm x{}", "if ls; then ".repeat(200), "; fi".repeat(200)),
    ] {
        let judged = judged(&Rulebook::default(), Mode::Default, "Bash", &text);
        assert_eq!(judged.decision, Decision::Ask, "{}", &text[..20]);
    }
}

/// Pieces of shell, from which commands are made.
fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "ls",
        "git diff",
        "cat README.md",
        "rm x",
        "git push",
        " ",
        ";",
        "&&",
        "||",
        "|",
        "&",
        "\n",
        "(",
        ")",
        "{",
        "}",
        "$(",
        "`",
        "\"",
        "'",
        "\\",
        "$x",
        "<(",
        "<<EOF\n",
        "EOF\n",
        ">",
        "> /dev/null",
        "2>&1",
        "#",
        "if",
        "then",
        "fi",
        "do",
        "done",
        "for i in",
        "!",
        "time",
        "xargs",
        "env",
        "sh -c",
        "eval",
        "timeout 5",
        "[[",
        "]]",
        "$((",
        "))",
        "${x",
        "*",
        "=",
        "X=1",
        "case x in",
        "esac",
        "function f",
        "\t",
        "~",
        "{a,b}",
        "$'a'",
        "\u{a0}",
        "\r",
        "\\$'",
        "{PATH}<",
        "<<E\"O\"F\n",
        "EO\\\nF\n",
        "find . -exec",
        "find",
        "\\;",
        "trap",
        "--",
        "-c",
        "EXIT",
        "<<<",
        "read x",
        "let x",
        "'a[$(rm x)]'",
        "'r\"\"m x'",
        "'git \"push\"'",
        "99999999999>x",
        "~99999999999999999999",
        "xargs -rn 1",
        "nice nice nice nice nice nice nice nice",
        "@(",
    ];
    prop_oneof![4 => prop::sample::select(fixed.to_vec()).prop_map(str::to_owned), 1 => any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]
    /// No input makes the judge panic; and one that is allowed, by a rule about other commands or
    /// because no rule forbids it, runs none that is not.
    #[test]
    fn nothing_is_allowed_that_holds_something_else(pieces in prop::collection::vec(piece(), 1..14)) {
        let text = pieces.concat();
        let allows = |head: &str| {
            let (mode, book) = block(head);
            let found = judged(&book, mode, "Bash", &text);
            let is_allowed = found.decision == Decision::Allow;
            is_allowed.then_some(found.parts)
        };
        let only = allows("default +Bash(git diff:*)");
        for part in only.iter().flatten() {
            prop_assert_eq!(part.decision, Decision::Allow, "{} in {:?}", part.text, text);
        }
        let others = [
            "default +Bash(find:*) +Bash(git diff:*) +Bash(env:*) +Bash(sh:*) +Bash(xargs:*)",
            "default +Bash(git:*) -Bash(git push:*)",
            "default +Bash -Bash(git push:*) -Bash(rm:*)",
            "bypassPermissions -Bash(git push:*) -Bash(rm:*)",
        ];
        let is_allowed = only.is_some() | others.iter().any(|head| allows(head).is_some());
        // With every forbidden program replaced by a trap that bash would report, none is run.
        prop_assert!(!is_allowed || !runs_a_trap(&text), "{:?}", text);
    }
}

/// Whether bash would run `rm` or `git push` in this text: every program is replaced by a function,
/// and what is not one of them cannot be found.
fn runs_a_trap(text: &str) -> bool {
    if text.contains('\0') {
        return false;
    }
    let script = "rm() { echo TRAP; }; git() { [ \"$1\" = push ] && echo TRAP; }; ls() { :; }; cat() { :; }\n\
        find() { while [ $# -gt 0 ] && [ \"$1\" != -exec ]; do shift; done; shift; \"$@\"; }\n\
        timeout() { shift; \"$@\"; }; xargs() { \"$@\"; }\n\
        env() { while [[ $1 == *=* ]]; do shift; done; \"$@\"; }\n\
        sh() { if [ \"$1\" = -c ]; then eval \"$2\"; fi; }\n";
    let folder = std::env::temp_dir();
    let output = std::process::Command::new("/bin/bash")
        .args(["-r", "-c", &format!("{script}{text}")])
        .env_clear()
        .env("PATH", "/nowhere")
        .current_dir(folder)
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("TRAP"))
}
