//! Sessions with a preview of each: for `ls`, the overview and lists of candidates.
//!
//! Previews are many short reads; they use all cores.

use std::convert::Infallible;
use std::path::Path;

use transcript::conversation::place::Session;
use transcript::conversation::preview::{Preview, Trouble, preview};
use transcript::format::threads;

use crate::project::newest_first;
use crate::text::{fit, one_line};

/// A session and its preview, or why it could not be read.
#[derive(Debug)]
pub(crate) struct Surveyed {
    pub(crate) session: Session,
    pub(crate) seen: transcript::Result<Preview>,
}

impl Surveyed {
    /// What is broken, by name: what both ends of the file show, and what else was found.
    pub(crate) fn troubles(&self, more: &[Trouble]) -> Vec<&'static str> {
        let Ok(seen) = &self.seen else { return vec!["unreadable"] };
        let mut all = [seen.troubles.as_slice(), more].concat();
        all.sort();
        all.dedup();
        all.into_iter().map(Trouble::name).collect()
    }

    /// The working directory, or the folder's name if no record has it.
    pub(crate) fn project(&self) -> &str {
        let cwd = self.seen.as_ref().ok().and_then(|seen| seen.cwd.as_deref());
        cwd.unwrap_or(&self.session.project)
    }

    /// What identifies the session to people: title, tag, first prompt, folder, id.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let seen = self.seen.as_ref().ok();
        let title = seen.and_then(|seen| seen.title.as_deref());
        let prompt = seen.and_then(|seen| seen.prompt.as_deref());
        let tag = seen.and_then(|seen| seen.tag.as_deref());
        let all = [title, tag, prompt, Some(self.project()), Some(self.session.id.as_str())];
        all.into_iter().flatten()
    }
}

/// The sessions, newest first, with a preview of each.
pub(crate) fn survey(mut sessions: Vec<Session>) -> Vec<Surveyed> {
    newest_first(&mut sessions);
    let mut surveyed = Vec::with_capacity(sessions.len());
    let look = |at: usize| preview(&sessions[at].path);
    let Ok(()) = threads::in_order(sessions.len(), threads::count(), look, |at, seen| {
        surveyed.push(Surveyed { session: sessions[at].clone(), seen });
        Ok::<(), Infallible>(())
    });
    surveyed
}

/// The session in a file, with a preview; `None` if it is not readable.
pub(crate) fn of_file(path: &Path) -> Option<Surveyed> {
    let session = Session::at(path).ok()?;
    Some(Surveyed { seen: preview(path), session })
}

/// The start of a session's id, as it is shown.
pub(crate) fn short_id(session: &Session) -> String {
    one_line(&session.id.short())
}

/// The title, or the first prompt, as a cell of a table; before it, the tag.
pub(crate) fn headline(one: &Surveyed) -> String {
    let seen = one.seen.as_ref().ok();
    let title = seen.and_then(|seen| seen.title.as_deref().or(seen.prompt.as_deref()));
    // No terminal is that wide; a prompt may be a whole file.
    let start: String = title.unwrap_or("-").chars().take(1_000).collect();
    match seen.and_then(|seen| seen.tag.as_deref()) {
        Some(tag) => one_line(&format!("[{}] {start}", fit(tag, TAG_WIDTH))),
        None => one_line(&start),
    }
}

/// How much of a tag is shown, in columns.
const TAG_WIDTH: usize = 20;

/// How much of a project's name is shown, in characters.
const PROJECT_WIDTH: usize = 32;

/// The last two parts of a path: enough to recognise a project.
pub(crate) fn short_path(path: &str) -> String {
    let parts: Vec<&str> = path.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    let short = match parts[..] {
        [.., parent, last] if parts.len() > 2 => format!("{parent}/{last}"),
        _ => path.to_owned(),
    };
    // The end says more than the start.
    let extra = short.chars().count().saturating_sub(PROJECT_WIDTH);
    if extra == 0 { short } else { short.chars().skip(extra).collect() }
}
