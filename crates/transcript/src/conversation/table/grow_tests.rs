use std::io::{Seek, Write as _};

use super::*;
use crate::conversation::table::join::tests::shown;

/// A file that grows to these lengths, one after the other.
fn grown(bytes: &[u8], lengths: &[usize], name: &str) {
    let mut file = tempfile::tempfile().unwrap();
    let (mut growing, mut written) = (GrowingTable::default(), 0);
    for length in lengths.iter().copied().chain([bytes.len()]) {
        file.write_all(&bytes[written..length]).unwrap();
        written = length;
        let rows = growing.reading.table.rows.len();
        let Growth::Records(more) = growing.extend(&file).unwrap() else {
            panic!("{name}: it is the same file")
        };
        let whole = usize::try_from(growing.end()).unwrap();
        assert!(bytes[whole..length].iter().all(|byte| *byte != b'\n'), "{name}: a line is left");
        let fresh = Table::read(Lines::new(&bytes[..whole])).unwrap();
        assert_eq!(shown(&growing.table()), shown(&fresh), "{name}, {length} bytes");
        assert_eq!(rows + more, fresh.rows.len(), "{name}, {length} bytes");
        let fresh = Table::read(Lines::new(&bytes[..length])).unwrap();
        let to_end = growing.table_to_end(&file).unwrap();
        assert_eq!(shown(&to_end), shown(&fresh), "{name}, to its end, {length} bytes");
    }
}

fn lengths(bytes: &[u8], rng: &mut testkit::Rng) -> Vec<usize> {
    let mut lengths: Vec<usize> = (0..4).map(|_| rng.below(bytes.len() + 1)).collect();
    lengths.sort_unstable();
    lengths
}

#[test]
fn a_table_that_grew_is_that_of_a_fresh_read() {
    let mut rng = testkit::Rng::new(11);
    for file in testkit::own_files() {
        let steps = lengths(&file.bytes, &mut rng);
        grown(&file.bytes, &steps, &file.path.display().to_string());
    }
}

#[test]
fn so_does_one_of_a_damaged_file() {
    let files = testkit::own_files();
    let mut rng = testkit::Rng::new(12);
    for round in 0..100 {
        let whole = &rng.pick(&files).bytes;
        let cut = &whole[..whole.len().min(40_000)];
        let bytes = testkit::damage::damage(cut, &mut rng).bytes;
        let steps = lengths(&bytes, &mut rng);
        grown(&bytes, &steps, &format!("round {round}"));
    }
}

#[test]
fn a_file_that_was_rewritten_is_noticed() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"{\"type\":\"user\",\"uuid\":\"a\"}\n").unwrap();
    let mut growing = GrowingTable::default();
    assert_eq!(growing.extend(&file).unwrap(), Growth::Records(1));
    assert_eq!(growing.extend(&file).unwrap(), Growth::Records(0));
    file.rewind().unwrap();
    file.write_all(b"{\"type\":\"user\",\"uuid\":\"b\"}\n{\"type\":\"user\"}\n").unwrap();
    assert_eq!(growing.extend(&file).unwrap(), Growth::Replaced);
    file.set_len(3).unwrap();
    assert_eq!(growing.extend(&file).unwrap(), Growth::Replaced);
    assert_eq!(growing.table().rows().len(), 1, "what was read stays");
}
