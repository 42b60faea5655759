//! Secrets of all kinds in all places, through every way out; and what only looks like one.

mod kinds;
mod known;
mod planted;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde_json::{Value, json};
use testkit::Rng;

use self::kinds::{KINDS, make, random};
use super::env::Env;

const SESSION: &str = "5ec7e700-0000-4000-8000-000000000001";

/// What stands around a secret, `§`, in a text.
const WRAPS: &[&str] = &[
    "§",
    "it is § here",
    "\"§\"",
    "'§'",
    "`§`",
    "```\n§\n```",
    "\u{1b}[32m§\u{1b}[0m",
    "\u{1b}[0;1;31m§\u{1b}[0m",
    "\\u001b[32m§\\u001b[0m",
    "\\x1b[1m§\\x1b[0m",
    "a%3D§%26b",
    "a%20§%20b",
    "\\n§\\n",
    "\\\\n§\\\\n",
    "\\t§\\t",
    "é§é",
    "🎉§🎉",
    "\\u00e9§\\u00e9",
    "https://x.test/?q=§&r=1",
    "export X=\"§\"",
    "x: §",
    "- §",
    "X-Header: §\r",
    "first\n§\nlast",
    "    12→§",
    "+§",
    "(§)",
    "{\"a\":\"§\"}",
    "{\\\"a\\\":\\\"§\\\"}",
    "_§",
    "<b>§</b>",
];

/// Where in a session a text stands.
const PARTS: &[&str] = &[
    "prompt",
    "answer",
    "thinking",
    "command",
    "content",
    "edit",
    "result",
    "structured",
    "error",
    "title",
    "queue",
    "attachment",
    "path",
    "nested",
    "member",
];

/// Where each kind is put: every part as it is, and everything that can stand around it in one part
/// after the other.
fn places() -> Vec<(&'static str, &'static str)> {
    let parts = PARTS.iter().map(|part| (*part, WRAPS[0]));
    let rest = ["prompt", "result", "command", "content", "answer", "nested"];
    let wraps = WRAPS.iter().enumerate().skip(1).map(|(at, wrap)| (rest[at % rest.len()], *wrap));
    parts.chain(wraps).collect()
}

/// A session under construction.
#[derive(Default)]
struct Session {
    lines: Vec<String>,
    records: usize,
}

impl Session {
    fn push(&mut self, mut record: Value) {
        self.records += 1;
        let id = |number: usize| format!("00000000-0000-4000-8000-{number:012}");
        if record.get("message").is_some() {
            record["uuid"] = json!(id(self.records));
            record["parentUuid"] =
                if self.records > 1 { json!(id(self.records - 1)) } else { Value::Null };
            record["sessionId"] = json!(SESSION);
            record["version"] = json!("2.1.325");
            record["cwd"] = json!("/home/dev/demo");
            record["isSidechain"] = json!(false);
        } else {
            self.records -= 1;
        }
        let second = self.lines.len();
        record["timestamp"] = json!(format!(
            "2026-11-01T{:02}:{:02}:{:02}.000Z",
            second / 3600,
            second / 60 % 60,
            second % 60
        ));
        let line = record.to_string();
        // Every other line is written as other programs do: without anything but ASCII.
        let ascii = |c: char| match c {
            c if c.is_ascii() => c.to_string(),
            c => c.encode_utf16(&mut [0; 2]).iter().fold(String::new(), |mut text, unit| {
                write!(text, "\\u{unit:04x}").unwrap();
                text
            }),
        };
        let is_odd = self.lines.len() % 2 == 1;
        self.lines.push(if is_odd { line.chars().map(ascii).collect() } else { line });
    }

    /// A turn with a text in one of its parts.
    fn turn(&mut self, part: &str, text: &str) {
        let number = self.lines.len();
        let one_line = text.replace('\n', " ");
        let at = |wanted: &str| if part == wanted { text } else { "go on" };
        let call = format!("toolu_{number}");
        match part {
            "title" => {
                return self.push(json!({"type": "summary", "summary": one_line, "leafUuid": "x"}));
            }
            "queue" => {
                return self.push(json!({
                    "type": "queue-operation", "operation": "enqueue", "content": text,
                    "sessionId": SESSION,
                }));
            }
            "attachment" => {
                self.push(json!({"type": "attachment", "attachment": {"type": "queued_command", "prompt": text}}));
            }
            _ => {}
        }
        let (tool, input) = match part {
            "command" => ("Bash", json!({"command": text})),
            "content" => ("Write", json!({"file_path": "/x", "content": text})),
            "edit" => {
                ("Edit", json!({"file_path": "/x", "old_string": text, "new_string": "none"}))
            }
            "path" => ("Read", json!({"file_path": text})),
            "nested" => {
                let inner = json!({"file": {"lines": [text]}}).to_string();
                (
                    "Write",
                    json!({"file_path": "/x.json", "content": json!({"inner": inner}).to_string()}),
                )
            }
            _ => ("Bash", json!({"command": "true"})),
        };
        let structured = match part {
            "structured" => json!({"stdout": text, "stderr": "", "interrupted": false}),
            _ => json!({"stdout": "done", "stderr": "", "interrupted": false}),
        };
        self.push(json!({"type": "user", "message": {"role": "user", "content": at("prompt")}}));
        let blocks = json!([
            {"type": "thinking", "thinking": at("thinking"), "signature": "c2ln"},
            {"type": "text", "text": at("answer")},
            {"type": "tool_use", "id": call, "name": tool, "input": input},
        ]);
        self.push(json!({"type": "assistant", "message": {
            "id": format!("msg_{number}"), "role": "assistant", "model": "claude-opus-4-5",
            "type": "message", "stop_reason": "tool_use", "content": blocks,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }}));
        let result = if part == "error" { text } else { at("result") };
        self.push(json!({"type": "user", "toolUseResult": structured, "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call, "content": result, "is_error": part == "error"},
        ]}}));
        self.push(json!({"type": "assistant", "message": {
            "id": format!("msg_{number}b"), "role": "assistant", "model": "claude-opus-4-5",
            "type": "message", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "done"}],
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }}));
    }

    /// A member that is called like a secret.
    fn member(&mut self, values: &[String]) {
        for chunk in values.chunks(8) {
            let number = self.lines.len();
            let input: serde_json::Map<String, Value> = chunk
                .iter()
                .enumerate()
                .map(|(at, value)| (format!("api_key_{at}"), json!({"password": value})))
                .collect();
            self.push(json!({"type": "user", "message": {"role": "user", "content": "go on"}}));
            self.push(json!({"type": "assistant", "message": {
                "id": format!("msg_{number}"), "role": "assistant", "model": "claude-opus-4-5",
                "type": "message", "stop_reason": "end_turn", "content": [
                {"type": "tool_use", "id": format!("toolu_{number}"), "name": "mcp__x__login", "input": input},
            ]}}));
            self.push(json!({"type": "user", "message": {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": format!("toolu_{number}"), "content": "ok"},
            ]}}));
        }
    }

    fn save(&self, env: &Env) {
        env.put(
            &format!(".claude/projects/-home-dev-demo/{SESSION}.jsonl"),
            self.lines.join("\n") + "\n",
        );
    }
}

/// The ways out that hide secrets.
const WAYS: &[&[&str]] = &[
    &["ship", SESSION, "--dry-run", "--json", "--redact", "--longest", "64M"],
    &[
        "ship",
        SESSION,
        "--dry-run",
        "--json",
        "--redact",
        "--longest",
        "64M",
        "--profile",
        "cc-langfuse",
    ],
    &["export", "md", SESSION, "--full", "--thinking"],
    &["export", "json", SESSION],
    &["show", SESSION, "--markdown", "--full", "--thinking", "--no-pager"],
];

/// All texts in output: itself, and if it is JSON, its strings decoded, again and again.
fn texts(output: &str) -> String {
    fn collect(value: &Value, into: &mut String) {
        match value {
            Value::String(text) => {
                into.push_str(text);
                into.push('\n');
                if let Ok(inner @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(text)
                {
                    collect(&inner, into);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| collect(value, into)),
            Value::Object(members) => members.iter().for_each(|(name, value)| {
                into.push_str(name);
                into.push('\n');
                collect(value, into);
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut all = output.to_owned();
    for value in
        serde_json::Deserializer::from_str(output).into_iter::<Value>().map_while(Result::ok)
    {
        collect(&value, &mut all);
    }
    all
}

/// How many bytes of a secret are looked for, at its beginning, middle and end.
const PROBE: usize = 10;

/// Parts of secrets, with their kinds and places.
type Probes = HashMap<Vec<u8>, (&'static str, (&'static str, &'static str))>;

/// A session with a secret of each of these kinds in all places, and how many there are.
fn filled(kinds: &[&'static str], rng: &mut Rng, probes: &mut Probes) -> (Session, usize) {
    let mut session = Session::default();
    let mut count = 0;
    for (part, wrap) in places() {
        let mut lines = Vec::new();
        let mut cores = Vec::new();
        for kind in kinds {
            let (text, core) = make(kind, rng);
            assert!(core.len() >= PROBE, "{kind}");
            for at in [0, (core.len() - PROBE) / 2, core.len() - PROBE] {
                probes.insert(core.as_bytes()[at..at + PROBE].to_vec(), (kind, (part, wrap)));
            }
            count += 1;
            lines.push(wrap.replace('§', &text));
            cores.push(core);
        }
        match part {
            "member" => session.member(&cores),
            // One for each: it is one line.
            "title" | "path" => lines.iter().for_each(|line| session.turn(part, line)),
            _ => session.turn(part, &lines.join("\n")),
        }
    }
    (session, count)
}

/// The kinds and places of the secrets that a text has.
fn leaks(text: &str, probes: &Probes) -> Vec<(&'static str, (&'static str, &'static str))> {
    let windows = text.as_bytes().windows(PROBE);
    let found: HashSet<_> = windows.filter_map(|window| probes.get(window).copied()).collect();
    let mut found: Vec<_> = found.into_iter().collect();
    found.sort_unstable();
    found
}

#[test]
fn no_secret_of_any_kind_leaves_from_any_place() {
    let places = places();
    assert!(
        KINDS.len() >= 60 && places.len() >= 30,
        "{} kinds, {} places",
        KINDS.len(),
        places.len()
    );
    let rng = &mut Rng::new(16);
    let mut probes: Probes = HashMap::new();
    let (session, count) = filled(KINDS, rng, &mut probes);
    let env = Env::bare();
    session.save(&env);
    let exact = env.output(&["export", "json", SESSION, "--no-redact"]);
    let shown = leaks(&texts(&String::from_utf8(exact.stdout).unwrap()), &probes);
    // What is not exported at all hides nothing: the parts that are there must be there without.
    assert!(shown.len() > KINDS.len() * (places.len() - 4), "{} of {count} are there", shown.len());
    assert_eq!(String::from_utf8(exact.stderr).unwrap(), "");
    for args in WAYS {
        let output = env.output(args);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{args:?}: {errors}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("[redacted:"), "{args:?}");
        assert_eq!(leaks(&texts(&text), &probes), [], "{args:?}");
        if args[0] == "ship" {
            continue;
        }
        assert!(
            errors.contains(" secrets redacted: ") && errors.contains("`--no-redact` shows them"),
            "{errors}"
        );
    }
    // A pack is compressed: what comes out of it has none either.
    for args in
        [&["pack", SESSION, "-o", "p.html"][..], &["--home", "out", "unpack", "p.html", "--yes"]]
    {
        let output = env.output(args);
        assert!(output.status.success(), "{args:?}: {}", env.show(&output));
    }
    let out = env.path(&format!("out/projects/-home-dev-demo/{SESSION}.jsonl"));
    let out = std::fs::read_to_string(out).unwrap();
    assert!(out.contains("[redacted:"));
    assert_eq!(leaks(&texts(&out), &probes), []);
    assert_eq!(leaks(&out, &probes), []);
    // Counted, and never told. Of each code so many findings are told, so one kind at a time.
    let mut missed = Vec::new();
    for kinds in KINDS.chunks(1) {
        let (session, count) = filled(kinds, rng, &mut probes);
        session.save(&env);
        let output = env.output(&["check", SESSION, "--json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(leaks(&text, &probes), []);
        let report: Value = serde_json::from_str(&text).unwrap();
        let findings = report["findings"].as_array().unwrap().iter();
        let secrets = findings.filter(|finding| finding["code"] == "secret");
        let times = |finding: &Value| {
            assert_eq!(finding["more"], 0, "{finding}");
            let text = finding["text"].as_str().unwrap();
            let times = text.rsplit(", ").next().unwrap().strip_suffix(" times");
            times.map_or(1, |times| times.parse::<usize>().unwrap())
        };
        let counted: usize = secrets.map(times).sum();
        if counted < count {
            missed.push((kinds[0], counted, count));
        }
    }
    assert_eq!(missed, [], "counted, there");
}

/// What looks like a secret and is none.
fn innocents(rng: &mut Rng) -> Vec<String> {
    let mut all = Vec::new();
    let uuid = |rng: &mut Rng| [8, 4, 4, 4, 12].map(|count| random("h", count, rng)).join("-");
    for _ in 0..25 {
        all.push(format!("commit {}", random("h", 40, rng)));
        all.push(format!("{} refs/heads/main", random("h", 40, rng)));
        all.push(format!("session {}", uuid(rng)));
        all.push(format!("toolu_01{}", random("a", 22, rng)));
        all.push(format!("msg_01{} req_011{}", random("a", 22, rng), random("a", 21, rng)));
        all.push(format!("\"signature\": \"E{}==\"", random("b", 500, rng)));
        all.push(format!("\"integrity\": \"sha512-{}==\"", random("b", 86, rng)));
        all.push(format!("checksum = \"{}\"", random("h", 64, rng)));
        all.push(format!("github.com/a/b v1.2.3 h1:{}=", random("b", 43, rng)));
        all.push(format!("data:image/png;base64,iVBORw0KGgo{}=", random("b", 300, rng)));
        all.push(format!("image@sha256:{}", random("h", 64, rng)));
        all.push(format!(
            "resolved \"https://registry.yarnpkg.com/js-tokens/-/js-tokens-4.0.0.tgz#{}\"",
            random("h", 40, rng)
        ));
    }
    let fixed = [
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-ant-...",
        "sk-ant-api03-...",
        "YOUR_API_KEY",
        "API_KEY=YOUR_API_KEY",
        "export TOKEN=<your-token-here>",
        "PASSWORD=${DB_PASSWORD}",
        "password: {{ .Values.password }}",
        "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "glpat-xxxxxxxxxxxxxxxxxxxx",
        "postgres://user:password@localhost:5432/db",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "xoxb-your-token-here-please",
        "\"js-tokens\": \"^4.0.0\"",
        "\"max_tokens\": 4096, \"input_tokens\": 123456789",
        "const apiKey = process.env.API_KEY",
        "password = getpass.getpass()",
        "let token = parser.next_token()?;",
        "token: String,",
        "pub struct Token<'a> { secret: &'a str }",
        "curl -u $USER:$PASS https://x.test",
        "mysql -u root -p",
        "-----BEGIN PUBLIC KEY-----",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExampleEx dev@x",
        "https://github.com/a/b/compare/v1.0.0...v1.1.0",
        "main.3f2a1b4c.js index-DiwrgTda.css",
        "2026-11-16T10:16:33.000Z",
        "Cookie: theme=dark",
        "task-1234567890",
        "urn:uuid:",
        "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
    ];
    all.extend(fixed.map(str::to_owned));
    all
}

#[test]
fn what_only_looks_like_a_secret_stays() {
    let all = innocents(&mut Rng::new(300));
    assert!(all.len() >= 300, "{}", all.len());
    let mut session = Session::default();
    session.turn("result", &all.join("\n"));
    session.turn("prompt", &all.join("\n"));
    session.turn("content", &all.join("\n"));
    let env = Env::bare();
    session.save(&env);
    for args in WAYS {
        let output = env.output(args);
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{args:?}");
        let text = texts(&String::from_utf8(output.stdout).unwrap());
        for one in &all {
            assert!(text.contains(one), "{args:?}: {one}");
        }
        assert!(!text.contains("[redacted:"), "{args:?}");
    }
    let report = env.run(&["check", SESSION]);
    assert!(!report.contains(" secret "), "{report}");
}

#[test]
fn users_have_rules_of_their_own() {
    let (key, code) = (format!("ghp_{}", random("a", 36, &mut Rng::new(1))), "EMP-123456");
    let mut session = Session::default();
    session.turn("result", &format!("{key}\n{code} \"x\""));
    let env = Env::bare();
    session.save(&env);
    let config = |text: &str| env.put(".config/quipu/config.toml", text);
    config(&format!(
        "[redact]\nrules = [{{ name = 'staff', pattern = 'EMP-[0-9]+ \"x' }}]\nallow = ['{key}']\n"
    ));
    // A project has no say in it.
    env.put("quipu/config.toml", "[redact]\nallow = ['*']\n");
    env.put(".quipu/config.toml", "[redact]\nallow = ['*']\n");
    for args in WAYS {
        let output = env.output(args);
        let text = texts(&String::from_utf8(output.stdout).unwrap());
        assert!(text.contains(&key) && text.contains("[redacted:staff"), "{args:?}: {text}");
        assert!(!text.contains(code), "{args:?}");
        if args[0] != "ship" {
            let errors = String::from_utf8(output.stderr).unwrap();
            assert_eq!(
                errors, "1 secret redacted: 1 staff; `--no-redact` shows them\n",
                "{args:?}"
            );
        }
    }
    let report = env.run(&["check", SESSION]);
    assert!(
        report.contains("staff in clear text, once") && !report.contains("github-token"),
        "{report}"
    );
    config("[redact]\nrules = [{ name = 'staff', pattern = 'EMP-[' }]\n");
    let output = env.run(&["export", "md", SESSION]);
    assert!(
        output.starts_with("exit 2\n") && output.contains("the pattern of `staff`"),
        "{output}"
    );
}

/// What programs build on is as the file has it.
#[test]
fn what_is_exact_stays_exact() {
    let key = format!("ghp_{}", random("a", 36, &mut Rng::new(2)));
    let mut session = Session::default();
    session.turn("result", &key);
    let env = Env::bare();
    session.save(&env);
    for args in [
        &["cat", SESSION][..],
        &["history", SESSION, "--json"],
        &["turns", SESSION, "--json"],
        &["show", SESSION, "--json"],
        &["export", "json", SESSION, "--no-redact"],
        &["export", "md", SESSION, "--full", "--no-redact"],
        &["show", SESSION, "--markdown", "--full", "--no-redact", "--no-pager"],
        &["ship", SESSION, "--dry-run", "--json", "--no-redact"],
    ] {
        let output = env.output(args);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(String::from_utf8(output.stdout).unwrap().contains(&key), "{args:?}: {errors}");
        assert!(!errors.contains("redacted"), "{args:?}");
    }
}
