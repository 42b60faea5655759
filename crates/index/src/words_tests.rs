use super::*;

fn segmented(text: &str) -> [String; 2] {
    let mut found = Segmented::default();
    found.add(text);
    [found.words.trim_end().to_owned(), found.parts.trim_end().to_owned()]
}

#[test]
fn words_and_the_parts_of_identifiers() {
    assert_eq!(segmented("Fix parse_line, now!"), ["fix parse_line now", "parse line"]);
    assert_eq!(
        segmented("parseLine(HTTPServer)"),
        ["parseline httpserver", "parse line http server"]
    );
    assert_eq!(segmented("src/main.rs:42"), ["src main rs 42", ""]);
    assert_eq!(segmented("__init__ utf8 É"), ["__init__ utf8 é", "init"]);
    assert_eq!(segmented(" … "), ["", ""]);
}

#[test]
fn dense_scripts_become_pairs() {
    assert_eq!(segmented("日本語"), ["日本 本語 語", ""]);
    assert_eq!(segmented("Rustで書く"), ["rust で書 書く く", ""]);
    assert_eq!(segmented("猫 한국어"), ["猫 한국 국어 어", ""]);
}

#[test]
fn long_words_are_cut_and_texts_are_apart() {
    let long = "x".repeat(100);
    assert_eq!(segmented(&long), [long[..LONGEST].to_owned(), String::new()]);
    let mut two = Segmented::default();
    two.add("one");
    two.add("two");
    assert_eq!(two.words, "one _ two ");
}

#[test]
fn places_are_those_of_the_text() {
    let text = "a Straße 日本 b";
    for word in words(text) {
        assert_eq!(&text[word.range.clone()], word.text);
    }
    let found: Vec<&str> = words(text).map(|word| word.text).collect();
    assert_eq!(found, ["a", "Straße", "日本", "b"]);
}
