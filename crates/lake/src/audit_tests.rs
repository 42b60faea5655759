use super::*;

#[test]
fn machines_are_counted_by_names_that_can_be_read() {
    let id = "0a1b2c3d-0000-4000-8000-000000000001";
    let of = |stem: &str| machine_of(stem, "my-laptop").map(str::to_owned);
    assert_eq!(of(&format!("my-laptop-{id}")).as_deref(), Some("my-laptop"));
    assert_eq!(of("my-laptop-agent-a24497a").as_deref(), Some("my-laptop"));
    assert_eq!(of(&format!("b5b8-{id}")).as_deref(), Some("b5b8"));
    for other in ["b5b8-agent-a24497a", "b5b8", "", &format!("b5b8_{id}"), &"ä".repeat(30)] {
        assert_eq!(of(other), None, "{other}");
    }
}
