use super::*;
use crate::conversation::place::Session;
use crate::conversation::preview::preview;
use crate::conversation::view::Thinking;
use crate::format::secret::Mask;

/// The live conversation of a recording, as Markdown.
fn exported(name: &str, show: Show) -> String {
    let folder = testkit::fixtures().join("recordings").join(name);
    let files = testkit::files_under(&[folder]);
    let main = files.iter().find(|file| !file.path.to_string_lossy().contains("agent-")).unwrap();
    let session = Session::at(&main.path).unwrap();
    let family = WithAgents::open(&session).unwrap();
    let mut out = Vec::new();
    let mut writer = Writer::new(&family, show, Mask::none(), &mut out);
    writer.head(&session.id, &preview(&session.path).unwrap()).unwrap();
    for (number, turn) in (1..).zip(&family.main.turns().live) {
        writer.turn(Owner::Main, turn, number).unwrap();
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn recordings_as_markdown() {
    insta::assert_snapshot!("tools", exported("2.1.45/c_tools", Show::default()));
    let full = Show { detail: Detail::Full, thinking: Thinking::Shown };
    insta::assert_snapshot!("agent_full", exported("2.1.325/e_agent", full));
    insta::assert_snapshot!("compact", exported("2.1.325/g_compact", Show::default()));
}

#[test]
fn nothing_inside_ends_a_code_block_or_becomes_markup() {
    assert_eq!(code("a `b` c"), "``a `b` c``");
    assert_eq!(code("`b`"), "`` `b` ``");
    assert_eq!(plain("*[x](y)* <b>"), "\\*\\[x\\](y)\\* \\<b\\>");
    assert_eq!(longest_run("a ```` b ``"), 4);
}

#[test]
fn what_is_left_open_is_closed() {
    assert_eq!(closed("a\n```rust\nfn"), "a\n```rust\nfn\n```");
    assert_eq!(closed("~~~~\n```\n~~~~"), "~~~~\n```\n~~~~");
    assert_eq!(closed("```\nx\n```\n"), "```\nx\n```\n");
}
