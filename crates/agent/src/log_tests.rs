use std::fs;

use super::*;

#[test]
fn a_torn_tail_is_closed_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b.jsonl");
    let mut log = Log::at(&path);
    assert!(!path.exists());
    log.write("{}").unwrap();
    log.write("[]").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}\n[]\n");
    File::options().append(true).open(&path).unwrap().write_all(b"{\"torn").unwrap();
    Log::at(&path).write("1").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "{}\n[]\n{\"torn\n1\n");
}
