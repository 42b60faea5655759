use std::collections::BTreeMap;

use opentelemetry_proto::tonic::trace::v1::Span;
use testkit::Rng;

use super::*;

fn batch(key: &str) -> Batch {
    let done = BTreeMap::from([(key.to_owned(), "mark".to_owned())]);
    let mut batch = Batch::default();
    let span = Span { name: format!("span of {key}"), ..Span::default() };
    batch.push("2.1.45", span);
    batch.note(Update { session: "s".to_owned(), done, position: None });
    batch
}

#[test]
fn batches_wait_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Queue::at(folder.path());
    for key in ["a", "b", "c"] {
        spool.add(&batch(key), "project").unwrap();
    }
    let waiting = spool.waiting();
    let read: Vec<_> = waiting.iter().map(|path| spool.read(path).unwrap().unwrap()).collect();
    assert_eq!(read, ["a", "b", "c"].map(batch));
    let mut known: Vec<String> = spool.known().into_iter().map(|(key, _)| key).collect();
    known.sort();
    assert_eq!(known, ["a", "b", "c"]);
    // Removing the first batch must not let a new one go before the rest.
    Queue::remove(&waiting[0]).unwrap();
    spool.add(&batch("d"), "project").unwrap();
    let last = spool.waiting().pop().unwrap();
    assert_eq!(spool.read(&last).unwrap(), Some(batch("d")));
}

#[test]
fn what_is_damaged_stops_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Queue::at(folder.path());
    spool.add(&batch("a"), "project").unwrap();
    let path = spool.waiting().pop().unwrap();
    let bytes = fs::read(&path).unwrap();
    let head = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for end in [bytes.len() - 1, head, 3, 0] {
        fs::write(&path, &bytes[..end]).unwrap();
        assert_eq!(spool.read(&path).unwrap(), None);
    }
    assert!(spool.waiting().is_empty() && spool.known().is_empty());
    assert_eq!(spool.damaged(), [spool.refused_folder().join("0000000001.batch.damaged")]);
    spool.forget_damaged().unwrap();
    assert!(spool.damaged().is_empty());
}

/// A batch in the old format, without a hash, cannot be distinguished from a damaged one.
#[test]
fn what_has_no_hash_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Queue::at(folder.path());
    spool.add(&batch("a"), "project").unwrap();
    let path = spool.waiting().pop().unwrap();
    let mut old = br#"{"v":1,"updates":[],"spans":1}"#.to_vec();
    old.push(b'\n');
    old.extend(batch("a").encode("project"));
    fs::write(&path, old).unwrap();
    assert_eq!(spool.read(&path).unwrap(), None);
    assert_eq!(spool.damaged().len(), 1);
}

/// A file that cannot be read now is not damaged: it stays, and is tried again.
#[cfg(unix)]
#[test]
fn what_cannot_be_read_stays() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Queue::at(folder.path());
    spool.add(&batch("a"), "project").unwrap();
    let path = spool.waiting().pop().unwrap();
    let aside = folder.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink(&path, &path).unwrap();
    assert!(spool.read(&path).is_err());
    assert_eq!(spool.damaged(), Vec::<PathBuf>::new());
    fs::rename(&aside, &path).unwrap();
    assert_eq!(spool.read(&path).unwrap(), Some(batch("a")));
}

/// Flipped bits anywhere: no such file is read as a batch or counted as waiting.
#[test]
fn a_changed_bit_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Queue::at(folder.path());
    spool.add(&batch("a"), "project").unwrap();
    let path = spool.waiting().pop().unwrap();
    let bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut other = bytes.clone();
            other[at] ^= 1 << bit;
            assert_eq!(parse(&other), None, "bit {bit} of byte {at}");
        }
    }
    let head = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let mut rng = Rng::new(5);
    for _ in 0..200 {
        let mut other = bytes.clone();
        other[rng.below(head)] ^= 1 << rng.below(8);
        fs::write(&path, &other).unwrap();
        assert!(spool.known().is_empty(), "{}", other.escape_ascii());
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_in_the_spool_stops_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Queue::at(folder.path());
    spool.add(&batch("a"), "project").unwrap();
    let pipe = folder.path().join("spool/0000000000.batch");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let waiting = spool.waiting();
    assert_eq!(waiting.len(), 2);
    assert_eq!(spool.read(&waiting[0]).unwrap(), None);
    assert_eq!(spool.read(&waiting[1]).unwrap(), Some(batch("a")));
}

#[test]
fn what_was_half_written_is_swept() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Queue::at(folder.path());
    spool.add(&batch("a"), "project").unwrap();
    fs::write(folder.path().join("spool/.0000000002.batch.17"), "half").unwrap();
    spool.sweep();
    assert_eq!(fs::read_dir(folder.path().join("spool")).unwrap().count(), 1);
}

#[test]
fn it_does_not_grow_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Queue { most: 100, ..Queue::at(folder.path()) };
    spool.add(&batch("a"), "project").unwrap();
    let full = spool.add(&batch("b"), "project");
    assert!(matches!(full, Err(QueueError::Full(_))), "{full:?}");
}

#[test]
fn fuzz_the_reader() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Queue::at(folder.path());
    spool.add(&batch("a"), "project").unwrap();
    spool.refuse(&batch("b"), "project", "no").unwrap();
    let files: Vec<PathBuf> = spool
        .waiting()
        .into_iter()
        .chain(spool.refused().into_iter().map(|(path, _)| path))
        .collect();
    let seeds: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    let good = [batch("a"), batch("b")];
    testkit::mutate::run(&seeds, 100_000, |bytes| {
        let read = parse(bytes);
        assert!(read.is_none_or(|read| good.contains(&read)), "something else was believed");
    });
}
