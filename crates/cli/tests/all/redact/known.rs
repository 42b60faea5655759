//! Secrets that a rule recognizes in one place of a session only, and that stand bare in others:
//! all ways out hide them there, too. (The lake: `crates/lake/tests/all/rows.rs`.)

use testkit::Rng;

use super::kinds::random;
use super::{Env, SESSION, Session};
use crate::html::Server;

/// What announces each secret, and the place where it is announced.
const ANNOUNCED: [(&str, &str); 8] = [
    ("prompt", "DB_PASSWORD=§"),
    ("result", "Authorization: Bearer §"),
    ("structured", "postgresql://app:§@db.internal:5432/shop"),
    ("command", "sshpass -p '§' ssh root@host"),
    ("file", "client_secret: '§'"),
    ("agent", "api_key = \"§\""),
    ("meta", "Cookie: session=§"),
    ("webhook", "https://hooks.slack.com/services/T0A1B2C3D/B0A1B2C3D4/§"),
];

/// A session with each of them, and where they stand bare: prompts, answers, calls and results.
fn plant(env: &Env) -> Vec<String> {
    let rng = &mut Rng::new(2020);
    let words: Vec<String> = ANNOUNCED
        .iter()
        .map(|_| format!("{}7x{}", random("a", 12, rng), random("a", 10, rng)))
        .collect();
    let folder = format!(".claude/projects/-home-dev-demo/{SESSION}");
    let mut session = Session::default();
    let bare = |word: &String| format!("we have tried {word} there");
    let all = words.iter().map(bare).collect::<Vec<_>>().join("\n");
    for part in ["prompt", "answer", "content", "result"] {
        session.turn(part, &all);
    }
    for ((part, announced), word) in ANNOUNCED.iter().zip(&words) {
        let text = announced.replace('§', word);
        match *part {
            "file" => _ = env.put(&format!("{folder}/tool-results/r.txt"), &text),
            "agent" => {
                let mut agent = Session::default();
                agent.turn("result", &text);
                let lines = agent.lines.join("\n") + "\n";
                env.put(&format!("{folder}/subagents/agent-a1.jsonl"), lines);
            }
            "meta" => {
                let meta = serde_json::json!({"agentType": "x", "description": text});
                env.put(&format!("{folder}/subagents/agent-a1.meta.json"), meta.to_string());
            }
            "webhook" => session.turn("prompt", &text),
            part => session.turn(part, &text),
        }
    }
    session.save(env);
    words
}

#[test]
fn what_is_a_secret_in_one_place_is_one_in_all() {
    let env = Env::bare();
    let words = plant(&env);
    let ship = ["ship", SESSION, "--dry-run", "--json", "--redact", "--longest", "64M"];
    let ways: [&[&str]; 7] = [
        &["redact", SESSION, "-o", "-"],
        &["export", "md", SESSION, "--full"],
        &["export", "json", SESSION],
        &["export", "html", SESSION, "-o", "-"],
        &["show", SESSION, "--markdown", "--full", "--no-pager"],
        &ship,
        &[&ship[..], &["--profile", "cc-langfuse"]].concat(),
    ];
    for args in ways {
        let output = env.output(args);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("we have tried [redacted:"), "{args:?}: {text}");
        for (word, (_, announced)) in words.iter().zip(ANNOUNCED) {
            assert!(!text.contains(word.as_str()), "{args:?}: {announced}");
        }
    }
    let server = Server::start(&env, &["--redact", SESSION]);
    let (mut pages, mut tried) = (0, 0);
    for number in 0..30 {
        for kind in ["window/m", "markdown/m", "raw/m", "text/m"] {
            let shown = server.get(&format!("{}/{kind}/{number}", server.first));
            pages += usize::from(shown.starts_with("HTTP/1.1 200"));
            tried += usize::from(shown.contains("tried [redacted:"));
            for (word, (_, announced)) in words.iter().zip(ANNOUNCED) {
                assert!(!shown.contains(word.as_str()), "{kind}/{number}: {announced}");
            }
        }
    }
    assert!(pages > 30 && tried > 8, "{pages}, {tried}");
}
