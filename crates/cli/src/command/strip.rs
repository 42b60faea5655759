//! `quipu strip`: a session without the parts that it can do without.

use transcript::client::change::{self, Keep, Preset, Spared, Strip, Subject};
use transcript::client::history::Rules;
use workshop::{Agents, Place, Plan, Read, Verb};

use crate::failure::Failure;
use crate::select;
use crate::surgery::{self, Target};
use crate::text::{bytes, count, grouped};
use crate::world::World;

/// Remove tool calls, results, thinking, images or noise from a session
///
/// Writes a new session beside the original, unless `-o` or `--in-place` says otherwise. A call is
/// removed together with its result. Where something is removed from a turn, its thinking is
/// removed too, because the API accepts thinking only unchanged. Children of a removed record get
/// the record that is sent before it as their parent. Before anything is written, the result is
/// read again and checked: one that resumes less well is not written.
#[derive(clap::Args, Debug)]
#[command(mut_arg("force", |arg| arg.help(surgery::FORCE_IN_PLACE)))]
#[allow(clippy::struct_excessive_bools, reason = "independent flags")]
pub(crate) struct StripArgs {
    /// The session
    session: String,
    /// How much to remove; the options below add to it. Each preset removes what the one before it
    /// does, and more. light: copies, noise, sub-agents' records, nothing that the model sees;
    /// medium: also results of 4,000 bytes and more, and thinking, except in the last 5 turns
    /// (results: at most in the last 20 answers); heavy: also all results, images and lists of file
    /// copies, except in the last 2 turns (at most in the last 8 answers); extreme: also all calls,
    /// everywhere
    #[arg(long, value_enum, value_name = "HOW MUCH")]
    preset: Option<StripMode>,
    /// Tool calls, with their results
    #[arg(long, help_heading = "What to remove")]
    calls: bool,
    /// The contents of results; the calls stay, with a note about the size
    #[arg(long, help_heading = "What to remove")]
    results: bool,
    /// The structured copies of results, which no model sees
    #[arg(long, help_heading = "What to remove")]
    copies: bool,
    /// Thinking
    #[arg(long, help_heading = "What to remove")]
    thinking: bool,
    /// Images and documents; a note about them stays
    #[arg(long, help_heading = "What to remove")]
    images: bool,
    /// Records that are not conversation: progress, requests, the queue, durations, hook summaries
    #[arg(long, help_heading = "What to remove")]
    noise: bool,
    /// Lists of copies of edited files; without them the client cannot rewind edits
    #[arg(long, help_heading = "What to remove")]
    snapshots: bool,
    /// What sub-agents did: their records in the session's file; their own files are not copied
    #[arg(long, help_heading = "What to remove")]
    agents: bool,
    /// Only calls, results and copies of this tool (can be repeated)
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    tool: Vec<String>,
    /// Only calls, results and copies about this file, by its path in the call (can be repeated)
    #[arg(long, value_name = "PATH", help_heading = "Where")]
    file: Vec<String>,
    /// Only what is older than this many turns, whatever it is; replaces what a preset keeps
    #[arg(long, value_name = "TURNS", help_heading = "Where")]
    older_than: Option<usize>,
    /// Only results of at least this many bytes (4000, 64k, 1M), and their calls
    #[arg(long, value_name = "SIZE", value_parser = bytes, help_heading = "Where")]
    over: Option<u64>,
    /// Change the session's own file; a backup is kept first, and `quipu undo` restores it
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum StripMode {
    Light,
    Medium,
    Heavy,
    Extreme,
}

impl StripMode {
    fn name(self) -> &'static str {
        match self {
            StripMode::Light => "light",
            StripMode::Medium => "medium",
            StripMode::Heavy => "heavy",
            StripMode::Extreme => "extreme",
        }
    }
}

pub(crate) fn strip(world: &mut World, args: &StripArgs) -> Result<(), Failure> {
    let what = what(args)?;
    let session = select::session_to_change(world, &args.session)?;
    let rules = Rules::newest();
    let (read, change) = surgery::planned(world, &session, &args.target, |_| {
        let read = Read::open(&session, rules)?;
        let change = change::strip(&read.subject, &what)?;
        if change.leaves_nothing(read.subject.conversation()) {
            let hint = "strip less, or start a new session";
            return Err(Failure::usage("nothing would be left of the conversation", Some(hint)));
        }
        Ok((read, change))
    })?;
    let kept = kept(args, &what, &read.subject)?;
    let place = if args.in_place { Place::InPlace } else { Place::Beside };
    let mut policy = args.target.policy(Verb::Strip, place);
    if what.agents {
        policy.agents = Agents::None;
    }
    let job = surgery::job(world, &session, read, Plan::Change(change), policy);
    surgery::carry_out(world, job, &args.target, rules)?;
    if let Some(kept) = kept {
        world.out.note(&kept)?;
    }
    Ok(())
}

/// The note for a session whose results are all in the turns that are kept: says so, and what would
/// help.
fn kept(args: &StripArgs, what: &Strip, subject: &Subject) -> Result<Option<String>, Failure> {
    let (turns, answers) = match what.keep {
        Keep::Turns(turns) => (turns, None),
        Keep::Seen { turns, answers } => (turns, Some(answers)),
    };
    let Spared { taken: 0, kept: kept @ 1.., tokens } = change::spared(subject, what)? else {
        return Ok(None);
    };
    let by = match args.preset {
        Some(how) if answers.is_some() => format!("`{}`", how.name()),
        _ => format!("`--older-than {turns}`"),
    };
    let answers = answers.map_or(String::new(), |answers| format!(" and {answers} answers"));
    let results = match kept {
        1 => "the only result is".to_owned(),
        _ => format!("all {} are", count(kept as u64, "result")),
    };
    Ok(Some(format!(
        "{results} in the last {}{answers}, which {by} keeps; `--results --older-than 0` would save ~{} tokens",
        count(turns as u64, "turn"),
        grouped(tokens)
    )))
}

fn what(args: &StripArgs) -> Result<Strip, Failure> {
    let mut what = match args.preset {
        Some(StripMode::Light) => Strip::preset(Preset::Light),
        Some(StripMode::Medium) => Strip::preset(Preset::Medium),
        Some(StripMode::Heavy) => Strip::preset(Preset::Heavy),
        Some(StripMode::Extreme) => Strip::preset(Preset::Extreme),
        None => Strip::default(),
    };
    what.calls |= args.calls;
    what.results |= args.results;
    what.copies |= args.copies;
    what.thinking |= args.thinking;
    what.images |= args.images;
    what.noise |= args.noise;
    what.snapshots |= args.snapshots;
    what.agents |= args.agents;
    what.tools.clone_from(&args.tool);
    what.files.clone_from(&args.file);
    what.keep = args.older_than.map_or(what.keep, Keep::Turns);
    what.over = args.over.unwrap_or(what.over);
    if what.is_nothing() {
        let hint = "use `--preset light`, or select what to remove: `--calls`, `--results`, `--thinking`, …";
        return Err(Failure::usage("nothing to strip", Some(hint)));
    }
    Ok(what)
}
