//! `quipu lake push`: writes sessions into the lake.

use std::collections::HashSet;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use index::catalog::Catalog;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use lake::{
    Again, Content, Group, Policy, Progress, Push, Pushed, RawLines, State, Target, groups,
};
use serde::Serialize;
use transcript::conversation::place::Home;
use transcript::conversation::usage::{Ledger, Spending};

use super::{Lake, TargetArgs, failure};
use crate::catalog::CatalogArgs;
use crate::config::ContentLevel;
use crate::failure::Failure;
use crate::moment::moment;
use crate::out::JSON_VERSION;
use crate::prices;
use crate::select::{ChosenArgs, Selects};
use crate::text::{count, dollars, one_line, size};
use crate::world::World;

/// Write sessions into the lake, each into its own objects
///
/// Only sessions that have changed are written. Their objects have the same names each time, so
/// pushing again overwrites, from any number of machines at once. Sessions in the lake that share
/// calls of the API with them are written again if a call turns out to belong to another one. A
/// session that was erased (`quipu lake erase`) is pushed again only if it is named.
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct PushArgs {
    #[command(flatten)]
    chosen: ChosenArgs,
    /// Only sessions that were written to since then (of all, if none is named): `3d`, `12h`, `2w`,
    /// `2026-11-01`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
    /// How much is pushed: full; metadata only (default; no prompts, answers, tool I/O); or none
    /// (also no paths and branches)
    #[arg(long, value_name = "HOW MUCH")]
    content: Option<ContentLevel>,
    /// Also push the lines themselves (only with `--content full`)
    #[arg(long)]
    raw: bool,
    /// Do not redact secrets (only if the target is a folder)
    #[arg(long)]
    no_redact: bool,
    /// Also write what has not changed
    #[arg(long)]
    again: bool,
    /// Do not end: push what changes, of all sessions
    #[arg(long, conflicts_with_all = ["again", "json", "session"])]
    watch: bool,
    /// With `--watch`, how often to look, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, requires = "watch",
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    every: u64,
    /// Prices that replace those of the list (docs/usage.md)
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl PushArgs {
    fn is_all(&self) -> bool {
        let selects = self.since.is_some() || self.watch;
        self.chosen.is_all(if selects { Selects::SomeOfAll } else { Selects::Nothing })
    }
}

/// The whole of `--json`.
#[derive(Serialize)]
struct PushJson<'a> {
    v: u32,
    to: &'a str,
    machine: &'a str,
    content: &'a str,
    redacted: bool,
    sessions: u64,
    unchanged: u64,
    erased: u64,
    objects: u64,
    same_objects: u64,
    bytes: u64,
    rows: u64,
    unreadable: Vec<&'a str>,
    /// What only the catalog still knows, which `usage` counts and the lake does not.
    only_in_catalog: Option<Spending>,
}

/// What one round did.
struct Round {
    pushed: Pushed,
    /// Sessions that were erased and are left alone.
    erased: u64,
    only_in_catalog: Option<Spending>,
    outcome: Result<(), Failure>,
}

pub(crate) fn push(world: &mut World, args: &PushArgs) -> Result<(), Failure> {
    let named = if args.is_all() { Vec::new() } else { args.chosen.named(world)? };
    let named: HashSet<String> = named.into_iter().map(|session| session.id.to_string()).collect();
    let lake = Lake::open(world, &args.target)?;
    let policy = policy(world, args, &lake)?;
    let since = since(world, args)?;
    world.homes()?;
    if world.has_samples() {
        let message = "there are only sample sessions, which are not pushed";
        return Err(Failure::usage(message, Some("`--home` selects a home")));
    }
    if args.watch {
        return watch(world, args, &lake, &policy);
    }
    let (mut state, _held) = lake.state()?;
    let round = round(world, args, (&lake, &policy), (&named, since), &mut state)?;
    note_unreadable(world, &round.pushed)?;
    if args.json {
        let Pushed { sessions, unchanged, objects, same_objects, bytes, rows, .. } = round.pushed;
        world.out.json(&PushJson {
            v: JSON_VERSION,
            to: &lake.target.shown(),
            machine: &lake.machine,
            content: policy.content.name(),
            redacted: policy.redactor.is_some(),
            sessions,
            unchanged,
            erased: round.erased,
            objects,
            same_objects,
            bytes,
            rows,
            unreadable: round.pushed.unreadable.iter().map(|(id, _)| id.as_str()).collect(),
            only_in_catalog: round.only_in_catalog,
        })?;
    } else if round.outcome.is_ok() || round.pushed.sessions > 0 {
        say(world, &lake, &round)?;
    }
    round.outcome?;
    match round.pushed.unreadable.len() {
        unreadable if unreadable > 0 && !args.is_all() => Err(Failure::some_unreadable(unreadable)),
        _ => Ok(()),
    }
}

/// Says which sessions cannot be read.
fn note_unreadable(world: &mut World, pushed: &Pushed) -> Result<(), Failure> {
    for (session, error) in &pushed.unreadable {
        world.out.note(&format!("cannot read `{}`: {}", one_line(session), one_line(error)))?;
    }
    Ok(())
}

fn policy(world: &mut World, args: &PushArgs, lake: &Lake) -> Result<Policy, Failure> {
    if args.no_redact && !matches!(lake.target, Target::Folder(_)) {
        let hint = "secrets stay on this machine; push to a folder, or without `--no-redact`";
        return Err(Failure::usage("`--no-redact` is only for folders", Some(hint)));
    }
    let config = world.lake_config().clone();
    let content = match args.content.or(config.content) {
        Some(ContentLevel::Full) => Content::Full,
        Some(ContentLevel::Meta) | None => Content::Meta,
        Some(ContentLevel::None) => Content::None,
    };
    if args.raw && content != Content::Full {
        let hint = "use `--content full`";
        return Err(Failure::usage("`--raw` pushes everything that was said", Some(hint)));
    }
    Ok(Policy {
        machine: lake.machine.clone(),
        user: config.user,
        team: config.team,
        content,
        raw: if args.raw { RawLines::Pushed } else { RawLines::LeftOut },
        redactor: (!args.no_redact).then(|| world.redactor()),
        redact_rules: format!("{:?}", world.redact_config()),
        prices: prices::in_force(world, args.prices.as_deref())?,
    })
}

fn since(world: &World, args: &PushArgs) -> Result<Option<SystemTime>, Failure> {
    let now = Timestamp::try_from(world.now).unwrap_or(Timestamp::UNIX_EPOCH);
    let since = args.since.as_deref().map(|text| moment(text, now));
    Ok(since.transpose()?.map(SystemTime::from))
}

/// All messages of all files that are there.
fn ledger(
    world: &mut World,
    catalog: Option<&Catalog>,
    homes: &[Home],
    threads: usize,
) -> Result<Ledger, Failure> {
    if let Some(catalog) = catalog {
        match catalog.present_ledger(homes, threads) {
            Ok(ledger) => return Ok(ledger),
            Err(error) => world.out.note(&format!("{error}: all sessions are read"))?,
        }
    }
    Ok(Ledger::of_homes(homes, threads))
}

/// Pushes what has changed.
fn round(
    world: &mut World,
    args: &PushArgs,
    (lake, policy): (&Lake, &Policy),
    (named, since): (&HashSet<String>, Option<SystemTime>),
    state: &mut State,
) -> Result<Round, Failure> {
    let homes = world.homes()?.list;
    let threads = args.catalog.threads();
    let catalog = args.catalog.open_if_there(world)?;
    let ledger = ledger(world, catalog.as_ref(), &homes, threads)?;
    for (path, error) in &ledger.unreadable {
        world.out.note(&format!("cannot read `{}`: {error}", path.display()))?;
    }
    let only_in_catalog = catalog
        .as_ref()
        .and_then(|catalog| only_there(&catalog.current_ledger(&homes, threads).ok()?, policy));
    drop(catalog);
    let recovered = lake::recover(&lake.target, state, (&ledger, policy));
    recovered.map_err(|error| failure(&error))?;
    let groups = groups(&ledger, state);
    let is_recent = |group: &Group| {
        let files = group.files.iter().map(|file| &ledger.sources[*file]);
        since.is_none_or(|since| files.map(|file| file.modified).any(|time| time >= since))
    };
    let mut erased = 0;
    let mut chosen = Vec::new();
    for group in groups.iter().filter(|group| args.is_all() || named.contains(&group.id)) {
        let is_erased = state.of(&group.id).is_some_and(lake::Record::is_erased);
        if args.is_all() && is_erased {
            erased += 1;
        } else if is_recent(group) {
            chosen.push(group);
        }
    }
    if let Some(id) = named.iter().find(|id| groups.iter().all(|group| group.id != **id)) {
        let message = format!("session `{}` is in no Claude home", one_line(id));
        return Err(Failure::not_found(message, "`--home` selects a home"));
    }
    let again = if args.again { Again::Everything } else { Again::Changed };
    let push = Push { ledger: &ledger, target: &lake.target, policy, threads, again };
    let (pushed, outcome) = with_bar(|progress| push.run(&groups, &chosen, state, progress));
    let outcome = outcome.map_err(|error| failure(&error));
    Ok(Round { pushed, erased, only_in_catalog, outcome })
}

/// What the messages took that only the catalog still knows.
fn only_there(all: &Ledger, policy: &Policy) -> Option<Spending> {
    let mut sum = Spending::default();
    for entry in all.entries.iter().filter(|entry| all.is_gone(entry)) {
        sum += entry.message.spending(&policy.prices);
    }
    (sum.messages > 0).then_some(sum)
}

/// Shows how far a push is, in a terminal.
fn with_bar<T: Send>(work: impl FnOnce(&Progress) -> T + Send) -> T {
    let progress = Progress::default();
    if !std::io::stderr().is_terminal() {
        return work(&progress);
    }
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let style = "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    let is_done = AtomicBool::new(false);
    let done = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                bar.set_length(progress.total.load(Ordering::Relaxed));
                bar.set_position(progress.done.load(Ordering::Relaxed));
                thread::sleep(Duration::from_millis(100));
            }
        });
        let done = work(&progress);
        is_done.store(true, Ordering::Relaxed);
        done
    });
    bar.finish_and_clear();
    done
}

fn say(world: &mut World, lake: &Lake, round: &Round) -> Result<(), Failure> {
    let Pushed { sessions, unchanged, objects, bytes, rows, .. } = round.pushed;
    let to = lake.target.shown();
    let mut text = match sessions {
        0 => format!("Nothing new for {to}"),
        _ => format!(
            "Pushed {} to {to}: {}, {}, {}",
            count(sessions, "session"),
            count(rows, "row"),
            count(objects, "object"),
            size(bytes)
        ),
    };
    if unchanged > 0 {
        text = format!("{text}; {} unchanged", count(unchanged, "session"));
    }
    writeln!(world.out, "{text}.")?;
    for name in &lake.former {
        let name = one_line(name);
        world.out.note(&format!(
            "this machine was called `{name}`: what it pushed under that name is still there, too"
        ))?;
    }
    if round.erased > 0 {
        let sessions = count(round.erased, "session");
        let text = format!("{sessions} left out that you erased; name one to push it again");
        world.out.note(&text)?;
    }
    if let Some(sum) = &round.only_in_catalog {
        let messages = count(sum.messages, "message");
        world.out.note(&format!(
            "`quipu usage` also counts {messages} ({}) of sessions whose files are gone",
            dollars(sum)
        ))?;
    }
    Ok(())
}

/// Pushes again and again what has changed, until it is stopped from outside. Between two rounds,
/// others may use the lake: an erasure need not wait.
fn watch(world: &mut World, args: &PushArgs, lake: &Lake, policy: &Policy) -> Result<(), Failure> {
    let mut before = None;
    loop {
        let now = stamps(&world.homes()?.list);
        if before.as_ref() != Some(&now) {
            // What fails is tried again: a network comes and goes, and so do other processes.
            match round_of_watch(world, args, lake, policy) {
                Ok(()) => before = Some(now),
                Err(failure) => failure.report(),
            }
            world.out.flush()?;
        }
        thread::sleep(Duration::from_secs(args.every));
    }
}

fn round_of_watch(
    world: &mut World,
    args: &PushArgs,
    lake: &Lake,
    policy: &Policy,
) -> Result<(), Failure> {
    let since = since(world, args)?;
    let (mut state, _held) = lake.state()?;
    let round = round(world, args, (lake, policy), (&HashSet::new(), since), &mut state)?;
    note_unreadable(world, &round.pushed)?;
    if round.pushed.sessions > 0 {
        say(world, lake, &round)?;
    }
    round.outcome
}

/// What shows whether any file has changed.
fn stamps(homes: &[Home]) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
    let paths = homes.iter().flat_map(Home::transcripts);
    let stamp = |path: PathBuf| {
        let found = std::fs::metadata(&path).ok()?;
        Some((path, found.len(), found.modified().ok()))
    };
    paths.filter_map(stamp).collect()
}
