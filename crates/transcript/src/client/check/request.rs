//! What the API would refuse in a request.
//!
//! These are the rules of the Messages API, as documented and as its errors show; `docs/checks.md`
//! lists them. The API treats consecutive messages with the same role as one turn.

use hashbrown::{HashMap, HashSet};

use super::code::{Code, Severity};
use super::examine::What;
use super::finding::Findings;
use super::image::{LARGEST, LONGEST_OF_MANY, LONGEST_SIDE, MANY, MOST};
use super::{Case, examine::ThinkingFault};
use crate::client::history::{CallId, History, Role, Rules, SentBlock};
use crate::conversation::table::{BlockId, BlockRow, Filling, Id, RowId, digest};
use crate::format::content::BlockKind;

/// The largest request that the API accepts, in bytes.
const LARGEST_REQUEST: u64 = 32 << 20;

/// Consecutive messages with the same role.
struct Turn<'a> {
    role: Role,
    blocks: Vec<&'a SentBlock>,
}

/// Reports what the API would refuse.
pub(super) fn request(case: &Case, found: &History, rules: Rules, findings: &mut Findings<'_>) {
    let turns = turns(found);
    let checking = Checking { case, rules };
    checking.contents(found, findings);
    checking.pairs(&turns, findings);
    checking.server_pairs(&turns, findings);
    checking.thinking(found, &turns, findings);
    checking.marks(found, &turns, findings);
    checking.size(found, findings);
}

fn turns(found: &History) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for message in found.messages.iter().filter(|message| message.role != Role::System) {
        match turns.last_mut() {
            Some(last) if last.role == message.role => last.blocks.extend(&message.blocks),
            _ => turns.push(Turn { role: message.role, blocks: message.blocks.iter().collect() }),
        }
    }
    turns
}

struct Checking<'a> {
    case: &'a Case,
    rules: Rules,
}

impl Checking<'_> {
    fn part(&self, block: &SentBlock) -> Option<&BlockRow> {
        block.origin().map(|origin| self.case.conversation.table.block(origin))
    }

    /// Whether the block is a tool call of which only the usual members are sent.
    fn is_plain(&self, block: Option<BlockId>) -> bool {
        let part = block.map(|block| self.case.conversation.table.block(block));
        part.is_some_and(|part| part.kind == BlockKind::ToolUse) && self.rules.sends_plain_calls()
    }

    fn row(&self, block: &SentBlock) -> Option<RowId> {
        self.part(block).map(|part| part.row)
    }

    fn contents(&self, found: &History, findings: &mut Findings<'_>) {
        let mut before = None;
        for message in &found.messages {
            let first = message.blocks.first().and_then(|block| self.row(block));
            if message.blocks.is_empty() {
                let text = "an empty message is sent after this one";
                findings.row(Code::EmptyContent, Severity::Rejected, before, text);
            }
            for block in &message.blocks {
                let filling = self.part(block).filter(|part| part.kind == BlockKind::Text);
                let text = match filling.map(|part| part.filling) {
                    Some(Filling::None) => "an empty text block is sent",
                    // A text that was joined with others is no longer blank.
                    Some(Filling::Blank) if block.is_blank() => {
                        "a text block with only white space is sent"
                    }
                    _ => continue,
                };
                findings.row(Code::EmptyContent, Severity::Rejected, self.row(block), text);
            }
            before = first.or(before);
        }
    }

    /// Each call must be answered directly after it, and each result must answer a call directly
    /// before it.
    fn pairs(&self, turns: &[Turn<'_>], findings: &mut Findings<'_>) {
        let mut used: HashSet<CallId> = HashSet::new();
        let mut open: Vec<(CallId, Option<RowId>)> = Vec::new();
        for turn in turns {
            let results: Vec<_> = of_kind(&turn.blocks, BlockKind::ToolResult).collect();
            let answered: HashSet<CallId> =
                results.iter().filter_map(|block| block.call()).collect();
            for (_, row) in open.iter().filter(|(id, _)| !answered.contains(id)) {
                let text = "a tool call is sent, and its result does not follow directly";
                findings.row(Code::Unpaired, Severity::Rejected, *row, text);
            }
            let mut seen: HashSet<CallId> = HashSet::new();
            let asked: HashSet<CallId> = open.iter().map(|(id, _)| *id).collect();
            for block in results {
                let Some(id) = block.call() else { continue };
                if !asked.contains(&id) {
                    let text =
                        "a tool result is sent, and its call is not in the message before it";
                    findings.row(Code::OrphanResult, Severity::Rejected, self.row(block), text);
                } else if !seen.insert(id) {
                    let text = "two results of the same tool call are sent";
                    findings.row(Code::RepeatedResult, Severity::Rejected, self.row(block), text);
                }
            }
            // The API does not see results that follow a text.
            let is_result = |block: &&&SentBlock| block.kind() == BlockKind::ToolResult;
            let lead = turn.blocks.iter().take_while(|block| !is_result(block)).count();
            if turn.role == Role::User && lead > 0 && !seen.is_empty() {
                let text = "a text is sent before the tool results";
                let row = turn.blocks.first().and_then(|block| self.row(block));
                findings.row(Code::Unpaired, Severity::Rejected, row, text);
            }
            open.clear();
            for block in of_kind(&turn.blocks, BlockKind::ToolUse) {
                let Some(id) = block.call() else { continue };
                if !used.insert(id) {
                    let text = "two tool calls with the same id are sent";
                    findings.row(Code::RepeatedCall, Severity::Rejected, self.row(block), text);
                }
                open.push((id, self.row(block)));
            }
        }
        for (_, row) in open {
            let text = "a tool call is sent, and nothing follows it";
            findings.row(Code::Unpaired, Severity::Rejected, row, text);
        }
    }

    /// A server tool, which the API runs itself, is answered in the same message.
    fn server_pairs(&self, turns: &[Turn<'_>], findings: &mut Findings<'_>) {
        for turn in turns {
            // Open calls by id; several calls with the same id are closed one by one.
            let mut open: HashMap<Option<Id>, Vec<Option<RowId>>> = HashMap::new();
            for block in &turn.blocks {
                let id = self.part(block).and_then(|part| part.id);
                match block.kind() {
                    BlockKind::ServerToolUse => open.entry(id).or_default().push(self.row(block)),
                    BlockKind::ServerToolResult
                        if open.get_mut(&id).and_then(Vec::pop).is_none() =>
                    {
                        let (code, row) = (Code::OrphanServerResult, self.row(block));
                        let text = "the result of a server tool, which the API runs, is sent without its call";
                        findings.row(code, Severity::Rejected, row, text);
                    }
                    _ => {}
                }
            }
            for row in open.into_values().flatten() {
                let text =
                    "a call of a server tool, which the API runs, is sent without its result";
                findings.row(Code::OpenServerCall, Severity::Rejected, row, text);
            }
        }
    }

    fn thinking(&self, found: &History, turns: &[Turn<'_>], findings: &mut Findings<'_>) {
        let table = &self.case.conversation.table;
        for turn in turns.iter().filter(|turn| turn.role == Role::Assistant) {
            if let Some(last) = turn.blocks.last().filter(|block| block.is_thinking()) {
                let text = "an answer that ends with thinking is sent";
                findings.row(Code::ThinkingMisplaced, Severity::Rejected, self.row(last), text);
            }
        }
        if self.rules.drops_foreign_thinking {
            return;
        }
        let answers = found.rows.iter().filter_map(|row| table.row(*row).answer);
        let mut models = answers.filter_map(|answer| table.answer(answer).model);
        let last = models.rfind(|model| table.ids.text(*model) != "<synthetic>");
        for block in turns.iter().flat_map(|turn| &turn.blocks).filter(|block| block.is_thinking())
        {
            let row = self.row(block);
            let answer = row.and_then(|row| table.row(row).answer);
            let model = answer.and_then(|answer| table.answer(answer).model);
            if model.is_some() && last.is_some() && model != last {
                // The API was observed to accept the thinking of other Claude models.
                let name = table.text(model).unwrap_or_default();
                let (severity, text) = if name.starts_with("claude-") {
                    (Severity::Note, "thinking of another Claude model is sent")
                } else {
                    (Severity::Rejected, "thinking of a non-Claude model is sent")
                };
                findings.row(Code::ThinkingForeign, severity, row, text);
            }
        }
    }

    /// Reports the faults of blocks that are sent.
    fn marks(&self, found: &History, turns: &[Turn<'_>], findings: &mut Findings<'_>) {
        let table = &self.case.conversation.table;
        let mut is_sent = vec![false; table.blocks().len()];
        let blocks = found.messages.iter().flat_map(|message| &message.blocks);
        for origin in blocks.filter_map(SentBlock::origin) {
            is_sent[origin.index()] = true;
        }
        let last = turns.iter().rfind(|turn| turn.role == Role::Assistant);
        let last: HashSet<BlockId> = last
            .into_iter()
            .flat_map(|turn| &turn.blocks)
            .filter_map(|block| block.origin())
            .collect();
        let sent = self.case.marks().filter(|(_, block)| match block {
            Some(block) => is_sent[block.index()],
            None => false,
        });
        let sent: Vec<_> = sent.collect();
        let images = sent.iter().filter(|(mark, _)| matches!(mark.what, What::Image(_))).count();
        if images > MOST {
            let text = format!("{images} images are sent; the API accepts at most {MOST}");
            findings.add(Code::ImageCount, Severity::Rejected, None, text);
        }
        let surrogates =
            self.case.examined.marks.iter().filter(|_| !self.rules.replaces_surrogates);
        for mark in surrogates.filter(|mark| mark.what == What::Surrogate) {
            let row = self.case.row_at(mark.offset);
            if row.is_some_and(|row| table.blocks_of(row).any(|part| is_sent[part.index()])) {
                let text =
                    "an unpaired UTF-16 surrogate is sent; the API refuses it as invalid JSON";
                findings.add(Code::LoneSurrogate, Severity::Rejected, Some(mark.line), text);
            }
        }
        for (mark, block) in &sent {
            let mut add = |code: Code, text: String| {
                findings.add(code, Severity::Rejected, Some(mark.line), text);
            };
            match &mark.what {
                What::Content(text) => add(Code::ContentShape, format!("the message {text}")),
                What::BlockType(name) => add(
                    Code::UnknownBlock,
                    format!(
                        "a block of type `{name}` is sent, which the API does not accept there"
                    ),
                ),
                What::BlockField(_) if self.is_plain(*block) => {}
                What::BlockField(name) => add(
                    Code::UnknownField,
                    format!("a block with the field `{name}` is sent, which the API does not know"),
                ),
                What::Call(text) => add(Code::CallForm, format!("a tool call that {text} is sent")),
                What::Thinking(fault) => {
                    let is_last = block.is_some_and(|block| last.contains(&block));
                    self.thinking_fault(*fault, is_last, *block, mark.line, findings);
                }
                What::Image(image) => {
                    if let Some(fault) = &image.fault {
                        add(Code::ImageEncoding, format!("an image is sent {fault}"));
                    }
                    match image.size {
                        Some(size) if size <= LARGEST => {}
                        Some(size) => add(
                            Code::ImageSize,
                            format!(
                                "an image of {size} bytes is sent; the API accepts at most {LARGEST}"
                            ),
                        ),
                        None if image.is_cut => add(
                            Code::ImageSize,
                            "an image in a record of more than 16 MiB is sent".to_owned(),
                        ),
                        None => {}
                    }
                    let most = if images > MANY { LONGEST_OF_MANY } else { LONGEST_SIDE };
                    if let Some(side) = image.side.filter(|side| *side > most) {
                        let many = if images > MANY {
                            format!(" together with {} others", images - 1)
                        } else {
                            String::new()
                        };
                        add(
                            Code::ImageDimensions,
                            format!(
                                "an image with a side of {side} pixels is sent{many}; the API accepts at most {most}"
                            ),
                        );
                    }
                }
                _ => {}
            }
        }
    }

    fn thinking_fault(
        &self,
        fault: ThinkingFault,
        is_last: bool,
        block: Option<BlockId>,
        line: u64,
        findings: &mut Findings<'_>,
    ) {
        let table = &self.case.conversation.table;
        let (code, severity, text) = match fault {
            ThinkingFault::Unsigned => {
                (Code::ThinkingUnsigned, Severity::Rejected, "thinking without a signature is sent")
            }
            ThinkingFault::Altered => (
                Code::ThinkingAltered,
                Severity::Rejected,
                "thinking is sent whose signature is not base64, or also belongs to another text",
            ),
            ThinkingFault::OfUser => {
                (Code::ThinkingMisplaced, Severity::Rejected, "thinking is sent in a user message")
            }
            ThinkingFault::NoData => {
                (Code::ThinkingEmpty, Severity::Rejected, "redacted thinking without data is sent")
            }
            // The API compares only the last answer.
            ThinkingFault::Hollow { .. } if !is_last => return,
            ThinkingFault::Hollow { is_usual } => {
                let answer = block.and_then(|block| table.row(table.block(block).row).answer);
                let model = table.text(answer.and_then(|answer| table.answer(answer).model));
                let aloud = self.case.examined.thinks_aloud.contains(&digest(model.unwrap_or("")));
                if aloud || !is_usual {
                    let text = "the last answer's thinking has a signature but no text: it had text when it was signed";
                    (Code::ThinkingEmpty, Severity::Rejected, text)
                } else {
                    let text = "the last answer's thinking has a signature but no text: the API accepts that if it returned it that way";
                    (Code::ThinkingEmpty, Severity::Note, text)
                }
            }
        };
        findings.add(code, severity, Some(line), text);
    }

    fn size(&self, found: &History, findings: &mut Findings<'_>) {
        let table = &self.case.conversation.table;
        let blocks = found.messages.iter().flat_map(|message| &message.blocks);
        let size: u64 = blocks.filter_map(SentBlock::origin).map(|block| table.size(block)).sum();
        if size > LARGEST_REQUEST {
            let text = format!(
                "{size} bytes of messages are sent; the API accepts at most {LARGEST_REQUEST}"
            );
            findings.add(Code::RequestSize, Severity::Rejected, None, text);
        }
    }
}

fn of_kind<'a>(
    blocks: &'a [&'a SentBlock],
    kind: BlockKind,
) -> impl Iterator<Item = &'a SentBlock> {
    blocks.iter().copied().filter(move |block| block.kind() == kind)
}
