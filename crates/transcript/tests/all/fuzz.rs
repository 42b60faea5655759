//! Mutated real files: no panic, no byte lost, and long lines are read like short ones.
//!
//! A few seconds in the normal run; `QUIPU_FUZZ_SECONDS=600 cargo test -p transcript fuzz` for
//! longer.

use std::time::{Duration, Instant};

use testkit::{Rng, own_files};
use transcript::conversation::inventory::Inventory;
use transcript::format::drift::Drift;
use transcript::format::file::{Body, Lines, State};
use transcript::format::json::{Json, Shape};

#[allow(clippy::disallowed_methods, reason = "how long to run is the caller's to say")]
fn seconds() -> u64 {
    std::env::var("QUIPU_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5)
}

/// Calls everything that can be asked of a value.
fn ask(json: Json<'_>, depth: usize) {
    let _ = (json.text(), json.bool(), json.integer(), json.float());
    if depth == 0 {
        return;
    }
    match json.shape() {
        Shape::Object => {
            let object = json.object().expect("an object");
            for (name, value) in object.members() {
                assert!(object.get(&name).is_some() || name.contains('\u{fffd}'));
                ask(value, depth - 1);
            }
        }
        Shape::Array => json.elements().for_each(|one| ask(one, depth - 1)),
        _ => {}
    }
}

fn read_all(bytes: &[u8]) {
    let mut inventory = Inventory::default();
    let mut drift = Drift::default();
    let mut lines = Lines::new(bytes);
    let mut end = 0;
    while let Some(line) = lines.next_line().unwrap() {
        assert_eq!(line.offset, end);
        end = line.offset + line.len + u64::from(line.ended);
        inventory.add(&line);
        let mut last = line.offset;
        for record in line.records() {
            assert!(record.offset >= last, "records overlap");
            last = record.offset + record.len;
            assert!(last <= line.offset + line.len, "a record reaches beyond its line");
            assert_eq!(
                record.state == State::Damaged,
                record.entry.is_none() && record.bare.is_none()
            );
            if let Some((at, _)) = record.fault {
                assert!(record.offset <= at && at <= last, "the fault is elsewhere");
            }
            let Some(entry) = &record.entry else { continue };
            let _ = (entry.time(), entry.is_human_turn(), entry.subtype(), entry.parent());
            drift.add(record.line.unwrap(), entry);
            ask(entry.json(), 12);
            for block in entry.message().iter().flat_map(|message| message.blocks()) {
                let _ = (block.text(), block.inner().find_map(|inner| inner.text()));
            }
        }
    }
    assert_eq!(end, bytes.len() as u64);
}

/// Condensed lines have the same records at the same offsets.
fn read_condensed(bytes: &[u8]) {
    let mut held = Lines::new(bytes);
    let mut condensed = Lines::new(bytes).holding(0);
    while let Some(line) = held.next_line().unwrap() {
        let other = condensed.next_line().unwrap().expect("as many lines");
        let offsets = (line.offset, line.len, line.ended);
        assert_eq!(offsets, (other.offset, other.len, other.ended));
        assert!(matches!(other.body, Body::Condensed(_)) || line.len == 0);
        let places = |line: &transcript::format::file::Line<'_>| -> Vec<_> {
            // Damage may be divided differently, because a condensed line does not contain all of
            // it.
            line.records()
                .filter_map(|record| {
                    Some((record.offset, record.len, record.state, record.entry?.kind()))
                })
                .collect()
        };
        assert_eq!(places(&line), places(&other));
    }
}

fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..=rng.below(8) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.below(bytes.len());
        let end = (at + rng.below(64)).min(bytes.len());
        match rng.below(6) {
            0 => bytes[at] = rng.byte(),
            1 => bytes[at] = *rng.pick(b"{}[]\",:\\\n\0u"),
            2 => drop(bytes.drain(at..end)),
            3 => bytes.insert(at, *rng.pick(b"{}[]\",:\\\n\0\xff")),
            4 => {
                let copy = bytes[at..end].to_vec();
                let to = rng.below(bytes.len());
                drop(bytes.splice(to..to, copy));
            }
            _ => bytes.truncate(at),
        }
    }
}

#[test]
fn fuzz() {
    let files = own_files();
    let end = Instant::now() + Duration::from_secs(seconds());
    let mut seed = 0;
    while Instant::now() < end {
        seed += 1;
        let mut rng = Rng::new(seed);
        let original = &rng.pick(&files).bytes;
        let at = rng.below(original.len());
        let mut bytes = original[at..(at + 20_000).min(original.len())].to_vec();
        mutate(&mut bytes, &mut rng);
        let outcome = std::panic::catch_unwind(|| {
            read_all(&bytes);
            read_condensed(&bytes);
        });
        assert!(outcome.is_ok(), "seed {seed}: {}", String::from_utf8_lossy(&bytes));
    }
    println!("{seed} mutated files");
}

/// Depth and length that would break a reader that recurses or keeps everything in memory.
#[test]
fn hostile_input_is_only_input() {
    read_all("[".repeat(1_000_000).as_bytes());
    read_all("{\"a\":".repeat(300_000).as_bytes());
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(200_000), "]".repeat(200_000));
    read_all(deep.as_bytes());
    let nested = format!("{}{}", "[".repeat(60_000), "]".repeat(60_000));
    read_all(format!("{{\"type\":\"user\",\"uuid\":\"a\",\"toolUseResult\":{nested}}}").as_bytes());
    let result = "{\"type\":\"tool_result\",\"content\":[".repeat(2_000) + &"]}".repeat(2_000);
    read_all(format!("{{\"type\":\"user\",\"message\":{{\"content\":[{result}]}}}}").as_bytes());
    read_all("{\"type\":\"user\",\"uuid\":1}".repeat(20_000).as_bytes());
    read_all("x{\"\":1}".repeat(200_000).as_bytes());
    read_all("{\"".repeat(500_000).as_bytes());
    read_all(&vec![0; 3_000_000]);
    read_condensed("{\"a\":".repeat(300_000).as_bytes());
}
