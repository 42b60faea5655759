//! `quipu ls`: sessions, newest first.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use jiff::Timestamp;
use serde::Serialize;
use transcript::conversation::place::{Beside, Session};
use transcript::conversation::preview::Trouble;
use transcript::format::file::Lines;

use crate::failure::Failure;
use crate::moment::moment;
use crate::out::JSON_VERSION;
use crate::project;
use crate::survey::{Surveyed, headline, short_id, short_path, survey};
use crate::table::{Column, Table};
use crate::text::{age, size};
use crate::world::World;

/// List sessions, newest first; empty ones last
///
/// Lists the sessions of the current project, or of all projects if it has none. `last` in other
/// commands is the first row, if that session belongs to the current project. Reads only the start
/// and the end of each file, so it misses a title, and damage, that is only in the middle.
#[derive(clap::Args, Debug)]
pub(crate) struct LsArgs {
    /// Only sessions with this in their title, first prompt, folder or id
    word: Option<String>,
    /// Only this project: a folder, or part of its path
    #[arg(long, value_name = "PROJECT", conflicts_with = "all")]
    project: Option<String>,
    /// List the sessions of all projects
    #[arg(long)]
    all: bool,
    /// Only sessions changed since this time: `3d`, `12h`, `2w`, `2026-11-01`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Count the records of each session, and find damage anywhere; reads whole files
    #[arg(long)]
    count: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// A row of `--json`.
#[derive(Serialize)]
struct LsRow<'a> {
    v: u32,
    id: &'a str,
    path: Cow<'a, str>,
    project: &'a str,
    cwd: Option<&'a str>,
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tag: Option<&'a str>,
    prompt: Option<&'a str>,
    branch: Option<&'a str>,
    version: Option<&'a str>,
    started: Option<String>,
    ended: Option<String>,
    modified: String,
    size: u64,
    flags: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
}

pub(crate) fn ls(world: &mut World, args: &LsArgs) -> Result<(), Failure> {
    let now = Timestamp::try_from(world.now).unwrap_or_default();
    let earliest = args.since.as_deref().map(|since| moment(since, now)).transpose()?;
    let Chosen { mut sessions, is_part } = choose(world, args)?;
    if let Some(earliest) = earliest {
        sessions.retain(|session| {
            Timestamp::try_from(session.modified).is_ok_and(|modified| modified >= earliest)
        });
    }
    let mut surveyed = survey(sessions);
    if let Some(part) = args.word.as_ref().map(|part| part.to_lowercase()) {
        surveyed.retain(|one| one.names().any(|name| name.to_lowercase().contains(&part)));
    }
    let mut agents = Agents::new();
    if args.json {
        for one in &surveyed {
            let counted = args.count.then(|| counted(one));
            world.out.json(&row(one, counted, &mut agents))?;
        }
        return Ok(());
    }
    if surveyed.is_empty() {
        let all = if is_part { "; `--all` looks in all projects" } else { "" };
        let text = match &args.word {
            Some(part) => format!("no sessions with `{part}`{all}"),
            None => "no sessions".to_owned(),
        };
        return Ok(world.out.note(&text)?);
    }
    let mut columns = vec![
        Column::left("id"),
        Column::right("age"),
        Column::left("project"),
        Column::left("title or first prompt"),
        Column::right("size"),
    ];
    columns.extend(args.count.then_some(Column::right("records")));
    columns.push(Column::left("flags"));
    let mut table = Table::new(&columns).flexible(3);
    for one in &surveyed {
        let mut cells = vec![
            short_id(&one.session),
            age(world.since(one.session.modified).as_secs()),
            short_path(one.project()),
            headline(one),
            size(one.session.size),
        ];
        let counted = args.count.then(|| counted(one));
        cells.extend(counted.as_ref().map(|counted| {
            counted.as_ref().map_or("?".to_owned(), |counted| counted.records.to_string())
        }));
        cells.push(flags(one, counted.and_then(Result::ok).as_ref(), &mut agents).join(" "));
        table.row(&cells);
    }
    world.page()?;
    Ok(table.write(&mut world.out)?)
}

/// The sessions to list.
struct Chosen {
    sessions: Vec<Session>,
    /// Whether only the current project was looked at, although nobody asked for that.
    is_part: bool,
}

/// The sessions of the project that the user asked for, of the current project, or all.
fn choose(world: &mut World, args: &LsArgs) -> Result<Chosen, Failure> {
    let whole = |sessions| Chosen { sessions, is_part: false };
    if args.all {
        return world.sessions().map(whole);
    }
    if let Some(project) = &args.project {
        return project::named(world, project).map(whole);
    }
    if let Some(sessions) = project::here(world)? {
        return Ok(Chosen { sessions, is_part: true });
    }
    world.out.note(&format!(
        "no sessions for `{}`: showing those of all projects",
        world.cwd.display()
    ))?;
    world.sessions().map(whole)
}

fn row<'a>(
    one: &'a Surveyed,
    counted: Option<io::Result<Counted>>,
    agents: &mut Agents,
) -> LsRow<'a> {
    let seen = one.seen.as_ref().ok();
    let counted = counted.and_then(Result::ok);
    let text = |millis: i64| Timestamp::from_millisecond(millis).ok().map(|time| time.to_string());
    let modified = one.session.modified.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    LsRow {
        v: JSON_VERSION,
        id: &one.session.id,
        path: one.session.path.to_string_lossy(),
        project: &one.session.project,
        cwd: seen.and_then(|seen| seen.cwd.as_deref()),
        title: seen.and_then(|seen| seen.title.as_deref()),
        tag: seen.and_then(|seen| seen.tag.as_deref()),
        prompt: seen.and_then(|seen| seen.prompt.as_deref()),
        branch: seen.and_then(|seen| seen.branch.as_deref()),
        version: seen.and_then(|seen| seen.version.as_deref()),
        started: seen.and_then(|seen| text(seen.started?.0)),
        ended: seen.and_then(|seen| text(seen.ended?.0)),
        modified: text(i64::try_from(modified.as_millis()).unwrap_or_default()).unwrap_or_default(),
        size: one.session.size,
        flags: flags(one, counted.as_ref(), agents),
        records: counted.map(|counted| counted.records),
    }
}

/// The sessions of each project that have sub-agents' files beside them; each project is read once.
type Agents = HashMap<PathBuf, HashSet<String>>;

/// What to know at first sight: what is broken, and whether the session has sub-agents or large
/// results.
fn flags(one: &Surveyed, counted: Option<&Counted>, agents: &mut Agents) -> Vec<&'static str> {
    let mut flags = one.troubles(counted.map_or(&[], |counted| &counted.troubles));
    let project = one.session.path.parent().unwrap_or(Path::new("")).to_owned();
    let beside =
        agents.entry(project).or_insert_with_key(|project| Beside::in_project(project).sessions());
    let folder = one.session.folder();
    let inside = folder.is_dir();
    let has_agents =
        beside.contains(one.session.id.as_str()) || inside && folder.join("subagents").is_dir();
    flags.extend(has_agents.then_some("agents"));
    flags.extend((inside && folder.join("tool-results").is_dir()).then_some("results"));
    flags
}

/// What the whole file contains.
#[derive(Default)]
struct Counted {
    records: u64,
    troubles: Vec<Trouble>,
}

fn counted(one: &Surveyed) -> io::Result<Counted> {
    let mut lines = Lines::new(files::open(&one.session.path)?);
    let mut counted = Counted::default();
    while let Some(line) = lines.next_line()? {
        counted.records += line.records().filter(|record| record.entry.is_some()).count() as u64;
        for trouble in Trouble::in_line(&line) {
            if !counted.troubles.contains(&trouble) {
                counted.troubles.push(trouble);
            }
        }
    }
    Ok(counted)
}
