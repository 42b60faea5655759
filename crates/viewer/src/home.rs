//! The list of sessions, and what they took over time.
//!
//! Invariant: a page has a bounded number of rows, however many sessions there are.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use index::search::{FoundSession, Hit, Query, QueryError, Wish};
use jiff::tz::TimeZone;
use maud::{Markup, PreEscaped, html};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use transcript::format::time::Time;

use crate::escape::{T, line, push};
use crate::library::{Library, Listed};
use crate::page;
use crate::plot::columns;
use crate::usage_page::{periods, title};
use crate::words::{count, grouped, size_of, time};
use index::usage::{By, Filter, Question, report};

/// How many rows are sent at once.
const ROWS: usize = 100;
/// How many days the plot has.
const DAYS_IN_PLOT: usize = 60;
/// How many projects can be chosen.
const PROJECTS: usize = 500;
/// How many sessions the catalog names for some words.
const FOUND: usize = 200;

/// How long ago sessions may have been written.
const DAYS: [(Option<u32>, &str); 5] = [
    (None, "at any time"),
    (Some(1), "in the last day"),
    (Some(7), "in the last week"),
    (Some(30), "in the last month"),
    (Some(365), "in the last year"),
];

/// What is listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) words: String,
    pub(crate) project: String,
    pub(crate) sort: String,
    pub(crate) only: String,
    /// How many days ago it was last written at most; none: any time.
    pub(crate) days: Option<u32>,
    pub(crate) from: usize,
}

/// The whole page.
pub(crate) fn home(library: &Library, root: &str, wanted: &Wanted) -> String {
    let list = library.list();
    let mut projects: Vec<&str> = list.iter().map(|one| one.project.as_str()).collect();
    projects.sort_unstable();
    projects.dedup();
    let body = html! {
        main id="main" tabindex="-1" class="home" {
            h1 { "Sessions" }
            form.filters role="search" action=(root) method="get" {
                label { span { "Search" } input id="search" name="q" type="search" value=(T(&wanted.words))
                    autocomplete="off" placeholder="Words, titles, folders ( / )"; }
                label { span { "Project" } select name="project" {
                    option value="" { "all projects" }
                    @for project in projects.iter().take(PROJECTS) {
                        option value=(T(project)) selected[*project == wanted.project] { (line(project, 60)) }
                    }
                    @if projects.len() > PROJECTS {
                        option disabled { "and " (projects.len() - PROJECTS) " more: search for their folders" }
                    }
                } }
                label { span { "Sort" } select name="sort" {
                    @for (name, words) in [("", "newest first"), ("size", "largest first"), ("title", "by title"),
                        ("project", "by project")] {
                        option value=(name) selected[name == wanted.sort] { (words) }
                    }
                } }
                label { span { "When" } select name="days" {
                    @for (days, words) in DAYS {
                        option value=(days.map_or(String::new(), |days| days.to_string()))
                            selected[days == wanted.days] { (words) }
                    }
                } }
                label { span { "Show" } select name="only" {
                    @for (name, words) in [("", "all"), ("trouble", "with damage"), ("deleted",
                        "deleted by the client")] {
                        option value=(name) selected[name == wanted.only] { (words) }
                    }
                } }
                button.unscripted { "Show" }
            }
            div id="usage" data-lazy={ (root) "plot" } {}
            div id="rows" { (rows(library, root, wanted)) }
        }
    };
    page::page("Sessions", root, &body)
}

/// What was used on the last days, as a plot.
pub(crate) fn plot(library: &Library, root: &str) -> Markup {
    let ledger = library.ledger();
    let filter = Filter::default();
    let zone = TimeZone::system();
    let question = Question {
        by: By::Day,
        filter: &filter,
        prices: &library.prices,
        zone: &zone,
        block_ends: &[],
    };
    let report = report(&ledger, &question);
    let points = periods(By::Day, &report.rows, DAYS_IN_PLOT);
    html! {
        @if points.len() > 1 {
            (columns(&title(By::Day, points.len(), DAYS_IN_PLOT), ["day", "cost"], &points))
            p.facts { a href={ (root) "usage" } { "More about usage" } }
        }
    }
}

/// The rows that fit, from one on.
pub(crate) fn rows(library: &Library, root: &str, wanted: &Wanted) -> Markup {
    let list = library.list();
    let (fitting, note) = fitting(library, &list, wanted);
    let end = fitting.len().min(wanted.from.saturating_add(ROWS));
    let shown = fitting.get(wanted.from..end).unwrap_or_default();
    html! {
        @if wanted.from == 0 {
            @let is_reading = library.is_reading();
            p.facts role="status" data-reading[is_reading] {
                (count(fitting.len(), "session")) @if let Some(note) = &note { span { (note) } }
                @if is_reading { span { "the catalog is being read" } }
            }
        }
        ul.sessions {
            @for (one, hit) in shown { (row(root, one, hit.as_ref())) }
        }
        @if end < fitting.len() {
            button.more type="button" data-more-rows=(end) { "More: " (fitting.len() - end) }
        }
    }
}

fn row(root: &str, one: &Listed, hit: Option<&Hit>) -> Markup {
    let title = one.seen.title.as_deref().or(one.seen.prompt.as_deref()).unwrap_or("(no messages)");
    html! {
        li.session-row {
            div.title {
                @if one.is_deleted { span.gone { (line(title, 140)) } }
                @else { a href={ (root) "s/" (one.key) } { (line(title, 140)) } }
            }
            div.facts {
                span { (line(&one.project, 80)) }
                // As `quipu ls` sorts them, and as the client finds the last one.
                span { (time(modified(one), "%Y-%m-%d %H:%M")) }
                span { (size_of(one.size)) }
                @if let Some(branch) = one.seen.branch.as_deref().filter(|branch| !branch.is_empty()) { span {
                    (line(branch, 40)) } }
                @if let Some(tag) = &one.seen.tag { span.tag { (line(tag, 40)) } }
                @if one.is_deleted { span.error { "deleted by the client" } }
                @for trouble in &one.seen.troubles { span.error { (trouble.name()) } }
                code { (T(&one.id.chars().take(8).collect::<String>())) }
                // Known later: it moves nothing.
                @if !one.is_deleted { span.health data-health=(one.key) {} }
            }
            @if let Some(hit) = hit { (snippet(root, one, hit)) }
        }
    }
}

/// When the file was written last.
fn modified(one: &Listed) -> Time {
    let since = one.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or_default())
}

/// The text around the words that were found. It leads to the place.
fn snippet(root: &str, one: &Listed, hit: &Hit) -> Markup {
    let text = &hit.snippet.text;
    let marks =
        || hit.snippet.marks.iter().filter_map(|mark| Some((mark, text.get(mark.clone())?)));
    let mut drawn = String::new();
    let mut done = 0;
    for (mark, words) in marks() {
        push(&mut drawn, text.get(done..mark.start).unwrap_or_default());
        drawn.push_str("<mark>");
        push(&mut drawn, words);
        drawn.push_str("</mark>");
        done = mark.end;
    }
    push(&mut drawn, text.get(done..).unwrap_or_default());
    let coded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let agent =
        hit.agent.as_deref().map_or(String::new(), |agent| format!("&agent={}", coded(agent)));
    let words = marks().next().map_or(String::new(), |(_, words)| format!("&q={}", coded(words)));
    let place = format!("{root}s/{}?line={}{agent}{words}", one.key, hit.line);
    html! {
        p.snippet {
            @if hit.line == 0 || one.is_deleted { (PreEscaped(drawn)) }
            @else { a href=(place) { (PreEscaped(drawn)) } }
        }
    }
}

/// The time: a page is asked for long after the server began.
#[allow(clippy::disallowed_methods, reason = "a server that runs for days has to ask the clock")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// What is said if the catalog did not name all sessions that have the words in their texts.
fn left_out(named: usize, all: usize) -> String {
    if all > named {
        format!(
            "the best {} of {} with these words in their texts",
            grouped(named as u64),
            grouped(all as u64)
        )
    } else {
        "there was no time to search all texts: add a word".to_owned()
    }
}

type Fitting = Vec<(Listed, Option<Hit>)>;

fn fitting(library: &Library, list: &[Listed], wanted: &Wanted) -> (Fitting, Option<String>) {
    let day = Duration::from_secs(24 * 3_600);
    let since = wanted.days.and_then(|days| now().checked_sub(day.saturating_mul(days)));
    let is_wanted = |one: &Listed| {
        (wanted.project.is_empty() || one.project == wanted.project)
            && since.is_none_or(|since| one.modified >= since)
            && match wanted.only.as_str() {
                "trouble" => !one.seen.troubles.is_empty(),
                "deleted" => one.is_deleted,
                _ => true,
            }
    };
    let words = wanted.words.trim();
    let mut note = None;
    let mut found: Fitting = if words.is_empty() {
        list.iter().filter(|one| is_wanted(one)).map(|one| (one.clone(), None)).collect()
    } else {
        let lower = words.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&lower);
        let fits = |one: &&Listed| {
            let texts = [
                one.seen.title.as_deref(),
                one.seen.prompt.as_deref(),
                Some(&one.project),
                Some(&one.id),
                one.seen.tag.as_deref(),
            ];
            texts.into_iter().flatten().any(has)
        };
        let mut found: Fitting = list
            .iter()
            .filter(|one| is_wanted(one) && fits(one))
            .map(|one| (one.clone(), None))
            .collect();
        match searched(library, words) {
            Ok((hits, left_out)) => {
                note = left_out;
                for (path, hit) in hits {
                    if let Some(known) = found.iter_mut().find(|(one, _)| one.path == path) {
                        known.1 = hit;
                    } else if let Some(one) =
                        list.iter().find(|one| one.path == path && is_wanted(one))
                    {
                        found.push((one.clone(), hit));
                    }
                }
            }
            Err(why) => note = Some(format!("by title, folder and id; {why}")),
        }
        found
    };
    let title = |one: &Listed| {
        one.seen.title.as_deref().or(one.seen.prompt.as_deref()).unwrap_or_default().to_lowercase()
    };
    match wanted.sort.as_str() {
        "size" => found.sort_by_key(|(one, _)| std::cmp::Reverse(one.size)),
        "title" => found.sort_by_cached_key(|(one, _)| title(one)),
        "project" => found.sort_by(|(one, _), (other, _)| one.project.cmp(&other.project)),
        _ => {}
    }
    (found, note)
}

/// Sessions with a hit of each, and a note if there are more.
type Hits = (Vec<(PathBuf, Option<Hit>)>, Option<String>);

/// The sessions in which the catalog finds these words, or why it does not look for them.
fn searched(library: &Library, words: &str) -> Result<Hits, String> {
    let query = Query::parse(words).map_err(|error| match error {
        QueryError::Empty => "there is no word in it to look for in texts".to_owned(),
        error => error.to_string(),
    })?;
    let roots = library.roots();
    let wish = Wish {
        homes: &roots,
        projects: None,
        limit: FOUND,
        hits: 1,
        patience: Duration::from_secs(2),
        redactor: &library.redactor,
        prices: &library.prices,
        now: now(),
    };
    let found = library.with_catalog(|catalog| catalog.search(&query, &wish));
    let found = found.ok_or("texts are searched when the catalog has been read")?;
    let found = found.map_err(|error| format!("texts cannot be searched now: {error}"))?;
    let note = found.is_cut.then(|| left_out(found.sessions.len(), found.total));
    let first = |one: FoundSession| (one.path, one.hits.into_iter().next());
    Ok((found.sessions.into_iter().map(first).collect(), note))
}

#[cfg(test)]
#[path = "home_tests.rs"]
mod tests;
