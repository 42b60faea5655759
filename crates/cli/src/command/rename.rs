//! `quipu rename`: gives a session another title.

use transcript::client::change;
use transcript::client::history::Rules;
use transcript::conversation::preview::preview;
use workshop::{Place, Plan, Read, Verb};

use crate::failure::Failure;
use crate::select;
use crate::surgery::{self, InPlaceAnyway, Target};
use crate::text::one_line;
use crate::world::World;

/// Give a session a title
///
/// Adds a record to the end of the session's file, as `/rename` in Claude Code does, and for newer
/// clients another one, which gives the session's agent that name. The title shows in all lists,
/// and Claude Code resumes the session by it. A session that is in use is left alone (exit code 5).
/// `quipu undo` restores the file as it was.
#[derive(clap::Args, Debug)]
#[command(mut_arg("force", |arg| arg.help(surgery::FORCE_ITS_FILE)))]
pub(crate) struct RenameArgs {
    /// The session
    session: String,
    /// The title
    title: String,
    #[command(flatten)]
    in_place: InPlaceAnyway,
    #[command(flatten)]
    target: Target,
}

/// The maximum length of a title, in characters. Lists show much less.
const LONGEST: usize = 500;

pub(crate) fn rename(world: &mut World, args: &RenameArgs) -> Result<(), Failure> {
    let title = args.title.split_whitespace().collect::<Vec<_>>().join(" ");
    let has_control = args.title.chars().any(char::is_control);
    if title.is_empty() || has_control || title.chars().count() > LONGEST {
        let hint = format!("1 to {LONGEST} characters on one line, without control characters");
        return Err(Failure::usage("that cannot be a title", Some(&hint)));
    }
    let session = select::session_to_change(world, &args.session)?;
    let rules = Rules::newest();
    let is_same = preview(&session.path)?.title.as_ref() == Some(&title);
    let is_nothing = is_same && args.target.output.is_none();
    if !is_nothing {
        surgery::when_cold(world, &session, &args.target)?;
    }
    let read = Read::open(&session, rules)?;
    let mut change = change::clone(&read.subject);
    if !is_same {
        change.title(&title, &session.id);
        if read.subject.has_agent_name()? {
            change.agent_name(&title, &session.id);
        }
    }
    let policy = args.target.policy(Verb::Rename, Place::InPlace);
    let job = surgery::job(world, &session, read, Plan::Change(change), policy);
    if is_nothing {
        let proof = job.proof(rules)?;
        let text = format!("its title is already `{}`", one_line(&title));
        return surgery::nothing(world, &job, &args.target, proof, &text);
    }
    surgery::carry_out(world, job, &args.target, rules)?;
    Ok(())
}
