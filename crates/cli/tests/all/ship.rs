//! Traces that arrive once: the built program, a receiver that fails on request, and whatever stops
//! the program.

mod damaged;
mod hooked;
mod killed;
#[cfg(target_os = "linux")]
mod paths;
mod places;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use insta::assert_snapshot;
use testkit::otlp::{Fault, Keep, Limits, Receiver, Stored};

use crate::env::Env;

/// What is said, with the port taken out.
fn run(env: &Env, receiver: &Receiver, args: &[&str]) -> String {
    let url = receiver.url();
    let args: Vec<&str> =
        args.iter().map(|arg| if *arg == "URL" { url.as_str() } else { arg }).collect();
    portless(&env.run(&args), receiver.port())
}

fn portless(text: &str, port: u16) -> String {
    text.replace(&port.to_string(), "[PORT]")
}

/// What a receiver has, each span once: its ids, and what must be the same however often it comes.
fn held(receiver: &Receiver) -> BTreeSet<String> {
    receiver.spans().iter().map(describe).collect()
}

fn describe(span: &Stored) -> String {
    let Stored { trace, id, parent, name, start, end, status, attributes, .. } = span;
    format!("{trace} {id} {parent:?} {name} {start} {end} {status} {attributes:?}")
}

/// All that there is of the sessions in a home.
fn everything(env: &Env) -> BTreeSet<String> {
    let receiver = Receiver::start().unwrap();
    run(env, &receiver, &["ship", "--all", "--to", "URL"]);
    forget(env);
    held(&receiver)
}

/// Loses what is known of receivers.
fn forget(env: &Env) {
    fs::remove_dir_all(env.path(".local/state/quipu/ship")).unwrap();
}

#[test]
fn what_is_there_is_not_sent_again() {
    let env = Env::with_sessions();
    let receiver = Receiver::start().unwrap();
    let ship = ["ship", "--all", "--to", "URL"];
    let mut text = run(&env, &receiver, &ship);
    let (first, count) = (held(&receiver), receiver.count().spans);
    assert_eq!(first.len() as u64, count);
    text += &run(&env, &receiver, &ship);
    assert_eq!(receiver.count().spans, count, "sent twice");
    text += &run(&env, &receiver, &["ship", "--all", "--to", "URL", "--again"]);
    assert_eq!(receiver.count().spans, 2 * count);
    forget(&env);
    text += &run(&env, &receiver, &["ship", "--all", "--to", "URL", "--json"]);
    assert_eq!(receiver.count().spans, 3 * count);
    assert_eq!(held(&receiver), first, "other spans under other ids");
    text += &run(&env, &receiver, &["ship", "--all", "--to", "URL", "--id-salt", "x"]);
    assert_eq!(receiver.count().distinct, 2 * count);
    assert_snapshot!(text);
}

#[test]
fn since_then() {
    let env = Env::with_sessions();
    let receiver = Receiver::start().unwrap();
    run(&env, &receiver, &["ship", "--all", "--to", "URL", "--since", "2026-11-19"]);
    let newer = receiver.count().spans;
    run(&env, &receiver, &["ship", "--all", "--to", "URL"]);
    let all = receiver.count();
    assert_eq!((all.spans, newer < all.spans), (all.distinct, true));
}

/// Whatever the receiver does, everything arrives.
#[test]
fn failures_that_pass() {
    let env = Env::with_sessions();
    let wanted = everything(&env);
    let status =
        |code: u16, headers: &str| Fault::Status(code, headers.to_owned(), "busy".to_owned());
    let cases: [(&str, Limits, Vec<Fault>); 6] = [
        (
            "429",
            Limits::default(),
            vec![status(429, "retry-after: 0\r\n"), status(429, "retry-after: 1\r\n")],
        ),
        ("503", Limits::default(), vec![status(502, ""), status(503, ""), status(504, "")]),
        ("cut", Limits::default(), vec![Fault::Cut, Fault::Stored]),
        ("slow", Limits::default(), vec![Fault::Slow(Duration::from_millis(200))]),
        ("413", Limits { most_bytes: Some(4_000), ..Limits::default() }, Vec::new()),
        ("413 once", Limits::default(), vec![status(413, "")]),
    ];
    for (name, limits, faults) in cases {
        let receiver = Receiver::with(limits, faults).unwrap();
        let output = run(&env, &receiver, &["ship", "--all", "--to", "URL"]);
        assert!(output.starts_with("exit 0"), "{name}: {output}");
        assert_eq!(held(&receiver), wanted, "{name}");
        forget(&env);
    }
}

#[test]
fn failures_that_do_not_pass() {
    let env = Env::with_sessions();
    let wanted = everything(&env);
    let mut text = String::new();
    let ship = ["ship", "--all", "--to", "URL"];
    // Not let in: nothing is lost, and it goes on when it is.
    let receiver =
        Receiver::with(Limits { key: Some("right".into()), ..Limits::default() }, Vec::new())
            .unwrap();
    text += &run(&env, &receiver, &ship);
    text += &run(&env, &receiver, &["ship", "--check", "--to", "URL"]);
    let with_key = ["ship", "--all", "--to", "URL", "--header", "authorization: right"];
    text += &run(&env, &receiver, &with_key);
    assert_eq!(held(&receiver), wanted);
    forget(&env);
    // One span that it does not take: the others arrive, and that one is kept and named.
    let bad = |span: &testkit::otlp::proto::Span| span.name == "Bash";
    let receiver =
        Receiver::with(Limits { bad: Some(bad), ..Limits::default() }, Vec::new()).unwrap();
    text += &run(&env, &receiver, &ship);
    let without: BTreeSet<String> =
        wanted.iter().filter(|span| !span.contains(" Bash ")).cloned().collect();
    assert_eq!(held(&receiver), without);
    let port = receiver.port();
    receiver.stop();
    let receiver = Receiver::at(port, Keep::Spans, Limits::default(), Vec::new()).unwrap();
    text += &run(&env, &receiver, &ship);
    let late = held(&receiver);
    assert!(late.iter().all(|span| span.contains(" Bash ")) && !late.is_empty());
    // Who takes no traces at all.
    let receiver = Receiver::with(
        Limits::default(),
        vec![Fault::Status(404, String::new(), "no such page".into())],
    )
    .unwrap();
    text += &run(&env, &receiver, &ship);
    let receiver = Receiver::with(
        Limits::default(),
        vec![Fault::Status(302, "location: http://elsewhere/\r\n".into(), String::new())],
    )
    .unwrap();
    text += &run(&env, &receiver, &ship);
    let filtered =
        text.lines().map(|line| line.split("; the first refused is").next().unwrap_or_default());
    let filtered = filtered.collect::<Vec<_>>().join("\n");
    assert_snapshot!(insta_ids(&filtered));
}

/// Names of folders are made of the port.
fn insta_ids(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("127.0.0.1-") {
        let end = at + "127.0.0.1-".len();
        out.push_str(&rest[..end]);
        out.push_str("[ID]");
        rest = rest[end..].trim_start_matches(|digit: char| digit.is_ascii_hexdigit());
    }
    out + rest
}

#[test]
fn down_for_the_whole_run() {
    let env = Env::with_sessions();
    let wanted = everything(&env);
    let receiver = Receiver::start().unwrap();
    let port = receiver.port();
    let url = receiver.url();
    receiver.stop();
    let output = portless(&env.run(&["ship", "--all", "--to", &url]), port);
    let status = portless(&env.run(&["hook", "status", "--to", &url]), port);
    let receiver = Receiver::at(port, Keep::Spans, Limits::default(), Vec::new()).unwrap();
    let later = run(&env, &receiver, &["ship", "--all", "--to", "URL"]);
    assert_eq!(held(&receiver), wanted);
    let count = receiver.count();
    assert_eq!(count.spans, count.distinct, "sent twice");
    let text = format!("{output}{status}{later}").replace(env!("CARGO_BIN_EXE_quipu"), "[QUIPU]");
    assert_snapshot!(text);
}

/// A disk that takes nothing: it is said, and nothing is taken for done.
#[test]
fn no_room_on_the_disk() {
    let env = Env::with_sessions();
    let wanted = everything(&env);
    let receiver = Receiver::start().unwrap();
    let (port, url) = (receiver.port(), receiver.url());
    run(&env, &receiver, &["ship", "--check", "--to", "URL"]);
    receiver.stop();
    // Where the folder of the spool should be there is a file.
    let output = env.run(&["ship", "--all", "--to", &url]);
    assert!(output.starts_with("exit 7"), "{output}");
    let receiver_dir =
        fs::read_dir(env.path(".local/state/quipu/ship")).unwrap().flatten().next().unwrap();
    let spool = receiver_dir.path().join("spool");
    fs::remove_dir_all(&spool).unwrap();
    fs::File::create(&spool).unwrap();
    let output = env.run(&["ship", "--all", "--to", &url]);
    assert!(output.starts_with("exit 7") && output.contains("cannot write"), "{output}");
    fs::remove_file(&spool).unwrap();
    let receiver = Receiver::at(port, Keep::Spans, Limits::default(), Vec::new()).unwrap();
    run(&env, &receiver, &["ship", "--all", "--to", "URL"]);
    assert_eq!(held(&receiver), wanted);
}

#[test]
fn what_would_be_sent() {
    let env = Env::with_sessions();
    assert_snapshot!(env.run(&["ship", "--all", "--dry-run"]));
}

#[test]
fn bad_words() {
    let env = Env::with_sessions();
    let mut text = String::new();
    for args in [
        &["ship"] as &[&str],
        &["ship", "--all"],
        &["ship", "--all", "--to", "localhost:4318"],
        &["ship", "--all", "--to", "http://127.0.0.1:4317"],
        &["ship", "--all", "--to", "http://127.0.0.1:9", "--header", "none"],
        &["ship", "--all", "--since", "soon", "--dry-run"],
        &["ship", "--check"],
        &["ship", "--check", "--to", "http://127.0.0.1:1"],
        &["ship", "nothing", "--dry-run"],
    ] {
        write!(text, "### quipu {}\n{}\n", args.join(" "), env.run(args)).unwrap();
    }
    assert_snapshot!(text);
}

/// Who says where traces go, and what goes with them.
#[test]
fn who_is_asked() {
    let env = Env::with_sessions();
    let receiver = Receiver::start().unwrap();
    let base = receiver.url().replace("/v1/traces", "");
    let cases: [(&str, &[(&str, &str)]); 5] = [
        (
            "otel",
            &[
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "BASE"),
                ("OTEL_EXPORTER_OTLP_HEADERS", "x-one=1%202,x-two=2"),
            ],
        ),
        (
            "otel traces",
            &[
                ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "BASE/own/v1/traces"),
                ("OTEL_EXPORTER_OTLP_COMPRESSION", "none"),
            ],
        ),
        (
            "langfuse",
            &[
                ("LANGFUSE_BASE_URL", "BASE"),
                ("LANGFUSE_PUBLIC_KEY", "pk"),
                ("LANGFUSE_SECRET_KEY", "sk"),
            ],
        ),
        (
            "cc-langfuse first",
            &[
                ("CC_LANGFUSE_BASE_URL", "BASE/cc"),
                ("CC_LANGFUSE_PUBLIC_KEY", "pk"),
                ("CC_LANGFUSE_SECRET_KEY", "sk"),
                ("LANGFUSE_PUBLIC_KEY", "no"),
                ("LANGFUSE_SECRET_KEY", "no"),
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
            ],
        ),
        ("configuration", &[]),
    ];
    env.put(".config/quipu/config.toml", format!("[ship]\nto = \"{base}/configured\"\nuser = \"dev\"\ntags = [\"team\"]\nheaders = {{ x-own = \"yes\" }}\n"));
    let mut text = String::new();
    for (name, variables) in cases {
        let before = receiver.requests().len();
        let mut command = env.command(&["ship", "2bb8f19c"]);
        command.envs(variables.iter().map(|(name, value)| (*name, value.replace("BASE", &base))));
        let output = env.show(&command.output().unwrap());
        write!(text, "### {name}\n{output}").unwrap();
        for mut request in receiver.requests().split_off(before) {
            for name in ["host", "content-length", "user-agent"] {
                request.headers.remove(name);
            }
            writeln!(text, "{} {:?}", request.path, request.headers).unwrap();
        }
    }
    let user = receiver.spans().last().unwrap().attributes.get("user.id").cloned();
    assert_eq!(user, Some("dev".into()));
    assert_snapshot!(portless(&text, receiver.port()));
}

/// A fork begins with a copy: what was said once is there once.
#[test]
fn copies_in_a_fork() {
    // Some clients write the new session's id into what they copy, some leave the old one.
    for is_renamed in [true, false] {
        fork_once(is_renamed);
    }
}

fn fork_once(is_renamed: bool) {
    let env = Env::bare();
    let id = "375118cd-78a9-4864-8e28-5134e91c89ff";
    let sample = testkit::root()
        .join(format!("crates/testkit/fixtures/samples/projects/-home-dev-demo/{id}.jsonl"));
    let text = fs::read_to_string(sample).unwrap();
    let put = |id: &str, text: &str| {
        env.put(&format!(".claude/projects/-home-dev-demo/{id}.jsonl"), text);
        std::thread::sleep(Duration::from_millis(20));
    };
    put(id, &text);
    let fork = "00000000-78a9-4864-8e28-5134e91c89ff";
    let mut forked = if is_renamed { text.replace(id, fork) } else { text.clone() };
    let new = |uuid: &str, parent: &str, rest: &str| {
        format!(
            r#"{{"parentUuid":"{parent}","uuid":"{uuid}","sessionId":"{fork}","timestamp":"2026-11-19T00:00:00.000Z","isSidechain":false,{rest}}}"#
        ) + "\n"
    };
    let last = text.lines().rev().find_map(|line| {
        let record: serde_json::Value = serde_json::from_str(line).ok()?;
        (record["type"] == "assistant").then(|| record["uuid"].as_str().unwrap().to_owned())
    });
    let prompt = r#""type":"user","message":{"role":"user","content":"And in the fork?"}"#;
    let answer = r#""type":"assistant","message":{"id":"msg_fork","role":"assistant","model":"claude-opus-5-5","content":[{"type":"text","text":"Here."}],"stop_reason":"end_turn"}"#;
    forked += &new("f1", &last.unwrap(), prompt);
    forked += &new("f2", "f1", answer);
    let alone = everything(&env);
    put(fork, &forked);
    for order in [[fork, id], [id, fork]] {
        let receiver = Receiver::start().unwrap();
        for session in order {
            run(&env, &receiver, &["ship", session, "--to", "URL"]);
        }
        let have = held(&receiver);
        assert!(have.is_superset(&alone), "{order:?}");
        assert_eq!(have.len(), alone.len() + 2, "{order:?}");
        assert_eq!(receiver.count().spans, receiver.count().distinct, "{order:?}: sent twice");
        // The client deletes old sessions: what was told is told.
        let path = env.path(&format!(".claude/projects/-home-dev-demo/{id}.jsonl"));
        fs::remove_file(path).unwrap();
        put(fork, &(forked.clone() + &new("f3", "f2", prompt)));
        run(&env, &receiver, &["ship", fork, "--to", "URL", "--json"]);
        let left: Vec<_> = held(&receiver).difference(&have).cloned().collect();
        assert!(left.iter().all(|span| span.contains("Turn 4")), "{order:?}: {left:?}");
        put(id, &text);
        fs::remove_file(env.path(&format!(".claude/projects/-home-dev-demo/{fork}.jsonl")))
            .unwrap();
        put(fork, &forked);
        forget(&env);
    }
}

#[test]
fn how_much_of_a_text() {
    let env = Env::with_sessions();
    let longest = |args: &[&str]| {
        let output = env.output(&[&["ship", "95e0", "--dry-run", "--json"], args].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let spans =
            text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        spans.filter_map(|span| Some(span["attributes"]["input.value"].as_str()?.len())).max()
    };
    assert!(longest(&[]) > Some(100), "{:?}", longest(&[]));
    assert!(longest(&["--longest", "100"]) <= Some(100));
}
