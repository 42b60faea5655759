//! Files that no image covers, each by itself: those that an edit tool changed outside of the
//! folders, or in a folder that git ignores.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Clash, Plan, Step};
use crate::moment::{Moment, deeds};
use crate::scan::{Limits, ScanError, keep, large};
use crate::store::Store;
use crate::tree::{Place, State, Why};

/// What stands at the path of a single file. What there is to keep of it is stored.
pub fn state_of_single(
    store: &Store,
    path: &Path,
    limits: Limits,
    now: SystemTime,
) -> Result<Option<State>, ScanError> {
    large(path, limits).map_or_else(|| keep(store, path, now), |state| Ok(Some(state)))
}

/// Goes back through what was done to such files from the moment `cut` on.
pub(super) fn take_back(
    plan: &mut Plan,
    store: &Store,
    (moments, cut): (&[Moment], usize),
    (limits, now): (Limits, SystemTime),
) -> Result<(), ScanError> {
    let mut targets: BTreeMap<&Path, (Option<State>, Option<State>)> = BTreeMap::new();
    for deed in deeds(moments).iter().rev().filter(|deed| deed.at >= cut) {
        let (from, is) = if let Some(known) = targets.get(deed.path) {
            known.clone()
        } else {
            let is = state_of_single(store, deed.path, limits, now)?;
            (is.clone(), is)
        };
        let before = deed.before.cloned();
        let after = deed.after.map_or_else(|| is.clone(), Option::<&State>::cloned);
        let outside = [&before, &after, &is].into_iter().flatten().find_map(why);
        if let Some(why) = outside {
            plan.stays.push((deed.path.to_owned(), why));
            continue;
        }
        let is_known = plan.clashes.iter().any(|(path, _)| path == deed.path);
        let clash = if deed.after.is_some() { Clash::Changed } else { Clash::Unended };
        let is_changed = is != after || (deed.after.is_none() && is.is_some());
        if is_changed && is != before && !is_known {
            plan.clashes.push((deed.path.to_owned(), clash));
        }
        targets.insert(deed.path, (from, before));
    }
    for (path, (from, to)) in targets {
        // A folder may be covered by now.
        let is_planned = plan.steps.iter().any(|step| step.path() == path);
        if from != to && !is_planned {
            put_single(plan, path, from, to);
        }
    }
    Ok(())
}

fn why(state: &State) -> Option<Why> {
    if let State::Outside(why, _) = state { Some(*why) } else { None }
}

/// Adds a single file to a plan, with the folders on the way to it that are not there.
pub fn put_single(plan: &mut Plan, path: &Path, from: Option<State>, to: Option<State>) {
    let Some((root, mut folders, place)) = grounded(path) else {
        plan.clashes.push((path.to_owned(), Clash::InTheWay));
        return;
    };
    folders.retain(|folder| {
        let is_same = |step: &Step| step.root == root && step.place == *folder;
        to.is_some() && !plan.steps.iter().any(is_same)
    });
    let made = Some(State::Folder { mode: 0o755 });
    for place in folders {
        plan.steps.push(Step { root: root.clone(), place, from: None, to: made.clone() });
    }
    plan.steps.push(Step { root, place, from, to });
}

/// The nearest folder around a path that is there, the folders below it that are not, and the path
/// from there on. None if something else is in the way.
fn grounded(path: &Path) -> Option<(PathBuf, Vec<Place>, Place)> {
    let around = path.ancestors().skip(1);
    let there = around.into_iter().find(|folder| fs::symlink_metadata(folder).is_ok())?;
    let root = fs::canonicalize(there).ok().filter(|root| root.is_dir())?;
    let place = path.strip_prefix(there).ok()?.as_os_str().as_bytes().to_vec();
    let ends = place.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    let folders = ends.map(|(at, _)| place[..at].to_vec()).collect();
    Some((root, folders, place))
}
