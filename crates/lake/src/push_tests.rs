use super::plain_name;

#[test]
fn names_of_objects_stay_in_their_folder() {
    let hashed = |id: &str| {
        let name = plain_name(id);
        assert!(name.starts_with('x') && name.len() == 25, "{id:?} is {name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{name}");
    };
    for id in ["", "../../etc/passwd", "a/b", "a\\b", "a\u{1b}[2J", "a\0b", "a b", "é", "a%2Fb"] {
        hashed(id);
    }
    hashed(&"a".repeat(101));
    // Between the machine and the ending, dots are only dots.
    assert_eq!(plain_name(".."), "..");
}
