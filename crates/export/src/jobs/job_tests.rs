use serde_json::json;

use super::*;

fn receiver_dir() -> (tempfile::TempDir, ReceiverDir) {
    let root = tempfile::tempdir().unwrap();
    let receiver_dir = ReceiverDir::at(&root.path().join("receiver_dir"));
    (root, receiver_dir)
}

fn job(session: &str, path: &str) -> Job {
    let event = json!({"session_id": session, "transcript_path": path, "hook_event_name": "Stop"});
    serde_json::from_value(event).unwrap()
}

fn put(receiver_dir: &ReceiverDir, session: &str, path: &str) {
    let heard = job(session, path).heard(Path::new("/p"), UNIX_EPOCH).unwrap();
    heard.put(receiver_dir).unwrap();
}

fn take_all(receiver_dir: &ReceiverDir) -> Vec<Work> {
    take(receiver_dir, SetAside::Leave).unwrap().0
}

fn sessions(found: &[Work]) -> Vec<&str> {
    found.iter().map(|work| work.session.as_str()).collect()
}

#[test]
fn a_job_must_be_about_a_transcript() {
    let heard = |job: Job| job.heard(Path::new("/p"), UNIX_EPOCH);
    for path in ["/dev/zero", "/dev/random", "/proc/kmsg", "", "a.json", "/etc/passwd"] {
        assert!(heard(job("s", path)).unwrap_err().to_string().contains("`.jsonl`"), "{path}");
    }
    let long = heard(job(&"x".repeat(3 << 20), "a.jsonl"));
    assert!(long.unwrap_err().to_string().contains("longer than"));
    let good = heard(job("s", "a.jsonl")).unwrap();
    assert_eq!(good.transcript_path, Path::new("/p/a.jsonl"));
}

#[test]
fn after_three_attempts_it_is_set_aside() {
    let (_root, receiver_dir) = receiver_dir();
    put(&receiver_dir, "s", "/nowhere/s.jsonl");
    for attempt in 1..=3 {
        let mut found = take_all(&receiver_dir);
        assert_eq!(sessions(&found), ["s"], "attempt {attempt}");
        found[0].begin().unwrap();
        let next = found[0].failed(&receiver_dir, "no such file").unwrap();
        let wanted = match attempt {
            3 => Next::SetAside,
            count => Next::Counted { count, most: 3 },
        };
        assert_eq!(next, wanted);
    }
    assert!(take_all(&receiver_dir).is_empty());
    assert_eq!(waiting(&receiver_dir), 0);
    let aside = set_aside(&receiver_dir);
    assert_eq!(aside.len(), 1);
    assert_eq!(aside[0].why, "no such file");
    assert_eq!(aside[0].transcript.as_deref(), Some(Path::new("/nowhere/s.jsonl")));
    // On request it is tried once more, and only once.
    let (mut again, _) = take(&receiver_dir, SetAside::TryAgain).unwrap();
    again[0].begin().unwrap();
    assert_eq!(again[0].failed(&receiver_dir, "still not").unwrap(), Next::SetAside);
    assert_eq!(set_aside(&receiver_dir)[0].why, "still not");
}

/// The worker does not return to report a failure.
#[test]
fn a_job_that_kills_its_worker_is_set_aside() {
    let (_root, receiver_dir) = receiver_dir();
    put(&receiver_dir, "s", "s.jsonl");
    for _ in 0..3 {
        take_all(&receiver_dir)[0].begin().unwrap();
    }
    let (found, not_taken) = take(&receiver_dir, SetAside::Leave).unwrap();
    assert!(found.is_empty() && not_taken.len() == 1, "{not_taken:?}");
    assert_eq!(not_taken[0].session.as_deref(), Some("s"));
    assert!(set_aside(&receiver_dir)[0].why.contains("3 times"));
}

#[test]
fn what_was_begun_often_comes_last() {
    let (_root, receiver_dir) = receiver_dir();
    put(&receiver_dir, "a", "a.jsonl");
    take_all(&receiver_dir)[0].begin().unwrap();
    put(&receiver_dir, "b", "b.jsonl");
    let mut found = take_all(&receiver_dir);
    assert_eq!(sessions(&found), ["b", "a"]);
    // A full disk is not the fault of a job.
    found[1].begin().unwrap();
    found[1].take_back().unwrap();
    found[0].done();
    assert_eq!(take_all(&receiver_dir)[0].attempts, 1);
}

/// A job that arrives again after an attempt with an older one is the same work; the newer one is
/// kept.
#[test]
fn the_newest_of_two_stays() {
    let (_root, receiver_dir) = receiver_dir();
    put(&receiver_dir, "s", "s.jsonl");
    take_all(&receiver_dir)[0].begin().unwrap();
    let later = UNIX_EPOCH + std::time::Duration::from_secs(9);
    job("s", "s.jsonl").heard(Path::new("/p"), later).unwrap().put(&receiver_dir).unwrap();
    let mut found = take_all(&receiver_dir);
    assert_eq!((found.len(), found[0].files.len()), (1, 2));
    found[0].begin().unwrap();
    assert_eq!(found[0].files.len(), 1);
    let again = take_all(&receiver_dir);
    assert_eq!((again[0].attempts, again[0].closing.stopped), (2, Time(9_000)));
}

/// A job for another file under the same name is another job.
#[test]
fn one_name_two_files() {
    let (_root, receiver_dir) = receiver_dir();
    put(&receiver_dir, "s", "/a/s.jsonl");
    take_all(&receiver_dir)[0].begin().unwrap();
    put(&receiver_dir, "s", "/b/s.jsonl");
    let paths: Vec<PathBuf> = take_all(&receiver_dir).into_iter().map(|work| work.path).collect();
    assert_eq!(paths, [Path::new("/b/s.jsonl"), Path::new("/a/s.jsonl")]);
}

#[cfg(unix)]
#[test]
fn what_is_no_job_stops_nobody() {
    let (_root, receiver_dir) = receiver_dir();
    put(&receiver_dir, "good", "good.jsonl");
    let jobs = folder(&receiver_dir);
    fs::write(jobs.join("a.json"), "{").unwrap();
    fs::write(jobs.join("b.json"), vec![b'x'; (1 << 20) + 1]).unwrap();
    fs::write(jobs.join("c.json"), r#"{"session_id":"c","transcript_path":"/dev/zero"}"#).unwrap();
    std::os::unix::fs::symlink("/dev/zero", jobs.join("d.json")).unwrap();
    let pipe = jobs.join("e.json");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (found, not_taken) = take(&receiver_dir, SetAside::Leave).unwrap();
    assert_eq!(sessions(&found), ["good"]);
    assert_eq!(not_taken.len(), 5);
    assert_eq!(set_aside(&receiver_dir).len(), 5);
}

#[test]
fn what_is_set_aside_does_not_grow_for_ever() {
    let (_root, receiver_dir) = receiver_dir();
    for number in 0..MOST_ASIDE + 7 {
        let path = folder(&receiver_dir).join(format!("{number}.json"));
        files::put(&path, b"nonsense", Durability::Process).unwrap();
    }
    take_all(&receiver_dir);
    assert_eq!(set_aside(&receiver_dir).len(), MOST_ASIDE);
}

#[test]
fn fuzz_the_reader() {
    let event = json!({
        "session_id": "s", "transcript_path": "/p/s.jsonl", "hook_event_name": "SubagentStop",
        "agent_id": "a", "agent_transcript_path": "/p/s/subagents/agent-a.jsonl", "cwd": "/p",
    });
    let event = event.to_string().into_bytes();
    let kept = serde_json::from_slice::<Job>(&event).unwrap().heard(Path::new("/p"), UNIX_EPOCH);
    let seeds = [event, serde_json::to_vec(&kept.unwrap()).unwrap()];
    testkit::mutate::run(&seeds, 100_000, |bytes| {
        let Ok(job) = Job::parse(bytes) else { return };
        assert!(is_jsonl(&job.transcript_path) && job.session_id.len() <= LONGEST_NAME);
    });
}
