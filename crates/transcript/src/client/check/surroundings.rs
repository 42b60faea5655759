//! Findings about what surrounds a session: sub-agents, the name of its project, clocks, secrets.

use hashbrown::HashSet;
use std::path::Path;

use super::Case;
use super::code::{Code, Severity};
use super::examine::{Examined, What, quoted};
use super::finding::{Finding, Findings};
use crate::client::history::Rules;
use crate::conversation::agents::{Body, Purpose, WithAgents};
use crate::conversation::place::{SeenKinds, slug_uncut};
use crate::format::content::BlockKind;
use crate::format::entry::Kind;

use crate::conversation::table::{BlockRow, Id, Table};
use crate::format::time::Time;

/// The longest name that a file or folder can have.
const LONGEST_FOLDER: usize = 255;
/// Newer clients truncate the name of a project's folder at this length.
const CUT_FOLDER: usize = 200;
/// The first version that does.
const CUTS_FOLDERS: [u32; 3] = [2, 1, 100];

/// How much older than its parent a record may be, in milliseconds: parallel calls and hooks are
/// written when they finish.
const OLDER: i64 = 60 * 60 * 1_000;
/// How far ahead a clock may be, in milliseconds.
const AHEAD: i64 = 24 * 60 * 60 * 1_000;
/// No client is older than this: 2025-01-01.
const EARLIEST: i64 = 1_735_689_600_000;

/// Reports problems with the project's name, with times, and with secrets.
pub(super) fn around(case: &Case, rules: Rules, now: Option<Time>, findings: &mut Findings<'_>) {
    project_name(case, rules, findings);
    clock(case, now, findings);
    secrets(&case.examined.secrets, None, findings);
}

fn project_name(case: &Case, rules: Rules, findings: &mut Findings<'_>) {
    let Some(cwd) = case.examined.cwd() else { return };
    let len = slug_uncut(&cwd).len();
    let is_old = rules.version < CUTS_FOLDERS;
    if len > LONGEST_FOLDER {
        let (severity, what) = if is_old {
            (Severity::Warning, "the client saves nothing there, and reports no error")
        } else {
            (Severity::Note, "clients before 2.1.100 save nothing there")
        };
        let text = format!("the name of the project's folder would have {len} characters: {what}");
        findings.add(Code::ProjectName, severity, None, text);
    } else if len > CUT_FOLDER {
        let text = format!(
            "the name of the project's folder has {len} characters: clients before 2.1.100 and later ones look for it in different places"
        );
        findings.add(Code::ProjectName, Severity::Note, None, text);
    }
}

fn clock(case: &Case, now: Option<Time>, findings: &mut Findings<'_>) {
    let table = &case.conversation.table;
    for (id, row) in table.numbered().filter(|(_, row)| row.uuid.is_some()) {
        let Some(time) = row.time else { continue };
        let parent = row.parent.and_then(|parent| case.conversation.graph.row_of(parent));
        let before = parent.and_then(|parent| table.row(parent).time);
        let text = if time.0 < EARLIEST {
            "the time is before 2025, when no client existed"
        } else if now.is_some_and(|now| time.0 > now.0 + AHEAD) {
            "the time is in the future"
        } else if before.is_some_and(|before| before.0 - time.0 > OLDER) {
            "the record is more than an hour older than its parent"
        } else {
            continue;
        };
        findings.row(Code::Clock, Severity::Note, Some(id), text);
    }
}

/// Reports the secrets of a file, by their kinds.
pub(super) fn secrets(kinds: &SeenKinds, file: Option<&str>, findings: &mut Findings<'_>) {
    for (kind, (count, line)) in kinds {
        let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
        findings.put(Finding {
            code: Code::Secret,
            severity: Severity::Warning,
            file: file.map(str::to_owned),
            line: Some(*line),
            text: format!("{kind} in clear text, {times}"),
            more: 0,
        });
    }
}

/// Reports problems with sub-agents, and with the contents of their files.
pub(super) fn agents(
    family: &WithAgents,
    examined: &[(String, Examined)],
    findings: &mut Findings<'_>,
) {
    for error in &family.unreadable {
        let text = format!("the sub-agent's file cannot be read: {}", error.cause());
        let file = name(error.path().unwrap_or(Path::new("")));
        findings.put(of_file(file, None, Code::AgentUnreadable, Severity::Warning, text));
    }
    for agent in &family.agents {
        if agent.purpose == Purpose::Task
            && agent.start.is_none()
            && let Body::File(conversation) = &agent.body
        {
            let text = "no tool call started this sub-agent".to_owned();
            findings.put(of_file(
                name(&conversation.path),
                None,
                Code::AgentWithoutCall,
                Severity::Note,
                text,
            ));
        }
    }
    let is_there =
        |id: &str| family.agents.iter().any(|agent| agent.id == id || agent.id.ends_with(id));
    calls_without_agents(&family.main.table, &is_there, findings);
    for (file, examined) in examined {
        secrets(&examined.secrets, Some(file), findings);
        for mark in &examined.marks {
            let (code, text) = match &mark.what {
                What::Damaged(_) if examined.is_torn(mark) => {
                    (Code::TornTail, "the last record is cut off".to_owned())
                }
                What::Damaged(why) => (Code::DamagedLine, format!("unreadable: {why}")),
                What::Nul => (Code::NulBytes, "NUL bytes instead of a record".to_owned()),
                _ => continue,
            };
            findings.put(of_file(file.clone(), Some(mark.line), code, Severity::Warning, text));
        }
    }
}

/// Reports calls that started a sub-agent whose file is missing.
pub(super) fn calls_without_agents(
    table: &Table,
    is_there: &dyn Fn(&str) -> bool,
    findings: &mut Findings<'_>,
) {
    // Ids of the calls of tools that start sub-agents.
    let is_start = |part: &&BlockRow| {
        part.kind == BlockKind::ToolUse && matches!(table.text(part.name), Some("Task" | "Agent"))
    };
    let starts: HashSet<Id> =
        table.blocks().iter().filter(is_start).filter_map(|part| part.id).collect();
    for started in &table.started {
        let id = table.ids.text(started.agent);
        let is_start = started.call.is_some_and(|call| starts.contains(&call));
        if is_start && table.row(started.row).kind == Kind::User && !is_there(id) {
            let text = format!("the file of the sub-agent `{}` is missing", quoted(id));
            findings.row(Code::CallWithoutAgent, Severity::Note, Some(started.row), text);
        }
    }
}

/// The name of a file.
pub(super) fn name(path: &std::path::Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn of_file(
    file: String,
    line: Option<u64>,
    code: Code,
    severity: Severity,
    text: String,
) -> Finding {
    Finding { code, severity, file: Some(file), line, text, more: 0 }
}
