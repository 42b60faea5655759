//! Which items of a conversation are shown, and which parts of a session.

use transcript::conversation::agents::Owner;
use transcript::conversation::turn::Turn;
use transcript::conversation::view::{Item, Piece, Role};

use super::{Drawing, FileForm, Form};

impl Drawing<'_> {
    /// Whether a turn of the live branch may be shown.
    pub(crate) fn has_turn(&self, turn: usize) -> bool {
        self.chosen.is_none_or(|chosen| chosen.get(turn) == Some(&true))
    }

    /// Whether calls and their results may be shown.
    pub(crate) fn has_tools(&self) -> bool {
        !matches!(self.form, Form::File(FileForm { has_tools: false, .. }))
    }

    /// Whether a sub-agent may be shown: all of them, or those of turns that may be.
    pub(crate) fn has_agent(&self, at: usize) -> bool {
        if self.chosen.is_none() {
            return true;
        }
        let start = self.opened.family.agents.get(at).and_then(|agent| agent.start);
        let Some(start) = start.filter(|start| start.owner == Owner::Main) else { return false };
        let row = self.opened.family.main.table.block(start.call).row;
        let has = |turn: &Turn| turn.rows[0] <= row && row <= turn.rows[1];
        let turns = &self.opened.live.turns;
        turns.iter().enumerate().any(|(at, turn)| self.has_turn(at) && has(turn))
    }
}

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
                matches!(message.role, Role::Prompt | Role::Queued | Role::Peer)
                    || self == Only::Talk
                        && matches!(
                            message.role,
                            Role::Summary | Role::Interrupt | Role::Notification
                        )
            }
            (_, Item::Event(event)) => event.compaction.is_some(),
            (Only::Talk, Item::Block(block)) => matches!(block.piece, Some(Piece::Text { .. })),
            _ => false,
        }
    }
}
