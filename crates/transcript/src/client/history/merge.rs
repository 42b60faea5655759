//! From records to messages: attachments move, consecutive messages are joined, and the records of
//! an answer are joined by its id.

use hashbrown::HashMap;

use super::attachment::Sent;
use super::block::SentBlock;
use super::rules::{ResultsFirst, Rules};
use super::{AnswerName, Line, Message, Role};
use crate::format::content::BlockKind;
use crate::format::entry::Kind;

/// Turns records into messages.
pub(super) fn merge(lines: Vec<Line>, rules: Rules) -> Vec<Message> {
    let mut merging = Merging {
        rules,
        messages: Vec::new(),
        answers: HashMap::new(),
        to_result: Vec::new(),
        to_system: Vec::new(),
        done: 0,
        open_from: 0,
    };
    for line in moved_up(lines) {
        match line.kind {
            Kind::Assistant if line.is_error && !rules.sends_errors => {}
            Kind::Assistant => merging.answer(line),
            Kind::Attachment => line.sent.into_iter().for_each(|sent| merging.attachment(sent)),
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
    messages: Vec<Message>,
    /// For each answer, the index of its last message.
    answers: HashMap<AnswerName, usize>,
    /// How many messages were examined, and the first one that an answer may be joined to.
    done: usize,
    open_from: usize,
    /// Reminders for the result at the end of the last message.
    to_result: Vec<String>,
    /// Texts for the message with the role `system` after the user's.
    to_system: Vec<String>,
}

impl Merging {
    fn user(&mut self, blocks: Vec<SentBlock>, is_string: bool) {
        self.end_result();
        if let Some(last) = self.messages.last_mut().filter(|last| last.role == Role::User) {
            join(last, blocks, self.rules);
            return;
        }
        let mut message = Message::new(Role::User, blocks);
        message.is_string = is_string;
        if self.rules.results_first == ResultsFirst::Always {
            results_first(&mut message.blocks);
        }
        self.messages.push(message);
    }

    fn attachment(&mut self, sent: Sent) {
        if sent.to_system {
            self.to_system.push(sent.text);
            return;
        }
        let is_reminder = sent.is_reminder();
        let Some(last) = self.messages.last_mut().filter(|last| last.role == Role::User) else {
            let mut message = Message::new(Role::User, vec![SentBlock::text(&sent.text)]);
            message.is_attachment = true;
            self.messages.push(message);
            return;
        };
        if last.is_attachment && last.blocks.len() == 1 && !last.is_joined {
            // After an answer, each text is a message of its own.
            let mut message = Message::new(Role::User, vec![SentBlock::text(&sent.text)]);
            message.is_attachment = true;
            self.messages.push(message);
            return;
        }
        last.is_string = false;
        let newest = self.rules.drops_blank_blocks;
        let result = last.blocks.last().filter(|block| block.kind() == BlockKind::ToolResult);
        let is_inside = is_reminder && !sent.is_beside;
        if result.is_some_and(|result| is_inside && result.takes_reminders(newest)) {
            self.to_result.push(sent.text);
            return;
        }
        self.end_result();
        if let Some(last) = self.messages.last_mut() {
            last.blocks.push(SentBlock::text(&sent.text));
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

    fn answer(&mut self, line: Line) {
        self.end_system();
        let from = self.open_from();
        let known = self.answers.get(&line.id).copied().filter(|at| *at >= from);
        let Some(at) = known else {
            let mut message = Message::new(Role::Assistant, line.blocks);
            message.id = line.id;
            message.model = line.model;
            self.answers.insert(line.id, self.messages.len());
            self.messages.push(message);
            return;
        };
        self.messages[at].blocks.extend(line.blocks);
    }

    /// The first message that an answer may be joined to: nothing from there to the end stops the
    /// search. Only the last message can still change, so the result for the others is cached.
    fn open_from(&mut self) -> usize {
        let stops = |message: &Message| match message.role {
            Role::Assistant => !self.rules.joins_across,
            Role::User => !message.blocks.iter().any(|block| block.kind() == BlockKind::ToolResult),
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
        if !texts.is_empty() {
            self.messages
                .push(Message::new(Role::System, vec![SentBlock::text(&texts.join("\n\n"))]));
        }
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
