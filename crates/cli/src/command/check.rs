//! `quipu check`: whether a session resumes, and what is wrong with it.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use serde::Serialize;
use transcript::check::{Code, Finding, Report, Severity, Verdict, check_with as examine};
use transcript::place::{Session, agents, is_agent};
use transcript::time::Time;

use crate::failure::Failure;
use crate::out::JSON_VERSION;
use crate::out::{BAD, BOLD, DIM, GOOD, WARN};
use crate::page::{Lead, Page, Span};
use crate::select::{self, Which};
use crate::text::{count, shown};
use crate::version::As;
use crate::world::World;

/// Up to this many sessions, each is reported in full; beyond that, only those that do not resume
/// fully.
const EACH: usize = 3;

/// Check whether sessions resume, and what is wrong with them
///
/// Rebuilds the request that a client version would send if it resumed the session now, and reports
/// what would be lost and what the API would refuse. Every finding has a code; docs/checks.md
/// describes them all. Secrets in clear text are counted by kind, never shown. With more than three
/// sessions, those that resume fully are only counted. The exit code is that of the worst verdict:
/// 0 resumes fully, 10 resumes with loss, 11 the API would refuse it, 12 the client refuses it or
/// hangs.
#[derive(clap::Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    r#as: As,
    /// Print one JSON object per session; exact, as in the file
    #[arg(long)]
    json: bool,
}

pub(crate) fn check(world: &mut World, args: &CheckArgs) -> Result<(), Failure> {
    let rules = args.r#as.rules()?;
    let mut files = select::files(world, &args.which)?;
    // Sub-agents are checked with their sessions; alone only if the user names one.
    let named: Vec<&Path> = args.which.session.iter().map(Path::new).collect();
    files.retain(|path| !is_agent(path) || named.contains(&path.as_path()));
    if files.is_empty() {
        let hint = "`quipu ls --all` lists all sessions";
        return Err(Failure::not_found("no sessions to check", hint));
    }
    let now = world.since(std::time::UNIX_EPOCH).as_millis();
    let now = i64::try_from(now).ok().map(Time);
    let (mut worst, mut counts, mut unreadable) = (Verdict::Full, [0_u64; 4], 0);
    let mut secrets = 0;
    let redactor = world.redactor();
    for path in &files {
        let report = Session::at(path)
            .and_then(|session| examine(&session, agents(&session), rules, now, &redactor));
        let report = match report {
            Ok(report) => report,
            Err(error) if files.len() == 1 => return Err(Failure::unreadable(path, error)),
            Err(error) => {
                world.out.note(&format!("cannot read `{}`: {error}", path.display()))?;
                unreadable += 1;
                continue;
            }
        };
        worst = worst.max(report.verdict);
        counts[report.verdict as usize] += 1;
        let has_secret = report.findings.iter().any(|finding| finding.code == Code::Secret);
        secrets += u64::from(has_secret);
        if args.json {
            world.out.json(&Json::new(path, &args.r#as.version, &report))?;
        } else if files.len() <= EACH || report.verdict != Verdict::Full {
            read(world, path, &args.r#as.version, &report)?;
        }
    }
    if !args.json && files.len() > EACH {
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

/// Prints a report for people.
fn read(world: &mut World, path: &Path, asked: &str, report: &Report) -> Result<(), Failure> {
    let page = &mut Page::new(&mut world.out);
    let style = match report.verdict {
        Verdict::Full => GOOD,
        Verdict::Loss => WARN,
        Verdict::Rejected | Verdict::Refused => BAD,
    };
    page.line(&[Span::new(BOLD, shown(&path.display().to_string()))])?;
    let mut verdict = vec![Span::new(style, report.verdict.words()), Span::plain(summary(report))];
    let rules = if asked == report.version {
        format!("  (as {asked})")
    } else {
        format!("  (as {asked}, with the rules of {})", report.version)
    };
    verdict.push(Span::new(DIM, rules));
    page.paragraph(&Lead::spaces(2), &verdict)?;
    // Advice is printed once per code; equal findings are joined.
    let mut told_codes = HashSet::new();
    let mut rest = report.findings.as_slice();
    while let [finding, after @ ..] = rest {
        let same = after.iter().take_while(|other| is_same(finding, other));
        let (count, more) =
            same.fold((0, finding.more), |(count, more), other| (count + 1, more + other.more + 1));
        let is_new = told_codes.insert(finding.code);
        page.paragraph(&Lead::hanging(Span::plain("  ")), &finding_spans(finding, more, is_new))?;
        rest = &after[count..];
    }
    Ok(page.blank()?)
}

/// How many of the recorded messages are sent, in words.
fn summary(report: &Report) -> String {
    let reach = report.reach;
    let Some((line, _)) = &report.leaf else { return String::new() };
    let mut text =
        format!(": continues from line {line} with {} of {} messages", reach.sent, reach.recorded);
    let rest = [
        (reach.summed_up, "summed up by a compaction"),
        (reach.left, "left on other branches"),
        (reach.lost, "lost"),
    ];
    let rest = rest.into_iter().filter(|(count, _)| *count > 0);
    text.extend(rest.map(|(count, what)| format!(", {count} {what}")));
    text
}

fn is_same(one: &Finding, other: &Finding) -> bool {
    (one.code, one.severity, &one.file, one.line, &one.text)
        == (other.code, other.severity, &other.file, other.line, &other.text)
}

fn finding_spans(finding: &Finding, more: u64, is_new: bool) -> Vec<Span> {
    let style = match finding.severity {
        Severity::Refused | Severity::Rejected => BAD,
        Severity::Loss => WARN,
        Severity::Warning | Severity::Note => DIM,
    };
    let file = finding.file.as_deref().map(shown);
    let place = match (&file, finding.line) {
        (Some(file), Some(line)) => format!("{file} line {line}: "),
        (Some(file), None) => format!("{file}: "),
        (None, Some(line)) => format!("line {line}: "),
        (None, None) => String::new(),
    };
    let more = if more > 0 { format!(" (and {more} more like this)") } else { String::new() };
    let mut spans = vec![
        Span::new(style, format!("{} {}", finding.severity.name(), finding.code)),
        Span::plain(format!("  {place}{}{more}", shown(&finding.text))),
    ];
    if is_new {
        spans.push(Span::new(DIM, format!(". To do: {}", finding.code.advice())));
    }
    spans
}

#[derive(Serialize)]
struct Json<'a> {
    v: u32,
    id: String,
    path: String,
    r#as: &'a str,
    rules: &'a str,
    verdict: &'a str,
    leaf: Option<&'a str>,
    leaf_line: Option<u64>,
    messages: Messages,
    findings: Vec<JsonFinding<'a>>,
    versions: Vec<JsonVersion<'a>>,
}

#[derive(Serialize)]
struct Messages {
    recorded: usize,
    sent: usize,
    summed_up: usize,
    left: usize,
    lost: usize,
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
    fn new(path: &Path, asked: &'a str, report: &'a Report) -> Self {
        let reach = report.reach;
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
            r#as: asked,
            rules: &report.version,
            verdict: report.verdict.name(),
            leaf: report.leaf.as_ref().and_then(|(_, id)| id.as_deref()),
            leaf_line: report.leaf.as_ref().map(|(line, _)| *line),
            messages: Messages {
                recorded: reach.recorded,
                sent: reach.sent,
                summed_up: reach.summed_up,
                left: reach.left,
                lost: reach.lost,
            },
            findings: report.findings.iter().map(finding).collect(),
            versions: report
                .versions
                .iter()
                .map(|(version, verdict)| JsonVersion { version, verdict: verdict.name() })
                .collect(),
        }
    }
}
