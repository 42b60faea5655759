//! `quipu history`: what the model would be sent.

use std::io::Write;

use serde::Serialize;
use transcript::conversation::Conversation;
use transcript::history::{self, History, Message, Note, Refusal};
use transcript::table::{BlockId, Id, RowId};

use super::JSON_VERSION;
use crate::failure::Failure;
use crate::out::{BOLD, DIM, harmless, open_object};
use crate::page::{Lead, Page, Span};
use crate::text::{count, grouped, one_line};
use crate::version;
use crate::world::World;

/// Show the messages that Claude Code would send if it resumed the session now
///
/// Rebuilt by the rules of a client version, as they were observed. What was dropped, joined, bridged or made up is told in notes. A session that
/// the client refuses, or on which it hangs, ends with exit code 12. Long texts are cut, and that is said; `--json` has them whole and as they are.
/// Secrets are not hidden.
#[derive(clap::Args, Debug)]
pub(crate) struct HistoryArgs {
    /// The session
    session: String,
    /// The client version whose rules count; `seed`: the plain rule of the documents that the project began with
    #[arg(long = "as", value_name = "VERSION", default_value = "2.1.325")]
    version: String,
    /// The prompt to go on with, with whatever the client writes before it
    #[arg(long, value_name = "PROMPT")]
    then: Option<String>,
    /// As one JSON object: `messages` as the API wants them, and `notes`
    #[arg(long)]
    json: bool,
}

pub(crate) fn history(world: &mut World, args: &HistoryArgs) -> Result<(), Failure> {
    let session = world.session(&args.session)?;
    let unreadable = |error| Failure::unreadable(&session.path, error);
    let then = args.then.as_deref();
    let (conversation, messages, notes, leaf) = if args.version == "seed" {
        let conversation = Conversation::open(&session.path).map_err(unreadable)?;
        let messages = history::seed(&conversation, then).map_err(unreadable)?;
        (conversation, messages, Vec::new(), None)
    } else {
        let rules = version::rules(&args.version, "a version like 2.1.325, or `seed`")?;
        let conversation = history::open(&session.path, rules).map_err(unreadable)?;
        match history::history(&conversation, rules, then).map_err(unreadable)? {
            Ok(History { messages, notes, leaf, .. }) => (conversation, messages, notes, leaf),
            Err(refusal) => {
                return Err(Failure::refused(&why(&conversation, refusal), &rules.name()));
            }
        }
    };
    let notes: Vec<String> = notes.iter().map(|note| sentence(&conversation, note)).collect();
    if args.json {
        let head = Head {
            v: JSON_VERSION,
            r#as: &args.version,
            leaf: leaf.and_then(|row| conversation.table.text(conversation.table.row(row).uuid)),
            leaf_line: leaf.map(|row| conversation.line(row)).transpose().map_err(unreadable)?,
            notes: &notes,
        };
        json(world, &head, &messages)
    } else {
        read(world, &messages, &notes)
    }
}

/// The number of a record's line; its byte, if not all lines were read.
fn place(conversation: &Conversation, row: RowId) -> String {
    let row = conversation.table.row(row);
    if conversation.table.start == 0 {
        format!("line {}", row.line)
    } else {
        format!("byte {}", row.offset)
    }
}

/// Why a client does not go on.
fn why(conversation: &Conversation, refusal: Refusal) -> String {
    let line = |row| place(conversation, row);
    match refusal {
        Refusal::Nothing => "there is no conversation in it".to_owned(),
        Refusal::NoEnd => "nothing in it is an end to go on from".to_owned(),
        Refusal::NoTime(row) => format!("the record at {} has no valid time", line(row)),
        Refusal::Input(row) => {
            format!(
                "it ends on a call at {}, whose input has a type that it does not expect",
                line(row)
            )
        }
        Refusal::Loop(row) => {
            format!("it follows a loop of parents without end ({})", line(row))
        }
    }
}

/// A note in a sentence.
fn sentence(conversation: &Conversation, note: &Note) -> String {
    let line = |row: &RowId| place(conversation, *row);
    let of = |block: &Option<BlockId>| {
        block.map_or_else(String::new, |block| {
            place(conversation, conversation.table.part(block).row)
        })
    };
    let number = |number: &usize, noun: &str| count(*number as u64, noun);
    let name = |id: &Option<Id>| conversation.table.text(*id).unwrap_or("without an id").to_owned();
    match note {
        Note::Missing { row, bridged: Some(to) } => {
            format!("{}: its parent is missing; it is hung on {}", line(row), line(to))
        }
        Note::Missing { row, bridged: None } => {
            format!("{}: its parent is missing; what was said before it is not sent", line(row))
        }
        Note::Compacted { boundary } => {
            format!("{}: compacted; what stands before it is not sent", line(boundary))
        }
        Note::Kept { boundary, records } => {
            format!(
                "{}: the compaction keeps {} word for word",
                line(boundary),
                number(records, "record")
            )
        }
        Note::Recovered { answer, records } => {
            format!(
                "{}: {} of its answer brought back from beside the chain",
                line(answer),
                number(records, "record")
            )
        }
        Note::OpenCall { row } => {
            format!("{}: a call without a result is not sent", line(row))
        }
        Note::ClosedCalls { count: calls, .. } => {
            format!("{} at the end answered as interrupted", number(calls, "call"))
        }
        Note::Empty { row } => {
            format!("{}: an answer of nothing but thinking or blanks is not sent", line(row))
        }
        Note::Filled => "a filler stands before the prompt".to_owned(),
        Note::ForeignThinking { id } => {
            format!("answer {}: thinking of another model is not sent", name(id))
        }
        Note::ThinkingOnly { id } => format!("answer {}: nothing but thinking, not sent", name(id)),
        Note::OrphanResult { block } => {
            format!("{}: a result without a call in the message before is not sent", of(block))
        }
        Note::SuffixedResult { block } => {
            format!(
                "{}: a result is not sent, as its call's id is another's with a number",
                of(block)
            )
        }
        Note::RepeatedResult { block } => {
            format!("{}: a second result of a call is not sent", of(block))
        }
        Note::RepeatedCall { block } => {
            format!("{}: a call whose id was used before is not sent", of(block))
        }
        Note::MadeResults { count: results } => format!("{} made up", number(results, "result")),
    }
}

#[derive(Serialize)]
struct Head<'a> {
    v: u32,
    r#as: &'a str,
    leaf: Option<&'a str>,
    leaf_line: Option<u64>,
    notes: &'a [String],
}

fn json(world: &mut World, head: &Head<'_>, messages: &[Message]) -> Result<(), Failure> {
    let out = &mut world.out;
    open_object(out, head)?;
    out.write_all(b",\"messages\":[")?;
    for (number, message) in messages.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        write!(out, "{comma}{{\"role\":\"{}\",\"content\":[", message.role.name())?;
        for (number, block) in message.blocks.iter().enumerate() {
            out.write_all(if number > 0 { b"," } else { b"" })?;
            harmless(out, &String::from_utf8_lossy(block.raw()))?;
        }
        out.write_all(b"]}")?;
    }
    Ok(out.write_all(b"]}\n")?)
}

/// The first characters of a text on one line; if there are more, how many.
fn start_of(text: &str, most: usize) -> (String, Option<String>) {
    let Some((cut, _)) = text.char_indices().nth(most) else { return (one_line(text), None) };
    let more = grouped(text[cut..].chars().count() as u64);
    (one_line(&text[..cut]), Some(format!("… ({more} more characters; `--json` has all)")))
}

/// For people: who says what, and what was done to get there.
fn read(world: &mut World, messages: &[Message], notes: &[String]) -> Result<(), Failure> {
    let page = &mut Page::new(&mut world.out);
    for (number, message) in (1..).zip(messages) {
        page.line(&[Span::new(BOLD, format!("{number} {}", message.role.name()))])?;
        for block in &message.blocks {
            let text = String::from_utf8_lossy(block.raw()).into_owned();
            let (text, more) = start_of(&text, page.width * 3);
            let more = more.map(|more| Span::new(DIM, more));
            let spans: Vec<Span> = [Span::plain(text)].into_iter().chain(more).collect();
            page.paragraph(&Lead::spaces(2), &spans)?;
        }
    }
    for note in notes {
        page.paragraph(&Lead::hanging(Span::new(DIM, "note: ")), &[Span::new(DIM, note.clone())])?;
    }
    Ok(())
}
