//! The title of a session that was made from another one.
//!
//! Invariant: it begins with its origin, because lists cut off the end; and it has only one.

use transcript::conversation::place::Session;
use transcript::conversation::preview::Preview;
use transcript::format::secret::Cover;

use crate::job::Verb;

/// How much of the old title is kept, in characters.
const LONGEST: usize = 80;

/// The title of what `verb` makes of a session.
pub(crate) fn title(verb: Verb, session: &Session, found: Preview) -> String {
    let name = found.title.or(found.prompt).unwrap_or_default();
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_shown = |letter: &char| !letter.is_control();
    let base: String = unmarked(&name).chars().filter(is_shown).take(LONGEST).collect();
    let short = session.id.short();
    let mark = format!("{} of {short}", verb.name());
    if base.is_empty() { mark } else { format!("{mark}: {base}") }
}

/// What a session is about, without its secrets. They are hidden before anything is cut off: a part
/// of a secret is not recognized.
pub fn without_secrets(found: Preview, cover: &Cover) -> Preview {
    let hide = |text: Option<String>| text.map(|text| cover.text(&text).unwrap_or(text));
    let prompt = found.prompt.filter(|_| !found.is_prompt_cut);
    Preview { title: hide(found.title), tag: hide(found.tag), prompt: hide(prompt), ..found }
}

/// A title without its origin; the first version of quipu put that at the end.
fn unmarked(title: &str) -> &str {
    let is_mark = |text: &str| {
        text.split_once(" of ").is_some_and(|(verb, id)| {
            Verb::ALL.iter().any(|known| known.name() == verb) && !id.contains(' ')
        })
    };
    if let Some((_, rest)) = title.split_once(": ").filter(|(mark, _)| is_mark(mark)) {
        return rest;
    }
    let last = title.strip_suffix(')').and_then(|title| title.rsplit_once(" ("));
    last.filter(|(_, mark)| is_mark(mark)).map_or(title, |(base, _)| base)
}

#[cfg(test)]
#[path = "title_tests.rs"]
mod tests;
