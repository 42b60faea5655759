//! A tool call: its input, its result, and what it changed.

use serde::Serialize;

use super::piece::texts;
use super::{Piece, Raw, is_false, text};
use crate::conversation::agents::{Owner, WithAgents};
use crate::conversation::diff::{Action, Touched};
use crate::conversation::id::AgentId;
use crate::conversation::table::BlockId;
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
    /// Its input in a few words.
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
    /// The outcome in a few words.
    pub outcome: Option<String>,
    /// The result as the model got it.
    pub content: Vec<Piece>,
    /// The client's own result.
    pub structured: Option<Raw>,
    /// Its record is too long for memory, so the middle of its texts is missing.
    #[serde(skip_serializing_if = "is_false")]
    pub cut: bool,
}

/// What a call did to a file.
#[derive(Clone, Debug, Serialize)]
pub struct FileChange {
    /// The path of the file.
    pub path: String,
    #[serde(serialize_with = "name")]
    /// What was done to it.
    pub action: Action,
    /// How many lines were added.
    pub added: usize,
    /// How many lines were removed.
    pub removed: usize,
    /// The changed parts of the file.
    pub diff: Vec<Hunk>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde wants")]
fn name<S: serde::Serializer>(action: &Action, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(action.name())
}

/// Consecutive lines of a file.
#[derive(Clone, Debug, Serialize)]
pub struct Hunk {
    /// The number of its first line in the old and in the new file.
    pub start: Option<[u64; 2]>,
    /// The lines, each after its sign: `+`, `-` or a blank.
    pub lines: Vec<String>,
}

impl Call {
    pub(super) fn read(session: &WithAgents, owner: Owner, block: BlockId) -> crate::Result<Call> {
        let conversation = session.of(owner);
        let read = conversation.call(block)?;
        let table = &conversation.table;
        let result = read.result.map(|result| {
            let row = table.row(table.block(result.block).row);
            CallResult {
                line: row.line,
                uuid: text(conversation, row.uuid),
                error: result.is_error,
                duration_ms: result.duration,
                outcome: result.outcome,
                content: result.pieces.into_iter().map(Piece::from).collect(),
                structured: result.structured.map(Raw::new),
                cut: row.is_long(),
            }
        });
        let row = table.row(table.block(block).row);
        let started = session.started(owner, block).to_vec();
        Ok(Call {
            line: row.line,
            r#type: "call",
            id: text(conversation, table.block(block).id),
            tool: read.tool,
            about: read.about,
            input: Raw::new(read.input),
            cut: row.is_long(),
            result,
            file: read.touched.as_ref().map(FileChange::from),
            agents: started.iter().map(|at| session.agents[*at].id.clone()).collect(),
            started,
        })
    }

    /// Whether the middle of a text of the call or of its result is missing.
    pub fn is_cut(&self) -> bool {
        self.cut || self.result.as_ref().is_some_and(|result| result.cut)
    }

    /// The plan that it proposes, as Markdown.
    pub fn plan(&self) -> Option<String> {
        let input = Json::parse(self.input.as_str().as_bytes())?.object()?;
        let is_plan = self.tool.to_lowercase().contains("plan");
        input.text("plan").filter(|_| is_plan).map(std::borrow::Cow::into_owned)
    }

    /// The outcome in a few words each: what changed, whether there is a result, what it says.
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

impl From<&Touched> for FileChange {
    fn from(touched: &Touched) -> FileChange {
        let [added, removed] = touched.counts();
        let hunks = touched.hunks.iter().map(|hunk| Hunk {
            start: hunk.start,
            lines: hunk.lines.iter().map(|(sign, line)| format!("{sign}{line}")).collect(),
        });
        FileChange {
            path: touched.path.clone(),
            action: touched.action,
            added,
            removed,
            diff: hunks.collect(),
        }
    }
}

impl Hunk {
    /// Its lines with their signs.
    pub fn signed(&self) -> impl Iterator<Item = (char, &str)> {
        self.lines.iter().filter_map(|line| {
            let sign = line.chars().next()?;
            Some((sign, &line[sign.len_utf8()..]))
        })
    }
}
