use super::*;
use crate::sheet::Object;

const SESSION: &str = "0a1b2c3d-0000-4000-8000-000000000001";

#[test]
fn only_objects_of_the_session_are_its_own() {
    let name = format!("m1-{SESSION}.parquet");
    assert!(is_of(&name, SESSION, "m2"));
    assert!(is_of(&format!("build-box-7-{SESSION}.parquet"), SESSION, "m2"));
    assert!(is_of(&format!(".m1-{SESSION}.parquet.part"), SESSION, "m2"));
    assert!(!is_of(&format!("-{SESSION}.parquet"), SESSION, "m2"));
    assert!(!is_of(&format!("m1-{SESSION}.txt"), SESSION, "m2"));
    assert!(!is_of(&format!("m1{SESSION}.parquet"), SESSION, "m2"));
    assert!(is_of(&name.to_uppercase().replace("PARQUET", "parquet"), SESSION, "m2"));
    assert!(!is_of(&name, "0a1b2c3d-0000-4000-8000-00000000000", "m1"));
    assert!(!is_of("m-B.parquet", "b", "m"));
    // `a-b` of machine `m`, or `b` of machine `m-a`?
    assert!(is_of("m-b.parquet", "b", "other"));
    assert!(!is_of("m-a-b.parquet", "b", "other"));
    assert!(is_of("m-a-b.parquet", "b", "m-a"));
    assert!(is_of("m-a-b.parquet", "a-b", "other"));
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
