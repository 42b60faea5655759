use super::*;

#[test]
fn what_a_host_relies_on_is_refused_if_it_is_not_there() {
    for (key, value) in [
        ("sdkMcpServers", json!(["calc"])),
        ("jsonSchema", json!({"type": "object"})),
        ("systemPrompt", json!(["Be brief."])),
        ("skills", json!(["a"])),
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
    });
    let (wish, answer) = asked(&request, Bypass::Offered);
    assert!(matches!(wish, Wish::Initialize { .. }) && answer.is_ok());
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
