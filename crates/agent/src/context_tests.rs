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
    write(&cwd.join("docs/a.md"), "imported @b.md @../CLAUDE.md");
    write(&cwd.join("docs/b.md"), "imported again");
    write(&cwd.join("docs/code.md"), "never");
    write(&root.join("outside.md"), "never");
    write(&cwd.join("AGENTS.md"), "never");
    write(&cwd.join("CLAUDE.local.md"), "local");
    let user = root.join("home");
    let places = Places { home: &home, user: Some(&user), cwd: &cwd };
    let found = instructions(places);
    let texts: Vec<_> = found.iter().map(|(_, _, text)| text.split(',').next().unwrap()).collect();
    assert_eq!(
        texts,
        ["user", "above", "project", "imported @b.md @../CLAUDE.md", "imported again", "local"]
    );
    fs::remove_file(cwd.join("CLAUDE.md")).unwrap();
    let texts: Vec<_> = instructions(places).into_iter().map(|(_, _, text)| text).collect();
    assert_eq!(texts, ["user", "above", "never", "local"]);
    let context = Context::look(places, "2026-11-15", "claude-x");
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
    let told = Mutex::default();
    let found = nested(&root.join("src/deep/a.rs"), root, &told).unwrap();
    assert!(found.starts_with("\n\n<system-reminder>\nContents of ") && found.contains("of src"));
    assert!(found.contains("of deep") && !found.contains("known"));
    assert_eq!(nested(&root.join("src/deep/b.rs"), root, &told), None);
    assert_eq!(nested(&root.join("a.rs"), root, &told), None);
    assert_eq!(nested(Path::new("/elsewhere/a.rs"), root, &told), None);
}
