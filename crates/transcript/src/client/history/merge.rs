//! From records to messages: attachments move, consecutive messages are joined, and the records of
//! an answer are joined by its id.

use hashbrown::HashMap;

use super::attachment::{Sent, System, is_reminder, reminder, untagged};
use super::block::SentBlock;
use super::line::Line;
use super::rules::{Blanks, ResultsFirst, Rules};
use super::{AnswerName, Message, Role};
use crate::format::content::BlockKind;
use crate::format::entry::Kind;

/// Turns records into messages.
pub(super) fn merge(lines: Vec<Line>, rules: Rules, takes_system: bool) -> Vec<Message> {
    let mut merging = Merging {
        rules,
        takes_system: takes_system && rules.sends_system,
        messages: Vec::new(),
        answers: HashMap::new(),
        is_after_last: false,
        to_result: Vec::new(),
        to_system: Vec::new(),
        done: 0,
        open_from: 0,
    };
    let lines = moved_up(lines);
    let last = lines.iter().rposition(|line| line.kind == Kind::Assistant);
    for (at, line) in lines.into_iter().enumerate() {
        match line.kind {
            Kind::Assistant if line.is_error && !rules.sends_errors => {
                // The client's reminders for the new prompt come right after the last answer.
                let is_reminded = rules.reminds_always || !merging.takes_system;
                merging.is_after_last = is_reminded && Some(at) == last;
            }
            Kind::Assistant => {
                let is_reminded = rules.reminds_always || !merging.takes_system;
                let is_joined = merging.answer(line);
                merging.is_after_last = is_joined && is_reminded && Some(at) == last;
            }
            Kind::Attachment => merging.attachment(line.sent),
            Kind::User => merging.user(line.blocks, line.is_string),
            Kind::System if line.is_local_command && rules.sends_local_commands => {
                merging.user(line.blocks, line.is_string);
            }
            _ => {}
        }
    }
    merging.end_system();
    merging.messages
}

/// Moves attachments up, past what the user and the system say, to just after the last answer or
/// result. Their order stays.
fn moved_up(lines: Vec<Line>) -> Vec<Line> {
    let mut moved: Vec<Line> = Vec::with_capacity(lines.len());
    // Lines that attachments move past.
    let mut passed: Vec<Line> = Vec::new();
    for line in lines {
        if line.kind == Kind::Attachment {
            moved.push(line);
        } else if line.kind == Kind::Assistant || line.is_result() {
            moved.append(&mut passed);
            moved.push(line);
        } else {
            passed.push(line);
        }
    }
    moved.append(&mut passed);
    moved
}

struct Merging {
    rules: Rules,
    /// The model is sent messages of the role `system`.
    takes_system: bool,
    messages: Vec<Message>,
    /// For each answer, the index of its last message.
    answers: HashMap<AnswerName, usize>,
    /// How many messages were examined, and the first one that an answer may be joined to.
    done: usize,
    open_from: usize,
    /// The last answer adds no message of its own at the end, and reminders follow it.
    is_after_last: bool,
    /// Reminders for the result at the end of the last message.
    to_result: Vec<String>,
    /// Texts for the message with the role `system` after the user's.
    to_system: Vec<String>,
}

impl Merging {
    fn user(&mut self, blocks: Vec<SentBlock>, is_string: bool) {
        self.end_result();
        let is_apart = std::mem::take(&mut self.is_after_last);
        if let Some(last) = self.messages.last_mut().filter(|last| last.role == Role::User) {
            let seams = self.rules.seams && !is_apart;
            join(last, blocks, Rules { seams, ..self.rules });
            return;
        }
        let mut message = Message::new(Role::User, blocks);
        message.is_string = is_string;
        if self.rules.results_first == ResultsFirst::Always {
            results_first(&mut message.blocks);
        }
        self.messages.push(message);
    }

    /// The texts of an attachment. Where they begin a message, each of them is one; what follows
    /// is joined to the last.
    fn attachment(&mut self, texts: Vec<Sent>) {
        let is_begun = self.messages.last().is_some_and(|last| last.role == Role::User);
        let mut begun: Option<usize> = None;
        for sent in texts {
            let block = match (sent.system, sent.image) {
                (System::Yes, _) if self.takes_system => {
                    self.to_system.push(untagged(&sent.text).to_owned());
                    continue;
                }
                (System::Dropped, _) if self.takes_system => continue,
                (_, Some(image)) => SentBlock::image(image),
                (_, None) => SentBlock::text(&sent.text),
            };
            if !is_begun {
                if let Some(before) = begun.replace(self.messages.len()) {
                    self.messages[before].is_alone = true;
                }
                self.messages.push(Message::new(Role::User, vec![block]));
                continue;
            }
            let is_inside = is_reminder(&sent.text) && !sent.is_beside;
            self.add(block, sent.text, is_inside);
        }
    }

    /// Adds a text of an attachment to the last message.
    fn add(&mut self, block: SentBlock, text: String, is_inside: bool) {
        let Some(last) = self.messages.last_mut() else { return };
        last.is_string = false;
        let newest = self.rules.blanks == Blanks::All;
        let result = last.blocks.last().filter(|block| block.kind() == BlockKind::ToolResult);
        if result.is_some_and(|result| is_inside && result.takes_reminders(newest)) {
            self.to_result.push(text);
            return;
        }
        self.end_result();
        if let Some(last) = self.messages.last_mut() {
            last.blocks.push(block);
        }
    }

    /// Puts the waiting reminders into the result at the end of the last message.
    fn end_result(&mut self) {
        let reminders = std::mem::take(&mut self.to_result);
        let last = self.messages.last_mut().and_then(|last| last.blocks.last_mut());
        if let Some(result) = last.filter(|_| !reminders.is_empty()) {
            *result = result.with_reminders(&reminders);
        }
    }

    /// Whether the answer is joined to an earlier message: then what the user says next follows
    /// what the user said before.
    fn answer(&mut self, line: Line) -> bool {
        let from = self.open_from();
        let known = self.answers.get(&line.id).copied().filter(|at| *at >= from);
        let Some(at) = known else {
            self.end_system();
            let mut message = Message::new(Role::Assistant, line.blocks);
            message.id = line.id;
            message.model = line.model;
            self.answers.insert(line.id, self.messages.len());
            self.messages.push(message);
            return false;
        };
        self.messages[at].blocks.extend(line.blocks);
        at + 1 < self.messages.len()
    }

    /// The first message that an answer may be joined to: nothing from there to the end stops the
    /// search. Only the last message can still change, so the result for the others is cached.
    fn open_from(&mut self) -> usize {
        let stops = |message: &Message| match message.role {
            Role::Assistant => !self.rules.joins_across,
            Role::User => {
                let is_result = |block: &SentBlock| block.kind() == BlockKind::ToolResult;
                !self.rules.joins_over_results || !message.blocks.iter().any(is_result)
            }
            Role::System => false,
        };
        // An answer that stops the search may itself be the one to join.
        let after = |at: usize, message: &Message| match message.role {
            Role::Assistant => at,
            _ => at + 1,
        };
        let done = self.messages.len().saturating_sub(1);
        for (at, message) in self.messages.iter().enumerate().take(done).skip(self.done) {
            if stops(message) {
                self.open_from = after(at, message);
            }
        }
        self.done = done;
        match self.messages.last() {
            Some(last) if stops(last) => after(done, last),
            _ => self.open_from,
        }
    }

    fn end_system(&mut self) {
        self.end_result();
        let texts = std::mem::take(&mut self.to_system);
        if texts.is_empty() {
            return;
        }
        // Only a message of the user can precede one of that role.
        if self.messages.last().is_none_or(|last| last.role != Role::User) {
            let block = SentBlock::text(&reminder(&texts.join("\n\n")));
            self.messages.push(Message::new(Role::User, vec![block]));
            return;
        }
        self.messages.push(Message::new(Role::System, vec![SentBlock::text(&texts.join("\n\n"))]));
    }
}

/// Adds a user's blocks to the user message before them.
pub(super) fn join(message: &mut Message, blocks: Vec<SentBlock>, rules: Rules) {
    message.is_string = false;
    message.is_joined = true;
    if rules.seams
        && blocks.first().is_some_and(|block| block.kind() == BlockKind::Text)
        && let Some(last) = message.blocks.last_mut()
        && let Some(text) = last.words()
    {
        *last = last.with_text(&format!("{text}\n"));
    }
    if rules.results_first == ResultsFirst::Never {
        message.blocks.extend(blocks);
        return;
    }
    let is_result = |block: &SentBlock| block.kind() == BlockKind::ToolResult;
    let Some(front) = message.front else {
        message.blocks.extend(blocks);
        results_first(&mut message.blocks);
        message.front = Some(message.blocks.iter().filter(|block| is_result(block)).count());
        return;
    };
    let (results, rest): (Vec<_>, Vec<_>) = blocks.into_iter().partition(is_result);
    message.front = Some(front + results.len());
    message.blocks.splice(front..front, results);
    message.blocks.extend(rest);
}

fn results_first(blocks: &mut Vec<SentBlock>) {
    let (results, rest): (Vec<_>, Vec<_>) =
        std::mem::take(blocks).into_iter().partition(|block| block.kind() == BlockKind::ToolResult);
    blocks.extend(results.into_iter().chain(rest));
}
