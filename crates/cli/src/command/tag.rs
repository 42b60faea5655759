//! `quipu tag`: puts a tag on a session, or takes it off.

use std::io::Write;

use transcript::client::change;
use transcript::client::history::Rules;
use transcript::conversation::preview::preview;
use workshop::{Place, Plan, Read, Verb};

use crate::failure::Failure;
use crate::select;
use crate::surgery::{self, InPlaceAnyway, Target};
use crate::text::one_line;
use crate::world::World;

/// Put a tag on a session, or take it off
///
/// Adds a record to the end of the session's file, as the Agent SDK does. A session has one tag at
/// most; a new one replaces it. `quipu ls` and `quipu show` print it, and `quipu ls TAG` finds it.
/// Without TAG and `--remove`, prints the tag. A session that is in use is left alone (exit code
/// 5). `quipu undo` restores the file as it was.
#[derive(clap::Args, Debug)]
#[command(mut_arg("force", |arg| arg.help(surgery::FORCE_ITS_FILE)))]
pub(crate) struct TagArgs {
    /// The session
    session: String,
    /// The tag; with `--remove`, the tag is only removed if it is this one
    tag: Option<String>,
    /// Remove the tag
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    in_place: InPlaceAnyway,
    #[command(flatten)]
    target: Target,
}

/// The maximum length of a tag, in characters.
const LONGEST: usize = 100;

pub(crate) fn tag(world: &mut World, args: &TagArgs) -> Result<(), Failure> {
    let wanted = args.tag.as_ref().map(|tag| tag.split_whitespace().collect::<Vec<_>>().join(" "));
    let has_control = args.tag.iter().any(|tag| tag.chars().any(char::is_control));
    let is_wrong = |tag: &String| tag.is_empty() || has_control || tag.chars().count() > LONGEST;
    if wanted.as_ref().is_some_and(is_wrong) {
        let hint = format!(
            "1 to {LONGEST} characters on one line, without control characters; `--remove` removes it"
        );
        return Err(Failure::usage("that cannot be a tag", Some(&hint)));
    }
    let session = select::session_to_change(world, &args.session)?;
    let current = preview(&session.path)?.tag;
    if wanted.is_none() && !args.remove && !args.target.json {
        match &current {
            Some(tag) => writeln!(world.out, "{}", one_line(tag))?,
            None => world.out.note("it has no tag")?,
        }
        return Ok(());
    }
    let new = match (&wanted, args.remove) {
        // Another tag than the one to be removed stays.
        (Some(tag), true) if current.as_ref() != Some(tag) => current.clone(),
        (_, true) => None,
        (Some(tag), false) => Some(tag.clone()),
        (None, false) => current.clone(),
    };
    let is_same = new == current;
    let is_nothing = is_same && args.target.output.is_none();
    if !is_nothing {
        surgery::when_cold(world, &session, &args.target)?;
    }
    let rules = Rules::newest();
    let read = Read::open(&session, rules)?;
    let mut change = change::clone(&read.subject);
    if !is_same {
        change.tag(new.as_deref().unwrap_or_default(), &session.id);
    }
    let policy = args.target.policy(Verb::Tag, Place::InPlace);
    let job = surgery::job(world, &session, read, Plan::Change(change), policy);
    if is_nothing {
        let proof = job.proof(rules)?;
        let text = match &current {
            Some(tag) => format!("nothing to do: its tag is `{}`", one_line(tag)),
            None => "nothing to do: it has no tag".to_owned(),
        };
        return surgery::nothing(world, &job, &args.target, proof, &text);
    }
    surgery::carry_out(world, job, &args.target, rules)?;
    Ok(())
}
