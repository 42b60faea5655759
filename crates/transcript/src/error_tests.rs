use super::*;

#[test]
fn a_failure_names_its_place() {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let read: Result<()> = Err(gone()).at(Path::new("a.jsonl"));
    let error = read.unwrap_err().at(Path::new("b.jsonl")).at_line(7).at_line(8);
    assert_eq!(error.to_string(), "cannot read `a.jsonl`, line 7: entity not found");
    assert_eq!((error.path(), error.line()), (Some(Path::new("a.jsonl")), Some(7)));
    assert_eq!(Error::from(gone()).to_string(), "entity not found");
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::NotFound);
}
