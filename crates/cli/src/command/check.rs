//! `quipu check`: will it resume, and what is wrong.

use std::io::Write;
use std::path::Path;

use serde::Serialize;
use transcript::check::{Finding, Report, Severity, Verdict, check as examine};
use transcript::history::Rules;
use transcript::place::{Session, is_agent};
use transcript::time::Time;

use super::JSON_VERSION;
use super::which::Which;
use crate::failure::Failure;
use crate::out::{BAD, BOLD, DIM, GOOD, WARN};
use crate::page::{Lead, Page, Span};
use crate::text::{count, shown};
use crate::world::World;

/// Up to how many sessions each is told in full; of more, only those that do not resume fully.
const EACH: usize = 3;

/// Say whether sessions resume, and what is wrong with them
///
/// Rebuilds what a client version would send if it resumed the session now, and says what is lost on the way and what the API would
/// refuse. Every finding has a code; docs/checks.md describes them all. The exit code is that of the worst verdict: 0 resumes fully,
/// 10 with loss, 11 the API would refuse it, 12 the client refuses it or hangs.
#[derive(clap::Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    which: Which,
    /// The client version whose rules count
    #[arg(long = "as", value_name = "VERSION", default_value = "2.1.325")]
    version: String,
    /// One JSON object a session
    #[arg(long)]
    json: bool,
}

pub(crate) fn check(world: &mut World, args: &CheckArgs) -> Result<(), Failure> {
    let Some(rules) = Rules::of(&args.version) else {
        let hint = "a version like 2.1.325";
        return Err(Failure::usage(format!("`{}` is no client version", args.version), Some(hint)));
    };
    let mut files = world.files(&args.which)?;
    // Sub-agents are checked with their sessions; alone only if somebody names one.
    let named = args.which.session.iter().any(|name| is_agent(Path::new(name)));
    if !named {
        files.retain(|path| !is_agent(path));
    }
    let now = world.since(std::time::UNIX_EPOCH).as_millis();
    let now = i64::try_from(now).ok().map(Time);
    let (mut worst, mut counts, mut unreadable) = (Verdict::Full, [0_u64; 4], 0);
    for path in &files {
        let report = Session::at(path).and_then(|session| examine(&session, rules, now));
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
        if args.json {
            world.out.json(&Json::new(path, &report))?;
        } else if files.len() <= EACH || report.verdict != Verdict::Full {
            read(world, path, &report)?;
        }
    }
    if !args.json && files.len() > EACH {
        let told = [Verdict::Full, Verdict::Loss, Verdict::Rejected, Verdict::Refused]
            .into_iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0)
            .map(|(verdict, count)| format!("{count} {}", short(verdict)));
        let told: Vec<String> = told.collect();
        writeln!(world.out, "{}: {}", count(files.len() as u64, "session"), told.join(", "))?;
    }
    args.which.outcome(unreadable)?;
    match worst {
        Verdict::Full => Ok(()),
        worst => Err(Failure::verdict(worst)),
    }
}

fn short(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Full => "resume fully",
        Verdict::Loss => "with loss",
        Verdict::Rejected => "the API would refuse",
        Verdict::Refused => "the client refuses",
    }
}

/// For people.
fn read(world: &mut World, path: &Path, report: &Report) -> Result<(), Failure> {
    let page = &mut Page::new(&mut world.out);
    let style = match report.verdict {
        Verdict::Full => GOOD,
        Verdict::Loss => WARN,
        Verdict::Rejected | Verdict::Refused => BAD,
    };
    page.line(&[Span::new(BOLD, shown(&path.display().to_string()))])?;
    let mut verdict = vec![Span::new(style, report.verdict.words()), Span::plain(summary(report))];
    verdict.push(Span::new(DIM, format!("  (as {})", report.version)));
    page.paragraph(&Lead::spaces(2), &verdict)?;
    for finding in &report.findings {
        page.paragraph(&Lead::hanging(Span::plain("  ")), &told(finding))?;
    }
    Ok(page.blank()?)
}

/// How much of what was said is sent, in words.
fn summary(report: &Report) -> String {
    let reach = report.reach;
    let Some((line, _)) = &report.leaf else { return String::new() };
    let mut text =
        format!(": goes on from line {line} with {} of {} messages", reach.sent, reach.said);
    let rest = [
        (reach.summed_up, "summed up by a compaction"),
        (reach.left, "left on other branches"),
        (reach.lost, "lost"),
    ];
    for (count, what) in rest.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!(", {count} {what}"));
    }
    text
}

fn told(finding: &Finding) -> Vec<Span> {
    let style = match finding.severity {
        Severity::Refused | Severity::Rejected => BAD,
        Severity::Loss => WARN,
        Severity::Warning | Severity::Note => DIM,
    };
    let place = match (&finding.file, finding.line) {
        (Some(file), Some(line)) => format!("{file} line {line}: "),
        (Some(file), None) => format!("{file}: "),
        (None, Some(line)) => format!("line {line}: "),
        (None, None) => String::new(),
    };
    let more = if finding.more > 0 {
        format!(" (and {} more like this)", finding.more)
    } else {
        String::new()
    };
    vec![
        Span::new(style, format!("{} {}", finding.severity.name(), finding.code)),
        Span::plain(format!("  {place}{}{more}. ", shown(&finding.text))),
        Span::new(DIM, format!("To do: {}.", finding.code.advice())),
    ]
}

#[derive(Serialize)]
struct Json<'a> {
    v: u32,
    id: String,
    path: String,
    r#as: &'a str,
    verdict: &'a str,
    leaf: Option<&'a str>,
    leaf_line: Option<u64>,
    messages: Messages,
    findings: Vec<JsonFinding<'a>>,
    versions: Vec<JsonVersion<'a>>,
}

#[derive(Serialize)]
struct Messages {
    said: usize,
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
    fn new(path: &Path, report: &'a Report) -> Self {
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
            r#as: &report.version,
            verdict: report.verdict.name(),
            leaf: report.leaf.as_ref().and_then(|(_, id)| id.as_deref()),
            leaf_line: report.leaf.as_ref().map(|(line, _)| *line),
            messages: Messages {
                said: reach.said,
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
