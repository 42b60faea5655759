use super::*;
use crate::sheet::Object;

const SESSION: &str = "0a1b2c3d-0000-4000-8000-000000000001";

#[test]
fn names_of_objects_are_read_from_their_end() {
    let before = |name: &str, session: &str| match Reading::of(name, session) {
        Some(Reading::Machine(before)) => Some(before.to_owned()),
        Some(Reading::Sure) => Some("sure".to_owned()),
        None => None,
    };
    let some = |text: &str| Some(text.to_owned());
    let name = format!("m1-{SESSION}.parquet");
    assert_eq!(before(&name, SESSION), some("m1"));
    assert_eq!(before(&format!("build-box-7-{SESSION}.parquet"), SESSION), some("build-box-7"));
    assert_eq!(before(&format!(".m1-{SESSION}.parquet.part"), SESSION), some("m1"));
    assert_eq!(before(&format!("-{SESSION}.parquet"), SESSION), None);
    assert_eq!(before(&format!("m1-{SESSION}.txt"), SESSION), None);
    assert_eq!(before(&format!("m1{SESSION}.parquet"), SESSION), None);
    let upper = name.to_uppercase().replace("PARQUET", "parquet");
    assert_eq!(before(&upper, SESSION), some("M1"));
    assert_eq!(before(&name, &SESSION[..35]), None);
    assert_eq!(before("m-B.parquet", "b"), None);
    // `a-b` of machine `m`, or `b` of machine `m-a`?
    assert_eq!(before("m-a-b.parquet", "b"), some("m-a"));
    assert_eq!(before("m-a-b.parquet", "a-b"), some("m"));
    let hashed = format!("m-{}.parquet", hashed_name("a/b"));
    assert_eq!(before(&hashed, "a/b"), some("sure"));
}

#[test]
fn everything_of_a_session_goes_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::Folder(folder.path().to_owned());
    let other = "0a1b2c3d-0000-4000-8000-000000000002";
    for table in &TABLES {
        for (machine, session) in [("m1", SESSION), ("m2", SESSION), ("m1", other)] {
            let key = format!("{}/day=2026-01-02/{machine}-{session}.parquet", table.name);
            target.put(&key, &mut Object::of(b"x").expect("an object")).expect("stored");
        }
    }
    let part = folder.path().join(format!("calls/day=2026-01-02/.m1-{SESSION}.parquet.part"));
    std::fs::write(&part, b"torn").expect("a file");
    let erased = erase(&target, SESSION, "m1").expect("erased");
    assert_eq!(erased.objects.len(), 2 * TABLES.len() + 1);
    assert_eq!((erased.left, erased.versions), (Vec::new(), Versions::Gone));
    assert!(!part.exists());
    let left = target.list("", &|_| true).expect("a list");
    assert_eq!(left.len(), TABLES.len());
    assert!(left.iter().all(|one| one.key.contains(other)));
    let again = erase(&target, SESSION, "m1").expect("erased");
    assert_eq!(again.objects, Vec::<String>::new());
}
