//! The steps of a turn, one after the other.

use serde::Serialize;

use super::piece::texts;
use super::session::usage;
use super::{Call, Detail, Piece, Raw, Show, Thinking, UsageView, stamp, text};
use crate::conversation::Conversation;
use crate::conversation::agents::{Owner, WithAgents};
use crate::conversation::event::event;
use crate::conversation::table::{AnswerId, BlockId, Boundary, RowId};
use crate::conversation::turn::{Step, Turn};
use crate::format::entry::Entry;
use crate::format::input::{Input, typed};

/// One item of a turn.
#[derive(Clone, Debug)]
pub enum Item {
    /// A message to the model.
    Message(MessageView),
    /// An answer of the model; its blocks and calls follow as items.
    Answer(Answer),
    /// A block of the answer that is not a call.
    Block(BlockView),
    /// A call of the answer.
    Call(Box<Call>),
    /// A result whose call is not in the file.
    Orphan(Orphan),
    /// Something that the client noted.
    Event(EventView),
}

/// A message to the model: a prompt, or what takes its place.
#[derive(Clone, Debug, Serialize)]
pub struct MessageView {
    r#type: &'static str,
    input: &'static str,
    /// The number of its line in the file.
    pub line: u64,
    /// The id of its record.
    pub uuid: Option<String>,
    /// When it was sent.
    pub time: Option<String>,
    /// What was typed, without what the client or an editor adds; for other
    /// [roles](MessageView::role), the summary, or the output of a command with its colours.
    pub text: String,
    /// All blocks of the message.
    pub content: Vec<Piece>,
    /// Who speaks.
    #[serde(skip)]
    pub role: Role,
}

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A person.
    Prompt,
    /// The same, while the model was working.
    Queued,
    /// The client, about a task in the background.
    Notification,
    /// Another session or agent.
    Peer,
    /// The output of a command.
    Output,
    /// The summary of a compaction.
    Summary,
    /// A hook.
    Hook,
    /// The client: reminders, caveats.
    Reminder,
    /// A person who interrupted the model.
    Interrupt,
}

/// An answer of the model, without its blocks.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    r#type: &'static str,
    /// The id of the message.
    pub id: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The id of the request.
    pub request: Option<String>,
    /// The stop reason.
    pub stop_reason: Option<String>,
    /// Whether it is an error of the API.
    pub error: bool,
    /// The tokens that it took; `None` if they are counted in another turn.
    pub usage: Option<UsageView>,
}

/// A block of an answer.
#[derive(Clone, Debug, Serialize)]
pub struct BlockView {
    /// The number of its line in the file.
    pub line: u64,
    /// Its contents; `None` if the block is of no known form.
    #[serde(flatten)]
    pub piece: Option<Piece>,
    /// Whether the answer is an error of the API.
    #[serde(skip)]
    pub is_error: bool,
    /// Whether the client wrote the answer, and not the model, in order to keep the order of
    /// messages.
    #[serde(skip)]
    pub is_filler: bool,
}

/// A result whose call is not in the file.
#[derive(Clone, Debug, Serialize)]
pub struct Orphan {
    r#type: &'static str,
    /// The id of the call.
    pub id: Option<String>,
    /// The number of its line in the file.
    pub line: u64,
    /// Whether it is an error.
    pub error: bool,
    /// The result as the model got it.
    pub content: Vec<Piece>,
    /// The client's own result.
    pub structured: Option<Raw>,
}

/// Something that the client noted beside the conversation.
#[derive(Clone, Debug, Serialize)]
pub struct EventView {
    r#type: &'static str,
    /// The type of the record.
    pub kind: String,
    /// The number of its line in the file.
    pub line: u64,
    /// When it was noted.
    pub time: Option<String>,
    /// The note in one line.
    pub text: String,
    /// Whether it matters to a reader of the conversation.
    pub matters: bool,
    /// The compaction, if the record is the boundary of one.
    #[serde(skip)]
    pub compaction: Option<Boundary>,
}

/// The items of a turn, in order. `owner` is who the turn belongs to.
pub fn items<'a>(
    session: &'a WithAgents,
    owner: Owner,
    turn: &'a Turn,
) -> impl Iterator<Item = crate::Result<Item>> + 'a {
    turn.steps.iter().flat_map(move |step| {
        let (head, blocks): (_, &[BlockId]) = match step {
            Step::Answer { blocks, .. } => (self::head(session.of(owner), step), blocks),
            step => (self::head(session.of(owner), step), &[]),
        };
        let answer = match step {
            Step::Answer { id, .. } => Some(*id),
            _ => None,
        };
        let rest = blocks.iter().map(move |id| block(session, owner, answer, *id));
        std::iter::once(head).chain(rest)
    })
}

/// A step, or the beginning of an answer.
fn head(conversation: &Conversation, step: &Step) -> crate::Result<Item> {
    let table = &conversation.table;
    Ok(match step {
        Step::Said(row) => Item::Message(MessageView::read(conversation, *row)?),
        Step::Answer { id, counts, .. } => {
            let answer = table.answer(*id);
            let counted = answer.usage.as_ref().filter(|_| *counts);
            Item::Answer(Answer {
                r#type: "answer",
                id: text(conversation, answer.id),
                model: text(conversation, answer.model),
                request: text(conversation, answer.request),
                stop_reason: text(conversation, answer.stop),
                error: answer.is_error,
                usage: counted.map(|counted| usage(conversation, counted, answer)),
            })
        }
        Step::Orphan(block) => {
            let (content, structured) = conversation.result(*block)?;
            let row = table.block(*block);
            Item::Orphan(Orphan {
                r#type: "orphan",
                id: text(conversation, row.id),
                line: table.row(row.row).line,
                error: row.is_error,
                content,
                structured: structured.map(Raw::new),
            })
        }
        Step::Event(row) => {
            let kind = |entry: &Entry<'_>| entry.type_name().unwrap_or_default().into_owned();
            let (noted, kind) = conversation.look(*row, |entry| (event(entry), kind(entry)))?;
            Item::Event(EventView {
                r#type: "event",
                kind,
                line: table.row(*row).line,
                time: table.row(*row).time.and_then(stamp),
                text: noted.text,
                matters: noted.matters,
                compaction: table.boundary(*row).cloned(),
            })
        }
    })
}

fn block(
    session: &WithAgents,
    owner: Owner,
    answer: Option<AnswerId>,
    id: BlockId,
) -> crate::Result<Item> {
    let conversation = session.of(owner);
    let table = &conversation.table;
    if table.block(id).kind.is_call() {
        return Ok(Item::Call(Box::new(Call::read(session, owner, id)?)));
    }
    Ok(Item::Block(BlockView {
        line: table.row(table.block(id).row).line,
        piece: conversation.piece(id)?,
        is_error: answer.is_some_and(|answer| table.answer(answer).is_error),
        is_filler: answer.is_some_and(|answer| table.is_filler(answer)),
    }))
}

impl Item {
    /// Whether it is shown at that level of detail. By default, reminders, thinking and what says
    /// nothing are not.
    pub fn is_shown(&self, show: Show) -> bool {
        let is_full = show.detail == Detail::Full;
        match self {
            Item::Message(message) => match message.role {
                Role::Reminder => is_full && !message.is_empty(),
                Role::Output | Role::Summary | Role::Hook => !message.is_empty(),
                Role::Prompt | Role::Queued | Role::Notification | Role::Peer | Role::Interrupt => {
                    true
                }
            },
            Item::Answer(_) => false,
            Item::Block(BlockView { is_filler: true, .. }) if !is_full => false,
            Item::Block(block) => match &block.piece {
                None => false,
                Some(Piece::Text { text, .. }) => !text.trim().is_empty(),
                Some(Piece::Thinking { text, .. }) => {
                    show.thinking == Thinking::Shown && !text.trim().is_empty()
                }
                Some(Piece::RedactedThinking) => show.thinking == Thinking::Shown,
                Some(Piece::Media { .. } | Piece::Other { .. }) => true,
            },
            Item::Call(_) | Item::Orphan(_) => true,
            Item::Event(event) => is_full || event.matters || event.compaction.is_some(),
        }
    }
}

impl MessageView {
    fn read(conversation: &Conversation, row: RowId) -> crate::Result<MessageView> {
        let pieces = conversation.pieces_of(row)?.into_iter();
        let content: Vec<Piece> = pieces.map(|(_, piece)| piece).collect();
        let known = conversation.table.row(row);
        Ok(MessageView {
            r#type: "message",
            input: known.input.map_or("queued", Input::name),
            line: known.line,
            uuid: text(conversation, known.uuid),
            time: known.time.and_then(stamp),
            text: typed(content.iter().filter_map(Piece::text).map(Into::into)).unwrap_or_default(),
            content,
            role: match known.input {
                Some(Input::Output) => Role::Output,
                Some(Input::Summary) => Role::Summary,
                Some(Input::Hook) => Role::Hook,
                Some(Input::Meta | Input::Preface) => Role::Reminder,
                Some(Input::Interrupt) => Role::Interrupt,
                Some(Input::Notification) => Role::Notification,
                Some(Input::Peer) => Role::Peer,
                Some(Input::Queued) | None => Role::Queued,
                Some(_) => Role::Prompt,
            },
        })
    }

    /// Whether it has neither text nor anything else to show.
    fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && !self.content.iter().any(|piece| piece.in_words().is_some())
    }

    /// What was not typed: images and documents in a few words, and what an editor added.
    pub fn additions(&self) -> impl Iterator<Item = String> {
        self.content.iter().filter_map(|piece| match piece {
            Piece::Text { text, .. } if text.starts_with("<ide_") => Some(text.clone()),
            piece => piece.in_words(),
        })
    }
}

impl Orphan {
    /// The result as the model got it, as text.
    pub fn text(&self) -> String {
        texts(&self.content)
    }
}

/// How much of a prompt is read for a headline. No terminal is wider.
const LONGEST: usize = 1_000;

/// What a turn is about: the words that opened it, or a description in parentheses.
pub fn headline(conversation: &Conversation, turn: &Turn) -> crate::Result<String> {
    let rows = turn.steps.iter().filter_map(|step| match step {
        Step::Said(row) => Some(*row),
        _ => None,
    });
    let opening = |input: Option<Input>| input == turn.input || input.is_none_or(Input::opens);
    let mut rows = rows.filter(|row| opening(conversation.table.row(*row).input));
    let Some(row) = rows.next() else { return Ok("(continues)".to_owned()) };
    if turn.input == Some(Input::Summary) {
        return Ok("(continues after a compaction)".to_owned());
    }
    let words: String = MessageView::read(conversation, row)?.text.chars().take(LONGEST).collect();
    Ok(if words.trim().is_empty() { "(no text)".to_owned() } else { words })
}
