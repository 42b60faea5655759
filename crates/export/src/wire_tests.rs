use super::*;

/// A span with a text of that many bytes.
fn sized(bytes: usize, name: &str) -> Sent {
    Sent {
        name: name.to_owned(),
        attributes: vec![text("input", "x".repeat(bytes))],
        ..Sent::default()
    }
}

fn names(batch: &Batch) -> Vec<&str> {
    batch.spans.iter().map(|(_, span)| span.name.as_str()).collect()
}

#[test]
fn a_batch_is_full_by_number_or_by_size() {
    let small = sized(10, "small");
    let mut batch = Batch::default();
    for _ in 0..MOST_SPANS {
        assert!(!batch.is_full_for(&small));
        batch.push("2.1.325", small.clone());
    }
    assert!(batch.is_full_for(&small));

    let mut batch = Batch::default();
    let large = sized(MOST_BYTES / 2, "large");
    batch.push("", large.clone());
    assert!(batch.is_full_for(&large), "two of them and their names are over the limit");
    assert!(!batch.is_full_for(&small));
}

/// What is too large for any batch is sent alone: the client makes it smaller.
#[test]
fn one_span_fits_whatever_its_size() {
    let huge = sized(MOST_BYTES * 2, "huge");
    let mut batch = Batch::default();
    assert!(!batch.is_full_for(&huge));
    batch.push("", huge);
    assert!(batch.is_full_for(&sized(1, "small")));
}

#[test]
fn halves_are_the_whole() {
    let mut whole = Batch::default();
    for at in 0..5 {
        whole.push("v", sized(100 * at, &format!("{at}")));
    }
    whole.note(Update { session: "s".to_owned(), done: BTreeMap::new(), position: None });
    let (mut first, before) = (whole.clone(), whole.bytes);
    let second = first.halve().unwrap();
    assert_eq!((names(&first), names(&second)), (vec!["0", "1"], vec!["2", "3", "4"]));
    assert_eq!((first.updates.len(), second.updates.len()), (1, 0), "it is recorded once");
    assert_eq!(first.bytes + second.bytes, before);
    first.join(second);
    assert_eq!(first, whole);
    let mut one = Batch::default();
    one.push("v", sized(1, "alone"));
    assert_eq!(one.halve(), None);
}

/// What waits on disk is what will be sent, in the order of the client versions.
#[test]
fn a_stored_batch_is_read_as_it_was() {
    let mut batch = Batch::default();
    for (version, name) in [("2.1.45", "a"), ("2.1.325", "b"), ("", "c"), ("2.1.45", "d")] {
        batch.push(version, sized(20, name));
    }
    let stored = batch.encode("project");
    let read = Batch::decode(&stored, Vec::new()).unwrap();
    let versions: Vec<&str> = read.spans.iter().map(|(version, _)| version.as_str()).collect();
    assert_eq!(versions, ["", "2.1.325", "2.1.45", "2.1.45"]);
    assert_eq!(names(&read), ["c", "b", "a", "d"]);
    assert_eq!(read.bytes, batch.bytes);
    assert_eq!(read.encode("project"), stored);
    assert!(Batch::decode(&stored[..stored.len() - 1], Vec::new()).is_err());
}

#[test]
fn the_longest_text_is_cut_until_none_is_long() {
    let mut span = sized(4_000, "s");
    span.attributes.push(text("output", "y".repeat(1_000)));
    let length = |span: &Sent, at: usize| span.attributes[at].encoded_len();
    let other = length(&span, 1);
    assert!(shrink(&mut span));
    assert!(length(&span, 0) < 2_500);
    assert_eq!(length(&span, 1), other, "only the longest");
    let mut times = 0;
    while shrink(&mut span) {
        times += 1;
        assert!(times < 20, "it ends");
    }
    assert!(length(&span, 0) < 700 && length(&span, 1) < 700);
}

#[test]
fn times_are_never_before_1970() {
    assert_eq!([nanos(Time(-5)), nanos(Time(0)), nanos(Time(7))], [0, 0, 7_000_000]);
    assert_eq!(nanos(Time(i64::MAX)), u64::MAX);
}

#[test]
fn packed_bytes_are_gzip() {
    let packed = pack(b"hello").unwrap();
    let mut read = String::new();
    let mut unpacked = flate2::read::GzDecoder::new(packed.as_slice());
    std::io::Read::read_to_string(&mut unpacked, &mut read).unwrap();
    assert_eq!(read, "hello");
}
