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
    assert_eq!(expressions("--max-bytes"), ["words : \"max bytes\""]);
    assert_eq!(expressions("日本語 猫"), ["words : \"日本 本語\"", "words : \"猫\" *"]);
    assert_eq!(expressions("\"unclosed phrase"), ["words : \"unclosed phrase\""]);
}

#[test]
fn filters() {
    let query =
        Query::parse("tool:Bash role:user kind:prompt error: project:\"my app\" cost>2.5 x")
            .unwrap();
    let names = |query: &Query| {
        query.filters.record.iter().map(|any| any.join("|")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&query), "t_bash r_user k_prompt e_error");
    let of_models = Query::parse("tool:mcp__git* model:opus-4").unwrap();
    assert_eq!(names(&of_models), "t_mcp__git* m_opus_4*|m_claude_opus_4*");
    let filter = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert!(fits_filter(&filter(&["m_b", "m_a*"]), "x m_ab"));
    assert!(!fits_filter(&filter(&["m_a", "m_b*"]), "x m_ab"));
    assert_eq!(of_filter(&filter(&["t_b"])), "(meta : \"t_b\")");
    assert_eq!(of_filter(&filter(&["m_a*", "m_b"])), "(meta : \"m_a\" * OR meta : \"m_b\")");
    assert_eq!(query.filters.project, ["my app"]);
    assert_eq!(query.filters.cost_over, Some(2.5));
    assert_eq!(query.terms.len(), 1);
    let wrong = Query::parse("role:robot").unwrap_err().to_string();
    assert_eq!(wrong, "`role` cannot be `robot`: use user, assistant, tool, client");
    let wrong = Query::parse("error:no").unwrap_err().to_string();
    assert_eq!(wrong, "`error` cannot be `no`: use `error:` with nothing behind it");
}

/// The same filter several times: a session has to fit all of them.
#[test]
fn filters_add_up() {
    let query = Query::parse(
        "project:a project:b branch:c branch:d session:1 session:12 cost>3 cost>2 \
         after:3d after:1w before:1h before:2h",
    )
    .unwrap();
    let wanted = Filters {
        project: vec!["a".to_owned(), "b".to_owned()],
        branch: vec!["c".to_owned(), "d".to_owned()],
        session: vec!["1".to_owned(), "12".to_owned()],
        after: vec!["3d".to_owned(), "1w".to_owned()],
        before: vec!["1h".to_owned(), "2h".to_owned()],
        cost_over: Some(3.0),
        ..Filters::default()
    };
    assert_eq!(query.filters, wanted);
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
    for text in ["x NOT", "NOT"] {
        assert_eq!(Query::parse(text).unwrap_err(), QueryError::NotWhat, "{text}");
    }
    assert_eq!(Query::parse("  ").unwrap_err(), QueryError::Empty);
    assert_eq!(Query::parse("…").unwrap_err(), QueryError::Empty);
}
