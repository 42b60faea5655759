use std::process::Command;

use proptest::prelude::*;

use super::*;

/// An index of version 2 with these paths.
fn index(paths: &[&str], time: u8) -> Vec<u8> {
    let mut bytes = b"DIRC\0\0\0\x02".to_vec();
    bytes.extend(u32::try_from(paths.len()).unwrap().to_be_bytes());
    for path in paths {
        let begin = bytes.len();
        bytes.extend([time; 24]);
        bytes.extend(0o100_644_u32.to_be_bytes());
        bytes.extend([time; 12]);
        bytes.extend([7; 20]);
        bytes.extend(u16::try_from(path.len()).unwrap().to_be_bytes());
        bytes.extend(path.bytes());
        bytes.push(0);
        while !(bytes.len() - begin).is_multiple_of(8) {
            bytes.push(0);
        }
    }
    bytes.extend([9; 20]);
    bytes
}

#[test]
fn an_index_lists_paths_and_its_times_do_not_count() {
    let one = index(&["a", "dir/b.txt", "long/enough/to/be/padded"], 1);
    let paths: Vec<_> = listed(&one).unwrap().into_iter().map(|entry| entry.path).collect();
    assert_eq!(paths, [&b"a"[..], b"dir/b.txt", b"long/enough/to/be/padded"]);
    assert!(is_same_index(&one, &index(&["a", "dir/b.txt", "long/enough/to/be/padded"], 2)));
    assert!(!is_same_index(&one, &index(&["a", "dir/b.txt"], 1)));
}

/// What is tracked is in the other part; whether two of them list the same, they do not say alone.
#[test]
fn an_index_may_be_split() {
    let temp = tempfile::tempdir().unwrap();
    let commands = "git init -q . && mkdir d && echo 1 > d/a && echo 2 > b && git add . && \
        git update-index --split-index && echo 3 > c && git add c && echo 4 >> b && git add b";
    let done = Command::new("sh").args(["-c", commands]).current_dir(temp.path()).status();
    assert!(done.unwrap().success());
    let path = temp.path().join(".git/index");
    let mut paths = tracked(&path);
    paths.dedup();
    assert_eq!(paths, [&b""[..], b"b", b"c", b"d/a"]);
    let bytes = fs::read(path).unwrap();
    assert!(read_index(&bytes).unwrap().is_split);
    assert_eq!(listed(&bytes), None);
}

#[test]
fn objects_are_known_by_their_names() {
    assert!(is_object(b"ab", &[b'a'; 38]));
    assert!(!is_object(b"ab", b"tmp_obj_x"));
    assert!(is_object(b"pack", format!("pack-{}.idx", "a".repeat(40)).as_bytes()));
    assert!(!is_object(b"pack", b"multi-pack-index"));
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..400), version in 2_u8..5) {
        let mut all = b"DIRC\0\0\0".to_vec();
        all.push(version);
        all.extend(bytes);
        let _ = listed(&all);
    }
}
