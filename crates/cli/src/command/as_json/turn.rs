//! One turn as JSON, step by step.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::value::RawValue;
use transcript::conversation::Conversation;
use transcript::diff::Touched;
use transcript::entry::Entry;
use transcript::event::event;
use transcript::family::{Family, Owner};
use transcript::input::Input;
use transcript::json::Json;
use transcript::table::{AnswerId, BlockId, RowId, Usage};
use transcript::turn::{Call, Piece, Step, Turn, What};

use super::{Place, TokensOf, stamp, text};
use crate::command::JSON_VERSION;
use crate::failure::Failure;
use crate::out::{open_object, write_json};

#[derive(Serialize)]
struct TurnHead<'a> {
    v: u32,
    r#type: &'static str,
    turn: usize,
    agent: Option<&'a str>,
    live: bool,
    chain: Option<u32>,
    input: Option<&'static str>,
    round: &'static str,
    outcome: &'static str,
    complete: bool,
    lines: [u64; 2],
    start: Option<String>,
    end: Option<String>,
    duration_ms: Option<i64>,
    measured_ms: Option<u64>,
    models: Vec<String>,
    tokens: TokensOf,
}

/// Writes one turn.
pub(in crate::command) fn turn(
    family: &Family,
    turn: &Turn,
    place: Place<'_>,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let conversation = family.of(place.owner);
    let line = |row: RowId| conversation.table.row(row).line;
    let head = TurnHead {
        v: JSON_VERSION,
        r#type: "turn",
        turn: place.number,
        agent: place.agent.map(|agent| agent.id.as_str()),
        live: place.chain.is_none(),
        chain: place.chain.map(|chain| chain.0),
        input: turn.input.map(Input::name),
        round: turn.round.name(),
        outcome: turn.outcome.name(),
        complete: turn.outcome.is_complete(),
        lines: turn.rows.map(line),
        start: turn.times.and_then(|[start, _]| stamp(start)),
        end: turn.times.and_then(|[_, end]| stamp(end)),
        duration_ms: turn.times.map(|[start, end]| end.0.saturating_sub(start.0)),
        measured_ms: turn.measured,
        models: turn
            .models(&conversation.table)
            .into_iter()
            .map(|id| conversation.table.ids.text(id).to_owned())
            .collect(),
        tokens: turn.tokens(&conversation.table).into(),
    };
    open_object(out, &head)?;
    out.write_all(b",\"steps\":[")?;
    for (at, step) in turn.steps.iter().enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        let unreadable = |error| Failure::unreadable(&conversation.path, error);
        match step {
            Step::Said(row) => write(out, &message(conversation, *row).map_err(unreadable)?)?,
            Step::Answer { id, blocks, counts } => {
                answer(family, place.owner, (*id, *counts), blocks, out)?;
            }
            Step::Orphan(block) => {
                let (pieces, structured) = conversation.result(*block).map_err(unreadable)?;
                let part = conversation.table.part(*block);
                write(
                    out,
                    &OrphanOf {
                        r#type: "orphan",
                        id: text(conversation, part.id),
                        line: line(part.row),
                        error: part.is_error,
                        content: pieces.iter().map(piece).collect(),
                        structured: structured.as_deref().map(raw),
                    },
                )?;
            }
            Step::Event(row) => {
                let kind = |entry: &Entry<'_>| entry.type_name().unwrap_or_default().into_owned();
                let (seen, kind) = conversation
                    .look(*row, |entry| (event(entry), kind(entry)))
                    .map_err(unreadable)?;
                write(
                    out,
                    &EventOf {
                        r#type: "event",
                        kind,
                        line: line(*row),
                        time: conversation.table.row(*row).time.and_then(stamp),
                        text: seen.text,
                        matters: seen.matters,
                    },
                )?;
            }
        }
    }
    Ok(out.write_all(b"]}")?)
}

fn write(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    Ok(write_json(out, value)?)
}

#[derive(Serialize)]
struct SaidOf {
    r#type: &'static str,
    input: Option<&'static str>,
    line: u64,
    uuid: Option<String>,
    time: Option<String>,
    content: Vec<PieceOf>,
}

fn message(conversation: &Conversation, row: RowId) -> io::Result<SaidOf> {
    let pieces = conversation.pieces_of(row)?;
    let known = conversation.table.row(row);
    Ok(SaidOf {
        r#type: "message",
        input: known.input.map_or(Some("queued"), |input| Some(input.name())),
        line: known.line,
        uuid: text(conversation, known.uuid),
        time: known.time.and_then(stamp),
        content: pieces.iter().map(piece).collect(),
    })
}

#[derive(Serialize)]
struct OrphanOf {
    r#type: &'static str,
    id: Option<String>,
    line: u64,
    error: bool,
    content: Vec<PieceOf>,
    structured: Option<Raw>,
}

#[derive(Serialize)]
struct EventOf {
    r#type: &'static str,
    kind: String,
    line: u64,
    time: Option<String>,
    text: String,
    matters: bool,
}

#[derive(Serialize)]
struct AnswerHead {
    r#type: &'static str,
    id: Option<String>,
    model: Option<String>,
    request: Option<String>,
    stop_reason: Option<String>,
    error: bool,
    /// Nothing if it was counted in another turn.
    usage: Option<UsageOf>,
}

#[derive(Serialize)]
struct UsageOf {
    input: u64,
    output: u64,
    r#final: bool,
    thinking: Option<u64>,
    cache_read: u64,
    cache_write: u64,
    cache_write_5m: Option<u64>,
    cache_write_1h: Option<u64>,
    web_searches: u64,
    web_fetches: u64,
    service_tier: Option<String>,
    speed: Option<String>,
    inference_geo: Option<String>,
}

fn usage(conversation: &Conversation, usage: &Usage, is_final: bool) -> UsageOf {
    UsageOf {
        input: usage.input,
        output: usage.output,
        r#final: is_final,
        thinking: usage.thinking,
        cache_read: usage.cache_read,
        cache_write: usage.cache_write,
        cache_write_5m: usage.cache_split.map(|split| split[0]),
        cache_write_1h: usage.cache_split.map(|split| split[1]),
        web_searches: usage.server_tools[0],
        web_fetches: usage.server_tools[1],
        service_tier: text(conversation, usage.tier),
        speed: text(conversation, usage.speed),
        inference_geo: text(conversation, usage.geo),
    }
}

fn answer(
    family: &Family,
    owner: Owner,
    (id, counts): (AnswerId, bool),
    blocks: &[BlockId],
    out: &mut impl Write,
) -> Result<(), Failure> {
    let conversation = family.of(owner);
    let known = conversation.table.answer(id);
    let counted = known.usage.as_ref().filter(|_| counts);
    let head = AnswerHead {
        r#type: "answer",
        id: text(conversation, known.id),
        model: text(conversation, known.model),
        request: text(conversation, known.request),
        stop_reason: text(conversation, known.stop),
        error: known.is_error,
        usage: counted.map(|counted| usage(conversation, counted, known.is_final())),
    };
    open_object(out, &head)?;
    out.write_all(b",\"blocks\":[")?;
    let unreadable = |error| Failure::unreadable(&conversation.path, error);
    for (at, block) in blocks.iter().enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        let part = conversation.table.part(*block);
        if part.kind.is_call() {
            let read = conversation.call(*block).map_err(unreadable)?;
            write(out, &call(family, owner, *block, &read))?;
        } else {
            let read = conversation.pieces(&[*block]).map_err(unreadable)?;
            let found = read.iter().map(piece).next();
            write(out, &BlockOf { line: conversation.table.row(part.row).line, piece: found })?;
        }
    }
    Ok(out.write_all(b"]}")?)
}

#[derive(Serialize)]
struct BlockOf {
    line: u64,
    #[serde(flatten)]
    piece: Option<PieceOf>,
}

/// A block, by what it is.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum PieceOf {
    Text {
        text: String,
        #[serde(skip_serializing_if = "is_false")]
        cut: bool,
    },
    Thinking {
        text: String,
        #[serde(skip_serializing_if = "is_false")]
        cut: bool,
    },
    RedactedThinking,
    Media {
        kind: String,
        media_type: String,
        size: usize,
    },
    Other {
        kind: String,
        json: Raw,
    },
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde wants")]
fn is_false(value: &bool) -> bool {
    !value
}

fn piece(piece: &Piece) -> PieceOf {
    let cut = piece.is_cut;
    match piece.what.clone() {
        What::Text(text) => PieceOf::Text { text, cut },
        What::Thinking(text) => PieceOf::Thinking { text, cut },
        What::Redacted => PieceOf::RedactedThinking,
        What::Media(kind, media_type, size) => PieceOf::Media { kind, media_type, size },
        What::Call(kind, json) | What::Other(kind, json) => {
            PieceOf::Other { kind, json: raw(&json) }
        }
    }
}

#[derive(Serialize)]
struct CallOf {
    line: u64,
    r#type: &'static str,
    id: Option<String>,
    tool: String,
    about: String,
    input: Raw,
    #[serde(skip_serializing_if = "is_false")]
    cut: bool,
    result: Option<ResultOf>,
    file: Option<FileOf>,
    agents: Vec<String>,
}

#[derive(Serialize)]
struct ResultOf {
    line: u64,
    uuid: Option<String>,
    error: bool,
    duration_ms: Option<i64>,
    outcome: Option<String>,
    content: Vec<PieceOf>,
    structured: Option<Raw>,
    #[serde(skip_serializing_if = "is_false")]
    cut: bool,
}

#[derive(Serialize)]
struct FileOf {
    path: String,
    action: &'static str,
    added: usize,
    removed: usize,
    diff: Vec<HunkOf>,
}

#[derive(Serialize)]
struct HunkOf {
    start: Option<[u64; 2]>,
    lines: Vec<String>,
}

fn call(family: &Family, owner: Owner, block: BlockId, read: &Call) -> CallOf {
    let conversation = family.of(owner);
    let part = conversation.table.part(block);
    let result = read.result.as_ref().map(|result| {
        let row = conversation.table.row(conversation.table.part(result.block).row);
        ResultOf {
            line: row.line,
            uuid: text(conversation, row.uuid),
            error: result.is_error,
            duration_ms: result.duration,
            outcome: result.outcome.clone(),
            content: result.pieces.iter().map(piece).collect(),
            structured: result.structured.as_deref().map(raw),
            cut: row.is_long(),
        }
    });
    CallOf {
        line: conversation.table.row(part.row).line,
        r#type: "call",
        id: text(conversation, part.id),
        tool: read.tool.clone(),
        about: read.about.clone(),
        input: raw(&read.input),
        cut: conversation.table.row(part.row).is_long(),
        result,
        file: read.touched.as_ref().map(file),
        agents: family
            .started(owner, block)
            .iter()
            .map(|at| family.agents[*at].id.clone())
            .collect(),
    }
}

fn file(touched: &Touched) -> FileOf {
    let [added, removed] = touched.counts();
    let hunks = touched.hunks.iter().map(|hunk| HunkOf {
        start: hunk.start,
        lines: hunk.lines.iter().map(|(sign, line)| format!("{sign}{line}")).collect(),
    });
    let path = touched.path.clone();
    FileOf { path, action: touched.action.name(), added, removed, diff: hunks.collect() }
}

/// JSON as it stands in the file.
#[derive(Serialize)]
#[serde(untagged)]
enum Raw {
    Json(Box<RawValue>),
    /// What another parser does not take goes as text.
    Text(String),
}

fn raw(bytes: &[u8]) -> Raw {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let whole = Json::parse(text.as_bytes()).is_some();
    match RawValue::from_string(text.clone()) {
        Ok(json) if whole => Raw::Json(json),
        _ => Raw::Text(text),
    }
}
