//! A bucket that fails: what arrives is whole, and there once.

use std::collections::BTreeMap;
use std::time::Duration;

use lake::{Content, Policy, Surroundings, Target, Versions, audit, erase};
use testkit::Rng;
use testkit::s3::{Mood, S3};

use crate::home::{Scene, policy, session};

pub(crate) fn bucket(server: &S3) -> Target {
    bucket_at(server, "s3://fleet/a/b")
}

/// The bucket of the server, by an address of its own.
pub(crate) fn bucket_at(server: &S3, address: &str) -> Target {
    let variables = [
        ("AWS_ENDPOINT_URL", server.url()),
        ("AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
    Target::open(address, &Surroundings { variables, home: None }).unwrap()
}

/// What the folder `lake` has, under the names of the bucket.
fn wanted(scene: &Scene) -> BTreeMap<String, Vec<u8>> {
    let files = scene.files().into_iter();
    files.map(|(key, bytes)| (format!("fleet/a/b/{key}"), bytes)).collect()
}

/// Pushes until a push succeeds.
fn push_until_done(scene: &Scene, server: &S3, state: &str) -> usize {
    let target = bucket(server);
    for attempt in 1..=30 {
        let (_, outcome) = scene.try_push(&target, &policy("m1"), &mut scene.state(state));
        if outcome.is_ok() {
            return attempt;
        }
    }
    panic!("no push succeeded");
}

#[test]
fn a_bucket_in_any_mood_has_the_same_objects_in_the_end() {
    let scene = Scene::with_samples();
    scene.push();
    let wanted = wanted(&scene);
    for mood in [
        Mood::Good,
        Mood::Refusing(503),
        Mood::Refusing(500),
        Mood::Refusing(403),
        Mood::Slow(Duration::from_millis(30)),
        Mood::Forgetful,
    ] {
        let server = S3::start().unwrap();
        server.set_mood(mood);
        push_until_done(&scene, &server, &format!("{mood:?}"));
        assert!(server.objects() == wanted, "{mood:?}: {:?}", server.objects().keys());
        server.set_mood(Mood::Good);
        assert_eq!(push_until_done(&scene, &server, &format!("{mood:?}")), 1);
        assert!(server.served() <= 7, "{mood:?}: a second push sent {}", server.served());
    }
}

/// The last answer of an upload in parts may be lost too.
#[test]
fn an_object_in_parts_arrives_in_any_mood() {
    let scene = Scene::new();
    let mut chance = Rng::new(3);
    let mut lines = String::new();
    for number in 0..14 {
        // Words that no compression makes shorter.
        let letter =
            |_| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789+/.:,;()  "[chance.below(46)]);
        let text: String = (0..1_000_000).map(letter).collect();
        let prompt = session(&format!("s{number}"), "msg_1", &text);
        lines += prompt.split_inclusive('\n').next().unwrap();
    }
    scene.put("-p/one.jsonl", &lines);
    let policy = Policy { content: Content::Full, redactor: None, ..policy("m1") };
    scene.push_as(&policy);
    let wanted = wanted(&scene);
    assert!(wanted.values().any(|bytes| bytes.len() > 8 << 20), "one part is enough");
    let server = S3::start().unwrap();
    for (round, mood) in [Mood::Refusing(503), Mood::Forgetful].into_iter().enumerate() {
        server.clear();
        server.set_mood(mood);
        let mut state = scene.state(&format!("s3-{round}"));
        let (_, outcome) = scene.try_push(&bucket(&server), &policy, &mut state);
        outcome.unwrap();
        assert!(server.objects() == wanted, "{mood:?}: {:?}", server.objects().keys());
    }
}

#[test]
fn a_push_that_fails_is_completed_by_the_next_one() {
    let scene = Scene::new();
    for number in 0..6 {
        let id = format!("s{number}");
        scene.put(&format!("-p/{id}.jsonl"), &session(&id, &format!("msg_{id}"), "hello"));
    }
    scene.push();
    let wanted = wanted(&scene);
    let server = S3::start().unwrap();
    server.set_mood(Mood::Dying(25));
    let target = bucket(&server);
    let (pushed, outcome) = scene.try_push(&target, &policy("m1"), &mut scene.state("s3"));
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("not now") && !error.contains(char::is_control), "{error:?}");
    assert!(pushed.sessions < 6, "{pushed:?}");
    // Every object that is there is whole.
    for (key, bytes) in server.objects() {
        assert!(wanted.get(&key) == Some(&bytes), "{key}");
    }
    server.set_mood(Mood::Good);
    let (rest, outcome) = scene.try_push(&target, &policy("m1"), &mut scene.state("s3"));
    outcome.unwrap();
    assert_eq!(pushed.sessions + rest.sessions, 6);
    assert!(server.objects() == wanted);
}

#[test]
fn two_machines_push_at_once() {
    let server = S3::start().unwrap();
    server.set_mood(Mood::Slow(Duration::from_millis(5)));
    let scenes = [Scene::with_samples(), Scene::with_samples()];
    std::thread::scope(|scope| {
        for (scene, machine) in scenes.iter().zip(["m1", "m2"]) {
            let server = &server;
            scope.spawn(move || {
                let target = bucket(server);
                for _ in 0..2 {
                    let mut state = scene.state("s3");
                    let (_, outcome) = scene.try_push(&target, &policy(machine), &mut state);
                    outcome.unwrap();
                }
            });
        }
    });
    let mut expected = BTreeMap::new();
    for (scene, machine) in scenes.iter().zip(["m1", "m2"]) {
        scene.push_as(&policy(machine));
        expected.extend(wanted(scene));
    }
    assert!(server.objects() == expected);
}

#[test]
fn erasing_from_a_bucket_is_proved_and_says_if_versions_are_kept() {
    let scene = Scene::with_samples();
    let server = S3::start().unwrap();
    push_until_done(&scene, &server, "s3");
    let all = server.objects();
    let key = all.keys().next().unwrap();
    let session = &key[key.len() - 44..key.len() - 8];
    let target = bucket(&server);
    let erased = erase(&target, session, "m1").unwrap();
    assert_eq!((erased.objects.len(), erased.left.len(), erased.versions), (7, 0, Versions::Gone));
    assert!(server.objects().keys().all(|key| !key.contains(session)));
    assert_eq!(server.objects().len(), all.len() - 7);
    // Also if what is erased is older than the rule of the bucket.
    server.keep_versions();
    for is_stored_again in [false, true] {
        if is_stored_again {
            push_until_done(&scene, &server, "new");
        }
        let key = server.objects().keys().next().unwrap().clone();
        let session = &key[key.len() - 44..key.len() - 8];
        let erased = erase(&bucket(&server), session, "m1").unwrap();
        assert_eq!((erased.objects.len(), erased.left.len()), (7, 0));
        assert_eq!(erased.versions, Versions::Kept, "{is_stored_again}");
    }
    // What was erased before has old versions, which no list shows.
    let nothing = erase(&target, session, "m1").unwrap();
    assert_eq!((nothing.objects.len(), nothing.versions), (0, Versions::Unknown));
}

#[test]
fn an_audit_says_what_is_wrong() {
    let scene = Scene::new();
    scene.put("-p/one.jsonl", &session("one", "msg_1", "hello"));
    scene.push();
    let look = || audit(&scene.lake(), &scene.state("lake"), "m1", &[]).unwrap();
    let fine = look();
    assert_eq!((fine.objects, fine.sessions, fine.problems.len()), (7, 1, 0));
    assert_eq!(scene.files().len(), 7, "the audit left something");
    // What an engine keeps beside the objects is its business.
    let log = scene.path("lake/calls/_delta_log");
    std::fs::create_dir_all(&log).unwrap();
    std::fs::write(log.join("00000000000000000010.checkpoint.parquet"), b"x").unwrap();
    assert_eq!(look(), fine);
    let at = |table: &str| scene.path(&format!("lake/{table}/day=2026-01-02/m1-one.parquet"));
    std::fs::remove_file(at("edits")).unwrap();
    std::fs::write(at("calls"), b"PAR1 torn").unwrap();
    let twice = scene.path("lake/turns/day=2026-01-09");
    std::fs::create_dir_all(&twice).unwrap();
    std::fs::copy(at("turns"), twice.join("m1-one.parquet")).unwrap();
    std::fs::write(at("tools").with_file_name(".m1-one.parquet.part"), b"x").unwrap();
    let problems = look().problems.join("\n");
    for wanted in [
        "`edits/day=2026-01-02/m1-one.parquet` was pushed and is gone",
        "`calls/day=2026-01-02/m1-one.parquet` is not a whole Parquet file",
        "`calls/day=2026-01-02/m1-one.parquet` has 9 bytes",
        "`turns/…/m1-one.parquet` is there twice: in day=2026-01-02 and in day=2026-01-09",
        "was left by a push that was stopped",
    ] {
        assert!(problems.contains(wanted), "{wanted} is not in\n{problems}");
    }
}
