//! The commits that a session made, as git reported them.
//!
//! Invariant: only results of commands that mention a commit are read.

use maud::{Markup, html};
use transcript::conversation::table::BlockId;
use transcript::conversation::turn::Step;
use transcript::conversation::view::Piece;

use crate::draw::Drawing;
use crate::escape::line;
use crate::find::contains;
use crate::opened::{Flow, FlowName};
use crate::words::and_more;

/// How many are listed.
const MOST: usize = 500;

/// What git prints after a commit: `[main 1a2b3c4] Message`.
#[derive(Debug, PartialEq, Eq)]
struct Commit {
    branch: String,
    hash: String,
    subject: String,
}

impl Commit {
    fn of(printed: &str) -> Option<Commit> {
        let (inside, subject) = printed.trim().strip_prefix('[')?.split_once("] ")?;
        let (branch, hash) = inside.rsplit_once(' ')?;
        let is_hash =
            (7..=64).contains(&hash.len()) && hash.bytes().all(|one| one.is_ascii_hexdigit());
        let branch = branch.strip_suffix(" (root-commit)").unwrap_or(branch);
        let is_branch = branch == "detached HEAD" || !branch.contains(char::is_whitespace);
        let owned = |text: &str| text.to_owned();
        (is_hash && is_branch).then(|| Commit {
            branch: owned(branch),
            hash: owned(hash),
            subject: owned(subject),
        })
    }
}

/// The commits of a flow and of its sub-agents.
pub(crate) fn commits(drawing: &Drawing<'_>, flow: &Flow) -> transcript::Result<Markup> {
    let mut found = Vec::new();
    let is_shown = |name: &FlowName| match name {
        FlowName::Agent(at) => drawing.has_agent(*at),
        name => *name == flow.name,
    };
    for name in drawing.opened.parts(flow).filter(is_shown) {
        let Some(part) = drawing.opened.flow(name) else { continue };
        for (at, turn) in part.turns.iter().enumerate() {
            if part.name == FlowName::Live && !drawing.has_turn(at) {
                continue;
            }
            for step in &turn.steps {
                let Step::Answer { blocks, .. } = step else { continue };
                for block in blocks {
                    let (number, made) = made_by(drawing, &part, *block)?;
                    found.extend(made.into_iter().map(|one| (part.name, at, number, one)));
                }
            }
        }
    }
    Ok(html! {
        @if found.is_empty() { p { "None that git reported." } }
        ul.branches {
            @for (flow, turn, number, commit) in found.iter().take(MOST) {
                li {
                    code { (line(&drawing.masked(&commit.hash), 12)) } " "
                    a href={ "#" (Drawing::anchor(*flow, "L", *number)) } {
                        (line(&drawing.masked(&commit.subject), 120))
                    }
                    " · " (line(&drawing.masked(&commit.branch), 60)) " · "
                    @if *flow == FlowName::Live { "turn " (turn + 1) } @else { (flow.words()) }
                }
            }
        }
        (and_more(found.len(), MOST))
    })
}

/// The line of a call, and the commits that its result reports.
fn made_by(
    drawing: &Drawing<'_>,
    flow: &Flow,
    call: BlockId,
) -> transcript::Result<(u64, Vec<Commit>)> {
    let conversation = drawing.opened.family.of(flow.owner);
    let table = &conversation.table;
    let block = table.block(call);
    let number = table.row(block.row).line;
    let is_command = block.kind.is_call() && table.text(block.name) == Some("Bash");
    let Some(result) = conversation.pairs.of(call).filter(|_| is_command) else {
        return Ok((number, Vec::new()));
    };
    let mentions = conversation.look_at(call, |block| {
        block.is_some_and(|block| contains(block.json().raw(), b"commit"))
    })?;
    if !mentions {
        return Ok((number, Vec::new()));
    }
    let (pieces, _) = conversation.result(result)?;
    let texts = pieces.iter().filter_map(Piece::text);
    Ok((number, texts.flat_map(str::lines).filter_map(Commit::of).collect()))
}

#[cfg(test)]
#[path = "commits_tests.rs"]
mod tests;
