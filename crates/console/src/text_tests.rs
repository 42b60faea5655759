use super::*;
use proptest::prelude::*;

#[test]
fn what_a_terminal_would_obey_is_an_escape() {
    assert_eq!(safe("a\tb\u{1b}[31m\r\u{7}"), "a    b\\x1b[31m\\x0d\\x07");
    assert_eq!(safe("x\u{202e}y\u{200b}z\u{feff}"), "x\\u{202e}y\\u{200b}z\\u{feff}");
    assert_eq!(safe("❤\u{fe0f} 👩\u{200d}💻"), "❤\u{fe0f} 👩\u{200d}💻");
    assert_eq!(exact("a\u{200d}b"), "a\\u{200d}b");
    assert_eq!(exact("👩\u{200d}💻"), "👩\\u{200d}💻");
}

#[test]
fn what_joins_letters_and_pictures_stays_but_not_where_somebody_decides() {
    for text in [
        "1\u{fe0f}\u{20e3} #\u{fe0f}\u{20e3}",
        "ℹ\u{fe0f}™\u{fe0f}©\u{fe0f}‼\u{fe0f}",
        "می\u{200c}خواهم",
        "क्\u{200d}ष क्\u{200c}ष",
    ] {
        assert_eq!(safe(text), text);
        assert!(!exact(text).chars().any(is_hidden), "{text}");
        let mut composer = crate::composer::Composer::default();
        composer.insert(text);
        assert_eq!(plain(&composer.rows(&Span::raw(""), 80).0[0]), text);
    }
    assert_eq!(safe("a\u{200c}b 1\u{fe0f}2"), "a\\u{200c}b 1\\u{fe0f}2");
    assert_eq!(safe("می\u{200c}\u{200c}"), "می\u{200c}\\u{200c}");
}

#[test]
fn output_is_what_a_terminal_would_show_at_the_end() {
    let text = "\u{1b}[1;31merror\u{1b}[0m: no\n10%\r50%\r100%\r\n\u{1b}]0;title\u{7}done\n";
    assert_eq!(output_lines(text), ["error: no", "100%", "done"]);
}

#[test]
fn what_does_not_end_hides_nothing() {
    assert_eq!(output_lines("a\u{1b}]8;;x\nrm -r y\n"), ["a\\x1b]8;;x", "rm -r y"]);
    assert_eq!(output_lines("a\u{1b}[12;\nm hidden\n"), ["a\\x1b[12;", "m hidden"]);
    assert_eq!(output_lines("a\u{1b}[日m b\u{1b}"), ["a\\x1b[日m b\\x1b"]);
    assert_eq!(output_lines("\u{1b}]8;;u\u{1b}\\link\u{1b}(B \u{1b}[?25l."), ["link ."]);
}

proptest! {
    #[test]
    fn no_character_of_control_is_left(text in "\\PC{0,5}[\u{0}-\u{1f}\u{7f}-\u{9f}\u{200b}-\u{200f}\u{202a}-\u{202e}]{0,5}\\PC{0,5}") {
        let out = safe(&text);
        prop_assert!(!out.chars().any(|c| c.is_control() || visible(c) != c), "{out:?}");
        prop_assert!(!exact(&text).chars().any(is_hidden));
    }

    #[test]
    fn wrapping_keeps_everything_and_fits(text in "[a-z日本é ]{0,80}", room in 2usize..30) {
        let rows = wrap(&Line::from(text.clone()), room);
        prop_assert_eq!(rows.iter().map(plain).collect::<String>(), text);
        prop_assert!(rows.iter().all(|row| width(row) <= room));
    }
}
