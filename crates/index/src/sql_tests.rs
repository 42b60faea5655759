use std::fs;
use std::sync::Arc;

use transcript::conversation::place::Home;

use super::*;
use crate::catalog::Work;

struct Sample {
    folder: tempfile::TempDir,
    redactor: Arc<Redactor>,
}

fn record(kind: &str, uuid: &str, parent: &str, second: u8, message: &str, more: &str) -> String {
    format!(
        r#"{{"type":"{kind}","sessionId":"one","uuid":"{uuid}","parentUuid":{parent},"timestamp":"2026-03-01T10:00:{second:02}.000Z","cwd":"/app"{more},"message":{message}}}"#
    )
}

fn session(more: &str) -> String {
    let user = |text: &str| format!(r#"{{"role":"user","content":{text}}}"#);
    let answer = |id: &str, output: u32, content: &str| {
        format!(
            r#"{{"id":"{id}","role":"assistant","model":"claude-opus-4-5","content":[{content}],"usage":{{"input_tokens":10,"output_tokens":{output},"cache_read_input_tokens":1000}},"stop_reason":"end_turn"}}"#
        )
    };
    let call = r#"{"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"/app/a.rs"}}"#;
    let result =
        r#"[{"type":"tool_result","tool_use_id":"t1","content":"no such file","is_error":true}]"#;
    let lines = [
        record("user", "a", "null", 1, &user("\"first prompt\""), more),
        record("assistant", "b", "\"a\"", 2, &answer("m1", 20, call), more),
        record("user", "c", "\"b\"", 5, &user(result), more),
        record(
            "assistant",
            "d",
            "\"c\"",
            6,
            &answer("m2", 30, r#"{"type":"text","text":"x"}"#),
            more,
        ),
        record("user", "e", "\"d\"", 7, &user("\"second prompt\""), more),
        record(
            "assistant",
            "f",
            "\"e\"",
            9,
            &answer("m3", 40, r#"{"type":"text","text":"y"}"#),
            more,
        ),
    ];
    lines.join("\n") + "\n"
}

impl Sample {
    fn new() -> Sample {
        let world = Sample {
            folder: tempfile::tempdir().unwrap(),
            redactor: Arc::new(Redactor::default()),
        };
        world.put("-app/one.jsonl", &session(""));
        let copied = r#","forkedFrom":{"sessionId":"one","messageUuid":"x"}"#;
        world.put("-app/two.jsonl", &session(copied));
        let agent = session("").replace(r#""id":"m"#, r#""id":"agent-m"#);
        world.put("-app/one/subagents/agent-7.jsonl", &agent);
        world
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.folder.path().join("home/projects").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn catalog(&self) -> Catalog {
        let mut catalog = Catalog::open(&self.folder.path().join("c.sqlite")).unwrap();
        let homes = [Home { root: self.home() }];
        let work = Work { homes: &homes, redactor: &self.redactor, threads: 2 };
        catalog.refresh(&work, |_, _| {}).unwrap();
        catalog
    }

    fn ask_with(&self, query: &str, rows: usize, bytes: u64) -> Result<SqlAnswer, SqlError> {
        let homes = [self.home()];
        let wish = SqlWish {
            homes: &homes,
            rows,
            bytes,
            patience: Duration::from_millis(300),
            threads: 2,
            prices: &Prices::default(),
            zone: &TimeZone::UTC,
            redactor: &self.redactor,
        };
        self.catalog().query(query, &wish, &mut |_, _| ())
    }

    fn ask(&self, query: &str) -> String {
        let answer = self.ask_with(query, 100, 10_000).unwrap();
        let cell = |value: &SqlValue| match value {
            SqlValue::Null => "-".to_owned(),
            SqlValue::Integer(number) => number.to_string(),
            SqlValue::Real(number) => format!("{number:.6}"),
            SqlValue::Text(text) => text.clone(),
        };
        let row = |row: &Vec<SqlValue>| row.iter().map(cell).collect::<Vec<_>>().join("|");
        answer.rows.iter().map(row).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn views_have_what_the_sessions_have() {
    let world = Sample::new();
    for (query, wanted) in [
        (
            "SELECT session, project, prompt, started, day, records, prompts, agents, messages, \
             output, cost_usd, deleted FROM sessions ORDER BY session",
            // The sub-agent counts for its session. The fork made no call.
            "one|/app|first prompt|2026-03-01T10:00:01.000Z|2026-03-01|6|2|1|6|180|0.007800|0\n\
             two|/app|first prompt|2026-03-01T10:00:01.000Z|2026-03-01|6|2|0|0|0|-|0",
        ),
        (
            "SELECT agent, turn, place, branch, line, started, outcome, calls, failed, messages, \
             input, output, cost_usd FROM turns WHERE session = 'one' ORDER BY agent, turn",
            "-|1|live|-|1|2026-03-01T10:00:01.000Z|answered|1|1|2|2020|50|0.002350\n\
             -|2|live|-|5|2026-03-01T10:00:07.000Z|answered|0|0|1|1010|40|0.001550\n\
             7|1|live|-|1|2026-03-01T10:00:01.000Z|answered|1|1|2|2020|50|0.002350\n\
             7|2|live|-|5|2026-03-01T10:00:07.000Z|answered|0|0|1|1010|40|0.001550",
        ),
        (
            "SELECT id, session, agent, day, model, tool, input, output, cache_read, copies, line \
             FROM messages WHERE agent IS NULL ORDER BY id",
            "m1|one|-|2026-03-01|claude-opus-4-5|Read|10|20|1000|1|2\n\
             m2|one|-|2026-03-01|claude-opus-4-5|-|10|30|1000|1|4\n\
             m3|one|-|2026-03-01|claude-opus-4-5|-|10|40|1000|1|6",
        ),
        (
            "SELECT session, agent, turn, tool, milliseconds, is_error, result_bytes, line \
             FROM calls ORDER BY session, agent",
            "one|-|1|Read|3000|1|82|2\none|7|1|Read|3000|1|82|2\ntwo|-|1|Read|3000|1|82|2",
        ),
        (
            "SELECT session, agent, file, tool, calls FROM files ORDER BY session, agent",
            "one|-|/app/a.rs|Read|1\none|7|/app/a.rs|Read|1\ntwo|-|/app/a.rs|Read|1",
        ),
        (
            "SELECT kind, session, origin, messages FROM links ORDER BY kind",
            "agent|7|one|3\nfork|two|one|3",
        ),
        ("SELECT session, verdict, lost FROM verdicts ORDER BY 1", "one|full|0\ntwo|full|0"),
    ] {
        assert_eq!(world.ask(query), wanted, "{query}");
    }
}

#[test]
fn what_was_computed_is_computed_again_after_a_change() {
    let world = Sample::new();
    let turns = "SELECT session, count(*) FROM turns WHERE agent IS NULL GROUP BY 1";
    assert_eq!(world.ask(turns), "one|2\ntwo|2");
    let more = record("user", "g", "\"f\"", 30, r#"{"role":"user","content":"third"}"#, "");
    world.put("-app/one.jsonl", &(session("") + &more + "\n"));
    assert_eq!(world.ask(turns), "one|3\ntwo|2");
    let verdicts = "SELECT session, verdict FROM verdicts ORDER BY 1";
    assert_eq!(world.ask(verdicts), "one|full\ntwo|full");
    world.put("-app/two.jsonl", "{\"type\":\"user\"");
    assert_eq!(world.ask(verdicts), "one|full\ntwo|refused");
    assert_eq!(world.ask(turns), "one|3");
}

#[test]
fn nothing_but_the_views_can_be_read() {
    let world = Sample::new();
    let path = world.folder.path().join("c.sqlite");
    let attach = format!("ATTACH '{}' AS x", path.display());
    for query in [
        attach.as_str(),
        "SELECT * FROM file",
        "SELECT * FROM main.file",
        "SELECT * FROM sqlite_schema",
        "SELECT * FROM sqlite_temp_schema",
        "SELECT * FROM pragma_table_info('sessions')",
        "SELECT * FROM pragma_database_list",
        "SELECT count(*) FROM pragma_database_list",
        "SELECT count(*) FROM sqlite_schema",
        "SELECT count(*) FROM file",
        "SELECT load_extension('/tmp/x.so')",
        "SELECT readfile('/etc/passwd')",
        "SELECT writefile('/tmp/x', 'y')",
        "SELECT * FROM fsdir('/')",
        "SELECT * FROM dbstat",
        "SELECT 1 FROM sessions JOIN sqlite_schema USING (name)",
        "SELECT 1 FROM sessions NATURAL JOIN sqlite_schema",
        "WITH sessions AS (SELECT * FROM sqlite_schema) SELECT * FROM sessions",
        "PRAGMA database_list",
        "PRAGMA writable_schema = ON",
        "PRAGMA temp_store_directory = '/tmp'",
        "DELETE FROM sessions",
        "DELETE FROM sessions RETURNING session",
        "UPDATE sessions SET title = 'x'",
        "INSERT INTO sessions (session) VALUES ('x')",
        "CREATE TABLE x (y)",
        "CREATE TEMP VIEW x AS SELECT 1",
        "CREATE VIRTUAL TABLE x USING fts5(y)",
        "DROP TABLE sessions",
        "VACUUM INTO '/tmp/x.sqlite'",
        "BEGIN",
        "ANALYZE",
        "REINDEX",
        "DETACH main",
        "SELECT 1; SELECT 2",
        "SELECT ?",
        "",
        "-- nothing",
        "SELECT nonsense FROM sessions",
        "SELECT",
    ] {
        let found = world.ask_with(query, 10, 1_000);
        let is_refused = matches!(found, Err(SqlError::Refused(_) | SqlError::Wrong(_)));
        assert!(is_refused, "{query}: {found:?}");
    }
}

#[test]
fn what_queries_are_for_works() {
    let world = Sample::new();
    for (query, wanted) in [
        ("SELECT 1;", "1"),
        ("select count(*) from SESSIONS", "2"),
        ("WITH x AS (SELECT session FROM sessions) SELECT count(*) FROM x -- done", "2"),
        ("SELECT value FROM json_each('[1,2]')", "1\n2"),
        (
            "WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n WHERE x < 3) \
          SELECT group_concat(x) FROM n",
            "1,2,3",
        ),
        ("SELECT x'00ff'", "00ff"),
        ("SELECT date('2026-03-01', '+1 day')", "2026-03-02"),
        ("SELECT s.session FROM sessions s JOIN messages m USING (session) GROUP BY 1", "one"),
        ("SELECT count(*) FROM files NATURAL JOIN sessions", "3"),
        ("SELECT count(*) FROM sessions, files", "6"),
        ("WITH x AS (SELECT DISTINCT project FROM sessions) SELECT count(*) FROM x", "1"),
        ("WITH x AS (SELECT session FROM sessions LIMIT 1) SELECT count(*) FROM x, files", "3"),
        (
            "WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n WHERE x < 3) \
          SELECT count(*) FROM n",
            "3",
        ),
        ("SELECT (SELECT count(*) FROM verdicts)", "2"),
    ] {
        assert_eq!(world.ask(query), wanted, "{query}");
    }
}

#[test]
fn an_answer_is_bounded() {
    let world = Sample::new();
    let count = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n";
    let answer = world.ask_with(count, 3, 1_000).unwrap();
    assert_eq!((answer.rows.len(), answer.is_cut), (3, true));
    // As JSON: `[1],`, later `[10],`.
    let answer = world.ask_with(count, 1_000, 80).unwrap();
    assert_eq!((answer.rows.len(), answer.is_cut), (14, true));
    let texts = count.replace("SELECT x FROM n", "SELECT '\"' || char(10, 1) FROM n");
    let answer = world.ask_with(&texts, 1_000, 80).unwrap();
    assert_eq!((answer.rows.len(), answer.is_cut), (5, true));
    let answer = world.ask_with("SELECT session FROM sessions", 2, 1_000).unwrap();
    assert_eq!((answer.rows.len(), answer.is_cut), (2, false));
    let forever = count.replace("SELECT x FROM n", "SELECT max(x) FROM n");
    assert!(matches!(world.ask_with(&forever, 3, 1_000), Err(SqlError::Slow(_))));
    for query in [
        "SELECT length(zeroblob(900000000))",
        "SELECT length(replace(hex(zeroblob(8000000)), '0', 'abcdefghijkl'))",
        "SELECT printf('%.*c', 900000000, 'x')",
    ] {
        let found = world.ask_with(query, 3, 1_000);
        assert!(found.is_err(), "{query}: {found:?}");
    }
}

/// The database looks at the clock between its steps, and a step may be a function that takes long:
/// here up to a hundred times as long as a query may.
#[test]
fn no_function_takes_longer_than_a_query_may() {
    let world = Sample::new();
    let texts = |long: u32, short: u32, end: char| {
        format!(
            "WITH RECURSIVE t(s, p) AS MATERIALIZED (SELECT replace(hex(zeroblob({long})), '0', \
             'a'), replace(hex(zeroblob({short})), '0', '{end}')), \
             n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n) "
        )
    };
    let begin = std::time::Instant::now();
    for (query, is_slow) in [
        (texts(65_000, 32_000, 'a') + "SELECT sum(instr(s || x, p || 'b')) FROM n, t", true),
        (
            texts(65_000, 32_000, 'a')
                + "SELECT sum(length(replace(s || x, p || 'b', ''))) FROM n, t",
            true,
        ),
        (texts(90_000, 8_000, 'b') + "SELECT length(trim(s, p || 'a')) FROM t", true),
        (texts(80_000, 12_000, '_') + "SELECT s LIKE '%a' || p || 'b' FROM t", false),
        (texts(80_000, 12_000, '?') + "SELECT s GLOB '*a' || p || 'b' FROM t", false),
    ] {
        let found = world.ask_with(&query, 3, 1_000);
        let is_right = match &found {
            Err(SqlError::Slow(_)) => is_slow,
            Err(SqlError::Wrong(text)) => !is_slow && text.contains("pattern too complex"),
            _ => false,
        };
        assert!(is_right, "{query}: {found:?}");
    }
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn only_homes_in_force_are_seen() {
    let world = Sample::new();
    world.ask("SELECT 1");
    let mut catalog = Catalog::open(&world.folder.path().join("c.sqlite")).unwrap();
    for view in VIEWS {
        let wish = SqlWish {
            homes: &[world.folder.path().join("other")],
            rows: 10,
            bytes: 1_000,
            patience: Duration::from_secs(10),
            threads: 1,
            prices: &Prices::default(),
            zone: &TimeZone::UTC,
            redactor: &world.redactor,
        };
        let answer =
            catalog.query(&format!("SELECT * FROM {}", view.name), &wish, &mut |_, _| ()).unwrap();
        assert_eq!((answer.rows.len(), answer.columns.len()), (0, view.columns.len()));
    }
}
