//! What an event must be about for a hook to run.
//!
//! Invariant: a matcher that cannot be understood is an error, and never one that fits nothing: the
//! hook could have refused something.

use regex::Regex;
use rules::names;

/// Events that are about a tool, which any of its names stands for.
const OF_TOOLS: [&str; 5] =
    ["PreToolUse", "PostToolUse", "PostToolUseFailure", "PermissionRequest", "PermissionDenied"];

/// Whether an event is about a tool.
pub(crate) fn is_of_tools(event: &str) -> bool {
    OF_TOOLS.contains(&event)
}

/// Events that are about nothing that a matcher could name: what stands there has no meaning.
const WITHOUT: [&str; 10] = [
    "PostToolBatch",
    "UserPromptSubmit",
    "Stop",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "WorktreeCreate",
    "WorktreeRemove",
    "CwdChanged",
    "MessageDisplay",
];

/// A matcher of settings or of a host.
#[derive(Clone, Debug)]
pub(super) struct Matcher {
    pub(super) text: String,
    fits: Fits,
    is_of_tools: bool,
}

#[derive(Clone, Debug)]
enum Fits {
    /// One of these names, as a whole.
    Names(Vec<String>),
    /// A part that this expression finds.
    Regex(Regex),
}

impl Matcher {
    /// Reads a matcher; None if everything fits.
    pub(super) fn new(event: &str, text: &str) -> Result<Option<Matcher>, String> {
        let text = text.trim();
        if text.is_empty() || text == "*" || WITHOUT.contains(&event) {
            return Ok(None);
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-|, ".contains(c);
        let fits = if text.chars().all(is_plain) {
            let names = text.split(['|', ',']).map(|name| name.trim().to_owned());
            Fits::Names(names.filter(|name| !name.is_empty()).collect())
        } else {
            let regex = Regex::new(text);
            Fits::Regex(regex.map_err(|_| {
                format!("its matcher `{text}` is no regular expression that is understood here")
            })?)
        };
        Ok(Some(Matcher { text: text.to_owned(), fits, is_of_tools: is_of_tools(event) }))
    }

    pub(super) fn fits(&self, subject: &str) -> bool {
        let is_meant = |subject: &str| match &self.fits {
            Fits::Names(names) => names.iter().any(|name| name == subject),
            Fits::Regex(regex) => regex.is_match(subject),
        };
        if self.is_of_tools { names(subject).any(is_meant) } else { is_meant(subject) }
    }
}
