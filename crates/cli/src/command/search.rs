//! `quipu search`: finds words in all sessions.

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use index::catalog::root_of;
use index::search::{Found, FoundSession, Hit, Query, QueryError, Snippet, Wish};
use jiff::Timestamp;
use ratatui::style::{Color, Modifier, Style};
use serde::Serialize;

use crate::catalog::{self, CatalogArgs};
use crate::failure::Failure;
use crate::out::{BOLD, DIM, JSON_VERSION};
use crate::pick::{PickWish, Scope};
use crate::prices;
use crate::project;
use crate::survey::short_path;
use crate::text::{age, fit, one_line, printable, quoted};
use crate::world::World;

/// Find words in all sessions
///
/// All words must occur in a session: in prompts, answers, thinking, inputs and results of tools,
/// titles; also on abandoned branches, before compactions and in sub-agents. A match is a whole
/// word or a part of an identifier (`line` finds `parse_line` and `parseLine`); in Chinese,
/// Japanese and Korean, any two characters that follow each other. `"two words"` is a phrase,
/// `conf*` a beginning, `-word` or `NOT word` must not occur, `/regex/` is a regular expression.
///
/// Filters: `project:`, `branch:`, `session:`, `file:` (touched by a tool), `after:` and `before:`
/// (`3d`, `2026-11-01`), `cost>2` for sessions; `role:` (user, assistant, tool, client), `kind:`
/// (prompt, answer, thinking, call, result, title, note), `tool:`, `model:`, `error:` for texts.
///
/// Sessions are read once and kept in a catalog in your cache folder: words, no texts, and no
/// secrets. Later searches read only what is new.
#[derive(clap::Args, Debug)]
pub(crate) struct SearchArgs {
    /// What to look for; several arguments are one query
    #[arg(required_unless_present_any = ["files", "interactive"], value_name = "QUERY")]
    query: Vec<String>,
    /// Only sessions in which a tool touched this file
    #[arg(long, value_name = "FILE")]
    files: Vec<String>,
    /// Choose among the results on a screen, as `quipu pick` does
    #[arg(short, long, conflicts_with_all = ["files", "limit", "hits", "max_bytes", "json"])]
    interactive: bool,
    /// Only sessions of the current project
    #[arg(long)]
    here: bool,
    /// How many sessions to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
    /// How many places to show in each session
    #[arg(long, value_name = "N", default_value_t = 3)]
    hits: usize,
    /// Print at most this many bytes of results, such as `64k`
    #[arg(long, value_name = "SIZE", value_parser = crate::text::bytes, default_value = "4m")]
    max_bytes: u64,
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl SearchArgs {
    /// What to choose from on a screen, if the user wants that.
    pub(crate) fn interactive(&self) -> Option<PickWish<'_>> {
        self.interactive.then(|| PickWish {
            verb: "show",
            query: self.query.join(" "),
            scope: if self.here { Scope::Here } else { Scope::All },
            catalog: &self.catalog,
        })
    }
}

/// How long a search may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many columns a title has at most.
const WIDEST: usize = 100;
const MARK: Style = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);

/// The whole of `--json`.
#[derive(Serialize)]
struct SearchJson<'a> {
    v: u32,
    query: &'a str,
    sessions: Vec<SessionJson<'a>>,
    total: usize,
    truncated: bool,
}

#[derive(Serialize)]
struct SessionJson<'a> {
    id: &'a str,
    path: String,
    project: String,
    title: Option<&'a str>,
    prompt: Option<&'a str>,
    ended: Option<String>,
    deleted: bool,
    score: f64,
    hits: Vec<HitJson<'a>>,
}

#[derive(Serialize)]
struct HitJson<'a> {
    turn: Option<usize>,
    line: u64,
    agent: Option<&'a str>,
    branch: Option<&'a str>,
    role: &'a str,
    kind: &'a str,
    snippet: &'a str,
}

pub(crate) fn search(world: &mut World, args: &SearchArgs) -> Result<(), Failure> {
    let text = args.query.join(" ");
    let query = Query::parse(&text).or_else(|error| match error {
        QueryError::Empty if !args.files.is_empty() => Ok(Query::default()),
        error => Err(error),
    });
    let mut query = query.map_err(|error| {
        Failure::usage(error.to_string(), Some("`quipu search --help` shows what a query can be"))
    })?;
    args.files.iter().for_each(|file| query.add_file(file));
    let projects = if args.here { Some(folders_here(world)?) } else { None };
    let homes: Vec<PathBuf> = world.homes()?.list.iter().map(root_of).collect();
    let (mut catalog, _) = args.catalog.open(world)?;
    let (redactor, prices) = (world.redactor(), prices::in_force(world, None)?);
    let wish = Wish {
        homes: &homes,
        projects: projects.as_ref(),
        limit: args.limit,
        hits: args.hits,
        patience: PATIENCE,
        redactor: &redactor,
        prices: &prices,
        now: world.now,
    };
    let mut found = catalog.search(&query, &wish).map_err(|error| catalog::failure(&error))?;
    let is_cut_by_size = shorten(&mut found, args.max_bytes);
    if args.json {
        return Ok(world.out.json(&SearchJson {
            v: JSON_VERSION,
            query: &text,
            sessions: found.sessions.iter().map(session_json).collect(),
            total: found.total,
            truncated: found.is_cut,
        })?);
    }
    if !found.sessions.is_empty() {
        world.page()?;
    }
    for session in &found.sessions {
        describe(world, session)?;
    }
    let (shown, total) = (found.sessions.len(), found.total);
    let text = match (shown, found.is_cut) {
        (0, false) => "no session fits".to_owned(),
        (_, false) => return Ok(()),
        _ if is_cut_by_size => {
            format!("some of {total} sessions or their hits are left out: `--max-bytes` shows more")
        }
        _ if total > shown => format!("{shown} of {total} sessions shown: `--limit` shows more"),
        _ => "not everything is shown: there was no more time".to_owned(),
    };
    Ok(world.out.note(&text)?)
}

/// The folders of the current project.
fn folders_here(world: &mut World) -> Result<HashSet<PathBuf>, Failure> {
    let sessions = project::here(world)?.unwrap_or_default();
    if sessions.is_empty() {
        let message = format!("no sessions for `{}`", world.cwd.display());
        return Err(Failure::not_found(message, "without `--here`, all projects are searched"));
    }
    Ok(sessions.iter().filter_map(|session| Some(session.path.parent()?.to_owned())).collect())
}

/// Leaves out what is too much: first hits, then sessions. Returns whether there was too much. What
/// is printed for people is shorter than the JSON that is counted.
fn shorten(found: &mut Found, most: u64) -> bool {
    let mut left = most;
    let mut take = |bytes: u64| match left.checked_sub(bytes) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    let (mut kept, mut is_cut) = (Vec::new(), false);
    for mut session in std::mem::take(&mut found.sessions) {
        let hits = std::mem::take(&mut session.hits);
        if !take(json_bytes(&session_json(&session))) {
            is_cut = true;
            break;
        }
        let count = hits.len();
        session.hits = hits.into_iter().filter(|hit| take(json_bytes(&hit_json(hit)))).collect();
        is_cut |= session.hits.len() < count;
        kept.push(session);
    }
    found.sessions = kept;
    found.is_cut |= is_cut;
    is_cut
}

/// How many bytes a value has in JSON, with a comma.
fn json_bytes(value: &impl Serialize) -> u64 {
    let mut bytes = Vec::new();
    // Nothing in it cannot be written.
    let _ = crate::out::write_json(&mut bytes, value);
    bytes.len() as u64 + 1
}

fn project_of(session: &FoundSession) -> String {
    let folder = || {
        session
            .project
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    session.cwd.clone().unwrap_or_else(folder)
}

fn session_json(session: &FoundSession) -> SessionJson<'_> {
    let ended = session.ended.and_then(|time| Timestamp::from_millisecond(time.0).ok());
    SessionJson {
        id: &session.id,
        path: session.path.to_string_lossy().into_owned(),
        project: project_of(session),
        title: session.title.as_deref(),
        prompt: session.prompt.as_deref(),
        ended: ended.map(|time| time.to_string()),
        deleted: session.is_deleted,
        score: session.score,
        hits: session.hits.iter().map(hit_json).collect(),
    }
}

fn hit_json(hit: &Hit) -> HitJson<'_> {
    HitJson {
        turn: hit.turn,
        line: hit.line,
        agent: hit.agent.as_deref(),
        branch: hit.branch.as_deref(),
        role: hit.role,
        kind: hit.kind,
        snippet: &hit.snippet.text,
    }
}

/// One block for a session: what it is, where it fits, and how to open it there.
fn describe(world: &mut World, session: &FoundSession) -> Result<(), Failure> {
    let short: String = one_line(&session.id).chars().take(8).collect();
    let title = session.title.as_deref().or(session.prompt.as_deref()).unwrap_or("-");
    // A first prompt may be a whole page.
    let start: String = title.chars().take(4 * WIDEST).collect();
    let title = fit(&one_line(&start), WIDEST);
    let when = session.ended.map(|time| {
        let seconds = u64::try_from(time.0 / 1_000).unwrap_or_default();
        age(world.since(std::time::UNIX_EPOCH).as_secs().saturating_sub(seconds))
    });
    let gone = session.is_deleted.then(|| "deleted".to_owned());
    let state: Vec<String> = when.into_iter().chain(gone).collect();
    let place = short_path(&project_of(session));
    let facts = [state.join(", "), place].into_iter().filter(|part| !part.is_empty());
    let facts = facts.collect::<Vec<_>>().join("  ");
    let head = world.out.style(BOLD, &format!("{short}  {title}"));
    let facts = world.out.style(DIM, &one_line(&facts));
    writeln!(world.out, "{head}  {facts}")?;
    for hit in &session.hits {
        let place = match (&hit.agent, hit.turn) {
            (Some(agent), _) => format!("agent {}", one_line(agent)),
            (None, Some(turn)) => format!("turn {turn}"),
            (None, None) if hit.line > 0 => format!("line {}", hit.line),
            (None, None) => String::new(),
        };
        let lead = world.out.style(DIM, &format!("  {place:<9} {:<9}", hit.kind));
        let text = marked(world, &hit.snippet);
        writeln!(world.out, "{lead} {text}")?;
    }
    if !session.is_deleted {
        let command = format!("  {} show {}{}", world.again(), quoted(&short), place_of(session));
        let command = world.out.style(DIM, &command);
        writeln!(world.out, "{command}")?;
    }
    Ok(writeln!(world.out)?)
}

/// The options of `quipu show` that open a session at the first hit that has a place: in a
/// sub-agent, at a turn, or on a branch.
fn place_of(session: &FoundSession) -> String {
    let place = |hit: &Hit| match (&hit.agent, hit.turn, &hit.branch) {
        (Some(agent), ..) => Some(format!(" --agent {}", quoted(agent))),
        (None, Some(turn), _) => Some(format!(" --turn {turn}")),
        (None, None, Some(branch)) => Some(format!(" --branch {}", quoted(branch))),
        (None, None, None) => None,
    };
    session.hits.iter().find_map(place).unwrap_or_default()
}

/// The snippet with what was found highlighted.
fn marked(world: &World, snippet: &Snippet) -> String {
    let mut text = String::new();
    let mut at = 0;
    for mark in &snippet.marks {
        text.push_str(&printable(&snippet.text[at..mark.start]));
        text.push_str(&world.out.style(MARK, &printable(&snippet.text[mark.clone()])));
        at = mark.end;
    }
    text.push_str(&printable(&snippet.text[at..]));
    text
}
