//! Records as the client of the dialect writes them, member for member.
//!
//! Invariants: every record hangs on the one before it, results of parallel calls too (every version loads such a chain whole); times grow from record to record, because older clients
//! go on from the newest.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use transcript::json::quote;
use transcript::time::Time;

use crate::api::ApiError;
use crate::backup::Backup;
use crate::git;
use crate::log::Log;
use crate::nature::Nature;
use crate::slug;
use crate::tool::Answer;
use crate::turn::{Block, Entry, result_block};

/// The version whose records these are.
pub const DIALECT: &str = "2.1.45";

/// Writes the records of a session.
pub struct Recorder {
    nature: Arc<dyn Nature>,
    /// Nothing if the session is not kept.
    log: Option<Log>,
    session: String,
    cwd: PathBuf,
    mode: String,
    /// The last record of the conversation.
    last: Option<String>,
    /// What it was before the answer that comes in.
    before: Option<String>,
    /// The time of the last record.
    time: i64,
    /// The session's name for people, once a tool was used.
    slug: Option<String>,
    /// The records of calls.
    calls: HashMap<String, String>,
    /// Ids that were given to blocks before these were written.
    ids: HashMap<u64, String>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("session", &self.session).finish_non_exhaustive()
    }
}

/// A JSON object that is put together member by member.
#[derive(Debug)]
struct Line(String);

impl Line {
    fn new() -> Line {
        Line("{".to_owned())
    }

    /// A member whose value is JSON.
    fn raw(&mut self, name: &str, value: &str) -> &mut Line {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        let _ = write!(self.0, "\"{name}\":{value}");
        self
    }

    fn put(&mut self, name: &str, value: &impl Serialize) -> &mut Line {
        let value = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
        self.raw(name, &value)
    }

    fn end(&mut self) -> String {
        self.0.push('}');
        std::mem::take(&mut self.0)
    }
}

/// Where a session goes on from.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// The last record of the conversation.
    pub last: Option<String>,
    /// Its time, or that of a later one.
    pub time: i64,
    /// The name for people, if there is one.
    pub slug: Option<String>,
}

impl Recorder {
    /// Goes on with a session.
    pub fn new(
        nature: Arc<dyn Nature>,
        log: Option<Log>,
        session: &str,
        cwd: &Path,
        mode: &str,
        from: Point,
    ) -> Recorder {
        Recorder {
            nature,
            log,
            session: session.to_owned(),
            cwd: cwd.to_owned(),
            mode: mode.to_owned(),
            before: from.last.clone(),
            last: from.last,
            time: from.time,
            slug: from.slug,
            calls: HashMap::new(),
            ids: HashMap::new(),
        }
    }

    /// The id that the record of a block has, or will have.
    pub fn id_of(&mut self, block: &Block) -> String {
        let nature = &self.nature;
        self.ids.entry(block.number).or_insert_with(|| nature.id()).clone()
    }

    /// Remembers where the conversation is: an answer begins.
    pub fn mark(&mut self) {
        self.before.clone_from(&self.last);
    }

    /// What was recorded of the answer is left as a branch of its own.
    pub fn rewind(&mut self) {
        self.last.clone_from(&self.before);
    }

    fn now(&mut self) -> String {
        self.time = self.nature.now().max(self.time + 1);
        Time(self.time).to_string()
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        self.log.as_mut().map_or(Ok(()), |log| log.write(line))
    }

    /// The beginning of a record.
    fn envelope(&self, parent: Option<&str>) -> Line {
        let mut line = Line::new();
        line.put("parentUuid", &parent)
            .put("isSidechain", &false)
            .put("userType", &"external")
            .put("cwd", &self.cwd.to_string_lossy())
            .put("sessionId", &self.session)
            .put("version", &DIALECT)
            .put("gitBranch", &git::branch(&self.cwd).unwrap_or_default());
        if let Some(slug) = &self.slug {
            line.put("slug", slug);
        }
        line
    }

    /// Writes one entry; gives the id of its record.
    pub fn record(&mut self, entry: &Entry) -> io::Result<String> {
        match entry {
            Entry::Prompt(blocks) => self.prompt(blocks),
            Entry::Meta(text) => self.user(&quote(text), |line| {
                line.put("isMeta", &true);
            }),
            Entry::Interrupted(text) => {
                let content = format!(r#"[{{"type":"text","text":{}}}]"#, quote(text));
                self.user(&content, |_| {})
            }
            Entry::Block(block) => self.block(block),
            Entry::Result(call, answer) => self.result(call, answer),
            Entry::Failed(error) => self.failed(error),
        }
    }

    fn prompt(&mut self, blocks: &[String]) -> io::Result<String> {
        let time = self.now();
        let mut line = Line::new();
        line.put("type", &"queue-operation").put("operation", &"dequeue").put("timestamp", &time);
        line.put("sessionId", &self.session);
        self.write(&line.end())?;
        // One text is a string, as people's prompts are.
        let only = match blocks {
            [one] => serde_json::from_str(one).ok().and_then(|one: serde_json::Value| {
                (one["type"] == "text").then(|| one["text"].as_str().map(quote)).flatten()
            }),
            _ => None,
        };
        let content = only.unwrap_or_else(|| format!("[{}]", blocks.join(",")));
        let mode = self.mode.clone();
        self.user(&content, |line| {
            line.put("permissionMode", &mode);
        })
    }

    fn user(&mut self, content: &str, more: impl FnOnce(&mut Line)) -> io::Result<String> {
        let (id, time) = (self.nature.id(), self.now());
        let mut line = self.envelope(self.last.as_deref());
        line.put("type", &"user");
        line.raw("message", &format!(r#"{{"role":"user","content":{content}}}"#));
        line.put("uuid", &id).put("timestamp", &time);
        more(&mut line);
        self.write(&line.end())?;
        self.last = Some(id.clone());
        Ok(id)
    }

    fn block(&mut self, block: &Block) -> io::Result<String> {
        let id = self.id_of(block);
        self.ids.remove(&block.number);
        let time = self.now();
        let mut line = self.envelope(self.last.as_deref());
        line.raw("message", &block.message);
        if let Some(request) = &block.request {
            line.put("requestId", request);
        }
        line.put("type", &"assistant").put("uuid", &id).put("timestamp", &time);
        self.write(&line.end())?;
        if let Some(call) = &block.call {
            self.calls.insert(call.clone(), id.clone());
        }
        self.last = Some(id.clone());
        Ok(id)
    }

    fn result(&mut self, call: &str, answer: &Answer) -> io::Result<String> {
        let nature = &self.nature;
        self.slug.get_or_insert_with(|| slug::made(&nature.id()));
        let source = self.calls.get(call).cloned();
        let content = format!("[{}]", result_block(call, answer));
        let detail = answer.detail.clone();
        self.user(&content, |line| {
            line.raw("toolUseResult", detail.get());
            if let Some(source) = source {
                line.put("sourceToolAssistantUUID", &source);
            }
        })
    }

    fn failed(&mut self, error: &ApiError) -> io::Result<String> {
        let (id, message, time) = (self.nature.id(), self.nature.id(), self.now());
        let mut line = self.envelope(self.last.as_deref());
        line.put("type", &"assistant").put("uuid", &id).put("timestamp", &time);
        line.raw("message", &synthetic(&message, &error.to_string()));
        line.put("error", &error.label()).put("isApiErrorMessage", &true);
        self.write(&line.end())?;
        self.last = Some(id.clone());
        Ok(id)
    }

    /// What closes a turn that was not finished: the answer to a call, or a word in the model's place.
    pub fn closing(&mut self, role: &str, block: &str) -> io::Result<()> {
        if role == "user" {
            return self.user(&format!("[{block}]"), |_| {}).map(drop);
        }
        let (id, message, time) = (self.nature.id(), self.nature.id(), self.now());
        let text: serde_json::Value = serde_json::from_str(block).unwrap_or_default();
        let mut line = self.envelope(self.last.as_deref());
        line.put("type", &"assistant").put("uuid", &id).put("timestamp", &time);
        line.raw("message", &synthetic(&message, text["text"].as_str().unwrap_or_default()));
        line.put("isApiErrorMessage", &false);
        self.write(&line.end())?;
        self.last = Some(id);
        Ok(())
    }

    /// A record beside the conversation: what a call has put out by now.
    pub fn progress(&mut self, call: &str, data: &impl Serialize, number: u64) -> io::Result<()> {
        let parent = self.calls.get(call).cloned();
        let (id, time) = (self.nature.id(), self.now());
        let mut line = self.envelope(parent.as_deref());
        line.put("type", &"progress").put("data", data);
        line.put("toolUseID", &format!("bash-progress-{number}")).put("parentToolUseID", &call);
        line.put("uuid", &id).put("timestamp", &time);
        self.write(&line.end())
    }

    /// How long a turn took.
    pub fn duration(&mut self, taken: i64) -> io::Result<()> {
        let (id, time) = (self.nature.id(), self.now());
        let mut line = self.envelope(self.last.as_deref());
        line.put("type", &"system").put("subtype", &"turn_duration").put("durationMs", &taken);
        line.put("timestamp", &time).put("uuid", &id).put("isMeta", &false);
        self.write(&line.end())?;
        self.last = Some(id);
        Ok(())
    }

    /// Which copies of files there are, as of a message.
    pub fn snapshot(
        &mut self,
        message: &str,
        of: &str,
        backups: &[(PathBuf, Backup)],
        is_update: bool,
    ) -> io::Result<()> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Copy<'a> {
            backup_file_name: &'a Option<String>,
            version: u32,
            backup_time: &'a str,
        }
        let time = self.now();
        let mut files = Line::new();
        for (path, backup) in backups {
            let name = path.strip_prefix(&self.cwd).unwrap_or(path).to_string_lossy();
            let copy = Copy {
                backup_file_name: &backup.name,
                version: backup.version,
                backup_time: &time,
            };
            // Names may have quotes in them.
            let name = quote(&name);
            files.put(&name[1..name.len() - 1], &copy);
        }
        let mut snapshot = Line::new();
        snapshot.put("messageId", &of).raw("trackedFileBackups", &files.end());
        snapshot.put("timestamp", &time);
        let mut line = Line::new();
        line.put("type", &"file-history-snapshot").put("messageId", &message);
        line.raw("snapshot", &snapshot.end()).put("isSnapshotUpdate", &is_update);
        self.write(&line.end())
    }
}

/// A message that stands for an error.
pub(crate) fn synthetic(id: &str, text: &str) -> String {
    let usage = r#"{"input_tokens":0,"output_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":null,"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"inference_geo":null,"iterations":null,"speed":null}"#;
    format!(
        r#"{{"id":{},"container":null,"model":"<synthetic>","role":"assistant","stop_reason":"stop_sequence","stop_sequence":"","type":"message","usage":{usage},"content":[{{"type":"text","text":{}}}],"context_management":null}}"#,
        quote(id),
        quote(text)
    )
}
