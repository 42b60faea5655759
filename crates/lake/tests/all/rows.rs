//! What the rows say.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use index::usage::{By, Filter, Question, report};
use jiff::tz::TimeZone;
use lake::{Content, Policy, RawLines, VERSION};
use parquet::data_type::Decimal;
use parquet::record::Field;
use transcript::conversation::price::Prices;

use crate::home::{CellsByName, Scene, policy, session, tables};

fn number(row: &CellsByName, name: &str) -> i64 {
    match &row[name] {
        Field::Long(number) => *number,
        other => panic!("{name} is {other:?}"),
    }
}

fn text<'a>(row: &'a CellsByName, name: &str) -> Option<&'a str> {
    match &row[name] {
        Field::Str(text) => Some(text),
        Field::Null => None,
        other => panic!("{name} is {other:?}"),
    }
}

fn flag(row: &CellsByName, name: &str) -> bool {
    matches!(&row[name], Field::Bool(true))
}

/// Dollars in millionths of a millionth.
fn dollars(row: &CellsByName) -> Option<i128> {
    match &row["cost_usd"] {
        Field::Decimal(Decimal::Int64 { value, .. }) => {
            Some(i128::from(i64::from_be_bytes(*value)))
        }
        Field::Null => None,
        other => panic!("cost_usd is {other:?}"),
    }
}

/// Compares the lake with what `quipu usage` counts.
fn compare_with_usage(scene: &Scene) {
    let ledger = scene.ledger();
    let (filter, prices, zone) = (Filter::default(), Prices::default(), TimeZone::UTC);
    let question =
        Question { by: By::Day, filter: &filter, prices: &prices, zone: &zone, block_ends: &[] };
    let wanted = report(&ledger, &question).total;
    let rows: Vec<_> =
        scene.rows("calls").into_iter().filter(|row| !flag(row, "is_copy")).collect();
    let sum = |name: &str| rows.iter().map(|row| number(row, name)).sum::<i64>().cast_unsigned();
    let usage = wanted.usage;
    assert_eq!(rows.len() as u64, wanted.messages);
    assert_eq!(sum("input_tokens"), usage.input);
    assert_eq!(sum("output_tokens"), usage.output);
    assert_eq!(sum("cache_write_5m_tokens"), usage.cache_5m);
    assert_eq!(sum("cache_write_1h_tokens"), usage.cache_1h);
    assert_eq!(sum("cache_read_tokens"), usage.cache_read);
    assert_eq!(sum("web_searches"), usage.searches);
    let cost: i128 = rows.iter().filter_map(dollars).sum();
    let wanted = wanted.cost.map_or(0, |cost| i128::try_from(cost.trillionths()).unwrap());
    assert_eq!(cost, wanted);
    let ids: BTreeSet<_> = rows.iter().map(|row| text(row, "message_id")).collect();
    assert_eq!(ids.len(), rows.len(), "a message counts twice");
}

#[test]
fn totals_are_those_of_usage() {
    let scene = Scene::with_samples();
    scene.push();
    compare_with_usage(&scene);
}

#[test]
fn totals_of_all_recordings_are_those_of_usage() {
    let scene = Scene::new();
    for (number, file) in testkit::own_files().iter().enumerate() {
        let name = file.path.file_name().unwrap().to_str().unwrap();
        let folder = scene.path(&format!("home/projects/-p{}", number % 7));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), &file.bytes).unwrap();
    }
    let pushed = scene.push();
    assert!(pushed.sessions > 20, "{pushed:?}");
    assert_eq!(pushed.unreadable, []);
    compare_with_usage(&scene);
    let again = scene.push();
    assert_eq!((again.sessions, again.unchanged), (0, pushed.sessions));
}

#[test]
fn a_copy_stays_as_a_row_and_counts_once() {
    let scene = Scene::new();
    // The copy is there first, and nobody knows that it is one.
    let lines = session("first", "msg_1", "hello");
    let copied = lines.replace("2026-01-0", "2026-02-0").replace("\"first\"", "\"later\"");
    scene.put("-p/later.jsonl", &copied);
    assert_eq!(scene.push().sessions, 1);
    assert!(scene.rows("calls").iter().all(|row| !flag(row, "is_copy")));
    compare_with_usage(&scene);
    // Now the session that made the calls is pushed: the other one is written again.
    scene.put("-p/first.jsonl", &lines);
    assert_eq!(scene.push().sessions, 2);
    let mut found: Vec<_> = scene
        .rows("calls")
        .iter()
        .map(|row| (text(row, "session_id").unwrap().to_owned(), flag(row, "is_copy")))
        .collect();
    found.sort();
    let wanted = [("first", false), ("first", false), ("later", true), ("later", true)];
    assert_eq!(found, wanted.map(|(id, is_copy)| (id.to_owned(), is_copy)));
    for table in ["tools", "edits", "turns", "messages"] {
        for row in scene.rows(table) {
            let is_later = text(&row, "session_id") == Some("later");
            assert_eq!(flag(&row, "is_copy"), is_later, "{table}: {row:?}");
        }
    }
    compare_with_usage(&scene);
}

/// A prompt without an answer, after the session of `home::session`.
fn unanswered(id: &str) -> String {
    format!(
        "{{\"type\":\"user\",\"uuid\":\"{id}-5\",\"parentUuid\":\"{id}-4\",\"sessionId\":\"{id}\",\
         \"timestamp\":\"2026-01-03T00:01:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"wait\"}}}}\n"
    )
}

/// How many rows of a table are copies, and how many are not.
fn copies(scene: &Scene, table: &str) -> [usize; 2] {
    let rows = scene.rows(table);
    let copies = rows.iter().filter(|row| flag(row, "is_copy")).count();
    [copies, rows.len() - copies]
}

#[test]
fn one_id_in_two_projects_is_one_session() {
    let scene = Scene::new();
    let lines = session("same", "msg_1", "hello");
    scene.put("-p/same.jsonl", &lines);
    scene.put("-q/same.jsonl", &lines.replace("msg_1", "msg_2"));
    assert_eq!(scene.push().sessions, 1);
    assert_eq!(scene.files().len(), 7);
    assert_eq!(scene.rows("calls").len(), 4);
    assert_eq!(scene.rows("sessions").len(), 1);
    compare_with_usage(&scene);
}

#[test]
fn a_session_in_two_projects_counts_once_in_every_table() {
    let scene = Scene::new();
    let lines = session("same", "msg_1", "hello") + &unanswered("same");
    scene.put("-p/same.jsonl", &lines);
    scene.put("-q/same.jsonl", &lines);
    assert_eq!(scene.push().sessions, 1);
    compare_with_usage(&scene);
    assert_eq!(copies(&scene, "calls"), [0, 2]);
    for (table, rows) in [("tools", 1), ("edits", 1), ("turns", 2), ("messages", 5)] {
        assert_eq!(copies(&scene, table), [rows, rows], "{table}");
    }
    let sessions = scene.rows("sessions");
    assert_eq!((sessions.len(), number(&sessions[0], "prompts")), (1, 2));
}

#[test]
fn what_a_fork_has_copied_is_a_copy_also_without_an_answer() {
    let scene = Scene::new();
    let lines = session("first", "msg_1", "hello") + &unanswered("first");
    scene.put("-p/first.jsonl", &lines);
    let copied = lines
        .replace("2026-01-0", "2026-02-0")
        .replace("\"sessionId\":\"first\"", "\"sessionId\":\"later\"")
        .replace("\"uuid\":", "\"forkedFrom\":{\"sessionId\":\"first\"},\"uuid\":");
    let new = session("later", "msg_2", "go on")
        .replace("2026-01-0", "2026-03-0")
        .replace("\"parentUuid\":null", "\"parentUuid\":\"first-5\"");
    scene.put("-p/later.jsonl", &(copied + &new));
    scene.push();
    compare_with_usage(&scene);
    for (table, expected) in [("calls", [2, 4]), ("turns", [2, 3]), ("messages", [5, 9])] {
        assert_eq!(copies(&scene, table), expected, "{table}");
    }
    let prompts =
        |row: &CellsByName| (text(row, "session_id").unwrap().to_owned(), number(row, "prompts"));
    let prompts: Vec<_> = scene.rows("sessions").iter().map(prompts).collect();
    assert_eq!(prompts, [("first".to_owned(), 2), ("later".to_owned(), 1)]);
}

#[test]
fn rows_say_what_happened() {
    let scene = Scene::new();
    scene.put("-p/one.jsonl", &session("one", "msg_1", "hello"));
    scene.push();
    let key = "calls/day=2026-01-02/m1-one.parquet";
    assert!(scene.files().contains_key(key), "{:?}", scene.files().keys());
    let shown = |table: &str, columns: &[&str]| {
        let mut lines = String::new();
        for row in scene.rows(table) {
            let cells: Vec<String> =
                columns.iter().map(|name| row[*name].to_string().replace('"', "")).collect();
            writeln!(lines, "{}", cells.join(" | ")).unwrap();
        }
        lines
    };
    assert_eq!(
        shown("tools", &["name", "duration_ms", "is_error", "turn", "place", "line", "input"]),
        "Edit | 2500 | false | 1 | live | 2 | null\n"
    );
    let columns = ["file", "extension", "action", "lines_added", "lines_removed", "tool"];
    assert_eq!(
        shown("edits", &columns),
        "/home/dev/shop/src/main.rs | rs | changed | 2 | 1 | Edit\n"
    );
    let columns = ["turn", "place", "input", "is_prompt", "outcome", "api_calls", "tool_calls"];
    assert_eq!(shown("turns", &columns), "1 | live | plain | true | answered | 2 | 1\n");
    let columns = ["type", "uuid", "parent_uuid", "input", "line", "text", "raw"];
    assert_eq!(
        shown("messages", &columns),
        "user | one-1 | null | plain | 1 | null | null\n\
         assistant | one-2 | one-1 | null | 2 | null | null\n\
         user | one-3 | one-2 | tool_result | 3 | null | null\n\
         assistant | one-4 | one-3 | null | 4 | null | null\n"
    );
    let columns = ["prompts", "records", "verdict", "git_branch", "cwd", "title", "first_prompt"];
    assert_eq!(shown("sessions", &columns), "1 | 4 | full | topic | /home/dev/one | null | null\n");
    let columns = ["schema_version", "machine", "user", "team", "content"];
    assert_eq!(shown("sessions", &columns), format!("{VERSION} | m1 | anna | null | meta\n"));
}

#[test]
fn a_session_without_an_answer_has_its_project() {
    let scene = Scene::new();
    let folder = scene.path("shop");
    fs::create_dir_all(folder.join(".git")).unwrap();
    let config = "[remote \"origin\"]\nurl = https://ada:secret@host.example/we/shop.git\n";
    fs::write(folder.join(".git/config"), config).unwrap();
    let lines = session("one", "msg_1", "hello").replace("/home/dev/one", folder.to_str().unwrap());
    scene.put("-p/one.jsonl", lines.split_inclusive('\n').next().unwrap());
    scene.push();
    assert_eq!(text(&scene.rows("sessions")[0], "project"), Some("host.example/we/shop"));
}

/// All texts of all tables.
fn all_texts(scene: &Scene) -> String {
    let mut found = String::new();
    for table in tables() {
        for row in scene.rows(table) {
            for (name, cell) in row {
                if let Field::Str(text) = cell {
                    writeln!(found, "{table}.{name}: {text}").unwrap();
                }
            }
        }
    }
    found
}

const SECRET: &str = "ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2";

#[test]
fn content_is_what_was_asked_for_and_has_no_secrets() {
    let lines = session("one", "msg_1", &format!("walnuts {SECRET}"))
        .replace("/home/dev/shop/src", &format!("/home/dev/{SECRET}/src"))
        .replace("topic", &format!("fix-{SECRET}"))
        .replace("toolu_one", &format!("toolu_{SECRET}"))
        .replace("\"one-", &format!("\"{SECRET}-"))
        .replace("\"msg_1b", &format!("\"{SECRET}-b"))
        .replace(
            "\"output_tokens\":7",
            &format!("\"output_tokens\":7,\"service_tier\":\"{SECRET}\",\"speed\":\"{SECRET}\""),
        );
    let pushed = |change: &dyn Fn(&mut Policy)| {
        let scene = Scene::new();
        scene.put("-p/one.jsonl", &lines);
        let mut policy = policy("m1");
        change(&mut policy);
        scene.push_as(&policy);
        all_texts(&scene)
    };
    let meta = pushed(&|_| {});
    assert!(!meta.contains("walnuts") && !meta.contains(SECRET), "{meta}");
    assert!(meta.contains("/home/dev/one") && meta.contains("main.rs"), "{meta}");
    let none = pushed(&|policy| policy.content = Content::None);
    for word in ["walnuts", SECRET, "/home/dev", "main.rs", "fix-"] {
        assert!(!none.contains(word), "{word} in {none}");
    }
    let full = pushed(&|policy| policy.content = Content::Full);
    assert!(full.contains("walnuts") && !full.contains(SECRET), "{full}");
    assert!(!full.contains("messages.raw"), "{full}");
    assert!(full.contains("tools.input: {\"file_path\""), "{full}");
    let raw = pushed(&|policy| {
        policy.content = Content::Full;
        policy.raw = RawLines::Pushed;
    });
    assert!(raw.contains("messages.raw: {\"type\":\"user\""), "{raw}");
    assert!(!raw.contains(SECRET), "{raw}");
    let open = pushed(&|policy| {
        policy.content = Content::Full;
        policy.redactor = None;
    });
    assert!(open.contains(SECRET), "{open}");
}

#[test]
fn what_was_said_hides_a_secret_also_where_no_rule_knows_it() {
    let word = "Xq7mVt2pLw9zR4";
    let lines = session("one", "msg_1", &format!("export DB_PASSWORD={word}")).replacen(
        &format!("\"text\":\"export DB_PASSWORD={word}\""),
        &format!("\"text\":\"I have tried {word} there\""),
        1,
    );
    // Another one is known only by a file of the session.
    let other = "Kp3nWs8vBd5yQ2";
    let lines = lines.replacen("walnuts", &format!("walnuts {other}"), 1).replacen(
        &format!("tried {word}"),
        &format!("tried {word} and {other}"),
        1,
    );
    let scene = Scene::new();
    scene.put("-p/one.jsonl", &lines);
    scene.put("-p/one/tool-results/env.txt", &format!("API_TOKEN={other}\n"));
    let mut policy = policy("m1");
    policy.content = Content::Full;
    policy.raw = RawLines::Pushed;
    scene.push_as(&policy);
    let texts = all_texts(&scene);
    assert!(texts.contains("I have tried [redacted:") && !texts.contains(word), "{texts}");
    assert!(!texts.contains(other), "{texts}");
}

#[test]
fn only_what_has_changed_is_written_and_a_lost_state_changes_nothing() {
    let scene = Scene::with_samples();
    let first = scene.push();
    let before = scene.files();
    assert_eq!(before.len() as u64, first.objects);
    let again = scene.push();
    assert_eq!((again.sessions, again.objects, again.unchanged), (0, 0, first.sessions));
    // State lost: the same objects.
    fs::remove_dir_all(scene.path("state")).unwrap();
    assert_eq!(scene.push().sessions, first.sessions);
    assert!(scene.files() == before);
    // Of a session that grew, the tables that changed are written.
    let path = scene.put("-p/one.jsonl", &session("one", "msg_1", "hello"));
    assert_eq!(scene.push().objects, 7);
    let mut lines = fs::read_to_string(&path).unwrap();
    lines.push_str("{\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"one-4\"}\n");
    fs::write(&path, lines).unwrap();
    let grown = scene.push();
    assert_eq!((grown.sessions, grown.objects + grown.same_objects), (1, 7));
    assert!(grown.same_objects >= 3, "{grown:?}");
}

#[test]
fn a_session_whose_first_day_changes_is_there_once() {
    for loses_state in [false, true] {
        let scene = Scene::new();
        let lines = session("one", "msg_1", "hello");
        scene.put("-p/one.jsonl", &lines);
        scene.push();
        scene.put("-p/one.jsonl", &lines.replace("2026-01-0", "2026-03-0"));
        if loses_state {
            fs::remove_dir_all(scene.path("state")).unwrap();
        }
        scene.push();
        let files = scene.files();
        assert_eq!(files.len(), 7, "{:?}", files.keys());
        assert!(files.keys().all(|key| key.contains("day=2026-03-02")), "{:?}", files.keys());
    }
}

/// What `lake check` finds twice is there once after a push of everything.
#[test]
fn a_push_of_everything_removes_what_is_there_twice() {
    let scene = Scene::new();
    scene.put("-p/one.jsonl", &session("one", "msg_1", "hello"));
    scene.push();
    let before = scene.files();
    for table in ["turns", "sessions"] {
        let folder = scene.path(&format!("lake/{table}/day=2025-12-31"));
        fs::create_dir_all(&folder).unwrap();
        for machine in ["m1", "m2"] {
            fs::write(folder.join(format!("{machine}-one.parquet")), "x").unwrap();
        }
    }
    let twice = lake::audit(&scene.lake(), &scene.state("lake"), "m1", &[]).unwrap().problems;
    let is_twice = |problem: &&String| problem.contains("is there twice");
    assert_eq!(twice.iter().filter(is_twice).count(), 2, "{twice:?}");
    let (target, mut state) = (scene.lake(), scene.state("lake"));
    scene.push_with(&target, &policy("m1"), &mut state, lake::Again::Everything).1.unwrap();
    // Those of the other machine are none of ours.
    let mut after = scene.files();
    for table in ["turns", "sessions"] {
        assert!(after.remove(&format!("{table}/day=2025-12-31/m2-one.parquet")).is_some());
    }
    assert!(after == before, "{:?}", after.keys());
}

/// With the price of Sonnet 4.5: 3 dollars for a million tokens of input.
#[test]
fn what_the_cache_saves_is_there_in_dollars() {
    let scene = Scene::new();
    scene.put("-p/one.jsonl", &session("one", "msg_1", "hello"));
    scene.push();
    let millionths = |row: &CellsByName, name: &str| match &row[name] {
        Field::Decimal(Decimal::Int64 { value, .. }) => i64::from_be_bytes(*value) / 1_000_000,
        other => panic!("{name} is {other:?}"),
    };
    let both = |row: &CellsByName| {
        ["cost_usd", "cost_without_cache_usd"].map(|name| millionths(row, name))
    };
    let found: Vec<_> = scene.rows("calls").iter().map(both).collect();
    // 3 tokens of input, 20 written for 5 minutes, 100 read, 7 of output; 1 of input, 5 of output.
    assert_eq!(found, [[9 + 75 + 30 + 105, 9 + 60 + 300 + 105], [3 + 75, 3 + 75]]);
}

#[test]
fn sessions_without_times_and_with_odd_names_have_a_place() {
    let scene = Scene::new();
    let lines = session("one", "msg_1", "hello").replace("timestamp", "stamp");
    scene.put("-p/a b=c%2F.jsonl", &lines);
    scene.push();
    let files = scene.files();
    assert_eq!(files.len(), 7);
    let is_safe = |key: &String| {
        let name = key.rsplit('/').next().unwrap();
        key.contains("/day=unknown/m1-x")
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
    };
    assert!(files.keys().all(is_safe), "{:?}", files.keys());
    assert_eq!(text(&scene.rows("sessions")[0], "session_id"), Some("a b=c%2F"));
}

#[test]
fn a_session_that_cannot_be_read_stops_no_other() {
    let scene = Scene::with_samples();
    let path = scene.put("-p/one.jsonl", &session("one", "msg_1", "hello"));
    let ledger = scene.ledger();
    fs::remove_file(&path).unwrap();
    let mut state = scene.state("lake");
    let groups = lake::groups(&ledger, &state);
    let chosen: Vec<_> = groups.iter().collect();
    let (target, policy) = (scene.lake(), policy("m1"));
    let again = lake::Again::Changed;
    let push = lake::Push { ledger: &ledger, target: &target, policy: &policy, threads: 2, again };
    let (pushed, outcome) = push.run(&groups, &chosen, &mut state, &lake::Progress::default());
    outcome.unwrap();
    assert_eq!(pushed.unreadable.len(), 1);
    assert_eq!(pushed.sessions, groups.len() as u64 - 1);
}

/// A prompt without an answer that counts is one, in however many sessions it is.
#[test]
fn prompts_without_an_answer_count_once() {
    let scene = Scene::new();
    let line = |id: &str, uuid: &str, parent: &str, more: &str| {
        format!(
            r#"{{"uuid":"{uuid}","parentUuid":"{parent}","sessionId":"{id}","timestamp":"2026-01-04T00:00:00.000Z",{more}}}"#
        ) + "\n"
    };
    let prompt =
        |words: &str| format!(r#""type":"user","message":{{"role":"user","content":"{words}"}}"#);
    let failed = r#""type":"assistant","isApiErrorMessage":true,"message":{"id":"e1","role":"assistant","model":"<synthetic>","content":[{"type":"text","text":"API Error"}]}"#;
    // A failed turn, an answered one, and one that was left open.
    let first = [
        line("first", "p1", "", &prompt("one")),
        line("first", "p2", "p1", failed),
        session("first", "msg_1", "hello"),
        line("first", "p3", "first-4", &prompt("open")),
    ]
    .concat();
    scene.put("-p/first.jsonl", &first);
    // It was resumed in a new file, as old clients do.
    let copied = first.replace("\"sessionId\":\"first\"", "\"sessionId\":\"later\"");
    let more = session("later", "msg_2", "more").replace("2026-01-0", "2026-03-0");
    scene.put("-p/later.jsonl", &format!("{copied}{more}"));
    // And forked: with ids of its own, and a note in each record.
    let forked = first.replace("\"first\"", "\"fork\"").replace("first-", "fork-");
    let forked = forked.replace("\"p", "\"f").replace(
        "\"type\":\"",
        "\"forkedFrom\":{\"sessionId\":\"first\",\"messageUuid\":\"x\"},\"type\":\"",
    );
    scene.put("-p/fork.jsonl", &forked);
    scene.push();
    let turns = scene.rows("turns");
    let is_own = |row: &&CellsByName| row["is_copy"] == Field::Bool(false);
    let ids: Vec<String> =
        turns.iter().filter(is_own).map(|row| format!("{}", row["session_id"])).collect();
    assert_eq!(ids.iter().filter(|id| id.contains("first")).count(), 3, "{ids:?}");
    assert_eq!(ids.iter().filter(|id| id.contains("later")).count(), 1, "{ids:?}");
    assert_eq!(ids.len(), 4, "{ids:?}");
    let prompts = |id: &str| {
        let rows = scene.rows("sessions");
        let row = rows.iter().find(|row| row["session_id"] == Field::Str(id.to_owned()));
        row.map(|row| row["prompts"].clone())
    };
    let of = ["first", "later", "fork"].map(prompts);
    assert_eq!(of, [3, 1, 0].map(|count| Some(Field::Long(count))));
}

/// The name of a file can be a secret.
#[test]
fn a_secret_that_is_the_name_of_a_session_is_nowhere() {
    let scene = Scene::new();
    let key = "ghp_Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2";
    scene.put(&format!("-p/{key}.jsonl"), &session(key, "msg_1", "hello"));
    scene.push();
    let holds = |bytes: &[u8]| bytes.windows(key.len()).any(|part| part == key.as_bytes());
    for (name, bytes) in scene.files() {
        assert!(!name.contains(key) && !holds(&bytes), "{name}");
    }
    let rows = scene.rows("sessions");
    assert_eq!(rows[0]["session_id"], Field::Str("[redacted:github-token]".to_owned()));
    let problems = lake::audit(&scene.lake(), &scene.state("lake"), "m1", &[]).unwrap().problems;
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(lake::erase(&scene.lake(), key, "m1").unwrap().objects.len(), 7);
}

/// What `lake check` says of objects that are not as they were pushed.
#[test]
fn an_audit_looks_into_the_objects_of_a_folder() {
    let scene = Scene::new();
    scene.put("-p/one.jsonl", &session("one", "msg_1", "hello"));
    scene.push();
    let problems = |former: &[String]| {
        lake::audit(&scene.lake(), &scene.state("lake"), "m1", former).unwrap().problems
    };
    assert_eq!(problems(&[]), Vec::<String>::new());
    let key = "calls/day=2026-01-02/m1-one.parquet";
    let path = scene.path("lake").join(key);
    let whole = fs::read(&path).unwrap();
    // All but its ends is zero, as after a power failure.
    let mut zeros = vec![0; whole.len()];
    zeros[..4].copy_from_slice(b"PAR1");
    zeros[whole.len() - 4..].copy_from_slice(b"PAR1");
    fs::write(&path, zeros).unwrap();
    assert_eq!(problems(&[]), [format!("`{key}` is not a whole Parquet file")]);
    let mut flipped = whole.clone();
    flipped[40] ^= 1;
    fs::write(&path, flipped).unwrap();
    assert_eq!(problems(&[]), [format!("`{key}` has other bytes than were pushed")]);
    fs::write(&path, whole).unwrap();
    // What stopped pushes left, of a session that is gone, too.
    let parts = [".m1-gone.parquet.part", ".m2-gone.parquet.part"];
    for part in parts {
        fs::write(path.with_file_name(part), "torn").unwrap();
    }
    let left = |whose: &str, part: &str| {
        format!("`calls/day=2026-01-02/{part}` was left by a push that was stopped{whose}")
    };
    let other = left(", or is being written by another machine", parts[1]);
    let mut found = problems(&[]);
    found.sort();
    assert_eq!(found, [left("", parts[0]), other.clone()]);
    let (target, mut state) = (scene.lake(), scene.state("lake"));
    scene.push_with(&target, &policy("m1"), &mut state, lake::Again::Everything).1.unwrap();
    assert_eq!(problems(&[]), [other]);
    fs::remove_file(path.with_file_name(parts[1])).unwrap();
    let former =
        "this machine was called `old`: what it pushed under that name is still there, too";
    assert_eq!(problems(&["old".to_owned()]), [former]);
    // What is not there yet is not made.
    fs::remove_dir_all(scene.path("lake")).unwrap();
    let error = lake::audit(&scene.lake(), &scene.state("lake"), "m1", &[]).unwrap_err();
    assert!(error.to_string().starts_with("there is no folder `"), "{error}");
    assert!(!scene.path("lake").exists());
}
