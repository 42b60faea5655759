//! `--debug`: what happens in a session, a line each, for people who look for a fault.
//!
//! Invariant: it only listens. What it prints are events, which contain no secrets, and what a
//! model or a file says is printed without control characters.

use std::fs::File;
use std::io::{self, Write};
use std::time::Instant;

use agent::event::{AgentId, Event};
use agent::host::{Asked, Callback, Headless, Host, Listener};

use super::ChatArgs;
use crate::failure::Failure;
use crate::text::one_line;

/// The kinds of lines.
const KINDS: [&str; 5] = ["api", "tools", "hooks", "agents", "compaction"];
/// A kind of the original's that can be named, and never occurs here.
const NONE_HERE: &str = "mcp";

/// A host, and who looks over its shoulder.
pub(super) struct Watched {
    host: Headless,
    out: Option<Box<dyn Write>>,
    /// The kinds of lines that are wanted.
    kinds: Vec<String>,
    began: Instant,
}

impl Watched {
    pub(super) fn new(host: Headless, args: &ChatArgs) -> Result<Watched, Failure> {
        let kinds = kinds(args)?;
        let out: Option<Box<dyn Write>> = match &args.debug_file {
            Some(path) => {
                let file: io::Result<File> = files::append_private(path);
                Some(Box::new(file.map_err(|error| Failure::unwritable(path, error))?))
            }
            None => args.debug.as_ref().map(|_| -> Box<dyn Write> { Box::new(io::stderr()) }),
        };
        Ok(Watched { host, out, kinds, began: Instant::now() })
    }

    fn note(&mut self, agent: &AgentId, event: &Event) {
        let Some((kind, text)) = line(event) else { return };
        let is_wanted = self.kinds.is_empty() || self.kinds.iter().any(|one| one == kind);
        let Some(out) = self.out.as_mut().filter(|_| is_wanted) else { return };
        let time = self.began.elapsed().as_millis();
        // If it cannot be written, there is no other place to report to.
        let _ = writeln!(out, "[debug] {time:>7} ms {agent} {kind}: {}", one_line(&text));
    }
}

/// The kinds that the user names; those with a `!` are all but these.
fn kinds(args: &ChatArgs) -> Result<Vec<String>, Failure> {
    let named = args.debug.iter().flat_map(|kinds| kinds.split(','));
    let named = named.map(str::trim).filter(|kind| !kind.is_empty());
    let known = |kind: &str| {
        let hint = format!("use {}", KINDS.join(", "));
        let unknown = || Failure::usage(format!("`{kind}` cannot be watched"), Some(&hint));
        let name = kind.strip_prefix('!').unwrap_or(kind);
        (KINDS.contains(&name) || name == NONE_HERE).then(|| kind.to_owned()).ok_or_else(unknown)
    };
    let named: Vec<String> = named.map(known).collect::<Result<_, _>>()?;
    let (not, mut wanted): (Vec<String>, Vec<String>) =
        named.into_iter().partition(|kind| kind.starts_with('!'));
    if wanted.is_empty() && !not.is_empty() {
        wanted = KINDS.map(str::to_owned).to_vec();
    }
    wanted.retain(|kind| !not.iter().any(|one| one[1..] == **kind));
    Ok(wanted)
}

/// The kind of an event, and what it says.
fn line(event: &Event) -> Option<(&'static str, String)> {
    Some(match event {
        Event::TurnBegan { model, mode } => {
            ("api", format!("a turn begins; {model}, mode {}", mode.name()))
        }
        Event::Usage(usage) => {
            let last = &usage.last;
            let cached = last.cache_read;
            let written = last.cache_5m + last.cache_1h;
            let new = last.input + written;
            let window = usage.window.map_or_else(|| "?".to_owned(), |window| window.to_string());
            let used = usage.used;
            let out = last.output;
            (
                "api",
                format!(
                    "an answer of {out} tokens; {cached} read from the cache, {new} new; {used} of {window} used"
                ),
            )
        }
        Event::Retry { error, failures, most, wait } => {
            let wait = wait.as_millis();
            ("api", format!("{error} failure {failures} of {most}; again after {wait} ms"))
        }
        Event::FellBack { from, to } => ("api", format!("{from} is overloaded; {to} goes on")),
        Event::TurnEnded(summary) => {
            let (taken, api) = (summary.taken, summary.api);
            (
                "api",
                format!(
                    "the turn ended after {taken} ms, {api} of them with the API: {:?}",
                    summary.outcome
                ),
            )
        }
        Event::ToolStarted { call, tool, input } => ("tools", format!("{tool} {call} {input}")),
        Event::ToolFinished { call, answer, .. } => {
            let word = if answer.is_error == Some(true) { "failed" } else { "is done" };
            ("tools", format!("{call} {word}"))
        }
        Event::Denied { tool, why, .. } => ("tools", format!("{tool} was refused: {why}")),
        Event::HookStarted { name, id, .. } => ("hooks", format!("{name} begins ({id})")),
        Event::HookEnded { name, id, code, outcome, stdout, stderr, .. } => {
            let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
            ("hooks", format!("{name} ends ({id}): {outcome}, exit code {code}; {stdout} {stderr}"))
        }
        Event::AgentStarted { kind, description, .. } => {
            ("agents", format!("{kind} begins: {description}"))
        }
        Event::AgentEnded { summary, .. } => {
            ("agents", format!("ends after {} ms: {:?}", summary.taken, summary.outcome))
        }
        Event::Compacting { trigger } => ("compaction", format!("begins ({})", trigger.name())),
        Event::Compacted(done) => {
            let lost = done.receipt.lost.len();
            (
                "compaction",
                format!(
                    "{} tokens became about {}; {lost} blocks are not sent any more",
                    done.before, done.after
                ),
            )
        }
        _ => return None,
    })
}

impl Listener for Watched {
    fn event(&mut self, agent: &AgentId, event: &Event) {
        if self.out.is_some() {
            self.note(agent, event);
        }
        self.host.event(agent, event);
    }
}

impl Host for Watched {
    fn is_gone(&self) -> bool {
        self.host.is_gone()
    }

    fn ask(&mut self, asked: &Asked) -> bool {
        self.host.ask(asked)
    }

    fn withdraw(&mut self, id: &str) {
        self.host.withdraw(id);
    }

    fn call_back(&mut self, callback: &Callback<'_>) -> bool {
        self.host.call_back(callback)
    }
}
