use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use testkit::session::Script;

use super::*;

fn put(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// The sub-agents of the session `s`, one line each.
fn agents_of(folder: &Path) -> String {
    let family = WithAgents::open(&Session::at(&folder.join("s.jsonl")).unwrap()).unwrap();
    let mut text = String::new();
    for agent in &family.agents {
        write!(text, "{} {}", agent.id, agent.purpose.name()).unwrap();
        if let Some(start) = agent.start {
            let conversation = family.of(start.owner);
            let call = conversation.table.text(conversation.table.block(start.call).id).unwrap();
            let owner = match start.owner {
                Owner::Main => "main".to_owned(),
                Owner::Agent(at) => family.agents[at].id.to_string(),
            };
            let guess = if start.is_guess { ", a guess" } else { "" };
            write!(text, " started by {call} of {owner} ({}{guess})", start.how.name()).unwrap();
        }
        if agent.is_background {
            text.push_str(" in the background");
        }
        if let Some((_, row)) = agent.notified {
            write!(text, " told at row {}", row.0).unwrap();
        }
        text.push('\n');
    }
    text
}

fn spawn(call: &str, prompt: &str) -> String {
    format!(r#"{{"type":"tool_use","id":"{call}","name":"Task","input":{{"prompt":"{prompt}"}}}}"#)
}

fn agent(prompt: &str) -> Script {
    let members = format!(r#""isSidechain":true,"message":{{"role":"user","content":"{prompt}"}}"#);
    Script::new().record("user", prompt, "-", &members)
}

#[test]
fn a_sub_agent_is_joined_by_the_surest_sign() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let result = |agent: &str, call: &str, more: &str| {
        format!(
            r#""toolUseResult":{{"agentId":"{agent}"{more}}},"message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{call}"}}]}}"#
        )
    };
    let note =
        "<task-notification><task-id>a5</task-id><tool-use-id>t5</tool-use-id></task-notification>";
    let main = Script::new()
        .prompt("p", "-", "go")
        .block("c1", "p", "m1", &spawn("t1", "one"))
        .block("c2", "c1", "m1", &spawn("t2", "two"))
        .block("c3", "c2", "m1", &spawn("t3", "three"))
        .block("c4", "c3", "m1", &spawn("t4", "four"))
        .block("c5", "c4", "m1", &spawn("t5", "five"))
        .record("user", "r2", "c2", &result("a2", "t2", ""))
        .record(
            "progress",
            "g",
            "c3",
            r#""parentToolUseID":"t3","data":{"type":"agent_progress","agentId":"a3"}"#,
        )
        .record("user", "r5", "c5", &result("a5", "t5", r#","isAsync":true"#))
        .prompt("n", "r5", note);
    put(folder, "s.jsonl", main.text());
    put(folder, "s/subagents/agent-a1.jsonl", agent("other words").text());
    put(folder, "s/subagents/agent-a1.meta.json", r#"{"agentType":"x","toolUseId":"t1"}"#);
    put(folder, "s/subagents/agent-a2.jsonl", agent("x").text());
    put(folder, "s/subagents/agent-a3.jsonl", agent("y").text());
    put(folder, "s/subagents/agent-a4.jsonl", agent("four").text());
    let nesting = agent("five").block("n1", "five", "m9", &spawn("t9", "deeper"));
    put(folder, "s/subagents/agent-a5.jsonl", nesting.text());
    put(folder, "s/subagents/agent-a6.jsonl", agent("deeper").text());
    put(folder, "s/subagents/agent-a7.jsonl", agent("nobody asked").text());
    put(folder, "s/subagents/agent-acompact-1f.jsonl", agent("sum up").text());
    put(folder, "s/subagents/agent-aprompt_suggestion-2e.jsonl", agent("suggest").text());
    put(folder, "agent-0badcafe.jsonl", agent("Warmup").text());
    insta::assert_snapshot!(agents_of(folder), @r"
    0badcafe warm-up
    a1 task started by t1 of main (sidecar)
    a2 task started by t2 of main (result)
    a3 task started by t3 of main (progress)
    a4 task started by t4 of main (prompt)
    a5 task started by t5 of main (result) in the background told at row 9
    a6 task started by t9 of a5 (prompt)
    a7 task
    acompact-1f compaction
    aprompt_suggestion-2e suggestion
    ");
}

#[test]
fn equal_prompts_are_a_guess() {
    let folder = tempfile::tempdir().unwrap();
    let side = |uuid: &str, under: &str, parent: &str| {
        format!(
            r#"{{"type":"user","uuid":"{uuid}","parentUuid":{parent},"isSidechain":true,"message":{{"role":"user","content":"{under}"}}}}"#
        )
    };
    let main = Script::new()
        .prompt("p", "-", "go")
        .block("c1", "p", "m1", &spawn("t1", "same"))
        .block("c2", "c1", "m1", &spawn("t2", "same"))
        .raw(&side("s1", "same", "null"))
        .raw(&side("s2", "same", "null"))
        .raw(&side("s3", "same", "null"))
        .block("c3", "c2", "m1", &spawn("t3", "hung"))
        .raw(&side("s4", "anything", "\"c3\""));
    put(folder.path(), "s.jsonl", main.text());
    insta::assert_snapshot!(agents_of(folder.path()), @r"
    line-4 task started by t1 of main (prompt, a guess)
    line-5 task started by t2 of main (prompt, a guess)
    line-6 task
    line-8 task started by t3 of main (parent)
    ");
}

#[test]
fn sidechains_start_sidechains_and_none_starts_itself() {
    let folder = tempfile::tempdir().unwrap();
    let side = |kind: &str, uuid: &str, parent: &str, message: &str| {
        format!(
            r#"{{"type":"{kind}","uuid":"{uuid}","parentUuid":{parent},"isSidechain":true,"message":{message}}}"#
        )
    };
    let says = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
    let calls = |call: &str, prompt: &str| {
        format!(r#"{{"id":"m-{call}","role":"assistant","content":[{}]}}"#, spawn(call, prompt))
    };
    let main = Script::new()
        .prompt("p", "-", "go")
        .block("c1", "p", "m1", &spawn("t1", "outer"))
        .raw(&side("user", "s1", "null", &says("outer")))
        .raw(&side("assistant", "s2", "\"s1\"", &calls("t2", "inner")))
        .raw(&side("user", "s3", "null", &says("inner")))
        .raw(&side("user", "s4", "null", &says("myself")))
        .raw(&side("assistant", "s5", "\"s4\"", &calls("t3", "myself")));
    put(folder.path(), "s.jsonl", main.text());
    insta::assert_snapshot!(agents_of(folder.path()), @r"
    line-3 task started by t1 of main (prompt)
    line-5 task started by t2 of line-3 (prompt)
    line-6 task
    ");
}

#[test]
fn agents_that_name_each_other_and_one_that_was_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let result = |agent: &str, call: &str| {
        format!(
            r#""toolUseResult":{{"agentId":"{agent}"}},"message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{call}"}}]}}"#
        )
    };
    let main = Script::new()
        .prompt("p", "-", "go")
        .block("c1", "p", "m1", &spawn("t1", "one"))
        .record("user", "r1", "c1", &result("again", "t1"))
        .block("c2", "r1", "m2", &spawn("t2", "more"))
        .record("user", "r2", "c2", &result("again", "t2"));
    put(folder, "s.jsonl", main.text());
    put(folder, "s/subagents/agent-again.jsonl", agent("one").text());
    let naming = |prompt: &str, other: &str| {
        agent(prompt).block("x", prompt, "mx", &spawn("tx", "?")).record(
            "user",
            "y",
            "x",
            &result(other, "tx"),
        )
    };
    put(folder, "s/subagents/agent-left.jsonl", naming("l", "right").text());
    put(folder, "s/subagents/agent-right.jsonl", naming("r", "left").text());
    insta::assert_snapshot!(agents_of(folder), @r"
    again task started by t1 of main (result)
    left task
    right task started by tx of left (result)
    ");
    let family = WithAgents::open(&Session::at(&folder.join("s.jsonl")).unwrap()).unwrap();
    let calls: Vec<BlockId> = join::calls(&family.main).into_values().collect();
    assert!(calls.iter().all(|call| family.started(Owner::Main, *call) == [0]));
}
