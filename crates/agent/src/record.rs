//! Writes records exactly as the client of the dialect does, member by member.
//!
//! Invariants: the parent of every record is the one before it, also for results of parallel calls
//! (every client version loads such a chain completely); times increase from record to record,
//! because older clients continue from the newest record.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use transcript::format::json::quote;
use transcript::format::time::Time;
use uuid::Uuid;

use crate::ambient::Ambient;
use crate::api::ApiError;
use crate::api::request::text_block;
use crate::backup::Backups;
use crate::block::{is_result, is_thinking, result_block, text_of};
use crate::codename;
use crate::dialect::{self, Members};
use crate::event::{AgentId, Trigger};
use crate::git;
use crate::log::Log;
use crate::tool::Answer;
use crate::turn::{Block, Entry, Prompt};

/// Which list of backed-up files is recorded for a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// The one at its beginning.
    First,
    /// A later one, with the files that were edited since.
    Update,
}

/// Writes the records of a session.
pub struct Recorder {
    nature: Arc<dyn Ambient>,
    /// None if the session is not stored.
    log: Option<Log>,
    session: String,
    /// Whose records these are.
    agent: AgentId,
    cwd: PathBuf,
    mode: String,
    /// The id of the last record of the conversation.
    last: Option<String>,
    /// The value of `last` before the answer that is being received.
    before: Option<String>,
    /// The time of the last record.
    time: i64,
    /// The session's name for people, once a tool was used.
    slug: Option<String>,
    /// The records of calls, by the ids of the calls.
    calls: HashMap<String, String>,
    /// What was recorded since the last request was made.
    round: Vec<Recorded>,
    /// Ids that were assigned to blocks before these were written.
    ids: HashMap<u64, String>,
    /// Ids that are in use.
    taken: Vec<Uuid>,
    /// What is written before the next prompt.
    pending: Vec<Pending>,
    /// The parents and times of prompts.
    prompts: HashMap<String, (Option<String>, i64)>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorder").field("session", &self.session).finish_non_exhaustive()
    }
}

/// What is written before the next prompt: until there is a prompt, nothing is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pending {
    /// Closes a turn that was not finished: the result of a call, or a text in place of the
    /// model's. The role, and the block as JSON.
    Closing(&'static str, String),
    /// The session's title.
    Title(String),
}

/// Where a session continues.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// The id of the last record of the conversation.
    pub last: Option<String>,
    /// Its time, or that of a later record.
    pub time: i64,
    /// The name for people, if there is one.
    pub slug: Option<String>,
    /// The ids of its records.
    pub taken: Vec<Uuid>,
    /// What to write before it continues.
    pub pending: Vec<Pending>,
    /// The parents and times of its prompts, by their ids.
    pub prompts: HashMap<String, (Option<String>, i64)>,
}

impl Recorder {
    /// Continues a session.
    pub fn new(
        nature: Arc<dyn Ambient>,
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
            agent: AgentId::Main,
            cwd: cwd.to_owned(),
            mode: mode.to_owned(),
            before: from.last.clone(),
            last: from.last,
            time: from.time,
            slug: from.slug,
            calls: HashMap::new(),
            round: Vec::new(),
            ids: HashMap::new(),
            taken: from.taken,
            pending: from.pending,
            prompts: from.prompts,
        }
    }

    /// Writes the records of a sub-agent.
    #[must_use]
    pub fn of(self, agent: AgentId) -> Recorder {
        Recorder { agent, ..self }
    }

    /// Sets the permission mode of later prompts.
    pub fn set_mode(&mut self, mode: &str) {
        mode.clone_into(&mut self.mode);
    }

    /// The id for the record of something that may come with an id: that id, if it is a UUID that
    /// no other record has; else a new one.
    pub fn id_for(&mut self, given: Option<&str>) -> String {
        let id = self.free_id(given);
        // Few prompts come with one, so the list need not be sorted.
        self.taken.extend(given.and_then(|_| Uuid::try_parse(&id).ok()));
        id
    }

    /// The id that [`Recorder::id_for`] would give now.
    pub(crate) fn free_id(&self, given: Option<&str>) -> String {
        let is_free =
            |given: &&str| Uuid::try_parse(given).is_ok_and(|id| !self.taken.contains(&id));
        given.filter(is_free).map_or_else(|| self.nature.id(), str::to_owned)
    }

    /// The id that the record of a block has, or will have.
    pub fn id_of(&mut self, block: &Block) -> String {
        let nature = &self.nature;
        self.ids.entry(block.number).or_insert_with(|| nature.id()).clone()
    }

    /// Remembers the end of the conversation, because an answer begins.
    pub fn mark(&mut self) {
        self.before.clone_from(&self.last);
        self.round.clear();
    }

    /// The next record begins a conversation of its own.
    pub(crate) fn begin_again(&mut self) {
        (self.last, self.before) = (None, None);
        self.round.clear();
    }

    /// Leaves what was recorded of the answer as a separate branch.
    pub fn rewind(&mut self) {
        self.last.clone_from(&self.before);
        self.round.clear();
    }

    /// Goes back to before a prompt: the next record hangs on the line before it. Nothing is
    /// written.
    pub(crate) fn go_back(&mut self, prompt: &str) {
        let Some((parent, _)) = self.prompts.get(prompt).cloned() else { return };
        self.before.clone_from(&parent);
        self.last = parent;
        self.round.clear();
        // What would have closed the last turn is not part of the conversation any more.
        self.pending.retain(|pending| matches!(pending, Pending::Title(_)));
    }

    /// The transcript, if there is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.log.as_ref().map(Log::path)
    }

    /// When a prompt was recorded, in milliseconds.
    pub(crate) fn time_of(&self, prompt: &str) -> Option<i64> {
        self.prompts.get(prompt).map(|(_, time)| *time)
    }

    fn now(&mut self) -> String {
        self.time = self.nature.now().max(self.time + 1);
        Time(self.time).to_string()
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        self.log.as_mut().map_or(Ok(()), |log| log.write(line))
    }

    /// The members that all records of the conversation have, with a new time.
    fn members(&mut self, id: &str, parent: Option<&str>) -> Members {
        let time = self.now();
        Members::default()
            .put("parentUuid", &parent)
            .put("isSidechain", &(self.agent != AgentId::Main))
            .put("userType", &"external")
            .put("cwd", &self.cwd.to_string_lossy())
            .put("sessionId", &self.session)
            .maybe("agentId", self.agent.name().as_ref())
            .put("version", &dialect::version())
            .put("gitBranch", &git::branch(&self.cwd).unwrap_or_default())
            .maybe("slug", self.slug.as_ref())
            .put("uuid", &id)
            .put("timestamp", &time)
    }

    /// Writes a record of the conversation, which becomes the parent of the next one.
    fn append(&mut self, kind: &str, id: String, members: &Members) -> io::Result<String> {
        self.write(&members.record(kind))?;
        self.last = Some(id.clone());
        self.round.push(Recorded { id: id.clone(), message: None });
        Ok(id)
    }

    /// Writes one entry. Returns the id of its record.
    pub fn record(&mut self, entry: &Entry) -> io::Result<String> {
        let id = self.write_entry(entry)?;
        if let Some(last) = self.round.last_mut() {
            last.message = message_of(entry);
        }
        Ok(id)
    }

    /// What follows a summary as it was: what was recorded since the last request was made, if it
    /// begins with an answer and has at most so many bytes; else what the user has to say since.
    pub(crate) fn tail(&self, most: usize) -> Vec<Recorded> {
        let messages = || self.round.iter().filter_map(|one| one.message.as_ref());
        let bytes: usize = messages().flat_map(|(_, blocks)| blocks).map(String::len).sum();
        let is_answer = messages().next().is_some_and(|(role, _)| *role == "assistant");
        if is_answer && bytes <= most {
            return self.round.clone();
        }
        let is_answered = |one: &Recorded| {
            one.message.as_ref().is_some_and(|(role, blocks)| {
                *role == "assistant" || blocks.iter().any(|block| is_result(block))
            })
        };
        let from = self.round.iter().rposition(is_answered).map_or(0, |last| last + 1);
        self.round[from..].to_vec()
    }

    /// Another model goes on.
    pub(crate) fn forget_thinking(&mut self) {
        let messages = self.round.iter_mut().filter_map(|one| one.message.as_mut());
        messages.for_each(|(_, blocks)| blocks.retain(|block| !is_thinking(block)));
    }

    fn write_entry(&mut self, entry: &Entry) -> io::Result<String> {
        match entry {
            Entry::Prompt(prompt) => self.prompt(prompt),
            Entry::Meta(text) => {
                self.user(None, &quote(text), |members| members.put("isMeta", &true))
            }
            Entry::Expansion(text) => {
                let content = format!("[{}]", text_block(text));
                self.user(None, &content, |members| members.put("isMeta", &true))
            }
            Entry::Printed(text) => self.user(None, &quote(text), |members| members),
            Entry::Interrupted(text) => {
                self.user(None, &format!("[{}]", text_block(text)), |members| members)
            }
            Entry::Block(block) => self.block(block),
            Entry::Result(call, answer) => self.result(call, answer),
            Entry::Failed(error) => self.failed(error),
        }
    }

    fn prompt(&mut self, prompt: &Prompt) -> io::Result<String> {
        for pending in std::mem::take(&mut self.pending) {
            match pending {
                Pending::Closing(role, block) => self.closing(role, &block)?,
                Pending::Title(title) => {
                    let members = Members::default().put("type", &"custom-title");
                    let members =
                        members.put("customTitle", &title).put("sessionId", &self.session);
                    self.write(&members.record("custom-title"))?;
                }
            }
        }
        let is_main = self.agent == AgentId::Main;
        if is_main {
            self.queue("dequeue", None)?;
        }
        // A single text is a string, as in typed prompts.
        let only = match prompt.blocks.as_slice() {
            [one] => text_of(one).map(|text| quote(&text)),
            _ => None,
        };
        let content = only.unwrap_or_else(|| format!("[{}]", prompt.blocks.join(",")));
        let mode = self.mode.clone();
        let time = self.nature.now();
        self.prompts.insert(prompt.id.clone(), (self.last.clone(), time));
        // Commands are recorded without it.
        let is_command = prompt.blocks.last().and_then(|block| text_of(block));
        let is_command = is_command.is_some_and(|text| {
            text.starts_with("<command-message>") || text.starts_with("<bash-input>")
        });
        self.user(Some(prompt.id.clone()), &content, |members| {
            if is_main && !is_command { members.put("permissionMode", &mode) } else { members }
        })
    }

    /// Records a prompt that has to wait, in case it is never processed.
    pub fn enqueue(&mut self, blocks: &[String]) -> io::Result<()> {
        let texts: Vec<String> = blocks.iter().filter_map(|block| text_of(block)).collect();
        self.queue("enqueue", Some(&texts.join("\n")))
    }

    fn queue(&mut self, operation: &str, content: Option<&str>) -> io::Result<()> {
        let time = self.now();
        let members = Members::default().put("type", &"queue-operation");
        let members = members.put("operation", &operation).put("timestamp", &time);
        let members = members.put("sessionId", &self.session).maybe("content", content.as_ref());
        self.write(&members.record("queue-operation"))
    }

    fn user(
        &mut self,
        id: Option<String>,
        content: &str,
        more: impl FnOnce(Members) -> Members,
    ) -> io::Result<String> {
        let id = id.unwrap_or_else(|| self.nature.id());
        let members = self.members(&id, self.last.clone().as_deref()).put("type", &"user");
        let message = format!(r#"{{"role":"user","content":{content}}}"#);
        self.append("user", id, &more(members.raw("message", message)))
    }

    fn block(&mut self, block: &Block) -> io::Result<String> {
        let id = self.id_of(block);
        self.ids.remove(&block.number);
        let members = self.members(&id, self.last.clone().as_deref()).put("type", &"assistant");
        let members = members.raw("message", block.message.clone());
        let members = members.maybe("requestId", block.request.as_ref());
        let id = self.append("assistant", id, &members)?;
        if let Some(call) = &block.call {
            self.calls.insert(call.clone(), id.clone());
        }
        Ok(id)
    }

    fn result(&mut self, call: &str, answer: &Answer) -> io::Result<String> {
        let nature = &self.nature;
        self.slug.get_or_insert_with(|| codename::made(&nature.id()));
        let source = self.calls.get(call).cloned();
        let content = format!("[{}]", result_block(call, answer));
        let detail = answer.detail.get().to_owned();
        let is_main = self.agent == AgentId::Main;
        self.user(None, &content, |members| {
            let members = if is_main { members.raw("toolUseResult", detail) } else { members };
            members.maybe("sourceToolAssistantUUID", source.as_ref())
        })
    }

    fn failed(&mut self, error: &ApiError) -> io::Result<String> {
        let text = error.to_string();
        self.synthetic(&text, |members| {
            members.put("error", &error.label()).put("isApiErrorMessage", &true)
        })
    }

    fn closing(&mut self, role: &str, block: &str) -> io::Result<()> {
        let role = if role == "user" {
            self.user(None, &format!("[{block}]"), |members| members)?;
            "user"
        } else {
            let text = text_of(block).unwrap_or_default();
            self.synthetic(&text, |members| members.put("isApiErrorMessage", &false))?;
            "assistant"
        };
        if let Some(last) = self.round.last_mut() {
            last.message = Some((role, vec![block.to_owned()]));
        }
        Ok(())
    }

    /// Writes a message in place of the model's.
    fn synthetic(
        &mut self,
        text: &str,
        more: impl FnOnce(Members) -> Members,
    ) -> io::Result<String> {
        let (id, message) = (self.nature.id(), self.nature.id());
        let members = self.members(&id, self.last.clone().as_deref()).put("type", &"assistant");
        self.append("synthetic", id, &more(members.raw("message", synthetic(&message, text))))
    }

    /// The session's name for people, if it has one.
    pub(crate) fn slug(&self) -> Option<String> {
        self.slug.clone()
    }

    /// Writes what the user should know and the model does not get.
    pub(crate) fn inform(&mut self, text: &str) -> io::Result<()> {
        let id = self.nature.id();
        let members = self.members(&id, self.last.clone().as_deref()).put("type", &"system");
        let members = members.put("subtype", &"informational").put("content", &text);
        let members = members.put("isMeta", &false).put("level", &"warning");
        self.append("informational", id, &members).map(drop)
    }

    /// Writes that a hook runs, outside the conversation.
    pub(crate) fn hook(&mut self, event: &str, name: &str, command: &str) -> io::Result<()> {
        let (id, call) = (self.nature.id(), self.nature.id());
        let data = serde_json::json!({
            "type": "hook_progress", "hookEvent": event, "hookName": name, "command": command,
        });
        let members = self.members(&id, self.last.clone().as_deref()).put("type", &"progress");
        let members = members.put("data", &data).put("parentToolUseID", &call);
        self.write(&members.put("toolUseID", &call).record("progress"))
    }

    /// Writes that the conversation begins again with a summary, which `tail` follows; for a
    /// summary that the user wanted also their command. Returns the texts that are sent after that.
    pub(crate) fn compacted(
        &mut self,
        trigger: Trigger,
        tokens: u64,
        (summary, instructions): (&str, &str),
        tail: &[Recorded],
    ) -> io::Result<Vec<String>> {
        let (id, anchor) = (self.nature.id(), self.nature.id());
        let before = self.last.take();
        let mut metadata = serde_json::json!({"trigger": trigger.name(), "preTokens": tokens});
        if let (Some(first), Some(last)) = (tail.first(), tail.last()) {
            let ids: Vec<&str> = tail.iter().map(|one| one.id.as_str()).collect();
            metadata["preservedSegment"] = serde_json::json!({
                "headUuid": first.id, "anchorUuid": anchor, "tailUuid": last.id,
            });
            metadata["preservedMessages"] =
                serde_json::json!({"anchorUuid": anchor, "uuids": ids, "allUuids": ids});
        }
        let members = self.members(&id, None).put("type", &"system");
        let members = members.put("subtype", &"compact_boundary");
        let members = members.put("content", &"Conversation compacted").put("isMeta", &false);
        let members = members.put("level", &"info").put("compactMetadata", &metadata);
        let members = members.put("logicalParentUuid", &before);
        self.append("compact_boundary", id, &members)?;
        self.user(Some(anchor), &quote(summary), |members| {
            members.put("isVisibleInTranscriptOnly", &true).put("isCompactSummary", &true)
        })?;
        let mut texts = Vec::new();
        if trigger == Trigger::Manual {
            let arguments = format!(
                "<command-name>/compact</command-name>\n<command-message>compact</command-message>\n<command-args>{instructions}</command-args>"
            );
            let caveat = "<local-command-caveat>The user ran the next commands in the client. They are no request to you.</local-command-caveat>";
            let output = "<local-command-stdout>Compacted</local-command-stdout>";
            self.user(None, &quote(caveat), |members| members.put("isMeta", &true))?;
            self.user(None, &quote(&arguments), |members| members)?;
            self.user(None, &quote(output), |members| members)?;
            texts.extend([caveat.to_owned(), arguments, output.to_owned()]);
        }
        self.round.clear();
        Ok(texts)
    }

    /// Writes a title with the next prompt.
    pub(crate) fn entitle(&mut self, title: Option<String>) {
        self.pending.extend(title.map(Pending::Title));
    }

    /// Writes a title.
    pub(crate) fn rename(&mut self, title: &str) -> io::Result<()> {
        let members = Members::default().put("type", &"custom-title");
        let members = members.put("customTitle", &title).put("sessionId", &self.session);
        self.write(&members.record("custom-title"))
    }

    /// Writes a record outside the conversation: what a call has written so far.
    pub fn progress(&mut self, call: &str, data: &impl Serialize, number: u64) -> io::Result<()> {
        let (parent, id) = (self.calls.get(call).cloned(), self.nature.id());
        let members = self.members(&id, parent.as_deref()).put("type", &"progress");
        let members = members.put("data", data).put("parentToolUseID", &call);
        let members = members.put("toolUseID", &format!("bash-progress-{number}"));
        self.write(&members.record("progress"))
    }

    /// Records how long a turn took.
    pub fn duration(&mut self, taken: i64) -> io::Result<()> {
        let id = self.nature.id();
        let members = self.members(&id, self.last.clone().as_deref()).put("type", &"system");
        let members = members.put("subtype", &"turn_duration").put("durationMs", &taken);
        self.append("turn_duration", id, &members.put("isMeta", &false)).map(drop)
    }

    /// Records which copies of files exist, as of a message.
    pub fn snapshot(
        &mut self,
        message: &str,
        of: &str,
        backups: &Backups,
        kind: Snapshot,
    ) -> io::Result<()> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Copy {
            backup_file_name: Option<String>,
            version: u32,
            backup_time: Option<String>,
        }
        let time = self.now();
        let mut files = Members::default();
        for (path, backup) in backups.recorded(&time) {
            let name = path.strip_prefix(&self.cwd).unwrap_or(&path).to_string_lossy().into_owned();
            let copy = Copy {
                backup_file_name: backup.name,
                version: backup.version,
                backup_time: backup.time,
            };
            files = files.put(&name, &copy);
        }
        let snapshot = Members::default().put("messageId", &of);
        let snapshot = snapshot.raw("trackedFileBackups", files.object()).put("timestamp", &time);
        let members = Members::default().put("type", &"file-history-snapshot");
        let members = members.put("messageId", &message).raw("snapshot", snapshot.object());
        self.write(
            &members
                .put("isSnapshotUpdate", &(kind == Snapshot::Update))
                .record("file-history-snapshot"),
        )
    }
}

/// A record of the conversation.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// Its id.
    id: String,
    /// What is sent of it: the role and blocks.
    pub(crate) message: Option<(&'static str, Vec<String>)>,
}

/// What is sent of an entry.
fn message_of(entry: &Entry) -> Option<(&'static str, Vec<String>)> {
    let text = |text: &str| Some(("user", vec![text_block(text)]));
    match entry {
        Entry::Prompt(prompt) => Some(("user", prompt.blocks.clone())),
        Entry::Meta(words) | Entry::Expansion(words) | Entry::Printed(words) => text(words),
        Entry::Interrupted(words) => text(words),
        Entry::Block(block) => Some(("assistant", vec![block.block.clone()])),
        Entry::Result(call, answer) => Some(("user", vec![result_block(call, answer)])),
        Entry::Failed(_) => None,
    }
}

/// A message that reports an error in place of the model.
pub(crate) fn synthetic(id: &str, text: &str) -> String {
    let usage = r#"{"input_tokens":0,"output_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"server_tool_use":{"web_search_requests":0,"web_fetch_requests":0},"service_tier":null,"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"inference_geo":null,"iterations":null,"speed":null}"#;
    format!(
        r#"{{"id":{},"container":null,"model":"<synthetic>","role":"assistant","stop_reason":"stop_sequence","stop_sequence":"","type":"message","usage":{usage},"content":[{{"type":"text","text":{}}}],"context_management":null}}"#,
        quote(id),
        quote(text)
    )
}
