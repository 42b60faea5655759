//! Turns records into rows.
//!
//! One pass in file order. What a row needs from its texts is extracted here, and the texts are
//! dropped.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};
use std::io::Read;
use std::sync::LazyLock;

use hashbrown::{DefaultHashBuilder, HashMap, HashSet};
use memchr::memmem::Finder;

use super::{
    Answer, AnswerId, BlockId, BlockRow, Boundary, Filling, Id, KeptMessages, KeptSegment, Placed,
    Row, RowId, Started, StartedBy, Table, row_id,
};
use crate::format::content::{BlockKind, Message};
use crate::format::entry::{Entry, Kind};
use crate::format::file::{Body, Line, Lines, Record, State};
use crate::format::input::{Input, attached_prompt};
use crate::format::json::{Json, Shape};
use crate::format::line::BOM;

impl Table {
    /// Reads all records of a source.
    pub fn read<R: Read>(lines: Lines<R>) -> crate::Result<Table> {
        Table::read_watched(lines, &mut ())
    }

    /// Reads all records of a source, and shows each line and record to `watch`.
    pub(crate) fn read_watched<R: Read>(
        lines: Lines<R>,
        watch: &mut impl Watch,
    ) -> crate::Result<Table> {
        Ok(Reading::read(lines, watch)?.finish())
    }
}

impl Reading {
    /// Reads all lines of a source. What is known only at the end of the file is still missing.
    pub(super) fn read<R: Read>(
        mut lines: Lines<R>,
        watch: &mut impl Watch,
    ) -> crate::Result<Self> {
        let mut reading = Reading::default();
        while let Some(line) = lines.next_line()? {
            reading.table.lines = line.number.unwrap_or(0);
            reading.table.end = line.offset + line.len + u64::from(line.ended);
            watch.line(&line);
            let mut records = line.records().peekable();
            let mut is_first = line.part.is_none_or(|part| part == 0);
            while let Some(record) = records.next() {
                let placed = match (std::mem::take(&mut is_first), records.peek()) {
                    (true, None) if line.part.is_none() && begins_with_mark(&line) => {
                        Placed::Marked
                    }
                    (true, None) if line.part.is_none() => Placed::Alone,
                    (true, _) => Placed::First,
                    (false, _) => Placed::Later,
                };
                watch.record(&record, placed);
                reading.record(&record, placed);
            }
        }
        Ok(reading)
    }
}

fn begins_with_mark(line: &Line<'_>) -> bool {
    matches!(line.body, Body::Held(bytes) if bytes.starts_with(BOM))
}

/// Whether a value may name an agent. A cheap test first: most results and most progress data are
/// long, and do not.
fn names_agent(json: &Json<'_>) -> bool {
    AGENT.find(json.raw()).is_some()
}

/// How the names of members that name an agent begin, and also the name of an agent's progress
/// type.
static AGENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"agent"));

/// How many blocks of a record are compared with those of an earlier record with the same id.
const COMPARED: usize = 256;

/// Sees each line and record while a table is read, so that the file is read only once.
pub(crate) trait Watch: Send {
    /// A new one of the same kind that has seen nothing yet: for another part, or another file.
    fn another(&self) -> Self;
    /// Called for each line.
    fn line(&mut self, line: &Line<'_>);
    /// Called for each record of the line.
    fn record(&mut self, record: &Record<'_>, placed: Placed);
    /// Adds what another one saw in the next part, whose lines were counted from 1. Before that
    /// part there are `lines` lines.
    fn append(&mut self, behind: Self, lines: u64);
}

/// Ignores everything.
impl Watch for () {
    fn another(&self) {}
    fn line(&mut self, _: &Line<'_>) {}
    fn record(&mut self, _: &Record<'_>, _: Placed) {}
    fn append(&mut self, (): (), _: u64) {}
}

/// A table while it is being read, with what is needed only until then.
#[derive(Clone, Default)]
pub(super) struct Reading {
    pub(super) table: Table,
    pub(super) answers: HashMap<Id, AnswerId>,
    /// The answer that a record without a `message.id` continues.
    pub(super) running: Option<AnswerId>,
    /// Whether this part of the file has shown which answer is running. If not, an answer that
    /// begins here without an id (`headless`) may belong to the part before.
    pub(super) is_told: bool,
    pub(super) headless: Option<AnswerId>,
    /// The first record of each id.
    pub(super) first: HashMap<Id, RowId>,
    /// Sub-agents whose progress was seen.
    pub(super) seen: HashSet<Id>,
    /// The hashes of user texts and attached prompts, with their records.
    pub(super) text_hashes: Vec<(u64, RowId)>,
    /// What happened to the queue.
    pub(super) queue: Vec<(RowId, Queued)>,
    /// The last id of each kind, with its raw bytes.
    recent: [(Vec<u8>, Option<Id>); 3],
}

/// Kinds of ids that often occur several times in a row.
const UUID: usize = 0;
const SESSION: usize = 1;
const MESSAGE: usize = 2;

/// What happens to the queue of prompts. The numbers are hashes of prompts.
#[derive(Clone, Copy)]
pub(super) enum Queued {
    Put(u64),
    Take,
    Remove(Option<u64>),
    Clear,
}

/// What became of the prompts in the queue.
struct QueueFates {
    /// Those that left it, with their hashes, and whether they were removed.
    left: Vec<(RowId, u64, bool)>,
    /// The user records of prompts that left it without a `dequeue`.
    taken: HashSet<RowId>,
    /// Those that are still in it.
    waiting: Vec<RowId>,
}

impl Table {
    /// Whether a row has a block with that hash.
    pub(super) fn has_part(&self, row: RowId, hash: u64) -> bool {
        self.blocks_of(row).take(COMPARED).any(|part| self.block(part).hash == hash)
    }
}

impl Reading {
    fn record(&mut self, record: &Record<'_>, placed: Placed) {
        let Some(entry) = &record.entry else {
            match record.state {
                State::Damaged => self.table.damaged += 1,
                State::Whole | State::Recovered => self.table.bare += 1,
            }
            if record.bare.is_some_and(|json| json.shape() == Shape::Null) {
                self.table.null_line = self.table.null_line.or(record.line);
            }
            return;
        };
        let id = row_id(self.table.rows.len());
        if id.0 == u32::MAX {
            return;
        }
        let input = entry.input();
        // Most records are children of the one before them, in the same session, often of the same
        // answer.
        let parent = self.name_again(UUID, entry.get("parentUuid"));
        let uuid = self.name_as(UUID, entry.get("uuid"));
        let session = entry.get("sessionId").or_else(|| entry.get("session_id"));
        let session = self.name_as(SESSION, session);
        let message = entry.message().and_then(|message| message.get("id"));
        let message = self.name_as(MESSAGE, message);
        let mut row = Row {
            line: record.line.unwrap_or(0),
            offset: record.offset,
            len: record.len,
            time: entry.time(),
            uuid,
            parent,
            session,
            answer: None,
            blocks: u32::try_from(self.table.parts.len()).unwrap_or(u32::MAX),
            kind: entry.kind(),
            input,
            message,
            placed,
            is_native: entry
                .get("type")
                .is_some_and(|json| !json.is("human") && !json.is("tool_result")),
            says_sidechain: entry.flag("isSidechain"),
            is_sidechain: entry.flag("isSidechain"),
            is_repeat: uuid.is_some_and(|uuid| self.first.contains_key(&uuid)),
            ends_turn: entry.flag("toolEndsTurn"),
            is_string: entry
                .message()
                .is_some_and(|message| message.blocks().next().is_some_and(|one| one.is_string())),
        };
        if row.kind == Kind::Assistant {
            row.answer = Some(self.answer(entry, message, id));
        } else if row.kind != Kind::Attachment && input.is_some_and(Input::opens) {
            self.running = None;
            self.is_told = true;
        }
        self.blocks(entry, &row, id);
        self.aside(entry, &row, id);
        if let Some(uuid) = row.uuid {
            self.first.entry(uuid).or_insert(id);
        }
        self.table.rows.push(row);
    }

    /// Interns the text of a value. An empty text counts as none, because gateways fill fields with
    /// it.
    fn name(&mut self, value: Option<Json<'_>>) -> Option<Id> {
        let text = value?.text()?;
        if text.is_empty() { None } else { self.table.ids.keep(&text) }
    }

    /// Like `name`, for an id that is likely to be the last one of its kind.
    fn name_again(&mut self, kind: usize, value: Option<Json<'_>>) -> Option<Id> {
        let (raw, id) = &self.recent[kind];
        if value.is_some_and(|value| value.raw() == raw) { *id } else { self.name(value) }
    }

    /// Like `name`, for an id that becomes the last one of its kind.
    fn name_as(&mut self, kind: usize, value: Option<Json<'_>>) -> Option<Id> {
        let id = self.name_again(kind, value);
        let (raw, last) = &mut self.recent[kind];
        if let Some(value) = value
            && *last != id
        {
            raw.clear();
            raw.extend_from_slice(value.raw());
            *last = id;
        }
        id
    }

    fn answer(&mut self, entry: &Entry<'_>, named: Option<Id>, row: RowId) -> AnswerId {
        let message = entry.message();
        let known = match named {
            Some(name) => self.answers.get(&name).copied(),
            None => self.running,
        };
        let id = known.unwrap_or_else(|| {
            let id = AnswerId(row_id(self.table.answers.len()).0);
            self.table.answers.push(Answer::new(named, row));
            id
        });
        if let Some(name) = named {
            self.answers.insert(name, id);
        }
        if named.is_none() && known.is_none() && !self.is_told {
            self.headless = Some(id);
        }
        self.running = Some(id);
        self.is_told = true;
        let request = self.name(entry.get("requestId"));
        let answer = &mut self.table.answers[id.0 as usize];
        answer.request = answer.request.or(request);
        answer.is_error |= entry.flag("isApiErrorMessage");
        if let Some(message) = message {
            // Without an id, it counts nowhere.
            let kept = (named.is_none() && answer.id.is_some()).then(|| answer.usage.clone());
            answer.join(message, &mut self.table.ids);
            if let Some(usage) = kept {
                answer.usage = usage;
            }
        }
        id
    }

    fn blocks(&mut self, entry: &Entry<'_>, row: &Row, id: RowId) {
        let Some(message) = entry.message() else { return };
        let index = entry.get("apiBlockIndex").and_then(Json::integer);
        let repeated = row.uuid.and_then(|uuid| self.first.get(&uuid)).copied();
        for block in message.blocks() {
            let kind = block.kind();
            let get = |name: &str| block.get(name);
            let hash = match kind {
                // Equal for a string and for a block with the same text.
                BlockKind::Text if row.answer.is_none() => {
                    digest(block.text().as_deref().unwrap_or_default())
                }
                // If the client numbers blocks, equal blocks with different numbers are two.
                _ => digest(&(index, block.json().raw())),
            };
            let call = match kind {
                _ if kind.is_call() => self.name(get("id")),
                _ if kind.is_result() => self.name(get("tool_use_id")),
                _ => None,
            };
            // For answers, this depends on their chain and is determined later.
            let is_repeat = row.answer.is_none()
                && repeated.is_some_and(|first| self.table.has_part(first, hash));
            let name = if kind.is_call() { self.name(get("name")) } else { None };
            if row.kind == Kind::User && kind == BlockKind::Text {
                self.text_hashes.push((hash, id));
            }
            let number = BlockId(u32::try_from(self.table.parts.len()).unwrap_or(u32::MAX));
            if kind == BlockKind::ToolUse
                && matches!(self.table.text(name), Some("Task" | "Agent"))
                && let Some(prompt) = get("input").and_then(|input| input.get("prompt")?.text())
            {
                self.table.prompts.push((number, digest(&*prompt)));
            }
            let is_error = kind.is_result() && get("is_error").and_then(Json::bool) == Some(true);
            // Its offset, so that it can be read alone. A condensed record is read as a whole.
            let raw = block.json().raw();
            let at = (raw.as_ptr() as usize).wrapping_sub(entry.raw().as_ptr() as usize);
            let is_held = !row.is_long() && at.saturating_add(raw.len()) <= entry.raw().len();
            let place = [at, raw.len()].map(|number| u32::try_from(number).unwrap_or_default());
            let place = if is_held { place } else { [0, 0] };
            let filling = Filling::of(&block, self.table.text(name));
            let part = BlockRow {
                row: id,
                kind,
                id: call,
                name,
                is_repeat,
                is_error,
                filling,
                hash,
                place,
            };
            self.table.parts.push(part);
        }
    }

    /// Reads what a record contains besides the conversation.
    fn aside(&mut self, entry: &Entry<'_>, known: &Row, row: RowId) {
        if let Some(from) = entry.get("forkedFrom")
            && let Some(session) = self.name(from.get("sessionId"))
        {
            self.table.forked_from.push((row, session));
        }
        match entry.kind() {
            Kind::User => self.started(entry, known.input, row),
            Kind::Progress => self.progress(entry, row),
            Kind::Attachment => {
                let prompt = attached_prompt(entry);
                self.text_hashes.push((digest(&*prompt), row));
                if known.input == Some(Input::Notification) {
                    self.notified(&prompt, row);
                }
            }
            Kind::System => self.system(entry, row),
            Kind::LastPrompt => {
                self.table.named_leaf = self.name(entry.get("leafUuid")).or(self.table.named_leaf);
            }
            Kind::QueueOperation => self.queue(entry, row),
            _ => {}
        }
    }

    /// Records an operation on the queue. A prompt that is dequeued becomes a record; one that is
    /// removed goes to the model while it works (without any other record up to 2.1.45); `popAll`
    /// returns all prompts to the input field.
    fn queue(&mut self, entry: &Entry<'_>, row: RowId) {
        let content = entry.text("content");
        let hash = content.as_deref().map(digest);
        let queued = match entry.text("operation").as_deref() {
            Some("enqueue") => {
                if let Some(text) = content.filter(|text| text.starts_with("<task-notification>")) {
                    self.notified(&text, row);
                }
                hash.map(Queued::Put)
            }
            Some("dequeue") => Some(Queued::Take),
            Some("remove") => Some(Queued::Remove(hash)),
            Some("popAll") => Some(Queued::Clear),
            _ => None,
        };
        self.queue.extend(queued.map(|queued| (row, queued)));
    }

    /// What became of the prompts in the queue.
    fn fates(&self) -> QueueFates {
        let mut waiting: VecDeque<(RowId, u64)> = VecDeque::new();
        let mut left = Vec::new();
        let mut taken = HashSet::new();
        let mut prompts: HashMap<u64, VecDeque<RowId>> = HashMap::new();
        let texts =
            self.text_hashes.iter().filter(|(_, row)| self.table.row(*row).kind == Kind::User);
        let mut texts = texts.peekable();
        for (row, queued) in &self.queue {
            while let Some((hash, prompt)) = texts.next_if(|(_, prompt)| prompt < row) {
                if let Some(prompts) = prompts.get_mut(hash) {
                    prompts.push_back(*prompt);
                }
            }
            match queued {
                Queued::Put(hash) => {
                    waiting.push_back((*row, *hash));
                    prompts.entry(*hash).or_default();
                }
                Queued::Take => {
                    left.extend(waiting.pop_front().map(|(row, hash)| (row, hash, false)));
                }
                // The oldest one that has no user record yet.
                Queued::Remove(None) => {
                    while let Some((put, hash)) = waiting.pop_front() {
                        let prompts = prompts.entry(hash).or_default();
                        while prompts.front().is_some_and(|prompt| *prompt < put) {
                            prompts.pop_front();
                        }
                        let Some(prompt) = prompts.pop_front() else {
                            left.push((put, hash, true));
                            break;
                        };
                        taken.insert(prompt);
                    }
                }
                Queued::Remove(hash) => {
                    let named =
                        waiting.iter().position(|(_, waiting_hash)| Some(*waiting_hash) == *hash);
                    let gone = waiting.remove(named.unwrap_or(0));
                    left.extend(gone.map(|(row, hash)| (row, hash, true)));
                }
                Queued::Clear => waiting.clear(),
            }
        }
        left.sort_unstable();
        QueueFates { left, taken, waiting: waiting.into_iter().map(|(row, _)| row).collect() }
    }

    pub(super) fn finish(mut self) -> Table {
        // In a sub-agent's own file nothing is a sidechain.
        let mut steps = self.table.rows.iter().filter(|row| row.uuid.is_some()).peekable();
        self.table.is_agent = steps.peek().is_some() && steps.all(|row| row.is_sidechain);
        if self.table.is_agent {
            self.table.rows.iter_mut().for_each(|row| row.is_sidechain = false);
        }
        // A prompt that left the queue and was said later has a record of its own. Each record
        // counts once.
        let QueueFates { left, taken, waiting } = self.fates();
        self.table.waiting = waiting;
        let mut places: HashMap<u64, VecDeque<RowId>> =
            left.iter().map(|(_, hash, _)| (*hash, VecDeque::new())).collect();
        for (hash, row) in self.text_hashes.iter().filter(|(_, row)| !taken.contains(row)) {
            if let Some(rows) = places.get_mut(hash) {
                rows.push_back(*row);
            }
        }
        for (row, hash, removed) in left {
            let later = places.get_mut(&hash).and_then(|rows| {
                while rows.front().is_some_and(|place| *place < row) {
                    rows.pop_front();
                }
                rows.pop_front()
            });
            if removed && later.is_none() {
                self.table.unsaid.push(row);
            }
        }
        self.table
    }

    /// Records which sub-agent a result names.
    fn started(&mut self, entry: &Entry<'_>, input: Option<Input>, row: RowId) {
        if input == Some(Input::Notification) {
            let text = entry.message().and_then(Message::first_text);
            return self.notified(&text.unwrap_or_default(), row);
        }
        let result = entry.get("toolUseResult").filter(|json| json.shape() == Shape::Object);
        let Some(result) = result.filter(names_agent).and_then(Json::object) else { return };
        let named = result.get("agentId").or_else(|| result.get("agent_id"));
        let Some(agent) = self.name(named) else { return };
        let mut blocks = entry.message().into_iter().flat_map(|message| message.blocks());
        let block = blocks.find(|block| block.kind() == BlockKind::ToolResult);
        let call = self.name(block.and_then(|block| block.get("tool_use_id")));
        let by = if result.flag("isAsync") { StartedBy::Launch } else { StartedBy::Result };
        self.table.started.push(Started { row, agent, call, by });
    }

    fn progress(&mut self, entry: &Entry<'_>, row: RowId) {
        let data = entry.get("data").filter(names_agent).and_then(Json::object);
        let Some(data) =
            data.filter(|data| data.get("type").is_some_and(|json| json.is("agent_progress")))
        else {
            return;
        };
        let Some(agent) = self.name(data.get("agentId")) else { return };
        // Each step of an agent has one.
        if self.seen.insert(agent) {
            let call = self.name(entry.get("parentToolUseID"));
            self.table.started.push(Started { row, agent, call, by: StartedBy::Progress });
        }
    }

    fn notified(&mut self, text: &str, row: RowId) {
        let tag = |name: &str| {
            let from = text.split_once(&format!("<{name}>"))?.1;
            Some(from.split_once("</")?.0.trim())
        };
        let Some(agent) = tag("task-id").and_then(|id| self.table.ids.keep(id)) else { return };
        let call = tag("tool-use-id").and_then(|id| self.table.ids.keep(id));
        self.table.started.push(Started { row, agent, call, by: StartedBy::Notification });
    }

    fn system(&mut self, entry: &Entry<'_>, row: RowId) {
        match entry.text("subtype").as_deref() {
            Some("turn_duration") => {
                let taken = entry.get("durationMs").and_then(Json::float);
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a duration"
                )]
                self.table.durations.extend(taken.map(|taken| (row, taken.max(0.0) as u64)));
            }
            Some("compact_boundary") => {
                let metadata = entry.get("compactMetadata").and_then(Json::object);
                let get = |name: &str| metadata.as_ref().and_then(|metadata| metadata.get(name));
                let number = |name: &str| {
                    get(name).and_then(Json::integer).and_then(|number| u64::try_from(number).ok())
                };
                let tokens = [number("preTokens"), number("postTokens")];
                let is_auto = get("trigger").is_some_and(|trigger| trigger.is("auto"));
                let messages = get("preservedMessages").and_then(|json| self.kept_messages(json));
                let segment = get("preservedSegment").and_then(|json| self.kept_segment(json));
                let logical_parent = self.name(entry.get("logicalParentUuid"));
                let boundary = Boundary { row, logical_parent, is_auto, tokens, messages, segment };
                self.table.boundaries.push(boundary);
            }
            _ => {}
        }
    }

    fn kept_messages(&mut self, json: Json<'_>) -> Option<KeptMessages> {
        let uuids =
            json.get("uuids")?.elements().filter_map(|uuid| self.name(Some(uuid))).collect();
        Some(KeptMessages { anchor: self.name(json.get("anchorUuid")), uuids })
    }

    fn kept_segment(&mut self, json: Json<'_>) -> Option<KeptSegment> {
        let (head, tail) = (self.name(json.get("headUuid"))?, self.name(json.get("tailUuid"))?);
        Some(KeptSegment { anchor: self.name(json.get("anchorUuid")), head, tail })
    }
}

/// A hash, stable within this process only (seeded at random). Never store it.
pub(crate) fn digest<T: Hash + ?Sized>(value: &T) -> u64 {
    static STATE: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);
    STATE.hash_one(value)
}
