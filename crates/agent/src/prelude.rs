//! What hooks want to come before every later command: variables, mostly.
//!
//! A hook of `SessionStart` and `CwdChanged` writes it into the file that `CLAUDE_ENV_FILE` names.
//! Invariant: what a project's hook wants never reaches a command outside the sandbox, if there is
//! one: the agent can edit what that hook calls.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

/// What comes before commands.
#[derive(Debug, Default)]
pub(crate) struct Preludes {
    all: Mutex<Vec<Prelude>>,
}

#[derive(Debug)]
struct Prelude {
    event: &'static str,
    author: PreludeAuthor,
    text: String,
}

/// Who wants something to come before commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreludeAuthor {
    /// The user, or an administrator.
    User,
    /// The project.
    Project,
}

/// Where a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where the session's commands run.
    Usual,
    /// Outside the sandbox, because somebody allowed it.
    Outside,
}

/// An event that happens again: what its hooks wanted before is over.
const REPEATED: &str = "CwdChanged";

impl Preludes {
    /// The hooks of an event have ended, and want these texts.
    pub(crate) fn add(&self, event: &'static str, texts: Vec<(PreludeAuthor, String)>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if event == REPEATED {
            all.retain(|one| one.event != event);
        }
        let texts = texts.into_iter().filter(|(_, text)| !text.trim().is_empty());
        all.extend(texts.map(|(author, text)| Prelude { event, author, text }));
    }

    /// What comes before a command there.
    pub(crate) fn before(&self, place: Place) -> String {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut script = String::new();
        for one in all.iter() {
            if place == Place::Usual || one.author == PreludeAuthor::User {
                // What is wrong with it does not keep the command from being read.
                let _ = writeln!(script, "eval {}", rules::single_quoted(&one.text));
            }
        }
        script
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_project_wants_stays_in_the_sandbox() {
        let preludes = Preludes::default();
        assert_eq!(preludes.before(Place::Usual), "");
        let one = |author, text: &str| (author, text.to_owned());
        let texts = vec![
            one(PreludeAuthor::User, "export A='1'"),
            one(PreludeAuthor::Project, "ls() { :; }"),
            one(PreludeAuthor::User, " \n"),
        ];
        preludes.add("SessionStart", texts);
        preludes.add("CwdChanged", vec![one(PreludeAuthor::User, "B=1")]);
        preludes.add("CwdChanged", vec![one(PreludeAuthor::User, "B=2")]);
        let outside = "eval 'export A='\\''1'\\'''\neval 'B=2'\n";
        assert_eq!(preludes.before(Place::Outside), outside);
        let usual = "eval 'export A='\\''1'\\'''\neval 'ls() { :; }'\neval 'B=2'\n";
        assert_eq!(preludes.before(Place::Usual), usual);
    }
}
