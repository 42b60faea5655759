use std::fs;
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;

use super::*;
use crate::ambient::Real;
use crate::api::script::Script;
use crate::tool::Cancel;

struct Lab {
    folder: tempfile::TempDir,
    site: Site,
}

fn lab() -> Lab {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let script = Arc::new(Script::read("{}", &[]).unwrap());
    let model = (script as Arc<dyn crate::api::Model>, String::new());
    let site = Site::new(&root, &root.join("session"), None, model, Arc::new(Real));
    Lab { folder, site }
}

fn call(input: &Value) -> Call {
    let input = input.as_object().cloned().unwrap();
    Call { id: "c".to_owned(), name: "Bash".to_owned(), input, cancel: Cancel::default() }
}

fn parts(answer: Result<Answer, Trouble>) -> (String, Option<bool>, String) {
    let answer = answer.unwrap_or_else(Trouble::answer);
    let Content::Text(text) = answer.content else { panic!() };
    (text, answer.is_error, answer.detail.get().to_owned())
}

#[test]
fn output_of_both_kinds_in_its_order() {
    let lab = lab();
    let (text, is_error, detail) =
        parts(run(&call(&json!({"command": "echo a; echo b >&2; echo c"})), &lab.site));
    assert_eq!((text.as_str(), is_error), ("a\nb\nc", Some(false)));
    assert_eq!(
        detail,
        r#"{"stdout":"a\nb\nc","stderr":"","interrupted":false,"isImage":false,"noOutputExpected":false}"#
    );
    let (text, is_error, detail) =
        parts(run(&call(&json!({"command": "echo oops >&2; exit 1"})), &lab.site));
    assert_eq!((text.as_str(), is_error), ("Exit code 1\noops", Some(true)));
    assert_eq!(detail, r#""Error: Exit code 1\noops""#);
}

#[test]
fn the_folder_is_kept_from_command_to_command() {
    let lab = lab();
    parts(run(&call(&json!({"command": "mkdir -p 'a b' && cd 'a b'"})), &lab.site));
    let (text, ..) = parts(run(&call(&json!({"command": "pwd; exit 3"})), &lab.site));
    assert_eq!(text, format!("Exit code 3\n{}/a b", lab.site.root.display()));
    // Not out of the session's folders: the next command runs inside them.
    let (text, ..) = parts(run(&call(&json!({"command": "cd / && exit 7"})), &lab.site));
    let root = lab.site.root.display();
    assert_eq!(text, format!("Exit code 7\nShell cwd was reset to {root}"));
    let (text, _, detail) = parts(run(&call(&json!({"command": "pwd; cd /"})), &lab.site));
    assert_eq!(text, format!("{root}\nShell cwd was reset to {root}"));
    assert!(detail.contains(r#""stderr":"Shell cwd was reset to"#), "{detail}");
    drop(lab.folder);
}

#[test]
fn time_and_people_end_commands_with_all_that_they_started() {
    let lab = lab();
    let start = Instant::now();
    let mark = lab.site.root.join("mark");
    let command = format!("(sleep 1; touch {}) & echo begun; sleep 60", mark.display());
    let (text, is_error, _) =
        parts(run(&call(&json!({"command": command, "timeout": 300.0})), &lab.site));
    assert_eq!((text.as_str(), is_error), ("Command timed out after 0s\nbegun", Some(true)));
    let stopped = call(&json!({"command": command}));
    stopped.cancel.set();
    let (text, ..) = parts(run(&stopped, &lab.site));
    assert!(text.starts_with("Exit code 137\nStopped by the user"), "{text}");
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(!mark.exists());
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn long_output_is_kept_whole() {
    let lab = lab();
    let (text, _, detail) = parts(run(&call(&json!({"command": "seq 1 20000"})), &lab.site));
    assert!(
        text.starts_with("<persisted-output>\nOutput too large (106KB). Full output saved to: ")
    );
    assert!(
        text.contains("\n\nPreview (first 2KB):\n1\n2\n")
            && text.ends_with("\n...\n</persisted-output>")
    );
    assert!(text.len() < 3_000);
    let detail: Value = serde_json::from_str(&detail).unwrap();
    let kept = detail["persistedOutputPath"].as_str().unwrap();
    assert_eq!(fs::read_to_string(kept).unwrap().lines().count(), 20_000);
    assert_eq!(detail["persistedOutputSize"], 108_894);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode =
            |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let kept = std::path::Path::new(kept);
        assert_eq!((mode(kept), mode(kept.parent().unwrap())), (0o600, 0o700));
    }
}

#[test]
fn of_long_output_the_end_is_told() {
    let lab = lab();
    let begin = |command: &str| {
        let started =
            parts(run(&call(&json!({"command": command, "run_in_background": true})), &lab.site));
        let detail: Value = serde_json::from_str(&started.2).unwrap();
        detail["backgroundTaskId"].as_str().unwrap().to_owned()
    };
    let ask = |id: &str, block: bool| {
        let input = json!({"task_id": id, "block": block});
        let call = Call { name: "TaskOutput".to_owned(), ..call(&input) };
        parts(crate::tool::task_output::run(&call, &lab.site))
    };
    let id = begin("seq 1 20000");
    let (text, _, detail) = ask(&id, true);
    let kept = lab.site.folder.join("tool-results").join(format!("{id}.txt"));
    let note = format!(
        "<output>\n[the first 78894 bytes are left out; all of it is in {}]\n",
        kept.display()
    );
    assert!(text.contains(&note) && text.ends_with("19999\n20000\n</output>"), "{text:.300}");
    assert!(text.len() < 31_000 && detail.contains("20000"));
    assert_eq!(fs::read_to_string(kept).unwrap().lines().count(), 20_000);
    // While it runs, the whole output is where it is written.
    let id = begin("seq 1 20000; sleep 60");
    std::thread::sleep(Duration::from_millis(500));
    let (text, ..) = ask(&id, false);
    let note = format!("all of it is in {}]", lab.site.shells.output(&id).display());
    assert!(text.contains(&note), "{text:.300}");
    let id = begin("yes");
    let (text, ..) = ask(&id, true);
    assert!(text.contains("<status>killed</status>"), "{text:.300}");
    assert!(text.ends_with("<error>Stopped: it put out more than 1 MB</error>"));
}

#[test]
fn a_command_that_takes_long_is_told_about() {
    let lab = lab();
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let ear = heard.clone();
    *lab.site.listener.lock().unwrap() = Some(Box::new(move |call: &str, progress, number| {
        let progress = serde_json::to_value(&progress).unwrap();
        ear.lock().unwrap().push((call.to_owned(), progress, number));
    }));
    parts(run(&call(&json!({"command": "echo quick"})), &lab.site));
    assert!(heard.lock().unwrap().is_empty());
    parts(run(&call(&json!({"command": "echo one; echo two; sleep 2.5"})), &lab.site));
    let heard = heard.lock().unwrap();
    let [(call, progress, 0), ..] = heard.as_slice() else { panic!("{heard:?}") };
    assert_eq!(call, "c");
    assert!(progress["taskId"].as_str().unwrap().starts_with('b'));
    assert!(progress["elapsedTimeSeconds"].as_u64().unwrap() >= 2);
    let mut progress = progress.clone();
    (progress["taskId"], progress["elapsedTimeSeconds"]) = (json!(""), json!(0));
    assert_eq!(
        progress,
        json!({
            "type": "bash_progress", "output": "one\ntwo\n", "fullOutput": "one\ntwo\n",
            "elapsedTimeSeconds": 0, "totalLines": 2, "totalBytes": 8, "taskId": "",
        })
    );
}

#[test]
fn background_commands_are_asked_about_and_ended() {
    let lab = lab();
    let begin = |command: &str| {
        let input = json!({"command": command, "run_in_background": true});
        let detail: Value = serde_json::from_str(&parts(run(&call(&input), &lab.site)).2).unwrap();
        detail["backgroundTaskId"].as_str().unwrap().to_owned()
    };
    let started = parts(run(
        &call(
            &json!({"command": "echo one; sleep 60", "run_in_background": true, "description": "wait"}),
        ),
        &lab.site,
    ));
    let detail: Value = serde_json::from_str(&started.2).unwrap();
    let id = detail["backgroundTaskId"].as_str().unwrap().to_owned();
    assert!(started.0.starts_with(&format!("Command running in background with ID: {id}. ")));
    let ask = |input| {
        let call = Call { name: "TaskOutput".to_owned(), ..call(&input) };
        parts(crate::tool::task_output::run(&call, &lab.site))
    };
    std::thread::sleep(Duration::from_millis(300));
    let (text, ..) = ask(json!({"task_id": id, "block": false}));
    assert!(text.contains("<status>running</status>\n\n<output>\none\n</output>"), "{text}");
    let stop = call(&json!({"task_id": id}));
    let (text, ..) = parts(crate::tool::task_stop::run(&stop, &lab.site));
    assert!(text.contains("Successfully stopped task"));
    let (text, _, detail) = ask(json!({"task_id": id}));
    assert!(
        text.contains("<status>killed</status>") && detail.contains("\"description\":\"wait\"")
    );
    let start = Instant::now();
    let (text, ..) = ask(json!({"task_id": begin("sleep 60"), "timeout": 100.0}));
    assert!(text.contains("<retrieval_status>timeout</retrieval_status>"), "{text}");
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(ask(json!({"task_id": "b999999"})).0.contains("No task found with ID: b999999"));
}

#[test]
fn output_without_an_end_is_ended_and_told() {
    let lab = lab();
    let (text, is_error, _) = parts(run(&call(&json!({"command": "yes"})), &lab.site));
    assert_eq!(is_error, Some(true));
    let expected = "Exit code 137\nStopped: it put out more than 1 MB\ny\ny\n";
    assert!(text.starts_with(expected) && text.len() < 20_000, "{text}");
}

#[test]
fn of_a_long_failure_the_end_is_told_too() {
    let lab = lab();
    let (text, ..) = parts(run(&call(&json!({"command": "seq 1 20000; exit 3"})), &lab.site));
    assert!(text.starts_with("Exit code 3\n1\n2\n") && text.ends_with("\n19999\n20000"), "{text}");
    assert!(text.contains(" bytes are left out; all of it is in "), "{text}");
    assert!(text.len() < 11_000);
}

#[test]
fn what_ends_in_the_background_is_told_once() {
    let lab = lab();
    let background =
        json!({"command": "echo done", "run_in_background": true, "description": "Work"});
    parts(run(&call(&background), &lab.site));
    assert!(lab.site.shells.awaits_news());
    let news = (0..200).find_map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        notification(&lab.site)
    });
    let news = news.unwrap();
    assert!(
        news.contains("<summary>Background command \"Work\" completed (exit code 0)</summary>"),
        "{news}"
    );
    assert!(notification(&lab.site).is_none() && !lab.site.shells.awaits_news());
}
