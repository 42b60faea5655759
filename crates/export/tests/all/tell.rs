//! Compares what Quipu sends of the transcript of the reference captures with what Langfuse's own
//! libraries sent of it.
//!
//! `docs/traces.md` lists every fact that differs, and why. A difference without an explanation
//! fails here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

use export::profile::{Content, Profile, Telling, Told, Value as Sent};
use export::span::Span;
use serde_json::{Value, json};
use transcript::conversation::ingest::Closing;
use transcript::format::time::Time;

use super::{plan, spans};

/// A span as facts, in the same words for both programs.
type Facts = BTreeMap<String, String>;

fn capture() -> Value {
    let path = testkit::fixtures().join("langfuse-capture.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Our spans of the transcript, in the order in which they are sent.
fn ours() -> Vec<Span> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("11111111-2222-4333-8444-555555555555.jsonl");
    let mut file = std::fs::File::create(&path).unwrap();
    for record in capture()["transcript"].as_array().unwrap() {
        writeln!(file, "{record}").unwrap();
    }
    let plan = plan(&path, &Closing::default());
    let found = spans(&plan);
    plan.shipments().flat_map(|one| found[one.key].clone()).collect()
}

fn attributes(told_span: &Told) -> Value {
    let each = told_span.attributes.iter().map(|(name, value)| {
        let value = match value {
            Sent::Text(text) => json!(text),
            Sent::Texts(texts) => json!(texts),
            Sent::Number(number) => json!(number),
            Sent::Float(number) => json!(number),
        };
        (name.to_string(), value)
    });
    Value::Object(each.collect())
}

/// The spans of the cc-langfuse hook, except the one that it wraps around each turn.
fn theirs() -> Vec<Value> {
    let capture = capture();
    let wire = capture["wire"].as_object().unwrap();
    let (_, requests) = wire.iter().find(|(name, _)| name.starts_with("cc-langfuse")).unwrap();
    let spans = requests[0]["groups"][0]["scopes"][0]["spans"].as_array().unwrap();
    let kind = |span: &Value| span["attributes"]["langfuse.observation.type"].clone();
    spans.iter().filter(|span| kind(span) != "span").cloned().collect()
}

fn time(nanos: &Value) -> String {
    Time(i64::try_from(nanos.as_u64().unwrap() / 1_000_000).unwrap()).to_string()
}

/// What both programs express in their own form, in the same words.
fn facts(attributes: &Value, times: &[String; 2]) -> Facts {
    let text = |name: &str| attributes[name].as_str().map(str::to_owned);
    let data = |name: &str| {
        text(name).map(|text| serde_json::from_str::<Value>(&text).unwrap_or(Value::String(text)))
    };
    let message_text = |names: [&str; 2]| {
        let value = names.iter().find_map(|name| data(name))?;
        let content = if value.get("role").is_some() { value["content"].clone() } else { value };
        Some(match &content {
            Value::Array(blocks) => {
                let texts = blocks.iter().filter_map(|block| block["text"].as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    };
    let mut facts = Facts::from([
        ("type".to_owned(), text("langfuse.observation.type").unwrap()),
        ("session".to_owned(), text("session.id").unwrap()),
        ("start".to_owned(), times[0].clone()),
        ("end".to_owned(), times[1].clone()),
    ]);
    let more = [
        ("input", message_text(["input.value", "langfuse.observation.input"])),
        ("output", message_text(["output.value", "langfuse.observation.output"])),
        ("model", text("langfuse.observation.model.name")),
        ("level", text("langfuse.observation.level")),
        ("status message", text("langfuse.observation.status_message")),
        ("tool id", text("gen_ai.tool.call.id").or(text("langfuse.observation.metadata.tool_id"))),
        ("tool count", text("langfuse.observation.metadata.tool_count")),
        ("trace name", text("langfuse.trace.name")),
        ("turn number", text("langfuse.trace.metadata.turn_number")),
    ];
    facts.extend(more.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    if let Some(usage) = data("langfuse.observation.usage_details") {
        for (name, count) in usage.as_object().unwrap() {
            let name = match name.as_str() {
                "input_cache_creation_5m" => "cache_creation_input_tokens",
                other => other,
            };
            facts.insert(format!("usage {name}"), count.to_string());
        }
    }
    facts
}

/// Why a fact differs. Facts that are not listed must not differ.
fn why(kind: &str, fact: &str, theirs: &str) -> Option<&'static str> {
    Some(match (kind, fact) {
        ("generation", "start") => {
            "from what it answers, so that waiting for the model is seen; the first part's time is `completion_start_time`"
        }
        ("generation", "end") => {
            "when its last part came; theirs ends with the next one, and the last one whenever it is sent"
        }
        ("tool", "start") => {
            "from its own call; theirs are chained one after another, so that parallel ones seem to follow each other"
        }
        (_, "trace name" | "turn number") if theirs == "–" => {
            "on every span: Langfuse keeps no traces, only spans"
        }
        (_, "status message") if theirs == "–" => "what the error said",
        (_, "usage total") => {
            "left out: theirs is input and output without the cache, and Langfuse sums what it is given"
        }
        _ => return None,
    })
}

#[test]
fn what_differs_from_the_reference_is_listed() {
    let ours = ours();
    let telling = Telling::default();
    let mut rows: BTreeMap<(String, String), (usize, String)> = BTreeMap::new();
    let mut same = 0;
    let mut theirs = theirs();
    assert_eq!(ours.len(), theirs.len());
    // Theirs are in the order of their ends, ours in the order of their beginnings.
    theirs.sort_by_key(|span| {
        let kind = span["attributes"]["langfuse.observation.type"].as_str().unwrap().to_owned();
        (span["trace"].to_string(), kind != "agent", span["start"].as_u64(), kind == "tool")
    });
    for span in &ours {
        let told_span = telling.tell(span).unwrap();
        let our_attributes = attributes(&told_span);
        let kind = our_attributes["langfuse.observation.type"].as_str().unwrap().to_owned();
        let at = theirs.iter().position(|other| {
            let id = &other["attributes"]["langfuse.observation.metadata.tool_id"];
            other["name"] == span.name && *id == our_attributes["gen_ai.tool.call.id"]
        });
        let other = theirs.remove(at.unwrap());
        let times = [time(&other["start"]), time(&other["end"])];
        let other = facts(&other["attributes"], &times);
        let our_facts = facts(&our_attributes, &told_span.times.map(|time| time.to_string()));
        let names: std::collections::BTreeSet<_> = our_facts.keys().chain(other.keys()).collect();
        for name in names {
            let none = "–".to_owned();
            let (mine, yours) =
                (our_facts.get(name).unwrap_or(&none), other.get(name).unwrap_or(&none));
            if mine == yours {
                same += 1;
                continue;
            }
            let reason = why(&kind, name, yours);
            let reason = reason.unwrap_or_else(|| panic!("{} {name}: {yours} → {mine}", span.name));
            let row = rows
                .entry((kind.clone(), name.clone()))
                .or_insert_with(|| (0, format!("{} | {yours} | {mine} | {reason}", span.name)));
            row.0 += 1;
        }
    }
    let mut table = "| type | fact | times | for example | cc-langfuse | quipu | why |\n|---|---|---|---|---|---|---|\n".to_owned();
    for ((kind, fact), (count, row)) in &rows {
        let _ = writeln!(table, "| {kind} | {fact} | {count} | {row} |");
    }
    let different: usize = rows.values().map(|(count, _)| count).sum();
    let _ = writeln!(table, "\n{same} facts are the same, {different} differ.");
    testkit::compare("traces.md", "reference", &table, "-p export --test all tell");
}

/// Every attribute that the cc-langfuse hook sends and its document describes is the same, with
/// this exception.
#[test]
fn the_profile_of_cc_langfuse_is_what_it_sends() {
    let telling = Telling { profile: Profile::CcLangfuse, ..Telling::default() };
    let mut theirs = theirs();
    for span in ours() {
        let told_span = telling.tell(&span).unwrap();
        let our_attributes = attributes(&told_span);
        let id = our_attributes["langfuse.observation.metadata.tool_id"].clone();
        let at = theirs.iter().position(|other| {
            other["name"] == span.name
                && other["attributes"]["langfuse.observation.metadata.tool_id"] == id
        });
        let other = theirs.remove(at.unwrap())["attributes"].clone();
        for (name, value) in other.as_object().unwrap() {
            if name == "langfuse.observation.usage_details" {
                let read = |value: &Value| -> Value {
                    let mut usage: Value = serde_json::from_str(value.as_str().unwrap()).unwrap();
                    // Its document does not contain it.
                    usage.as_object_mut().unwrap().shift_remove("cache_creation_input_tokens");
                    usage
                };
                assert_eq!(read(&our_attributes[name]), read(value), "{}", span.name);
            } else {
                assert_eq!(&our_attributes[name], value, "{} {name}", span.name);
            }
        }
    }
}

#[test]
fn what_is_kept_back_is_nowhere() {
    let words =
        ["main.rs", "prints hi", "could not compile", "cargo run", "welcome", "should read"];
    let names = ["/home/dev/demo", "brave-calm-lamport"];
    for profile in [Profile::Lean, Profile::CcLangfuse] {
        for content in [Content::Full, Content::Meta, Content::None] {
            let telling = Telling { profile, content, ..Telling::default() };
            let all: Vec<Told> = ours().iter().filter_map(|span| telling.tell(span)).collect();
            let text = format!("{all:?}");
            for word in words.iter().filter(|_| content != Content::Full) {
                assert!(!text.contains(word), "{profile:?} {content:?} {word}");
            }
            for name in names.iter().filter(|_| content == Content::None) {
                assert!(!text.contains(name), "{profile:?} {content:?} {name}");
            }
        }
    }
}

#[test]
fn everything_that_is_told() {
    let telling = Telling {
        user: Some("dev@example.test".to_owned()),
        environment: Some("lab".to_owned()),
        ..Telling::default()
    };
    let values: Vec<Value> = ours()
        .iter()
        .map(|span| {
            let told_span = telling.tell(span).unwrap();
            json!({
                "trace": span.turn.trace.to_string(), "id": span.id.to_string(), "name": span.name,
                "parent": span.parent.map(|id| id.to_string()), "client": told_span.is_client,
                "times": told_span.times.map(|time| time.to_string()), "error": told_span.error,
                "attributes": attributes(&told_span),
            })
        })
        .collect();
    insta::assert_snapshot!(serde_json::to_string_pretty(&values).unwrap());
}
