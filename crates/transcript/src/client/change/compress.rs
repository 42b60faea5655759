//! Older turns become a compaction: a summary replaces them in what is sent, and their records stay
//! in the file before it.
//!
//! The records are those of a compaction by the client, in the form that every version loads: a
//! boundary without a parent, then the summary, then the turns that stay, whose first record hangs
//! on the summary. Nothing is removed, so [`uncompress`](super::uncompress()) restores the file
//! byte for byte. Invariants: the summary is made from the records alone, and is the same each
//! time; with what stays it is within the budget; prompts are in it word for word, or are named.

mod cue;
pub(super) mod records;
mod seen;
mod story;
mod summary;

use hashbrown::HashSet;
use thiserror::Error;

use super::splice::To;
use super::{Change, Subject};
use crate::client::context::Context;
use crate::conversation::Conversation;
use crate::conversation::preview::preview;
use crate::conversation::table::RowId;
use crate::conversation::turn::Turn;
use crate::format::entry::Entry;
use crate::format::input::Input;
use crate::format::json::{Json, quote};
use crate::format::time::Time;
use records::{Compaction, Envelope};
use seen::{Said, Seeing, Seen};
use story::{Builder, Story};
use summary::{Summary, SummaryBody, compose};

/// What a compression is to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compress {
    /// How many tokens the messages may have afterwards.
    pub to: Option<u64>,
    /// Which turns stay word for word.
    pub keep: KeepTurns,
    /// Whether the summary lists the calls.
    pub calls: ListCalls,
}

impl Default for Compress {
    fn default() -> Self {
        Compress { to: None, keep: KeepTurns::Last(5), calls: ListCalls::Leave }
    }
}

/// Which turns stay word for word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeepTurns {
    /// So many of the last ones, if they fit.
    Last(usize),
    /// All from this prompt on; what may be left is for the summary alone.
    From(String),
}

/// Whether a summary lists the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListCalls {
    /// Files and commands, each once.
    Leave,
    /// All calls, one line each, without their results.
    List,
}

/// Why a session is not compressed.
#[derive(Debug, Error)]
pub enum CompressError {
    /// The client does not resume it, so nothing is sent.
    #[error("nothing would be sent of this session")]
    Nothing,
    /// There is no such prompt in what is sent, or nothing is sent before it.
    #[error("nothing is sent before the prompt {0}")]
    NothingBefore(String),
    /// It is short enough.
    #[error("the messages are ~{tokens} tokens, which is not more than {budget}")]
    Fits {
        /// How many tokens its messages are.
        tokens: u64,
        /// How many they may be.
        budget: u64,
    },
    /// A summary of so few tokens says nothing.
    #[error("a summary in {budget} tokens says nothing; {least} is the least")]
    Small {
        /// How many tokens were asked for.
        budget: u64,
        /// How many it takes.
        least: u64,
    },
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] crate::Error),
}

/// The budget if none is given: this many tokens, or a quarter of what is sent.
const USUAL: u64 = 40_000;
/// The least budget.
const LEAST: u64 = 400;
/// The share of the budget that the turns that stay may take.
const KEPT: f64 = 0.6;
/// What is not counted exactly: a text that the client adds, and a share of the estimate.
const SPARE_TOKENS: u64 = 40;
const SPARE: f64 = 0.02;

/// A compression before its summary is written.
#[derive(Debug)]
pub struct Draft<'a> {
    subject: &'a Subject,
    context: &'a Context,
    /// The path through the session, and where on it the records begin that stay.
    path: Vec<RowId>,
    cut: usize,
    /// How many turns stay, and how many were to.
    kept: [usize; 2],
    story: Story,
    cwd: Option<String>,
    envelope: Envelope,
    budget: u64,
    /// What the summary may take.
    of_summary: u64,
}

/// Plans a compression with a summary that is made from the records.
pub fn compress(subject: &Subject, what: &Compress) -> Result<Change, CompressError> {
    Ok(Draft::new(subject, what)?.plan(None)?)
}

impl<'a> Draft<'a> {
    /// Reads what is to be summed up.
    pub fn new(subject: &'a Subject, what: &Compress) -> Result<Draft<'a>, CompressError> {
        let conversation = subject.conversation();
        let Ok(context) = subject.context()? else { return Err(CompressError::Nothing) };
        let tokens = context.of_all_messages();
        let live = conversation.live();
        let path: Vec<RowId> = conversation.rows(&live).collect();
        let turns = conversation.turns_in(&live);
        let starts = starts(conversation, &path, &turns);
        let weighed = Weighed::new(subject, context, &path, &starts);
        let (tail, wanted, budget) = match &what.keep {
            KeepTurns::Last(most) => {
                let budget = what.to.unwrap_or(USUAL.min(tokens / 4));
                (weighed.last(*most, share(budget, KEPT)), (*most).min(starts.len()), budget)
            }
            KeepTurns::From(prompt) => {
                let tail = weighed.from(conversation, prompt);
                let tail = tail.ok_or_else(|| CompressError::NothingBefore(prompt.clone()))?;
                let of_rest = tokens.saturating_sub(tail.tokens);
                let budget = tail.tokens + what.to.unwrap_or(USUAL.min(of_rest / 4).max(LEAST));
                (tail, tail.turns, budget + share(budget, SPARE) + SPARE_TOKENS)
            }
        };
        if tokens <= budget {
            return Err(CompressError::Fits { tokens, budget });
        }
        if budget < LEAST {
            return Err(CompressError::Small { budget, least: LEAST });
        }
        let cut = tail.at;
        let spare = share(budget, SPARE) + SPARE_TOKENS;
        let of_summary = budget.saturating_sub(tail.tokens + spare);
        let story = story(conversation, &path[..cut], &starts, budget, what.calls)?;
        // Other records do not have all members, such as the version.
        let is_whole = |row: &&RowId| {
            is_link(conversation, **row) && conversation.table.row(**row).session.is_some()
        };
        let known = path[..cut].iter().rev().find(is_whole);
        let (envelope, cwd) = match known {
            Some(row) => conversation.look(*row, |entry| {
                let cwd = entry.text("cwd").map(std::borrow::Cow::into_owned);
                (Envelope::of(entry), cwd)
            })?,
            None => (Envelope::default(), None),
        };
        let kept = [tail.turns, wanted];
        Ok(Draft { subject, context, path, cut, kept, story, cwd, envelope, budget, of_summary })
    }

    /// What a model can write a summary from: everything that is known of the turns, at more
    /// length, in at most so many tokens. It contains texts of the session as they are.
    pub fn material(&self, tokens: u64) -> String {
        compose(&self.story, &SummaryBody::Extracted, self.cwd.as_deref(), self.context, tokens)
            .text
    }

    /// How many tokens a summary by a model should have at most; prompts come on top of it.
    pub fn asked(&self) -> u64 {
        self.of_summary / 2
    }

    /// The plan, with a summary that is made from the records, or written by a model.
    pub fn plan(&self, written: Option<&str>) -> crate::Result<Change> {
        let conversation = self.subject.conversation();
        let summary = self.summary(written);
        let mut change = Change::new(conversation);
        let table = &conversation.table;
        let (before, kept) = self.path.split_at(self.cut);
        let uuid = |row: RowId| table.text(table.row(row).uuid);
        let is_link = |row: &RowId| is_link(conversation, *row);
        let last = before.iter().copied().rfind(is_link).and_then(uuid).unwrap_or_default();
        let first = kept.iter().copied().find(is_link);
        let parent = first.map(|row| conversation.look(row, parent)).transpose()?;
        let known = first.and_then(|row| table.text(table.row(row).parent));
        let after = known.unwrap_or(last);
        let is_usual = parent.as_ref().is_none_or(|raw| raw.as_deref() == Some(&*quote(after)));
        let raw = parent.map(Option::unwrap_or_default);
        let leaf = kept.iter().copied().rfind(is_link).and_then(uuid);
        let found = preview(&conversation.path).unwrap_or_default();
        let title = found.title.or(found.prompt).unwrap_or_default();
        let title: String = title.chars().take(LONGEST_TITLE).collect();
        let of_summary = share(1, self.context.of_text(&summary.text));
        let made = Compaction {
            envelope: &self.envelope,
            time: self.time(&change, first),
            after,
            parent: raw.as_deref().filter(|_| !is_usual),
            first: first.and_then(uuid),
            text: &summary.text,
            title: &title,
            leaf,
            tokens: [
                self.context.tokens,
                self.context.tokens.saturating_sub(self.gone()) + of_summary,
            ],
        };
        let made = made.lines();
        if let Some(first) = first {
            change.edit(first).set("parentUuid", To::Value(quote(&made.summary).into_bytes()));
        }
        match self.behind(kept) {
            Some(row) => _ = change.behind.insert(row, made.lines),
            None => change.end.extend(made.lines),
        }
        // The newest clients continue below the record that is named: it must be one that stays.
        let stays: HashSet<RowId> = kept.iter().copied().collect();
        let named = table.named_leaf.map(|id| conversation.graph.row_of(id));
        if named.is_some_and(|row| row.is_none_or(|row| !stays.contains(&row))) {
            change.end.push(made.last_prompt);
        }
        self.tell(&mut change, &summary);
        Ok(change)
    }

    /// A summary that fits: estimates of parts do not quite add up to the estimate of the whole.
    fn summary(&self, written: Option<&str>) -> Summary {
        let body = written.map_or(SummaryBody::Extracted, SummaryBody::Written);
        let mut most = self.of_summary;
        loop {
            let summary = compose(&self.story, &body, self.cwd.as_deref(), self.context, most);
            let tokens = share(1, self.context.of_text(&summary.text));
            if tokens <= self.of_summary || most < 50 {
                return summary;
            }
            most = most.saturating_sub((tokens - self.of_summary).max(most / 50));
        }
    }

    /// The record whose line the compaction follows: the one before the first that stays, if
    /// nothing else is on its line. `None` for the end of the file.
    fn behind(&self, kept: &[RowId]) -> Option<RowId> {
        let table = &self.subject.conversation().table;
        let first = kept.iter().min()?;
        let rows = table.numbered().rev().map(|(row, _)| row).skip_while(|row| row >= first);
        rows.into_iter().find(|row| table.row(*row).placed.is_alone())
    }

    /// Older clients continue from the newest record: the compaction is older than what stays, or
    /// the newest of all.
    fn time(&self, change: &Change, first: Option<RowId>) -> Option<Time> {
        let conversation = self.subject.conversation();
        if let Some(first) = first {
            let time = conversation.table.row(first).time?;
            return Some(Time(time.0.saturating_sub(1)));
        }
        let newest = change.needed_time(conversation, None, None)?;
        Some(Time(newest.0.saturating_add(1)))
    }

    /// The tokens of what is summed up.
    fn gone(&self) -> u64 {
        let gone: HashSet<RowId> = self.path[..self.cut].iter().copied().collect();
        let parts = self
            .context
            .parts
            .iter()
            .filter(|part| part.row.is_some_and(|row| gone.contains(&row)));
        parts.map(|part| part.tokens).sum()
    }

    fn tell(&self, change: &mut Change, summary: &Summary) {
        let tokens = share(1, self.context.of_text(&summary.text));
        let turns = plural(self.story.turns, "turn");
        change.did(None, None, format!("summed up: {turns} in ~{tokens} tokens"));
        let [kept, wanted] = self.kept;
        let fewer =
            if kept < wanted { format!(" of {wanted}, as far as they fit") } else { String::new() };
        let (prompts, turns) = (plural(summary.prompts, "prompt"), plural(kept, "turn"));
        let text = format!("kept word for word: {prompts}, and the last {turns}{fewer}");
        change.did(None, None, text);
        if !summary.shortened.is_empty() {
            let text = format!(
                "not kept word for word: what does not fit in {} tokens of the prompts of turns {}",
                self.budget,
                ranges(&summary.shortened)
            );
            change.did(None, None, text);
        }
    }
}

/// Numbers in order, as a person writes them: `1, 3..5`.
fn ranges(numbers: &[usize]) -> String {
    let groups = numbers.chunk_by(|one, other| one + 1 == *other);
    let groups: Vec<String> = groups
        .map(|group| match (group[0], group[group.len() - 1]) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}..{last}"),
        })
        .collect();
    groups.join(", ")
}

/// A number with its noun.
fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

const LONGEST_TITLE: usize = 120;

/// The turns that stay: where on the path they begin, how many they are, and their tokens.
#[derive(Clone, Copy)]
struct Tail {
    at: usize,
    turns: usize,
    tokens: u64,
}

/// What the turns of a path weigh.
struct Weighed<'a> {
    path: &'a [RowId],
    starts: &'a [usize],
    /// The tokens of each row, and those that are of none.
    tokens: Vec<u64>,
    made_up: u64,
    /// What is sent begins after this place; turns before it cannot stay.
    after: usize,
}

impl<'a> Weighed<'a> {
    fn new(
        subject: &Subject,
        context: &Context,
        path: &'a [RowId],
        starts: &'a [usize],
    ) -> Weighed<'a> {
        let mut tokens = vec![0; subject.conversation().table.rows().len()];
        let mut made_up = 0;
        for part in &context.parts[1..] {
            match part.row {
                Some(row) => tokens[row.index()] += part.tokens,
                None => made_up += part.tokens,
            }
        }
        let (_, boundary) = subject.sent();
        let after = boundary.and_then(|row| path.iter().position(|other| *other == row));
        Weighed { path, starts, tokens, made_up, after: after.unwrap_or(0) }
    }

    /// So many of the last turns, as far as they have no more than so many tokens.
    fn last(&self, most: usize, limit: u64) -> Tail {
        let mut tail = Tail { at: self.path.len(), turns: 0, tokens: self.made_up };
        for start in self.starts.iter().rev().take(most).filter(|start| **start > self.after) {
            let more: u64 = self.path[*start..tail.at].iter().map(|row| self.of(*row)).sum();
            if tail.tokens + more > limit {
                break;
            }
            tail = Tail { at: *start, turns: tail.turns + 1, tokens: tail.tokens + more };
        }
        tail
    }

    /// All turns from that of a prompt on, if there are others before it.
    fn from(&self, conversation: &Conversation, prompt: &str) -> Option<Tail> {
        let table = &conversation.table;
        let is_it = |row: &RowId| table.text(table.row(*row).uuid) == Some(prompt);
        let place = self.path.iter().position(is_it)?;
        let turn = self.starts.iter().rposition(|start| *start <= place)?;
        let at = self.starts[turn];
        let tokens: u64 = self.path[at..].iter().map(|row| self.of(*row)).sum();
        let tail = Tail { at, turns: self.starts.len() - turn, tokens: self.made_up + tokens };
        (at > self.after).then_some(tail)
    }

    fn of(&self, row: RowId) -> u64 {
        self.tokens[row.index()]
    }
}

/// Whether other records can hang on a record.
pub(super) fn is_link(conversation: &Conversation, row: RowId) -> bool {
    let known = conversation.table.row(row);
    known.uuid.is_some() && !known.is_repeat && conversation.graph.link(row).is_step()
}

/// Where on a path its turns begin.
pub(super) fn starts(conversation: &Conversation, path: &[RowId], turns: &[Turn]) -> Vec<usize> {
    let mut places = vec![None; conversation.table.rows().len()];
    for (at, row) in path.iter().enumerate() {
        places[row.index()] = Some(at);
    }
    turns.iter().filter_map(|turn| places[turn.rows[0].index()]).collect()
}

/// What happened on the path.
fn story(
    conversation: &Conversation,
    path: &[RowId],
    starts: &[usize],
    budget: u64,
    calls: ListCalls,
) -> crate::Result<Story> {
    let table = &conversation.table;
    // Enough for texts full of escapes.
    let mut most = budget.saturating_mul(24);
    let is_prompt = |input: Input| input.is_typed() || input == Input::Queued;
    let mut may_fit = HashSet::new();
    for row in path.iter().rev().filter(|row| table.row(**row).input.is_some_and(is_prompt)) {
        if let Some(left) = most.checked_sub(table.row(*row).len) {
            most = left;
            may_fit.insert(*row);
        }
    }
    let seeing = Seeing { conversation, may_fit, calls };
    let ours = ours(conversation, path)?;
    let mut builder = Builder::default();
    let mut starts = starts.iter().peekable();
    let (mut at, mut turn) = (0, 0);
    let take = |row: RowId, seen: Seen| {
        while starts.next_if(|start| **start <= at).is_some() {
            turn += 1;
        }
        at += 1;
        // The turns before a compaction of ours are all here; of others, the summary may say more.
        if matches!(seen, Seen::Summary(_)) && ours.contains(&row) {
            return;
        }
        if let (ListCalls::List, Seen::Answer(spoken)) = (calls, &seen) {
            for one in spoken {
                if let Said::Call(call) = one {
                    builder.note_call(turn.max(1), format!("{} {}", call.tool, call.about));
                }
            }
        }
        builder.add(turn.max(1), seen);
    };
    conversation.look_each(path, |look, row| seeing.row(look, row), take)?;
    Ok(builder.finish())
}

/// The summaries that we made.
fn ours(conversation: &Conversation, path: &[RowId]) -> crate::Result<HashSet<RowId>> {
    let is_summary = |row: &&RowId| conversation.table.row(**row).input == Some(Input::Summary);
    let mut found = HashSet::new();
    for row in path.iter().filter(is_summary) {
        if conversation.look(*row, |entry| entry.get(records::MARK).is_some())? {
            found.insert(*row);
        }
    }
    Ok(found)
}

/// The parent of a record as it is written there; `None` if it has no such member.
fn parent(entry: &Entry<'_>) -> Option<String> {
    entry.get("parentUuid").map(|value: Json<'_>| String::from_utf8_lossy(value.raw()).into_owned())
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a number of tokens"
)]
fn share(count: u64, of: f64) -> u64 {
    (count as f64 * of).ceil() as u64
}
