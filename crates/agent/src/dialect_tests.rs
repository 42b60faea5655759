use super::*;

#[test]
fn members_stand_where_the_dialect_has_them() {
    let members = Members::default().put("uuid", &"u").put("odd", &1).put("type", &"user");
    let members = members.maybe("slug", None::<&str>.as_ref()).put("parentUuid", &None::<&str>);
    assert_eq!(members.record("user"), r#"{"parentUuid":null,"type":"user","uuid":"u"}"#);
    assert_eq!(members.record("nothing"), "{}");
    assert_eq!(version(), "2.1.45");
}
