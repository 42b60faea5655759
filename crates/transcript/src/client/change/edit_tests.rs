use super::*;
use crate::conversation::table::Table;

/// The shortcut without parsing gives the same result as parsing the record.
#[test]
fn another_parent_is_put_in_without_reading() {
    let mut edit = Edit::default();
    edit.set_text(PARENT, "another");
    let quick = |line: &[u8]| edit.apply_to_parent(line);
    let slow = |line: &[u8]| Table::see(line, |entry| edit.apply(entry)).unwrap();
    let mut count = 0;
    for file in testkit::own_files() {
        for line in file.bytes.split(|byte| *byte == b'\n') {
            if let Some(changed) = quick(line).filter(|_| Entry::parse(line).is_some()) {
                assert!(changed == slow(line), "{}", String::from_utf8_lossy(line));
                count += 1;
            }
        }
    }
    assert!(count > 1_000, "{count}");
    assert_eq!(
        quick(br#"{"parentUuid":"a","x":1}"#).unwrap(),
        br#"{"parentUuid":"another","x":1}"#
    );
    assert_eq!(quick(br#"{"parentUuid":null}"#).unwrap(), br#"{"parentUuid":"another"}"#);
    // The last duplicate counts, an escape may hide a quote, and the parent may not come first.
    assert_eq!(quick(br#"{"parentUuid":"a","parentUuid":"b"}"#), None);
    assert_eq!(quick(br#"{"parentUuid":"a\"b"}"#), None);
    assert_eq!(quick(br#"{"x":1,"parentUuid":"a"}"#), None);
    edit.mends_text = true;
    assert_eq!(edit.apply_to_parent(br#"{"parentUuid":"a"}"#), None);
}
