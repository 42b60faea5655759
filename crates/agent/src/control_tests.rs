use std::fmt::Write as _;

use super::*;

#[test]
fn what_a_host_relies_on_is_refused_if_it_is_not_there() {
    for (key, value) in [
        ("sdkMcpServers", json!(["calc"])),
        ("systemPrompt", json!([{"text": "Be brief."}])),
        ("skills", json!("a")),
        ("planModeInstructions", json!("Plan.")),
        ("somethingNew", json!(true)),
    ] {
        let request = json!({"subtype": "initialize", key: value});
        let (wish, answer) = asked(&request, Bypass::Offered);
        assert_eq!(wish, Wish::Impossible, "{request}");
        assert!(answer.unwrap_err().why.ends_with(key));
    }
    let request = json!({
        "subtype": "initialize", "hooks": {"PreToolUse": []}, "agents": {}, "skills": [],
        "jsonSchema": null, "excludeDynamicSections": false, "forwardSubagentText": true,
        "systemPrompt": ["Be", "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__", "brief."], "title": "Mine",
    });
    let (wish, answer) = asked(&request, Bypass::Offered);
    let Wish::Initialize(beginning) = wish else { panic!("{answer:?}") };
    assert_eq!(beginning.system.as_deref(), Some("Be\n\nbrief."));
    assert_eq!(
        (beginning.title.as_deref(), beginning.skills.clone()),
        (Some("Mine"), Some(Vec::new()))
    );
    // What the SDK for TypeScript says if its user says nothing.
    let request = json!({"subtype": "initialize", "systemPrompt": [""]});
    let (wish, answer) = asked(&request, Bypass::Offered);
    assert!(matches!(wish, Wish::Initialize(_)) && answer.is_ok());
}

#[test]
fn a_host_bypasses_permissions_only_if_that_was_offered() {
    let request = json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"});
    let ask = |bypass| {
        let (wish, result) = asked(&request, bypass);
        (wish, answer(&json!("r"), result)["response"]["error_code"].clone())
    };
    assert_eq!(ask(Bypass::Offered), (Wish::Mode(Mode::Bypass), Value::Null));
    assert_eq!(ask(Bypass::NotOffered), (Wish::Nothing, json!("bypass_not_launched")));
    assert_eq!(ask(Bypass::Forbidden), (Wish::Nothing, json!("bypass_disabled")));
}

#[test]
fn every_request_of_the_original_has_its_row() {
    let mut table = "| request | here |\n|---|---|\n".to_owned();
    for (name, handling) in REQUESTS {
        let (wish, result) = asked(&json!({"subtype": name}), Bypass::Offered);
        let text = match handling {
            Handling::Done => "carried out".to_owned(),
            Handling::Answered => "answered".to_owned(),
            Handling::Idle(why) => format!("answered, without effect: {why}"),
            Handling::Refused(why) => format!("refused: {why}"),
            Handling::FromClient(what) => format!("not for hosts to send: {what}"),
        };
        // What is carried out or answered is no plain refusal, and what is refused does nothing.
        match handling {
            Handling::Refused(why) => {
                assert_eq!(wish, Wish::Nothing, "{name}");
                assert!(result.unwrap_err().why.ends_with(why), "{name}");
            }
            Handling::FromClient(_) => {
                assert!(result.unwrap_err().why.contains("for hosts"), "{name}");
            }
            Handling::Idle(_) => assert_eq!((wish, result), (Wish::Nothing, Ok(None)), "{name}"),
            Handling::Answered | Handling::Done => {
                let why = result.err().map(|refusal| refusal.why).unwrap_or_default();
                assert!(
                    !why.starts_with("Unsupported") && !why.contains("not support"),
                    "{name}: {why}"
                );
            }
        }
        writeln!(table, "| `{name}` | {text} |").unwrap();
    }
    testkit::compare("agent.md", "control", &table, "-p agent --lib control");
    let mut names: Vec<&str> = REQUESTS.iter().map(|(name, _)| *name).collect();
    names.dedup();
    assert!(names.is_sorted() && names.len() == 41);
    let (_, result) = asked(&json!({"subtype": "odd"}), Bypass::Offered);
    assert_eq!(result.unwrap_err().why, "Unsupported control request subtype: odd");
}
