use super::unmarked;

#[test]
fn a_title_is_marked_once() {
    for (title, base) in [
        ("Add tests", "Add tests"),
        ("repair of 5eed0001: Add tests", "Add tests"),
        ("Add tests (strip of 5eed0001)", "Add tests"),
        ("list of bugs: one", "list of bugs: one"),
        ("Add tests (most of them)", "Add tests (most of them)"),
        ("", ""),
    ] {
        assert_eq!(unmarked(title), base);
    }
}
