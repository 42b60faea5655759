//! A session as one HTML file that opens from disk.
//!
//! Invariants: the file requests nothing, and runs only our script, which its policy names by its
//! hash; it can be read without the script.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use transcript::Session;
use transcript::conversation::price::Prices;
use transcript::format::secret::{Mask, Redactor};

use crate::draw::{Drawing, FileForm, Form};
use crate::opened::Opened;
use crate::server::Secrets;
pub use crate::session_page::FileError;
use crate::session_page::{FileHead, filed};

/// What a file contains.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub struct FileWish<'a> {
    /// The turns of the live branch, from the first; none: all.
    pub turns: Option<Vec<bool>>,
    /// Whether thinking is in it.
    pub has_thinking: bool,
    /// Whether calls and their results are in it.
    pub has_tools: bool,
    /// Whether the session itself follows it.
    pub has_session: bool,
    /// Whether secrets are in it.
    pub secrets: Secrets,
    /// Finds secrets.
    pub redactor: &'a Arc<Redactor>,
    /// What tokens cost.
    pub prices: &'a Prices,
}

/// How many turns the live branch of a session has.
pub fn count_turns(session: &Session) -> transcript::Result<usize> {
    Ok(transcript::Conversation::open(&session.path)?.turns().live.len())
}

/// Writes a session, without the end of the page. Returns how many secrets were redacted, by kind.
pub fn write_file(
    session: &Session,
    wish: &FileWish<'_>,
    out: &mut dyn Write,
) -> Result<BTreeMap<String, u64>, FileError> {
    let opened = Opened::open(session.clone())?;
    // Its findings are drawn at their lines.
    let _ = opened.report(wish.redactor);
    let is_redacted = wish.secrets == Secrets::Redacted;
    let mask = if is_redacted { Mask::new(wish.redactor) } else { Mask::none() };
    let form = FileForm { has_thinking: wish.has_thinking, has_tools: wish.has_tools };
    let drawing = Drawing::new(&opened, mask, Form::File(form), wish.prices);
    let head = FileHead {
        turns: wish.turns.as_deref(),
        has_session: wish.has_session,
        is_redacted,
        redactor: wish.redactor,
    };
    filed(&drawing, &opened.live, &head, out)?;
    Ok(drawing.mask.into_inner().hidden().clone())
}

/// Writes the end of the page.
pub fn write_end(out: &mut dyn Write) -> std::io::Result<()> {
    out.write_all(b"</body></html>\n")
}
