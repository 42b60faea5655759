//! `quipu usage`: every message of the API once, and the same total in every grouping.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::env::{Env, NOW};

const GROUPINGS: [&str; 9] =
    ["day", "week", "month", "session", "project", "model", "agent", "tool", "block"];
const TOKENS: [&str; 6] =
    ["input", "output", "cache_write_5m", "cache_write_1h", "cache_read", "web_searches"];

fn usage(env: &Env, args: &[&str]) -> Value {
    let output = env.output(&[&["usage", "--json"], args].concat());
    assert!(output.status.success(), "{}", env.show(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[test]
fn by_day() {
    assert_snapshot!(Env::with_sessions().run(&["usage"]));
}

#[test]
fn by_session() {
    assert_snapshot!(Env::with_samples().run(&[
        "usage",
        "--by",
        "session",
        "--since",
        "2026-10-30"
    ]));
}

#[test]
fn by_agent() {
    assert_snapshot!(Env::with_samples().run(&["usage", "--by", "agent"]));
}

#[test]
fn as_csv() {
    assert_snapshot!(Env::with_samples().run(&["usage", "--by", "model", "--csv"]));
}

#[test]
fn explained() {
    assert_snapshot!(Env::with_samples().run(&["usage", "--explain", "d51c8060"]));
}

#[test]
fn every_grouping_has_the_same_total() {
    for env in [Env::with_sessions(), Env::with_samples()] {
        let first = usage(&env, &[])["total"].clone();
        assert!(number(&first["messages"]) > 0);
        for by in GROUPINGS {
            let found = usage(&env, &["--by", by]);
            assert_eq!(found["total"], first, "{by}");
            for name in TOKENS.iter().chain(&["messages"]) {
                let rows = found["rows"].as_array().unwrap().iter();
                let sum: u64 = rows.map(|row| number(&row[name])).sum();
                assert_eq!(sum, number(&first[name]), "{by}: {name}");
            }
        }
    }
}

/// What is left out is added up, so that the total stays the sum of the rows.
#[test]
fn rows_are_bounded() {
    let env = Env::with_samples();
    for by in GROUPINGS {
        let all = usage(&env, &["--by", by]);
        let rows = all["rows"].as_array().unwrap();
        assert_eq!(all["truncated"], false, "{by}");
        for args in [["--limit", "1"], ["--max-bytes", "700"]] {
            let found = usage(&env, &[&["--by", by][..], &args[..]].concat());
            let few = found["rows"].as_array().unwrap();
            assert_eq!(found["total"], all["total"], "{by}");
            let sum: u64 = few.iter().map(|row| number(&row["output"])).sum();
            assert_eq!(sum, number(&all["total"]["output"]), "{by}");
            if rows.len() > 2 {
                assert_eq!(found["truncated"], true, "{by}");
                assert_eq!(few.last().unwrap()["key"], "(rest)", "{by}");
            }
        }
    }
    let few = usage(&env, &["--explain", "d51c8060", "--limit", "1"]);
    assert_eq!((few["messages"].as_array().unwrap().len(), &few["truncated"]), (1, &true.into()));
    let mut text = env.run(&["usage", "--limit", "2"]);
    text += &env.run(&["usage", "--by", "model", "--limit", "0", "--csv"]);
    text += &env.run(&["usage", "--explain", "d51c8060", "--limit", "1"]);
    assert_snapshot!(text);
}

/// Counted in the simplest way: every line is one JSON value, and a message is its record with the
/// most output. A file in which a line is no JSON is deleted: this way does not fit it.
fn counted_plainly(home: &Path) -> BTreeMap<String, Value> {
    let mut messages: BTreeMap<String, Value> = BTreeMap::new();
    for file in testkit::files_under(&[home.to_owned()]) {
        let text = String::from_utf8_lossy(&std::fs::read(&file.path).unwrap()).into_owned();
        if text.lines().any(|line| serde_json::from_str::<Value>(line).is_err()) {
            std::fs::remove_file(&file.path).unwrap();
            continue;
        }
        for record in text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            let message = &record["message"];
            let (Some(id), true) = (message["id"].as_str(), record["type"] == "assistant") else {
                continue;
            };
            if message["model"] == "<synthetic>" || !message["usage"].is_object() {
                continue;
            }
            let output = |value: &Value| value["output_tokens"].as_u64().unwrap_or(0);
            let known = messages.entry(id.to_owned()).or_insert_with(|| message["usage"].clone());
            if output(&message["usage"]) >= output(known) {
                *known = message["usage"].clone();
            }
        }
    }
    messages
}

#[test]
fn totals_are_those_of_a_plain_count() {
    for env in [Env::with_sessions(), Env::with_samples()] {
        let plain = counted_plainly(&env.path(".claude/projects"));
        assert!(plain.len() > 20, "{}", plain.len());
        let sum = |name: &str| -> u64 {
            plain.values().map(|usage| usage[name].as_u64().unwrap_or(0)).sum()
        };
        let total = &usage(&env, &[])["total"];
        assert_eq!(number(&total["messages"]), plain.len() as u64);
        assert_eq!(number(&total["input"]), sum("input_tokens"));
        assert_eq!(number(&total["output"]), sum("output_tokens"));
        assert_eq!(number(&total["cache_read"]), sum("cache_read_input_tokens"));
        let written = number(&total["cache_write_5m"]) + number(&total["cache_write_1h"]);
        assert_eq!(written, sum("cache_creation_input_tokens"));
    }
}

/// Turns count the same messages: of the main conversation, of abandoned branches, of sub-agents.
#[test]
fn turns_and_usage_agree() {
    let env = Env::with_samples();
    let rows = usage(&env, &["--by", "session"]);
    for row in rows["rows"].as_array().unwrap() {
        let output = env.output(&["turns", row["key"].as_str().unwrap(), "--json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let turns: Vec<Value> = lines.filter(|line| line["type"] == "turn").collect();
        for (ours, theirs) in
            [("input", "input"), ("output", "output"), ("cache_read", "cache_read")]
        {
            let sum: u64 = turns.iter().map(|turn| number(&turn["tokens"][theirs])).sum();
            assert_eq!(number(&row[ours]), sum, "{ours} of {}", row["key"]);
        }
    }
}

fn answer(id: &str, session: &str, time: &str, output: u64, more: &Value) -> String {
    let mut record = json!({
        "type": "assistant", "sessionId": session, "uuid": format!("u-{id}-{output}"),
        "cwd": "/w/one",
        "message": {
            "id": id, "role": "assistant", "model": "claude-opus-4-5", "content": [],
            "stop_reason": "end_turn",
            "usage": {
                "input_tokens": 100, "output_tokens": output, "cache_read_input_tokens": 1000,
                "cache_creation_input_tokens": 30,
                "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
                "server_tool_use": {"web_search_requests": 1},
            },
        },
    });
    if !time.is_empty() {
        record["timestamp"] = json!(format!("2026-11-0{time}:00:00.000Z"));
    }
    for (name, value) in more.as_object().into_iter().flatten() {
        record["message"][name] = value.clone();
    }
    format!("{record}\n")
}

/// A home with everything that makes other programs count wrongly.
fn with_traps() -> Env {
    let env = Env::bare();
    let put = |name: &str, text: String| env.put(&format!(".claude/projects/-w-one/{name}"), text);
    let bash = json!({"content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]});
    let main = [
        // Written block by block, with growing figures.
        answer("m1", "aaaa", "1T10", 1, &json!({"stop_reason": null})),
        answer("m1", "aaaa", "1T10", 50, &bash),
        // At one o'clock the day after, in two lines with the same figures.
        answer("m2", "aaaa", "2T01", 7, &json!({})),
        answer("m2", "aaaa", "2T01", 7, &json!({})),
        // Without a time, without a known model, and never ended.
        answer("m3", "aaaa", "", 5, &json!({})),
        answer("m4", "aaaa", "2T02", 9, &json!({"model": "gateway/own"})),
        answer("m5", "aaaa", "2T03", 3, &json!({"stop_reason": null})),
        // Not messages of the API.
        answer("m6", "aaaa", "2T03", 99, &json!({"model": "<synthetic>"})),
        answer("", "aaaa", "2T03", 99, &json!({"id": null})),
        answer("m7", "aaaa", "2T03", 99, &json!({"usage": null})),
        format!(
            "{}\n",
            json!({"type": "progress", "data": {"message":
            serde_json::from_str::<Value>(&answer("m8", "aaaa", "2T03", 99, &json!({}))).unwrap()}})
        ),
        // A line that was cut, with the next one behind it.
        format!("{{\"type\":\"assi{}", answer("m9", "aaaa", "3T04", 11, &json!({}))),
    ];
    put("aaaa.jsonl", main.concat());
    // A fork that keeps the names of the session, and one that does not.
    put(
        "bbbb.jsonl",
        answer("m1", "aaaa", "1T10", 50, &json!({}))
            + &answer("m2", "aaaa", "2T01", 7, &json!({}))
            + &answer("n1", "bbbb", "4T01", 13, &json!({})),
    );
    put("cccc.jsonl", answer("m2", "cccc", "2T02", 7, &json!({})));
    // Sub-agents, in the session's folder and beside it.
    put("aaaa/subagents/agent-x.jsonl", answer("x1", "aaaa", "2T01", 17, &json!({})));
    put("agent-y.jsonl", answer("y1", "aaaa", "2T01", 19, &json!({})));
    env
}

#[test]
fn traps_are_counted_right() {
    let env = with_traps();
    let total = &usage(&env, &[])["total"];
    let outputs = 50 + 7 + 5 + 9 + 3 + 11 + 13 + 17 + 19;
    assert_eq!((number(&total["messages"]), number(&total["output"])), (9, outputs));
    let tokens = TOKENS.map(|name| number(&total[name]));
    assert_eq!(tokens, [900, outputs, 90, 180, 9_000, 9]);
    let rows = |by: &str| {
        let found = usage(&env, &["--by", by]);
        let rows = found["rows"].as_array().unwrap().iter();
        let rows =
            rows.map(|row| (row["key"].as_str().unwrap().to_owned(), number(&row["output"])));
        rows.collect::<BTreeMap<String, u64>>()
    };
    let wanted = |rows: &[(&str, u64)]| -> BTreeMap<String, u64> {
        rows.iter().map(|(key, output)| ((*key).to_owned(), *output)).collect()
    };
    assert_eq!(rows("session"), wanted(&[("aaaa", outputs - 13), ("bbbb", 13)]));
    let days = [
        ("2026-11-01", 50),
        ("2026-11-02", 7 + 9 + 3 + 17 + 19),
        ("2026-11-03", 11),
        ("2026-11-04", 13),
        ("unknown", 5),
    ];
    assert_eq!(rows("day"), wanted(&days));
    assert_eq!(rows("tool"), wanted(&[("Bash", 50), ("(none)", outputs - 50)]));
    assert_eq!(rows("project"), wanted(&[("/w/one", outputs)]));
    assert_eq!(rows("agent"), wanted(&[("(main)", outputs - 36), ("unknown", 36)]));
    let found = usage(&env, &[]);
    assert_eq!(found["unpriced"], json!([{"model": "gateway/own", "messages": 1, "output": 9}]));
    assert_eq!(found["lower_bound"], json!({"messages": 1, "output": 3}));
}

#[test]
fn costs_have_their_prices() {
    let env = with_traps();
    // 100 in, 7 out, 10 and 20 written, 1,000 read, one search.
    let one = 100.0 * 5.0 + 7.0 * 25.0 + 10.0 * 6.25 + 20.0 * 10.0 + 1000.0 * 0.5 + 10_000.0;
    let cost = |args: &[&str], key: &str| {
        let found = usage(&env, args);
        let rows = found["rows"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["key"] == key).unwrap()["cost_usd"].clone()
    };
    let day =
        cost(&["--by", "day", "--since", "2026-11-03", "--until", "2026-11-03"], "2026-11-03");
    let wanted = (one + 4.0 * 25.0) / 1e6;
    assert!((day.as_f64().unwrap() - wanted).abs() < 1e-12, "{day} is not {wanted}");
    assert_eq!(cost(&["--by", "model"], "gateway/own"), Value::Null);
    let prices = env.put("p.json", r#"{"models":{"gateway/own":{"input":1,"output":2}}}"#);
    let prices = prices.to_str().unwrap();
    let price = cost(&["--by", "model", "--prices", prices], "gateway/own");
    let wanted = (100.0 + 9.0 * 2.0 + 10.0 * 1.25 + 20.0 * 2.0 + 100.0 + 10_000.0) / 1e6;
    assert!((price.as_f64().unwrap() - wanted).abs() < 1e-12, "{price} is not {wanted}");
    env.put(
        ".claude/settings.json",
        r#"{"modelPricing":{"multiplier":0.5,"overrides":{"gateway/own":
            {"input":4,"output":4,"cacheRead":0,"cacheWrite":0},"bad":{"input":1}}}}"#,
    );
    let price = cost(&["--by", "model"], "gateway/own");
    let wanted = 0.5 * (109.0 * 4.0 + 10_000.0) / 1e6;
    assert!((price.as_f64().unwrap() - wanted).abs() < 1e-12, "{price} is not {wanted}");
}

#[test]
fn what_is_wrong_is_said() {
    let env = with_traps();
    let bad = env.put("bad.json", r#"{"models":{"m":{"input":1}}}"#);
    env.put("none.json", "[]");
    let mut text = String::new();
    for args in [
        &["usage", "--prices", bad.to_str().unwrap()][..],
        &["usage", "--prices", "none.json"],
        &["usage", "--prices", "missing.json"],
        &["usage", "--since", "yesterday"],
        &["usage", "--since", "2026-11-03", "--until", "2026-11-02"],
        &["usage", "--project", "nowhere"],
        &["usage", "--explain", "zzzz"],
        &["usage", "--since", "2027-01-01"],
    ] {
        writeln!(text, "$ quipu {}\n{}", args.join(" "), env.run(args)).unwrap();
    }
    assert_snapshot!(env.cleaned(&text));
}

#[test]
fn a_catalog_changes_no_number() {
    let env = Env::with_samples();
    let plain = usage(&env, &[]);
    assert!(!env.path(".cache").exists(), "nothing was written");
    env.output(&["index"]);
    for by in GROUPINGS {
        let [with, without] = [&["--by", by][..], &["--by", by, "--no-catalog"]];
        assert_eq!(usage(&env, with), usage(&env, without), "by {by}");
    }
    // What is gone still counts, but only the catalog knows it.
    std::fs::remove_dir_all(env.path(".claude/projects")).unwrap();
    std::fs::create_dir_all(env.path(".claude/projects/-home-dev-empty")).unwrap();
    assert_eq!(usage(&env, &[])["total"], plain["total"]);
    assert_eq!(usage(&env, &["--no-catalog"])["total"]["messages"], 0);
    env.output(&["index"]);
    assert_eq!(usage(&env, &[])["total"], plain["total"]);
    // By the name of its project and by its id, it is found like any other.
    let rows = usage(&env, &["--by", "project"]);
    let sums: u64 = rows["rows"].as_array().unwrap().iter().map(|row| number(&row["output"])).sum();
    let of_all = usage(&env, &["--project", "-"]);
    assert_eq!(number(&of_all["total"]["output"]), sums);
    let explained = usage(&env, &["--explain", "d51c8060"]);
    assert!(number(&explained["total"]["messages"]) > 0, "{explained}");
    // A catalog that cannot be used is no reason not to count.
    env.put(".cache/quipu/catalog.sqlite", "this is not a catalog");
    assert_snapshot!(env.run(&["usage"]).replace(env.path("").to_str().unwrap(), "[HOME]/"));
}

const AFTERNOON: u64 = NOW + 15 * 3_600;

fn statusline(env: &Env, input: &Value) -> String {
    let mut command = env.command(&["usage", "--statusline"]);
    command.env("QUIPU_NOW", AFTERNOON.to_string()).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.to_string().as_bytes()).unwrap();
    drop(stdin);
    env.show(&child.wait_with_output().unwrap())
}

/// Three answers: one the day before, one two hours ago, one now.
fn three_answers(name: &str, now: u64) -> String {
    let mut text = String::new();
    for (number, back) in [(1, 30 * 3_600), (2, 7_200), (3, 60)] {
        let id = format!("{name}{number}");
        let time = jiff::Timestamp::from_second(i64::try_from(now - back).unwrap()).unwrap();
        writeln!(
            text,
            r#"{{"type":"assistant","sessionId":"abc","uuid":"{id}","timestamp":"{time:.3}","message":{{"id":"{id}","role":"assistant","model":"claude-opus-4-5","content":[],"usage":{{"input_tokens":100000,"output_tokens":10}},"stop_reason":"end_turn"}}}}"#
        )
        .unwrap();
    }
    text
}

#[test]
fn one_line_for_the_status_line() {
    let env = Env::bare();
    let path = env.put(".claude/projects/-app/abc.jsonl", three_answers("m", AFTERNOON));
    let input = json!({"session_id": "abc", "transcript_path": path});
    let mut text = String::new();
    let mut say = |what: &str, shown: String| writeln!(text, "{what}\n{shown}").unwrap();
    say("without a catalog: what the one file has", statusline(&env, &input));
    assert!(!env.path(".cache").exists(), "nothing was written");
    env.output(&["index"]);
    say("with a catalog", statusline(&env, &input));
    let more = three_answers("n", AFTERNOON + 30);
    env.put(".claude/projects/-app/abc.jsonl", three_answers("m", AFTERNOON) + &more);
    say("what is new in the session is read", statusline(&env, &input));
    let end = AFTERNOON + 4_200;
    let full = json!({
        "transcript_path": path,
        "context_window": {"used_percentage": 41.6},
        "rate_limits": {
            "five_hour": {"used_percentage": 23.4, "resets_at": end},
            "seven_day": {"used_percentage": 61.0, "resets_at": end},
        },
    });
    say("the client's own figures, if it writes them", statusline(&env, &full));
    say("that block is certain now", env.run(&["usage", "--by", "block"]));
    let cost = json!({"transcript_path": "/nowhere/x.jsonl", "cost": {"total_cost_usd": 1.25}});
    say("a session that is not there", statusline(&env, &cost));
    say("nothing", statusline(&env, &json!({})));
    say("something else", statusline(&env, &json!([])));
    assert_snapshot!(text);
}

#[test]
fn limits_are_those_of_one_home() {
    let env = Env::bare();
    let path = env.put(".claude/projects/-app/abc.jsonl", three_answers("m", AFTERNOON));
    env.put("other/projects/-app/abc.jsonl", three_answers("m", AFTERNOON));
    env.output(&["index"]);
    let other = env.path("other").to_str().unwrap().to_owned();
    env.output(&["index", "--home", &other]);
    let end = AFTERNOON + 4_200;
    let limit = json!({"five_hour": {"used_percentage": 23.4, "resets_at": end}});
    statusline(&env, &json!({"transcript_path": path, "rate_limits": limit}));
    let certain = |args: &[&str]| {
        let rows = usage(&env, &[&["--by", "block"], args].concat());
        let rows = rows["rows"].as_array().unwrap().iter();
        rows.filter(|row| row["estimated"] == false).count()
    };
    assert_eq!([certain(&[]), certain(&["--home", &other])], [1, 0]);
}

#[test]
fn a_catalog_on_a_full_disk_is_never_wrong() {
    let env = Env::with_samples();
    let script = r#"
        C="$HOME/disk/c.sqlite"
        for what in "index" "search parser" "sql 'SELECT * FROM turns'"; do
            eval "$QUIPU" $what --catalog "$C" >/dev/null 2>&1
            echo "$what: $?"
        done
        "$QUIPU" index --catalog "$C" 2>&1 | grep -c -e full -e 'I/O'
        "$QUIPU" usage --json --catalog "$C" 2>/dev/null >"$HOME/full.json"
        mount -o remount,size=64m "$HOME/disk"
        "$QUIPU" index --catalog "$C" >/dev/null && "$QUIPU" index --verify --catalog "$C"
    "#;
    for bytes in ["8k", "40k", "200k"] {
        let Some(text) = env.on_small_disk(bytes, script) else {
            return println!("not run: no file system can be mounted here");
        };
        let expected = "index: 4\nsearch parser: 4\nsql 'SELECT * FROM turns': 4\n1\n\
                        the catalog is what the sessions are\n";
        assert_eq!(text, expected, "on {bytes}");
        let counted: Value =
            serde_json::from_slice(&std::fs::read(env.path("full.json")).unwrap()).unwrap();
        assert_eq!(counted["total"], usage(&env, &["--no-catalog"])["total"], "on {bytes}");
    }
}

/// An answer that was made in a fork and copied back, in 2.0.76. The copy of its prompt names the
/// fork, and `ship` decides by that; the copy of the answer names the session.
const OF_BOTH: [&str; 2] = ["msg_01UkhlEwI3tj56Z1QulHiwYa", "7c56dd36-6714-41a3-b7cb-481fee69cce2"];

/// Whose message it is decides `usage` by messages, `ship` by turns. A session that `quipu clone`
/// or `quipu fork` made is one of its own for `ship` (docs/traces.md).
#[test]
fn ship_and_usage_agree() {
    let recorded = |version: &str| {
        let env = Env::bare();
        let folder = testkit::fixtures().join("recordings").join(version);
        for file in testkit::files_under(std::slice::from_ref(&folder)) {
            let below = file.path.strip_prefix(&folder).unwrap().to_str().unwrap();
            if let Some((scenario, below)) = below.split_once("/projects/") {
                let bytes = std::fs::read(&file.path).unwrap();
                env.put(&format!(".claude/projects/{scenario}{below}"), bytes);
            }
        }
        env
    };
    let mut seen = 0;
    for env in [Env::with_samples(), recorded("2.0.76"), recorded("2.1.45")] {
        let query = "SELECT id, session, output, cache_read FROM messages";
        let output = env.output(&["sql", "--json", "--limit", "100000", query]);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let row = |row: &Value| (row[0].as_str().unwrap().to_owned(), row.clone());
        let counted: BTreeMap<String, Value> =
            found["rows"].as_array().unwrap().iter().map(row).collect();
        let output = env.output(&["ship", "--all", "--dry-run", "--json"]);
        assert!(output.status.success(), "{}", env.show(&output));
        let mut shipped = std::collections::BTreeSet::new();
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let span: Value = serde_json::from_str(line).unwrap();
            let attributes = &span["attributes"];
            let Some(output) = attributes["gen_ai.usage.output_tokens"].as_u64() else { continue };
            let id = attributes["gen_ai.response.id"].as_str().unwrap();
            let counted = &counted[id];
            let session = attributes["session.id"].as_str().unwrap();
            if [id, session] == OF_BOTH {
                assert_ne!(session, counted[1]);
            } else {
                assert_eq!(session, counted[1], "whose is {id}?");
            }
            assert_eq!(output, counted[2], "{id}");
            assert_eq!(attributes["gen_ai.usage.cache_read.input_tokens"], counted[3], "{id}");
            assert!(shipped.insert(id.to_owned()), "{id} is sent twice");
        }
        seen += shipped.len();
    }
    assert!(seen > 150, "{seen}");
}
