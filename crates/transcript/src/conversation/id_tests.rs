use super::*;

const ID: &str = "0e000000-1111-4222-8333-444444444444";

#[test]
fn ids_are_known_by_their_form() {
    assert!(is_uuid(ID) && is_uuid(&ID.to_uppercase().replace('4', "a")));
    for text in ["", "0e000000", &ID[1..], &format!("{ID}0"), &ID.replace('-', "_")] {
        assert!(!is_uuid(text), "{text}");
    }
}

#[test]
fn the_first_id_in_a_name_is_found() {
    let other = ID.replace('e', "f");
    for (name, found) in [
        (ID.to_owned(), Some(ID)),
        (format!("{ID}-agent-{other}.json"), Some(ID)),
        (format!("events.{other}.{ID}.json"), Some(&*other)),
        (format!("ü_{ID}.é"), Some(ID)),
        (format!("x{ID}"), None),
        (format!("{ID}0"), None),
        ("-".repeat(40), None),
        (String::new(), None),
    ] {
        assert_eq!(uuid_in(&name), found, "{name}");
    }
}
