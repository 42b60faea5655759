//! Which items of a conversation are shown.

use transcript::conversation::view::{Item, Piece, Role};

/// Which items of a conversation a page shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Only {
    /// All of them.
    #[default]
    Everything,
    /// What was said, without calls, thinking and what the client added.
    Talk,
    /// What was asked.
    Asked,
}

impl Only {
    pub(crate) fn parse(text: &str) -> Only {
        match text {
            "talk" => Only::Talk,
            "asked" => Only::Asked,
            _ => Only::Everything,
        }
    }

    pub(super) fn shows(self, item: &Item) -> bool {
        match (self, item) {
            (Only::Everything, _) | (_, Item::Answer(_)) => true,
            (_, Item::Message(message)) => {
                matches!(message.role, Role::Prompt | Role::Queued)
                    || self == Only::Talk && matches!(message.role, Role::Summary | Role::Interrupt)
            }
            (_, Item::Event(event)) => event.compaction.is_some(),
            (Only::Talk, Item::Block(block)) => matches!(block.piece, Some(Piece::Text { .. })),
            _ => false,
        }
    }
}
