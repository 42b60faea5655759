//! Sub-agents: their files, laid beside those of the original.

use super::*;

/// The records of a conversation, without what the API and the clock say.
fn tree(text: &str) -> Vec<Value> {
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let is_said = |line: &Value| line["type"] == "user" || line["type"] == "assistant";
    let records = lines.filter(is_said).map(|mut line| {
        line["message"].as_object_mut().unwrap().shift_remove("usage");
        line
    });
    records.collect()
}

/// What the real client was asked for in the scenario `e_agent` comes again: our sub-agent's file
/// is compared with its file, member by member.
#[test]
fn records_of_a_sub_agent_are_those_of_the_original() {
    let recorded = testkit::fixtures().join("recordings/2.1.45/e_agent/projects/-home-dev-demo");
    let all = testkit::files_under(&[recorded]);
    let is_agent = |path: &std::path::Path| path.to_string_lossy().contains("subagents");
    let theirs = all.iter().find(|file| is_agent(&file.path)).unwrap();
    let mut lab = Lab::says(&[]);
    let here = fs::canonicalize(lab.cwd()).unwrap().display().to_string();
    let theirs = String::from_utf8(theirs.bytes.clone()).unwrap().replace("/home/dev/demo", &here);
    let theirs = tree(&theirs);
    let mut inner: Vec<(String, Vec<Value>)> = Vec::new();
    for line in theirs.iter().filter(|line| line["type"] == "assistant") {
        let id = line["message"]["id"].as_str().unwrap().to_owned();
        let blocks = line["message"]["content"].as_array().unwrap().clone();
        match inner.last_mut().filter(|(last, _)| *last == id) {
            Some((_, all)) => all.extend(blocks),
            None => inner.push((id, blocks)),
        }
    }
    let prompt = theirs[0]["message"]["content"].as_str().unwrap();
    let task = json!({"description": "Inspect widget", "prompt": prompt, "subagent_type": "general-purpose"});
    let mut answers = vec![vec![text("I will delegate this."), call("toolu_task", "Task", &task)]];
    answers.extend(inner.into_iter().map(|(_, blocks)| blocks));
    answers.push(vec![text("The helper reports one function, count.")]);
    lab.server = Server::start(answers).unwrap();
    let out = lab.new_session(&["--dangerously-skip-permissions", "Use a helper."]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let folder = lab.file(SESSION).with_extension("").join("subagents");
    let files = testkit::files_under(&[folder]);
    let ours = files.iter().find(|file| file.path.extension().is_some_and(|end| end == "jsonl"));
    let ours = tree(std::str::from_utf8(&ours.unwrap().bytes).unwrap());
    assert_eq!(ours.len(), theirs.len());
    let mut out = String::new();
    for (their, our) in theirs.iter().zip(&ours) {
        let (left, right) = (names(their), names(our));
        if left != right {
            writeln!(out, "members\n  {left}\n  {right}").unwrap();
        }
        let (left, right) = (&their["message"]["content"], &our["message"]["content"]);
        if left != right {
            writeln!(out, "says\n  {left}\n  {right}").unwrap();
        }
    }
    assert_snapshot!("agent_beside_the_original", lab.clean(&out));
    // The parent's result has the same members as well.
    let parent = all.iter().find(|file| !is_agent(&file.path)).unwrap();
    let parent = String::from_utf8(parent.bytes.clone()).unwrap();
    let detail = |lines: &[Value]| -> Value {
        let found = lines.iter().find(|line| line["toolUseResult"]["status"] == "completed");
        found.unwrap()["toolUseResult"].clone()
    };
    let mut theirs = detail(&tree(&parent));
    let mut ours = detail(&lab.lines(SESSION));
    for side in [&mut theirs, &mut ours] {
        // The API's own.
        side.as_object_mut().unwrap().shift_remove("usage");
    }
    assert_eq!(names(&theirs), names(&ours));
    assert_eq!(theirs["content"], ours["content"]);
    assert_eq!(theirs["totalToolUseCount"], ours["totalToolUseCount"]);
    assert_eq!(lab.check(SESSION), "full []");
}

/// What is sent after a resume begins with what was sent before: also the name of the tool.
#[test]
fn a_resume_calls_sub_agents_as_they_were_called() {
    let task =
        json!({"description": "Count", "prompt": "LAB count", "subagent_type": "general-purpose"});
    let mut lab = Lab::says(&[
        &[call("c1", "Task", &task)],
        &[text("There are three.")],
        &[text("Three, the helper says.")],
        &[text("Later.")],
    ]);
    let out = lab.new_session(&["How many are there?"]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let out = lab.run(&["--resume", SESSION, "And now?"]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let requests = lab.server.requests();
    assert_eq!(requests.len(), 4);
    let (before, after) = (bare(&requests[2]), bare(&requests[3]));
    assert!(before[1].to_string().contains(r#""name":"Task""#), "{before:?}");
    assert_eq!(before[..], after[..before.len()]);
    assert_eq!(requests[2]["tools"], requests[3]["tools"]);
}
