//! Every record that damage did not touch is found.

use std::collections::HashMap;
use std::ops::Range;

use testkit::damage::damage;
use testkit::{RealFile, Rng, real_files};
use transcript::format::file::{self, Lines, State};
use transcript::format::limit::HELD_LINE;

/// The ranges of the records of a file. Files that are already damaged cannot be used here.
fn records(file: &RealFile) -> Option<Vec<Range<usize>>> {
    let mut found = Vec::new();
    let mut healthy = true;
    file::read(&file.bytes, |record| {
        let start = usize::try_from(record.offset).unwrap();
        let end = start + usize::try_from(record.len).unwrap();
        healthy &= record.state == State::Whole;
        if record.entry.is_some() {
            found.push(start..end);
        }
    });
    (healthy && !found.is_empty()).then_some(found)
}

/// A record of an unknown type, without an id, directly behind what a member begins with: nothing
/// tells it from a content block.
fn is_like_a_value(bytes: &[u8], start: usize, record: &[u8]) -> bool {
    let record: serde_json::Value = serde_json::from_slice(record).unwrap_or_default();
    let is_glued = matches!(bytes[..start].last(), Some(b':' | b',' | b'['));
    is_glued && record["type"] == "mystery"
}

/// `longest` is the longest line that is kept in memory; others are condensed. Returns how many
/// records cannot be told from values, and are not looked for.
fn check(file: &RealFile, seed: u64, longest: usize) -> usize {
    let Some(records) = records(file) else { return 0 };
    let mut rng = Rng::new(seed);
    let damaged = damage(&file.bytes, &mut rng);
    let mut given = HashMap::new();
    let mut lines = Lines::new(&damaged.bytes[..]).holding(longest);
    while let Some(line) = lines.next_line().unwrap() {
        for record in line.records() {
            if record.entry.is_some() {
                given.insert(usize::try_from(record.offset).unwrap(), record.len);
            }
        }
    }
    let mut left_out = 0;
    for range in records {
        if let Some(start) = damaged.place(&range) {
            if is_like_a_value(&damaged.bytes, start, &file.bytes[range.clone()]) {
                left_out += 1;
                continue;
            }
            assert_eq!(
                given.get(&start),
                Some(&(range.len() as u64)),
                "{}, seed {seed}, holding {longest}, {}: lost the record at {range:?}: {}",
                file.path.display(),
                damaged.what,
                String::from_utf8_lossy(&file.bytes[range.clone()])
            );
        }
    }
    left_out
}

#[test]
fn untouched_records_survive_damage_of_every_kind() {
    let mut left_out = 0;
    for (number, file) in real_files().iter().enumerate() {
        // Short files are fast, and damage hits more of them. There are a thousand of them.
        let times = (400_000 / file.bytes.len().max(1)).clamp(2, 6);
        for seed in 0..times as u64 {
            let seed = seed * 10_000 + number as u64;
            left_out += check(file, seed, HELD_LINE) + check(file, seed, 0);
        }
    }
    assert!(left_out <= 4, "{left_out} records were not looked for");
}

/// A short file damaged in every place: nothing is left to chance.
#[test]
fn untouched_records_survive_a_cut_at_every_byte() {
    let records: [&[u8]; 3] = [
        br#"{"type":"user","uuid":"a","sessionId":"s","message":{"role":"user","content":"x{\"y\":1}"}}"#,
        br#"{"parentUuid":"a","message":{"content":[{"type":"text","text":"}{"}],"usage":{"n":1}},"type":"assistant","uuid":"b"}"#,
        br#"{"type":"summary","summary":"t","leafUuid":"b"}"#,
    ];
    let whole = records.join(&b'\n');
    for start in 0..whole.len() {
        for end in start..whole.len() {
            let mut bytes = whole[..start].to_vec();
            bytes.extend_from_slice(&whole[end..]);
            let mut given = Vec::new();
            file::read(&bytes, |record| {
                let offset = usize::try_from(record.offset).unwrap();
                given.extend(record.entry.map(|entry| (offset, entry.raw().to_vec())));
            });
            let mut at = 0;
            for record in records {
                let untouched = at + record.len() <= start || at >= end;
                assert!(
                    !untouched || given.iter().any(|(_, one)| one == record),
                    "cut {start}..{end} lost {}",
                    String::from_utf8_lossy(record)
                );
                at += record.len() + 1;
            }
            for (at, one) in &given {
                // What a cut leaves of a record, or makes of two, may be JSON by chance.
                let mended = *at < start && at + one.len() > start;
                assert!(
                    mended || records.iter().any(|record| record == one),
                    "cut {start}..{end} made up {}",
                    String::from_utf8_lossy(one)
                );
            }
        }
    }
}
