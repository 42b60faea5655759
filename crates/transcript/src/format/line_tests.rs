use super::*;

/// The fragments of a line, as text: range, state, and what is wrong.
fn pieces(line: &[u8]) -> Vec<String> {
    read(line)
        .map(|piece| {
            let Range { start, end } = piece.range;
            let what = match piece.meaning {
                Meaning::Whole(entry) => format!("whole {:?}", entry.kind()),
                Meaning::Recovered(entry, None) => format!("recovered {:?}", entry.kind()),
                Meaning::Recovered(entry, Some(fault)) => {
                    format!("recovered {:?}, {} at {}", entry.kind(), fault.why, fault.at)
                }
                Meaning::Bare(_) => "bare".to_owned(),
                Meaning::Damaged(fault) => format!("damaged, {} at {}", fault.why, fault.at),
            };
            format!("{start}..{end} {what}")
        })
        .collect()
}

const A: &str = r#"{"type":"user","uuid":"a","message":{"role":"user","content":"hi"}}"#;
const B: &str =
    r#"{"message":{"content":[{"type":"text","text":"ho"}]},"type":"assistant","uuid":"b"}"#;

#[test]
fn a_healthy_line_is_one_whole_record() {
    assert_eq!(pieces(A.as_bytes()), ["0..67 whole User"]);
    assert_eq!(pieces(format!("{B}\r\n").as_bytes()), ["0..83 whole Assistant"]);
    assert_eq!(pieces(format!("\u{feff}{A} ").as_bytes()), ["3..70 whole User"]);
    assert_eq!(pieces(b"{}"), ["0..2 whole Other"]);
}

#[test]
fn blank_lines_have_no_pieces() {
    assert_eq!(pieces(b""), [""; 0]);
    assert_eq!(pieces(b" \t\r\n"), [""; 0]);
    assert_eq!(pieces(b"\xef\xbb\xbf"), [""; 0]);
}

#[test]
fn json_that_is_no_object_is_bare() {
    for line in ["[1,2,3]", "null", "42", "\"text\"", "true"] {
        assert_eq!(pieces(line.as_bytes()), [format!("0..{} bare", line.len())]);
    }
}

#[test]
fn two_records_on_a_line_are_two() {
    assert_eq!(
        pieces(format!("{A}{B}").as_bytes()),
        ["0..67 recovered User", "67..150 recovered Assistant"]
    );
    assert_eq!(
        pieces(format!("{A} {B}{{}}").as_bytes()),
        ["0..67 recovered User", "68..151 recovered Assistant", "151..153 recovered Other"]
    );
}

#[test]
fn a_record_glued_to_a_cut_off_one_is_found() {
    // Cut inside a string: the quotes are off by one.
    assert_eq!(
        pieces(format!("{}{A}", &B[..40]).as_bytes()),
        ["0..40 damaged, record is cut off at 40", "40..107 recovered User"]
    );
    // Cut outside of a string.
    assert_eq!(
        pieces(format!("{}{A}", &B[..52]).as_bytes()),
        ["0..52 damaged, record is cut off at 52", "52..119 recovered User"]
    );
}

#[test]
fn what_a_cut_off_record_holds_is_no_record() {
    // `{"type":"text","text":"ho"}` is whole, and has a type.
    assert_eq!(pieces(&B.as_bytes()[..51]), ["0..51 damaged, record is cut off at 51"]);
    let progress = format!(r#"{{"type":"progress","data":{{"message":{A},"prompt":"x"}},"uu"#);
    assert_eq!(pieces(progress.as_bytes()).len(), 1);
}

#[test]
fn what_is_left_of_a_record_does_not_hide_the_one_before() {
    assert_eq!(
        pieces(format!("{A}{}", &B[60..]).as_bytes()),
        ["0..67 recovered User", "67..90 damaged, unexpected `\"` at 67"]
    );
    assert_eq!(
        pieces(format!("{A}{}", &B[52..]).as_bytes()),
        ["0..67 recovered User", "67..98 damaged, unexpected `,` at 67"]
    );
}

#[test]
fn nul_runs_are_told_apart() {
    assert_eq!(
        pieces(format!("\0\0\0{A}\0\0").as_bytes()),
        ["0..3 damaged, NUL bytes at 0", "3..70 recovered User", "70..72 damaged, NUL bytes at 70"]
    );
    assert_eq!(
        pieces(format!("{}\0\0{A}", &B[..30]).as_bytes()),
        [
            "0..30 damaged, record is cut off at 30",
            "30..32 damaged, NUL bytes at 30",
            "32..99 recovered User"
        ]
    );
}

#[test]
fn a_torn_end_is_damage() {
    assert_eq!(pieces(&A.as_bytes()[..30]), ["0..30 damaged, record is cut off at 30"]);
    assert_eq!(pieces(b"{"), ["0..1 damaged, record is cut off at 1"]);
    assert_eq!(pieces(b"// a comment"), ["0..12 damaged, unexpected `/` at 0"]);
}

#[test]
fn bytes_that_are_no_utf8_do_not_hide_a_record() {
    let mut line = A.as_bytes().to_vec();
    line[62] = 0xff;
    assert_eq!(pieces(&line), ["0..67 recovered User, invalid UTF-8 at 62"]);
}

#[test]
fn spaces_change_nothing() {
    let cut = r#"{"type":"user","uuid":"cut","message":{"content":"abc"#;
    let whole = r#"{ "type": "user", "uuid": "whole", "message": {"role":"user","content":"hi"} }"#;
    assert_eq!(
        pieces(format!("{cut}{whole}").as_bytes()),
        ["0..53 damaged, record is cut off at 53", "53..131 recovered User"]
    );
    let progress = r#"{"type": "progress", "data": {"message": {"type": "user", "uuid": "inner"} , "prompt": "cut of"#;
    assert_eq!(pieces(progress.as_bytes()).len(), 1);
}

/// Time must not grow with the square of the damage.
#[test]
fn much_damage_takes_no_longer_than_it_is_long() {
    let line = r#"x{"":1}"#.repeat(400_000);
    assert_eq!(read(line.as_bytes()).count(), 800_000);
}

/// Objects that do not end are scanned once, however deep they are nested.
#[test]
fn a_record_behind_deep_damage_is_found() {
    for cut in [r#"{"a":"#, r#"{"a":["#, r#"{"a":[{"b":{},"c":"#, r#"{"a":{"s":"{\"}","b":"#] {
        for depth in [1, 63, 64, 65, 100, 1_000, 10_000_000 / cut.len()] {
            let damage = cut.repeat(depth);
            let found: Vec<_> = read(format!("{damage}{A}").as_bytes())
                .filter(|piece| matches!(piece.meaning, Meaning::Recovered(..)))
                .map(|piece| (piece.range.start, piece.range.len()))
                .collect();
            assert_eq!(found, [(damage.len(), A.len())], "{cut} {depth} deep");
        }
    }
}
