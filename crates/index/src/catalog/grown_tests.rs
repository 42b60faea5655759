use std::fs;
use std::path::Path;

use super::*;

/// A session of so many turns, each of so many records.
fn session(turns: usize, records: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut before = None;
    let mut add = |line: serde_json::Value| {
        let mut line = line;
        line["uuid"] = format!("u{}", lines.len()).into();
        line["parentUuid"] = before.take().into();
        before = Some(format!("u{}", lines.len()));
        lines.push(format!("{line}\n"));
    };
    for turn in 0..turns {
        add(serde_json::json!({"type": "user", "message": {"role": "user", "content": "go on"}}));
        for at in 0..records / 2 {
            let call = format!("t{turn}-{at}");
            add(serde_json::json!({"type": "assistant", "message": {"role": "assistant",
                "id": format!("m{turn}-{at}"), "content": [
                    {"type": "tool_use", "id": call, "name": "Read", "input": {}}]}}));
            add(serde_json::json!({"type": "user", "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": call, "content": "x"}]}}));
        }
    }
    lines
}

fn whole(path: &Path) -> Places {
    Places::of(&Conversation::open(path).unwrap())
}

/// Long turns and short ones: what was appended is read, and 128 records before it.
#[test]
fn only_the_end_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.jsonl");
    for (turns, records) in [(3, 900), (300, 6)] {
        let lines = session(turns, records);
        for cut in [lines.len() - 1, lines.len() - 40, lines.len() - 300] {
            fs::write(&path, lines[..cut].concat()).unwrap();
            let (before, size) = (whole(&path), fs::metadata(&path).unwrap().len());
            fs::write(&path, lines.concat()).unwrap();
            // What is not read again may be anything, if it only has as many lines. For a new
            // prompt, the turn before it is read.
            let found = grown(&before, size, &path).unwrap().unwrap();
            assert_eq!(found, whole(&path));
            let start = before.list()[cut - 2 * AGAIN - 1].offset;
            let mut bytes = fs::read(&path).unwrap();
            let start = usize::try_from(start).unwrap();
            bytes[..start].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b'x');
            fs::write(&path, bytes).unwrap();
            assert_eq!(grown(&before, size, &path).unwrap(), Some(found));
        }
    }
}

/// A prompt that goes back, a compaction, a result that comes late: all is read.
#[test]
fn what_changes_turns_before_it_is_read_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.jsonl");
    let lines = session(100, 6);
    fs::write(&path, lines.concat()).unwrap();
    let (before, size) = (whole(&path), fs::metadata(&path).unwrap().len());
    let last = lines.len() - 1;
    for (appended, is_read) in [
        (format!(r#"{{"type":"user","uuid":"n","parentUuid":"u{last}","message":{{"role":"user","content":"more"}}}}"#), false),
        (r#"{"type":"ai-title","aiTitle":"about"}"#.to_owned(), false),
        (r#"{"type":"user","uuid":"n","parentUuid":"u7","message":{"role":"user","content":"again"}}"#.to_owned(), true),
        (format!(r#"{{"type":"user","uuid":"n","parentUuid":"u{}","message":{{"role":"user","content":"back"}}}}"#, last - 20), true),
        (r#"{"type":"user","uuid":"n","parentUuid":null,"message":{"role":"user","content":"new"}}"#.to_owned(), true),
        (format!(r#"{{"type":"system","subtype":"compact_boundary","uuid":"n","parentUuid":null,"logicalParentUuid":"u{last}","content":"c","compactMetadata":{{"trigger":"auto","preTokens":9}}}}"#), true),
        (format!(r#"{{"type":"user","uuid":"n","parentUuid":"u{last}","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t1-1","content":"late"}}]}}}}"#), true),
    ] {
        fs::write(&path, format!("{}{appended}\n", lines.concat())).unwrap();
        let found = grown(&before, size, &path).unwrap();
        assert_eq!(found.is_none(), is_read, "{appended}");
        assert!(found.is_none_or(|found| found == whole(&path)), "{appended}");
    }
}

/// Every real session, cut at some records: the places are those of the whole file. Recordings are
/// short, so little of them is read again; the corpus has long ones.
#[test]
fn places_of_real_sessions_that_grow() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.jsonl");
    let (mut short, mut all) = (0, 0);
    for (number, file) in testkit::real_files().iter().enumerate() {
        let bytes = fs::read(&file.path).unwrap();
        fs::write(&path, &bytes).unwrap();
        let wanted = whole(&path);
        let list = wanted.list();
        for count in [8, AGAIN] {
            let ends = list.iter().map(|place| place.offset + place.len + 1);
            let ends: Vec<u64> = ends.skip(count).collect();
            // Other places in each file.
            for end in ends.iter().skip(number % 7).step_by((ends.len() / 3).max(1)) {
                let end = usize::try_from(*end).unwrap().min(bytes.len());
                fs::write(&path, &bytes[..end]).unwrap();
                let before = whole(&path);
                fs::write(&path, &bytes).unwrap();
                let found = from_end(&before, end as u64, &path, count).unwrap();
                all += 1;
                short += usize::from(found.is_some());
                let Some(found) = found else { continue };
                let pairs = found.list().into_iter().zip(list.iter().copied());
                let other: Vec<_> = pairs.filter(|(one, other)| one != other).collect();
                let name = file.path.display();
                assert!(other.is_empty() && found == wanted, "{name} up to {end}: {other:?}");
            }
        }
    }
    assert!(all > 50, "only {all} places to cut");
    assert!(short * 3 > all, "{short} of {all} were read from their end");
    println!("{short} of {all} were read from their end");
}
