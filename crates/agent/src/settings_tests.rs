use serde_json::json;

use super::*;

fn read(layers: &[(Source, Value)], trust: Trust) -> Settings {
    let layers: Vec<Layer> = layers
        .iter()
        .map(|(source, value)| Layer {
            source: *source,
            name: format!("{source:?}"),
            text: value.to_string(),
            root: PathBuf::new(),
        })
        .collect();
    Settings::read(&layers, trust)
}

fn names(settings: &Settings, kind: Kind) -> Vec<String> {
    let rules = settings.rules.iter().filter(|(_, rule)| rule.kind == kind);
    rules.map(|(_, rule)| rule.text()).collect()
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
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "./x"}]}]},
    })
}

#[test]
fn a_folder_that_is_not_trusted_forbids_and_does_not_grant() {
    for source in [Source::Project, Source::Local] {
        let found = read(&[(source, generous())], Trust::Untrusted);
        assert_eq!(names(&found, Kind::Deny), ["Write"]);
        assert_eq!(names(&found, Kind::Ask), ["WebFetch"]);
        assert_eq!(found.left_out, [(format!("{source:?}"), GRANTING[..8].to_vec())]);
        let nothing = Settings {
            rules: found.rules.clone(),
            left_out: found.left_out.clone(),
            ..Settings::default()
        };
        assert_eq!(found, nothing);
        let found = read(&[(source, generous())], Trust::Trusted);
        assert_eq!(
            (found.model.as_deref(), names(&found, Kind::Allow)),
            (Some("opus"), vec!["Bash".to_owned()])
        );
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
    assert_eq!(
        (found.model.clone(), found.env.len(), names(&found, Kind::Allow).len()),
        (None, 0, 0)
    );
    assert_eq!((names(&found, Kind::Deny), found.stops.len()), (vec!["Write".to_owned()], 1));
    let only = json!({"allowManagedPermissionRulesOnly": true, "permissions": {"allow": ["Read"]}});
    let others =
        json!({"allowManagedPermissionRulesOnly": true, "permissions": {"allow": ["Bash"]}});
    let found = read(&[(Source::User, others.clone()), (Source::Managed, only)], Trust::Trusted);
    assert_eq!(names(&found, Kind::Allow), ["Read"]);
    let found = read(&[(Source::User, others)], Trust::Trusted);
    assert_eq!(names(&found, Kind::Allow), ["Bash"]);
}

#[test]
fn what_restricts_and_cannot_be_honoured_stops_the_run() {
    let hook = json!([{"matcher": "*", "hooks": [{"type": "prompt", "prompt": "is it fine?"}]}]);
    for (settings, key) in [
        (json!({"hooks": {"PreToolUse": hook}}), "hooks.PreToolUse"),
        (json!({"hooks": {"PermissionRequest": hook}}), "hooks.PermissionRequest"),
        (json!({"hooks": {"UserPromptSubmit": hook}}), "hooks.UserPromptSubmit"),
        (json!({"hooks": {"PreToolUse": "odd"}}), "hooks.PreToolUse"),
        (json!({"hooks": {"PreToolUse": [{"matcher": "*"}]}}), "hooks.PreToolUse"),
        (json!({"hooks": ["odd"]}), "hooks"),
        (json!({"sandbox": {"enabled": "yes"}}), "sandbox.enabled"),
        (json!({"sandbox": {"failIfUnavailable": 1}}), "sandbox.failIfUnavailable"),
        (json!({"sandbox": {"filesystem": ["x"]}}), "sandbox.filesystem"),
        (json!({"sandbox": {"filesystem": {"denyRead": "x"}}}), "sandbox.filesystem.denyRead"),
        (json!({"sandbox": {"credentials": {"files": [1]}}}), "sandbox.credentials.files"),
        (json!({"sandbox": {"credentials": {"envVars": [{}]}}}), "sandbox.credentials.envVars"),
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
            let found = read(&[(source, settings.clone())], Trust::Trusted);
            assert_eq!(stops(&found, Hooks::Obeyed), Some(format!("{source:?} {key}")));
            let is_lifted = key.starts_with("hooks.") && source != Source::Managed;
            let is_free = stops(&found, Hooks::Ignored).is_none();
            assert_eq!(is_free, is_lifted, "{source:?} {settings}");
        }
    }
    let broken = Layer {
        source: Source::User,
        name: "a".to_owned(),
        text: "{".to_owned(),
        root: PathBuf::new(),
    };
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
    assert_eq!((found.hooks.iter().count(), found.notes), (3, Vec::new()));
    for text in ["", "  \n", "\u{feff}{}", "{\"sandbox\": {\"enabled\": false}, \"hooks\": null}"] {
        let layer = Layer {
            source: Source::User,
            name: String::new(),
            text: text.to_owned(),
            root: PathBuf::new(),
        };
        assert_eq!(Settings::read(&[layer], Trust::Trusted), Settings::default(), "{text:?}");
    }
}

#[test]
fn hooks_can_be_switched_off_but_not_the_administrators() {
    let hook = json!([{"hooks": [{"type": "http", "url": "x"}]}]);
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
fn rules_keep_their_words_and_their_source() {
    for rule in [
        "Write",
        "Bash(rm:*)",
        "Bash(echo \\()",
        "Read(./.env)",
        "WebFetch(domain:x.org)",
        "mcp__x",
        "Web*",
    ] {
        for kind in ["deny", "ask", "allow"] {
            let settings = json!({"permissions": {kind: [rule]}});
            let found = read(&[(Source::User, settings)], Trust::Untrusted);
            assert_eq!((found.stops.len(), found.rules.len()), (0, 1), "{rule}");
            let (source, read) = &found.rules[0];
            assert_eq!(
                (*source, read.text().as_str(), read.source.as_str()),
                (Source::User, rule, "User")
            );
        }
    }
    // A rule that allows and is not understood allows nothing, and that is reported.
    let some = json!({"permissions": {"allow": ["Bash(ls:*)", "Bash(*)", "Read(x", 1]}});
    let found = read(&[(Source::User, some)], Trust::Untrusted);
    assert_eq!(names(&found, Kind::Allow), ["Bash(ls:*)", "Bash"]);
    assert_eq!(found.notes.len(), 2, "{found:?}");
}

#[test]
fn a_project_can_only_narrow_the_sandbox() {
    let settings = json!({"sandbox": {
        "enabled": false, "failIfUnavailable": true, "autoAllowBashIfSandboxed": true,
        "allowUnsandboxedCommands": false, "excludedCommands": ["docker"],
        "filesystem": {"allowWrite": ["/a"], "denyWrite": ["/b"], "denyRead": ["/c"]},
        "network": {"allowAllUnixSockets": true, "allowedDomains": ["*"]},
        "credentials": {
            "files": ["/d", {"path": "~/e", "mode": "deny"}],
            "envVars": ["TOKEN", {"name": "KEY", "mode": "deny"}],
        },
    }});
    let narrow = SandboxSettings {
        is_required: true,
        is_closed: true,
        protected: vec!["/b".into()],
        hidden: vec!["/c".into(), "/d".into(), "~/e".into()],
        variables: vec!["TOKEN".to_owned(), "KEY".to_owned()],
        ..SandboxSettings::default()
    };
    for trust in [Trust::Trusted, Trust::Untrusted] {
        for source in [Source::Project, Source::Local] {
            assert_eq!(read(&[(source, settings.clone())], trust).sandbox, narrow);
        }
    }
    let wide = SandboxSettings {
        allows_commands: true,
        writable: vec!["/a".into()],
        all_sockets: true,
        network: Some(true),
        ..narrow
    };
    let found = read(&[(Source::User, settings)], Trust::Untrusted);
    assert_eq!(found.sandbox, wide);
    assert!(found.notes[0].contains("excludedCommands"), "{found:?}");
    let some = json!({"sandbox": {"network": {"allowedDomains": ["x.org"]}}});
    assert_eq!(read(&[(Source::User, some)], Trust::Untrusted).sandbox.network, Some(false));
}

#[test]
fn what_would_loosen_the_sandbox_is_refused_with_the_reason() {
    let settings = json!({"sandbox": {
        "excludedCommands": ["docker"], "filesystem": {"disabled": true, "allowRead": ["/a"]},
        "network": {"allowUnixSockets": ["/a"], "httpProxyPort": 1, "strictAllowlist": true},
        "credentials": {"files": [{"path": "/a", "mode": "mask"}]},
        "ignoreViolations": {"*": ["/a"]}, "enableWeakerNestedSandbox": true,
    }});
    let found = read(&[(Source::User, settings)], Trust::Untrusted);
    for key in [
        "excludedCommands` is refused: no command leaves",
        "filesystem.disabled` is refused",
        "filesystem.allowRead` is refused",
        "network.allowUnixSockets` is refused",
        "network.httpProxyPort` is refused",
        "ignoreViolations` is refused",
        "enableWeakerNestedSandbox` is refused",
        "`mask` means `deny` here",
        "they have none",
    ] {
        assert!(found.notes.iter().any(|note| note.contains(key)), "{key}: {:?}", found.notes);
    }
    assert_eq!(found.sandbox.hidden, [PathBuf::from("/a")]);
    assert_eq!(found.sandbox.network, Some(false));
}
