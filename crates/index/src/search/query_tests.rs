use super::*;

fn expressions(text: &str) -> Vec<String> {
    let query = Query::parse(text).unwrap();
    let sign = |term: &Term| if term.is_excluded { "-" } else { "" };
    query.terms.iter().map(|term| format!("{}{}", sign(term), term.expression())).collect()
}

#[test]
fn words_phrases_prefixes_and_exclusions() {
    assert_eq!(
        expressions("Fix parse_line"),
        ["{words parts} : \"fix\"", "{words parts} : \"parse_line\""]
    );
    assert_eq!(expressions("\"off by one\""), ["words : \"off by one\""]);
    assert_eq!(expressions("conf*"), ["{words parts} : \"conf\" *"]);
    assert_eq!(
        expressions("a -b NOT c"),
        ["{words parts} : \"a\"", "-{words parts} : \"b\"", "-{words parts} : \"c\""]
    );
    assert_eq!(expressions("src/main.rs"), ["words : \"src main rs\""]);
    assert_eq!(expressions("std::fmt"), ["words : \"std fmt\""]);
    assert_eq!(expressions("日本語 猫"), ["words : \"日本 本語\"", "words : \"猫\" *"]);
    assert_eq!(expressions("\"unclosed phrase"), ["words : \"unclosed phrase\""]);
}

#[test]
fn filters() {
    let query =
        Query::parse("tool:Bash role:user kind:prompt error: project:\"my app\" cost>2.5 x")
            .unwrap();
    assert_eq!(query.filters.record, ["t_bash", "r_user", "k_prompt", "e_error"]);
    assert_eq!(query.filters.project.as_deref(), Some("my app"));
    assert_eq!(query.filters.cost_over, Some(2.5));
    assert_eq!(query.terms.len(), 1);
    let wrong = Query::parse("role:robot").unwrap_err().to_string();
    assert_eq!(wrong, "`role` cannot be `robot`: use user, assistant, tool, client");
}

#[test]
fn patterns() {
    let query = Query::parse(r"/fn \w+_test/ /usr/bin").unwrap();
    assert_eq!(query.patterns[0].as_str(), r"fn \w+_test");
    assert_eq!(query.terms.len(), 1);
    for text in ["x -/re/", "x NOT /re/", "-tool:Bash", "NOT project:app"] {
        assert!(matches!(Query::parse(text), Err(QueryError::Excluded(_))), "{text}");
    }
    assert!(matches!(Query::parse("/(/"), Err(QueryError::Pattern { .. })));
    assert_eq!(Query::parse("  ").unwrap_err(), QueryError::Empty);
    assert_eq!(Query::parse("…").unwrap_err(), QueryError::Empty);
}
