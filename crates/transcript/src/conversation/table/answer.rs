//! One answer of the model: all records with one `message.id`, and its usage.
//!
//! Clients write an answer as one record for each block, or as growing copies, with other records
//! in between. The id joins them, over the whole file. Invariant: one usage for each answer,
//! however often it was written.

use super::{Id, Ids, RowId};
use crate::conversation::usage::Usage;
use crate::format::content::Message;
use crate::format::json::{Json, Object};

/// The number of an answer in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AnswerId(pub u32);

/// One answer of the model.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its `message.id`; `None` in dialects that have none.
    pub id: Option<Id>,
    /// The model; `<synthetic>` if the client wrote the answer itself.
    pub model: Option<Id>,
    /// The id of the request that it answers.
    pub request: Option<Id>,
    /// The stop reason, from the last record that has one.
    pub stop: Option<Id>,
    /// Whether it represents an error of the API.
    pub is_error: bool,
    /// Its first record.
    pub first: RowId,
    /// How many records it has.
    pub rows: u32,
    /// The tokens that it took; `None` if no record has a usage.
    pub usage: Option<ReportedUsage>,
}

impl Answer {
    pub(crate) fn new(id: Option<Id>, first: RowId) -> Self {
        Answer {
            id,
            model: None,
            request: None,
            stop: None,
            is_error: false,
            first,
            rows: 0,
            usage: None,
        }
    }

    /// Whether its usage is complete. If not, the output is only a lower bound: the client recorded
    /// what was known when the stream began.
    pub fn is_final(&self) -> bool {
        self.stop.is_some()
    }

    /// Adds what a later part of the file has of the same answer.
    pub(super) fn append(&mut self, behind: Answer) {
        self.rows += behind.rows;
        self.model = self.model.or(behind.model);
        self.request = self.request.or(behind.request);
        self.stop = behind.stop.or(self.stop);
        self.is_error |= behind.is_error;
        if behind.id.is_some() || self.id.is_none() {
            self.take(behind.usage);
        }
    }

    /// What counts of what it took: nothing if the client wrote it itself, or if it has no id, so
    /// that copies of it could not be told apart.
    pub fn counted(&self, ids: &Ids) -> Option<&ReportedUsage> {
        let is_synthetic = self.model.is_some_and(|model| ids.text(model) == "<synthetic>");
        self.usage.as_ref().filter(|_| self.id.is_some() && !is_synthetic)
    }

    /// Adds one more record.
    pub(crate) fn join(&mut self, message: &Message<'_>, ids: &mut Ids) {
        self.rows += 1;
        let mut name = |name: &str| {
            let text = message.text(name).filter(|text| !text.is_empty())?;
            ids.keep(&text)
        };
        self.model = self.model.or(name("model"));
        self.stop = name("stop_reason").or(self.stop);
        if let Some(object) = message.get("usage").and_then(Json::object) {
            self.take(Some(ReportedUsage::read(&object, ids)));
        }
    }

    /// Of several usages, the one with the most output is the latest.
    fn take(&mut self, usage: Option<ReportedUsage>) {
        let Some(usage) = usage else { return };
        if self.usage.as_ref().is_none_or(|known| usage.usage.output >= known.usage.output) {
            self.usage = Some(usage);
        }
    }
}

/// What an answer took, as the API reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedUsage {
    /// The counts. Tokens that were written to the cache count as cached for five minutes unless
    /// the API says for how long.
    pub usage: Usage,
    /// Output tokens that were thinking, if the API reports them.
    pub thinking: Option<u64>,
    /// Tokens cached for five minutes and for one hour, if the API reports them.
    pub cache_split: Option<[u64; 2]>,
    /// The service tier.
    pub tier: Option<Id>,
    /// The speed.
    pub speed: Option<Id>,
    /// The region where the model ran.
    pub geo: Option<Id>,
}

impl ReportedUsage {
    fn read(object: &Object<'_>, ids: &mut Ids) -> Self {
        let inner =
            |outer: &str, name: &str| object.get(outer).and_then(|o| o.get(name)?.integer());
        let mut name = |name: &str| {
            let text = object.text(name).filter(|text| !text.is_empty())?;
            ids.keep(&text)
        };
        let thinking = inner("output_tokens_details", "thinking_tokens");
        let number = |name| inner("cache_creation", name).map(|n| u64::try_from(n).unwrap_or(0));
        let short = number("ephemeral_5m_input_tokens");
        let long = number("ephemeral_1h_input_tokens");
        let split = [short.unwrap_or(0), long.unwrap_or(0)];
        ReportedUsage {
            usage: Usage::of_api(object),
            thinking: thinking.and_then(|number| u64::try_from(number).ok()),
            cache_split: short.or(long).map(|_| split),
            tier: name("service_tier"),
            speed: name("speed"),
            geo: name("inference_geo"),
        }
    }
}
