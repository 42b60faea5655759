//! `quipu sql`, and that its numbers are those of the other commands.

use std::fmt::Write as _;
use std::fs;

use index::sql::VIEWS;
use insta::assert_snapshot;
use serde_json::Value;

use crate::env::Env;

fn json(env: &Env, args: &[&str]) -> Value {
    let output = env.output(args);
    assert!(output.status.success(), "{}", env.show(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn rows(env: &Env, query: &str) -> Vec<Vec<Value>> {
    serde_json::from_value(json(env, &["sql", "--json", query])["rows"].clone()).unwrap()
}

#[test]
fn the_queries_of_the_documentation() {
    let env = Env::with_samples();
    let text = fs::read_to_string(testkit::root().join("docs/sql.md")).unwrap();
    let queries: Vec<&str> =
        text.split("```sql\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect();
    assert_eq!(queries.len(), 10);
    let mut shown = String::new();
    for query in queries {
        // The samples have their own dates.
        let query =
            query.trim().replace("date('now', 'localtime', '-30 days')", "date('2026-10-01')");
        writeln!(shown, "{query}\n{}", env.run(&["sql", &query])).unwrap();
    }
    assert_snapshot!(shown);
}

#[test]
fn the_views_are_documented() {
    let mut made = String::new();
    for view in VIEWS {
        writeln!(made, "### `{}`\n\nA row is {}.\n", view.name, view.about).unwrap();
        writeln!(made, "| column | what it has |\n|---|---|").unwrap();
        for (name, about) in view.columns {
            writeln!(made, "| `{name}` | {about} |").unwrap();
        }
        made.push('\n');
    }
    testkit::compare("sql.md", "views", &made, "-p quipu --test all sql");
}

#[test]
fn without_a_query_the_views_are_listed() {
    assert_snapshot!(Env::bare().run(&["sql"]));
    let found = json(&Env::bare(), &["sql", "--json"]);
    let views = found["views"].as_array().unwrap().iter();
    let found: Vec<(&str, usize)> = views
        .map(|view| (view["name"].as_str().unwrap(), view["columns"].as_array().unwrap().len()))
        .collect();
    assert_eq!(found, VIEWS.map(|view| (view.name, view.columns.len())));
}

#[test]
fn the_same_numbers_as_usage_and_turns() {
    let env = Env::with_samples();
    for (by, key) in
        [("session", "session"), ("project", "project"), ("model", "model"), ("day", "day")]
    {
        let usage = json(&env, &["usage", "--json", "--by", by]);
        let mut wanted: Vec<Value> = usage["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| {
                let cost = row["cost_usd"].as_f64().map(|cost| format!("{cost:.9}"));
                serde_json::json!([row["key"], row["output"], row["cache_read"], cost])
            })
            .collect();
        let query = format!(
            "SELECT {key}, sum(output), sum(cache_read), printf('%.9f', sum(cost_usd)) \
             FROM messages GROUP BY 1"
        );
        let mut found: Vec<Value> = rows(&env, &query).into_iter().map(Value::Array).collect();
        assert!(!found.is_empty());
        wanted.sort_by_key(Value::to_string);
        found.sort_by_key(Value::to_string);
        assert_eq!(found, wanted, "by {by}");
    }
    let sessions = rows(&env, "SELECT path, output, cost_usd FROM sessions WHERE agents = 0");
    let mut count = 0;
    for session in sessions {
        let path = session[0].as_str().unwrap();
        let output = env.output(&["turns", "--json", path]);
        let lines = String::from_utf8(output.stdout).unwrap();
        let turns: Vec<Value> = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|value| value["type"] == "turn")
            .collect();
        let id = rows(&env, &format!("SELECT session FROM sessions WHERE path = '{path}'"));
        let id = id[0][0].as_str().unwrap();
        let query = format!(
            "SELECT turn, outcome, input, output FROM turns WHERE session = '{id}' \
             AND place = 'live' ORDER BY turn"
        );
        let live = turns.iter().filter(|turn| turn["live"] == true && turn["agent"].is_null());
        let wanted: Vec<Value> = live
            .map(|turn| {
                let tokens = &turn["tokens"];
                let read = ["input", "cache_read", "cache_write"].map(|name| tokens[name].as_u64());
                let read: u64 = read.into_iter().flatten().sum();
                serde_json::json!([turn["turn"], turn["outcome"], read, tokens["output"]])
            })
            .collect();
        let found: Vec<Value> = rows(&env, &query).into_iter().map(Value::Array).collect();
        assert_eq!(found, wanted, "{path}");
        count += found.len();
    }
    assert!(count > 10, "{count}");
}

#[test]
fn bad_queries() {
    let env = Env::with_samples();
    let mut shown = String::new();
    for query in [
        "DELETE FROM sessions",
        "ATTACH '/etc/passwd' AS x",
        "SELECT * FROM sqlite_schema",
        "SELECT load_extension('x')",
        "SELECT tilte FROM sessions",
        "SELECT 1; SELECT 2",
        "",
    ] {
        writeln!(shown, "{query}\n{}", env.run(&["sql", query])).unwrap();
    }
    assert_snapshot!(shown);
}

#[test]
fn an_answer_is_cut_and_says_so() {
    let env = Env::with_samples();
    let query = "SELECT prompts AS n, '=1+1' AS formula FROM sessions ORDER BY 1";
    assert_snapshot!(env.run(&["sql", query, "--limit", "2"]));
    assert_snapshot!(env.run(&["sql", query, "--limit", "2", "--csv"]));
    assert_snapshot!(env.run(&["sql", query, "--max-bytes", "30", "--json"]));
}
