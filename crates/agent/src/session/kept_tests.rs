use super::*;

#[test]
fn only_what_we_sealed_for_this_session_is_taken() {
    let context = Context { surroundings: "here".to_owned(), ..Context::default() };
    let (folder, other) = (Path::new("/a/one"), Path::new("/a/two"));
    let text = sealed("key", folder, &context).unwrap();
    assert_eq!(opened("key", folder, &text), Some(context));
    assert_eq!(opened("key", Path::new("/b/one"), &text).unwrap().surroundings, "here");
    assert_eq!(opened("other", folder, &text), None);
    assert_eq!(opened("key", other, &text), None);
    assert_eq!(opened("key", folder, &text.replace("here", "evil")), None);
    assert_eq!(opened("key", folder, r#"{"reminder": "", "surroundings": "evil"}"#), None);
}
