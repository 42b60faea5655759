//! A host begins: its hooks, sub-agents and prompts are the session's from now on.
//!
//! Invariant: what is sent with every request changes only before the first one: later, the API
//! would have to read everything anew, and the conversation would have had two beginnings.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Driver;
use crate::control::Beginning;
use crate::event::{AgentId, Event};
use crate::host::Host;
use crate::prompt;
use crate::tool::Tool;

impl Driver {
    /// Takes what a host brings. Returns what there is, for the answer.
    pub(super) fn begin_with(&mut self, beginning: Beginning, host: &mut dyn Host) -> Value {
        self.hooks.add_callbacks(&beginning.hooks);
        if let Some(schema) = beginning.schema {
            self.site.output.want(schema);
        }
        if let Some(names) = beginning.skills {
            self.slashes.leave_only(names);
        }
        for text in self.kinds.add_json(&beginning.agents) {
            host.event(&AgentId::Main, &Event::Notice(text));
        }
        if !self.is_begun {
            let wishes = &mut self.about.prompt;
            // An empty prompt is what hosts say if they have none: it does not replace an agent's.
            let is_needed = |text: &String| !text.trim().is_empty() || wishes.instead.is_none();
            if let Some(text) = beginning.system.filter(is_needed) {
                wishes.instead = Some(text);
            }
            if let Some(text) = beginning.more {
                let texts = wishes.more.take().into_iter().chain([text]);
                wishes.more = Some(texts.collect::<Vec<_>>().join("\n\n"));
            }
            self.about.more_for_agents =
                beginning.more_for_agents.or(self.about.more_for_agents.take());
            if let Some(main) = self.agents.get_mut(&AgentId::Main) {
                main.recorder.entitle(beginning.title);
                main.asking.system = prompt::system(&self.about.prompt, &main.asking.surroundings);
            }
            self.offer_again();
        }
        let commands = self.slashes.for_user().map(|slash| {
            json!({"name": slash.name, "description": slash.description, "argumentHint": slash.hint})
        });
        json!({
            "commands": commands.collect::<Vec<_>>(), "agents": self.kinds.listed(),
            "current_permission_mode": self.permit.mode.name(),
            "claude_code_version": crate::dialect::version(),
        })
    }

    /// Offers what a host asked for: the descriptions of tools name sub-agents and skills.
    fn offer_again(&mut self) {
        let Some(main) = self.agents.get_mut(&AgentId::Main) else { return };
        let mut tools = main.site.tools.clone();
        let is_there = |tool: &Arc<dyn Tool>| main.site.tools.find(&tool.spec().name).is_some();
        let skills = self.slashes.tool();
        let has_skills = skills.is_some();
        let described = self.kinds.tools().into_iter().chain(skills);
        described.filter(is_there).for_each(|tool| tools.add(tool));
        let permit = &self.permit;
        let is_offered = |tool: &&Arc<dyn Tool>| {
            let name = &tool.spec().name;
            permit.offers(name)
                && tool.is_offered(permit.mode)
                && (has_skills || name != crate::slash::SKILL)
        };
        main.asking.tools =
            tools.iter().filter(is_offered).map(|tool| tool.spec().json()).collect();
    }
}
