//! The messages of the API that a file has, all in one value: a row for each of a hundred thousand
//! messages takes ten times as long to read.
//!
//! Invariants: the same messages in the same order give the same bytes, whether they were read in
//! one piece or in several; what was damaged gives an error, never a panic or other figures.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use transcript::conversation::usage::{MessageUsage, Usage};
use transcript::format::time::Time;

use super::Catalog;
use super::store::integer;
use super::varint::{pull, pull_text, push, push_text};

/// The messages of a file, as bytes: how many there are, the texts that they share, each with its
/// length, then the messages, and a hash of all that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MessageList(pub(super) Vec<u8>);

impl MessageList {
    pub(super) fn of(messages: &[MessageUsage]) -> MessageList {
        let mut texts = Texts::default();
        let mut body = Vec::with_capacity(messages.len() * 64);
        for message in messages {
            let usage = message.usage;
            push_text(&mut body, &message.id);
            let flags = [usage.at_least, message.is_sidechain, message.time.is_some()];
            push(&mut body, (0..).zip(flags).map(|(bit, flag)| u64::from(flag) << bit).sum());
            for text in
                [&message.model, &message.tier, &message.speed, &message.tool, &message.session]
            {
                push(&mut body, texts.number(text.as_ref()));
            }
            for number in [
                usage.input,
                usage.output,
                usage.cache_5m,
                usage.cache_1h,
                usage.cache_read,
                usage.searches,
                usage.fetches,
                u64::from(message.records),
                message.line,
                message.time.map_or(0, |time| time.0.cast_unsigned()),
            ] {
                push(&mut body, number);
            }
        }
        let mut bytes = Vec::with_capacity(body.len() + 256);
        push(&mut bytes, messages.len() as u64);
        push(&mut bytes, texts.list.len() as u64);
        for text in &texts.list {
            push_text(&mut bytes, text);
        }
        bytes.extend_from_slice(&body);
        MessageList::hashed(bytes)
    }

    /// With the hash, which lists of older versions lack.
    fn hashed(mut bytes: Vec<u8>) -> MessageList {
        bytes.extend_from_slice(&hash(&bytes));
        MessageList(bytes)
    }

    /// All messages; `None` if the bytes are damaged.
    pub(super) fn list(&self) -> Option<Vec<MessageUsage>> {
        if self.0.is_empty() {
            return Some(Vec::new());
        }
        let (mut bytes, known) = self.0.split_last_chunk()?;
        if *known != hash(bytes) {
            return None;
        }
        let bytes = &mut bytes;
        let count = usize::try_from(pull(bytes)?).ok()?;
        let mut texts: Vec<Arc<str>> = Vec::new();
        for _ in 0..pull(bytes)? {
            texts.push(pull_text(bytes)?.into());
        }
        // Each has more than sixteen bytes.
        let mut messages = Vec::with_capacity(count.min(bytes.len() / 16));
        while !bytes.is_empty() {
            let id = pull_text(bytes)?.to_owned();
            let flags = pull(bytes)?;
            let mut text = || -> Option<Option<Arc<str>>> {
                match pull(bytes)? {
                    0 => Some(None),
                    number => texts.get(usize::try_from(number - 1).ok()?).cloned().map(Some),
                }
            };
            let [model, tier, speed, tool, session] = [text()?, text()?, text()?, text()?, text()?];
            let mut number = || pull(bytes);
            messages.push(MessageUsage {
                id,
                model,
                usage: Usage {
                    input: number()?,
                    output: number()?,
                    cache_5m: number()?,
                    cache_1h: number()?,
                    cache_read: number()?,
                    searches: number()?,
                    fetches: number()?,
                    at_least: flags & 1 != 0,
                },
                tier,
                speed,
                tool,
                records: u32::try_from(number()?).ok()?,
                line: number()?,
                time: Some(Time(number()?.cast_signed())).filter(|_| flags & 4 != 0),
                session,
                is_sidechain: flags & 2 != 0,
            });
        }
        Some(messages).filter(|messages| messages.len() == count)
    }
}

/// A hash that shows damage: the database does not notice it in values, and a changed number would
/// be believed. Each step can be undone, so that a change of one word changes the result.
fn hash(bytes: &[u8]) -> [u8; 8] {
    let mut hash = bytes.len() as u64;
    for part in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        hash =
            (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    hash.to_le_bytes()
}

/// Adds the hashes that lists of older versions lack.
pub(super) fn add_hashes(db: &Connection) -> rusqlite::Result<()> {
    let mut statement = db.prepare("SELECT file, list FROM messages")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let lists: Vec<(i64, Vec<u8>)> = rows.collect::<rusqlite::Result<_>>()?;
    let mut write = db.prepare("UPDATE messages SET list = ?2 WHERE file = ?1")?;
    for (file, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        write.execute(params![file, MessageList::hashed(list).0])?;
    }
    Ok(())
}

/// Texts that several messages have, in the order of their first use.
#[derive(Default)]
struct Texts {
    list: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u64>,
}

impl Texts {
    /// The number of a text, from 1; 0 for none.
    fn number(&mut self, text: Option<&Arc<str>>) -> u64 {
        let Some(text) = text else { return 0 };
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.list.push(text.clone());
        let number = self.list.len() as u64;
        self.numbers.insert(text.clone(), number);
        number
    }
}

/// Adds messages to those of a file, by the rules of a session's table: each counts once, with the
/// figures of the record with the most output, the last one on a tie.
pub(super) fn add(db: &Connection, file: i64, new: &[MessageUsage]) -> rusqlite::Result<()> {
    if new.is_empty() {
        return Ok(());
    }
    let Some(known) = read(db, file)? else {
        db.prepare_cached("INSERT INTO messages (file, count, list) VALUES (?, ?, ?)")?
            .execute(params![file, integer(new.len() as u64), MessageList::of(new).0])?;
        return Ok(());
    };
    let mut all = known;
    let mut places: HashMap<String, usize> =
        all.iter().enumerate().map(|(at, message)| (message.id.clone(), at)).collect();
    for message in new {
        if let Some(at) = places.get(&message.id) {
            merge(&mut all[*at], message);
        } else {
            places.insert(message.id.clone(), all.len());
            all.push(message.clone());
        }
    }
    db.prepare_cached("UPDATE messages SET count = ?2, list = ?3 WHERE file = ?1")?
        .execute(params![file, integer(all.len() as u64), MessageList::of(&all).0])?;
    Ok(())
}

/// Joins two parts of a message, the earlier one first.
fn merge(known: &mut MessageUsage, later: &MessageUsage) {
    let at_least = known.usage.at_least && later.usage.at_least;
    if later.usage.output >= known.usage.output {
        known.usage = later.usage;
        known.tier.clone_from(&later.tier);
        known.speed.clone_from(&later.speed);
    }
    known.usage.at_least = at_least;
    known.model = known.model.take().or_else(|| later.model.clone());
    known.tool = known.tool.take().or_else(|| later.tool.clone());
    known.time = known.time.or(later.time);
    known.records += later.records;
}

/// The messages of a file; `None` if it has none.
fn read(db: &Connection, file: i64) -> rusqlite::Result<Option<Vec<MessageUsage>>> {
    let list = db
        .prepare_cached("SELECT list FROM messages WHERE file = ?")?
        .query_row([file], |row| row.get(0).map(MessageList))
        .optional()?;
    list.map(|list| list.list().ok_or_else(damaged)).transpose()
}

pub(super) fn damaged() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
    rusqlite::Error::SqliteFailure(code, Some("a list of messages is damaged".to_owned()))
}

impl Catalog {
    /// Passes on all messages: the number of their file, that of their turn if it was computed, and
    /// the message.
    pub(crate) fn each_message(
        &self,
        mut pass: impl FnMut(i64, Option<i64>, MessageUsage),
    ) -> rusqlite::Result<()> {
        let mut turns: HashMap<(i64, String), i64> = HashMap::new();
        let mut statement =
            self.connection.prepare_cached("SELECT file, id, turn FROM message_turn")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            turns.insert((row.get(0)?, row.get(1)?), row.get(2)?);
        }
        for (file, list) in self.message_lists()? {
            for message in list.list().ok_or_else(damaged)? {
                let turn = turns.get(&(file, message.id.clone())).copied();
                pass(file, turn, message);
            }
        }
        Ok(())
    }

    /// The messages of all files, by the numbers of the files.
    pub(super) fn message_lists(&self) -> rusqlite::Result<Vec<(i64, MessageList)>> {
        let mut statement = self.connection.prepare_cached("SELECT file, list FROM messages")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, MessageList(row.get(1)?))))?;
        rows.collect()
    }

    /// The messages of a file.
    pub(super) fn messages_of(&self, file: i64) -> rusqlite::Result<Vec<MessageUsage>> {
        Ok(read(&self.connection, file)?.unwrap_or_default())
    }
}

/// Brings over the messages of deleted files from the table that older versions had.
pub(super) fn move_rows(db: &Connection) -> rusqlite::Result<()> {
    let mut statement = db.prepare(
        "SELECT file, id, model, input, output, cache_5m, cache_1h, cache_read, searches, fetches, \
         is_final, tier, speed, tool, records, time, line, session, is_sidechain FROM message \
         WHERE file IN (SELECT number FROM file WHERE is_deleted) ORDER BY file, line",
    )?;
    let mut rows = statement.query([])?;
    let mut by_file: Vec<(i64, Vec<MessageUsage>)> = Vec::new();
    while let Some(row) = rows.next()? {
        let number = |at| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)?.cast_unsigned());
        let text = |at| Ok::<_, rusqlite::Error>(row.get::<_, Option<String>>(at)?.map(Into::into));
        let is_final: bool = row.get(10)?;
        let message = MessageUsage {
            id: row.get(1)?,
            model: text(2)?,
            usage: Usage {
                input: number(3)?,
                output: number(4)?,
                cache_5m: number(5)?,
                cache_1h: number(6)?,
                cache_read: number(7)?,
                searches: number(8)?,
                fetches: number(9)?,
                at_least: !is_final,
            },
            tier: text(11)?,
            speed: text(12)?,
            tool: text(13)?,
            records: row.get(14)?,
            time: row.get::<_, Option<i64>>(15)?.map(Time),
            line: number(16)?,
            session: text(17)?,
            is_sidechain: row.get(18)?,
        };
        let file: i64 = row.get(0)?;
        match by_file.last_mut() {
            Some((last, messages)) if *last == file => messages.push(message),
            _ => by_file.push((file, vec![message])),
        }
    }
    by_file.iter().try_for_each(|(file, list)| add(db, *file, list))
}

#[cfg(test)]
#[path = "messages_tests.rs"]
mod tests;
