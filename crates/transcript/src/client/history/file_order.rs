//! The messages according to a published description: file order, without `isMeta`, starting again
//! at each `summary`.
//!
//! For comparison only: no client does any of this.

use super::{Message, Role, SentBlock};
use crate::conversation::Conversation;
use crate::format::content::Message as Content;
use crate::format::entry::Kind;

/// The messages according to appendix C.
pub fn in_file_order(
    conversation: &Conversation,
    then: Option<&str>,
) -> crate::Result<Vec<Message>> {
    let mut messages: Vec<Message> = Vec::new();
    let mut request: Option<String> = None;
    for (row, known) in conversation.table.numbered() {
        match known.kind {
            Kind::Summary => {
                let text = conversation
                    .look(row, |entry| entry.text("summary").unwrap_or_default().into_owned())?;
                let text = format!("[Previous conversation summary]: {text}");
                messages = vec![Message::new(Role::User, vec![SentBlock::text(&text)])];
            }
            Kind::User => {
                let read = conversation.look(row, |entry| {
                    let blocks =
                        entry.message().into_iter().flat_map(Content::blocks).map(SentBlock::read);
                    (entry.flag("isMeta"), blocks.collect::<Vec<_>>())
                })?;
                let (is_meta, blocks) = read;
                if !is_meta {
                    messages.push(Message::new(Role::User, blocks));
                }
            }
            Kind::Assistant => {
                let (of, blocks) = conversation.look(row, |entry| {
                    let blocks =
                        entry.message().into_iter().flat_map(Content::blocks).map(SentBlock::read);
                    (
                        entry.text("requestId").map(std::borrow::Cow::into_owned),
                        blocks.collect::<Vec<_>>(),
                    )
                })?;
                match messages.last_mut() {
                    Some(last) if last.role == Role::Assistant && of == request => {
                        last.blocks.extend(blocks);
                    }
                    _ => messages.push(Message::new(Role::Assistant, blocks)),
                }
                request = of;
            }
            _ => {}
        }
    }
    messages.extend(then.map(|prompt| Message::new(Role::User, vec![SentBlock::text(prompt)])));
    Ok(messages)
}
