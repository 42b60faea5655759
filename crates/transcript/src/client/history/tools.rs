//! What a client changes in calls and results because of the tools that it has: tool names, members
//! of calls, references to tools.
//!
//! Which tools there are depends on the machine (MCP servers, plugins). Here, a client has only its
//! own tools, as it was observed.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::block::SentBlock;
use super::rules::{Calls, References, Rules};
use crate::format::content::BlockKind;
use crate::format::json::{Json, Shape, quote};

/// The tool that starts sub-agents: its old and its new name.
const TASK: [&str; 2] = ["Task", "Agent"];

const GONE: &str = "[Tool references removed - tools no longer available]";
const NOT_ENABLED: &str = "[Tool references removed - tool search not enabled]";

/// The tools of 2.1.29 and 2.1.45.
const OLDER: &[&str] = &[
    "Task",
    "TaskOutput",
    "Bash",
    "Glob",
    "Grep",
    "ExitPlanMode",
    "Read",
    "Edit",
    "Write",
    "NotebookEdit",
    "WebFetch",
    "TodoWrite",
    "WebSearch",
    "TaskStop",
    "AskUserQuestion",
    "Skill",
    "EnterPlanMode",
];

/// The tools of 2.1.325, including those that it loads on demand.
const NEWEST: &[&str] = &[
    "Agent",
    "Bash",
    "Edit",
    "ListAgents",
    "Read",
    "ReportFindings",
    "ScheduleWakeup",
    "Skill",
    "ToolSearch",
    "Workflow",
    "Write",
    "AskUserQuestion",
    "CronCreate",
    "CronDelete",
    "CronList",
    "EnterPlanMode",
    "EnterWorktree",
    "ExitPlanMode",
    "ExitWorktree",
    "Monitor",
    "NotebookEdit",
    "SendMessage",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskStop",
    "TaskUpdate",
    "WebFetch",
    "WebSearch",
];

/// The text that the newest client adds after references to tools.
pub(super) fn loaded(blocks: &[SentBlock], rules: Rules) -> Option<SentBlock> {
    let has_reference = |block: &SentBlock| {
        if block.kind() != BlockKind::ToolResult || !may_refer(block) {
            return false;
        }
        let content = block.json().get("content");
        content.into_iter().flat_map(Json::elements).any(|part| is_reference(&part))
    };
    (rules.references == References::Offered && blocks.iter().any(has_reference))
        .then(|| SentBlock::text("Tool loaded."))
}

/// A block as the client sends it with the tools that it has.
pub(super) fn fitted(block: SentBlock, rules: Rules) -> SentBlock {
    match block.kind() {
        BlockKind::ToolUse => call(block, rules),
        BlockKind::ToolResult => result(block, rules),
        _ => block,
    }
}

/// Whether a result may contain references to tools. Almost none does, and the others need not be
/// parsed.
fn may_refer(block: &SentBlock) -> bool {
    REFERENCE.find(block.raw()).is_some()
}

static REFERENCE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("tool_reference"));

fn is_reference(part: &Json<'_>) -> bool {
    part.get("type").is_some_and(|name| name.is("tool_reference"))
}

fn call(block: SentBlock, rules: Rules) -> SentBlock {
    let Some(object) = block.json().object() else { return block };
    let name = object.get("name");
    let is = |wanted: &str| name.is_some_and(|name| name.is(wanted));
    let renamed = (rules.renames_tasks && is(TASK[0])).then(|| quote(TASK[1]).into_bytes());
    let input = object.get("input").filter(|_| rules.drops_plans && is("ExitPlanMode"));
    let without_plan = input.and_then(Json::object).map(|input| {
        let members = input.members().filter(|(name, _)| name != "plan");
        let members = members.map(|(name, value)| member(&name, value.raw()));
        [b"{", members.collect::<Vec<_>>().join(&b","[..]).as_slice(), b"}"].concat()
    });
    let changed = [("name", renamed), ("input", without_plan)];
    let is_plain = match rules.calls {
        Calls::AsStored => false,
        Calls::PlainWithCaller => object.get("caller").is_some(),
        Calls::Plain => true,
    };
    if !is_plain {
        let changed = changed.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        return changed.fold(block.clone(), |block, (name, value)| block.with(name, value));
    }
    let members = ["type", "id", "name", "input"].into_iter().filter_map(|name| {
        let other =
            changed.iter().find(|(known, _)| *known == name).and_then(|(_, to)| to.as_deref());
        Some(member(name, other.or_else(|| object.get(name).map(Json::raw))?))
    });
    let raw = [b"{", members.collect::<Vec<_>>().join(&b","[..]).as_slice(), b"}"].concat();
    block.with_raw(raw)
}

fn member(name: &str, value: &[u8]) -> Vec<u8> {
    [quote(name).as_bytes(), b":", value].concat()
}

fn result(block: SentBlock, rules: Rules) -> SentBlock {
    if !may_refer(&block) {
        return block;
    }
    let content = block.json().get("content").filter(|content| content.shape() == Shape::Array);
    let Some(content) =
        content.filter(|content| content.elements().any(|part| is_reference(&part)))
    else {
        return block;
    };
    let is_offered = |part: &Json<'_>, tools: &[&str]| {
        part.get("tool_name").is_some_and(|name| tools.iter().any(|tool| name.is(tool)))
    };
    let kept = |keeps: &dyn Fn(&Json<'_>) -> bool| -> Vec<&[u8]> {
        let parts = content.elements().filter(|part| !is_reference(part) || keeps(part));
        parts.map(Json::raw).collect()
    };
    let (kept, text) = match rules.references {
        References::AsStored => return block,
        References::Dropped => (kept(&|_| false), NOT_ENABLED),
        References::Offered => (kept(&|part| is_offered(part, NEWEST)), GONE),
        References::OfferedThenDropped => {
            let is_any = !kept(&|part| is_offered(part, OLDER)).is_empty();
            (kept(&|_| false), if is_any { NOT_ENABLED } else { GONE })
        }
    };
    let list =
        if kept.is_empty() { SentBlock::text(text).raw().to_vec() } else { kept.join(&b","[..]) };
    block.with("content", &[b"[", list.as_slice(), b"]"].concat())
}
