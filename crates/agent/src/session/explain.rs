//! What would be decided about a call, without a session.
//!
//! Invariant: nothing runs, nobody is asked, nothing of a session is read or written.

use std::sync::Arc;

use rules::Judgement;
use serde_json::{Map, Value};

use super::Prepared;
use crate::ambient::Real;
use crate::api::script::Script;
use crate::guard::SandboxWish;
use crate::permit::Mode;
use crate::settings::{Environment, Settings};
use crate::tool::{Call, Cancel, Site};

/// A decision, and the mode in which it would be made.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The decision.
    pub judgement: Judgement,
    /// The name of the mode.
    pub mode: &'static str,
}

/// The parameters that a bare text may stand for, by precedence.
const MAIN: [&str; 7] = ["command", "file_path", "notebook_path", "path", "url", "plan", "query"];

impl Prepared {
    /// What would be decided about a call of this tool. The input is JSON, or its main parameter.
    pub fn explain(&self, tool: &str, input: &str, environment: &dyn Environment) -> Explained {
        let folders = &self.config.folders;
        let script = Script::read(r#"{"replies": []}"#, &[]).ok();
        let Some(script) = script.map(Arc::new) else {
            return Explained { judgement: nothing(), mode: self.permit.mode.name() };
        };
        let mut site = Site::new(
            &folders.cwd,
            &folders.project,
            None,
            (script, String::new()),
            Arc::new(Real),
        );
        site.home.clone_from(&folders.user);
        site.trusted_repository = self.trusted_repository();
        let more = self.config.permissions.folders.iter().chain(&self.settings.folders);
        site.folders = more.map(|folder| folders.cwd.join(folder)).collect();
        let needs_sandbox = matches!(self.permit.mode, Mode::Auto | Mode::Bypass | Mode::Plan)
            || self.permit.allows_sandboxed;
        if needs_sandbox && self.config.sandbox.wish != SandboxWish::Off {
            let all: Vec<_> = std::iter::once(&site.root).chain(&site.folders).cloned().collect();
            let probe = self.probe(&site.shells);
            site.guard = self.guard(&all, probe, environment).ok().flatten();
        }
        let known =
            site.tools.find(tool).map(|tool| tool.spec().input_schema["properties"].clone());
        let members = if let Ok(Value::Object(members)) = serde_json::from_str(input) {
            members
        } else {
            let is_known =
                |name: &&&str| known.as_ref().is_some_and(|known| known.get(**name).is_some());
            let main = MAIN.iter().find(is_known).copied().unwrap_or("input");
            Map::from_iter([(main.to_owned(), Value::from(input))])
        };
        let call = Call {
            id: String::new(),
            name: tool.to_owned(),
            input: members,
            cancel: Cancel::default(),
        };
        Explained { judgement: self.permit.judge(&call, &site), mode: self.permit.mode.name() }
    }

    /// The settings that count.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

fn nothing() -> Judgement {
    Judgement {
        decision: rules::Decision::Ask,
        rule: None,
        source: None,
        why: "it cannot be judged".to_owned(),
        parts: Vec::new(),
    }
}
