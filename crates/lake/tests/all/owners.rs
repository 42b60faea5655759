//! Which session a call belongs to, when sessions come, go, and are pushed one by one.

use std::collections::BTreeMap;
use std::fs;

use lake::{Again, Group, Policy, Progress, Push, Pushed, Record, groups};
use parquet::record::Field;
use testkit::s3::S3;

use crate::bucket::bucket;
use crate::home::{Scene, policy, session};

/// Pushes only this session.
fn push_one(scene: &Scene, id: &str) -> Pushed {
    let ledger = scene.ledger();
    let mut state = scene.state("lake");
    let groups = groups(&ledger, &state);
    let chosen: Vec<&Group> = groups.iter().filter(|group| group.id == id).collect();
    let (target, policy, again) = (scene.lake(), policy("m1"), Again::Changed);
    let push = Push { ledger: &ledger, target: &target, policy: &policy, threads: 2, again };
    let (pushed, outcome) = push.run(&groups, &chosen, &mut state, &Progress::default());
    outcome.unwrap();
    pushed
}

/// How many calls of each session are its own, and how many are copies.
fn calls(scene: &Scene) -> BTreeMap<String, [usize; 2]> {
    let mut found: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    for row in scene.rows("calls") {
        let Field::Str(id) = &row["session_id"] else { panic!("no session: {row:?}") };
        let is_copy = row["is_copy"] == Field::Bool(true);
        found.entry(id.clone()).or_default()[usize::from(is_copy)] += 1;
    }
    found
}

fn wanted<const N: usize>(list: [(&str, [usize; 2]); N]) -> BTreeMap<String, [usize; 2]> {
    list.map(|(id, counts)| (id.to_owned(), counts)).into()
}

/// A session, and a fork of it that went on.
fn with_fork() -> (Scene, [String; 2]) {
    let scene = Scene::new();
    let first = session("first", "msg_1", "hello");
    let copied = first.replace("2026-01-0", "2026-02-0").replace("\"first\"", "\"later\"");
    let more = session("later", "msg_2", "more").replace("2026-01-0", "2026-03-0");
    (scene, [first, format!("{copied}{more}")])
}

#[test]
fn a_session_that_is_pushed_alone_takes_its_calls_from_the_others() {
    let (scene, [first, later]) = with_fork();
    scene.put("-p/later.jsonl", &later);
    scene.put("-p/other.jsonl", &session("other", "msg_3", "hello"));
    scene.push();
    scene.put("-p/first.jsonl", &first);
    // A third one has changed, but nobody asked for it.
    scene.put("-p/other.jsonl", &session("other", "msg_4", "hello"));
    let pushed = push_one(&scene, "first");
    assert_eq!((pushed.sessions, pushed.unchanged), (2, 0));
    let all = [("first", [2, 0]), ("later", [2, 2]), ("other", [2, 0])];
    assert_eq!(calls(&scene), wanted(all));
    let ids: Vec<String> =
        scene.rows("calls").iter().map(|row| row["message_id"].to_string()).collect();
    assert!(ids.iter().any(|id| id.contains("msg_3")), "{ids:?}");
    // What is not in the lake stays out of it.
    let (scene, [first, later]) = with_fork();
    scene.put("-p/later.jsonl", &later);
    scene.put("-p/first.jsonl", &first);
    assert_eq!(push_one(&scene, "first").sessions, 1);
    assert_eq!(calls(&scene), wanted([("first", [2, 0])]));
}

#[test]
fn calls_of_a_session_that_the_client_has_deleted_stay_its_own() {
    let (scene, [first, later]) = with_fork();
    let path = scene.put("-p/first.jsonl", &first);
    let fork = scene.put("-p/later.jsonl", &later);
    scene.push();
    let both = wanted([("first", [2, 0]), ("later", [2, 2])]);
    assert_eq!(calls(&scene), both);
    fs::remove_file(path).unwrap();
    scene.push();
    assert_eq!(calls(&scene), both);
    // Also after the copy has grown, and of a copy of the copy.
    let last = session("later", "msg_5", "last").replace("2026-01-0", "2026-04-0");
    fs::write(&fork, format!("{later}{last}")).unwrap();
    scene.put(
        "-p/third.jsonl",
        &later.replace("\"later\"", "\"third\"").replace("2026-0", "2027-0"),
    );
    scene.push();
    let all = wanted([("first", [2, 0]), ("later", [4, 2]), ("third", [0, 4])]);
    assert_eq!(calls(&scene), all);
    fs::remove_file(fork).unwrap();
    scene.push();
    assert_eq!(calls(&scene), all);
    // Erased, it has nothing in the lake any more.
    lake::erase(&scene.lake(), "first", "m1").unwrap();
    lake::erase(&scene.lake(), "later", "m1").unwrap();
    for session in ["first", "later"] {
        let record = Record { session: session.to_owned(), ..Record::default() };
        scene.state("lake").add(record).unwrap();
    }
    scene.push();
    assert_eq!(calls(&scene), wanted([("third", [4, 0])]));
}

/// The client deletes old files one by one: of a long session, only sub-agents may be left.
#[test]
fn what_is_left_of_a_deleted_session_replaces_nothing() {
    let scene = Scene::new();
    let path = scene.put("-p/one.jsonl", &session("one", "msg_1", "hello"));
    let agent =
        session("one", "msg_2", "hello").replace("\"type\"", "\"isSidechain\":true,\"type\"");
    scene.put("-p/one/subagents/agent-a1.jsonl", &agent);
    // Another one never had a transcript of its own here.
    scene.put("-p/two/subagents/agent-a2.jsonl", &agent.replace("msg_2", "msg_4"));
    scene.push();
    let before = scene.files();
    assert_eq!(calls(&scene), wanted([("one", [4, 0]), ("two", [2, 0])]));
    fs::remove_file(path).unwrap();
    scene.put("-p/two/subagents/agent-a3.jsonl", &agent.replace("msg_2", "msg_5"));
    let pushed = scene.push();
    assert_eq!((pushed.sessions, pushed.unchanged), (1, 1));
    assert_eq!(calls(&scene), wanted([("one", [4, 0]), ("two", [4, 0])]));
    let of_one = |key: &&String| key.ends_with("-one.parquet");
    let after = scene.files();
    for key in before.keys().filter(of_one) {
        assert!(before[key] == after[key], "{key}");
    }
}

/// It deletes those of sub-agents before that of the session, which is older than they are.
#[test]
fn sub_agents_that_the_client_has_deleted_stay_until_the_session_goes_on() {
    let scene = Scene::new();
    let lines = session("one", "msg_1", "hello");
    let path = scene.put("-p/one.jsonl", &lines);
    let agent =
        session("one", "msg_2", "hello").replace("\"type\"", "\"isSidechain\":true,\"type\"");
    let put_agent = |name: &str, message: &str| {
        let lines = agent.replace("msg_2", message);
        scene.put(&format!("-p/one/subagents/agent-{name}.jsonl"), &lines)
    };
    let agents = [put_agent("a1", "msg_2"), put_agent("a2", "msg_3")];
    // A fork has the calls of a sub-agent, too.
    let later = agent.replace("2026-01-0", "2026-02-0").replace("\"one\"", "\"fork\"");
    scene.put("-p/fork/subagents/agent-a1.jsonl", &later);
    scene.push();
    let before = scene.files();
    let all = wanted([("one", [6, 0]), ("fork", [0, 2])]);
    assert_eq!(calls(&scene), all);
    // Neither that, nor another configuration, replaces what is there.
    let team = || Policy { team: Some("knots".to_owned()), ..policy("m1") };
    for agent in agents {
        fs::remove_file(agent).unwrap();
        scene.push_as(&team());
        assert_eq!(calls(&scene), all);
        let after = scene.files();
        for key in before.keys().filter(|key| key.ends_with("-one.parquet")) {
            assert!(before[key] == after[key], "{key}");
        }
    }
    // It goes on: what there is of it now is pushed, and what it had is the fork's.
    fs::write(&path, format!("{lines}{}", session("one", "msg_4", "more"))).unwrap();
    scene.push();
    assert_eq!(calls(&scene), wanted([("one", [4, 0]), ("fork", [2, 0])]));
}

#[test]
fn a_folder_that_was_removed_is_filled_again() {
    let scene = Scene::with_samples();
    let first = scene.push();
    let before = scene.files();
    fs::remove_dir_all(scene.path("lake")).unwrap();
    assert_eq!(scene.push().sessions, first.sessions);
    assert!(scene.files() == before);
}

/// A machine that is new in a bucket of many lists only what could be its own.
#[test]
fn without_a_state_only_objects_of_this_machine_are_listed() {
    let server = S3::start().unwrap();
    let target = bucket(&server);
    let scene = Scene::new();
    for number in 0..60 {
        let id = format!("s{number}");
        scene.put(&format!("-p/{id}.jsonl"), &session(&id, &format!("msg_{id}"), "hello"));
    }
    for machine in ["m1", "m3"] {
        let mut state = scene.state(machine);
        scene.try_push(&target, &policy(machine), &mut state).1.unwrap();
    }
    let all = server.objects();
    // One session is on another day now, and so it is after the state was lost.
    let path = scene.put("-p/s7.jsonl", &session("s7", "msg_s7", "hello"));
    let moved = fs::read_to_string(&path).unwrap().replace("2026-01-0", "2026-03-0");
    fs::write(&path, moved).unwrap();
    scene.try_push(&target, &policy("m1"), &mut scene.state("lost")).1.unwrap();
    let days = |machine: &str| {
        let name = format!("/{machine}-s7.parquet");
        let keys = server.objects().into_keys().filter(|key| key.ends_with(&name));
        keys.map(|key| key.split('/').nth(4).unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(days("m1"), ["day=2026-03-02"; 7]);
    assert_eq!(days("m3"), ["day=2026-01-02"; 7]);
    assert_eq!(server.objects().len(), all.len());
    // For each of two tables: the days, and in each of two days one or two pages of 50.
    server.set_mood(testkit::s3::Mood::Good);
    let new = policy("m2");
    let nothing: Vec<&Group> = Vec::new();
    let ledger = scene.ledger();
    let push =
        Push { ledger: &ledger, target: &target, policy: &new, threads: 2, again: Again::Changed };
    let mut state = scene.state("m2");
    let groups = groups(&ledger, &state);
    push.run(&groups, &nothing, &mut state, &Progress::default()).1.unwrap();
    assert!(server.served() <= 6, "{} requests", server.served());
}

/// Erased by this machine: its objects are gone, and it stays away.
fn erase(scene: &Scene, session: &str) -> usize {
    let erased = lake::erase(&scene.lake(), session, "m1").unwrap();
    assert_eq!((erased.left, erased.unclear), (Vec::new(), Vec::new()));
    let record = Record { session: session.to_owned(), ..Record::default() };
    scene.state("lake").add(record).unwrap();
    erased.objects.len()
}

/// What was pushed of a session that the client has deleted keeps its calls, whoever copies them
/// later, and whatever becomes of the copies.
#[test]
fn calls_of_a_deleted_session_are_no_other_ones_even_if_that_is_new() {
    // The copy is made after the push, and pushed after the first was deleted.
    let (scene, [first, later]) = with_fork();
    let path = scene.put("-p/first.jsonl", &first);
    scene.push();
    fs::remove_file(path).unwrap();
    let fork = scene.put("-p/later.jsonl", &later);
    scene.push();
    let both = wanted([("first", [2, 0]), ("later", [2, 2])]);
    assert_eq!(calls(&scene), both);
    // An older copy of the copy takes its own calls, as it would in `usage`, and no others.
    let third = later.replace("\"later\"", "\"third\"").replace("2026-0", "2025-0");
    scene.put("-p/third.jsonl", &third);
    scene.push();
    let all = wanted([("first", [2, 0]), ("later", [0, 4]), ("third", [2, 2])]);
    assert_eq!(calls(&scene), all);
    // Erased and pushed again, the copy is one still.
    fs::remove_file(scene.path("home/projects/-p/third.jsonl")).unwrap();
    erase(&scene, "later");
    let pushed = push_one(&scene, "later");
    assert_eq!(pushed.sessions, 1);
    assert_eq!(calls(&scene), all);
    assert!(fork.exists());
}

/// The lake itself says which calls are those of a session that the client has deleted.
#[test]
fn a_lost_state_is_found_in_the_lake() {
    let (scene, [first, later]) = with_fork();
    let path = scene.put("-p/first.jsonl", &first);
    scene.put("-p/later.jsonl", &later);
    scene.push();
    let both = wanted([("first", [2, 0]), ("later", [2, 2])]);
    assert_eq!(calls(&scene), both);
    fs::remove_dir_all(scene.path("state")).unwrap();
    fs::remove_file(path).unwrap();
    scene.push();
    assert_eq!(calls(&scene), both);
    assert_eq!(scene.push().sessions, 0);
    let problems = lake::audit(&scene.lake(), &scene.state("lake"), "m1", &[]).unwrap().problems;
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn calls_of_an_erased_session_are_those_of_its_copy() {
    let (scene, [first, later]) = with_fork();
    scene.put("-p/first.jsonl", &first);
    scene.put("-p/later.jsonl", &later);
    scene.push();
    assert_eq!(erase(&scene, "first"), 7);
    assert_eq!(scene.push().sessions, 1);
    assert_eq!(calls(&scene), wanted([("later", [4, 0])]));
    // It is named again, and has them again.
    push_one(&scene, "first");
    scene.push();
    assert_eq!(calls(&scene), wanted([("first", [2, 0]), ("later", [2, 2])]));
}

#[test]
fn what_another_machine_erased_is_pushed_as_a_whole_when_it_grows() {
    let scene = Scene::new();
    let lines = session("one", "msg_1", "hello");
    let path = scene.put("-p/one.jsonl", &lines);
    scene.push();
    lake::erase(&scene.lake(), "one", "m2").unwrap();
    assert_eq!(scene.push().objects, 0);
    fs::write(&path, format!("{lines}{{\"type\":\"summary\",\"summary\":\"x\"}}\n")).unwrap();
    assert_eq!(scene.push().objects, 7);
    assert_eq!(calls(&scene), wanted([("one", [2, 0])]));
}

/// Of what is there of a session, less is left when less may be there.
#[test]
fn a_session_that_lost_files_is_pushed_again_with_less_content() {
    let scene = Scene::new();
    scene.put("-p/one.jsonl", &session("one", "msg_1", "hello"));
    let agent =
        session("one", "msg_2", "hello").replace("\"type\"", "\"isSidechain\":true,\"type\"");
    let agent = scene.put("-p/one/subagents/agent-a1.jsonl", &agent);
    scene.push_as(&Policy { content: lake::Content::Full, ..policy("m1") });
    fs::remove_file(agent).unwrap();
    let texts = |scene: &Scene| {
        scene.rows("messages").iter().filter(|row| row["text"] != Field::Null).count()
    };
    assert_eq!(texts(&scene), 4);
    scene.push_as(&Policy { content: lake::Content::None, ..policy("m1") });
    assert_eq!(texts(&scene), 0);
}

/// Machines and sessions may have hyphens in their names: an object says itself whose it is.
#[test]
fn nothing_of_another_session_is_erased_whatever_names_are_like() {
    const ID: &str = "0a1b2c3d-0000-4000-8000-000000000001";
    let scene = Scene::new();
    let backup = format!("backup-{ID}");
    for (name, message) in [(ID, "msg_1"), (&backup, "msg_2"), ("tool_heavy", "msg_3")] {
        scene.put(&format!("-p/{name}.jsonl"), &session(name, message, "hello"));
    }
    for machine in ["m1", "anna-laptop"] {
        let (target, policy) = (scene.lake(), policy(machine));
        scene.try_push(&target, &policy, &mut scene.state(machine)).1.unwrap();
    }
    let left = |part: &str| scene.files().keys().filter(|key| key.contains(part)).count();
    assert_eq!((left(ID), left(&backup), left("tool_heavy")), (28, 14, 14));
    let erased = lake::erase(&scene.lake(), &ID.to_uppercase(), "m1").unwrap();
    assert_eq!((erased.objects.len(), erased.left.len(), erased.unclear.len()), (14, 0, 0));
    assert_eq!((left(ID), left(&backup)), (14, 14));
    let erased = lake::erase(&scene.lake(), "tool_heavy", "m1").unwrap();
    assert_eq!((erased.objects.len(), erased.left.len(), erased.unclear.len()), (14, 0, 0));
    assert_eq!(left("tool_heavy"), 0);
    // Of one that says nothing, nobody knows.
    let folder = scene.path("lake/calls/day=2026-01-02");
    fs::write(folder.join("anna-laptop-tool_heavy.parquet"), "torn").unwrap();
    let erased = lake::erase(&scene.lake(), "tool_heavy", "m1").unwrap();
    assert_eq!((erased.objects.len(), erased.left.len(), erased.unclear.len()), (0, 0, 1));
    assert_eq!(left("tool_heavy"), 1);
}
