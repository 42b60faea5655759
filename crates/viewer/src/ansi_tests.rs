use super::*;
use proptest::prelude::*;

fn shown(text: &str) -> String {
    let mut out = String::new();
    push_output(&mut out, text);
    out
}

#[test]
fn colours_become_classes() {
    assert_eq!(shown("a \u{1b}[1;31merror\u{1b}[0m b"), "a <span class=\"f1 bo\">error</span> b");
    assert_eq!(shown("\u{1b}[38;5;196mx\u{1b}[39my"), "<span class=\"f9\">x</span>y");
    assert_eq!(shown("\u{1b}[38;2;10;200;30mx"), "<span class=\"f2\">x</span>");
}

#[test]
fn other_sequences_are_left_out() {
    let link = "\u{1b}]8;;javascript:alert(1)\u{1b}\\click\u{1b}]8;;\u{7}";
    assert_eq!(shown(link), "click");
    assert_eq!(shown("\u{1b}]0;title\u{7}x\u{1b}[2Jy\u{1b}[10;5Hz\u{1b}(B!"), "xyz!");
    assert_eq!(shown("10%\r50%\r100%\nnext\r\n"), "100%\nnext\n");
    assert_eq!(shown("\u{1b}["), "");
    assert_eq!(shown("<b>\u{1b}[31m<i>"), "&lt;b&gt;<span class=\"f1\">&lt;i&gt;</span>");
}

proptest! {
    #[test]
    fn any_output_is_spans_and_text(text in "[\u{1b}\u{9b}\\]\\[<>&'\"a0-9;:mPX\u{7}\\\\é\n\r]{0,80}") {
        let shown = shown(&text);
        let opened = shown.matches("<span class=\"").count();
        prop_assert_eq!(opened, shown.matches("</span>").count());
        prop_assert_eq!(shown.matches('<').count(), opened * 2);
        let has_controls = shown.contains(['\u{1b}', '\u{9b}', '\u{7}', '\'']);
        prop_assert!(!has_controls);
    }
}
