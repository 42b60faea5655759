//! Sessions with a glance at each: what `ls`, the home screen and lists of candidates are made of.
//!
//! Glances are short reads, many of them; they are taken on all cores.

use std::io;
use std::thread;

use transcript::glance::{Glance, Trouble, glance};
use transcript::place::Session;

use crate::project::newest_first;
use crate::text::one_line;

/// A session and what a glance showed; or why it could not be looked at.
#[derive(Debug)]
pub(super) struct Surveyed {
    pub(super) session: Session,
    pub(super) seen: io::Result<Glance>,
}

impl Surveyed {
    /// What is broken, by name: what the ends of the file show, and what else was found.
    pub(super) fn troubles(&self, more: &[Trouble]) -> Vec<&'static str> {
        let Ok(seen) = &self.seen else { return vec!["unreadable"] };
        let mut all = [seen.troubles.as_slice(), more].concat();
        all.sort();
        all.dedup();
        all.into_iter().map(Trouble::name).collect()
    }

    /// The working directory, or the folder's name where no record tells it.
    pub(super) fn project(&self) -> &str {
        let cwd = self.seen.as_ref().ok().and_then(|seen| seen.cwd.as_deref());
        cwd.unwrap_or(&self.session.project)
    }
}

/// The sessions, newest first, with a glance at each.
pub(super) fn survey(mut sessions: Vec<Session>) -> Vec<Surveyed> {
    newest_first(&mut sessions);
    let cores = thread::available_parallelism().map_or(1, usize::from).min(8);
    let share = sessions.len().div_ceil(cores).max(1);
    let look =
        |session: &Session| Surveyed { seen: glance(&session.path), session: session.clone() };
    thread::scope(|scope| {
        let shares = sessions.chunks(share);
        let workers: Vec<_> = shares
            .map(|share| scope.spawn(move || share.iter().map(look).collect::<Vec<_>>()))
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
    })
}

/// The beginning of a session's id, as it is shown.
pub(super) fn short_id(session: &Session) -> String {
    one_line(&session.id.chars().take(8).collect::<String>())
}

/// The title, or what was said first, as a cell of a table.
pub(super) fn headline(one: &Surveyed) -> String {
    let seen = one.seen.as_ref().ok();
    let title = seen.and_then(|seen| seen.title.as_deref().or(seen.prompt.as_deref()));
    // No terminal is that wide; a prompt may be a whole file.
    let start: String = title.unwrap_or("-").chars().take(1_000).collect();
    one_line(&start)
}

/// How much of a project's name is shown.
const PROJECT_WIDTH: usize = 32;

/// The last two parts of a path: enough to know a project by.
pub(super) fn short_path(path: &str) -> String {
    let parts: Vec<&str> = path.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    let short = match parts[..] {
        [.., parent, last] if parts.len() > 2 => format!("{parent}/{last}"),
        _ => path.to_owned(),
    };
    // The end says more than the beginning.
    let extra = short.chars().count().saturating_sub(PROJECT_WIDTH);
    if extra == 0 { short } else { short.chars().skip(extra).collect() }
}
