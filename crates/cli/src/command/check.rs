//! `quipu check`: whether a session resumes, and what is wrong with it.

use std::cmp::Reverse;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use transcript::client::check::{
    Code, Finding, Reach, Report, Severity, Verdict, VersionRange, check_with as examine,
};
use transcript::client::history::{Limit, Rules};
use transcript::conversation::place::{Session, agents, is_agent};
use transcript::format::secret::Mask;
use transcript::format::threads;
use transcript::format::time::Time;

use crate::failure::Failure;
use crate::out::{BAD, BOLD, DIM, GOOD, JSON_VERSION, WARN};
use crate::page::{Lead, Page, styled, unstyled};
use crate::resume_command::resume_command;
use crate::select::{self, Which};
use crate::survey::{self, Surveyed, headline, short_id};
use crate::table::{Column, Table};
use crate::text::{age, count, fit, line_list, one_line, quoted, short_number, shown};
use crate::threads::Threads;
use crate::version::{self, As, Asked};
use crate::world::World;

/// Up to this many sessions, each is reported in full; more are listed in a table.
const EACH: usize = 3;

/// Check whether sessions resume, and what is wrong with them
///
/// Rebuilds the request that a client version would send if it resumed the session now, and reports
/// what would be lost and what the API would refuse. Every finding has a code; docs/checks.md
/// describes them all. Secrets in clear text are counted by kind, never shown. More than three
/// sessions are listed in a table, newest first. The exit code is that of the worst verdict: 0
/// resumes fully, 10 resumes with loss, 11 the API would refuse it, 12 the client refuses it or
/// hangs.
#[derive(clap::Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    r#as: As,
    /// Print one JSON object per session; exact, as in the file
    #[arg(long)]
    json: bool,
}

pub(crate) fn check(world: &mut World, args: &CheckArgs) -> Result<(), Failure> {
    let asked = args.r#as.asked(world)?;
    let rules = asked.rules;
    let mut files = select::files(world, &args.which)?;
    // Sub-agents are checked with their sessions; alone only if the user names one.
    let named: Vec<&Path> = args.which.session.iter().map(Path::new).collect();
    if args.which.all || named.iter().any(|path| path.is_dir()) {
        files.retain(|path| !is_agent(path) || named.contains(&path.as_path()));
    }
    if files.is_empty() {
        let hint = "`quipu ls --all` lists all sessions";
        return Err(Failure::not_found("no sessions to check", hint));
    }
    let now = world.since(std::time::UNIX_EPOCH).as_millis();
    let now = i64::try_from(now).ok().map(Time);
    if !args.json {
        world.page()?;
    }
    // Newest first, as in all lists.
    let modified = |path: &PathBuf| path.metadata().and_then(|data| data.modified()).ok();
    files.sort_by_cached_key(|path| (Reverse(modified(path)), path.clone()));
    let mut table = Table::new(&[
        Column::left("id"),
        Column::right("age"),
        Column::left("verdict"),
        Column::right("lost"),
        Column::left("title or first prompt"),
    ])
    .flexible(4);
    let (mut worst, mut counts, mut unreadable) = (Verdict::Full, [0_u64; 4], 0);
    let mut secrets = 0;
    let redactor = world.redactor();
    let is_table = !args.json && files.len() > EACH;
    let report_of = |at: usize| {
        let report = Session::at(&files[at])
            .and_then(|session| examine(&session, agents(&session), rules, now, &redactor));
        (report, is_table.then(|| survey::of_file(&files[at])).flatten())
    };
    threads::in_order(files.len(), args.threads.count(), report_of, |at, (report, one)| {
        let path = &files[at];
        let report = match report {
            Ok(report) => report,
            Err(error) if files.len() == 1 => return Err(Failure::from(error)),
            Err(error) => {
                world.out.note(&error.to_string())?;
                unreadable += 1;
                return Ok(());
            }
        };
        worst = worst.max(report.verdict);
        counts[report.verdict as usize] += 1;
        let has_secret = report.findings.iter().any(|finding| finding.code == Code::Secret);
        secrets += u64::from(has_secret);
        if args.json {
            world.out.json(&Json::new(path, &asked, &report))?;
        } else if files.len() <= EACH {
            describe(world, path, &asked, &report)?;
        } else {
            let lost = report.reach.lost;
            table.row(&[
                one.as_ref().map(|one| short_id(&one.session)).unwrap_or_default(),
                modified(path).map(|time| age(world.since(time).as_secs())).unwrap_or_default(),
                report.verdict.words().to_owned(),
                if lost > 0 { lost.to_string() } else { String::new() },
                title(world, one.as_ref()),
            ]);
        }
        Ok(())
    })?;
    if is_table {
        table.write(&mut world.out)?;
        let parts = [Verdict::Full, Verdict::Loss, Verdict::Rejected, Verdict::Refused]
            .into_iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0)
            .map(|(verdict, count)| format!("{count} {}", short(verdict)));
        let parts: Vec<String> = parts.collect();
        writeln!(world.out, "{}: {}", count(files.len() as u64, "session"), parts.join(", "))?;
        if secrets > 0 {
            writeln!(world.out, "{} with secrets in clear text", count(secrets, "session"))?;
        }
    }
    args.which.outcome(unreadable)?;
    Failure::of_verdict(worst)
}

fn short(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Full => "resume fully",
        Verdict::Loss => "with loss",
        Verdict::Rejected => "the API would refuse",
        Verdict::Refused => "the client refuses",
    }
}

/// Prints a report for people: the verdict, one paragraph per code, and what to do next.
fn describe(world: &mut World, path: &Path, asked: &Asked, report: &Report) -> Result<(), Failure> {
    let installed = of_installed(world, asked, report);
    let one = survey::of_file(path);
    let id = one.as_ref().map(|one| one.session.id.clone()).unwrap_or_default();
    let cwd = one.as_ref().and_then(|one| one.seen.as_ref().ok()?.cwd.clone());
    let resume = resume_command(world, path, &id, cwd.as_deref());
    let homes = world.known_homes().unwrap_or_default();
    let name = name(path, &id, &homes);
    let next = format!("{} repair {} --dry-run", world.again(), quoted(&name));
    let title = title(world, one.as_ref());
    let page = &mut Page::new(&mut world.out);
    let title = fit(&title, page.width.saturating_sub(12).max(20));
    page.line(&[styled(BOLD, format!("{}  {title}", shown(&name)))])?;
    page.paragraph(&Lead::spaces(2), &[styled(DIM, shown(&path.display().to_string()))])?;
    let style = match report.verdict {
        Verdict::Full => GOOD,
        Verdict::Loss => WARN,
        Verdict::Rejected | Verdict::Refused => BAD,
    };
    let mut verdict = vec![styled(style, report.verdict.words()), unstyled(summary(report))];
    let version = &asked.version;
    let rules = if asked.is_observed {
        format!("  (as {version})")
    } else {
        format!("  (as {version}, with the rules of {})", report.version)
    };
    verdict.push(styled(DIM, rules));
    page.paragraph(&Lead::spaces(2), &verdict)?;
    if let Some(installed) = installed {
        page.paragraph(&Lead::spaces(2), &[styled(WARN, installed)])?;
    }
    if let Some(context) = &report.context {
        page.paragraph(&Lead::spaces(2), &[unstyled(of_context(context))])?;
    }
    for group in groups(&report.findings) {
        finding(page, &group)?;
    }
    page.blank()?;
    let is_worse = report.verdict != Verdict::Full;
    let can_resume = report.verdict < Verdict::Rejected;
    let rows = [("next", next, is_worse), ("resume", resume, can_resume)];
    for (name, command, _) in rows.into_iter().filter(|(_, _, is_shown)| *is_shown) {
        // A line to copy: it stays on one line.
        page.line(&[styled(DIM, format!("  {name:<8}")), unstyled(shown(&command))])?;
    }
    Ok(page.blank()?)
}

/// What the installed client does, if its verdict is another one.
fn of_installed(world: &World, asked: &Asked, report: &Report) -> Option<String> {
    let version = version::installed(world.programs()).filter(|one| *one != asked.version)?;
    let verdict = report.verdict_of(Rules::of(&version)?)?;
    let words = verdict.words();
    (verdict != report.verdict).then(|| format!("the installed {version}: {words}"))
}

/// The title or first prompt, without secrets: a report may be passed on.
fn title(world: &World, one: Option<&Surveyed>) -> String {
    let title = one.map(headline).unwrap_or_default();
    Mask::new(&world.redactor()).text(&title).into_owned()
}

/// What the user calls the session: the start of its id, or the file if it is in none of the homes.
fn name(path: &Path, id: &str, homes: &[PathBuf]) -> String {
    let is_known = homes.iter().any(|home| path.starts_with(home));
    if is_known { id.chars().take(8).collect() } else { path.display().to_string() }
}

/// What the API counts.
const COUNTED: &str = "with system prompt and tools";

/// How full the model's context is. The API counts the system prompt and the tools too: an estimate
/// of the messages alone is smaller.
fn of_context(context: &Limit) -> String {
    let tokens = format!("{} tokens at the last answer", short_number(context.tokens));
    match context.window {
        Some(window) => {
            let percent = match context.tokens.saturating_mul(100) / window.max(1) {
                0 => "under 1".to_owned(),
                percent => percent.to_string(),
            };
            let model = one_line(&context.model);
            format!("context: {tokens} ({COUNTED}): {percent}% of the window of {model}")
        }
        None => format!("context: {tokens} ({COUNTED})"),
    }
}

/// Findings of one code and severity, in one file.
struct Group<'a> {
    first: &'a Finding,
    /// What they say, each with the lines that it is about.
    texts: Vec<(&'a str, Vec<u64>)>,
    /// How many more there are that are not listed.
    more: u64,
}

fn groups(findings: &[Finding]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for finding in findings {
        let key = |one: &Finding| (one.code, one.severity, one.file.clone());
        let known = groups.iter().position(|group| key(group.first) == key(finding));
        let known = known.unwrap_or_else(|| {
            groups.push(Group { first: finding, texts: Vec::new(), more: 0 });
            groups.len() - 1
        });
        let group = &mut groups[known];
        group.more += finding.more;
        match group.texts.iter_mut().find(|(text, _)| *text == finding.text) {
            Some((_, lines)) => lines.extend(finding.line),
            None => group.texts.push((&finding.text, finding.line.into_iter().collect())),
        }
    }
    groups
}

/// Prints the findings of one code: where, what, and what to do.
fn finding(page: &mut Page<'_>, group: &Group<'_>) -> Result<(), Failure> {
    let Group { first, texts, more } = group;
    let style = match first.severity {
        Severity::Refused | Severity::Rejected => BAD,
        Severity::Loss => WARN,
        Severity::Warning | Severity::Note => DIM,
    };
    let head = format!("  {:<9}{}  ", first.severity.name(), first.code);
    let inside = vec![unstyled(" ".repeat(11))];
    let mut lead = Lead { first: vec![styled(style, head)], rest: inside.clone() };
    for (text, lines) in texts {
        let places = [first.file.as_deref().map(shown), line_list(lines)];
        let places: Vec<String> = places.into_iter().flatten().collect();
        let place =
            if places.is_empty() { String::new() } else { format!("{}: ", places.join(" ")) };
        page.paragraph(&lead, &[unstyled(format!("{place}{}", shown(text)))])?;
        lead.first.clone_from(&inside);
    }
    let inside = Lead::spaces(11);
    if *more > 0 {
        page.paragraph(&inside, &[unstyled(format!("and {more} more like this"))])?;
    }
    let advice = first.code.advice();
    Ok(page.paragraph(&inside, &[styled(DIM, format!("to do: {advice}"))])?)
}

/// How many of the recorded messages are sent, in words.
fn summary(report: &Report) -> String {
    let reach = report.reach;
    let Some((line, _)) = &report.leaf else { return String::new() };
    let mut text = format!(
        ": continues from line {line} with {} of {} recorded messages",
        reach.sent, reach.recorded
    );
    let rest = [
        (reach.summed_up, "summed up by a compaction"),
        (reach.left, "left on other branches"),
        (reach.lost, "lost"),
    ];
    let rest = rest.into_iter().filter(|(count, _)| *count > 0);
    text.extend(rest.map(|(count, what)| format!(", {count} {what}")));
    text
}

#[derive(Serialize)]
struct Json<'a> {
    v: u32,
    id: String,
    path: String,
    r#as: &'a str,
    rules: &'a str,
    observed: bool,
    verdict: &'a str,
    leaf: Option<&'a str>,
    leaf_line: Option<u64>,
    messages: Reach,
    context: Option<&'a Limit>,
    findings: Vec<JsonFinding<'a>>,
    versions: Vec<JsonVersion<'a>>,
    ranges: &'a [VersionRange],
}

#[derive(Serialize)]
struct JsonFinding<'a> {
    code: &'a str,
    severity: &'a str,
    file: Option<&'a str>,
    line: Option<u64>,
    text: &'a str,
    advice: &'a str,
    more: u64,
}

#[derive(Serialize)]
struct JsonVersion<'a> {
    version: &'a str,
    verdict: &'a str,
}

impl<'a> Json<'a> {
    fn new(path: &Path, asked: &'a Asked, report: &'a Report) -> Self {
        let finding = |finding: &'a Finding| JsonFinding {
            code: finding.code.name(),
            severity: finding.severity.name(),
            file: finding.file.as_deref(),
            line: finding.line,
            text: &finding.text,
            advice: finding.code.advice(),
            more: finding.more,
        };
        Json {
            v: JSON_VERSION,
            id: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            path: path.to_string_lossy().into_owned(),
            r#as: &asked.version,
            observed: asked.is_observed,
            rules: &report.version,
            verdict: report.verdict.name(),
            leaf: report.leaf.as_ref().and_then(|(_, id)| id.as_deref()),
            leaf_line: report.leaf.as_ref().map(|(line, _)| *line),
            messages: report.reach,
            context: report.context.as_ref(),
            findings: report.findings.iter().map(finding).collect(),
            versions: report
                .versions
                .iter()
                .map(|(version, verdict)| JsonVersion { version, verdict: verdict.name() })
                .collect(),
            ranges: &report.ranges,
        }
    }
}
