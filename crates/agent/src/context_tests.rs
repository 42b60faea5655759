use std::fs;

use super::*;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::io::Write::write_all(&mut fs::File::create(path).unwrap(), text.as_bytes()).unwrap();
}

#[test]
fn instructions_come_from_the_outside_in_with_their_imports() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let (home, cwd) = (root.join("home/.claude"), root.join("work/project"));
    write(&home.join("CLAUDE.md"), "user\n");
    write(&root.join("work/CLAUDE.md"), "above");
    write(
        &cwd.join("CLAUDE.md"),
        "project, see @docs/a.md and `@docs/code.md`\n```\n@docs/code.md\n```\n@../../outside.md",
    );
    write(&cwd.join("docs/a.md"), "imported @b.md @../CLAUDE.md @../README.md @../../above.md");
    write(&cwd.join("README.md"), "read me");
    write(&root.join("work/above.md"), "never");
    write(&cwd.join("docs/b.md"), "imported again");
    write(&cwd.join("docs/code.md"), "never");
    write(&root.join("outside.md"), "never");
    write(&cwd.join("AGENTS.md"), "never");
    write(&cwd.join("CLAUDE.local.md"), "local");
    let user = root.join("home");
    let repository = Trust::Untrusted;
    let places = Places { home: &home, user: Some(&user), cwd: &cwd, repository };
    let ContextFile { files: found, outside, .. } = instructions(places);
    assert!(outside.is_empty(), "{outside:?}");
    let texts: Vec<_> = found.iter().map(|(_, _, text)| text.split(',').next().unwrap()).collect();
    assert_eq!(
        texts,
        [
            "user",
            "above",
            "project",
            "imported @b.md @../CLAUDE.md @../README.md @../../above.md",
            "imported again",
            "read me",
            "local"
        ]
    );
    fs::remove_file(cwd.join("CLAUDE.md")).unwrap();
    let texts: Vec<_> = instructions(places).files.into_iter().map(|(_, _, text)| text).collect();
    assert_eq!(texts, ["user", "above", "never", "local"]);
    let (context, _) = Context::look(places, "2026-11-15", "claude-x");
    assert!(context.reminder.starts_with("<system-reminder>\n# claudeMd\n"));
    assert!(
        context
            .reminder
            .ends_with("# currentDate\nToday's date is 2026-11-15.\n</system-reminder>")
    );
    assert!(context.surroundings.contains("Git repository: no"));
}

#[test]
fn a_folders_instructions_are_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(&root.join("CLAUDE.md"), "known already");
    write(&root.join("src/CLAUDE.md"), "of src");
    write(&root.join("src/deep/AGENTS.md"), "of deep");
    let given = Mutex::default();
    let found = nested(&root.join("src/deep/a.rs"), root, &given).unwrap();
    assert!(found.starts_with("\n\n<system-reminder>\nContents of ") && found.contains("of src"));
    assert!(found.contains("of deep") && !found.contains("known"));
    assert_eq!(nested(&root.join("src/deep/b.rs"), root, &given), None);
    assert_eq!(nested(&root.join("a.rs"), root, &given), None);
    assert_eq!(nested(Path::new("/elsewhere/a.rs"), root, &given), None);
}

#[test]
fn instructions_may_import_what_lies_where_they_are_for() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let (home, cwd) = (root.join("home/.claude"), root.join("work/project"));
    write(&home.join("CLAUDE.md"), "user @rules/a.md");
    write(&home.join("rules/a.md"), "rule @../b.md @../../secret.md");
    write(&home.join("b.md"), "more");
    write(&root.join("home/secret.md"), "never");
    write(&root.join("work/.claude/CLAUDE.md"), "above @../notes.md @../../home/secret.md");
    write(&root.join("work/notes.md"), "notes");
    fs::create_dir_all(&cwd).unwrap();
    let repository = Trust::Untrusted;
    let found = instructions(Places { home: &home, user: None, cwd: &cwd, repository }).files;
    let texts: Vec<_> = found.iter().map(|(_, _, text)| text.split(' ').next().unwrap()).collect();
    assert_eq!(texts, ["user", "rule", "more", "above", "notes"]);
}

#[test]
fn long_instructions_are_cut_at_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("CLAUDE.md");
    let line = "é".repeat(99) + "\n";
    write(&path, &line.repeat(2_000));
    let found = text(&path).unwrap();
    let notice = "\n\n[the rest is left out: more than 256 KB]";
    assert_eq!(found, line.repeat(LONGEST / line.len()).trim_end().to_owned() + notice);
    write(&path, &"x".repeat(LONGEST));
    assert_eq!(text(&path).unwrap().len(), LONGEST);
}

#[test]
fn what_has_changed_is_told_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(&root.join("CLAUDE.md"), "first");
    let look = |date: &str, model: &str| {
        let (home, repository) = (root.join("home"), Trust::Untrusted);
        Context::look(Places { home: &home, user: None, cwd: root, repository }, date, model).0
    };
    let mut context = look("2026-11-15", "claude-x");
    let began = context.clone();
    assert_eq!(context.renew(&look("2026-11-15", "claude-x")), None);
    assert_eq!(
        context.renew(&look("2026-11-16", "claude-x")).unwrap(),
        "<system-reminder>\n# currentDate\nToday's date is 2026-11-16.\n</system-reminder>"
    );
    assert_eq!(context.renew(&look("2026-11-16", "claude-x")), None);
    assert_eq!(
        context.renew(&look("2026-11-16", "claude-y")).unwrap(),
        "<system-reminder>\nWhat has changed since the session began:\nModel: claude-y\n</system-reminder>"
    );
    write(&root.join("CLAUDE.md"), "second");
    let news = context.renew(&look("2026-11-17", "claude-x")).unwrap();
    let parts = ["Contents of ", "second", "2026-11-17", "Model: claude-x"];
    assert!(parts.iter().all(|part| news.contains(part)), "{news}");
    assert_eq!(context.renew(&look("2026-11-17", "claude-x")), None);
    // What was sent first stays as it was.
    assert_eq!((context.reminder, context.surroundings), (began.reminder, began.surroundings));
}

#[test]
fn the_state_of_a_repository_is_no_news() {
    let context = |status: &str| Context {
        surroundings: format!("Model: x{STATUS}As the session began:\n{status}"),
        ..Context::default()
    };
    assert_eq!(context("clean").renew(&context("changed")), None);
}

#[test]
fn rules_and_the_users_own_imports_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let (user, home, cwd) = (root.join("user"), root.join("user/.claude"), root.join("project"));
    write(&home.join("CLAUDE.md"), "All: @~/.claude/more.md @~/secret.md");
    write(&home.join("more.md"), "more of the user");
    write(&user.join("secret.md"), "secret");
    write(&cwd.join(".claude/rules/b.md"), "rule b");
    write(&cwd.join(".claude/rules/a.md"), "---\npaths: src/**\n---\nrule a");
    write(&cwd.join(".claude/rules/c.txt"), "rule c");
    let repository = Trust::Untrusted;
    let places = Places { home: &home, user: Some(&user), cwd: &cwd, repository };
    let (context, _) = Context::look(places, "x", "y");
    let texts = ["more of the user", "rule b", "secret\n", "rule a", "rule c"];
    assert_eq!(
        texts.map(|text| context.reminder.contains(text)),
        [true, true, false, false, false]
    );
}

#[cfg(unix)]
#[test]
fn instructions_that_lead_out_of_their_folder_are_left_out() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (user, cwd) = (root.join("user"), root.join("user/project"));
    let home = user.join(".claude");
    write(&user.join(".aws/credentials"), "stolen");
    write(&user.join("dotfiles/CLAUDE.md"), "of the user @more.md");
    write(&user.join("dotfiles/more.md"), "and more");
    write(&cwd.join("docs/a.md"), "inside @back/../../../.aws/credentials @../out/credentials");
    for name in ["sub/CLAUDE.md", ".claude/rules/x"] {
        write(&cwd.join(name).with_file_name("keep"), "");
    }
    fs::create_dir_all(&home).unwrap();
    for name in ["CLAUDE.md", "more.md"] {
        symlink(user.join("dotfiles").join(name), home.join(name)).unwrap();
    }
    let secret = user.join(".aws/credentials");
    let outside = ["CLAUDE.md", ".claude/CLAUDE.md", ".claude/rules/b.md", "CLAUDE.local.md"];
    for name in outside {
        symlink(&secret, cwd.join(name)).unwrap();
    }
    symlink(user.join(".aws"), cwd.join("out")).unwrap();
    symlink(cwd.join("docs/a.md"), cwd.join(".claude/rules/a.md")).unwrap();
    for name in ["CLAUDE.md", "AGENTS.md"] {
        symlink(&secret, cwd.join("sub").join(name)).unwrap();
    }
    write(&cwd.join("sub/a.rs"), "");
    let repository = Trust::Untrusted;
    let places = Places { home: &home, user: Some(&user), cwd: &cwd, repository };
    let (context, left_out) = Context::look(places, "x", "y");
    for text in ["of the user", "and more", "inside"] {
        assert!(context.reminder.contains(text), "{text}");
    }
    assert!(!context.reminder.contains("stolen"), "{}", context.reminder);
    assert_eq!(left_out.instructions, outside.map(|name| cwd.join(name)));
    assert_eq!(nested(&cwd.join("sub/a.rs"), &cwd, &Mutex::default()), None);
    assert_eq!(nested(&cwd.join("out/credentials"), &cwd, &Mutex::default()), None);
}

#[test]
fn rules_for_certain_files_come_with_the_first_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let (home, cwd) = (root.join("home"), root.join("project"));
    write(&home.join("rules/mine.md"), "---\nauthor: me\n---\nrule of the user");
    write(&home.join("rules/tests.md"), "---\npaths: tests/**\n---\nthe user's rule of tests");
    let rules = cwd.join(".claude/rules");
    write(&rules.join("deep/general.md"), "rule for all");
    write(
        &rules.join("code.md"),
        "---\npaths: [\"src/**/*.{rs,toml}\", lib/*.rs]\n---\nrule of code",
    );
    write(&rules.join("docs.md"), "---\npaths:\n  - \"*.md\"\n  - '[broken'\n---\nrule of docs");
    write(&cwd.join("AGENTS.md"), "of all agents");
    write(&cwd.join("src/CLAUDE.local.md"), "local to src");
    let repository = Trust::Untrusted;
    let (context, _) =
        Context::look(Places { home: &home, user: None, cwd: &cwd, repository }, "x", "y");
    let texts = ["rule of the user", "rule for all", "of all agents", "rule of", "author"];
    let has = texts.map(|text| context.reminder.contains(text));
    assert_eq!(has, [true, true, true, true, false], "{}", context.reminder);
    let late = ["rule of code", "of docs", "of tests"];
    assert!(late.iter().all(|text| !context.reminder.contains(text)));
    let given = Mutex::new(GivenInstructions::with_rules(home.join("rules")));
    let found = |name: &str| nested(&cwd.join(name), &cwd, &given).unwrap_or_default();
    assert_eq!(found("notes.txt"), "");
    let code = found("src/a/b.toml");
    assert!(code.contains("local to src") && code.ends_with("rule of code\n</system-reminder>"));
    assert_eq!(found("src/main.rs"), "");
    assert!(found("a.md").contains("rule of docs"));
    assert_eq!(found("docs/a.md"), "");
    assert!(found("tests/all.rs").ends_with("the user's rule of tests\n</system-reminder>"));
    assert_eq!(found("tests/all.rs"), "");
}
