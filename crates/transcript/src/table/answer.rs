//! One answer of the model: all records with one `message.id`, and what it took.
//!
//! Clients write an answer as a record a block, or as growing copies, with other records between. The id joins
//! them, over the whole file. Invariant: one usage for each answer, however often it was written.

use super::{Id, Ids, RowId};
use crate::content::Message;
use crate::json::{Json, Object};

/// The number of an answer in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AnswerId(pub u32);

/// One answer of the model.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its `message.id`; nothing in dialects without.
    pub id: Option<Id>,
    /// The model; `<synthetic>` for what the client says in its place.
    pub model: Option<Id>,
    /// The request that it answers.
    pub request: Option<Id>,
    /// Why it ended, from the last record that says so.
    pub stop: Option<Id>,
    /// Whether it stands for an error of the API.
    pub is_error: bool,
    /// Its first record.
    pub first: RowId,
    /// How many records it has.
    pub rows: u32,
    /// What it took; nothing if no record says.
    pub usage: Option<Usage>,
}

impl Answer {
    pub(super) fn new(id: Option<Id>, first: RowId) -> Self {
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

    /// Whether its usage is all of it. If not, the output is only a lower bound: clients wrote down what was known when the
    /// stream began.
    pub fn is_final(&self) -> bool {
        self.stop.is_some()
    }

    /// Takes in what is known of the same answer from a part of the file behind.
    pub(super) fn append(&mut self, behind: Answer) {
        self.rows += behind.rows;
        self.model = self.model.or(behind.model);
        self.request = self.request.or(behind.request);
        self.stop = behind.stop.or(self.stop);
        self.is_error |= behind.is_error;
        self.take(behind.usage);
    }

    /// Takes one more record in.
    pub(super) fn join(&mut self, message: &Message<'_>, ids: &mut Ids) {
        self.rows += 1;
        let mut name = |name: &str| {
            let text = message.text(name).filter(|text| !text.is_empty())?;
            ids.keep(&text)
        };
        self.model = self.model.or(name("model"));
        self.stop = name("stop_reason").or(self.stop);
        if let Some(object) = message.get("usage").and_then(Json::object) {
            self.take(Some(Usage::read(&object, ids)));
        }
    }

    /// Of several usages the one with the most output is the last.
    fn take(&mut self, usage: Option<Usage>) {
        let Some(usage) = usage else { return };
        if self.usage.as_ref().is_none_or(|known| usage.output >= known.output) {
            self.usage = Some(usage);
        }
    }
}

/// What an answer took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens that no cache had.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Output tokens that were thinking, where the API says so.
    pub thinking: Option<u64>,
    /// Input tokens from the cache.
    pub cache_read: u64,
    /// Input tokens that went into the cache, for any time.
    pub cache_write: u64,
    /// Of these, for five minutes and for one hour, where the API says so.
    pub cache_split: Option<[u64; 2]>,
    /// Web searches and fetches that the API did.
    pub server_tools: [u64; 2],
    /// The service tier.
    pub tier: Option<Id>,
    /// The speed.
    pub speed: Option<Id>,
    /// Where the model ran.
    pub geo: Option<Id>,
}

impl Usage {
    fn read(object: &Object<'_>, ids: &mut Ids) -> Self {
        let number = |json: Option<Json<'_>>| {
            json.and_then(Json::integer).and_then(|number| u64::try_from(number).ok())
        };
        let count = |name: &str| number(object.get(name)).unwrap_or(0);
        let inner = |outer: &str, name: &str| number(object.get(outer).and_then(|o| o.get(name)));
        let mut name = |name: &str| {
            let text = object.text(name).filter(|text| !text.is_empty())?;
            ids.keep(&text)
        };
        let short = inner("cache_creation", "ephemeral_5m_input_tokens");
        let long = inner("cache_creation", "ephemeral_1h_input_tokens");
        let split = [short.unwrap_or(0), long.unwrap_or(0)];
        Usage {
            input: count("input_tokens"),
            output: count("output_tokens"),
            thinking: inner("output_tokens_details", "thinking_tokens"),
            cache_read: count("cache_read_input_tokens"),
            cache_write: count("cache_creation_input_tokens").max(split[0] + split[1]),
            cache_split: short.or(long).map(|_| split),
            server_tools: ["web_search_requests", "web_fetch_requests"]
                .map(|name| inner("server_tool_use", name).unwrap_or(0)),
            tier: name("service_tier"),
            speed: name("speed"),
            geo: name("inference_geo"),
        }
    }
}
