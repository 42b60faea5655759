use std::io::Write as _;
use std::path::Path;

use testkit::session::Script;

use super::*;
use crate::conversation::place::sessions_in;

fn put(folder: &Path, name: &str, text: &str) {
    std::fs::File::create(folder.join(name)).unwrap().write_all(text.as_bytes()).unwrap();
}

/// The relatives of the session `own`: name, relation, sign, shared, beyond.
fn kin(files: &[(&str, String)]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        put(folder.path(), &format!("{name}.jsonl"), text);
    }
    let session = Session::at(&folder.path().join("own.jsonl")).unwrap();
    let conversation = Conversation::open(&session.path).unwrap();
    let mut found: Vec<String> = relatives(&session, &conversation, &sessions_in(folder.path()))
        .iter()
        .map(|one| {
            let (relation, sign) = (one.relation.name(), one.sign.name());
            format!("{} {relation} {sign} {} {}", one.session.id, one.shared, one.beyond)
        })
        .collect();
    found.sort();
    found
}

fn talk(session: &str, names: &[&str], seconds: u64) -> String {
    let mut script = Script::new().wait(seconds);
    for name in names {
        script = script.prompt(name, "-", "x");
    }
    script.text().replace(r#""sessionId":"s""#, &format!(r#""sessionId":"{session}""#))
}

#[test]
fn shared_ids_make_relatives_and_what_tells_the_older_one_is_said() {
    let text = talk("own", &["a", "b", "c"], 0);
    assert_eq!(
        kin(&[
            ("own", text.clone()),
            ("stranger", talk("stranger", &["x", "y"], 0)),
            // A fork that kept the old session id in the records it copied.
            ("fork", talk("own", &["a", "b"], 0) + &talk("fork", &["d"], 9)),
            // A resume that wrote new times.
            ("late", talk("late", &["a", "d"], 60)),
            // A copy of everything, with more after it, and without other evidence.
            ("whole", talk("whole", &["a", "b", "c", "d"], 0)),
            ("twin", talk("twin", &["a", "b", "z"], 0)),
        ]),
        [
            "fork into first-record 2 1",
            "late into times 1 1",
            "twin beside shared 2 1",
            "whole into contained 3 1",
        ]
    );
}

#[test]
fn the_other_way_round_it_comes_from_them() {
    let marked =
        r#"{"type":"user","uuid":"f","forkedFrom":{"sessionId":"marked","messageUuid":"m"}}"#;
    // Leaving plan mode: the first record is from the old session, the rest is new.
    let text = talk("plan", &["p"], 0)
        + &talk("own", &["a", "b"], 0)
        + &talk("kept", &["k", "k2"], 0)
        + marked
        + "\n";
    assert_eq!(
        kin(&[
            ("own", text),
            ("plan", talk("plan", &["q"], 0)),
            ("kept", talk("kept", &["k", "k2"], 0)),
            ("marked", talk("marked", &["m"], 0)),
        ]),
        ["kept from session-ids 2 0", "marked from forked-from 0 1", "plan from first-record 0 1"]
    );
}
