//! The proof of a change: what it does, for people and as JSON.

use ratatui::style::Style;
use serde::Serialize;
use transcript::client::change::{Deed, Proof, Snapshot, Written};
use transcript::client::check::{Finding, Severity, Verdict};
use transcript::conversation::place::Thing;
use transcript::conversation::preview::preview;
use transcript::conversation::price::Prices;
use transcript::format::secret::Cover;
use workshop::{Done, Job, Outcome, Place, Verb, without_secrets};

use super::Target;
use super::price::{PriceJson, PriceOfChange};
use super::redacted::Redacted;
use crate::failure::{Failure, reason};
use crate::out::JSON_VERSION;
use crate::out::{BAD, BOLD, GOOD, WARN};
use crate::page::{Lead, Page, label, styled, unstyled};
use crate::redact::place_without;
use crate::resume_command::resume_command;
use crate::text::{count, fit, grouped, line_list, one_line, shown};
use crate::world::World;

/// The report when a job is done.
pub(super) struct ChangeReport<'a> {
    proof: &'a Proof,
    verb: Verb,
    head: String,
    /// The session's title, and the folder that it was in.
    title: String,
    folder: String,
    of: String,
    json: bool,
    is_dry: bool,
    /// The file that contains the result.
    path: Option<String>,
    session: Option<String>,
    resume: Option<String>,
    along: Vec<String>,
    left: Vec<String>,
    skipped: Vec<String>,
    /// The name of the change in the journal.
    entry: Option<String>,
    price: PriceOfChange<'a>,
    /// What was redacted.
    pub(super) redacted: Option<Redacted>,
}

impl<'a> ChangeReport<'a> {
    pub(super) fn new(
        world: &World,
        job: &Job<'_>,
        target: &Target,
        outcome: &'a Outcome,
        prices: &'a Prices,
    ) -> ChangeReport<'a> {
        let short = job.session.id.short();
        let found = preview(&job.session.path).unwrap_or_default();
        let found = match job.plan.change().cover() {
            Some(cover) => without_secrets(found, cover),
            None => found,
        };
        let session = outcome.session.as_ref().map(ToString::to_string);
        let resume = session
            .as_ref()
            .map(|id| resume_command(world, &job.session.path, id, found.cwd.as_deref()));
        let around = || job.session.path.parent().map(|folder| folder.display().to_string());
        let skipped = outcome.copies.as_ref().map_or(&[][..], |copies| &copies.skipped);
        let counted = |list: &[(Thing, usize)]| {
            list.iter().map(|(thing, number)| count(*number as u64, noun(*thing))).collect()
        };
        let is_copied = matches!(job.policy.place, Place::Beside | Place::InPlace);
        let copies = outcome.copies.as_ref().filter(|_| is_copied);
        let (path, entry) = match &outcome.done {
            Done::Written { path, entry } => (Some(path.display().to_string()), entry.clone()),
            Done::Shown | Done::Unchanged | Done::Returned(_) => (None, None),
        };
        let verb = job.policy.verb;
        ChangeReport {
            redacted: None,
            price: PriceOfChange::new(world, &job.read, &outcome.proof, verb, prices),
            proof: &outcome.proof,
            verb,
            head: format!("{} of {short}", verb.name()),
            title: one_line(&found.title.or(found.prompt).unwrap_or_default()),
            folder: found.cwd.or_else(around).unwrap_or_default(),
            of: job.session.id.to_string(),
            json: target.json,
            is_dry: target.dry_run,
            path,
            session,
            resume,
            along: copies.map_or_else(Vec::new, |copies| counted(&copies.counts())),
            left: counted(&outcome.left),
            skipped: skipped
                .iter()
                .map(|(path, why)| format!("{}: {why}", path.display()))
                .collect(),
            entry,
        }
    }

    /// Hides secrets in what the report repeats of the session.
    pub(super) fn hide(&mut self, cover: &Cover) {
        let skipped = self.skipped.iter_mut();
        for text in [&mut self.title, &mut self.folder].into_iter().chain(skipped) {
            if let Some(shown) = cover.text(text) {
                *text = shown;
            }
        }
        for text in [&mut self.path, &mut self.resume].into_iter().flatten() {
            if let Some(shown) = place_without(cover, text) {
                *text = shown;
            }
        }
    }

    /// The result goes to the standard output, so the proof goes to stderr, one line per row.
    pub(super) fn beside(&self, world: &mut World) -> Result<(), Failure> {
        if self.json {
            let text = serde_json::to_string(&self.form()).map_err(std::io::Error::from)?;
            return Ok(world.out.note(&text)?);
        }
        for (name, text, _) in self.rows() {
            world.out.note(&format!("{name}: {text}"))?;
        }
        for (name, text) in self.redacted.iter().flat_map(|redacted| redacted.rows(self.is_dry)) {
            world.out.note(&format!("{name}: {text}"))?;
        }
        Ok(())
    }

    pub(super) fn say(&self, world: &mut World) -> Result<(), Failure> {
        if self.json {
            return Ok(world.out.json(&self.form())?);
        }
        let page = &mut Page::new(&mut world.out);
        let mut head = vec![styled(BOLD, shown(&self.head))];
        if self.is_dry {
            head.push(unstyled(": what would be done"));
        }
        page.line(&head)?;
        for (name, text, style) in self.rows() {
            page.paragraph(&Lead::hanging(label(name)), &[styled(style, text)])?;
        }
        self.deeds(page)?;
        self.findings(page)?;
        if let Some(redacted) = &self.redacted {
            redacted.show(page, self.is_dry)?;
        }
        self.files(page)?;
        // Lines to copy: they stay on one line.
        let undo = self.entry.as_ref().map(|entry| format!("quipu undo {entry}"));
        for (name, text) in [
            ("written", self.path.as_ref()),
            ("resume", self.resume.as_ref()),
            ("undo", undo.as_ref()),
        ] {
            if let Some(text) = text {
                page.line(&[label(name), unstyled(shown(text))])?;
            }
        }
        if self.is_dry {
            world.out.note(DRY)?;
        }
        Ok(())
    }

    /// What happens to the files that belong to the session.
    fn files(&self, page: &mut Page<'_>) -> Result<(), Failure> {
        if !self.along.is_empty() {
            let files = self.along.join(", ");
            let (name, text) = if self.is_dry {
                ("plan", format!("would copy {files}"))
            } else {
                ("copied", files)
            };
            page.paragraph(&Lead::hanging(label(name)), &[unstyled(shown(&text))])?;
        }
        if !self.left.is_empty() {
            let not = if self.is_dry { "would not be copied" } else { "not copied" };
            let text = format!("{} ({not})", self.left.join(", "));
            page.paragraph(&Lead::hanging(label("left")), &[unstyled(shown(&text))])?;
        }
        for skipped in &self.skipped {
            let (name, would) = if self.is_dry { ("plan", "would skip ") } else { ("skipped", "") };
            let lead = Lead::hanging(styled(WARN, format!("  {name:<9}")));
            page.paragraph(&lead, &[unstyled(shown(&format!("{would}{skipped}")))])?;
        }
        Ok(())
    }

    /// What was done, or would be, one line per kind.
    fn deeds(&self, page: &mut Page<'_>) -> Result<(), Failure> {
        let mut kinds: Vec<(String, Vec<u64>)> = Vec::new();
        for deed in &self.proof.deeds {
            let text = match deed.code {
                Some(code) => format!("{code}: {}", deed.text),
                None if self.is_dry => format!("would be {}", deed.text),
                None => deed.text.clone(),
            };
            match kinds.iter_mut().find(|(known, _)| *known == text) {
                Some((_, lines)) => lines.extend(deed.line),
                None => kinds.push((text, deed.line.into_iter().collect())),
            }
        }
        for (text, lines) in kinds {
            let place = line_list(&lines).map(|lines| format!(" ({lines})"));
            let place = place.unwrap_or_default();
            let name = if self.is_dry { "plan" } else { "done" };
            let lead = Lead::hanging(styled(GOOD, format!("  {name:<9}")));
            page.paragraph(&lead, &[unstyled(format!("{text}{place}"))])?;
        }
        Ok(())
    }

    /// The findings that remain and matter.
    fn findings(&self, page: &mut Page<'_>) -> Result<(), Failure> {
        let bad = self.bad();
        for finding in bad.iter().take(TOLD) {
            let text = shown(&reason(finding));
            page.paragraph(&Lead::hanging(styled(WARN, "  remains  ")), &[unstyled(text)])?;
        }
        Ok(())
    }

    fn bad(&self) -> Vec<&Finding> {
        let found = self.proof.after.findings.iter();
        found.filter(|finding| finding.severity >= Severity::Loss).collect()
    }

    /// The figures, one line each.
    fn rows(&self) -> Vec<(&'static str, String, Style)> {
        let plain = Style::new();
        let Proof { before, after, written, same, new_tokens, .. } = self.proof;
        let number = |number: usize| grouped(number as u64);
        let sent = |side: &Snapshot| {
            format!("{} API messages, ~{} tokens", number(side.messages), grouped(side.tokens))
        };
        let is_same = *same >= before.messages && *same >= after.messages;
        let saved = match before.tokens.checked_sub(after.tokens) {
            // The file is smaller, and people expect that the context is.
            Some(0) if is_same && self.verb == Verb::Strip => {
                ": what is removed is never sent to the model, so its context does not get smaller"
                    .to_owned()
            }
            Some(0) => String::new(),
            Some(saved) => format!(": ~{} tokens less", grouped(saved)),
            None => format!(": ~{} tokens more", grouped(after.tokens - before.tokens)),
        };
        let cache = if is_same {
            "nothing is lost: all messages are sent as before".to_owned()
        } else if *same >= after.messages {
            "nothing is lost: what is left is sent as before".to_owned()
        } else {
            format!(
                "lost from API message {} on: ~{} tokens are sent again, once",
                number(same + 1),
                grouped(*new_tokens)
            )
        };
        let broken = if after.unpaired == 0 {
            "none broken".to_owned()
        } else {
            format!("{} unpaired", number(after.unpaired))
        };
        let style = match after.verdict {
            Verdict::Full => GOOD,
            Verdict::Loss => WARN,
            Verdict::Rejected | Verdict::Refused => BAD,
        };
        vec![
            ("session", fit(&self.title, LONGEST_TITLE), plain),
            ("folder", shown(&self.folder), plain),
            (
                "records",
                format!(
                    "{} kept, {} dropped, {} altered, {} added",
                    grouped(written.kept),
                    grouped(written.dropped),
                    grouped(written.altered),
                    grouped(written.added)
                ),
                plain,
            ),
            ("bytes", format!("{} → {}", grouped(before.bytes), grouped(after.bytes)), plain),
            ("sent", format!("{} → {}{saved}", sent(before), sent(after)), plain),
            ("cache", cache, plain),
            ("price", self.price.line(), plain),
            (
                "calls",
                format!(
                    "{} with results → {}, {broken}",
                    number(before.pairs),
                    number(after.pairs)
                ),
                plain,
            ),
            ("reach", self.reach(), plain),
            ("verdict", format!("{} → {}", before.verdict.words(), after.verdict.words()), style),
        ]
    }

    /// How many of the recorded messages are sent, before and after; if fewer are recorded, why.
    fn reach(&self) -> String {
        let number = |number: usize| grouped(number as u64);
        let (before, after) = (self.proof.before.reach, self.proof.after.reach);
        let gone = before.recorded.saturating_sub(after.recorded);
        let [is, was] = match gone {
            _ if self.is_dry => ["would be", "would be"],
            1 => ["is", "was"],
            _ => ["are", "were"],
        };
        let why = match self.verb {
            _ if gone == 0 => String::new(),
            Verb::Repair => format!(" ({} that no request can carry {is} left out)", number(gone)),
            Verb::Fork | Verb::Split => format!(" ({} {was} left out)", number(gone)),
            _ => format!(" ({} {was} taken out)", number(gone)),
        };
        if before.sent == before.recorded && after.sent == after.recorded {
            return format!(
                "all {} recorded messages → all {}{why}",
                number(before.recorded),
                number(after.recorded)
            );
        }
        format!(
            "{} of {} recorded messages → {} of {}{why}",
            number(before.sent),
            number(before.recorded),
            number(after.sent),
            number(after.recorded)
        )
    }

    fn form(&self) -> ProofJson<'_> {
        let Proof { before, after, written, same, new_tokens, deeds } = self.proof;
        ProofJson {
            v: JSON_VERSION,
            dry_run: self.is_dry,
            of: Of { id: &self.of, title: &self.title, folder: &self.folder },
            session: self.session.as_deref(),
            path: self.path.as_deref(),
            resume: self.resume.as_deref(),
            undo: self.entry.as_deref(),
            records: *written,
            before,
            after,
            same_messages: *same,
            new_tokens: *new_tokens,
            price: self.price.json(),
            done: deeds,
            remains: self.bad().into_iter().map(Remains::from).collect(),
            along: &self.along,
            left: &self.left,
            skipped: &self.skipped,
            redacted: self.redacted.as_ref(),
        }
    }
}

/// What a thing is called, one and many.
pub(crate) fn noun(thing: Thing) -> &'static str {
    match thing {
        Thing::FileHistory => "copy of an edited file|copies of edited files",
        Thing::Todos => "todo list",
        Thing::PastedImage => "pasted image",
        Thing::Environment => "script of a hook|scripts of hooks",
        Thing::DebugLog => "debug log",
        Thing::HomeFile => "other file in the home|other files in the home",
        Thing::PastedText => "pasted text",
        Thing::History => "line in the prompt history|lines in the prompt history",
        thing => thing.name(),
    }
}

/// The last line of a dry run.
const DRY: &str = "nothing was written: run it again without `--dry-run` to do this";

/// How much of a title is printed: enough to recognise the session.
const LONGEST_TITLE: usize = 120;

/// How many lines or findings of one kind are printed.
const TOLD: usize = 8;

#[derive(Serialize)]
struct ProofJson<'a> {
    v: u32,
    dry_run: bool,
    of: Of<'a>,
    session: Option<&'a str>,
    path: Option<&'a str>,
    resume: Option<&'a str>,
    undo: Option<&'a str>,
    records: Written,
    before: &'a Snapshot,
    after: &'a Snapshot,
    same_messages: usize,
    new_tokens: u64,
    price: Option<PriceJson<'a>>,
    done: &'a [Deed],
    remains: Vec<Remains<'a>>,
    along: &'a [String],
    left: &'a [String],
    skipped: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    redacted: Option<&'a Redacted>,
}

/// The session that was changed.
#[derive(Serialize)]
struct Of<'a> {
    id: &'a str,
    title: &'a str,
    folder: &'a str,
}

#[derive(Serialize)]
struct Remains<'a> {
    code: &'a str,
    severity: &'a str,
    line: Option<u64>,
    text: &'a str,
    more: u64,
}

impl<'a> From<&'a Finding> for Remains<'a> {
    fn from(finding: &'a Finding) -> Self {
        Remains {
            code: finding.code.name(),
            severity: finding.severity.name(),
            line: finding.line,
            text: &finding.text,
            more: finding.more,
        }
    }
}
