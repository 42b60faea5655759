//! `quipu history`: the messages that the model would be sent.

use std::io::Write;

use serde::Serialize;
use transcript::client::history::{self, Limit, Message, NEWEST_NAME, Note};
use transcript::conversation::Conversation;
use transcript::conversation::table::{BlockId, Id, RowId};

use crate::failure::Failure;
use crate::out::JSON_VERSION;
use crate::out::{BOLD, DIM, harmless, open_object};
use crate::page::{Lead, Page, Span, styled, unstyled};
use crate::refusal::{place, why};
use crate::select;
use crate::text::{count, grouped, one_line};
use crate::version::{self, Asked};
use crate::world::World;

/// Show the messages that Claude Code would send if it resumed the session now
///
/// Rebuilds them by the observed rules of a client version. Notes report what was dropped, joined,
/// bridged or made up. If the client refuses the session, or hangs on it, the exit code is 12. Long
/// texts are cut and marked; `--json` prints them whole and unchanged. Secrets are not redacted.
#[derive(clap::Args, Debug)]
pub(crate) struct HistoryArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    /// The client version whose rules apply, or `installed`; `file-order`: every message in the
    /// order of the file, for comparison
    #[arg(long = "as", value_name = "VERSION", default_value = NEWEST_NAME)]
    version: String,
    /// The prompt to continue with; includes whatever the client writes before it
    #[arg(long, value_name = "PROMPT")]
    then: Option<String>,
    /// Print one JSON object: `messages` as the API expects them, and `notes`
    #[arg(long)]
    json: bool,
}

/// Instead of a version: no rules, for comparison.
const FILE_ORDER: &str = "file-order";

pub(crate) fn history(world: &mut World, args: &HistoryArgs) -> Result<(), Failure> {
    let session = select::session(world, &args.session)?;
    let then = args.then.as_deref();
    let mut asked = None;
    let mut limit = None;
    let (conversation, messages, notes, leaf) = if args.version == FILE_ORDER {
        let conversation = Conversation::open(&session.path)?;
        let messages = history::in_file_order(&conversation, then)?;
        (conversation, messages, Vec::new(), None)
    } else {
        let others = "`installed`, or `file-order`";
        let Asked { rules, .. } = *asked.insert(version::asked(world, &args.version, others)?);
        let conversation = history::open(&session.path, rules)?;
        match history::history(&conversation, rules, then)? {
            Ok(found) => {
                limit = found.limit;
                (conversation, found.messages, found.notes, found.leaf)
            }
            Err(refusal) => {
                return Err(Failure::refused(&why(&conversation, refusal), &rules.name()));
            }
        }
    };
    let notes = notes.iter().map(|note| sentence(&conversation, note));
    let notes: Vec<String> = notes.chain(limit.as_ref().and_then(Limit::warning)).collect();
    if args.json {
        let head = Head {
            v: JSON_VERSION,
            r#as: asked.as_ref().map_or(FILE_ORDER, |asked| &asked.version),
            rules: asked.as_ref().map(|asked| asked.rules.name()),
            observed: asked.as_ref().map(|asked| asked.is_observed),
            compacts: limit.as_ref().is_some_and(Limit::is_reached),
            context: limit.as_ref(),
            leaf: leaf.and_then(|row| conversation.table.text(conversation.table.row(row).uuid)),
            leaf_line: leaf.map(|row| conversation.line(row)).transpose()?,
            notes: &notes,
        };
        json(world, &head, &messages)
    } else {
        read(world, &messages, &notes)
    }
}

/// A note as a sentence.
fn sentence(conversation: &Conversation, note: &Note) -> String {
    let line = |row: &RowId| place(conversation, *row);
    let of = |block: &Option<BlockId>| {
        block.map_or_else(String::new, |block| {
            place(conversation, conversation.table.block(block).row)
        })
    };
    let number = |number: &usize, noun: &str| count(*number as u64, noun);
    let name = |id: &Option<Id>| conversation.table.text(*id).unwrap_or("without an id").to_owned();
    match note {
        Note::Missing { row, bridged: Some(to) } => {
            format!("{}: its parent is missing; {} is its parent instead", line(row), line(to))
        }
        Note::Missing { row, bridged: None } => {
            format!("{}: its parent is missing; earlier messages are not sent", line(row))
        }
        Note::Compacted { boundary } => {
            format!("{}: compacted; earlier messages are not sent", line(boundary))
        }
        Note::Kept { boundary, records } => {
            format!(
                "{}: the compaction keeps {} unchanged",
                line(boundary),
                number(records, "record")
            )
        }
        Note::Recovered { answer, records } => {
            format!(
                "{}: {} of its answer recovered from a side branch",
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
            format!("{}: an answer with only thinking or blanks is not sent", line(row))
        }
        Note::Filled => "a filler message precedes the prompt".to_owned(),
        Note::ForeignThinking { id } => {
            format!("answer {}: thinking of another model is not sent", name(id))
        }
        Note::ThinkingOnly { id } => format!("answer {}: only thinking, not sent", name(id)),
        Note::OrphanResult { block } => {
            format!("{}: a result without a call in the previous message is not sent", of(block))
        }
        Note::SuffixedResult { block } => {
            format!(
                "{}: a result is not sent, because its call's id is another id with a number added",
                of(block)
            )
        }
        Note::RepeatedResult { block } => {
            format!("{}: a second result of a call is not sent", of(block))
        }
        Note::RepeatedCall { block } => {
            format!("{}: a call whose id was used before is not sent", of(block))
        }
        Note::Created { kind, count } => {
            format!("texts are created for {} of type {kind}", number(count, "attachment"))
        }
        Note::MadeResults { count: results } => format!("{} made up", number(results, "result")),
    }
}

#[derive(Serialize)]
struct Head<'a> {
    v: u32,
    r#as: &'a str,
    rules: Option<String>,
    observed: Option<bool>,
    compacts: bool,
    context: Option<&'a Limit>,
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
    (one_line(&text[..cut]), Some(format!("… ({more} more characters; `--json` prints all)")))
}

/// Prints the messages for people, then the notes.
fn read(world: &mut World, messages: &[Message], notes: &[String]) -> Result<(), Failure> {
    let page = &mut Page::new(&mut world.out);
    for (number, message) in (1..).zip(messages) {
        page.line(&[styled(BOLD, format!("{number} {}", message.role.name()))])?;
        for block in &message.blocks {
            let text = String::from_utf8_lossy(block.raw()).into_owned();
            let (text, more) = start_of(&text, page.width * 3);
            let more = more.map(|more| styled(DIM, more));
            let spans: Vec<Span> = [unstyled(text)].into_iter().chain(more).collect();
            page.paragraph(&Lead::spaces(2), &spans)?;
        }
    }
    for note in notes {
        page.paragraph(&Lead::hanging(styled(DIM, "note: ")), &[styled(DIM, note.clone())])?;
    }
    Ok(())
}
