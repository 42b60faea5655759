use proptest::prelude::*;

use super::*;

fn read(pieces: &[&[u8]]) -> Vec<String> {
    let mut events = Events::default();
    let mut found = Vec::new();
    for piece in pieces {
        events.push(piece, |event| found.push(event.to_owned())).unwrap();
    }
    found
}

#[test]
fn events_end_with_a_blank_line() {
    let text =
        b": hello\nevent: ping\ndata: {\"a\":1}\n\ndata: x\ndata:y\r\n\r\nid: 7\n\ndata: open";
    assert_eq!(read(&[text]), ["{\"a\":1}", "x\ny"]);
}

proptest! {
    #[test]
    fn the_cuts_do_not_matter(text in "(data: ?[a-zäé]{0,5}|event: x|)(\r\n|\n|\r){1,2}", cut in 0..30_usize) {
        let text = text.repeat(3).into_bytes();
        let cut = cut.min(text.len());
        prop_assert_eq!(read(&[&text[..cut], &text[cut..]]), read(&[&text]));
    }
}
