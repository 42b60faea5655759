use super::{Renames, format, parse};
use crate::conversation::table::Table;
use crate::format::entry::Kind;
use crate::format::file::Lines;

const OLD: &str = "11111111-1111-4111-8111-111111111111";
const NEW: &str = "22222222-2222-4222-8222-222222222222";
const RECORD: &str = "0a1b2c3d-0000-4aaa-9bbb-123456789abc";

fn renames(file: &str) -> Renames {
    let mut renames = Renames::new(OLD, NEW);
    renames.learn(&Table::read(Lines::new(file.as_bytes())).unwrap());
    renames
}

fn mapped(renames: &Renames, kind: Kind, text: &str) -> String {
    let mut out = Vec::new();
    renames.map_record(kind, text.as_bytes(), &[], &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn an_id_is_read_and_written() {
    assert_eq!(format(parse(RECORD.as_bytes()).unwrap()), RECORD);
    assert_eq!(parse(b"0a1b2c3d-0000-4aaa-9bbb-123456789abg"), None);
    assert_eq!(parse(b"0a1b2c3d-0000-4aaa+9bbb-123456789abc"), None);
}

#[test]
fn ids_are_mapped_wherever_they_stand_and_others_stay() {
    let line =
        format!(r#"{{"type":"user","uuid":"{RECORD}","parentUuid":null,"sessionId":"{OLD}"}}"#);
    let renames = renames(&line);
    let new = renames.record(RECORD);
    assert_ne!(new, RECORD);
    assert_eq!(&new[14..15], "4", "the version stays");
    let other = "ffffffff-0000-4aaa-9bbb-123456789abc";
    let text = format!("--{RECORD} in /x/{OLD}/tool-results/a.txt, not {other}-{RECORD}");
    let expected = format!("--{new} in /x/{NEW}/tool-results/a.txt, not {other}-{new}");
    assert_eq!(mapped(&renames, Kind::User, &text), expected);
    let zero = "00000000-0000-0000-0000-000000000000";
    let text = format!(r#"{{"type":"last-prompt","leafUuid":"{zero}","sessionId":"{OLD}"}}"#);
    assert_eq!(mapped(&renames, Kind::LastPrompt, &text), text.replace(OLD, NEW));
    // A snapshot may refer to an id that no record has; it is mapped all the same.
    let text = format!(r#"{{"messageId":"{other}","snapshot":{{"messageId":"{other}"}}}}"#);
    let found = mapped(&renames, Kind::FileHistorySnapshot, &text);
    assert_eq!(found, text.replace(other, &renames.record(other)));
}

#[test]
fn what_was_signed_stays() {
    let line = format!(r#"{{"type":"user","uuid":"{RECORD}","sessionId":"{OLD}"}}"#);
    let mut out = Vec::new();
    let text = format!("{OLD} {OLD}");
    renames(&line).map(text.as_bytes(), std::slice::from_ref(&(37..73)), &mut out);
    assert_eq!(out, format!("{NEW} {OLD}").into_bytes());
}

#[test]
fn ids_of_other_forms_are_mapped_in_members_that_name_them() {
    let text = r#"{"type":"user","uuid":"b","parentUuid":"a","sessionId":"s","message":{"role":"user","content":"a"},"title":"a"}"#;
    let renames = {
        let mut renames = Renames::new("s", NEW);
        renames.learn(&Table::read(Lines::new(text.as_bytes())).unwrap());
        renames
    };
    let found = mapped(&renames, Kind::User, text);
    let expected = text
        .replace(r#""uuid":"b""#, &format!(r#""uuid":"{}""#, renames.record("b")))
        .replace(r#""parentUuid":"a""#, &format!(r#""parentUuid":"{}""#, renames.record("a")))
        .replace(r#""sessionId":"s""#, &format!(r#""sessionId":"{NEW}""#));
    assert_eq!(found, expected);
}

#[test]
fn agents_beside_sessions_get_names_of_the_same_form() {
    let mut renames = Renames::new(OLD, NEW);
    let (eight, seven) = (renames.learn_agent("1a2b3c4d"), renames.learn_agent("a1b2c3d"));
    assert_eq!((eight.len(), seven.len()), (8, 7));
    assert!(seven.starts_with('a'));
    let text = r#"{"agentId":"1a2b3c4d","x":"agentId: a1b2c3d (1a2b3c4d0)"}"#;
    let expected = text.replace("\"1a2b3c4d\"", &format!("\"{eight}\"")).replace("a1b2c3d", &seven);
    assert_eq!(mapped(&renames, Kind::User, text), expected);
}
