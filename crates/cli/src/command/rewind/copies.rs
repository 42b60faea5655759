//! Rewinds from the copies of edited files that Claude Code keeps in `file-history`.
//!
//! Invariants: a copy is used only if its name is that of a copy; a file that was changed after the
//! session's last record is a clash.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde::Deserialize;
use snapshot::plan::{Clash, Others, Plan, Step, put_single};
use snapshot::scan::keep;
use snapshot::tree::State;
use transcript::conversation::agents::WithAgents;
use transcript::conversation::place::Session;
use transcript::conversation::tool;
use transcript::conversation::turn::Turn;
use transcript::format::entry::Kind;

use crate::failure::Failure;
use crate::images::{Kept, first_id};
use crate::world::World;

/// How much later than the last record a file may have been written by the session.
const SLACK: Duration = Duration::from_secs(5);

/// A copy, as records name it.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Copy {
    backup_file_name: Option<String>,
}

/// Plans to put back what a session's edit tools changed in turns.
pub(super) fn plan(
    world: &mut World,
    kept: &Kept,
    session: &Session,
    family: &WithAgents,
    turns: &[&Turn],
    others: Others,
) -> Result<Plan, Failure> {
    let mut later = HashSet::new();
    for turn in turns {
        later.extend(first_id(family, turn)?);
    }
    let mut copies: BTreeMap<String, Copy> = BTreeMap::new();
    let mut cwd = PathBuf::new();
    let mut last = 0;
    for (row, record) in family.main.table.numbered() {
        last = last.max(record.time.map_or(0, |time| time.0));
        let found: Option<Vec<(String, Copy)>> = match record.kind {
            Kind::FileHistorySnapshot => family.main.look(row, |entry| {
                let snapshot = entry.get("snapshot")?;
                let id = snapshot.get("messageId")?.text()?;
                if !later.contains(&*id) {
                    return None;
                }
                let files = snapshot.get("trackedFileBackups")?;
                let files: BTreeMap<String, Copy> = serde_json::from_slice(files.raw()).ok()?;
                Some(files.into_iter().collect())
            })?,
            Kind::FileHistoryDelta => family.main.look(row, |entry| {
                let id = entry.get("snapshotMessageId")?.text()?;
                if !later.contains(&*id) {
                    return None;
                }
                let path = entry.get("trackingPath")?.text()?.into_owned();
                let copy: Copy = serde_json::from_slice(entry.get("backup")?.raw()).ok()?;
                Some(vec![(path, copy)])
            })?,
            _ if cwd.as_os_str().is_empty() => {
                let found =
                    family.main.look(row, |entry| Some(entry.get("cwd")?.text()?.into_owned()))?;
                cwd = found.map(PathBuf::from).unwrap_or_default();
                None
            }
            _ => None,
        };
        for (path, copy) in found.unwrap_or_default() {
            // The first one is the state at the prompt.
            copies.entry(path).or_insert(copy);
        }
    }
    let home = session.path.ancestors().nth(3).unwrap_or(Path::new(""));
    let folder = home.join("file-history").join(session.id.as_str());
    let limit = UNIX_EPOCH + Duration::from_millis(u64::try_from(last).unwrap_or_default()) + SLACK;
    let mut plan = Plan::default();
    for (path, copy) in copies {
        let path = cwd.join(path);
        let damaged = |error: &dyn std::fmt::Display| {
            Failure::damaged(error.to_string(), "`--conversation` rewinds only the conversation")
        };
        let from = keep(&kept.store, &path, world.clock()).map_err(|error| damaged(&error))?;
        let to = match &copy.backup_file_name {
            None => None,
            Some(name) if !is_name(name) => continue,
            Some(name) => {
                let stored = keep(&kept.store, &folder.join(name), world.clock());
                match (stored.map_err(|error| damaged(&error))?, &from) {
                    // The copy is private; the file has its mode.
                    (Some(State::File { size, hash, .. }), Some(State::File { mode, .. })) => {
                        Some(State::File { mode: *mode, size, hash })
                    }
                    (Some(State::File { size, hash, .. }), _) => {
                        Some(State::File { mode: 0o644, size, hash })
                    }
                    _ => {
                        plan.clashes.push((path, Clash::Gone));
                        continue;
                    }
                }
            }
        };
        if from == to {
            continue;
        }
        let modified = std::fs::symlink_metadata(&path).and_then(|found| found.modified());
        let is_newer = modified.is_ok_and(|modified| modified > limit);
        if matches!(from, Some(State::Outside(..))) {
            plan.clashes.push((path.clone(), Clash::InTheWay));
        } else if is_newer && others == Others::Respect {
            plan.clashes.push((path.clone(), Clash::Changed));
        }
        put_single(&mut plan, &path, from, to);
    }
    Ok(plan)
}

/// Tools that change one file, and keep a copy of it.
const EDITING: [&str; 4] = ["Edit", "MultiEdit", "NotebookEdit", "Write"];

/// Whether there is a call in a turn that may have changed files.
pub(super) fn may_have_changed(family: &WithAgents, turn: &Turn) -> bool {
    let table = &family.main.table;
    let mut names = turn.calls(table).filter_map(|call| table.text(table.block(call).name));
    names.any(|name| name == "Bash" || EDITING.contains(&name))
}

/// The files that edit tools were to change in turns.
fn edited(family: &WithAgents, turns: &[&Turn]) -> Result<HashSet<PathBuf>, Failure> {
    let table = &family.main.table;
    let mut all = HashSet::new();
    for call in turns.iter().flat_map(|turn| turn.calls(table)) {
        let block = table.block(call);
        if !table.text(block.name).is_some_and(|name| EDITING.contains(&name)) {
            continue;
        }
        let named = family.main.look(block.row, |entry| {
            let blocks = entry.message().into_iter().flat_map(|message| message.blocks());
            let paths = blocks.filter_map(|block| Some(tool::file(&block)?.into_owned()));
            paths.map(PathBuf::from).collect::<Vec<_>>()
        })?;
        all.extend(named);
    }
    Ok(all)
}

/// Adds what copies have of turns after those that a plan goes back through: of the files that they
/// edited. Where images have a file, the plan goes back further.
pub(super) fn add_later(
    plan: &mut Plan,
    mut later: Plan,
    family: &WithAgents,
    turns: &[&Turn],
) -> Result<(), Failure> {
    let edited = edited(family, turns)?;
    let is_new = |path: &PathBuf| {
        edited.contains(path) && !plan.steps.iter().any(|step| step.path() == *path)
    };
    let wanted: Vec<PathBuf> = later.steps.iter().map(Step::path).filter(is_new).collect();
    // With the folders around it.
    later.steps.retain(|step| wanted.iter().any(|path| path.starts_with(step.path())));
    later.clashes.retain(|(path, _)| edited.contains(path));
    add(plan, later);
    Ok(())
}

/// Adds what copies have to a plan that goes back only to a later time.
pub(super) fn add(plan: &mut Plan, earlier: Plan) {
    let mut clashes = earlier.clashes;
    for step in earlier.steps {
        let path = step.path();
        if let Some(known) = plan.steps.iter_mut().find(|known| known.path() == path) {
            // Whether someone else has changed it, the plan knows better.
            clashes.retain(|(clash, _)| *clash != path);
            known.to = step.to;
            continue;
        }
        let inside = plan.now.iter().find_map(|tree| {
            let place = path.strip_prefix(&tree.root).ok()?;
            Some((tree.root.clone(), place.as_os_str().as_bytes().to_vec()))
        });
        let (root, place) = inside.unwrap_or((step.root, step.place));
        plan.steps.push(Step { root, place, ..step });
    }
    plan.steps.retain(|step| step.from != step.to || matches!(step.to, Some(State::Folder { .. })));
    plan.steps.sort_by(|one, other| (&one.root, &one.place).cmp(&(&other.root, &other.place)));
    plan.clashes.extend(clashes);
}

/// Whether it is the name of a copy: `<hash>@v<n>`, and nothing that leads elsewhere.
fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '@';
    !name.is_empty() && name.chars().all(is_plain)
}
