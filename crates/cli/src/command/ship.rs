//! `quipu ship`: sends sessions as traces to a receiver, each once.

mod tree;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use export::client::Stop;
use export::jobs::SetAside;
use export::outbox::{Outbox, ReceiverDir, Refused, Trouble, WhenDown, side_by_side};
use export::receiver::Receiver;
use export::ship::{Made, Repeat, ShipError, Shipper};
use files::{Held, Lock};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use serde::Serialize;
use transcript::conversation::ingest::Closing;
use transcript::conversation::place::{Home, Session};
use transcript::format::time::Time;

use crate::failure::Failure;
use crate::jobs;
use crate::moment::moment;
use crate::out::JSON_VERSION;
use crate::receiver::{self, ReceiverArgs};
use crate::select::ChosenArgs;
use crate::text::count;
use crate::world::World;

/// Send sessions as traces to Langfuse, Phoenix or any OTLP receiver, each turn once
///
/// A turn becomes a trace: its answers, their calls, and the sub-agents that the calls started.
/// Only finished turns are sent. Quipu remembers what has arrived, and makes ids from the session's
/// own, so sending anything twice changes nothing. Batches that wait on disk are sent first; a
/// damaged batch is not sent, but made again. `--all` also retries jobs of hooks that were set
/// aside. If another quipu ships to the same receiver, waits for it, 30 seconds at most.
#[derive(clap::Args, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct ShipArgs {
    #[command(flatten)]
    chosen: ChosenArgs,
    /// Only turns since this time: `3d`, `12h`, `2w`, `2026-11-01`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    #[command(flatten)]
    receiver: ReceiverArgs,
    /// Print what would be sent, as a tree, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Only check that the receiver is reachable and accepts the credentials
    #[arg(long, conflicts_with_all = ["session", "all", "dry_run", "json"])]
    check: bool,
    /// Also send what the receiver already has
    #[arg(long)]
    again: bool,
    /// Print one JSON object about what was sent; with `--dry-run`, one per span
    #[arg(long)]
    json: bool,
}

impl ShipArgs {
    fn repeat(&self) -> Repeat {
        if self.again { Repeat::Always } else { Repeat::Never }
    }
}

pub(crate) fn ship(world: &mut World, args: &ShipArgs) -> Result<(), Failure> {
    if args.check {
        return check(world, args);
    }
    let since = args.since.as_deref().map(|text| {
        let now = Timestamp::try_from(world.now).unwrap_or(Timestamp::UNIX_EPOCH);
        Ok::<_, Failure>(Time(moment(text, now)?.as_millisecond()))
    });
    let since = since.transpose()?;
    let (sessions, closed) = sessions(world, args)?;
    if args.dry_run {
        tree::tree(world, args, &sessions, since)?;
        return readable(&closed);
    }
    let receiver = Arc::new(receiver::find(world, &args.receiver)?);
    if world.has_samples() && (args.chosen.all || !receiver.is_here) {
        let hint = "`--dry-run` shows what would be sent; a sample that you name can be sent to a receiver on this machine";
        return Err(Failure::usage(
            "there are only sample sessions, which are not sent",
            Some(hint),
        ));
    }
    let is_all = args.chosen.all && since.is_none() && closed.is_empty() && !world.has_home_flags();
    let extent = if is_all { Extent::All } else { Extent::Some };
    send(world, args, &receiver, &sessions, (since, extent))?;
    // Hooks that ran while we held the lock have left their jobs to us.
    let aside = if args.chosen.all { SetAside::TryAgain } else { SetAside::Leave };
    for note in jobs::left(world, &receiver, aside)?.iter().filter(|_| args.chosen.all) {
        world.out.note(&format!("a job of a hook is set aside: {note}"))?;
    }
    readable(&closed)
}

/// Fails if a folder that was asked for could not be read; each was reported already.
fn readable(closed: &[PathBuf]) -> Result<(), Failure> {
    match closed {
        [] => Ok(()),
        [folder, ..] => {
            let hint = "everything else was processed; fix the permissions, and run it again";
            Err(Failure::closed(folder, hint))
        }
    }
}

/// The sessions that were asked for, oldest first, and the folders that cannot be read.
fn sessions(world: &mut World, args: &ShipArgs) -> Result<(Vec<Session>, Vec<PathBuf>), Failure> {
    let (mut found, mut closed) = (args.chosen.named(world)?, Vec::new());
    if args.chosen.all {
        found = world.sessions()?;
        closed = world.homes()?.list.iter().flat_map(Home::unreadable).collect();
    }
    found.sort_by(|one, other| (one.modified, &one.path).cmp(&(other.modified, &other.path)));
    found.dedup_by(|one, other| one.path == other.path);
    Ok((found, closed))
}

/// The outcome, as JSON.
#[derive(Serialize)]
struct Report {
    v: u32,
    to: String,
    sessions: usize,
    turns: usize,
    runs: usize,
    spans: usize,
    waited: usize,
    known: usize,
    unfinished: usize,
    spooled: usize,
    refused: usize,
    unreadable: usize,
}

/// How long to wait for another process that ships to the same receiver.
const PATIENCE: Duration = Duration::from_secs(30);

/// Keeps other processes from shipping to the same receiver; waits for one that already does, but
/// not for ever.
fn hold(world: &mut World, receiver_dir: &ReceiverDir) -> Result<Held, Failure> {
    let who = format!("process {} (quipu ship)", std::process::id());
    let lock = |patience: Duration| {
        receiver_dir
            .lock(&who, patience)
            .map_err(|error| Failure::unwritable(&receiver_dir.folder, error))
    };
    let other = match lock(Duration::ZERO)? {
        Lock::Held(held) => return Ok(held),
        Lock::Busy(other) => other,
    };
    let seconds = PATIENCE.as_secs();
    let what = "is shipping to the same receiver";
    world
        .out
        .note(&format!("{} {what}: waiting for it, {seconds} seconds at most", named(&other)))?;
    match lock(PATIENCE)? {
        Lock::Held(held) => Ok(held),
        Lock::Busy(other) => {
            let message = format!("{} {what} and has not finished", named(&other));
            let hint = "try again later, or end that process: what it has not sent is not lost";
            Err(Failure::undelivered(message, Some(hint)))
        }
    }
}

fn named(holder: &str) -> &str {
    if holder.is_empty() { "another quipu" } else { holder }
}

/// Whether this run covers all sessions, in all homes and from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    All,
    Some,
}

fn send(
    world: &mut World,
    args: &ShipArgs,
    receiver: &Receiver,
    sessions: &[Session],
    (since, extent): (Option<Time>, Extent),
) -> Result<(), Failure> {
    let receiver_dir = &receiver.dir;
    let _held = hold(world, receiver_dir)?;
    if let Some(taken_over) = receiver.take_over(&receiver::their_home(world)) {
        world.out.note(&receiver::of_taken_over(&taken_over))?;
    }
    let sender = receiver::sender(receiver)?;
    let mut outbox = Outbox::new(&sender, receiver_dir, WhenDown::Stop);
    let mut outcome = outbox.drain(Refused::TryAgain);
    let (mut made, mut unreadable) = (Made::default(), 0);
    let mut notes = Vec::new();
    if outcome.is_ok() {
        let bar = bar(sessions);
        let now = world.now;
        let (shipped, delivered) = side_by_side(&mut outbox, |give| {
            let mut shipper =
                Shipper::new(receiver_dir, &receiver.telling, &receiver.ids, args.repeat(), since);
            let mut before = 0;
            for session in sessions {
                let watch = |bytes: u64| bar.set_position(before + bytes);
                match shipper.session(session, &Closing::default(), now, give, &watch) {
                    Ok(more) => made.add(more),
                    Err(ShipError::Closed) => break,
                    Err(ShipError::Read(error)) => {
                        unreadable += 1;
                        notes.push(error.to_string());
                    }
                }
                before += session.size;
                bar.set_position(before);
            }
            shipper.finish(give)
        });
        bar.finish_and_clear();
        // The side that closed the channel reports why.
        drop(shipped);
        outcome = delivered;
    }
    let tally = std::mem::take(&mut outbox.tally);
    // What was in damaged batches has been made again.
    if extent == Extent::All && outcome.is_ok() && unreadable == 0 {
        receiver_dir
            .spool
            .forget_damaged()
            .map_err(|error| Failure::unwritable(&receiver_dir.folder, error))?;
    }
    for note in notes.iter().chain(&tally.notes) {
        world.out.note(note)?;
    }
    let report = Report {
        v: JSON_VERSION,
        to: receiver.shown(),
        sessions: sessions.len(),
        turns: made.turns,
        runs: made.runs,
        spans: tally.spans,
        waited: tally.waited,
        known: made.known,
        unfinished: made.unfinished,
        spooled: tally.kept,
        refused: tally.refused,
        unreadable,
    };
    if args.json {
        world.out.json(&report)?;
    } else {
        say(world, &report)?;
    }
    match outcome {
        Err(trouble) => Err(undelivered(&trouble)),
        Ok(()) if tally.refused > 0 => {
            let folder = receiver_dir.spool.refused_folder().display().to_string();
            let hint = format!("they are in `{folder}`; run it again to try them again");
            let message = format!("the receiver refused {}", count(tally.refused as u64, "span"));
            Err(Failure::undelivered(message, Some(&hint)))
        }
        Ok(()) if tally.lost > 0 => {
            let message = format!("the receiver did not keep {}", count(tally.lost as u64, "span"));
            Err(Failure::undelivered(message, Some("`--again` sends them again")))
        }
        Ok(()) if unreadable > 0 && !args.chosen.all => Err(Failure::some_unreadable(unreadable)),
        Ok(()) => Ok(()),
    }
}

fn say(world: &mut World, report: &Report) -> Result<(), Failure> {
    let number = |count: usize, noun: &str| self::count(count as u64, noun);
    let sum = |turns: usize, runs: usize| match runs {
        0 => number(turns, "turn"),
        _ => format!("{} and {} of sub-agents", number(turns, "turn"), number(runs, "run")),
    };
    let to = &report.to;
    let mut parts = vec![match report.spans {
        0 if report.spooled + report.refused > 0 => format!("Nothing arrived at {to}"),
        0 => format!("Nothing new for {to}"),
        spans if report.waited == spans => format!("Sent {} to {to}", number(spans, "span")),
        spans => {
            let units = sum(report.turns, report.runs);
            format!("Sent {} ({units}) to {to}", number(spans, "span"))
        }
    }];
    if report.waited > 0 {
        parts.push(format!("{} had waited on disk", report.waited));
    }
    let rest =
        [(report.known, "already there"), (report.unfinished, "not finished yet")].into_iter();
    let rest = rest.filter(|(count, _)| *count > 0);
    parts.extend(rest.map(|(count, what)| format!("{count} {what}")));
    if report.spooled > 0 {
        parts.push(format!("{} waiting on disk", number(report.spooled, "span")));
    }
    Ok(writeln!(world.out, "{}.", parts.join("; "))?)
}

/// Why traces did not arrive, and what to do.
pub(super) fn undelivered(trouble: &Trouble) -> Failure {
    let hint = match trouble {
        Trouble::Receiver(Stop::Down(_)) => {
            "the spans are kept and sent first next time: run it again to continue where it stopped"
        }
        Trouble::Receiver(Stop::Denied(_)) => "set the keys, and run it again: nothing is lost",
        Trouble::Receiver(Stop::Wrong(_)) => {
            "OTLP receivers listen at `…/v1/traces`; for Langfuse use `…/api/public/otel`"
        }
        Trouble::Receiver(Stop::Refused(_)) => {
            "what was refused is kept; `quipu hook status` shows where"
        }
        Trouble::Queue(_) => {
            "free some disk space, and run it again: the sessions still contain everything"
        }
        Trouble::Waiting(..) => "nothing after it was sent: look at that folder",
    };
    Failure::undelivered(trouble.to_string(), Some(hint))
}

fn check(world: &mut World, args: &ShipArgs) -> Result<(), Failure> {
    let receiver = receiver::find(world, &args.receiver)?;
    let mut sender = receiver::sender(&receiver)?;
    // A person waits.
    sender.tries(0);
    let (to, by) = (receiver.shown(), receiver.named_by);
    match sender.check() {
        Ok(None) => Ok(writeln!(world.out, "{to} accepts traces (from {by}).")?),
        Ok(Some(reply)) => {
            let text = format!(
                "{to} is reachable and accepts the credentials (from {by}), but not an empty request: {reply}"
            );
            Ok(writeln!(world.out, "{text}")?)
        }
        Err(stop) => {
            world.out.note(&format!("tried {to} (from {by})"))?;
            let hint = match &stop {
                Stop::Down(_) => Some("is it running, and is this its address?"),
                Stop::Denied(_) => {
                    Some("for Langfuse: LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY of the project")
                }
                Stop::Wrong(_) => Some(
                    "OTLP receivers listen at `…/v1/traces`; for Langfuse use `…/api/public/otel`",
                ),
                Stop::Refused(_) => None,
            };
            Err(Failure::undelivered(stop.to_string(), hint))
        }
    }
}

/// A progress bar, if stderr is a terminal.
fn bar(sessions: &[Session]) -> ProgressBar {
    let total = sessions.iter().map(|session| session.size).sum();
    let target = if std::io::stderr().is_terminal() && sessions.len() > 1 {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(total), target);
    let style = "{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
