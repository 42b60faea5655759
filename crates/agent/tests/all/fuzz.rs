//! Tests the readers of settings and of the list of trusted folders on arbitrary and on mutated
//! texts: no panic, no hang, and never more granted than the invariants allow.
//!
//! 100,000 inputs each in the normal run; for longer,
//! `QUIPU_FUZZ_SECONDS=600 cargo test -p agent --test all fuzz`.

use std::path::Path;

use agent::settings::{Hooks, Layer, Settings, Source};
use agent::trust::{Trust, TrustList};
use testkit::mutate;

/// The number of inputs in a normal run.
const COUNT: u64 = 100_000;

/// Settings as people have them, and as attackers write them.
fn settings() -> Vec<Vec<u8>> {
    [
        r#"{"model":"opus","permissions":{"allow":["Bash(npm run test:*)","Read(~/.zshrc)","Bash"],"deny":["Bash(curl:*)","Read(./.env)","Write"],"ask":["WebFetch"],"defaultMode":"acceptEdits","additionalDirectories":["../docs/"],"disableBypassPermissionsMode":"disable"},"env":{"FOO":"bar","ANTHROPIC_BASE_URL":"http://127.0.0.1:9"}}"#,
        r#"{"hooks":{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"exit 2","timeout":5}]}],"Stop":[{"hooks":[{"type":"command","command":"quipu hook stop","timeout":10}]}]},"disableAllHooks":false}"#,
        r#"{"sandbox":{"enabled":true,"excludedCommands":["git"]},"apiKeyHelper":"/bin/key.sh","availableModels":["sonnet"],"allowManagedHooksOnly":true,"allowManagedPermissionRulesOnly":true,"forceLoginMethod":"console"}"#,
        "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(echo \\\\(a\\\\))\",\n      \"mcp__puppeteer__*\"\n    ]\n  }\n}\n",
        "\u{feff}{}",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

#[test]
fn settings_of_strangers_are_only_text() {
    mutate::run(&settings(), COUNT, |bytes| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        for source in [Source::Project, Source::Local] {
            let layer =
                Layer { source, name: "a".to_owned(), text: text.clone(), root: "/".into() };
            let found = Settings::read(&[layer], Trust::Untrusted);
            assert!(found.model.is_none() && found.mode.is_none() && found.key_helper.is_none());
            assert!(
                found.rules.iter().all(|(_, rule)| rule.kind != rules::Kind::Allow)
                    && found.folders.is_empty()
                    && found.env.is_empty()
            );
            assert!(!found.only_managed_rules);
            // What is not a JSON object does not count as empty settings.
            let is_object =
                serde_json::from_str::<serde_json::Value>(text.trim_start_matches('\u{feff}'))
                    .is_ok_and(|value| value.is_object());
            let is_blank = text.trim_start_matches('\u{feff}').trim().is_empty();
            assert!(is_object || is_blank || found.refusal(Hooks::Ignored).is_some());
        }
        for source in [Source::User, Source::Managed] {
            let layer =
                Layer { source, name: "a".to_owned(), text: text.clone(), root: "/".into() };
            let found = Settings::read(&[layer], Trust::Trusted);
            // An administrator's settings cannot be ignored.
            let stays = found.refusal(Hooks::Ignored).is_some() != found.stops.is_empty();
            assert!(stays || source == Source::User);
            assert!(found.env.keys().all(|name| !name.contains(['=', '\0'])));
        }
    });
}

#[test]
fn a_list_of_trusted_folders_grants_what_stands_in_it_or_nothing() {
    let mut list = TrustList::default();
    let folders = ["/home/u/src/project", "/srv/äö/x y", "/home/u/a"];
    for folder in folders {
        list.add(Path::new(folder), Some(Path::new("/home/u"))).unwrap();
    }
    let seeds = [list.text(), r#"{"folders":["/","/home","/home/u"]}"#.to_owned()];
    let seeds = seeds.map(String::into_bytes).to_vec();
    mutate::run(&seeds, COUNT, |bytes| {
        let Ok(list) = TrustList::parse(&String::from_utf8_lossy(bytes)) else { return };
        assert_eq!(TrustList::parse(&list.text()).unwrap(), list);
        let home = Some(Path::new("/home/u"));
        for folder in ["/", "/home", "/home/u", "/home/u/other", "relative"] {
            let covers = list.covers(Path::new(folder), home);
            let is_named = list.text().contains(&format!("\"{folder}\""));
            let is_narrow = folder == "/home/u/other" && is_named;
            assert!(covers == Trust::Untrusted || is_narrow, "{folder}");
        }
    });
}
