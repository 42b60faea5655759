//! Buckets, folders and sessions that are made to do harm.

use std::fs;

use lake::erase;
use testkit::s3::{Mood, S3};

use crate::bucket::{bucket, bucket_at};
use crate::home::{Scene, policy, session};

/// A bucket that lists more than it was asked for is believed only about what was asked.
#[test]
fn nothing_outside_of_the_prefix_is_deleted() {
    let scene = Scene::with_samples();
    let server = S3::start().unwrap();
    let target = bucket(&server);
    for (number, address) in
        ["s3://fleet", "s3://fleet/a", "s3://fleet/a/bc", "s3://fleet/a/b"].iter().enumerate()
    {
        let there = bucket_at(&server, address);
        let mut state = scene.state(&format!("state-{number}"));
        scene.try_push(&there, &policy("m1"), &mut state).1.unwrap();
    }
    let before = server.objects();
    let id = before.keys().find_map(|key| Some(&key[key.len().checked_sub(44)?..key.len() - 8]));
    let id = id.unwrap_or_default();
    server.set_mood(Mood::Lying);
    let erased = erase(&target, id, "m1").unwrap();
    assert_eq!((erased.objects.len(), erased.left.len()), (7, 0), "{erased:?}");
    let is_gone = |key: &String| key.starts_with("fleet/a/b/") && key.contains(id);
    let wanted: Vec<&String> = before.keys().filter(|key| !is_gone(key)).collect();
    assert_eq!(server.objects().keys().collect::<Vec<_>>(), wanted);
    // Without a state, a push looks for its sessions under other days: only its own.
    let (_, outcome) = scene.try_push(&target, &policy("m1"), &mut scene.state("lost"));
    outcome.unwrap();
    assert!(server.objects() == before, "{:?}", server.objects().keys());
}

/// A folder of a lake that others may write to can be a link to anywhere.
#[cfg(unix)]
#[test]
fn links_in_a_folder_are_not_followed() {
    let scene = Scene::new();
    scene.put("-p/one.jsonl", &session("one", "msg_1", "hello"));
    let elsewhere = scene.path("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::create_dir_all(scene.path("lake/tools")).unwrap();
    for link in ["lake/calls", "lake/tools/day=2026-01-02"] {
        std::os::unix::fs::symlink(&elsewhere, scene.path(link)).unwrap();
        let (_, outcome) = scene.try_push(&scene.lake(), &policy("m1"), &mut scene.state("lake"));
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("is a link"), "{error}");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
        fs::remove_file(scene.path(link)).unwrap();
    }
    // The lake itself may be a link: the user named it.
    fs::rename(scene.path("lake"), scene.path("real")).unwrap();
    std::os::unix::fs::symlink(scene.path("real"), scene.path("lake")).unwrap();
    scene.push();
    assert_eq!(scene.files().len(), 7);
    // What a stopped push left may be replaced by a link, which is not written through.
    let part = scene.path("lake/calls/day=2026-01-02/.m1-one.parquet.part");
    let victim = scene.path("victim");
    fs::write(&victim, b"as it was").unwrap();
    std::os::unix::fs::symlink(&victim, &part).unwrap();
    fs::remove_dir_all(scene.path("state")).unwrap();
    scene.push();
    assert_eq!(fs::read(&victim).unwrap(), b"as it was");
}

#[test]
fn a_file_that_cannot_be_put_in_place_leaves_nothing() {
    let scene = Scene::new();
    scene.put("-p/one.jsonl", &session("one", "msg_1", "hello"));
    let folder = scene.path("lake/calls/day=2026-01-02/m1-one.parquet");
    fs::create_dir_all(folder.join("x")).unwrap();
    let (_, outcome) = scene.try_push(&scene.lake(), &policy("m1"), &mut scene.state("lake"));
    outcome.unwrap_err();
    assert_eq!(scene.files().len(), 0, "{:?}", scene.files().keys());
    fs::remove_dir_all(folder).unwrap();
    scene.push();
    assert_eq!(scene.files().len(), 7);
}
