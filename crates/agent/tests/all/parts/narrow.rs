//! Definitions of agents only take away: for the main agent and for sub-agents alike.

use super::*;

fn narrow() -> Value {
    json!({"narrow": {
        "description": "Narrow", "prompt": "Be narrow.",
        "tools": ["Bash(echo:*)", "Read", "Agent(scout)"], "disallowedTools": ["Read(secret.txt)"],
    }, "scout": {"description": "Looks", "prompt": "Look."}})
}

/// What the agent tries, and a part of the result.
fn tries() -> Vec<(Value, &'static str)> {
    let task = json!({"description": "d", "prompt": "x", "subagent_type": "general-purpose"});
    vec![
        (calls("Bash", &json!({"command": "echo fine"})), "fine"),
        (calls("Bash", &json!({"command": "echo fine && touch made"})), "has only `Bash(echo:*)`"),
        (calls("Bash", &json!({"command": "touch made"})), "has only `Bash(echo:*)`"),
        (calls("Read", &json!({"file_path": "a.txt"})), "alpha"),
        (calls("Read", &json!({"file_path": "secret.txt"})), "denies it"),
        (calls("Write", &json!({"file_path": "made", "content": ""})), "No such tool available"),
        (calls("Task", &task), "Available agents: scout"),
    ]
}

fn assert_narrow(lab: &Lab, results: &[(AgentId, String)]) {
    for ((_, wanted), (_, result)) in tries().iter().zip(results) {
        assert!(result.contains(wanted), "{wanted}: {result}");
    }
    assert!(!lab.path("project/made").exists());
}

fn lab() -> Lab {
    let mut lab = Lab::new(&json!({}));
    fs::write(lab.path("project/secret.txt"), "hidden\n").unwrap();
    lab.agents = Some(narrow());
    lab
}

#[test]
fn the_definition_of_the_main_agent_takes_away_what_it_takes_from_a_sub_agent() {
    let mut lab = lab();
    lab.agent = Some("narrow".to_owned());
    let replies: Vec<Value> =
        tries().into_iter().map(|(call, _)| call).chain([says("Done.")]).collect();
    let done = lab.run(&json!({"replies": replies}), Origin::New, &["Go."]);
    assert_eq!(done.results().len(), tries().len(), "{:?}", done.outcomes());
    assert_narrow(&lab, &done.results());
}

#[test]
fn patterns_in_the_definition_of_a_sub_agent_are_rules() {
    let lab = lab();
    let task = json!({"description": "d", "prompt": "Go.", "subagent_type": "narrow"});
    let replies: Vec<Value> =
        tries().into_iter().map(|(call, _)| call).chain([says("Tried.")]).collect();
    let script = json!({
        "replies": [calls("Agent", &task), says("Done.")],
        "rules": [{"match": {"system_contains": "Be narrow."}, "replies": replies}],
    });
    let done = lab.run(&script, Origin::New, &["Go."]);
    let inner: Vec<(AgentId, String)> =
        done.results().into_iter().filter(|(agent, _)| *agent != AgentId::Main).collect();
    assert_eq!(inner.len(), tries().len(), "{:?}", done.results());
    assert_narrow(&lab, &inner);
}

#[test]
fn the_main_agent_has_the_mode_and_the_limit_of_its_definition() {
    let mut lab = Lab::new(&json!({}));
    lab.agents = Some(json!({"planner": {
        "description": "Plans", "prompt": "Plan.", "permissionMode": "plan", "maxTurns": 1,
    }}));
    lab.agent = Some("planner".to_owned());
    let write = calls("Write", &json!({"file_path": "made", "content": ""}));
    let done = lab.run(&json!({"replies": [write, says("Done.")]}), Origin::New, &["Go."]);
    assert_eq!(done.outcomes()[0].0, Outcome::MaxTurns(1));
    assert!(
        done.results()[0].1.contains("in plan mode nothing is changed"),
        "{:?}",
        done.results()
    );
    assert!(!lab.path("project/made").exists());
}
