use super::*;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn arguments_are_put_where_they_belong() {
    let cases = [
        ("Say hi to $ARGUMENTS.", "Ann and Bob", "Say hi to Ann and Bob."),
        ("$1 before $0, $ARGUMENTS[1]", "a \"b c\"", "b c before a, b c"),
        ("Nothing.", "x y", "Nothing.\n\nARGUMENTS: x y"),
        ("Nothing.", "", "Nothing."),
        ("$7 costs $ and $x", "a", " costs $ and $x"),
        // What is put in is not looked at again.
        ("$0 $1", "'$1' two", "$1 two"),
    ];
    for (body, arguments, expected) in cases {
        assert_eq!(with_arguments(body, arguments), expected, "{body}");
    }
}

#[test]
fn shell_commands_are_found_only_after_white_space() {
    let run = |text: &str| SlashPiece::Run(text.to_owned());
    let text = |text: &str| SlashPiece::Text(text.to_owned());
    assert_eq!(pieces("!`date`"), [run("date")]);
    assert_eq!(pieces("a !`date` b"), [text("a "), run("date"), text(" b")]);
    assert_eq!(pieces("a!`date` !`"), [text("a!`date` !`")]);
    assert_eq!(pieces("!`a`!`b`"), [run("a"), text("!`b`")]);
    assert_eq!(pieces("!`  `"), [text("!`  `")]);
}

#[test]
fn files_are_read_by_name_and_links_do_not_lead_out() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join(".claude");
    write(
        &root.join("commands/hi.md"),
        "---\ndescription: Greets\nargument-hint: NAME\nallowed-tools: Bash(git status:*), Read\nmodel: haiku\n---\nSay hi to $ARGUMENTS.\n",
    );
    write(&root.join("commands/sub/deep.md"), "# A title\nDo it.");
    write(&root.join("commands/no name.md"), "x");
    write(
        &root.join("skills/tidy/SKILL.md"),
        "---\nname: tidy\ndescription: Tidies up\n---\nTidy $ARGUMENTS.",
    );
    write(
        &root.join("skills/quiet/SKILL.md"),
        "---\ndescription: Quiet\ndisable-model-invocation: true\n---\nx",
    );
    write(
        &root.join("skills/known/SKILL.md"),
        "---\ndescription: Known\nuser-invocable: false\n---\nx",
    );
    write(
        &root.join("skills/strict/SKILL.md"),
        "---\ndescription: x\ndisallowed-tools: \"Bash(\"\n---\nx",
    );
    write(&folder.path().join("outside.md"), "the user's own file");
    std::os::unix::fs::symlink(folder.path().join("outside.md"), root.join("commands/out.md"))
        .unwrap();
    std::os::unix::fs::symlink(folder.path(), root.join("commands/loop")).unwrap();
    let mut book = SlashBook::default();
    let left = book.read(&root, Author::Project);
    let names: Vec<&str> = book.iter().map(|slash| slash.name.as_str()).collect();
    assert_eq!(names, ["hi", "known", "quiet", "sub:deep", "tidy"]);
    // What a restriction means has to be known.
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].contains("skills/strict/SKILL.md`: it is left out: `Bash(`"), "{left:?}");
    let names: Vec<&str> = book.for_user().map(|slash| slash.name.as_str()).collect();
    assert_eq!(names, ["hi", "quiet", "sub:deep", "tidy"]);
    assert!(book.called("/known").is_none());
    let (hi, rest) = book.called(" /hi Ann ").unwrap();
    assert_eq!((hi.description.as_str(), hi.hint.as_str(), rest), ("Greets", "NAME", "Ann"));
    assert_eq!(hi.allowed, ["Bash(git status:*)", "Read"]);
    assert_eq!(hi.model.as_deref(), Some("haiku"));
    assert_eq!(
        hi.typed("Ann"),
        "<command-message>hi</command-message>\n<command-name>/hi</command-name>\n<command-args>Ann</command-args>"
    );
    assert_eq!(book.find("sub:deep").unwrap().description, "A title");
    assert!(book.called("say /hi").is_none() && book.called("/deep").is_none());
    // The model sees what it may load, and nothing else.
    let tool = Arc::new(book).tool().unwrap();
    let description = &tool.spec().description;
    assert!(description.contains("- tidy: Tidies up") && !description.contains("quiet"));
    assert!(description.contains("- known: Known"));
}

#[test]
fn the_user_decides_about_links_and_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let (user, project) = (folder.path().join("user"), folder.path().join("project"));
    write(&folder.path().join("elsewhere.md"), "mine");
    write(&user.join("commands/both.md"), "the user's");
    write(&project.join("commands/both.md"), "the project's");
    std::os::unix::fs::symlink(folder.path().join("elsewhere.md"), user.join("commands/link.md"))
        .unwrap();
    let mut book = SlashBook::default();
    book.read(&user, Author::User);
    book.read(&project, Author::Project);
    assert_eq!(book.find("link").unwrap().pieces(""), [SlashPiece::Text("mine".to_owned())]);
    assert_eq!(book.find("both").unwrap().author, Author::User);
}
