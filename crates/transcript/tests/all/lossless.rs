//! The bytes out are the bytes in, whatever a file contains.

use std::io::Write;

use testkit::{Rng, real_files};
use transcript::format::file::{Backward, Body, Line, Lines};

/// All lines, written one after the other.
fn written(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut lines = Lines::new(bytes);
    while let Some(line) = lines.next_line().unwrap() {
        assert_eq!(line.offset, out.len() as u64);
        let Body::Held(held) = line.body else { panic!("no line of this test is that long") };
        assert_eq!(line.len, held.len() as u64);
        out.extend_from_slice(held);
        if line.ended {
            out.push(b'\n');
        }
    }
    out
}

/// The records of a line are in order, inside the line, and leave out nothing except white space.
fn check_cover(line: &Line<'_>, bytes: &[u8]) {
    let place = |offset: u64| usize::try_from(offset).unwrap();
    let mut at = place(line.offset);
    let blank = |bytes: &[u8]| bytes.iter().all(|byte| b" \t\r\xef\xbb\xbf".contains(byte));
    for record in line.records() {
        let start = place(record.offset);
        assert!(blank(&bytes[at..start]), "bytes before a record belong to none");
        at = place(record.offset + record.len);
        if let Some(entry) = &record.entry {
            assert_eq!(entry.raw(), &bytes[start..at]);
        }
    }
    assert!(blank(&bytes[at..place(line.offset + line.len)]), "bytes at the end belong to none");
}

#[test]
fn every_real_file_comes_out_as_it_went_in() {
    for file in real_files() {
        assert!(written(&file.bytes) == file.bytes, "{}", file.path.display());
        let mut lines = Lines::new(&file.bytes[..]);
        while let Some(line) = lines.next_line().unwrap() {
            check_cover(&line, &file.bytes);
        }
    }
}

#[test]
fn so_do_files_of_hard_cases() {
    let cases: [&[u8]; 12] = [
        b"",
        b"\n",
        b"\n\n\n",
        b"\0\0\0",
        b"no json",
        b"{\"n\":1.0,\"m\":1e400,\"o\":12345678901234567890123}\n",
        b"{\"a\":1,\"a\":2}\r\n{\"b\":\"\\ud800\"}\r\n",
        b"\xef\xbb\xbf{\"type\":\"user\"}",
        b"{\"type\":\"user\",\"x\":\"\xff\xfe\"}\n",
        b"{\"z\":1,\"a\":2}   \n   {\"t\":\"\\u0041\\/\"}",
        b"[1,2,3]\nnull\n42\n\"text\"\n",
        b"{\"type\":\"user\"}{\"type\":\"user\"}\n{\"type\":",
    ];
    for bytes in cases {
        assert_eq!(written(bytes), bytes);
        let mut lines = Lines::new(bytes);
        while let Some(line) = lines.next_line().unwrap() {
            check_cover(&line, bytes);
        }
    }
}

#[test]
fn chance_comes_out_as_it_went_in() {
    let mut rng = Rng::new(7);
    for _ in 0..2_000 {
        let alphabet = b"{}[]\",:\\ntu0123\n\r \0\xc3\xa9a";
        let bytes: Vec<u8> = (0..rng.below(200)).map(|_| *rng.pick(alphabet)).collect();
        assert_eq!(written(&bytes), bytes);
        let mut lines = Lines::new(&bytes[..]);
        while let Some(line) = lines.next_line().unwrap() {
            check_cover(&line, &bytes);
        }
    }
}

#[test]
fn backward_is_forward_turned_round() {
    for file in real_files() {
        let mut forward = Vec::new();
        let mut lines = Lines::new(&file.bytes[..]);
        while let Some(line) = lines.next_line().unwrap() {
            forward.push((line.offset, line.len, line.ended));
        }
        let mut on_disk = tempfile::tempfile().unwrap();
        on_disk.write_all(&file.bytes).unwrap();
        let mut backward = Vec::new();
        let mut lines = Backward::new(&on_disk).unwrap();
        while let Some(line) = lines.next_line().unwrap() {
            let Body::Held(held) = line.body else { panic!("no line of this test is that long") };
            let start = usize::try_from(line.offset).unwrap();
            assert_eq!(held, &file.bytes[start..start + held.len()]);
            backward.push((line.offset, line.len, line.ended));
        }
        backward.reverse();
        assert_eq!(forward, backward, "{}", file.path.display());
    }
}
