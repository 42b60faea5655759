//! Encodes spans as OTLP, and collects them in batches that are not too large.
//!
//! Invariant: a batch has at most [`MOST_SPANS`] spans and [`MOST_BYTES`] bytes, unless one span
//! alone has more. A batch contains what is done when it has arrived ([`Update`]), so that the
//! process that delivers it, now or in a week, knows what to record.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Wire;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as Sent, Status};
use prost::Message as _;
use transcript::format::time::Time;

use crate::profile::{Told, Value};
use crate::receipts::Update;
use crate::span::Span;

/// The most spans in a batch.
pub const MOST_SPANS: usize = 512;
/// The most bytes in a batch, before compression.
pub const MOST_BYTES: usize = 4 << 20;

/// The name of the service: not the client's own, or dashboards would count twice.
const SERVICE: &str = "claude-code-transcripts";
const SCOPE: &str = "quipu";

/// Spans that are sent in one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The spans, each with the version of the client that wrote it.
    pub(crate) spans: Vec<(String, Sent)>,
    /// What is done when the spans have arrived.
    pub(crate) updates: Vec<Update>,
    bytes: usize,
}

impl Batch {
    /// Whether it contains neither spans nor updates.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty() && self.updates.is_empty()
    }

    /// How many spans it contains.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether it has no room for this span.
    pub fn is_full_for(&self, span: &Sent) -> bool {
        let more = span.encoded_len();
        !self.spans.is_empty() && (self.spans.len() >= MOST_SPANS || self.bytes + more > MOST_BYTES)
    }

    /// Adds a span.
    pub fn push(&mut self, version: &str, span: Sent) {
        self.bytes += span.encoded_len();
        self.spans.push((version.to_owned(), span));
    }

    /// Adds what is done when everything so far has arrived.
    pub fn note(&mut self, update: Update) {
        self.updates.push(update);
    }

    /// Splits off and returns the second half; None if there are fewer than two spans.
    pub(crate) fn halve(&mut self) -> Option<Batch> {
        if self.spans.len() < 2 {
            return None;
        }
        let mut rest = Batch::default();
        for (version, span) in self.spans.split_off(self.spans.len() / 2) {
            self.bytes -= span.encoded_len();
            rest.push(&version, span);
        }
        Some(rest)
    }

    /// Appends another batch.
    pub(crate) fn join(&mut self, other: Batch) {
        self.spans.extend(other.spans);
        self.updates.extend(other.updates);
        self.bytes += other.bytes;
    }

    /// The request as it is sent.
    pub(crate) fn encode(&self, project: &str) -> Vec<u8> {
        request(&self.spans, project).encode_to_vec()
    }

    /// The batch of a request that was stored.
    pub(crate) fn decode(bytes: &[u8], updates: Vec<Update>) -> Result<Batch, prost::DecodeError> {
        let request = ExportTraceServiceRequest::decode(bytes)?;
        let mut batch = Batch { updates, ..Batch::default() };
        for group in request.resource_spans {
            let attributes = group.resource.map(|resource| resource.attributes).unwrap_or_default();
            let version = attributes.into_iter().find(|pair| pair.key == "service.version");
            let version = match version.and_then(|pair| pair.value?.value) {
                Some(Wire::StringValue(text)) => text,
                _ => String::new(),
            };
            for span in group.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                batch.push(&version, span);
            }
        }
        Ok(batch)
    }
}

/// A request with these spans.
pub(crate) fn request(spans: &[(String, Sent)], project: &str) -> ExportTraceServiceRequest {
    let mut groups: BTreeMap<&str, Vec<Sent>> = BTreeMap::new();
    for (version, span) in spans {
        groups.entry(version).or_default().push(span.clone());
    }
    let scope = InstrumentationScope {
        name: SCOPE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let groups = groups.into_iter().map(|(version, spans)| {
        let mut attributes = vec![
            text("service.name", SERVICE.to_owned()),
            text("openinference.project.name", project.to_owned()),
        ];
        if !version.is_empty() {
            attributes.push(text("service.version", version.to_owned()));
        }
        ResourceSpans {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_spans: vec![ScopeSpans {
                scope: Some(scope.clone()),
                spans,
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }
    });
    ExportTraceServiceRequest { resource_spans: groups.collect() }
}

/// Compresses fast rather than well: a person is waiting.
pub(crate) fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    packer.write_all(bytes)?;
    packer.finish()
}

/// A span in OTLP form.
pub fn span(span: &Span, told_span: Told) -> Sent {
    let error = told_span.error.map(|message| Status { message, code: StatusCode::Error.into() });
    let kind = if told_span.is_client { SpanKind::Client } else { SpanKind::Internal };
    let attributes = told_span.attributes.into_iter().map(|(key, value)| attribute(&key, value));
    let events = told_span.events.into_iter().map(|(time, name)| Event {
        time_unix_nano: nanos(time),
        name,
        ..Event::default()
    });
    Sent {
        trace_id: span.turn.trace.0.to_vec(),
        span_id: span.id.0.to_vec(),
        parent_span_id: span.parent.map(|id| id.0.to_vec()).unwrap_or_default(),
        name: told_span.name,
        kind: kind.into(),
        // A time before 1970 counts as missing.
        start_time_unix_nano: nanos(if told_span.times[0].0 < 0 {
            told_span.times[1]
        } else {
            told_span.times[0]
        }),
        end_time_unix_nano: nanos(told_span.times[1].max(told_span.times[0])),
        attributes: attributes.collect(),
        events: events.collect(),
        status: error,
        ..Sent::default()
    }
}

fn nanos(time: Time) -> u64 {
    u64::try_from(time.0).unwrap_or(0).saturating_mul(1_000_000)
}

fn text(key: &str, value: String) -> KeyValue {
    attribute(key, Value::Text(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    let any = |value: Wire| AnyValue { value: Some(value) };
    let value = match value {
        Value::Text(text) => Wire::StringValue(text),
        Value::Texts(texts) => {
            let values = texts.into_iter().map(|text| any(Wire::StringValue(text))).collect();
            Wire::ArrayValue(ArrayValue { values })
        }
        Value::Number(number) => Wire::IntValue(number),
        Value::Float(number) => Wire::DoubleValue(number),
    };
    KeyValue { key: key.to_owned(), value: Some(any(value)), ..KeyValue::default() }
}

/// Halves the longest text of a span, with a mark. Returns false if no long text is left.
pub(crate) fn shrink(span: &mut Sent) -> bool {
    let texts = span.attributes.iter_mut().filter_map(|pair| {
        match pair.value.as_mut()?.value.as_mut()? {
            Wire::StringValue(text) => Some(text),
            _ => None,
        }
    });
    let Some(longest) = texts.max_by_key(|text| text.len()).filter(|text| text.len() > 512) else {
        return false;
    };
    if let Some(short) = crate::profile::cut(longest, longest.len() / 2) {
        *longest = short;
    }
    true
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
