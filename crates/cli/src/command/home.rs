//! `quipu` without a command: an overview of the sessions, and what to try next.
//!
//! Invariant: what it reports about sessions is what `quipu check` reports, and it says how many
//! were not checked. However many sessions there are, only the newest are opened.

use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use transcript::client::check::Verdict;
use transcript::conversation::place::Session;
use transcript::format::time::Time;

use crate::failure::Failure;
use crate::health::{self, Health};
use crate::out::{BOLD, DIM, GOOD, WARN};
use crate::project::newest_first;
use crate::survey::{headline, short_id, short_path, survey};
use crate::table::{Column, Table};
use crate::text::{age, count, one_line, quoted, size};
use crate::world::{Homes, World};

/// How many of the newest sessions are shown.
const NEWEST: usize = 8;

/// How long sessions are checked at most, and how long everything may take: if finding them takes
/// long, fewer are checked.
const PATIENCE: Duration = Duration::from_millis(300);
const WHOLE: Duration = Duration::from_millis(500);

pub(crate) fn home(world: &mut World) -> Result<(), Failure> {
    let begin = Instant::now();
    let homes = world.homes()?;
    let mut sessions = world.sessions()?;
    newest_first(&mut sessions);
    overview(world, &homes, &sessions)?;
    let filled: Vec<Session> = sessions.iter().filter(|one| one.size > 0).cloned().collect();
    if !filled.is_empty() {
        writeln!(world.out)?;
        newest(world, &filled)?;
    }
    deadline(world, &homes, &sessions)?;
    // Tests that fix the clock have no time limit.
    let patience = PATIENCE.min(WHOLE.saturating_sub(begin.elapsed()));
    let patience = world.stopped().is_none().then_some(patience);
    let now = i64::try_from(world.since(UNIX_EPOCH).as_millis()).ok().map(Time);
    let health = health::look(&filled, patience, now);
    for error in &health.unreadable {
        world.out.note(&error.to_string())?;
    }
    state(world, &sessions, filled.len(), &health)?;
    next_steps(world, &sessions, &filled, &health)
}

fn overview(world: &mut World, homes: &Homes, sessions: &[Session]) -> Result<(), Failure> {
    let projects: BTreeSet<_> = sessions.iter().map(|one| one.path.parent()).collect();
    let bytes = sessions.iter().map(|one| one.size).sum();
    let roots = homes.list.iter().map(|home| one_line(&home.root.display().to_string()));
    let head = format!(
        "{} in {}, {}",
        count(sessions.len() as u64, "session"),
        count(projects.len() as u64, "project"),
        size(bytes)
    );
    let head = world.out.style(BOLD, &head);
    let roots = roots.collect::<Vec<_>>().join(", ");
    Ok(writeln!(world.out, "{head}  {}", world.out.style(DIM, &roots))?)
}

fn newest(world: &mut World, filled: &[Session]) -> Result<(), Failure> {
    let columns = [
        Column::left("id"),
        Column::right("age"),
        Column::left("project"),
        Column::left("title or first prompt"),
    ];
    let mut table = Table::new(&columns).flexible(3);
    for one in survey(filled.iter().take(NEWEST).cloned().collect()) {
        table.row(&[
            short_id(&one.session),
            age(world.since(one.session.modified).as_secs()),
            short_path(one.project()),
            headline(&one),
        ]);
    }
    Ok(table.write(&mut world.out)?)
}

/// When the client will delete the oldest session.
fn deadline(world: &mut World, homes: &Homes, sessions: &[Session]) -> Result<(), Failure> {
    if homes.samples {
        return Ok(());
    }
    for home in &homes.list {
        let inside = sessions.iter().filter(|one| one.path.starts_with(&home.root));
        let Some(oldest) = inside.map(|one| one.modified).min() else {
            continue;
        };
        let days = match home.cleanup_days() {
            Ok(days) => days,
            Err(error) => {
                world.out.note(&error.to_string())?;
                continue;
            }
        };
        let kept = count(u64::from(days), "day");
        let keeps = format!(
            "Claude Code deletes sessions {kept} after their last change (`cleanupPeriodDays`)"
        );
        let line = match remaining(oldest, days, world.now) {
            _ if days == 0 => "Claude Code is set to keep no sessions at all".to_owned(),
            Some(left) if left.as_secs() < 60 => {
                format!("{keeps}: the oldest will be deleted any moment now")
            }
            Some(left) => format!("{keeps}: the oldest will be deleted in {}", age(left.as_secs())),
            None => format!("{keeps}: the oldest will be deleted when it next starts"),
        };
        let line = world.out.style(WARN, &line);
        writeln!(world.out, "\n{line}")?;
    }
    Ok(())
}

fn remaining(oldest: SystemTime, days: u32, now: SystemTime) -> Option<Duration> {
    let end = oldest.checked_add(Duration::from_secs(u64::from(days) * 86_400))?;
    end.duration_since(now).ok()
}

/// Whether the newest sessions resume.
fn state(
    world: &mut World,
    sessions: &[Session],
    filled: usize,
    health: &Health,
) -> Result<(), Failure> {
    if filled == 0 {
        return Ok(());
    }
    let Health { checked, bad, silent, .. } = health;
    let of = |wanted: Verdict| bad.iter().filter(|(_, verdict)| *verdict == wanted).count();
    let verb = |number: usize, one: &str, many: &str| {
        (number > 0).then(|| format!("{number} {}", if number == 1 { one } else { many }))
    };
    let mut parts: Vec<String> = [
        verb(of(Verdict::Loss), "resumes with loss", "resume with loss"),
        verb(of(Verdict::Rejected), "the API would refuse", "the API would refuse"),
        verb(of(Verdict::Refused), "the client refuses", "the client refuses"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() && *checked > 0 {
        parts.push("all resume fully".to_owned());
    }
    parts.extend(verb(*silent, "contains no conversation", "contain no conversation"));
    let summary = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    let style = if bad.is_empty() { GOOD } else { WARN };
    let line = world.out.style(style, &format!("{checked} of {filled} checked{summary}"));
    let empty = verb(sessions.len() - filled, "more is empty", "more are empty");
    let empty = empty.map_or(String::new(), |empty| format!("  {}", world.out.style(DIM, &empty)));
    writeln!(world.out, "\n{line}{empty}")?;
    let quipu = world.again();
    let rows: Vec<[String; 3]> = bad
        .iter()
        .take(NEWEST)
        .map(|(session, verdict)| {
            let repair = format!("{quipu} repair {} --dry-run", name(sessions, session));
            [short_id(session), verdict.words().to_owned(), repair]
        })
        .collect();
    let width = rows.iter().map(|row| row[1].len()).max().unwrap_or(0);
    for [id, verdict, repair] in &rows {
        writeln!(world.out, "  {id}  {verdict:width$}  {}", world.out.style(DIM, repair))?;
    }
    Ok(())
}

/// The name to type for a session: the start of its id, if no other id has the same start.
fn name(sessions: &[Session], session: &Session) -> String {
    let short = session.id.short();
    let same = sessions.iter().filter(|one| one.id.starts_with(&short)).count();
    quoted(if same > 1 { &session.id } else { &short })
}

fn next_steps(
    world: &mut World,
    sessions: &[Session],
    filled: &[Session],
    health: &Health,
) -> Result<(), Failure> {
    let quipu = world.again();
    let mut steps = vec![(format!("{quipu} ls --all"), "all sessions")];
    if !health.bad.is_empty() {
        let names = health.bad.iter().take(NEWEST).map(|(session, _)| name(sessions, session));
        let names = names.collect::<Vec<_>>().join(" ");
        steps.push((format!("{quipu} check {names}"), "what is wrong with these"));
    }
    if health.checked < filled.len() {
        steps.push((format!("{quipu} check --all"), "check the others too"));
    }
    if let Some(newest) = filled.first() {
        let newest = name(sessions, newest);
        steps.extend([
            (format!("{quipu} show {newest}"), "the newest session, as a conversation"),
            (format!("{quipu} tree {newest}"), "its branches, and which one is live"),
            (format!("{quipu} inventory --all"), "count what they contain"),
        ]);
        // Nobody writes to a sample.
        if !world.has_samples() {
            steps.push((format!("{quipu} follow {newest}"), "watch it being written"));
        }
    }
    let head = world.out.style(BOLD, "Try next");
    writeln!(world.out, "\n{head}")?;
    let width = steps.iter().map(|step| step.0.len()).max().unwrap_or(0);
    for (command, what) in steps {
        writeln!(world.out, "  {command:width$}  {}", world.out.style(DIM, what))?;
    }
    Ok(())
}
