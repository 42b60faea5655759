//! Phoenix as the receiver: it says of our traces what was sent, and sending them again changes
//! nothing.
//!
//! It runs on loopback, in a folder of its own, and is asked over its GraphQL API. What it should
//! say is written down here or computed from `quipu ship --dry-run --json`, never from its own
//! answers. It prices by itself, from its own list: that its costs are ours is the word of two
//! lists.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use reqwest::blocking::Client;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::lab::write;

/// So long it may take until it listens, and until it shows what it was sent.
const PATIENCE: Duration = Duration::from_secs(600);

/// As many as it gives at once.
const PAGE: usize = 1000;

/// Models that it has no price for.
const UNPRICED: [&str; 1] = ["claude-sonnet-4-20250514"];

/// Long after all recordings: every turn is over. 2100-01-01.
const NOW: &str = "4102444800";

/// The session of the reference transcript.
const SESSION: &str = "11111111-2222-4333-8444-555555555555";

/// What it says of the reference transcript, whose numbers were worked out by hand.
const REFERENCE: &str = "\
agent Turn 1 in nothing: UNSET
llm claude-sonnet-4-5-20250929 in Turn 1: UNSET, 12904 (12000 read, 900 written) + 131 tokens, $0.008952000
tool Read in claude-sonnet-4-5-20250929: UNSET
tool Bash in claude-sonnet-4-5-20250929: ERROR error: could not compile
llm claude-sonnet-4-5-20250929 in Turn 1: UNSET, 13216 (12900 read, 310 written) + 42 tokens, $0.005680500
agent Turn 2 in nothing: UNSET
llm claude-sonnet-4-5-20250929 in Turn 2: UNSET, 13253 (13210 read, 40 written) + 9 tokens, $0.004257000
11111111-2222-4333-8444-555555555555 of ada: What does main.rs print? … You are welcome.
2 traces, 1 with errors, 39373 + 182 tokens, $0.018889500
";

/// A running server, which ends with this.
struct Phoenix {
    process: Child,
    folder: TempDir,
    url: String,
    client: Client,
}

impl Drop for Phoenix {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Phoenix {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = File::create(folder.path().join("log")).unwrap();
        let process = Command::new(testkit::root().join("target/real/phoenix/bin/python"))
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/serve.py"))
            .arg("serve")
            .current_dir(folder.path())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", folder.path())
            .env("PHOENIX_WORKING_DIR", folder.path().join("data"))
            .env("PHOENIX_HOST", "127.0.0.1")
            .env("PHOENIX_PORT", port.to_string())
            .env("PHOENIX_TELEMETRY_ENABLED", "false")
            .env("PHOENIX_ALLOW_EXTERNAL_RESOURCES", "false")
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("`./test real` installs Phoenix");
        let client = Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let mut phoenix =
            Phoenix { process, folder, url: format!("http://127.0.0.1:{port}"), client };
        phoenix.wait_for_start();
        phoenix
    }

    fn wait_for_start(&mut self) {
        let begin = Instant::now();
        loop {
            let health = self.client.get(format!("{}/healthz", self.url)).send();
            if health.is_ok_and(|answer| answer.status().is_success()) {
                println!("Phoenix listens after {} s", begin.elapsed().as_secs());
                return;
            }
            let ended = self.process.try_wait().unwrap();
            if ended.is_some() || begin.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                let from = log.lines().count().saturating_sub(40);
                let last: Vec<&str> = log.lines().skip(from).collect();
                panic!("Phoenix does not start ({ended:?}):\n{}", last.join("\n"));
            }
            sleep(Duration::from_millis(200));
        }
    }

    /// What it says of a project; nothing as long as it does not know it.
    fn ask(&self, project: &str, what: &str) -> Value {
        let query = format!(r#"{{ project: getProjectByName(name: "{project}") {{ {what} }} }}"#);
        let request = self.client.post(format!("{}/graphql", self.url));
        let request = request.header("content-type", "application/json");
        let answer = request.body(json!({"query": query}).to_string()).send().unwrap();
        let mut answer: Value = serde_json::from_str(&answer.text().unwrap()).unwrap();
        assert!(answer.get("errors").is_none(), "{query}: {answer}");
        answer["data"]["project"].take()
    }

    /// Waits for as many spans: it answers first and stores later.
    fn wait_for(&self, project: &str, count: usize) {
        let end = Instant::now() + PATIENCE;
        loop {
            let has = self.ask(project, "recordCount")["recordCount"].as_u64().unwrap_or(0);
            if has == count as u64 {
                return;
            }
            assert!(Instant::now() < end, "{project} has {has} spans, and {count} were sent");
            sleep(Duration::from_millis(200));
        }
    }

    /// All spans of a project, by their ids.
    fn spans(&self, project: &str) -> BTreeMap<String, Value> {
        const FIELDS: &str = "id spanId parentId name spanKind statusCode statusMessage \
            startTime endTime tokenCountPrompt tokenCountCompletion \
            tokenPromptDetails { cacheRead cacheWrite } costSummary { total { cost } } userId \
            trace { traceId session { sessionId } } input { value } output { value } \
            events { name timestamp } attributes";
        let mut found = BTreeMap::new();
        let mut after = Value::Null;
        loop {
            let page = self.ask(
                project,
                &format!(
                    "spans(first: {PAGE}, after: {after}) {{
                        edges {{ node {{ {FIELDS} }} }} pageInfo {{ endCursor hasNextPage }}
                    }}"
                ),
            );
            for edge in page["spans"]["edges"].as_array().unwrap() {
                let span = edge["node"].clone();
                let other = found.insert(text(&span["spanId"]), span);
                assert!(other.is_none(), "{other:?} is there twice");
            }
            after = page["spans"]["pageInfo"]["endCursor"].clone();
            if page["spans"]["pageInfo"]["hasNextPage"] != true {
                return found;
            }
        }
    }

    /// All sessions of a project, by their ids.
    fn sessions(&self, project: &str) -> BTreeMap<String, Value> {
        let page = self.ask(
            project,
            &format!(
                "sessions(first: {PAGE}) {{ edges {{ node {{
                    sessionId userId startTime endTime numTraces numTracesWithError
                    firstInput {{ value }} lastOutput {{ value }}
                    tokenUsage {{ prompt completion }} costSummary {{ total {{ cost }} }}
                }} }} }}"
            ),
        );
        let edges = page["sessions"]["edges"].as_array().unwrap().iter();
        edges.map(|edge| (text(&edge["node"]["sessionId"]), edge["node"].clone())).collect()
    }
}

/// Somebody who ships, with settings and a memory of what arrived.
struct User {
    folder: TempDir,
    to: String,
}

impl User {
    fn new(to: &str) -> Self {
        let user = User { folder: tempfile::tempdir().unwrap(), to: to.to_owned() };
        user.set("user = \"ada\"\n");
        user
    }

    fn set(&self, settings: &str) {
        let folder = self.folder.path().join(".config/quipu");
        fs::create_dir_all(&folder).unwrap();
        write(&folder.join("config.toml"), format!("[ship]\n{settings}"));
    }

    fn forget(&self) {
        fs::remove_dir_all(self.folder.path().join(".local/state/quipu")).unwrap();
    }

    /// `quipu ship` of all sessions of these homes: the lines that it prints.
    fn ship(&self, homes: &[PathBuf], args: &[&str]) -> Vec<Value> {
        let output = Command::new(env!("CARGO_BIN_EXE_quipu"))
            .args(["ship", "--all", "--json", "--to", &self.to])
            .args(args)
            .args(homes.iter().flat_map(|home| [Path::new("--home"), home.as_path()]))
            .env_clear()
            .env("HOME", self.folder.path())
            .env("QUIPU_NOW", NOW)
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && error.is_empty(), "{args:?}: {error}");
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// How many spans are sent.
    fn sent(&self, homes: &[PathBuf], args: &[&str]) -> usize {
        let report = self.ship(homes, args).remove(0);
        assert_eq!((&report["refused"], &report["spooled"]), (&json!(0), &json!(0)), "{report}");
        usize::try_from(report["spans"].as_u64().unwrap()).unwrap()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The same moment is the same text.
fn time(value: &Value) -> String {
    value.as_str().unwrap().parse::<Timestamp>().unwrap().to_string()
}

fn number(value: &Value) -> String {
    format!("{:.0}", value.as_f64().unwrap())
}

/// Dollars, to less than any token costs.
fn dollars(value: f64) -> String {
    format!("{value:.9}")
}

/// A span as it is sent, with what should be made of it.
fn sent(span: &Value) -> Value {
    let attributes = &span["attributes"];
    let events = span["events"].as_array().unwrap().iter();
    let is_answer = attributes["openinference.span.kind"] == "LLM";
    // An answer without a usage counts as none.
    let tokens = |name: &str| attributes.get(name).cloned().or(is_answer.then(|| json!(0)));
    let priced = !UNPRICED.iter().any(|model| attributes["gen_ai.request.model"] == *model);
    json!({
        "trace": span["trace"],
        "parent": span["parent"],
        "name": span["name"],
        "kind": attributes["openinference.span.kind"].as_str().unwrap().to_lowercase(),
        "start": time(&span["start"]),
        "end": time(&span["end"]),
        "status": if span["error"].is_null() { "UNSET" } else { "ERROR" },
        "message": span["error"].as_str().unwrap_or_default(),
        "session": attributes["session.id"],
        "user": attributes["user.id"],
        "prompt": tokens("gen_ai.usage.input_tokens"),
        "read": attributes["gen_ai.usage.cache_read.input_tokens"],
        "written": attributes["gen_ai.usage.cache_creation.input_tokens"],
        "completion": tokens("gen_ai.usage.output_tokens"),
        "cost": attributes["llm.cost.total"].as_f64().filter(|_| priced).map(dollars),
        "input": attributes["input.value"],
        "output": attributes["output.value"],
        "events": events.map(|one| json!([time(&one["time"]), one["name"]])).collect::<Value>(),
    })
}

/// The same of a span that Phoenix has.
fn stored_span(span: &Value) -> Value {
    let events = span["events"].as_array().unwrap().iter();
    json!({
        "trace": span["trace"]["traceId"],
        "parent": span["parentId"],
        "name": span["name"],
        "kind": span["spanKind"],
        "start": time(&span["startTime"]),
        "end": time(&span["endTime"]),
        "status": span["statusCode"],
        "message": span["statusMessage"],
        "session": span["trace"]["session"]["sessionId"],
        "user": span["userId"],
        "prompt": span["tokenCountPrompt"],
        "read": span["tokenPromptDetails"]["cacheRead"],
        "written": span["tokenPromptDetails"]["cacheWrite"],
        "completion": span["tokenCountCompletion"],
        "cost": span["costSummary"]["total"]["cost"].as_f64().map(dollars),
        "input": span["input"]["value"],
        "output": span["output"]["value"],
        "events": events.map(|one| json!([time(&one["timestamp"]), one["name"]])).collect::<Value>(),
    })
}

/// The sessions that spans make, as they should be told: the first turn's input, the last one's
/// output.
fn sessions_of(spans: &[Value]) -> BTreeMap<String, Value> {
    let mut by_session: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for span in spans.iter().map(sent) {
        by_session.entry(text(&span["session"])).or_default().push(span);
    }
    let session = |session_spans: &Vec<Value>| {
        let traces = |of: &dyn Fn(&Value) -> bool| {
            let list =
                session_spans.iter().filter(|span| of(span)).map(|span| text(&span["trace"]));
            list.collect::<BTreeSet<_>>().len()
        };
        let sum =
            |name: &str| session_spans.iter().filter_map(|span| span[name].as_u64()).sum::<u64>();
        let cost =
            session_spans.iter().filter_map(|span| span["cost"].as_str()?.parse::<f64>().ok());
        let start = |span: &&Value| text(&span["start"]).parse::<Timestamp>().unwrap();
        let end = |span: &Value| text(&span["end"]).parse::<Timestamp>().unwrap();
        let roots = || session_spans.iter().filter(|span| span["parent"].is_null());
        json!({
            "user": session_spans[0]["user"],
            "start": session_spans.iter().map(|span| start(&span)).min().unwrap().to_string(),
            "end": session_spans.iter().map(end).max().unwrap().to_string(),
            "traces": traces(&|_| true),
            "errors": traces(&|span| span["status"] == "ERROR"),
            "input": roots().min_by_key(start).unwrap()["input"],
            "output": roots().max_by_key(start).unwrap()["output"],
            "prompt": sum("prompt").to_string(),
            "completion": sum("completion").to_string(),
            "cost": dollars(cost.fold(0.0, |sum, one| sum + one)),
        })
    };
    by_session.iter().map(|(id, session_spans)| (id.clone(), session(session_spans))).collect()
}

/// The same of a session that Phoenix has.
fn stored_session(session: &Value) -> Value {
    json!({
        "user": session["userId"],
        "start": time(&session["startTime"]),
        "end": time(&session["endTime"]),
        "traces": session["numTraces"],
        "errors": session["numTracesWithError"],
        "input": session["firstInput"]["value"],
        "output": session["lastOutput"]["value"],
        "prompt": number(&session["tokenUsage"]["prompt"]),
        "completion": number(&session["tokenUsage"]["completion"]),
        "cost": dollars(session["costSummary"]["total"]["cost"].as_f64().unwrap()),
    })
}

/// Both have the same things, and say the same of each.
fn agree(should: &BTreeMap<String, Value>, is: &BTreeMap<String, Value>) {
    let mut wrong = Vec::new();
    for id in should.keys().chain(is.keys()).collect::<BTreeSet<_>>() {
        let (Some(one), Some(other)) = (should.get(id), is.get(id)) else {
            wrong.push(format!("{id} is only here: {:?} {:?}", should.get(id), is.get(id)));
            continue;
        };
        for (name, value) in one.as_object().unwrap() {
            if *value != other[name] {
                wrong.push(format!("{name} of {id}: {value} became {}", other[name]));
            }
        }
    }
    let first = &wrong[..wrong.len().min(20)];
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), first.join("\n"));
}

/// What was sent is what Phoenix has: every span, every session, every attribute.
fn compare(spans: &[Value], phoenix: &Phoenix) {
    let should = spans.iter().map(|span| (text(&span["span"]), sent(span)));
    let found = phoenix.spans("claude-code");
    agree(
        &should.collect(),
        &found.iter().map(|(id, span)| (id.clone(), stored_span(span))).collect(),
    );
    for span in spans {
        let kept: Value =
            serde_json::from_str(&text(&found[span["span"].as_str().unwrap()]["attributes"]))
                .unwrap();
        for (name, value) in span["attributes"].as_object().unwrap() {
            let place = format!("/{}", name.replace('.', "/"));
            assert_eq!(kept.pointer(&place), Some(value), "{name} of {}", span["span"]);
        }
    }
    let sessions = phoenix.sessions("claude-code");
    let sessions = sessions.iter().map(|(id, session)| (id.clone(), stored_session(session)));
    agree(&sessions_of(spans), &sessions.collect());
}

/// What Phoenix has of these spans and of all sessions, for a person.
fn table(spans: &[Value], phoenix: &Phoenix) -> String {
    let found = phoenix.spans("claude-code");
    let mut shown = String::new();
    for span in spans {
        let fields = stored_span(&found[span["span"].as_str().unwrap()]);
        let field = |name: &str| fields[name].as_str().unwrap_or_default();
        let parent =
            fields["parent"].as_str().map_or("nothing".to_owned(), |id| text(&found[id]["name"]));
        write!(shown, "{} {} in {parent}: {}", field("kind"), field("name"), field("status"))
            .unwrap();
        if fields["status"] == "ERROR" {
            write!(shown, " {}", field("message")).unwrap();
        }
        if fields["kind"] == "llm" {
            let (prompt, completion) = (&fields["prompt"], &fields["completion"]);
            let (read, written) = (&fields["read"], &fields["written"]);
            write!(shown, ", {prompt} ({read} read, {written} written) + {completion} tokens")
                .unwrap();
            write!(shown, ", ${}", field("cost")).unwrap();
        }
        shown.push('\n');
    }
    for (id, session) in phoenix.sessions("claude-code") {
        let fields = stored_session(&session);
        let field = |name: &str| fields[name].as_str().unwrap_or_default();
        let (user, input, output) = (field("user"), field("input"), field("output"));
        writeln!(shown, "{id} of {user}: {input} … {output}").unwrap();
        write!(shown, "{} traces, {} with errors, ", fields["traces"], fields["errors"]).unwrap();
        let (prompt, completion) = (field("prompt"), field("completion"));
        writeln!(shown, "{prompt} + {completion} tokens, ${}", field("cost")).unwrap();
    }
    shown
}

/// The transcript that receivers were first tried with, as a session of this name in a home of its
/// own.
fn reference(folder: &Path, session: &str) -> PathBuf {
    let capture = fs::read_to_string(testkit::fixtures().join("langfuse-capture.json")).unwrap();
    let capture: Value = serde_json::from_str(&capture).unwrap();
    let records = capture["transcript"].as_array().unwrap().iter();
    let lines = records.map(Value::to_string).collect::<Vec<_>>().join("\n") + "\n";
    let home = folder.join(session);
    let project = home.join("projects/-home-dev-demo");
    fs::create_dir_all(&project).unwrap();
    write(&project.join(format!("{session}.jsonl")), lines.replace(SESSION, session));
    home
}

/// The homes of the recordings.
fn recordings() -> Vec<PathBuf> {
    let folders = |folder: &Path| {
        let mut found: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect();
        found.sort();
        found
    };
    let versions = folders(&testkit::fixtures().join("recordings"));
    versions.iter().flat_map(|version| folders(version)).collect()
}

#[test]
fn phoenix_has_what_is_sent_and_has_it_once() {
    let phoenix = Phoenix::start();
    let user = User::new(&phoenix.url);
    let mut homes = vec![reference(phoenix.folder.path(), SESSION)];

    let mut spans = user.ship(&homes, &["--dry-run"]);
    assert_eq!(user.sent(&homes, &[]), spans.len());
    phoenix.wait_for("claude-code", spans.len());
    assert_eq!(table(&spans, &phoenix), REFERENCE);

    let recordings = recordings();
    let more = user.ship(&recordings, &["--dry-run"]);
    assert_eq!(user.sent(&recordings, &[]), more.len());
    spans.extend(more);
    homes.extend(recordings);
    phoenix.wait_for("claude-code", spans.len());
    compare(&spans, &phoenix);
    let count =
        |of: &dyn Fn(&Value) -> bool| spans.iter().map(sent).filter(|span| of(span)).count();
    let sorts = [
        ("sub-agents", count(&|span| span["kind"] == "agent" && !span["parent"].is_null())),
        ("API errors", count(&|span| span["kind"] == "llm" && span["status"] == "ERROR")),
        ("failed calls", count(&|span| span["kind"] == "tool" && span["status"] == "ERROR")),
        ("compactions", count(&|span| span["name"] == "compaction" && span["kind"] == "chain")),
        ("with events", count(&|span| span["events"] != json!([]))),
        ("with costs", count(&|span| !span["cost"].is_null())),
    ];
    println!("{} spans agree: {sorts:?}", spans.len());
    assert!(sorts.iter().all(|(_, count)| *count > 0), "{sorts:?}");

    // Whatever is sent once more, with or without knowing that it was.
    let before = (phoenix.spans("claude-code"), phoenix.sessions("claude-code"));
    assert_eq!(user.sent(&homes, &[]), 0);
    assert_eq!(user.sent(&homes, &["--again"]), spans.len());
    user.forget();
    assert_eq!(user.sent(&homes, &[]), spans.len());
    // Another session, for another project: once it is there, so is what came before it, or it
    // never will be.
    user.set("user = \"ada\"\nproject = \"other\"\n");
    let other = reference(phoenix.folder.path(), "22222222-2222-4333-8444-555555555555");
    phoenix.wait_for("other", user.sent(&[other], &[]));
    sleep(Duration::from_secs(3));
    agree(&before.0, &phoenix.spans("claude-code"));
    agree(&before.1, &phoenix.sessions("claude-code"));
}
