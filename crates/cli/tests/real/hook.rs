//! The hook in the real client: what it ships at each stop, and that the client does not notice.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use testkit::api::Server;
use testkit::otlp::Receiver;

use crate::lab::{Lab, clients, write};

fn text(text: &str) -> Vec<Value> {
    vec![json!({"type": "text", "text": text})]
}

/// A call of a tool, with a word before it.
fn call(id: &str, name: &str, input: &Value) -> Vec<Value> {
    let call = json!({"type": "tool_use", "id": id, "name": name, "input": input});
    [text("Let me see."), vec![call]].concat()
}

/// The ids of spans that would be sent if nothing had been.
#[allow(clippy::disallowed_methods, reason = "files are made older than they are")]
fn wanted(lab: &Lab) -> BTreeSet<String> {
    // Some clients never say that a turn has ended: time tells.
    for file in testkit::files_under(&[lab.home().join(".claude/projects")]) {
        let old = SystemTime::now() - Duration::from_secs(7_200);
        fs::File::options().append(true).open(file.path).unwrap().set_modified(old).unwrap();
    }
    let text = lab.quipu(&["ship", "--all", "--dry-run", "--again", "--json"]);
    let spans = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    spans.map(|span| format!("{} {}", span["span"], span["name"])).collect()
}

fn held(receiver: &Receiver) -> BTreeSet<String> {
    receiver.spans().iter().map(|span| format!("{:?} {:?}", span.id, span.name)).collect()
}

fn until(what: &str, lab: &Lab, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        let log = fs::read_to_string(lab.home().join(".local/state/quipu/ship/log"));
        if start.elapsed() > Duration::from_secs(30) {
            let found = lab.quipu(&["ship", "--all", "--dry-run"]);
            panic!("waited for {what}: {log:?}\n{found}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]

fn turns_arrive_when_they_end() {
    for (version, start) in clients() {
        let lab = Lab::new();
        let receiver = Receiver::start().unwrap();
        fs::create_dir_all(lab.home().join(".config/quipu")).unwrap();
        let config = format!("[ship]\nto = \"{}\"\n", receiver.url());
        write(&lab.home().join(".config/quipu/config.toml"), config);
        lab.quipu(&["hook", "install", "--yes"]);
        let readme = lab.cwd().join("README.md");
        let server = Server::start(vec![
            call("toolu_1", "Read", &json!({"file_path": readme})),
            call("toolu_2", "Bash", &json!({"command": "exit 3", "description": "Fail"})),
            text("The last word of the first turn."),
            text("The second turn."),
        ])
        .unwrap();
        lab.run(&start, &server, &["Read the README"]);
        let last = |receiver: &Receiver| {
            let spans = receiver.spans();
            let root = spans.iter().rfind(|span| span.parent.is_none());
            root.and_then(|span| span.attributes.get("output.value").cloned())
        };
        until("the first turn", &lab, || {
            last(&receiver) == Some("The last word of the first turn.".into())
        });
        lab.run(&start, &server, &["--continue", "And again"]);
        until("the second turn", &lab, || last(&receiver) == Some("The second turn.".into()));
        assert_eq!(held(&receiver), wanted(&lab), "{version}");
        let count = receiver.count();
        assert_eq!(count.spans, count.distinct, "{version}: sent twice");
        let failed: Vec<_> = receiver.spans().into_iter().filter(|span| span.status == 2).collect();
        assert_eq!(failed.len(), 1, "{version}: {failed:?}");
        assert_eq!(failed[0].name, "Bash", "{version}");
    }
}
