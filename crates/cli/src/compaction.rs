//! A compaction in a few words.

use transcript::conversation::Conversation;
use transcript::conversation::table::Boundary;

use crate::text::{count, short_number};

/// Facts about a compaction: what triggered it, the tokens, what it keeps.
pub(crate) fn facts(conversation: &Conversation, boundary: &Boundary) -> Vec<String> {
    let mut facts = vec![if boundary.is_auto { "automatic" } else { "manual" }.to_owned()];
    if let [Some(from), to] = boundary.tokens {
        let to = to.map(|to| format!(" to {}", short_number(to))).unwrap_or_default();
        facts.push(format!("from {}{to} tokens", short_number(from)));
    }
    let kept = conversation.graph.kept(boundary).len();
    facts.extend((kept > 0).then(|| format!("{} kept", count(kept as u64, "record"))));
    facts
}
