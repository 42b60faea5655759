//! `quipu strip`: a session without what it can do without.

use transcript::change::{self, Keep, Preset, Spared, Strip, Subject};
use transcript::history::Rules;

use crate::failure::Failure;
use crate::surgery::{self, Job, Plan, Target};
use crate::text::{bytes, count, grouped};
use crate::world::World;

/// Take tool calls, results, thinking, images or noise out of a session
///
/// Writes a new session beside the original, unless `-o` or `--in-place` says otherwise. A call goes with its result; where something is taken out of a turn its thinking goes too, which the API
/// takes only as it was given; what hung on it is hung on what is sent before it. Before anything is written the result is read again and judged: one that resumes less well is not written.
#[derive(clap::Args, Debug)]
#[command(mut_arg("force", |arg| arg.help(surgery::FORCE_IN_PLACE)))]
#[allow(
    clippy::struct_excessive_bools,
    reason = "switches that have nothing to do with each other"
)]
pub(crate) struct StripArgs {
    /// The session
    session: String,
    /// How much, if nothing below says it. Each takes out what the one before it does, and more. light: copies, noise, sub-agents' records, nothing that the model sees; medium: also results over
    /// 4,000 bytes and thinking, except in the last 5 turns (of results, at most the last 20 answers); heavy: also all results, images and lists of file copies, except in the last 2 turns (at most the
    /// last 8 answers); extreme: also all calls, everywhere
    #[arg(long, value_enum, value_name = "HOW MUCH")]
    preset: Option<How>,
    /// Tool calls, with their results
    #[arg(long, help_heading = "What goes")]
    calls: bool,
    /// What results say; the calls stay, and a word about the size
    #[arg(long, help_heading = "What goes")]
    results: bool,
    /// The structured copies of results, which no model sees
    #[arg(long, help_heading = "What goes")]
    copies: bool,
    /// Thinking
    #[arg(long, help_heading = "What goes")]
    thinking: bool,
    /// Images and documents; a word about them stays
    #[arg(long, help_heading = "What goes")]
    images: bool,
    /// Lines that are no conversation: progress, requests, the queue, durations, summaries of hooks
    #[arg(long, help_heading = "What goes")]
    noise: bool,
    /// Lists of copies of edited files: without them the client cannot take edits back
    #[arg(long, help_heading = "What goes")]
    snapshots: bool,
    /// What sub-agents did: their records in the session's file; their own files are not taken along
    #[arg(long, help_heading = "What goes")]
    agents: bool,
    /// Only calls, results and copies of this tool (can be repeated)
    #[arg(long, value_name = "NAME", help_heading = "Where")]
    tool: Vec<String>,
    /// Only what is older than so many turns, whatever it is; instead of what a preset keeps
    #[arg(long, value_name = "TURNS", help_heading = "Where")]
    older_than: Option<usize>,
    /// Only results of at least that many bytes (4000, 64k, 1M), and their calls
    #[arg(long, value_name = "SIZE", value_parser = bytes, help_heading = "Where")]
    over: Option<u64>,
    /// Change the session's own file: a backup is made first, and `quipu undo` brings it back
    #[arg(long, conflicts_with = "output")]
    in_place: bool,
    #[command(flatten)]
    target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum How {
    Light,
    Medium,
    Heavy,
    Extreme,
}

impl How {
    fn name(self) -> &'static str {
        match self {
            How::Light => "light",
            How::Medium => "medium",
            How::Heavy => "heavy",
            How::Extreme => "extreme",
        }
    }
}

pub(crate) fn strip(world: &mut World, args: &StripArgs) -> Result<(), Failure> {
    let what = what(args)?;
    let session = world.session(&args.session)?;
    let rules = Rules::newest();
    let read = surgery::read(&session, rules)?;
    let change = change::strip(&read.subject, &what);
    let change = change.map_err(|error| Failure::unreadable(&session.path, error))?;
    if change.leaves_nothing(read.subject.conversation()) {
        let hint = "strip less, or begin a new session";
        return Err(Failure::usage("nothing of the conversation would be left", Some(hint)));
    }
    let kept = kept(args, &what, &read.subject);
    let job = Job {
        verb: "strip",
        session: &session,
        read,
        plan: Plan::Change(change),
        in_place: args.in_place,
        keep_ids: false,
        without_agents: what.agents,
    };
    surgery::carry_out(world, job, &args.target, rules)?;
    if let Some(kept) = kept {
        world.out.note(&kept)?;
    }
    Ok(())
}

/// Where all results stay because of where they stand: that it is so, and what would help.
fn kept(args: &StripArgs, what: &Strip, subject: &Subject) -> Option<String> {
    let (turns, answers) = match what.keep {
        Keep::Turns(turns) => (turns, None),
        Keep::Seen { turns, answers } => (turns, Some(answers)),
    };
    let Spared { taken: 0, kept: kept @ 1.., tokens } = change::spared(subject, what) else {
        return None;
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
    Some(format!(
        "{results} in the last {}{answers}, which {by} keeps; `--results --older-than 0` would save ~{} tokens",
        count(turns as u64, "turn"),
        grouped(tokens)
    ))
}

fn what(args: &StripArgs) -> Result<Strip, Failure> {
    let mut what = match args.preset {
        Some(How::Light) => Strip::preset(Preset::Light),
        Some(How::Medium) => Strip::preset(Preset::Medium),
        Some(How::Heavy) => Strip::preset(Preset::Heavy),
        Some(How::Extreme) => Strip::preset(Preset::Extreme),
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
    what.keep = args.older_than.map_or(what.keep, Keep::Turns);
    what.over = args.over.unwrap_or(what.over);
    if what.is_nothing() {
        let hint =
            "give `--preset light`, or say what goes: `--calls`, `--results`, `--thinking`, …";
        return Err(Failure::usage("nothing to strip", Some(hint)));
    }
    Ok(what)
}
