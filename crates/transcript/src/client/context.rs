//! What fills the context: the tokens of what would be sent now, and what the next request costs.
//!
//! A request is the system prompt and the tools, which are not in the file, and the messages
//! ([`history`](mod@crate::client::history)). Recorded calls say how many tokens they read and
//! wrote, all in all; so the sum up to the last call is known exactly, and so is what was added
//! between two calls. How such a sum divides among several blocks is estimated, and so is what came
//! after the last call: by the size of texts (`units`), calibrated by the session's recorded calls
//! (`fit`). Invariants: the parts add up to the whole; what is recorded is not estimated; a file
//! that no longer is what its calls read is estimated as a whole, and that is reported; memory
//! grows with the number of blocks, not with their size.

mod calls;
mod counting;
mod fit;
mod group;
mod next;
mod pieces;
mod replay;
mod units;

use hashbrown::HashMap;

pub use group::{Group, GroupBy};
pub use next::{Difference, Lifetime, NextRequest, Reason};
pub use replay::{Prediction, predictions};

use crate::client::history::{History, Refusal, Rules, outline};
use crate::conversation::Conversation;
use crate::conversation::table::{BlockId, Id, RowId};
use crate::names::named;
use calls::{Addition, AllWeights, RecordedCall, calls, tokens};
use counting::{Counting, estimate, rounded};
use fit::{Weights, has_later_tokenizer};

named! {
    /// What a part of the context is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum PartKind {
        /// The system prompt, the tools, and whatever else is not in the file.
        System = "system",
        /// What people and other senders wrote.
        Prompt = "prompts",
        /// The texts of answers.
        Answer = "answers",
        /// Thinking that is sent back.
        Thinking = "thinking",
        /// Tool calls.
        Call = "calls",
        /// Results of tool calls.
        Result = "results",
        /// Images.
        Image = "images",
        /// Documents.
        Document = "documents",
        /// What the client adds: reminders, attachments, outputs of commands.
        Reminder = "reminders",
        /// Summaries of compactions.
        Summary = "summaries",
    }
}

named! {
    /// Where the numbers come from.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Basis {
        /// The usage that the session's calls recorded, up to the last one.
        Recorded = "recorded",
        /// An estimate: the file is no longer what its last call read.
        Changed = "changed",
        /// An estimate: another model continues, which counts differently.
        OtherModel = "other_model",
        /// An estimate: no call on this branch is recorded.
        Nothing = "nothing",
    }
}

/// A part of what would be sent.
#[derive(Clone, Debug)]
pub struct ContextPart {
    /// What it is.
    pub kind: PartKind,
    /// About how many tokens it is.
    pub tokens: u64,
    /// The tool that was called; only for calls and results, and images in results.
    pub tool: Option<Id>,
    /// The number of its turn, from 1, as `quipu turns` counts; `None` for the system prompt.
    pub turn: Option<usize>,
    /// Its record.
    pub row: Option<RowId>,
    /// Its block.
    pub block: Option<BlockId>,
    /// The message that it is in, from 0.
    pub message: u32,
    /// The number of the file that it is about.
    file: Option<u32>,
    /// The recorded sum that it is a share of.
    sum: Option<u32>,
    /// A hash of its content.
    hash: u64,
}

/// What would be sent, counted.
#[derive(Clone, Debug)]
pub struct Context {
    /// The model that continues.
    pub model: String,
    /// How many tokens that model reads at most; `None` if the model is not known.
    pub window: Option<u64>,
    /// From how many tokens on the client compacts first; `None` if it never does.
    pub compacts_from: Option<u64>,
    /// How many tokens would be sent, without the next prompt.
    pub tokens: u64,
    /// How many of them the last recorded call read and wrote.
    pub recorded: u64,
    /// Where the numbers come from.
    pub basis: Basis,
    /// How many recorded calls the estimates are calibrated by.
    pub calibrated_by: u64,
    /// The parts, in the order in which they are sent; the system prompt comes first.
    pub parts: Vec<ContextPart>,
    /// The files that parts are about.
    files: Vec<String>,
    calls: Vec<RecordedCall>,
    /// For each call, how many parts it read.
    read: Vec<usize>,
    weights: Weights,
    boundary: Option<RowId>,
}

/// What another session that was made from this one is counted by.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    weights: Weights,
    system: u64,
    /// The tokens of all pieces with the same content, by its hash.
    pieces: HashMap<u64, Vec<u64>>,
}

/// Counts what a client would send.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("0a1b2c3d.jsonl");
/// # let line = r#"{"type":"user","uuid":"a","message":{"role":"user","content":"hello"}}"#;
/// # std::fs::write(&path, format!("{line}\n"))?;
/// use transcript::Conversation;
/// use transcript::client::context::{GroupBy, count};
/// use transcript::client::history::Rules;
///
/// let conversation = Conversation::open(&path)?;
/// if let Ok(context) = count(&conversation, Rules::newest())? {
///     for group in context.groups(&conversation.table, GroupBy::Kind) {
///         println!("{} {}", group.tokens, group.key);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn count(conversation: &Conversation, rules: Rules) -> crate::Result<Result<Context, Refusal>> {
    match outline(conversation, rules, Some("..."))? {
        Ok(sent) => count_outline(conversation, &sent, rules).map(Ok),
        Err(refusal) => Ok(Err(refusal)),
    }
}

/// Like [`count`], if the outline of what is sent is known already.
pub fn count_outline(
    conversation: &Conversation,
    sent: &History,
    rules: Rules,
) -> crate::Result<Context> {
    count_sent(conversation, sent, rules, None)
}

/// With fewer calls than this after a compaction, those before it calibrate too.
const FEW_CALLS: usize = 8;
/// A text is at least this share of what it would be without any recorded call.
const LEAST_OF_GUESS: f64 = 0.8;
/// How many records before a compaction are read for that.
const BEFORE: usize = 600;

/// Counts what is sent, by the session's own calls or by those of the session that it was made
/// from.
pub(crate) fn count_sent(
    conversation: &Conversation,
    sent: &History,
    rules: Rules,
    scale: Option<&Scale>,
) -> crate::Result<Context> {
    let table = &conversation.table;
    let pieces = pieces::read(conversation, &[], sent, rules)?;
    let found = calls(table, &pieces.list);
    let mut weights = AllWeights::default();
    let mut system = None;
    if scale.is_none() && found.len() < FEW_CALLS && sent.boundary.is_some() {
        system = learn_before(conversation, sent, rules, &mut weights)?;
    }
    for pair in found.windows(2) {
        let model = table.ids.text(pair[0].model);
        Addition::new(&pieces.list, &pair[0], &pair[1]).teach(weights.of(model));
    }
    // Without an answer since the compaction, the file does not say which model continues: the one
    // before it, unless the user chooses another.
    let latest = next::latest(table).filter(|_| found.is_empty());
    let model = latest.map_or(&*sent.model, |call| table.ids.text(call.model));
    let last = found.last().map(|call| table.ids.text(call.model));
    let is_alike = |other: &str| has_later_tokenizer(other) == has_later_tokenizer(model);
    let calibrated = last.filter(|model| is_alike(model)).unwrap_or(model);
    let weights = scale.map_or_else(|| weights.get(calibrated), |scale| scale.weights.clone());
    let mut counting = Counting::new(&pieces, &weights);
    let basis = match (scale, last) {
        (Some(scale), _) => {
            counting.like(scale);
            Basis::Changed
        }
        (None, None) => {
            counting.system = system.unwrap_or(0);
            Basis::Nothing
        }
        (None, Some(last)) if !is_alike(last) => {
            counting.head(&found[0]);
            Basis::OtherModel
        }
        (None, Some(_)) => counting.record(&found),
    };
    Ok(counting.finish(conversation, sent, model, found, basis))
}

/// Calibrates by calls before a compaction. Returns what the first call of the session read that is
/// not in the file.
fn learn_before(
    conversation: &Conversation,
    sent: &History,
    rules: Rules,
    weights: &mut AllWeights,
) -> crate::Result<Option<u64>> {
    let table = &conversation.table;
    let Some(boundary) = sent.boundary else { return Ok(None) };
    let path: Vec<RowId> = conversation.rows(&conversation.live()).collect();
    let path: Vec<RowId> = path.into_iter().take_while(|row| *row != boundary).collect();
    let nothing = History { messages: Vec::new(), rows: Vec::new(), ..sent.clone() };
    let late = &path[path.len().saturating_sub(BEFORE)..];
    let read = pieces::read(conversation, late, &nothing, rules)?;
    for pair in calls(table, &read.list).windows(2) {
        let model = table.ids.text(pair[0].model);
        Addition::new(&read.list, &pair[0], &pair[1]).teach(weights.of(model));
    }
    let read = pieces::read(conversation, &path[..path.len().min(BEFORE)], &nothing, rules)?;
    let first = calls(table, &read.list).into_iter().next();
    Ok(first.map(|first| {
        let weights = weights.get(table.ids.text(first.model));
        let messages: f64 = read.list[..first.at].iter().map(|one| estimate(&weights, one)).sum();
        rounded(tokens(first.usage.read()) - messages)
    }))
}

impl Context {
    /// The file that a part is about.
    pub fn file(&self, part: &ContextPart) -> Option<&str> {
        part.file.map(|file| self.files[file as usize].as_str())
    }

    /// Whether no part is more than an estimate.
    pub fn is_estimated(&self) -> bool {
        self.basis != Basis::Recorded
    }

    /// The tokens of the first messages, with the system prompt.
    pub(crate) fn of_messages(&self, count: usize) -> u64 {
        let is_in =
            |part: &&ContextPart| part.kind == PartKind::System || (part.message as usize) < count;
        self.parts.iter().filter(is_in).map(|part| part.tokens).sum()
    }

    /// The tokens of all messages, without the system prompt.
    pub fn of_all_messages(&self) -> u64 {
        self.tokens - self.parts[0].tokens
    }

    /// How many tokens a text is, as the content of a result.
    pub(crate) fn of_note(&self, text: &str) -> u64 {
        let mut features = [0.0; 7];
        features[fit::RESULT] = units::units(text);
        features[fit::BLOCKS] = 1.0;
        rounded(self.weights.tokens(&features))
    }

    /// How many tokens a text is, as a message of its own. In a session with few texts, the weight
    /// of texts may be far too low, and a budget must hold anyway.
    pub(crate) fn of_text(&self, text: &str) -> f64 {
        let mut features = [0.0; 7];
        features[fit::TEXT] = units::units(text);
        let guess = Weights::guess(&self.model).tokens(&features);
        self.weights.tokens(&features).max(guess * LEAST_OF_GUESS)
    }

    /// About how many tokens the records of some rows are that are not sent now, one number for
    /// each row.
    pub(crate) fn of_rows(
        &self,
        conversation: &Conversation,
        rows: &[RowId],
        sent: &History,
        rules: Rules,
    ) -> crate::Result<HashMap<RowId, u64>> {
        let nothing = History { messages: Vec::new(), rows: Vec::new(), ..sent.clone() };
        let pieces = pieces::read(conversation, rows, &nothing, rules)?;
        let mut tokens: HashMap<RowId, f64> = HashMap::new();
        for piece in &pieces.list {
            if let Some(row) = piece.row {
                *tokens.entry(row).or_default() += estimate(&self.weights, piece);
            }
        }
        Ok(tokens.into_iter().map(|(row, tokens)| (row, rounded(tokens))).collect())
    }

    /// What a session made from this one is counted by.
    pub(crate) fn scale(&self) -> Scale {
        let mut pieces: HashMap<u64, Vec<u64>> = HashMap::new();
        for pair in self.parts[1..].chunk_by(|one, other| {
            // A result with an image is two parts.
            one.block.is_some() && one.block == other.block
        }) {
            let tokens = pair.iter().map(|part| part.tokens).sum();
            pieces.entry(pair[0].hash).or_default().push(tokens);
        }
        Scale { weights: self.weights.clone(), system: self.parts[0].tokens, pieces }
    }
}
