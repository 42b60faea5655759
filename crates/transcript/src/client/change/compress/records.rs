//! The records of a compaction that we make: a boundary, its summary, a title, and, if needed, the
//! record that says where the conversation continues.
//!
//! The form is the one that clients of all versions write. Each record has a mark of ours, which
//! clients pass over, so that exactly these lines can be taken out again.

use std::fmt::Write as _;

use crate::conversation::table::digest;
use crate::format::entry::Entry;
use crate::format::json::{Json, quote};
use crate::format::time::Time;

/// The member that marks a record as one of a compaction of ours: the id of its boundary.
pub(in crate::client::change) const MARK: &str = "quipuCompaction";
/// The member of `compactMetadata` that marks a boundary of ours.
pub(in crate::client::change) const MARK_OF_BOUNDARY: &str = "quipu";

/// The members that all records of a session share, as JSON.
#[derive(Clone, Debug, Default)]
pub(super) struct Envelope(String);

/// Their names, in the order in which clients write them.
const SHARED: [&str; 7] =
    ["userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch", "slug"];

impl Envelope {
    /// The members of a record of the session.
    pub(super) fn of(entry: &Entry<'_>) -> Envelope {
        let mut out = String::new();
        for name in SHARED {
            if let Some(value) = entry.get(name).and_then(Json::text) {
                let _ = write!(out, r#","{name}":{}"#, quote(&value));
            }
        }
        Envelope(out)
    }
}

/// A compaction that is to be written.
pub(super) struct Compaction<'a> {
    pub(super) envelope: &'a Envelope,
    /// When the summary was made. The boundary is a moment older: of two records with the same
    /// time, older clients continue from the first.
    pub(super) time: Option<Time>,
    /// The id of the last record that is summed up.
    pub(super) after: &'a str,
    /// The parent of the first record that stays, as it is written there, unless that is `after`.
    pub(super) parent: Option<&'a str>,
    /// The id of the first record that stays.
    pub(super) first: Option<&'a str>,
    pub(super) text: &'a str,
    pub(super) title: &'a str,
    /// The id of the last record that stays; the summary if none does.
    pub(super) leaf: Option<&'a str>,
    /// How many tokens were sent before, and are after it.
    pub(super) tokens: [u64; 2],
}

/// The lines of a compaction.
pub(super) struct CompactionLines {
    pub(super) summary: String,
    /// The boundary, the summary, the title.
    pub(super) lines: Vec<Vec<u8>>,
    /// Names the leaf.
    pub(super) last_prompt: Vec<u8>,
}

impl Compaction<'_> {
    pub(super) fn lines(&self) -> CompactionLines {
        let boundary = self.id("boundary");
        let summary = self.id("summary");
        let envelope = &self.envelope.0;
        let stamp = |time: Time| format!(r#","timestamp":"{time}""#);
        let time = self.time.map(stamp).unwrap_or_default();
        let earlier = self.time.map(|time| Time(time.0.saturating_sub(1)));
        let earlier = earlier.map(stamp).unwrap_or_default();
        let [before, behind] = self.tokens;
        let mut ours = String::from(r#"{"v":1"#);
        if let Some(first) = self.first {
            let _ = write!(ours, r#","first":{}"#, quote(first));
        }
        if let Some(parent) = self.parent {
            let _ = write!(ours, r#","parent":{}"#, quote(parent));
        }
        ours.push('}');
        let lines = [
            format!(
                r#"{{"parentUuid":null,"logicalParentUuid":{},"isSidechain":false{envelope},"type":"system","subtype":"compact_boundary","content":"Conversation compacted","isMeta":false{earlier},"uuid":"{boundary}","level":"info","compactMetadata":{{"trigger":"manual","preTokens":{before},"postTokens":{behind},"{MARK_OF_BOUNDARY}":{ours}}}}}"#,
                quote(self.after),
            ),
            format!(
                r#"{{"parentUuid":"{boundary}","isSidechain":false{envelope},"type":"user","message":{{"role":"user","content":{}}},"isVisibleInTranscriptOnly":true,"isCompactSummary":true,"uuid":"{summary}"{time},"{MARK}":"{boundary}"}}"#,
                quote(self.text),
            ),
            format!(
                r#"{{"type":"summary","summary":{},"leafUuid":{},"{MARK}":"{boundary}"}}"#,
                quote(self.title),
                quote(self.leaf.unwrap_or(&summary)),
            ),
        ];
        let last_prompt = format!(
            r#"{{"type":"last-prompt","leafUuid":{}{},"{MARK}":"{boundary}"}}"#,
            quote(self.leaf.unwrap_or(&summary)),
            session(envelope),
        );
        CompactionLines {
            summary,
            lines: lines.into_iter().map(String::into_bytes).collect(),
            last_prompt: last_prompt.into_bytes(),
        }
    }

    /// An id that the same compaction always gets.
    fn id(&self, of: &str) -> String {
        let half = |salt: &str| digest(&[of, salt, self.after, self.text]);
        let [high, low] = ["high", "low"].map(half);
        let variant = low >> 48 & 0x3fff | 0x8000;
        format!(
            "{:08x}-{:04x}-4{:03x}-{variant:04x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low & 0xffff_ffff_ffff
        )
    }
}

/// The session's id from the members that all records share.
fn session(envelope: &str) -> String {
    let object = format!("{{{}}}", envelope.trim_start_matches(','));
    let id = Json::parse(object.as_bytes())
        .and_then(|json| Some(json.get("sessionId")?.text()?.into_owned()));
    id.map_or(String::new(), |id| format!(r#","sessionId":{}"#, quote(&id)))
}
