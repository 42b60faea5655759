use super::*;
use proptest::prelude::*;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

fn press(composer: &mut Composer, keys: &str) -> Reaction {
    let mut last = Reaction::None;
    let mut rest = keys.chars();
    while let Some(c) = rest.next() {
        let (code, modifiers) = match c {
            '^' => (KeyCode::Char(rest.next().unwrap()), KeyModifiers::CONTROL),
            '%' => (KeyCode::Char(rest.next().unwrap()), KeyModifiers::ALT),
            '⏎' => (KeyCode::Enter, KeyModifiers::NONE),
            '⇧' => (KeyCode::Enter, KeyModifiers::SHIFT),
            '⌫' => (KeyCode::Backspace, KeyModifiers::NONE),
            '⎋' => (KeyCode::Esc, KeyModifiers::NONE),
            '↑' => (KeyCode::Up, KeyModifiers::NONE),
            '↓' => (KeyCode::Down, KeyModifiers::NONE),
            '←' => (KeyCode::Left, KeyModifiers::NONE),
            c => (KeyCode::Char(c), KeyModifiers::NONE),
        };
        last = composer.key(KeyEvent::new(code, modifiers));
    }
    last
}

fn emacs(keys: &str) -> String {
    let mut composer = Composer::new(Keymap::Emacs);
    press(&mut composer, keys);
    let (before, after) = composer.text.split_at(composer.at);
    format!("{before}|{after}")
}

#[test]
fn keys_of_emacs() {
    for (keys, result) in [
        ("two words^wthree", "two three|"),
        ("two words^aone ^e.", "one two words.|"),
        ("one two%b%b%d", "| two"),
        ("one⇧two^uthree", "one\nthree|"),
        ("one\\⏎two", "one\ntwo|"),
        ("one^jtwo↑x", "onex|\ntwo"),
        ("日本⌫語", "日語|"),
        ("e\u{301}x←⌫", "|x"),
        ("one two^w^y^y", "one twotwo|"),
        ("one two^w^u^y%y", "two|"),
        ("one two^w^u^y%y%y", "one |"),
        ("one two^w^u^y!%y", "one !|"),
        ("ab^t", "ba|"),
        ("one^k^a^k^y", "one|"),
        ("hello world^_^_", "hello|"),
        ("one two^w^_%z", "one |"),
        ("word^a%u", "WORD|"),
    ] {
        assert_eq!(emacs(keys), result, "{keys}");
    }
}

#[test]
fn keys_of_vi() {
    for (keys, result) in [
        ("one two⎋bdw", "one |"),
        ("one two⎋0cwthree⎋", "thre|e two"),
        ("one two⎋0x", "|ne two"),
        ("one⎋ddp", "one|"),
        ("one⇧two⎋kdd", "|two"),
        ("one two three⎋02dw", "|three"),
        ("one two⎋0fo", "one tw|o"),
        ("a(b)c⎋0f(dt)", "a|)c"),
        ("one⎋rx", "on|x"),
        ("one⎋u", "|"),
        ("one⎋Otwo", "two|\none"),
        ("abc⎋0~", "A|bc"),
        ("a.b.c.d⎋0f.;;x", "a.b.c|d"),
        ("a.b.c.d⎋0f.;,x", "a|b.c.d"),
        ("a.b.c.d⎋0t.;d;", "a.|.d"),
        ("one two three⎋bbciwtwice⎋", "one twic|e three"),
        ("one two three⎋bbdaw", "one |three"),
        ("say \"one two\" now⎋0fwdi\"", "say \"|\" now"),
        ("f(a, g(b))⎋0fada(", "f|"),
        ("[one]⎋0ci[two⎋", "[tw|o]"),
        ("one two three⎋0dw.", "|three"),
        ("one two three⎋0cwx⎋w.", "x |x three"),
        ("one two⎋0xu.", "|ne two"),
        ("one⎋>>", "  |one"),
        ("one⎋>><<", "|one"),
        ("one⇧two⎋Yp", "one\ntwotwo|"),
    ] {
        let mut composer = Composer::new(Keymap::Vi);
        press(&mut composer, keys);
        let (before, after) = composer.text.split_at(composer.at);
        assert_eq!(format!("{before}|{after}"), result, "{keys}");
    }
}

/// The caret goes by the rows that are seen, and the history comes above the first one.
#[test]
fn up_and_down_go_by_rows() {
    let mut composer = Composer::new(Keymap::Emacs);
    composer.set("one two three four five six\n家族 end");
    composer.set_width(13);
    let mut places = Vec::new();
    while press(&mut composer, "↑") == Reaction::Done {
        places.push(composer.at);
    }
    // Three rows of ten columns above the last one, which has eight.
    assert_eq!(places, [27, 17, 7]);
    let mut places = Vec::new();
    while press(&mut composer, "↓") == Reaction::Done {
        places.push(composer.at);
    }
    assert_eq!(places, [17, 27, 37]);
}

#[test]
fn what_is_pasted_never_sends_and_long_texts_are_marks() {
    let mut composer = Composer::new(Keymap::Emacs);
    composer.paste("one\rtwo\r\nthree");
    assert_eq!(composer.text(), "one\ntwo\nthree");
    composer.clear();
    press(&mut composer, "see ");
    composer.paste("a\nb\nc\nd\ne");
    composer.paste_image(Image { media: "image/png".to_owned(), data: "AAAA".to_owned() });
    assert_eq!(composer.text(), "see [Pasted text #1 +4 lines][Image #2]");
    let prompt = composer.prompt();
    assert_eq!(prompt.text, "see a\nb\nc\nd\ne[Image #2]");
    assert_eq!(prompt.images().count(), 1);
    // A mark is one character.
    press(&mut composer, "⌫");
    assert_eq!(composer.text(), "see [Pasted text #1 +4 lines]");
    assert_eq!(composer.prompt().images().count(), 0);
    press(&mut composer, "⌫^_^_");
    assert_eq!(composer.prompt().images().count(), 1);
}

#[test]
fn a_mark_means_only_what_was_pasted_into_its_prompt() {
    let image = |data: &str| Image { media: "image/png".to_owned(), data: data.to_owned() };
    let sent = |composer: &Composer| {
        let prompt = composer.prompt();
        let data: Vec<String> = prompt.images().map(|image| image.data.clone()).collect();
        (prompt.display.clone(), data)
    };
    let mut composer = Composer::new(Keymap::Emacs);
    composer.paste_image(image("today"));
    let today = composer.prompt();
    composer.clear();
    // A prompt of last week, whose image is not known any more.
    composer.take_back(Prompt::typed("see [Image #1]"));
    assert_eq!(sent(&composer), ("see [Image #1]".to_owned(), Vec::new()));
    // What was cleared away comes back with what was pasted.
    press(&mut composer, "^_^_");
    assert_eq!(sent(&composer), ("[Image #1]".to_owned(), vec!["today".to_owned()]));
    press(&mut composer, "%z%z");
    assert_eq!(sent(&composer), ("see [Image #1]".to_owned(), Vec::new()));
    // Two prompts with the same numbers become one.
    composer.clear();
    composer.paste_image(image("written"));
    composer.paste("a\nb\nc\nd");
    composer.take_back(today);
    let wanted = "[Image #3]\n[Image #1][Pasted text #2 +3 lines]";
    assert_eq!(
        sent(&composer),
        (wanted.to_owned(), vec!["written".to_owned(), "today".to_owned()])
    );
    assert!(composer.prompt().text.ends_with("a\nb\nc\nd"));
}

#[test]
fn rows_and_the_caret() {
    let mut composer = Composer::new(Keymap::Emacs);
    press(&mut composer, "日本語 text that is long⇧second");
    let (rows, caret) = composer.rows(&Span::raw("> "), 12);
    let rows: Vec<String> = rows.iter().map(text::plain).collect();
    assert_eq!(rows, ["> 日本語 te", "  xt that i", "  s long", "  second"]);
    assert_eq!(caret, (3, 8));
    press(&mut composer, "↑^a");
    assert_eq!(composer.rows(&Span::raw("> "), 12).1, (0, 2));
}

#[test]
fn what_can_be_undone_is_bounded() {
    let mut composer = Composer::new(Keymap::Emacs);
    composer.set(&"x".repeat(3 << 20));
    for _ in 0..40 {
        press(&mut composer, "a ");
    }
    let bytes: usize = composer.undo.iter().map(|state| state.text.len()).sum();
    assert!(bytes <= UNDO_BYTES && composer.undo.len() > 1);
    press(&mut composer, "^_");
    assert!(composer.text().ends_with("a a"));
}

proptest! {
    #[test]
    fn any_keys_keep_the_caret_between_characters(
        keys in proptest::collection::vec(prop_oneof![
            Just("a"), Just("日"), Just(" "), Just("⇧"), Just("⌫"), Just("^w"), Just("^k"), Just("^y"), Just("^a"),
            Just("^e"), Just("%b"), Just("%f"), Just("%d"), Just("^t"), Just("^_"), Just("%z"), Just("↑"), Just("↓"),
            Just("←"), Just("⎋"), Just("d"), Just("w"), Just("c"), Just("e"), Just("f"), Just("3"), Just("i"), Just("x"),
            Just("e\u{301}"), Just("~"), Just("J"), Just("p"), Just("O"), Just("\\"), Just("⏎"), Just("T"), Just("%u"),
        ], 0..60),
        is_vi in any::<bool>(),
        width in 8usize..40,
    ) {
        let mut composer = Composer::new(if is_vi { Keymap::Vi } else { Keymap::Emacs });
        for key in keys {
            press(&mut composer, key);
            prop_assert!(composer.text.is_char_boundary(composer.at));
            let (rows, caret) = composer.rows(&Span::raw("> "), width);
            prop_assert!(caret.0 < rows.len() && caret.1 < width);
            prop_assert!(rows.iter().all(|row| text::width(row) <= width));
        }
    }
}
