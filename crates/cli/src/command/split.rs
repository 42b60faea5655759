//! `quipu split`: a session as two.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use transcript::client::change::{self, ForkError, SplitError, SplitNote};
use transcript::client::history::Rules;
use transcript::conversation::place::Session;
use transcript::conversation::preview::preview;
use workshop::{Place, Plan, Read, Verb};

use crate::failure::Failure;
use crate::headline::headline;
use crate::select;
use crate::surgery::{self, Target};
use crate::text::{fit, one_line};
use crate::world::World;

/// Split a session in two: the turns before a turn, and the turns from there on
///
/// The second session begins with a compaction whose summary says where it comes from and what was
/// asked before. `quipu merge FIRST SECOND` joins them again. The original is not touched, unless
/// `--in-place` makes it the first of the two. One `quipu undo` takes back both.
#[derive(clap::Args, Debug)]
#[command(mut_arg("output", |arg| arg.help(OUTPUT)))]
pub(crate) struct SplitArgs {
    /// The session
    session: String,
    /// The first turn of the second session, by its number in `quipu turns`
    #[arg(long, value_name = "TURN")]
    at: usize,
    /// The session's own file keeps the turns before; only the second session is new
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    #[command(flatten)]
    target: Target,
}

/// The help text of `-o`.
const OUTPUT: &str =
    "Write the two results only to files with this name and `-1` or `-2` before its extension";

/// How many of the last prompts before the point the summary names, and how much of each.
const NAMED: usize = 12;
const WIDTH: usize = 100;

pub(crate) fn split(world: &mut World, args: &SplitArgs) -> Result<(), Failure> {
    let session = select::session_to_change(world, &args.session)?;
    let output = args.target.output.as_deref();
    if output == Some(Path::new("-")) {
        let hint = "name a file: `-o part.jsonl` writes `part-1.jsonl` and `part-2.jsonl`";
        return Err(Failure::usage("two sessions cannot both go to stdout", Some(hint)));
    }
    let rules = Rules::newest();
    let origin = session.id.short();
    let place = if args.in_place { Place::InPlace } else { Place::Beside };
    let [first, second] = [1, 2].map(|half| Target {
        output: output.map(|path| numbered(path, half)),
        ..args.target.clone()
    });
    let (read, again, before, after) = surgery::planned(world, &session, &first, |_| {
        let read = Read::open(&session, rules)?;
        let again = Read::open(&session, rules)?;
        let summary = summary(&session, &read, args.at)?;
        let note = SplitNote { origin: &origin, summary: &summary };
        let [before, _] = change::split(&read.subject, args.at, note).map_err(refused)?;
        let [_, after] = change::split(&again.subject, args.at, note).map_err(refused)?;
        Ok((read, again, before, after))
    })?;
    let policy = first.policy(Verb::Split, place);
    let before = surgery::job(world, &session, read, Plan::Change(before), policy);
    let policy = second.policy(Verb::Split, Place::Beside);
    let mut after = surgery::job(world, &session, again, Plan::Change(after), policy);
    after.new_id = world.second_id().into();
    surgery::carry_out_both(world, [(before, first), (after, second)], rules)
}

fn refused(error: SplitError) -> Failure {
    let hint = "`quipu turns` lists the turns";
    match error {
        SplitError::Fork(ForkError::Read(error)) => error.into(),
        SplitError::First => Failure::usage(error.to_string(), Some(hint)),
        SplitError::Fork(other) => Failure::not_found(other.to_string(), hint),
    }
}

/// What the second session says about what was before.
fn summary(session: &Session, read: &Read, turn: usize) -> Result<String, Failure> {
    let conversation = read.subject.conversation();
    let turns = conversation.turns_in(&conversation.live());
    let found = preview(&session.path).unwrap_or_default();
    let title = one_line(&found.title.or(found.prompt).unwrap_or_default());
    let before = &turns[..turns.len().min(turn.saturating_sub(1))];
    let mut text = format!(
        "This session is the rest of session {} (\"{}\"), which was split before turn {turn}. The \
         turns before that are in another session. What was asked in them:\n",
        session.id.short(),
        fit(&title, WIDTH)
    );
    if before.len() > NAMED {
        let _ = write!(text, "\n({} earlier prompts)", before.len() - NAMED);
    }
    for (number, turn) in (1..).zip(before).skip(before.len().saturating_sub(NAMED)) {
        let asked = fit(&headline(conversation, turn)?, WIDTH);
        let _ = write!(text, "\n{number}. {asked}");
    }
    Ok(text)
}

/// A file name with a number before its extension.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}-{number}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{number}"),
    };
    path.with_file_name(name)
}
