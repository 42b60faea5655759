//! Every JSON output is what its schema in `docs/schemas` says: for all real files in the
//! repository, for a whole home, and for commands that change, send and chat.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;
use testkit::otlp::Receiver;

use crate::env::Env;
use crate::rework::TALK;

/// The schemas, and how many values each was held against.
struct Book {
    schemas: Schemas,
    by_name: BTreeMap<String, SchemaIndex>,
    seen: BTreeMap<String, usize>,
}

/// How an output is divided into values.
#[derive(Clone, Copy)]
enum Values {
    /// One on each line.
    Lines,
    /// All of it is one.
    Whole,
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

impl Book {
    fn open() -> Book {
        let folder = testkit::root().join("docs/schemas");
        let names = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name());
        let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.enable_format_assertions();
        for name in &names {
            compiler.add_resource(&url(name), json(&folder.join(name))).unwrap();
        }
        let mut by_name = BTreeMap::new();
        for name in names.iter().filter(|name| *name != "common.json") {
            let index = compiler.compile(&url(name), &mut schemas);
            let index = index.unwrap_or_else(|error| panic!("{name}: {error:#}"));
            by_name.insert(name.trim_end_matches(".json").to_owned(), index);
        }
        Book { schemas, by_name, seen: BTreeMap::new() }
    }

    fn hold(&mut self, schema: &str, values: Values, output: &[u8], what: &str) {
        let text = std::str::from_utf8(output).unwrap();
        let parts: Vec<&str> = match values {
            Values::Lines => text.lines().collect(),
            Values::Whole => Some(text).filter(|text| !text.is_empty()).into_iter().collect(),
        };
        for part in parts {
            // `cat` prints records as they are stored, also with half of a surrogate pair.
            let value: Value = serde_json::from_str(&testkit::comparable::whole_characters(part))
                .unwrap_or_else(|error| panic!("{what}: {error}: {part:.300}"));
            let index = self.by_name[schema];
            if let Err(error) = self.schemas.validate(&value, index) {
                panic!("{what} is not as {schema}.json says: {error:#}\n{part:.2000}");
            }
            *self.seen.entry(schema.to_owned()).or_default() += 1;
        }
    }

    fn run(&mut self, env: &Env, schema: &str, values: Values, args: &[&str]) {
        let output = env.output(args);
        let code = output.status.code().unwrap();
        assert!([0, 8, 9, 10, 11, 12].contains(&code), "{args:?}: {}", env.show(&output));
        self.hold(schema, values, &output.stdout, &format!("{args:?}"));
    }
}

fn url(name: &str) -> String {
    format!("file:///schemas/{name}")
}

/// What each command prints about one file.
const OF_A_FILE: &[(&str, Values, &[&str])] = &[
    ("cat", Values::Lines, &["cat", "FILE"]),
    ("show", Values::Lines, &["show", "FILE", "--json", "--all"]),
    ("turns", Values::Lines, &["turns", "FILE", "--json"]),
    ("turns-compare", Values::Lines, &["turns", "FILE", "--compare", "--json"]),
    ("tree", Values::Lines, &["tree", "FILE", "--json"]),
    ("export-json", Values::Whole, &["export", "json", "FILE"]),
    ("check", Values::Lines, &["check", "FILE", "--json"]),
    ("check", Values::Lines, &["check", "FILE", "--json", "--as", "2.1.45"]),
    ("history", Values::Whole, &["history", "FILE", "--json"]),
    ("context", Values::Whole, &["context", "FILE", "--json"]),
    ("price", Values::Whole, &["price", "FILE", "--json"]),
    ("inventory", Values::Whole, &["inventory", "FILE", "--json"]),
    ("drift", Values::Lines, &["drift", "FILE", "--json"]),
    ("files", Values::Lines, &["files", "FILE", "--json"]),
    ("clone", Values::Whole, &["clone", "FILE", "--json", "--dry-run"]),
    ("repair", Values::Whole, &["repair", "FILE", "--json", "--dry-run"]),
    ("compress", Values::Whole, &["compress", "FILE", "--json", "--dry-run", "--to", "500"]),
    ("uncompress", Values::Whole, &["uncompress", "FILE", "--json", "--dry-run"]),
];

#[test]
fn json_of_every_real_file_is_as_its_schema_says() {
    let (env, mut book) = (Env::bare(), Book::open());
    let files = testkit::sample_of_own_files();
    assert!(files.len() > 30);
    // All commands on a few files would miss kinds of records, and all on all would take minutes.
    for (at, file) in files.iter().enumerate() {
        let path = file.path.to_str().unwrap();
        for (row, (schema, values, args)) in OF_A_FILE.iter().enumerate() {
            let is_turn = (at + row) % 5 == 0;
            if !is_turn {
                continue;
            }
            let args: Vec<&str> =
                args.iter().map(|arg| if *arg == "FILE" { path } else { arg }).collect();
            let output = env.output(&args);
            let code = output.status.code().unwrap();
            // A file without a conversation has no history, and nothing to copy.
            let is_known = [0, 2, 3, 8, 10, 11, 12].contains(&code);
            assert!(is_known, "{args:?}: {}", env.show(&output));
            book.hold(schema, *values, &output.stdout, &format!("{args:?}"));
        }
    }
    let is_compacted =
        |file: &&testkit::RealFile| file.path.to_string_lossy().contains("2.1.45/g_auto/");
    let compacted = files.iter().find(is_compacted).unwrap().path.to_str().unwrap();
    book.run(&env, "compaction", Values::Whole, &["compaction", compacted, "--json"]);
    for (schema, ..) in OF_A_FILE {
        assert!(book.seen.get(*schema).is_some_and(|seen| *seen > 0), "{schema}: {:?}", book.seen);
    }
}

#[test]
fn json_of_homes_and_changes_is_as_its_schema_says() {
    let (env, mut book) = (Env::with_sessions(), Book::open());
    let lines = Values::Lines;
    book.run(&env, "ls", lines, &["ls", "--all", "--count", "--json"]);
    book.run(&env, "check", lines, &["check", "--all", "--json"]);
    book.run(&env, "inventory", Values::Whole, &["inventory", "--all", "--json"]);
    book.run(&env, "usage", Values::Whole, &["usage", "--by", "agent", "--json"]);
    book.run(&env, "usage-explain", Values::Whole, &["usage", "--explain", "0b204f87", "--json"]);
    book.run(&env, "search", Values::Whole, &["search", "prompt", "--json"]);
    book.run(&env, "usage", Values::Whole, &["usage", "--by", "block", "--json"]);
    book.run(&env, "index", Values::Whole, &["index", "--json"]);
    let none = env.path("none.sqlite");
    let none = ["index", "--status", "--json", "--catalog", none.to_str().unwrap()];
    book.run(&env, "index", Values::Whole, &none);
    assert_eq!(book.seen["index"], 2);
    book.run(&env, "index-verify", Values::Whole, &["index", "--verify", "--json"]);
    book.run(&env, "sql", Values::Whole, &["sql", "SELECT * FROM messages", "--json"]);
    book.run(&env, "sql-views", Values::Whole, &["sql", "--json"]);
    let lake = env.path("lake");
    let lake = lake.to_str().unwrap();
    let whole = Values::Whole;
    book.run(&env, "lake-push", whole, &["lake", "push", "--all", "--to", lake, "--json"]);
    book.run(&env, "lake-check", whole, &["lake", "check", "--to", lake, "--json"]);
    book.run(&env, "lake-erase", lines, &["lake", "erase", "0b204f87", "--to", lake, "--json"]);
    env.put(".claude/projects/-gone/dead0000.jsonl", "{\"type\":\"user\"}\n");
    env.output(&["index"]);
    std::fs::remove_file(env.path(".claude/projects/-gone/dead0000.jsonl")).unwrap();
    book.run(&env, "index-forget", Values::Whole, &["index", "--forget", "dead", "--json"]);
    book.run(&env, "drift", lines, &["drift", "--all", "--json"]);
    book.run(&env, "hook-status", lines, &["hook", "status", "--json"]);
    book.run(&env, "ship-dry-run", lines, &["ship", "--all", "--dry-run", "--json"]);
    let key = format!("ghp_{}", "Zq8Rk2Tn5Wc7Lx0Vb3Hm6Jd9Gp1Fs4Yt0aB2");
    let text =
        format!("{{\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\"{key}\"}}}}\n");
    env.put(".claude/projects/-secret/5ec7e700-0000-4000-8000-000000000002.jsonl", text);
    book.run(&env, "secrets", lines, &["secrets", "--all", "--json"]);
    book.run(&env, "diff", Values::Whole, &["diff", "95e0b7f2", "375118cd", "--json"]);
    crate::rework::put_talk(&env);
    book.run(&env, "split", lines, &["split", TALK, "--at", "2", "--json"]);
    env.put("plan.txt", "reword 1: x\n");
    let changes: [(&str, &[&str]); 10] = [
        ("drop", &["drop", TALK, "1", "--json"]),
        ("keep", &["keep", TALK, "2-", "--json"]),
        ("edit", &["edit", TALK, "--plan", "plan.txt", "--json"]),
        ("merge", &["merge", TALK, "375118cd", "--json"]),
        ("redact", &["redact", "5ec7e700", "--json"]),
        ("clone", &["clone", "95e0b7f2", "--json"]),
        ("fork", &["fork", "95e0b7f2", "--at", "1", "--json"]),
        ("strip", &["strip", "95e0b7f2", "--preset", "heavy", "--json"]),
        ("repair", &["repair", "badc0ffe", "--json"]),
        ("repair", &["repair", "badc0ffe", "--in-place", "--json"]),
    ];
    for (schema, args) in changes {
        book.run(&env, schema, Values::Whole, args);
        assert!(book.seen[schema] > 0, "{args:?}");
    }
    let moves: [(&str, &[&str]); 9] = [
        ("rename", &["rename", "95e0b7f2", "x", "--json"]),
        ("tag", &["tag", "95e0b7f2", "x", "--json", "--dry-run"]),
        ("pack", &["pack", "95e0b7f2", "-o", "p.html", "--json"]),
        ("unpack", &["unpack", "p.html", "--list", "--json"]),
        ("unpack", &["unpack", "p.html", "--yes", "--json"]),
        ("move", &["move", "95e0b7f2", "/x/y", "--json", "--dry-run"]),
        ("move", &["move", "--project", "/home/dev/demo", "/x/y", "--json", "--dry-run"]),
        ("rm", &["rm", "95e0b7f2", "--json", "--dry-run"]),
        ("rm", &["rm", "2bb8f19c", "--json"]),
    ];
    for (schema, args) in moves {
        book.run(&env, schema, Values::Whole, args);
        assert!(book.seen[schema] > 0, "{args:?}");
    }
    // The session goes to stdout, and the object beside it.
    let output = env.output(&["repair", "375118cd", "-o", "-", "--json"]);
    book.hold("repair", lines, &output.stderr, "repair -o -");
    book.hold("cat", lines, &env.output(&["cat", "375118cd"]).stdout, "cat");
    let (copy, original) = (
        output.stdout,
        env.path(".claude/projects/-home-dev-demo")
            .join("375118cd-78a9-4864-8e28-5134e91c89ff.jsonl"),
    );
    assert_eq!(copy, std::fs::read(original).unwrap(), "there was nothing to repair");
}

#[test]
fn json_of_a_session_that_is_followed_is_as_its_schema_says() {
    let (env, mut book) = (Env::with_sessions(), Book::open());
    let args = ["follow", "375118cd", "--json", "--from-start"];
    let mut following = env.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(following.stdout.take().unwrap()).lines().take(10);
    for line in lines {
        book.hold("follow", Values::Lines, line.unwrap().as_bytes(), "follow");
    }
    following.kill().unwrap();
    following.wait().unwrap();
    assert_eq!(book.seen["follow"], 10);
}

#[test]
fn json_of_what_was_sent_is_as_its_schema_says() {
    let (env, mut book) = (Env::with_sessions(), Book::open());
    let receiver = Receiver::start().unwrap();
    let to = receiver.url();
    for _ in 0..2 {
        book.run(&env, "ship", Values::Whole, &["ship", "--all", "--json", "--to", &to]);
    }
    assert_eq!(book.seen["ship"], 2);
}

#[test]
fn json_of_chat_is_as_its_schema_says() {
    let (env, mut book) = (Env::bare(), Book::open());
    let forms: [(&str, Values, &[&str]); 3] = [
        ("chat-result", Values::Whole, &["json"]),
        ("chat-events", Values::Whole, &["json", "--verbose"]),
        ("chat-stream", Values::Lines, &["stream-json", "--verbose", "--include-partial-messages"]),
    ];
    for (schema, values, form) in forms {
        let args: Vec<&str> = ["chat", "-p", "hello", "--offline", "--output-format"]
            .iter()
            .chain(form)
            .copied()
            .collect();
        book.run(&env, schema, values, &args);
        assert!(book.seen[schema] > 0, "{schema}");
    }
}

#[test]
fn json_of_undo_that_cannot_miss_is_as_its_schema_says() {
    use crate::chat::{Lab, SESSION, call, text};
    let command = "echo x >> README.md; rm -rf src; mkfifo pipe; chmod 700 .";
    let bash = call("toolu_1", "Bash", &serde_json::json!({"command": command}));
    let mut lab = Lab::says(&[&[text("hello")], &[bash], &[text("done")]]);
    let free = ["--dangerously-skip-permissions", "--sandbox", "off"];
    lab.new_session(&["hi"]);
    let args: Vec<&str> = ["-r", SESSION, "go"].into_iter().chain(free).collect();
    lab.run(&args);
    let mut book = Book::open();
    book.run(&lab.env, "changes", Values::Lines, &["changes", SESSION, "--json"]);
    book.run(&lab.env, "changes", Values::Lines, &["changes", SESSION, "--json", "--turn", "2"]);
    for flags in [&["--dry-run"][..], &["--files"], &["--conversation", "--force"], &["--both"]] {
        let args: Vec<&str> = ["rewind", SESSION, "--json"].iter().chain(flags).copied().collect();
        book.run(&lab.env, "rewind", Values::Whole, &args);
    }
    assert_eq!(book.seen["rewind"], 4);
    assert!(book.seen["changes"] >= 4, "{:?}", book.seen);
}

/// A command that prints JSON has a schema, and a schema has a command.
#[test]
fn each_command_with_json_has_a_schema() {
    let (env, book) = (Env::bare(), Book::open());
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    for command in crate::help::commands(&env) {
        let args: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let help = env.run(&args);
        // `chat` has a form for each thing that it prints.
        if help.contains("--json") && command != "chat" {
            wanted.insert(command.replace(' ', "-"));
        }
    }
    // These have no flag of that name, or print something else with another flag.
    for other in [
        "cat",
        "turns-compare",
        "ship-dry-run",
        "chat-result",
        "chat-events",
        "chat-stream",
        "usage-explain",
        "index-verify",
        "index-forget",
        "sql-views",
        "chat-explain",
        "chat-settings-check",
    ] {
        wanted.insert(other.to_owned());
    }
    let have: BTreeSet<String> = book.by_name.keys().cloned().collect();
    assert_eq!(have, wanted);
}
