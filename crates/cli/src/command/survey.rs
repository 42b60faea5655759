//! Sessions with a glance at each: what `ls`, the home screen and lists of candidates are made of.
//!
//! Glances are short reads, many of them; they are taken on all cores.

use std::io;
use std::thread;

use transcript::glance::{Glance, glance};
use transcript::place::Session;

use crate::text::one_line;

/// A session and what a glance showed; or why it could not be looked at.
#[derive(Debug)]
pub(super) struct Surveyed {
    pub(super) session: Session,
    pub(super) seen: io::Result<Glance>,
}

impl Surveyed {
    /// What is broken, by name.
    pub(super) fn troubles(&self) -> Vec<&'static str> {
        match &self.seen {
            Ok(seen) => seen.troubles.iter().map(|trouble| trouble.name()).collect(),
            Err(_) => vec!["unreadable"],
        }
    }

    /// The working directory, or the folder's name where no record tells it.
    pub(super) fn project(&self) -> &str {
        let cwd = self.seen.as_ref().ok().and_then(|seen| seen.cwd.as_deref());
        cwd.unwrap_or(&self.session.project)
    }
}

/// The sessions, newest first, with a glance at each.
pub(super) fn survey(mut sessions: Vec<Session>) -> Vec<Surveyed> {
    sessions.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.path.cmp(&b.path)));
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

/// The title, or what was said first, as a cell of a table.
pub(super) fn headline(one: &Surveyed) -> String {
    let seen = one.seen.as_ref().ok();
    let said = seen.and_then(|seen| seen.title.as_deref().or(seen.prompt.as_deref()));
    // No terminal is that wide; a prompt may be a whole file.
    let start: String = said.unwrap_or("-").chars().take(1_000).collect();
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
