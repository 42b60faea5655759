//! Turns as a user changes them: `drop`, `keep`, `edit`, `split`, `merge` and `diff`.

use std::fmt::Write;
use std::fs;

use insta::assert_snapshot;
use testkit::session::Script;

use crate::env::Env;

/// A session of four turns: the second with a call, an abandoned branch after it.
pub(crate) const TALK: &str = "7a1c0000-0000-4000-8000-000000000001";
/// Another one, of two turns.
const OTHER: &str = "07e40000-0000-4000-8000-000000000002";
const NEW: &str = "0e000000-1111-4222-8333-444444444444";
const SECOND: &str = "fe000000-1111-4222-8333-444444444444";

fn path(id: &str) -> String {
    format!(".claude/projects/-home-dev-demo/{id}.jsonl")
}

pub(crate) fn put_talk(env: &Env) {
    let talk = Script::new()
        .prompt("p1", "-", "first question")
        .says("a1", "p1", "m1", "first answer")
        .prompt("p2", "a1", "second question")
        .call("a2", "p2", "m2", "toolu_1", "Read")
        .result("r2", "a2", "toolu_1", "contents")
        .says("b2", "r2", "m3", "second answer")
        .prompt("d3", "b2", "a rabbit hole")
        .says("e3", "d3", "m9", "deep down")
        .prompt("p3", "b2", "third question")
        .says("a3", "p3", "m4", "third answer")
        .prompt("p4", "a3", "fourth question")
        .says("a4", "p4", "m5", "fourth answer");
    env.put(&path(TALK), talk.text());
    let other = Script::new()
        .wait(9_000)
        .prompt("o1", "-", "another first question")
        .call("oa", "o1", "m2", "toolu_1", "Read")
        .result("or", "oa", "toolu_1", "other contents")
        .says("ob", "or", "m7", "another answer")
        .prompt("o2", "ob", "another second question")
        .says("oc", "o2", "m8", "the last answer");
    env.put(&path(OTHER), other.text());
}

fn talk() -> Env {
    let env = Env::bare();
    put_talk(&env);
    env
}

fn run(env: &Env, args: &[&str]) -> String {
    env.show(&env.command(args).env("QUIPU_ID", NEW).output().unwrap())
}

/// The prompts of a session, and what is sent of it.
fn sent(env: &Env, id: &str) -> Vec<String> {
    let output = env.output(&["history", id, "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut texts = Vec::new();
    for message in value["messages"].as_array().unwrap() {
        match &message["content"] {
            serde_json::Value::String(text) => texts.push(text.clone()),
            blocks => texts.extend(blocks.as_array().unwrap().iter().map(|block| {
                let text = |name: &str| block[name].as_str().map(str::to_owned);
                let call = || text("id").or_else(|| text("tool_use_id"));
                text("text").or_else(call).unwrap_or_default()
            })),
        }
    }
    texts
}

#[test]
fn every_change_of_turns_says_what_it_does() {
    let mut text = String::new();
    for args in [
        &["drop", TALK, "2"][..],
        &["drop", TALK, "3-", "--dry-run"],
        &["drop", TALK, "--branch", "e3"],
        &["keep", TALK, "2,4"],
        &["split", TALK, "--at", "3"],
        &["merge", TALK, OTHER, "1"],
        &["merge", TALK, "--branch", "d3"],
        &["diff", TALK, OTHER],
        &["diff", TALK, "@e3"],
        &["diff", TALK, TALK],
    ] {
        let env = talk();
        writeln!(text, "### quipu {}\n{}", args.join(" "), run(&env, args)).unwrap();
    }
    assert_snapshot!(text);
}

#[test]
fn what_cannot_be_done_is_refused_and_nothing_is_written() {
    let mut text = String::new();
    let env = talk();
    env.put("bad.txt", "keep 1\nkeep 3\nkeep 2\n");
    env.put("first.txt", "squash 1\nkeep 2\n");
    env.put("reword.txt", "reword 2\n");
    let before = fs::read_dir(env.path(".claude/projects/-home-dev-demo")).unwrap().count();
    for args in [
        &["drop", TALK, "1-4"][..],
        &["drop", TALK, "5"],
        &["drop", TALK, "3-9"],
        &["drop", TALK, "x"],
        &["drop", TALK],
        &["drop", TALK, "--branch", "p3"],
        &["drop", TALK, "--branch", "zzzz"],
        &["keep", TALK, "0"],
        &["split", TALK, "--at", "1"],
        &["split", TALK, "--at", "5"],
        &["split", TALK, "--at", "2", "-o", "-"],
        &["merge", TALK, TALK],
        &["merge", TALK, OTHER, "3"],
        &["merge", TALK],
        &["edit", TALK],
        &["edit", TALK, "--plan", "bad.txt"],
        &["edit", TALK, "--plan", "first.txt"],
        &["edit", TALK, "--plan", "reword.txt"],
        &["edit", TALK, "--plan", "none.txt"],
        &["diff", TALK, "@ffff"],
    ] {
        writeln!(text, "### quipu {}\n{}", args.join(" "), run(&env, args)).unwrap();
    }
    assert_eq!(fs::read_dir(env.path(".claude/projects/-home-dev-demo")).unwrap().count(), before);
    assert_snapshot!(text);
}

#[test]
fn turns_go_and_stay_as_asked() {
    let env = talk();
    let all = sent(&env, TALK);
    for (args, wanted) in [
        (&["drop", TALK, "2"][..], [&all[..2], &all[6..]].concat()),
        (&["drop", TALK, "-1"], all[2..].to_vec()),
        (&["drop", TALK, "3-4"], all[..6].to_vec()),
        (&["keep", TALK, "3..4"], all[6..].to_vec()),
        (&["keep", TALK, "1,4"], [&all[..2], &all[8..]].concat()),
    ] {
        let env = talk();
        let output = run(&env, args);
        assert!(output.starts_with("exit 0"), "{output}");
        assert_eq!(sent(&env, NEW), wanted, "{args:?}");
    }
}

#[test]
fn a_session_that_was_split_says_the_same_when_it_is_merged() {
    for at in ["2", "3", "4"] {
        let env = talk();
        let output = run(&env, &["split", TALK, "--at", at]);
        assert!(output.starts_with("exit 0"), "{output}");
        let second = sent(&env, SECOND);
        assert!(
            second[0].contains("7a1c0000") && second[0].contains("first question"),
            "{second:?}"
        );
        let output = env.show(&env.output(&["merge", NEW, SECOND, "--in-place", "--force"]));
        assert!(output.starts_with("exit 0"), "{output}");
        assert_eq!(sent(&env, NEW), sent(&env, TALK), "{at}");
        let output = env.show(&env.output(&["diff", TALK, NEW]));
        assert!(output.contains("the same: 4 turns"), "{output}");
    }
}

#[test]
fn merged_turns_follow_with_ids_of_their_own() {
    let env = talk();
    let output = run(&env, &["merge", TALK, OTHER]);
    assert!(output.starts_with("exit 0"), "{output}");
    let mut wanted = sent(&env, TALK);
    wanted.extend(sent(&env, OTHER));
    let found = sent(&env, NEW);
    let calls: Vec<&str> =
        found.iter().map(String::as_str).filter(|text| text.starts_with("toolu")).collect();
    assert_eq!(calls, ["toolu_1", "toolu_1", "toolu_1x2", "toolu_1x2"]);
    let plain: Vec<String> = found.iter().map(|text| text.replace("x2", "")).collect();
    assert_eq!(plain, wanted);
    // A branch moves: it is not there twice.
    let output = run(&talk(), &["merge", TALK, "--branch", "d3", "--dry-run"]);
    assert!(output.contains("added: turn 1"), "{output}");
}

#[test]
fn a_change_of_turns_can_be_taken_back() {
    for args in [
        &["drop", TALK, "2", "--in-place"][..],
        &["keep", TALK, "2", "--in-place"],
        &["merge", TALK, OTHER, "--in-place"],
        &["merge", TALK, "--branch", "d3", "--in-place"],
    ] {
        let env = talk();
        let before = fs::read(env.path(&path(TALK))).unwrap();
        let args: Vec<&str> = args.iter().copied().chain(["--force"]).collect();
        let output = run(&env, &args);
        assert!(output.starts_with("exit 0"), "{output}");
        assert_ne!(fs::read(env.path(&path(TALK))).unwrap(), before, "{args:?}");
        let output = run(&env, &["undo"]);
        assert!(output.starts_with("exit 0"), "{output}");
        assert_eq!(fs::read(env.path(&path(TALK))).unwrap(), before, "{args:?}");
    }
}

/// The files below the projects, with what they contain.
fn files(env: &Env) -> Vec<(String, Vec<u8>)> {
    let top = env.path(".claude/projects");
    let (mut found, mut open) = (Vec::new(), vec![top.clone()]);
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(&top).unwrap().display().to_string();
                found.push((name, fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

/// Both halves are one change; with `--in-place`, the first is the session's own file.
#[test]
fn one_undo_takes_back_a_whole_split() {
    for args in [&["--at", "3"][..], &["--at", "3", "--in-place", "--force"]] {
        let env = talk();
        let before = files(&env);
        let output = run(&env, &[&["split", TALK], args].concat());
        assert!(output.starts_with("exit 0"), "{output}");
        assert_eq!(files(&env).len(), before.len() + if args.len() > 2 { 1 } else { 2 });
        let list = env.run(&["undo", "--list"]);
        assert_eq!(list.matches(" split ").count(), 1, "{list}");
        let output = env.run(&["undo"]);
        assert!(output.starts_with("exit 0"), "{output}");
        assert_eq!(files(&env), before, "{args:?}");
        assert!(env.run(&["undo"]).starts_with("exit 3"));
    }
    // Neither is written if one of the two cannot be.
    let env = talk();
    env.put("part-2.jsonl", "mine\n");
    let output = run(&env, &["split", TALK, "--at", "3", "-o", "part.jsonl"]);
    assert!(output.starts_with("exit 2") && output.contains("part-2.jsonl"), "{output}");
    assert!(!env.path("part-1.jsonl").exists());
}

/// What belongs to the turns comes along, also in place, in one change.
#[test]
fn a_merge_in_place_brings_sub_agents_and_results() {
    let agent = |text: &str| {
        let script = Script::new().prompt("s1", "-", text).says("s2", "s1", "m8", "done");
        script.text().replace("\"isSidechain\":false", "\"isSidechain\":true")
    };
    let env = talk();
    let result = r#""message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_7","content":"found"}]}"#;
    let from = Script::new()
        .wait(9_000)
        .prompt("o1", "-", "look into it")
        .call("oa", "o1", "m2", "toolu_7", "Task")
        .record("user", "or", "oa", &format!(r#""toolUseResult":{{"agentId":"a1"}},{result}"#))
        .says("ob", "or", "m7", "it is this");
    env.put(&path(OTHER), from.text());
    let project = ".claude/projects/-home-dev-demo";
    env.put(&format!("{project}/{OTHER}/subagents/agent-a1.jsonl"), agent("the other's"));
    env.put(&format!("{project}/{TALK}/subagents/agent-a1.jsonl"), agent("its own"));
    for (id, name, text) in [
        (OTHER, "new.txt", "1"),
        (OTHER, "both.txt", "2"),
        (TALK, "both.txt", "2"),
        (OTHER, "clash.txt", "3"),
        (TALK, "clash.txt", "4"),
    ] {
        env.put(&format!("{project}/{id}/tool-results/{name}"), text);
    }
    let before = files(&env);
    let output = run(&env, &["merge", TALK, OTHER, "--in-place", "--force"]);
    assert!(output.starts_with("exit 0"), "{output}");
    let words = output.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("clash.txt: the session has another file of that name"), "{output}");
    assert!(output.contains("copied") && !output.contains("both.txt"), "{output}");
    let folder = format!("-home-dev-demo/{TALK}");
    let new: Vec<(String, Vec<u8>)> = files(&env)
        .into_iter()
        .filter(|(name, _)| before.iter().all(|(known, _)| known != name))
        .collect();
    assert_eq!(new.len(), 2, "{:?}", new.iter().map(|(name, _)| name).collect::<Vec<_>>());
    assert!(new[0].0.starts_with(&format!("{folder}/subagents/agent-")));
    assert!(String::from_utf8_lossy(&new[0].1).contains("the other's"));
    assert_eq!(new[1], (format!("{folder}/tool-results/new.txt"), b"1".to_vec()));
    // It has another id, and its call knows it.
    let id = new[0].0.rsplit("agent-").next().unwrap().trim_end_matches(".jsonl").to_owned();
    let merged = fs::read_to_string(env.path(&path(TALK))).unwrap();
    assert!(id != "a1" && merged.contains(&format!("\"agentId\":\"{id}\"")), "{id}: {merged}");
    let output = env.run(&["undo"]);
    assert!(output.starts_with("exit 0"), "{output}");
    assert_eq!(files(&env), before);
}

/// Runs `edit` with an editor that is a line of shell; `$1` is the file.
fn edited(env: &Env, editor: &str) -> String {
    let mut command = env.command(&["edit", TALK]);
    env.show(&command.env("QUIPU_ID", NEW).env("EDITOR", editor).output().unwrap())
}

#[test]
fn a_plan_is_edited_and_carried_out() {
    let env = talk();
    let all = sent(&env, TALK);
    let plan =
        "sed -i -e 's/^keep 1/reword 1: better question/; s/^keep 2/strip 2/; s/^keep 4/squash 4/'";
    let output = edited(&env, plan);
    assert!(output.starts_with("exit 0"), "{output}");
    let found = sent(&env, NEW);
    assert_eq!(found[1..4], [all[1].as_str(), &all[2], &all[5]]);
    // What followed the number is the new text.
    assert!(found[0].starts_with("better question"));
    assert_eq!(found[4..], ["third question", "fourth question", "fourth answer"]);
    // The prompt alone.
    let env = talk();
    let output = edited(
        &env,
        "f() { sed -i -e 's/^keep 3/r 3/; s/third question$/third wish/' \"$1\"; }; f",
    );
    assert!(output.starts_with("exit 0"), "{output}");
    assert!(sent(&env, NEW).contains(&"third wish".to_owned()), "{:?}", sent(&env, NEW));
    let drafts = fs::read_dir(env.path(".local/state/quipu/drafts")).unwrap().count();
    assert_eq!(drafts, 0);
}

#[test]
fn a_plan_that_changes_nothing_or_is_refused_writes_nothing() {
    let env = talk();
    let output = edited(&env, "true");
    assert!(output.contains("the plan is unchanged"), "{output}");
    let output = edited(&env, ": >");
    assert!(output.contains("the plan is empty"), "{output}");
    let output = edited(&env, "false");
    assert!(output.starts_with("exit 2") && output.contains("failed"), "{output}");
    let output = edited(&env, "sed -i 's/^keep 2/pick 2/'");
    assert!(output.starts_with("exit 2"), "{output}");
    assert!(output.contains("line 2: `pick` is not known"), "{output}");
    assert!(output.contains("your plan is in"), "{output}");
    let kept: Vec<_> = fs::read_dir(env.path(".local/state/quipu/drafts")).unwrap().collect();
    let texts = kept.iter().map(|file| fs::read_to_string(file.as_ref().unwrap().path()).unwrap());
    assert!(texts.into_iter().any(|text| text.contains("pick 2")));
    assert!(!env.path(&path(NEW)).exists());
}

/// A program gets the proof also if there is nothing to do, and learns that a file is not there.
#[test]
fn a_plan_in_a_file_is_for_programs_too() {
    let env = talk();
    env.put("plan", "keep 1\nkeep 2\nkeep 3\nkeep 4\n");
    let output = env.output(&["edit", TALK, "--plan", "plan", "--json"]);
    assert!(output.status.success(), "{}", env.show(&output));
    let proof: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(proof["path"], serde_json::Value::Null);
    assert_eq!(proof["before"]["bytes"], proof["after"]["bytes"]);
    let output = run(&env, &["edit", TALK, "--plan", "no-such-plan"]);
    assert!(output.starts_with("exit 3\n") && output.contains("`no-such-plan`"), "{output}");
}

/// A refusal says what would be wrong with the result, and where.
#[test]
fn a_refusal_says_why() {
    let env = Env::bare();
    let id = "a20437f7-1ced-4ad1-9c68-2d544963051f";
    let from = "recordings/2.1.45/f_resume/projects/-home-dev-demo";
    let project = env.path(".claude/projects/-home-dev-demo");
    testkit::copy_folder(&testkit::fixtures().join(from), &project).unwrap();
    let output = run(&env, &["keep", id, "1"]);
    assert!(output.starts_with("exit 6\n"), "{output}");
    let reasons = output.lines().filter(|line| line.starts_with("  ") && line.contains(": line "));
    assert!(reasons.count() > 0, "{output}");
    assert!(output.contains("quipu check") && output.contains("another turn"), "{output}");
    assert!(!output.contains("should not happen"), "{output}");
}
