use std::cell::RefCell;
use std::fs;
use std::time::UNIX_EPOCH;

use super::*;

const SAMPLE: &str = "crates/testkit/fixtures/samples/projects/-home-dev-demo/2bb8f19c-b0e3-4eba-bcdf-0a96f8cbc7c9.jsonl";

/// A sample in a folder of its own, so that no other file is related to it.
fn sample(folder: &Path) -> Session {
    let (from, to) = (testkit::root().join(SAMPLE), folder.join("s.jsonl"));
    fs::copy(from, &to).unwrap();
    Session::at(&to).unwrap()
}

/// Ships a session that has ended. Returns the counts, the batches, and the steps of the progress.
fn go(receiver_dir: &ReceiverDir, session: &Session) -> (Made, Vec<Batch>, Vec<u64>) {
    let (telling, ids) = (Telling::default(), Ids::salted(""));
    let mut shipper = Shipper::new(receiver_dir, &telling, &ids, Repeat::Never, None);
    let mut batches = Vec::new();
    let steps = RefCell::new(Vec::new());
    let made = shipper.session(
        session,
        &Closing::ended(),
        UNIX_EPOCH,
        &mut |batch| {
            batches.push(batch);
            Ok(())
        },
        &|bytes| steps.borrow_mut().push(bytes),
    );
    let made = made.unwrap();
    let finished = shipper.finish(&mut |batch| {
        batches.push(batch);
        Ok(())
    });
    finished.unwrap();
    (made, batches, steps.into_inner())
}

#[test]
fn progress_within_a_session() {
    let root = tempfile::tempdir().unwrap();
    let session = sample(root.path());
    let (made, _, steps) = go(&ReceiverDir::at(&root.path().join("receiver_dir")), &session);
    assert!(made.spans > 10 && steps.len() >= made.spans, "{made:?}");
    assert!(steps.is_sorted(), "{steps:?}");
    let (first, last) = (steps[0], steps[steps.len() - 1]);
    assert!(first < session.size / 4, "{first} of {} at once", session.size);
    assert!(last > session.size / 2 && last <= session.size, "{last} of {}", session.size);
}

/// The end of a session has arrived, and what was before it is damaged on disk.
#[test]
fn what_was_damaged_is_made_again_whatever_the_session_looks_like() {
    let root = tempfile::tempdir().unwrap();
    let session = sample(root.path());
    let receiver_dir = ReceiverDir::at(&root.path().join("receiver_dir"));
    let (first, batches, _) = go(&receiver_dir, &session);
    let positions = batches.iter().flat_map(|batch| &batch.updates);
    let positions: Vec<Update> =
        positions.filter(|update| update.position.is_some()).cloned().collect();
    assert!(positions.iter().any(|one| one.position.as_ref().unwrap().look.is_some()));
    receiver_dir.states.apply(&positions).unwrap();
    assert_eq!(go(&receiver_dir, &session).0.spans, 0, "it looks as it did");
    for batch in &batches {
        receiver_dir.spool.add(batch, "project").unwrap();
    }
    for path in receiver_dir.spool.waiting() {
        fs::write(&path, "damaged").unwrap();
        assert_eq!(receiver_dir.spool.read(&path).unwrap(), None);
    }
    assert_eq!(go(&receiver_dir, &session).0, first);
    receiver_dir.spool.forget_damaged().unwrap();
    assert_eq!(go(&receiver_dir, &session).0.spans, 0);
}

#[test]
fn what_another_program_has_sent_outlives_damage() {
    let root = tempfile::tempdir().unwrap();
    let session = sample(root.path());
    let receiver_dir = ReceiverDir::at(&root.path().join("receiver_dir"));
    let theirs = root.path().join("theirs.json");
    fs::write(&theirs, r#"{"s": {"last_line": 1000000}}"#).unwrap();
    assert_eq!(import(&receiver_dir, &theirs).unwrap(), 1);
    assert_eq!(import(&receiver_dir, &theirs).unwrap(), 0, "once");
    assert_eq!(go(&receiver_dir, &session).0.turns, 0);
    // Neither the state of the session nor the record of what was taken over may be lost.
    let states = root.path().join("receiver_dir/sessions");
    fs::create_dir_all(&states).unwrap();
    fs::write(states.join("s.json"), "damaged").unwrap();
    assert_eq!(go(&receiver_dir, &session).0.turns, 0);
    let done = BTreeMap::from([("k".to_owned(), "m".to_owned())]);
    receiver_dir.states.apply(&[Update { session: "s".to_owned(), done, position: None }]).unwrap();
    fs::write(root.path().join("receiver_dir/imported"), "damaged").unwrap();
    assert_eq!(import(&receiver_dir, &theirs).unwrap(), 1);
    assert_eq!(go(&receiver_dir, &session).0.turns, 0);
}
