use serde_json::json;

use super::*;

fn read(layers: &[(Source, Value)], trust: Trust) -> Settings {
    let layers: Vec<Layer> = layers
        .iter()
        .map(|(source, value)| Layer {
            source: *source,
            name: format!("{source:?}"),
            text: value.to_string(),
        })
        .collect();
    Settings::read(&layers, trust)
}

fn names(rules: &[Rule]) -> Vec<&str> {
    rules.iter().map(|rule| rule.tool.as_str()).collect()
}

/// What stops a run, as `file key`.
fn stops(settings: &Settings, hooks: Hooks) -> Option<String> {
    settings.refusal(hooks).map(|stop| format!("{} {}", stop.name, stop.key))
}

fn generous() -> Value {
    json!({
        "model": "opus",
        "permissions": {
            "allow": ["Bash"], "deny": ["Write"], "ask": ["WebFetch"],
            "defaultMode": "bypassPermissions", "additionalDirectories": ["/"],
        },
        "env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "LD_PRELOAD": "/x.so"},
        "apiKeyHelper": "./key.sh",
        "disableAllHooks": true,
    })
}

#[test]
fn a_folder_that_is_not_trusted_forbids_and_does_not_grant() {
    for source in [Source::Project, Source::Local] {
        let found = read(&[(source, generous())], Trust::Untrusted);
        assert_eq!(names(&found.refused), ["Write"]);
        assert_eq!(names(&found.asked), ["WebFetch"]);
        assert_eq!(found.left_out, [(format!("{source:?}"), GRANTING.to_vec())]);
        let nothing = Settings {
            refused: found.refused.clone(),
            asked: found.asked.clone(),
            left_out: found.left_out.clone(),
            ..Settings::default()
        };
        assert_eq!(found, nothing);
        let found = read(&[(source, generous())], Trust::Trusted);
        assert_eq!((found.model.as_deref(), names(&found.allowed)), (Some("opus"), vec!["Bash"]));
        assert_eq!(found.mode.as_deref(), Some("bypassPermissions"));
        assert_eq!((found.env.len(), found.folders.len(), found.left_out.len()), (2, 1, 0));
        assert!(found.key_helper.is_some());
    }
    // Users who trust nothing still have settings of their own.
    for source in [Source::User, Source::Flag, Source::Managed] {
        let found = read(&[(source, generous())], Trust::Untrusted);
        assert_eq!(found.model.as_deref(), Some("opus"), "{source:?}");
    }
}

#[test]
fn the_administrator_wins_whatever_the_order() {
    let model = |name: &str| json!({"model": name, "env": {"A": name}});
    let found = read(
        &[
            (Source::Managed, model("managed")),
            (Source::Flag, model("flag")),
            (Source::Local, model("local")),
            (Source::Project, model("project")),
            (Source::User, model("user")),
        ],
        Trust::Trusted,
    );
    assert_eq!((found.model.as_deref(), found.env["A"].as_str()), (Some("managed"), "managed"));
    // A file that a variable names restricts, and grants nothing: no model, no rule, no end of
    // hooks.
    let hook = json!({"hooks": {"PreToolUse": [{"hooks": [{"command": "x"}]}]}});
    let more = json!({
        "model": "more", "env": {"A": "more"}, "disableAllHooks": true,
        "permissions": {"allow": ["Bash"], "deny": ["Write"]},
    });
    let both = [(Source::Managed, hook), (Source::Restricting, more)];
    let found = read(&both, Trust::Trusted);
    assert_eq!((found.model, found.env.len(), found.allowed.len()), (None, 0, 0));
    assert_eq!((names(&found.refused), found.stops.len()), (vec!["Write"], 1));
    let only = json!({"allowManagedPermissionRulesOnly": true, "permissions": {"allow": ["Read"]}});
    let others =
        json!({"allowManagedPermissionRulesOnly": true, "permissions": {"allow": ["Bash"]}});
    let found = read(&[(Source::User, others.clone()), (Source::Managed, only)], Trust::Trusted);
    assert_eq!(names(&found.allowed), ["Read"]);
    assert_eq!(names(&read(&[(Source::User, others)], Trust::Trusted).allowed), ["Bash"]);
}

#[test]
fn what_restricts_and_cannot_be_honoured_stops_the_run() {
    let hook = json!([{"matcher": "*", "hooks": [{"type": "command", "command": "exit 2"}]}]);
    for (settings, key) in [
        (json!({"hooks": {"PreToolUse": hook}}), "hooks.PreToolUse"),
        (json!({"hooks": {"PermissionRequest": hook}}), "hooks.PermissionRequest"),
        (json!({"hooks": {"UserPromptSubmit": hook}}), "hooks.UserPromptSubmit"),
        (json!({"hooks": {"PreToolUse": "odd"}}), "hooks.PreToolUse"),
        (json!({"hooks": {"PreToolUse": [{"matcher": "*"}]}}), "hooks.PreToolUse"),
        (json!({"hooks": ["odd"]}), "hooks"),
        (json!({"sandbox": {"enabled": true}}), "sandbox.enabled"),
        (json!({"sandbox": {"enabled": "yes"}}), "sandbox.enabled"),
        (json!({"sandbox": true}), "sandbox"),
        (json!({"availableModels": ["haiku"]}), "availableModels"),
        (json!({"permissions": []}), "permissions"),
        (json!({"permissions": {"deny": "Write"}}), "permissions.deny"),
        (json!({"permissions": {"deny": [1]}}), "permissions.deny"),
        (json!({"permissions": {"ask": [null]}}), "permissions.ask"),
        (json!({"permissions": {"deny": ["Bash(rm"]}}), "permissions.deny"),
        (json!({"permissions": {"deny": ["Bash(rm))"]}}), "permissions.deny"),
        (json!({"permissions": {"deny": ["Bash((rm)"]}}), "permissions.deny"),
        (json!({"permissions": {"deny": ["Bash(rm\\)"]}}), "permissions.deny"),
        (json!({"permissions": {"deny": ["(rm)"]}}), "permissions.deny"),
        (json!({"permissions": {"deny": [""]}}), "permissions.deny"),
        (json!({"permissions": {"deny": ["Bash rm"]}}), "permissions.deny"),
        (json!([]), ""),
    ] {
        for source in [Source::User, Source::Project, Source::Local, Source::Flag, Source::Managed]
        {
            let found = read(&[(source, settings.clone())], Trust::Untrusted);
            assert_eq!(stops(&found, Hooks::Obeyed), Some(format!("{source:?} {key}")));
            let is_lifted = key.starts_with("hooks.") && source != Source::Managed;
            let is_free = stops(&found, Hooks::Ignored).is_none();
            assert_eq!(is_free, is_lifted, "{source:?} {settings}");
        }
    }
    let broken = Layer { source: Source::User, name: "a".to_owned(), text: "{".to_owned() };
    let found = Settings::read(&[broken], Trust::Trusted);
    assert!(found.stops[0].why.starts_with("it is no JSON: EOF"), "{found:?}");
    let logins = json!({"forceLoginMethod": "claudeai"});
    assert!(read(&[(Source::User, logins.clone())], Trust::Trusted).stops.is_empty());
    assert_eq!(read(&[(Source::Managed, logins)], Trust::Trusted).stops.len(), 1);
}

#[test]
fn what_cannot_refuse_is_only_told() {
    let hook = json!([{"hooks": [{"type": "command", "command": "x"}]}]);
    let settings = json!({"hooks": {
        "Stop": hook, "SessionEnd": hook, "PostToolUse": hook,
        "PreToolUse": [], "UserPromptSubmit": [{"matcher": "*", "hooks": []}],
    }});
    let found = read(&[(Source::User, settings)], Trust::Untrusted);
    assert_eq!(found.stops, []);
    assert_eq!(found.notes, ["hooks do not run here yet: PostToolUse, SessionEnd, Stop"]);
    for text in ["", "  \n", "\u{feff}{}", "{\"sandbox\": {\"enabled\": false}, \"hooks\": null}"] {
        let layer = Layer { source: Source::User, name: String::new(), text: text.to_owned() };
        assert_eq!(Settings::read(&[layer], Trust::Trusted), Settings::default(), "{text:?}");
    }
}

#[test]
fn hooks_can_be_switched_off_but_not_the_administrators() {
    let hook = json!([{"hooks": [{"type": "command", "command": "x"}]}]);
    let hooks = json!({"hooks": {"PreToolUse": hook}});
    let off = json!({"disableAllHooks": true});
    let both = |first: Source, second: Source, trust: Trust| {
        let found = read(&[(first, hooks.clone()), (second, off.clone())], trust);
        stops(&found, Hooks::Obeyed)
    };
    assert_eq!(both(Source::User, Source::Flag, Trust::Untrusted), None);
    assert_eq!(both(Source::Project, Source::User, Trust::Untrusted), None);
    assert_eq!(both(Source::Managed, Source::Managed, Trust::Untrusted), None);
    let managed = Some("Managed hooks.PreToolUse".to_owned());
    assert_eq!(both(Source::Managed, Source::User, Trust::Untrusted), managed);
    // A folder does not switch off the user's hooks.
    let users = Some("User hooks.PreToolUse".to_owned());
    assert_eq!(both(Source::User, Source::Project, Trust::Untrusted), users);
    assert_eq!(both(Source::User, Source::Project, Trust::Trusted), None);
    let only = json!({"allowManagedHooksOnly": true});
    let found = read(&[(Source::User, hooks), (Source::Managed, only)], Trust::Untrusted);
    assert_eq!(found.stops, []);
}

#[test]
fn rules_forbid_at_least_what_they_say() {
    for (rule, expected) in [
        ("Write", &["Write"][..]),
        (" Bash ", &["Bash"]),
        ("Bash(*)", &["Bash"]),
        ("Bash()", &["Bash"]),
        ("Bash(rm:*)", &["Bash"]),
        ("Bash(echo \\()", &["Bash"]),
        ("Read(./.env)", &["Read", "Grep", "Glob", "Bash"]),
        ("Edit(/etc/**)", &["Edit", "Write", "NotebookEdit", "Bash"]),
        ("WebFetch(domain:example.com)", &["WebFetch"]),
        ("mcp__x", &["mcp__x"]),
        ("Web*", &["WebFetch", "WebSearch"]),
        ("KillShell", &["TaskStop"]),
    ] {
        for (kind, is_deny) in [("deny", true), ("ask", false)] {
            let settings = json!({"permissions": {kind: [rule]}});
            let found = read(&[(Source::Project, settings)], Trust::Untrusted);
            assert_eq!(found.stops, [], "{rule}");
            let list = if is_deny { &found.refused } else { &found.asked };
            assert_eq!(names(list), expected, "{rule}");
        }
    }
    let all = json!({"permissions": {"deny": ["*"]}});
    let found = read(&[(Source::User, all)], Trust::Untrusted);
    assert_eq!(found.refused.len(), tool::all().len());
    // A rule that allows some commands allows nothing, and that is reported once.
    let some = json!({"permissions": {"allow": ["Bash(ls:*)", "Bash(*)", "Read(x)", 1]}});
    let found = read(&[(Source::User, some)], Trust::Untrusted);
    assert_eq!(names(&found.allowed), ["Bash"]);
    assert!(found.notes[0].ends_with("allow nothing: 3"), "{found:?}");
}
