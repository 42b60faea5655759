//! Rewinds from the copies of edited files in `file-history`: of Claude Code, and of turns of ours
//! without images.
//!
//! Invariants: a copy is used only if its name is that of a copy; a file that was changed after the
//! session's last record is a clash.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use snapshot::plan::{Clash, Others, Plan, Step, put_single};
use snapshot::scan::keep;
use snapshot::tree::State;
use snapshot::{ScanError, Store};
use transcript::conversation::agents::WithAgents;
use transcript::conversation::place::Session;
use transcript::conversation::tool;
use transcript::conversation::turn::Turn;
use transcript::format::entry::Kind;
use transcript::format::json::Json;

/// How much later than the last record a file may have been written by the session.
const SLACK: Duration = Duration::from_secs(5);

/// A copy, as records name it.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Copy {
    backup_file_name: Option<String>,
}

/// Why copies cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CopiesError {
    #[error(transparent)]
    Session(#[from] transcript::Error),
    #[error(transparent)]
    Scan(#[from] ScanError),
}

/// Where copies come from and go to.
#[derive(Clone, Copy, Debug)]
pub struct Copies<'a> {
    pub store: &'a Store,
    pub session: &'a Session,
    pub family: &'a WithAgents,
    /// Whether what someone else changed is overwritten.
    pub others: Others,
    pub now: SystemTime,
}

impl Copies<'_> {
    /// Adds to a plan what was done in those of these turns that have no images: those of Claude
    /// Code, and with `--no-snapshots`. Returns which of them may have changed something.
    pub fn add_without_images(
        &self,
        plan: &mut Plan,
        turns: &[Turn],
        has_images: impl Fn(&str) -> bool,
    ) -> Result<Vec<usize>, CopiesError> {
        let (mut earlier, mut later, mut without) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_later = false;
        for (number, turn) in turns.iter().enumerate() {
            let id = first_id(self.family, turn)?;
            if id.is_some_and(|id| has_images(&id)) {
                is_later = true;
            } else if may_have_changed(self.family, turn) {
                if is_later { &mut later } else { &mut earlier }.push(turn);
                without.push(number);
            }
        }
        if !later.is_empty() {
            add_later(plan, self.plan(&later)?, self.family, &later)?;
        }
        if !earlier.is_empty() {
            add(plan, self.plan(&earlier)?);
        }
        Ok(without)
    }

    /// Plans to put back what edit tools changed in turns.
    pub fn plan(&self, turns: &[&Turn]) -> Result<Plan, CopiesError> {
        planned(self, turns)
    }
}

/// The id of the record that a turn begins with.
pub fn first_id(family: &WithAgents, turn: &Turn) -> transcript::Result<Option<String>> {
    family.main.look(turn.rows[0], |entry| {
        entry.get("uuid").and_then(Json::text).map(std::borrow::Cow::into_owned)
    })
}

fn planned(copies: &Copies<'_>, turns: &[&Turn]) -> Result<Plan, CopiesError> {
    let Copies { store, session, family, others, now } = *copies;
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
        let from = keep(store, &path, now)?;
        let to = match &copy.backup_file_name {
            None => None,
            Some(name) if !is_name(name) => continue,
            Some(name) => {
                match (keep(store, &folder.join(name), now)?, &from) {
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
/// Tools that may change anything.
const FREE: [&str; 3] = ["Agent", "Bash", "Task"];

/// Whether there is a call in a turn that may have changed files.
fn may_have_changed(family: &WithAgents, turn: &Turn) -> bool {
    let table = &family.main.table;
    let mut names = turn.calls(table).filter_map(|call| table.text(table.block(call).name));
    names.any(|name| FREE.contains(&name) || EDITING.contains(&name))
}

/// The files that edit tools were to change in turns.
fn edited(family: &WithAgents, turns: &[&Turn]) -> transcript::Result<HashSet<PathBuf>> {
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
fn add_later(
    plan: &mut Plan,
    mut later: Plan,
    family: &WithAgents,
    turns: &[&Turn],
) -> transcript::Result<()> {
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
fn add(plan: &mut Plan, earlier: Plan) {
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
