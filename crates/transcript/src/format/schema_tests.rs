use super::*;

#[test]
fn the_table_holds_together() {
    for place in places() {
        if let Some(base) = place.base {
            assert!(super::place(base).is_some(), "{} : {base}", place.name);
        }
        for field in &place.fields {
            let named = format!("{}.{}", place.name, field.name);
            assert!(is_version(field.first), "{named}: {}", field.first);
            for into in field.into.split(',') {
                assert!(is_target(into), "{named}: {into}");
            }
            let again = place.fields.iter().filter(|other| other.name == field.name).count();
            assert_eq!(again, 1, "{named} stands there twice");
        }
    }
}

fn is_version(text: &str) -> bool {
    text == "hearsay"
        || matches!(text, "human" | "flat")
        || text.split('.').filter(|part| part.parse::<u32>().is_ok()).count() == 3
}

fn is_target(into: &str) -> bool {
    match into {
        "-" | "~" => true,
        _ if into.ends_with('.') => places().iter().any(|place| place.name.starts_with(into)),
        _ => place(into.trim_start_matches('*')).is_some(),
    }
}

#[test]
fn members_of_the_base_are_members() {
    let user = place("user").unwrap();
    assert_eq!(user.field("toolUseResult").unwrap().first, "1.0.29");
    assert_eq!(user.field("session_id").unwrap().first, "2.1.201");
    assert!(user.field("futureField").is_none());
}
