use std::sync::mpsc;

use super::*;
use crate::api::script::Script;
use crate::host::Listener;
use crate::permit::Permit;
use crate::session::{Parts, Session};
use crate::subagent::Kinds;

struct Nobody;

impl Listener for Nobody {
    fn event(&mut self, _: &AgentId, _: &Event) {}
}

impl Host for Nobody {}

/// What holds commands knows only the mode of the tools: it is as narrow as the rules are.
#[test]
fn the_tools_of_a_sub_agent_work_in_its_mode_whatever_the_session_switches_to() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let script = Arc::new(Script::read("{}", &[]).unwrap());
    let permit = Permit { mode: Mode::AcceptEdits, ..Permit::default() };
    let parts = Parts::new((script, "claude-sonnet-5-5"), &root, "s", permit);
    let mut driver = Session::assemble(parts, mpsc::channel().0).driver;
    let mut kinds = Kinds::built_in();
    kinds.add_json(&json!({"planner": {"description": "d", "permissionMode": "plan"}}));
    let nested = |mode| Nested {
        parent: AgentId::Main,
        call: "c".to_owned(),
        kind: "planner".to_owned(),
        description: String::new(),
        prompt: String::new(),
        depth: 1,
        is_background: false,
        is_built_in: false,
        mode,
        hooks: HookBook::default(),
    };
    let main = driver.agents.remove(&AgentId::Main).unwrap();
    let (planner, free) = (nested(Some(Mode::Plan)), nested(None));
    let kind = kinds.find("planner").unwrap();
    let one = driver.child(&main, kind, &planner, "");
    let other = driver.child(&main, kind, &free, "");
    let ids = [one.id.clone(), other.id.clone()];
    let modes =
        |driver: &Driver| ids.clone().map(|id| *driver.agents[&id].site.mode.lock().unwrap());
    driver.agents.extend([(one.id.clone(), one), (other.id.clone(), other)]);
    driver.agents.insert(AgentId::Main, main);
    driver.nested.extend(ids.iter().cloned().zip([planner, free]));
    assert_eq!(modes(&driver), [Mode::Plan, Mode::AcceptEdits]);
    driver.set_mode(Mode::Bypass, &mut Nobody);
    assert_eq!(modes(&driver), [Mode::Plan, Mode::Bypass]);
    driver.set_mode(Mode::Plan, &mut Nobody);
    assert_eq!(modes(&driver), [Mode::Plan, Mode::Plan]);
}
