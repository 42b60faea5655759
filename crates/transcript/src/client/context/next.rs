//! What the next request costs: which part of it the API still has in its cache.
//!
//! The API keeps the beginning of each request for five minutes or an hour, and reads it again if
//! the next request of the same model begins with the same bytes: tools, system prompt, messages.
//! The beginning that was last sent is what the last call read. Invariants: what is cached and what
//! is new add up to what is sent; nothing is called cached that differs from what was last sent.

use super::{Basis, Context, PartKind, calls::RecordedCall};
use crate::conversation::Conversation;
use crate::conversation::table::{RowId, Table};
use crate::conversation::usage::Usage;
use crate::format::time::Time;
use crate::names::named;

named! {
    /// How long the API keeps the beginning of a request after its last use.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Lifetime {
        /// Five minutes.
        FiveMinutes = "5m",
        /// An hour.
        Hour = "1h",
    }
}

impl Lifetime {
    /// In milliseconds.
    pub fn millis(self) -> i64 {
        match self {
            Lifetime::FiveMinutes => 5 * 60 * 1_000,
            Lifetime::Hour => 60 * 60 * 1_000,
        }
    }

    /// Whether what was used then is no longer in the cache.
    pub(super) fn is_over(self, used: Time, now: Time) -> bool {
        now.0.saturating_sub(used.0) > self.millis()
    }

    /// The lifetime that a call asked for: the longer one if it wrote anything for that long.
    pub(super) fn of(usage: &Usage) -> Option<Lifetime> {
        match (usage.cache_1h, usage.cache_5m) {
            (0, 0) => None,
            (0, _) => Some(Lifetime::FiveMinutes),
            _ => Some(Lifetime::Hour),
        }
    }
}

named! {
    /// Why a request differs from what was last sent.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Reason {
        /// It does not: what follows the last request is new.
        Continues = "continues",
        /// No call is recorded.
        NoCall = "no_call",
        /// The cache of what was last sent has expired.
        Expired = "expired",
        /// Another client version has another system prompt and other tools.
        ClientVersion = "client_version",
        /// Another model continues.
        OtherModel = "other_model",
        /// The conversation was compacted.
        Compaction = "compaction",
        /// The conversation was rewound.
        Rewind = "rewind",
        /// The file was changed.
        Edit = "edit",
    }
}

/// The first block that differs from what was last sent.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// The number of its message, from 1; 0 for the system prompt.
    pub message: usize,
    /// The line of its record; `None` if it has none, or if it is the next prompt.
    pub line: Option<u64>,
    /// What it is; `None` for the next prompt.
    pub kind: Option<PartKind>,
    /// Why it differs.
    pub reason: Reason,
}

/// The next request, without the prompt that nobody knows yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextRequest {
    /// The model that continues.
    pub model: String,
    /// How many tokens are sent.
    pub tokens: u64,
    /// How many of them the API has in its cache unless that has expired.
    pub prefix: u64,
    /// How long it keeps them.
    pub lifetime: Lifetime,
    /// When they were last used; `None` if no call is recorded, or has a time.
    pub used: Option<Time>,
    /// The client version that made the last call.
    pub version: Option<String>,
    /// What differs from what was last sent.
    pub difference: Difference,
    /// The numbers are estimates.
    pub is_estimate: bool,
}

impl NextRequest {
    /// Until when the cache can be used.
    pub fn expires(&self) -> Option<Time> {
        self.used.map(|used| Time(used.0.saturating_add(self.lifetime.millis())))
    }

    /// Whether the cache has expired. If nobody knows when it was used, it has.
    pub fn is_expired(&self, now: Time) -> bool {
        self.used.is_none_or(|used| self.lifetime.is_over(used, now))
    }

    /// What the request takes: tokens that are read from the cache, and tokens that are written to
    /// it.
    pub fn usage(&self, now: Time) -> Usage {
        let cached = if self.is_expired(now) { 0 } else { self.prefix.min(self.tokens) };
        let new = self.tokens - cached;
        let usage = Usage { cache_read: cached, ..Usage::default() };
        match self.lifetime {
            Lifetime::FiveMinutes => Usage { cache_5m: new, ..usage },
            Lifetime::Hour => Usage { cache_1h: new, ..usage },
        }
    }

    /// Why tokens are sent anew.
    pub fn reason(&self, now: Time) -> Reason {
        match self.difference.reason {
            _ if self.prefix > 0 && self.is_expired(now) => Reason::Expired,
            reason => reason,
        }
    }

    /// The same request if that client version makes it. Another version than the one that made the
    /// last call has another system prompt and other tools, so nothing is cached. `None` is the
    /// version that made the last call.
    #[must_use]
    pub fn continued_by(self, version: Option<&str>) -> NextRequest {
        let is_other = self.version.as_deref().zip(version).is_some_and(|(by, now)| by != now);
        if !is_other {
            return self;
        }
        let reason = Reason::ClientVersion;
        let kind = Some(PartKind::System);
        let difference = Difference { message: 0, line: None, kind, reason };
        NextRequest { prefix: 0, difference, ..self }
    }

    /// The same request after a change that keeps so many tokens at the beginning, and differs from
    /// there on.
    pub(crate) fn after(&self, tokens: u64, prefix: u64, difference: Difference) -> NextRequest {
        let is_later = prefix >= self.prefix;
        NextRequest {
            tokens,
            prefix: prefix.min(self.prefix).min(tokens),
            difference: if is_later { self.difference.clone() } else { difference },
            is_estimate: true,
            ..self.clone()
        }
    }
}

impl Context {
    /// What the next request is, compared with what was last sent. `version` is the client that
    /// continues, if it is known.
    pub fn next(
        &self,
        conversation: &Conversation,
        version: Option<&str>,
    ) -> crate::Result<NextRequest> {
        let table = &conversation.table;
        let latest = latest(table);
        let live = self.calls.last();
        let Some(last) = latest.as_ref() else {
            return Ok(self.request(0, None, None, self.first(0, Reason::NoCall, table)));
        };
        let by = conversation
            .look(last.row, |entry| entry.version().map(std::borrow::Cow::into_owned))?;
        let model = live.map_or(last.model, |call| call.model);
        let is_live = live.is_some_and(|call| call.answer == last.answer);
        let system = self.parts[0].tokens;
        let is_other_model = table.ids.text(model) != self.model;
        let (prefix, difference) = match live {
            _ if is_other_model => (0, self.first(0, Reason::OtherModel, table)),
            // Only the calls before the compaction are recorded.
            None if self.boundary.is_some() => (system, self.first(1, Reason::Compaction, table)),
            None => (system, self.first(1, Reason::Rewind, table)),
            Some(_) if self.basis == Basis::Changed => {
                let at = self.changed_at();
                (self.before(at), self.first(at, Reason::Edit, table))
            }
            Some(call) => {
                let at = self.read.last().copied().unwrap_or(0);
                let reason = if is_live { Reason::Continues } else { Reason::Rewind };
                let kept = left_in_cache(self.before(at), &call.usage);
                (kept, self.first(at, reason, table))
            }
        };
        // A call on another branch uses what it has in common with this one.
        let used = match live.filter(|_| !is_live) {
            Some(call) if !is_above(conversation, call.row, last.row) => call.time,
            _ => last.time,
        };
        let lifetimes = self.calls.iter().rev().chain([last]).map(|call| &call.usage);
        let lifetime = lifetimes.into_iter().find_map(Lifetime::of);
        let request = self.request(prefix, used, lifetime, difference);
        Ok(NextRequest { version: by, ..request }.continued_by(version))
    }

    fn request(
        &self,
        prefix: u64,
        used: Option<Time>,
        lifetime: Option<Lifetime>,
        difference: Difference,
    ) -> NextRequest {
        NextRequest {
            model: self.model.clone(),
            tokens: self.tokens,
            prefix,
            lifetime: lifetime.unwrap_or(Lifetime::FiveMinutes),
            used,
            version: None,
            difference,
            is_estimate: self.is_estimated(),
        }
    }

    /// The tokens of the parts before that one.
    fn before(&self, at: usize) -> u64 {
        self.parts[..at].iter().map(|part| part.tokens).sum()
    }

    /// The part at that place, as what differs.
    fn first(&self, at: usize, reason: Reason, table: &Table) -> Difference {
        let part = self.parts.get(at);
        let messages = self.parts.last().map_or(0, |part| part.message as usize + 1);
        Difference {
            message: match part {
                Some(part) if part.kind == PartKind::System => 0,
                Some(part) => part.message as usize + 1,
                None => messages + 1,
            },
            line: part.and_then(|part| part.row).map(|row| table.row(row).line),
            kind: part.map(|part| part.kind),
            reason,
        }
    }

    /// The first part that was changed after it was sent, as far as recorded sums show: the first
    /// one after a call whose sum is far from what is in the file.
    fn changed_at(&self) -> usize {
        let mut counted = 0;
        let mut from = 0;
        for (call, upto) in self.calls.iter().zip(&self.read) {
            counted += self.parts[from..*upto].iter().map(|part| part.tokens).sum::<u64>();
            let read = call.usage.read();
            if counted.abs_diff(read) > read / 10 + 500 {
                return from.max(1);
            }
            from = *upto;
        }
        1
    }
}

/// How much of what a call read is in the cache afterwards: all but the end of the request, which
/// was not written to it.
pub(super) fn left_in_cache(read: u64, usage: &Usage) -> u64 {
    read.saturating_sub(usage.input)
}

/// The last call in the file that is not one of a sub-agent.
pub(super) fn latest(table: &Table) -> Option<RecordedCall> {
    let ids = table.numbered().rev().filter(|(_, row)| !row.is_sidechain);
    let mut answers = ids.filter_map(|(_, row)| row.answer);
    answers.find_map(|answer| RecordedCall::of(table, answer, table.answer(answer).first, 0))
}

/// Whether a record is on the way to another one.
fn is_above(conversation: &Conversation, above: RowId, below: RowId) -> bool {
    let chain = |row: RowId| conversation.graph.chain_of(row);
    conversation.graph.is_above(chain(above), chain(below))
}
