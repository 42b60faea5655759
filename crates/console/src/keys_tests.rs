use super::*;
use proptest::prelude::*;

fn all(bytes: &[u8]) -> Vec<String> {
    let mut rest = bytes;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let next = match meaning(rest) {
            Meaning::More => meaning_at_end(rest),
            next => next,
        };
        let used = match next {
            Meaning::Event(Event::Key(key), used) => {
                found.push(format!("{:?} {:?}", key.modifiers, key.code));
                used
            }
            Meaning::Event(event, used) => {
                found.push(format!("{event:?}"));
                used
            }
            Meaning::Skip(used) => {
                found.push(format!("skip {used}"));
                used
            }
            Meaning::More => panic!("there is no more"),
        };
        assert!(used > 0 && used <= rest.len(), "{used} of {rest:?}");
        rest = &rest[used..];
    }
    found
}

#[test]
fn keys_as_terminals_send_them() {
    let table: Vec<String> = [
        "a日",
        "\r\t\x7f\x08\x03\x19\x1a\x00",
        "\x1b[A\x1bOB\x1b[1;5C\x1b[H\x1bOF\x1b[3~\x1b[5~\x1b[6~",
        "\x1b",
        "\x1b\x1b",
        "\x1bb\x1b\x7f",
        "\x1b[114;5u\x1b[27u",
        // The number pad, and a key without a character.
        "\x1b[57399u\x1b[57408u\x1b[57414u\x1b[57414;2u\x1b[57419u\x1b[57426u",
        "\x1b[57427u\x1b[57428u\x1b[63743u\x1b[57344u",
        "\x1b[200~two\nlines\x1b[201~x",
        "\x1b]11;rgb:0/0/0\x07x\x1b[?62;4cx",
        "\x1b[200~without an end",
        "\x1b[",
        "\x1b[12\x1b[A",
    ]
    .iter()
    .map(|sent| format!("{sent:?}: {}", all(sent.as_bytes()).join(", ")))
    .collect();
    insta::assert_snapshot!(table.join("\n"));
}

#[test]
fn what_is_cut_in_two_waits() {
    for sent in ["\x1b[1;5C", "日", "\x1bOA", "\x1b[200~text\x1b[201~", "\x1b]52;c;?\x07"] {
        for cut in 1..sent.len() {
            assert_eq!(meaning(&sent.as_bytes()[..cut]), Meaning::More, "{sent:?} at {cut}");
        }
    }
}

proptest! {
    #[test]
    fn every_byte_is_used_once(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        all(&bytes);
    }
}

#[test]
fn a_long_paste_is_cut_and_never_keys() {
    let mut held = Vec::new();
    let text = "line\r".repeat(300_000);
    let sent = format!("\x1b[200~{text}\x1b[201~x");
    for piece in sent.as_bytes().chunks(1 << 16) {
        held.extend_from_slice(piece);
        shorten(&mut held);
        assert!(held.len() < LONGEST_PASTE + (1 << 17));
    }
    let Meaning::Event(Event::Paste(pasted), used) = meaning(&held) else { panic!("no paste") };
    assert_eq!(pasted, text[..LONGEST_PASTE]);
    assert_eq!(&held[used..], b"x");
}
