//! Goes back to before a prompt of the running session: its files, its conversation, or both.
//!
//! Invariants: nothing is written to the transcript; the next prompt hangs on the line before the
//! one that was gone back to; if the files cannot be put back, the conversation stays where it is.

use std::path::Path;

use serde_json::{Value, json};

use super::Driver;
use crate::control::{BackWhat, Backwards, Refusal};
use crate::event::AgentId;
use crate::images::Cut;
use crate::model::Usage;

impl Driver {
    /// The prompts that one can go back to, oldest first.
    pub(super) fn waypoints(&self) -> Value {
        let all = self.main().map(|main| main.turn.waypoints()).unwrap_or_default();
        let is_said = |text: &str| !text.starts_with("<task-notification>");
        let points = all.iter().filter(|one| is_said(&one.text));
        let points = points.map(|one| json!({"user_message_id": one.id, "text": one.text}));
        json!({"points": points.collect::<Vec<_>>()})
    }

    /// Goes back, or says what that would do.
    pub(super) fn go_back(&mut self, wish: &Backwards) -> Result<Option<Value>, Refusal> {
        if self.is_busy {
            return Err(Refusal::new("A turn is running: stop it first."));
        }
        let images = self.site.images.clone();
        let Some(main) = self.agents.get_mut(&AgentId::Main) else {
            return Err(Refusal::new("There is no conversation."));
        };
        let all = main.turn.waypoints();
        let at = all.iter().rposition(|one| one.id == wish.prompt);
        let place = at.map(|at| all[at].clone());
        if at.is_none() && wish.what != BackWhat::Files {
            let why = format!("There is no prompt {} to go back to.", wish.prompt);
            return Err(Refusal::new(why));
        }
        let cut = Cut {
            prompt: wish.prompt.clone(),
            earlier: all[..at.unwrap_or(0)].iter().map(|one| one.id.clone()).collect(),
            later: all[at.unwrap_or(0)..].iter().map(|one| one.id.clone()).collect(),
            time: main.recorder.time_of(&wish.prompt),
            path: main.recorder.path().map(Path::to_owned),
        };
        let mut answer = json!({"canRewind": true});
        if wish.what != BackWhat::Conversation {
            let Some(images) = images else {
                // In the words of Claude Code.
                return Err(Refusal::new("File rewinding is not enabled."));
            };
            answer = images.rewind(&cut, wish).map_err(Refusal::new)?;
        }
        if let Some(place) = &place {
            answer["prompt"] = place.text.as_str().into();
        }
        let is_possible = answer["canRewind"] == true && !wish.is_dry;
        if wish.what != BackWhat::Files && is_possible {
            main.turn.go_back(&wish.prompt);
            main.recorder.go_back(&wish.prompt);
            main.count.last = Usage::default();
        }
        Ok(Some(answer))
    }
}
