//! A session is shipped bit by bit while it grows. What arrives must be what would arrive if it
//! were shipped once, at the end.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;
use std::thread;

use export::span::Span;
use testkit::RealFile;
use transcript::conversation::ingest::Closing;
use transcript::conversation::place::is_agent;

use super::{ended, plan, spans};

/// What must not change when a span is sent again: the receiver would have it twice, or under
/// another parent.
fn fixed(span: &Span) -> String {
    let (id, parent, trace) = (span.id, span.parent, span.turn.trace);
    format!("{trace} {id} {parent:?} {} {} {}", span.name, span.start, span.turn.number)
}

fn all_fixed<'a>(found: impl IntoIterator<Item = &'a Vec<Span>>) -> BTreeSet<String> {
    found.into_iter().flatten().map(fixed).collect()
}

/// At most `most` ends of lines to stop at.
fn stops(bytes: &[u8], most: usize) -> Vec<usize> {
    let ends: Vec<usize> = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    let step = ends.len().div_ceil(most).max(1);
    ends.into_iter().step_by(step).collect()
}

/// Ships a file as it grows, and returns what arrived.
fn grown(bytes: &[u8], path: &Path, most: usize) -> BTreeSet<String> {
    let mut known: HashMap<String, String> = HashMap::new();
    let mut arrived = BTreeSet::new();
    let stops = stops(bytes, most);
    let count = stops.len();
    for (at, stop) in stops.into_iter().chain([bytes.len()]).enumerate() {
        fs::File::create(path)
            .and_then(|mut file| std::io::Write::write_all(&mut file, &bytes[..stop]))
            .unwrap();
        let closing = if at == count { ended() } else { Closing::default() };
        let plan = plan(path, &closing);
        let marks: BTreeMap<&str, &String> =
            plan.shipments().map(|one| (one.key, &one.unit.mark)).collect();
        for (key, unit_spans) in spans(&plan) {
            if known.get(&key) != Some(marks[key.as_str()]) {
                known.insert(key.clone(), marks[key.as_str()].clone());
                arrived.extend(all_fixed([&unit_spans]));
            }
        }
    }
    arrived
}

/// Edited by hand: a sidechain at first, which in the end lies on the path to the last record and
/// is then part of the conversation.
const ODD: &str = "sidechain_on_the_chain.jsonl";

#[test]
fn bit_by_bit_is_the_same_as_at_once() {
    let mut files = testkit::real_files();
    files.retain(|file| {
        let is_odd = file.path.file_name().is_some_and(|name| name == ODD);
        !is_agent(&file.path) && file.bytes.len() <= 2 << 20 && !is_odd
    });
    let halves = files.split_at(files.len() / 2);
    let wrong = thread::scope(|scope| {
        let other = scope.spawn(|| not_the_same(halves.0));
        let mut wrong = not_the_same(halves.1);
        wrong.extend(other.join().unwrap());
        wrong
    });
    let files = files.len();
    eprintln!("{files} files");
    assert!(wrong.is_empty(), "{} of {files}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The files of which not the same arrives bit by bit and at once.
fn not_the_same(files: &[RealFile]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for file in files {
        let path = folder.path().join(file.path.file_name().unwrap());
        let arrived = grown(&file.bytes, &path, 16);
        let whole = all_fixed(spans(&plan(&path, &ended())).values());
        if arrived != whole {
            let more: Vec<_> = arrived.difference(&whole).take(3).collect();
            let less: Vec<_> = whole.difference(&arrived).take(3).collect();
            wrong.push(format!("{}: more {more:#?} less {less:#?}", file.path.display()));
        }
    }
    wrong
}

#[test]
fn spans_hang_together() {
    for file in testkit::real_files().iter().filter(|file| !is_agent(&file.path)) {
        let found = spans(&plan(&file.path, &ended()));
        let all: Vec<&Span> = found.values().flatten().collect();
        let name = file.path.display();
        let ids: BTreeMap<_, _> = all.iter().map(|span| (span.id, span.turn.trace)).collect();
        assert_eq!(ids.len(), all.len(), "{name}: an id twice");
        for span in all {
            assert!(span.start <= span.end, "{name}: {span:?}");
            if let Some(parent) = span.parent {
                assert_eq!(ids.get(&parent), Some(&span.turn.trace), "{name}: {span:?}");
            }
        }
    }
}
