//! A tool call: its input, its result, and what it changed.

use serde::Serialize;

use super::piece::texts;
use super::{Piece, Raw, is_false, text};
use crate::conversation::agents::{Owner, WithAgents};
use crate::conversation::diff::{Action, FileChange, TOUCHING, touched_by};
use crate::conversation::id::AgentId;
use crate::conversation::table::BlockId;
use crate::conversation::tool;
use crate::format::json::Json;

/// A call with its result.
#[derive(Clone, Debug, Serialize)]
pub struct Call {
    /// The number of its line in the file.
    pub line: u64,
    r#type: &'static str,
    /// The id that joins it to its result.
    pub id: Option<String>,
    /// The name of the tool.
    pub tool: String,
    /// What its input is about: a path, a pattern, a command. Commands can have several lines.
    pub about: String,
    /// Its input.
    pub input: Raw,
    /// Its record is too long for memory, so the middle of its texts is missing.
    #[serde(skip_serializing_if = "is_false")]
    pub cut: bool,
    /// Its result; `None` if there is none in the file.
    pub result: Option<CallResult>,
    /// The file that it touched.
    pub file: Option<FileChange>,
    /// The ids of the sub-agents that it started.
    pub agents: Vec<AgentId>,
    /// The same sub-agents, as indices into [`WithAgents::agents`].
    #[serde(skip)]
    pub started: Vec<usize>,
}

/// The result of a call.
#[derive(Clone, Debug, Serialize)]
pub struct CallResult {
    /// The number of its line in the file.
    pub line: u64,
    /// The id of its record.
    pub uuid: Option<String>,
    /// Whether it is an error.
    pub error: bool,
    /// The time from the call to the result, in milliseconds.
    pub duration_ms: Option<i64>,
    /// The outcome in a few words. `None` for tools whose outcome says little or is shown
    /// otherwise: what `Write` and `Edit` did is in [`Call::file`].
    pub outcome: Option<String>,
    /// The result as the model got it.
    pub content: Vec<Piece>,
    /// The client's own result.
    pub structured: Option<Raw>,
    /// Its record is too long for memory, so the middle of its texts is missing.
    #[serde(skip_serializing_if = "is_false")]
    pub cut: bool,
}

impl Call {
    pub(super) fn read(session: &WithAgents, owner: Owner, block: BlockId) -> crate::Result<Call> {
        let conversation = session.of(owner);
        let table = &conversation.table;
        let (part, row) = (table.block(block), table.row(table.block(block).row));
        let tool = table.text(part.name).unwrap_or_default().to_owned();
        let input = conversation.input_of(block)?;
        let (mut result, mut file) = (None, None);
        if let Some(answer) = conversation.pairs.of(block) {
            let (content, structured) = conversation.result(answer)?;
            let object = structured.as_deref().map(Json::trusted).and_then(Json::object);
            let error = table.block(answer).is_error;
            if !error {
                let output: String = content.iter().filter_map(Piece::text).collect();
                file = touched_by(&tool, Json::trusted(&input), object.as_ref(), &output);
            }
            let outcome = object.as_ref().and_then(|object| tool::outcome(&tool, object));
            let end = table.row(table.block(answer).row);
            let duration = end.time.zip(row.time).map(|(end, start)| end.0.saturating_sub(start.0));
            result = Some(CallResult {
                line: end.line,
                uuid: text(conversation, end.uuid),
                error,
                duration_ms: duration.filter(|taken| *taken >= 0),
                outcome,
                content,
                structured: structured.map(Raw::new),
                cut: end.is_long(),
            });
        }
        let started = session.started(owner, block).to_vec();
        Ok(Call {
            line: row.line,
            r#type: "call",
            id: text(conversation, part.id),
            about: tool::about(&tool, Json::trusted(&input)),
            tool,
            input: Raw::new(input),
            cut: row.is_long(),
            result,
            file,
            agents: started.iter().map(|at| session.agents[*at].id.clone()).collect(),
            started,
        })
    }

    /// What a call that failed was to change in a file.
    pub fn attempt(&self) -> Option<FileChange> {
        self.result.as_ref().filter(|result| result.error)?;
        let input = Json::parse(self.input.as_str().as_bytes())?;
        let attempt = touched_by(&self.tool, input, None, "");
        attempt.filter(|file| file.action != Action::Read)
    }

    /// Whether it is about a file: then its path is what [`about`](Call::about) says.
    pub fn is_about_file(&self) -> bool {
        TOUCHING.contains(&self.tool.as_str())
    }

    /// Whether the middle of a text of the call or of its result is missing.
    pub fn is_cut(&self) -> bool {
        self.cut || self.result.as_ref().is_some_and(|result| result.cut)
    }

    /// The plan that it proposes, as Markdown.
    pub fn plan(&self) -> Option<String> {
        if !self.tool.to_lowercase().contains("plan") {
            return None;
        }
        let input = Json::parse(self.input.as_str().as_bytes())?.object()?;
        input.text("plan").map(std::borrow::Cow::into_owned)
    }

    /// The outcome in a few words each: what changed, whether there is a result, what it says.
    /// None if the result is an error or says nothing in short: then its
    /// [text](CallResult::text) is what there is to show.
    pub fn facts(&self) -> Vec<String> {
        let mut facts = Vec::new();
        if let Some(file) = self.file.as_ref().filter(|file| file.action != Action::Read) {
            if file.action == Action::Created {
                facts.push("new".to_owned());
            }
            facts.extend((file.added > 0).then(|| format!("+{}", file.added)));
            facts.extend((file.removed > 0).then(|| format!("−{}", file.removed)));
        }
        match &self.result {
            None => facts.push("no result".to_owned()),
            // How it failed is in the result.
            Some(result) => facts.extend(result.outcome.clone().filter(|_| !result.error)),
        }
        facts
    }
}

impl CallResult {
    /// What the model was sent, as text.
    pub fn text(&self) -> String {
        texts(&self.content)
    }
}
