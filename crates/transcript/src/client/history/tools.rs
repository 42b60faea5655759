//! What a client changes in calls and results because of the tools that it has: tool names, members
//! of calls, references to tools.
//!
//! Which tools there are depends on the machine (MCP servers, plugins). Here, a client has only its
//! own tools, as it was observed.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::block::SentBlock;
use super::listed::VersionChange;
use super::rules::{Calls, Plans, References, Rules};
use crate::format::content::BlockKind;
use crate::format::json::{Json, Object, Shape, quote};

/// A tool whose calls some versions send under another name.
struct Renamed {
    /// The name in the file.
    old: &'static str,
    /// The name that is sent.
    new: &'static str,
    /// The first version that does so.
    since: [u32; 3],
    /// The first version that no longer does.
    until: [u32; 3],
    /// A case that shows both.
    case: &'static str,
}

const ALWAYS: [u32; 3] = [u32::MAX; 3];

const fn renamed_tool(
    old: &'static str,
    new: &'static str,
    [since, until]: [[u32; 3]; 2],
    case: &'static str,
) -> Renamed {
    Renamed { old, new, since, until, case }
}

const RENAMED: &[Renamed] = &[
    renamed_tool("Task", "Agent", [[2, 1, 63], ALWAYS], "alias_Task"),
    renamed_tool("KillShell", "TaskStop", [[2, 1, 51], [2, 1, 304]], "alias_KillShell"),
    renamed_tool(
        "AgentOutputTool",
        "TaskOutput",
        [[2, 1, 51], [2, 1, 277]],
        "alias_AgentOutputTool",
    ),
    renamed_tool("BashOutput", "TaskOutput", [[2, 1, 160], [2, 1, 277]], "alias_BashOutput"),
];

const GONE: &str = "[Tool references removed - tools no longer available]";
const NOT_ENABLED: &str = "[Tool references removed - tool search not enabled]";

/// The tools of 2.1.8 to 2.1.58, except those in `newer`.
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
    "AskUserQuestion",
    "Skill",
    "EnterPlanMode",
];

/// What versions have besides these: since which version. The case `refs_old` shows the changes.
const NEWER: &[([u32; 3], &[&str])] = &[
    ([0; 3], &["KillShell"]),
    ([2, 1, 19], &["TaskStop"]),
    ([2, 1, 51], &["TaskStop", "EnterWorktree"]),
];

/// The tools of 2.1.304 to 2.1.325 when they print one answer, including those that are loaded on
/// demand, and old names that they still know. Without print mode, `AskUserQuestion`,
/// `EnterPlanMode` and `ExitPlanMode` are there, too.
const NEWEST: &[&str] = &[
    "Agent",
    "Bash",
    "CronCreate",
    "CronDelete",
    "CronList",
    "Edit",
    "EnterWorktree",
    "ExitWorktree",
    "KillShell",
    "ListAgents",
    "NotebookEdit",
    "Read",
    "ReportFindings",
    "ScheduleWakeup",
    "SendMessage",
    "Skill",
    "Task",
    "TaskStop",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Workflow",
    "Write",
];

/// The first version with the tool `Monitor`.
const MONITOR: [u32; 3] = [2, 1, 310];

/// The tools that 2.1.325 has in addition for models that do not accept messages of the role
/// `system`.
const FOR_OLDER_MODELS: &[&str] = &["TaskCreate", "TaskGet", "TaskList", "TaskUpdate"];

/// What changed between versions.
pub(super) fn changes() -> Vec<VersionChange> {
    let renamed = RENAMED.iter().flat_map(|Renamed { old, new, since, until, case }| {
        [
            VersionChange::new(*since, format!("calls of `{old}` are sent as `{new}`"), case),
            VersionChange::new(*until, format!("calls of `{old}` keep their name"), case),
        ]
    });
    let newer = NEWER.iter().map(|(since, tools)| {
        let what = format!("besides the older tools, there are: `{}`", tools.join("`, `"));
        VersionChange::new(*since, what, "refs_old")
    });
    let monitor = VersionChange::new(MONITOR, "there is a tool `Monitor`", "ref_one_Monitor");
    let all = renamed.chain(newer).chain([monitor]);
    all.filter(|one| one.since != ALWAYS).collect()
}

/// The text that the newest client adds after references to tools.
fn loaded(blocks: &[SentBlock], rules: Rules) -> Option<SentBlock> {
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

/// A call as the client sends it.
pub(super) fn fitted(block: SentBlock, rules: Rules) -> SentBlock {
    if block.kind() == BlockKind::ToolUse { call(block, rules) } else { block }
}

/// Omits references to tools that the client does not have for this model, and adds what it says
/// about the others.
pub(super) fn refer(blocks: &mut Vec<SentBlock>, rules: Rules, takes_system: bool) {
    let results = blocks.iter_mut().filter(|block| block.kind() == BlockKind::ToolResult);
    for block in results.filter(|block| may_refer(block)) {
        *block = result(block.clone(), rules, takes_system);
    }
    blocks.extend(loaded(blocks, rules));
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
    let name = object.get("name").and_then(Json::text).unwrap_or_default();
    let renamed = renamed(&name, rules).map(|name| quote(name).into_bytes());
    let input = object.get("input").and_then(Json::object);
    let input = input.and_then(|input| {
        let omitted = omitted(&name, &input, rules);
        let is_kept = |name: &str| !omitted.contains(&name);
        if input.members().all(|(name, _)| is_kept(&name)) {
            return None;
        }
        let members = input.members().filter(|(name, _)| is_kept(name));
        let members = members.map(|(name, value)| member(&name, value.raw()));
        Some([b"{", members.collect::<Vec<_>>().join(&b","[..]).as_slice(), b"}"].concat())
    });
    let changed = [("name", renamed), ("input", input)];
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

/// The name that a tool has now.
fn renamed(name: &str, rules: Rules) -> Option<&'static str> {
    let known = RENAMED
        .iter()
        .filter(|_| !rules.keeps_names)
        .find(|one| one.old == name && (one.since..one.until).contains(&rules.version));
    known.map(|known| known.new)
}

/// What a version has besides the older tools.
fn newer(rules: Rules) -> &'static [&'static str] {
    let newer = NEWER.iter().rev().find(|(since, _)| *since <= rules.version);
    newer.map_or(&[], |(_, tools)| tools)
}

/// The members of a call's input that the client does not send.
fn omitted(tool: &str, input: &Object<'_>, rules: Rules) -> &'static [&'static str] {
    let has = |name: &str| input.get(name).is_some();
    match tool {
        "ExitPlanMode" => match rules.plans {
            Plans::Sent => &[],
            Plans::Omitted => &["plan"],
            Plans::OmittedWithPath => &["plan", "planFilePath"],
        },
        "Edit" if rules.drops_single_edits && has("edits") => {
            &["old_string", "new_string", "replace_all"]
        }
        "SendMessage" if rules.drops_old_messages && has("to") && has("message") => {
            &["type", "recipient", "content", "request_id", "approve"]
        }
        _ => &[],
    }
}

fn member(name: &str, value: &[u8]) -> Vec<u8> {
    [quote(name).as_bytes(), b":", value].concat()
}

fn result(block: SentBlock, rules: Rules, takes_system: bool) -> SentBlock {
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
        References::Offered => {
            let is_known = |part: &Json<'_>| {
                is_offered(part, NEWEST)
                    || (!takes_system && is_offered(part, FOR_OLDER_MODELS))
                    || (rules.version >= MONITOR && is_offered(part, &["Monitor"]))
            };
            (kept(&is_known), GONE)
        }
        References::OfferedThenDropped => {
            // It knows both names of a tool that it renames.
            let is_renamed = |part: &Json<'_>| {
                let name = part.get("tool_name").and_then(Json::text).unwrap_or_default();
                renamed(&name, rules).is_some()
                    || (name == "Agent" && renamed("Task", rules).is_some())
            };
            let is_known = |part: &Json<'_>| {
                is_offered(part, OLDER) || is_offered(part, newer(rules)) || is_renamed(part)
            };
            let is_any = !kept(&is_known).is_empty();
            (kept(&|_| false), if is_any { NOT_ENABLED } else { GONE })
        }
    };
    let list =
        if kept.is_empty() { SentBlock::text(text).raw().to_vec() } else { kept.join(&b","[..]) };
    block.with("content", &[b"[", list.as_slice(), b"]"].concat())
}
