use std::fs::OpenOptions;
use std::io::Write;

use super::*;

fn append(path: &std::path::Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// Offset, length, kind and state of every record.
fn records(mut lines: Lines<impl Read>) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(line) = lines.next_line().unwrap() {
        found.extend(line.records().map(|record| {
            let kind = record.entry.map(|entry| format!("{:?}", entry.kind())).unwrap_or_default();
            format!("{}+{} {} {kind}", record.offset, record.len, record.state.name())
        }));
    }
    found
}

/// A record whose long string is far longer than what is kept in memory.
fn long(size: usize) -> String {
    let text = "0123456789".repeat(size / 10);
    format!(
        r#"{{"parentUuid":"p","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":"{text}\n{text}"}},{{"type":"image","source":{{"data":"{text}"}}}}]}},"type":"user","uuid":"u"}}"#
    )
}

#[test]
fn a_long_line_is_read_without_being_held() {
    let line = long(50_000);
    let file = format!("{{\"type\":\"mode\"}}\n{line}\n{{\"type\":\"mode\"}}\n");
    let mut lines = Lines::new(file.as_bytes()).holding(10_000);
    lines.next_line().unwrap();
    let long = lines.next_line().unwrap().unwrap();
    let Body::Condensed(digest) = long.body else { panic!("held") };
    assert!(digest.bytes().len() < 3_000, "{}", digest.bytes().len());
    let record = long.records().next().unwrap();
    assert_eq!((record.offset, record.len), (16, line.len() as u64));
    assert_eq!((record.line, record.state, record.condensed), (Some(2), State::Whole, true));
    let entry = record.entry.unwrap();
    assert_eq!((entry.uuid().unwrap().as_ref(), entry.parent().unwrap().as_ref()), ("u", "p"));
    let kinds: Vec<_> = entry.message().unwrap().blocks().map(|b| b.type_name().unwrap()).collect();
    assert_eq!(kinds, ["tool_result", "image"]);
    let after = lines.next_line().unwrap().unwrap();
    assert_eq!((after.number, after.offset), (Some(3), 17 + line.len() as u64));
}

#[test]
fn damage_in_a_long_line_is_found() {
    let line = long(50_000);
    let tail = r#"{"type":"user","uuid":"tail"}"#;
    let expected = |cut: usize| {
        let damaged = records(Lines::new(format!("{}{tail}", &line[..cut]).as_bytes()));
        let condensed =
            records(Lines::new(format!("{}{tail}", &line[..cut]).as_bytes()).holding(10_000));
        assert_eq!(damaged, condensed, "cut at {cut}");
        assert_eq!(damaged.len(), 2);
    };
    // In the first long string, in the escape between, in the third, and between strings.
    for cut in [20_000, 50_117, 50_118, 50_119, 120_000, line.len() - 20] {
        expected(cut);
    }
    let nul = format!("{line}{}{tail}", "\0".repeat(30_000));
    assert_eq!(
        records(Lines::new(nul.as_bytes()).holding(10_000)),
        records(Lines::new(nul.as_bytes()))
    );
    let control = line.replacen("0123", "01\u{2}3", 5_000).replacen("01\u{2}3", "0123", 4_999);
    let states = records(Lines::new(control.as_bytes()).holding(10_000));
    assert!(states[0].contains("damaged"), "{states:?}");
}

/// Too much structure even without the long strings: the deepest is dropped first.
#[test]
fn structure_is_bounded_too() {
    let items = r#"["a",1],"#.repeat(1_200_000);
    let line = format!(
        r#"{{"type":"user","toolUseResult":{{"a":{{"b":{{"c":{{"d":{{"e":{{"f":[{items}0]}}}}}}}}}}}},"uuid":"u"}}"#
    );
    let mut lines = Lines::new(line.as_bytes()).holding(1_000_000);
    let condensed = lines.next_line().unwrap().unwrap();
    let record = condensed.records().next().unwrap();
    assert_eq!((record.len, record.state), (line.len() as u64, State::Whole));
    assert_eq!(record.entry.unwrap().uuid().unwrap(), "u");

    let flat = format!("{{{}\"uuid\":\"u\"}}", "\"k\":1,".repeat(1_000_000));
    let mut lines = Lines::new(flat.as_bytes()).holding(1_000_000);
    let condensed = lines.next_line().unwrap().unwrap();
    let record = condensed.records().next().unwrap();
    assert_eq!((record.len, record.fault), (flat.len() as u64, Some((0, Why::TooMuch))));
}

/// A result with very many file names is still a result.
#[test]
fn the_message_outlasts_the_rest() {
    let names = r#""some/path/to/a/file.rs","#.repeat(300_000);
    let line = format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","content":"x"}}]}},"toolUseResult":{{"filenames":[{names}0]}},"uuid":"u"}}"#
    );
    let mut lines = Lines::new(line.as_bytes()).holding(1_000_000);
    let condensed = lines.next_line().unwrap().unwrap();
    let entry = condensed.records().next().unwrap().entry.unwrap();
    assert!(entry.message().unwrap().has_tool_result() && !entry.is_human_turn());
    assert_eq!(entry.uuid().unwrap(), "u");
}

/// A file that has lost its newlines.
#[test]
fn very_many_records_on_a_line_are_all_found() {
    let record = format!(r#"{{"type":"user","uuid":"u","cwd":"{}"}}"#, "x".repeat(200));
    let line = record.repeat(40_000) + "\n" + &record;
    let mut lines = Lines::new(line.as_bytes()).holding(1_000_000);
    let (mut found, mut parts, mut end) = (0, 0, 0);
    let mut inventory = crate::conversation::inventory::Inventory::default();
    while let Some(line) = lines.next_line().unwrap() {
        assert_eq!(line.offset, end);
        end = line.offset + line.len + u64::from(line.ended);
        parts += u32::from(line.part.is_some());
        inventory.add(&line);
        for one in line.records() {
            let (number, state) =
                if found < 40_000 { (1, State::Recovered) } else { (2, State::Whole) };
            assert_eq!((one.line, one.state), (Some(number), state));
            assert_eq!(one.offset, found * record.len() as u64 + u64::from(found == 40_000));
            found += 1;
        }
    }
    assert_eq!((found, end), (40_001, line.len() as u64));
    assert!(parts > 3, "{parts}");
    assert_eq!((inventory.lines, inventory.records), (2, 40_001));
}

#[test]
fn what_json_does_not_allow_is_seen_in_a_long_string() {
    let filler = "a".repeat(20_000);
    for (bad, state) in
        [("\\q", "damaged"), ("\\u12x4", "damaged"), ("\u{1}", "damaged"), ("\\n", "whole")]
    {
        let line = format!(r#"{{"type":"user","x":"{filler}{bad}{filler}"}}"#);
        let found = records(Lines::new(line.as_bytes()).holding(10_000));
        assert!(found[0].contains(state), "{bad:?}: {found:?}");
    }
    let mut line = format!(r#"{{"type":"user","x":"{filler}{filler}"}}"#).into_bytes();
    line[20_000] = 0xff;
    assert_eq!(records(Lines::new(&line[..]).holding(10_000)), ["0+40022 recovered User"]);
}

#[test]
fn long_runs_of_nothing_are_passed_over() {
    let record = r#"{"type":"user","uuid":"u","n":1"#;
    for nothing in [" ", "\0", "7"] {
        let run = nothing.repeat(9_000_000);
        let line =
            if nothing == "7" { format!("{record}{run}}}") } else { format!("{run}{record}}}") };
        let found = records(Lines::new(line.as_bytes()).holding(1_000_000));
        let start = line.find('{').unwrap();
        let state = if nothing == "\0" { "recovered" } else { "whole" };
        assert_eq!(found.last().unwrap(), &format!("{start}+{} {state} User", line.len() - start));
    }
}

/// Memory for one line is bounded, whatever its bytes are.
#[test]
fn a_crowd_of_blocks_or_members_is_read_one_by_one() {
    let blocks = "{},".repeat(100_000);
    let line =
        format!(r#"{{"type":"user","message":{{"content":[{blocks}{{"type":"tool_result"}}]}}}}"#);
    let entry = Entry::parse(line.as_bytes()).unwrap();
    assert_eq!(entry.message().unwrap().blocks().count(), 100_001);
    assert!(entry.message().unwrap().has_tool_result());
    let line = format!(r#"{{{}"type":"user","uuid":"u"}}"#, r#""uuid":1,"#.repeat(10_000));
    let entry = Entry::parse(line.as_bytes()).unwrap();
    assert_eq!(entry.uuid().unwrap(), "u");
    assert_eq!(entry.members().count(), 10_002);
}

#[test]
fn a_long_line_is_read_backward() {
    let line = long(HELD_LINE);
    let mut file = tempfile::tempfile().unwrap();
    write!(file, "{{\"type\":\"mode\"}}\n{line}\n{{\"type\":\"summary\"}}").unwrap();
    let mut lines = Backward::new(&file).unwrap();
    let mut found = Vec::new();
    while let Some(line) = lines.next_line().unwrap() {
        let kinds = line.records().map(|record| record.entry.unwrap().kind()).collect::<Vec<_>>();
        found.push(format!("{}+{} {kinds:?}", line.offset, line.len));
    }
    let end = 17 + line.len();
    assert_eq!(
        found,
        [
            format!("{end}+18 [Summary]"),
            format!("16+{} [User]", line.len()),
            "0+15 [Mode]".to_owned()
        ]
    );
}

#[test]
fn one_record_is_read_by_its_place() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"{\"type\":\"mode\"}\n{\"type\":\"user\"}\n").unwrap();
    assert_eq!(read_at(&file, 16, 15).unwrap(), b"{\"type\":\"user\"}");
    assert!(read_at(&file, 16, 100).is_err());
    assert!(read_at(&file, 0, u64::MAX).is_err());
}

/// What a poll finds: lines as their text, other events by name.
fn poll(follow: &mut Follow) -> Vec<String> {
    let mut found = Vec::new();
    follow
        .poll(|event| {
            found.push(match event {
                Event::Line(Line { number, body: Body::Held(bytes), .. }) => {
                    format!("{} {}", number.unwrap(), String::from_utf8_lossy(bytes))
                }
                other => format!("{other:?}"),
            });
        })
        .unwrap();
    found
}

#[test]
fn following_gives_every_line_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    File::create(&path).unwrap().write_all(b"{\"a\":1}\n").unwrap();
    let mut from_start = Follow::from_start(&path).unwrap();
    let mut follow = Follow::from_end(&path).unwrap();
    assert_eq!(poll(&mut from_start), [r#"1 {"a":1}"#]);
    assert_eq!(poll(&mut follow), [""; 0]);
    // The poll waits for the rest of a line.
    append(&path, b"{\"b\":");
    assert_eq!(poll(&mut follow), [""; 0]);
    append(&path, b"2}\n{\"c\":3}\n");
    assert_eq!(poll(&mut follow), [r#"2 {"b":2}"#, r#"3 {"c":3}"#]);
    assert_eq!(poll(&mut from_start), [r#"2 {"b":2}"#, r#"3 {"c":3}"#]);
    // A whole record without its newline is returned, and the newline is not a line of its own.
    append(&path, b"{\"d\":4}");
    assert_eq!(poll(&mut follow), [r#"4 {"d":4}"#]);
    append(&path, b"\n{\"e\":5}");
    assert_eq!(poll(&mut follow), [r#"5 {"e":5}"#]);
    // Glued to it: the same line.
    append(&path, b"{\"f\":6}\n");
    assert_eq!(poll(&mut follow), [r#"5 {"f":6}"#]);
    assert_eq!(poll(&mut follow), [""; 0]);
}

#[test]
fn following_notices_what_happens_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    File::create(&path).unwrap().write_all(b"{\"a\":1}\n{\"b\":2}\n").unwrap();
    let mut follow = Follow::from_end(&path).unwrap();
    File::create(&path).unwrap().write_all(b"{\"c\":3}\n").unwrap();
    assert_eq!(poll(&mut follow), ["Truncated", r#"1 {"c":3}"#]);
    // Rewritten in place, and longer than before.
    File::create(&path).unwrap().write_all(b"{\"d\":4}\n{\"e\":5}\n").unwrap();
    assert_eq!(poll(&mut follow), ["Replaced", r#"1 {"d":4}"#, r#"2 {"e":5}"#]);
    let other = folder.path().join("other");
    File::create(&other).unwrap().write_all(b"{\"d\":4}\n{\"e\":5}\n{\"f\":6}\n").unwrap();
    std::fs::rename(&other, &path).unwrap();
    assert_eq!(poll(&mut follow)[0], "Replaced");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(poll(&mut follow), ["Gone"]);
    assert_eq!(poll(&mut follow), [""; 0]);
    File::create(&path).unwrap().write_all(b"{\"g\":7}\n").unwrap();
    assert_eq!(poll(&mut follow), [r#"1 {"g":7}"#]);
}
