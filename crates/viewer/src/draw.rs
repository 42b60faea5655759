//! The items of a conversation as HTML, for pages and for files.
//!
//! What is shown is decided by `transcript::conversation::view`; here it gets its form. Invariants:
//! every text passes the mask first, and `escape` last; on a page, what is folded away is not sent
//! until it is opened; in a file, it is inside.

mod aside;
mod only;
mod turn;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Write;

use maud::{Markup, PreEscaped, Render, html};
use transcript::client::check::Finding;
use transcript::conversation::agents::Owner;
use transcript::conversation::price::Prices;
use transcript::conversation::table::BlockId;
use transcript::conversation::turn::{Step, Turn};
use transcript::conversation::usage::Usage;
use transcript::conversation::view::{
    self, Answer, BlockView, Call, Item, MessageView, Piece, Role, size,
};
use transcript::format::content::BlockKind;
use transcript::format::secret::Mask;

pub(crate) use only::Only;
use turn::turn_end;

use crate::ansi::push_output;
use crate::call;
use crate::escape::{T, line, one_line, start};
use crate::opened::{Flow, FlowName, Opened};
use crate::prose::push_prose;
use crate::words::{Clock, span, tokens};

/// Where the HTML goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// To a page of the server: what is folded is requested when it is opened.
    Page,
    /// Into a file.
    File(FileForm),
}

/// How much of what is long is on a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Its beginning, and a link to all of it.
    #[default]
    Beginning,
    /// All of it.
    Whole,
}

/// What a file contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileForm {
    pub(crate) has_thinking: bool,
    pub(crate) has_tools: bool,
}

/// Draws the items of a session.
pub(crate) struct Drawing<'a> {
    pub(crate) opened: &'a Opened,
    pub(crate) mask: RefCell<Mask<'a>>,
    pub(crate) form: Form,
    pub(crate) prices: &'a Prices,
    pub(crate) findings: HashMap<u64, Vec<&'a Finding>>,
    /// Where the session is on the server, with a slash at the end.
    pub(crate) base: String,
    /// The command that uses the same homes, for commands that are shown.
    pub(crate) again: String,
    /// How such a command names the session.
    pub(crate) session: String,
    pub(crate) only: Only,
    pub(crate) extent: Extent,
    /// The turns of the live branch that are in a file; none: all.
    pub(crate) chosen: Option<&'a [bool]>,
    /// How deep sub-agents are nested now.
    pub(crate) depth: Cell<usize>,
    clock: Clock,
    /// What the answer took whose first text comes next.
    answer: RefCell<Option<String>>,
}

/// Whether items are the first ones of their answer: what it took stands beside its first text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Head {
    First,
    Again,
}

/// How deep sub-agents of sub-agents are drawn in a file.
const DEEPEST: usize = 6;
/// How much of a text is shown at first.
const LONG: usize = 24_000;

impl<'a> Drawing<'a> {
    pub(crate) fn new(opened: &'a Opened, mask: Mask<'a>, form: Form, prices: &'a Prices) -> Self {
        let mut findings: HashMap<u64, Vec<&Finding>> = HashMap::new();
        for finding in opened.known_report().into_iter().flat_map(|report| &report.findings) {
            if let (Some(line), None) = (finding.line, &finding.file) {
                findings.entry(line).or_default().push(finding);
            }
        }
        let mask = RefCell::new(mask);
        let [base, again, session] = <[String; 3]>::default();
        Drawing {
            opened,
            mask,
            form,
            prices,
            findings,
            base,
            again,
            session,
            only: Only::default(),
            extent: Extent::default(),
            chosen: None,
            depth: Cell::new(0),
            clock: Clock::default(),
            answer: RefCell::default(),
        }
    }

    /// A text without its secrets.
    pub(crate) fn masked(&self, text: &str) -> String {
        self.mask.borrow_mut().text(text).into_owned()
    }

    /// JSON without its secrets.
    pub(crate) fn masked_json(&self, json: &str) -> String {
        self.mask.borrow_mut().json(json).into_owned()
    }

    /// What the session is called: its title, or its first prompt if that may be shown.
    pub(crate) fn title(&self) -> String {
        let first = self.chosen.and_then(|chosen| chosen.iter().position(|is_in| *is_in));
        let words = match (&self.opened.seen.title, first) {
            (None, Some(turn)) => self.opened.headline(&self.opened.live, turn),
            _ => self.opened.title().to_owned(),
        };
        one_line(&self.masked(&words), 120)
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self.form, Form::File(_))
    }

    /// A window of a flow.
    pub(crate) fn window(&self, flow: &Flow, number: usize) -> transcript::Result<Markup> {
        self.window_of(flow, number, &|_| true)
    }

    /// A window of a flow, and of it only some turns.
    pub(crate) fn window_of(
        &self,
        flow: &Flow,
        number: usize,
        is_in: &dyn Fn(usize) -> bool,
    ) -> transcript::Result<Markup> {
        let mut out = String::new();
        self.push_window(flow, number, is_in, &mut out)?;
        Ok(PreEscaped(out))
    }

    /// Adds a window. What is in it is not copied from one element into the next: a file has many.
    pub(crate) fn push_window(
        &self,
        flow: &Flow,
        number: usize,
        is_in: &dyn Fn(usize) -> bool,
        out: &mut String,
    ) -> transcript::Result<()> {
        let Some(window) = flow.windows.get(number) else { return Ok(()) };
        // A turn may go on in several windows.
        let begins = window.parts.first().map_or(0, |(turn, _)| turn + 1);
        let _ = write!(out, "<section class=\"window\" data-begins=\"{begins}\">");
        for (turn, steps) in window.parts.iter().filter(|(turn, _)| is_in(*turn)) {
            self.push_part(flow, *turn, steps.clone(), out)?;
        }
        out.push_str("</section>");
        Ok(())
    }

    /// Adds some steps of a turn.
    fn push_part(
        &self,
        flow: &Flow,
        number: usize,
        steps: std::ops::Range<usize>,
        out: &mut String,
    ) -> transcript::Result<()> {
        let turn = &flow.turns[number];
        let is_last = steps.end == turn.steps.len();
        if steps.start == 0 {
            self.turn_head(flow, number).render_to(out);
        }
        for step in &turn.steps[steps] {
            for item in self.step(flow, turn, step)? {
                item.render_to(out);
            }
        }
        if is_last {
            turn_end(turn).render_to(out);
        }
        Ok(())
    }

    /// The anchor of a turn or a record in this flow.
    pub(crate) fn anchor(flow: FlowName, kind: &str, number: u64) -> String {
        match flow {
            FlowName::Live => format!("{kind}{number}"),
            other => format!("{}-{kind}{number}", other.text()),
        }
    }

    /// The items of a step.
    fn step(&self, flow: &Flow, turn: &Turn, step: &Step) -> transcript::Result<Vec<Markup>> {
        let part = Opened::part_of(turn, std::slice::from_ref(step));
        let blocks: &[BlockId] = match step {
            Step::Answer { blocks, .. } => blocks,
            _ => &[],
        };
        let table = &self.opened.family.of(flow.owner).table;
        let mut drawn = Vec::new();
        // The head of an answer comes first; then one item for each block.
        let needs_texts = |block: &BlockId| {
            let kind = table.block(*block).kind;
            self.is_file() || !matches!(kind, BlockKind::Thinking)
        };
        let only: Vec<BlockId> = blocks.iter().copied().filter(needs_texts).collect();
        if let (Step::Answer { id, counts, .. }, true) = (step, only.len() < blocks.len()) {
            let mut head = Head::First;
            // What nobody has opened is not read.
            for block in blocks {
                if only.contains(block) {
                    let step = Step::Answer { id: *id, blocks: vec![*block], counts: *counts };
                    let part = Opened::part_of(turn, &[step]);
                    drawn.extend(self.items(flow, &part, &[*block], head)?);
                    head = Head::Again;
                } else if self.only == Only::Everything {
                    drawn.push(self.folded_thinking(flow, *block));
                }
            }
        } else {
            drawn = self.items(flow, &part, blocks, Head::First)?;
        }
        Ok(drawn)
    }

    /// The items of a turn; `blocks` are those of its only answer.
    fn items(
        &self,
        flow: &Flow,
        turn: &Turn,
        blocks: &[BlockId],
        head: Head,
    ) -> transcript::Result<Vec<Markup>> {
        let mut blocks = blocks.iter();
        let mut drawn = Vec::new();
        for item in view::items(&self.opened.family, flow.owner, turn) {
            let item = item?;
            if let (Item::Answer(answer), Head::First) = (&item, head) {
                self.answer.replace(Some(self.masked(&facts_of(answer))));
            }
            let block = match &item {
                Item::Block(_) | Item::Call(_) => blocks.next().copied(),
                _ => None,
            };
            if self.only.shows(&item) {
                drawn.push(self.item(flow, &item, block)?);
            }
        }
        Ok(drawn)
    }

    fn item(&self, flow: &Flow, item: &Item, block: Option<BlockId>) -> transcript::Result<Markup> {
        Ok(match item {
            Item::Message(message) => self.message(flow, message),
            Item::Answer(_) => html! {},
            Item::Block(one) => self.block(flow, one, block),
            Item::Call(call) => self.call(flow, call, block)?,
            Item::Orphan(orphan) => html! {
                article.item.call.bad.orphan id=(Drawing::anchor(flow.name, "L", orphan.line)) {
                    header { span.who { "Result without its call" } span.facts { (self.made_at(flow, orphan.line)) }
                        (self.tools(flow, orphan.line)) }
                    pre.out tabindex="0" { (self.output(&orphan.text())) }
                }
            },
            Item::Event(event) => self.event(flow, event),
        })
    }

    /// When a record was made.
    pub(crate) fn made_at(&self, flow: &Flow, number: u64) -> Markup {
        let rows = self.opened.family.of(flow.owner).table.rows();
        let row = rows.get(rows.partition_point(|row| row.line < number));
        let made = row.filter(|row| row.line == number).and_then(|row| row.time);
        made.map_or_else(|| html! {}, |made| self.clock.show(made))
    }

    /// What can be done with a record, and what `check` says about it.
    fn tools(&self, flow: &Flow, number: u64) -> Markup {
        let found = self.findings.get(&number).filter(|_| flow.owner == Owner::Main);
        html! {
            @if !self.is_file() { (self.raw_button(flow, number)) }
            @for finding in found.into_iter().flatten() {
                span.finding.(finding.severity.name()) title=(T(&finding.text)) {
                    (finding.code.name()) ": " (T(&finding.text))
                }
            }
        }
    }

    fn raw_button(&self, flow: &Flow, number: u64) -> Markup {
        html! {
            button.quiet.raw type="button" data-raw=(format!("{}raw/{}/{number}", self.base, flow.name.text()))
                title={ "The record on line " (number) } { "L" (number) }
        }
    }

    fn message(&self, flow: &Flow, message: &MessageView) -> Markup {
        let anchor = Drawing::anchor(flow.name, "L", message.line);
        let text = self.masked(&message.text);
        let is_agent = flow.owner != Owner::Main;
        let (class, who) = match message.role {
            Role::Prompt if is_agent => ("prompt", "Task"),
            Role::Prompt => ("prompt", "You"),
            Role::Queued => ("prompt", "You, meanwhile"),
            Role::Notification => ("notice", "Notification of a task"),
            Role::Peer => ("notice", "Another session or agent"),
            Role::Output => ("output", "Output of a command"),
            Role::Summary => ("summary", "Summary that replaces what was said before"),
            Role::Hook => ("aside", "Hook"),
            Role::Reminder => ("aside", "Reminder of the client"),
            Role::Interrupt => ("interrupt", "Interrupted"),
        };
        let media = message.content.iter().any(|piece| matches!(piece, Piece::Media { .. }));
        let additions: Vec<String> =
            message.additions().map(|words| self.masked(&words)).filter(|_| !media).collect();
        if text.trim().is_empty() && additions.is_empty() && !media {
            return html! {};
        }
        let body = html! {
            @match message.role {
                Role::Output => pre.out tabindex="0" { (self.output_masked(&text)) },
                Role::Summary => div.prose { (prose(&text)) },
                _ => (self.long(&text, flow, message.line)),
            }
            @if media { (self.media(flow, message.line)) }
            @for words in &additions { p.addition { (T(words)) } }
        };
        match message.role {
            Role::Hook | Role::Reminder | Role::Summary => html! {
                details.item.(class) id=(anchor) {
                    summary { span.who { (who) } " " span.about { (line(&text, 120)) }
                        span.facts { (self.made_at(flow, message.line)) } }
                    (self.tools(flow, message.line))
                    div.body { (body) }
                }
            },
            Role::Interrupt => html! {
                p.item.interrupt id=(anchor) { (line(&text, 200)) }
            },
            _ => html! {
                article.item.(class) id=(anchor) {
                    header { span.who { (who) } span.facts { (self.made_at(flow, message.line)) }
                        (self.tools(flow, message.line)) }
                    div.body { (body) }
                }
            },
        }
    }

    /// A text as it is, its beginning if it is long.
    fn long(&self, text: &str, flow: &Flow, number: u64) -> Markup {
        let (head, left) = start(text.trim_end(), if self.is_file() { usize::MAX } else { LONG });
        html! {
            div.text { (T(head)) }
            @if left > 0 {
                p { a.more href=(format!("{}text/{}/{number}", self.base, flow.name.text())) target="_blank"
                    rel="noopener" {
                    "Show all: " (size(left as u64)) " more"
                } }
            }
        }
    }

    fn block(&self, flow: &Flow, block: &BlockView, id: Option<BlockId>) -> Markup {
        let anchor = Drawing::anchor(flow.name, "L", block.line);
        match &block.piece {
            Some(Piece::Text { text, cut }) if !text.trim().is_empty() => {
                let text = self.masked(text);
                let most = if self.is_file() { usize::MAX } else { LONG };
                let (head, left) = start(&text, most);
                let class = if block.is_error { "answer bad" } else { "answer" };
                let table = &self.opened.family.of(flow.owner).table;
                let made = id.and_then(|id| table.row(table.block(id).row).time);
                let took = self.answer.take();
                html! {
                    article.item.(class) id=(anchor) {
                        header { span.who { @if block.is_error { "Error of the API" } @else { "Claude" } }
                            span.facts {
                                @if let Some(made) = made { (self.clock.show(made)) }
                                @if let Some(took) = &took { span { (T(took)) } }
                            }
                            (self.tools(flow, block.line)) }
                        div.body.prose { (prose(head)) }
                        @if left > 0 {
                            p { a.more href=(format!("{}text/{}/{}", self.base, flow.name.text(), block.line))
                                target="_blank" rel="noopener" {
                                "Show all: " (size(left as u64)) " more"
                            } }
                        }
                        @if *cut { (cut_note()) }
                    }
                }
            }
            Some(Piece::Thinking { text, .. }) if !text.trim().is_empty() => match self.form {
                Form::File(FileForm { has_thinking: false, .. }) => html! {},
                Form::File(_) => html! {
                    details.item.thinking id=(anchor) {
                        summary { span.who { "Thinking" } " " span.facts { span { (size(text.len() as u64)) }
                            (self.made_at(flow, block.line)) } }
                        div.body.prose { (prose(&self.masked(text))) }
                    }
                },
                Form::Page => id.map_or(html! {}, |id| self.folded_thinking(flow, id)),
            },
            Some(Piece::RedactedThinking) => html! {
                p.item.aside id=(anchor) { "Thinking that only the API can read" }
            },
            Some(Piece::Media { .. }) => html! {
                article.item.answer id=(anchor) { (self.media(flow, block.line)) }
            },
            Some(Piece::Other { kind, json, .. }) => {
                let json = self.masked_json(json.as_str());
                let shown = crate::escape::indented(&json);
                let (head, left) = start(&shown, LONG);
                html! {
                    details.item.aside id=(anchor) {
                        summary { span.who { (line(&self.masked(kind), 60)) } " " span.facts { (size(json.len() as u64)) } }
                        pre.code data-lang="json" tabindex="0" { (T(head)) }
                        @if left > 0 { p.addition { (size(left as u64)) " more: in the record on line " (block.line) } }
                    }
                }
            }
            _ => html! {},
        }
    }

    fn folded_thinking(&self, flow: &Flow, block: BlockId) -> Markup {
        let table = &self.opened.family.of(flow.owner).table;
        let row = table.row(table.block(block).row);
        // Some have only a signature.
        let words = self.opened.family.of(flow.owner).look_at(block, |block| {
            block
                .and_then(|block| block.get("thinking")?.text())
                .is_some_and(|text| !text.trim().is_empty())
        });
        if !words.unwrap_or(true) {
            return html! {};
        }
        let anchor = Drawing::anchor(flow.name, "L", row.line);
        html! {
            details.item.thinking id=(anchor) data-src=(self.part_address(flow, block)) {
                summary { span.who { "Thinking" } " " span.facts { (self.made_at(flow, row.line)) } }
                (self.unfolded(flow, block))
            }
        }
    }

    pub(crate) fn part_address(&self, flow: &Flow, block: BlockId) -> String {
        format!("{}part/{}/{}", self.base, flow.name.text(), block.0)
    }

    /// In place of what is not sent yet; without scripts, a link to it.
    fn unfolded(&self, flow: &Flow, block: BlockId) -> Markup {
        html! { p.lazy { a href=(self.part_address(flow, block)) { "Open" } } }
    }

    /// The folded part of a block: what is sent when it is opened.
    pub(crate) fn inside(&self, flow: &Flow, turn: &Turn) -> transcript::Result<Markup> {
        for item in view::items(&self.opened.family, flow.owner, turn) {
            match item? {
                Item::Call(call) => {
                    let id = turn.steps.iter().find_map(|step| match step {
                        Step::Answer { blocks, .. } => blocks.first().copied(),
                        _ => None,
                    });
                    let body = call::body(self, flow, &call, id)?;
                    // Its findings are below it.
                    return Ok(html! { (self.raw_button(flow, call.line)) (body) });
                }
                Item::Block(BlockView {
                    piece: Some(Piece::Thinking { text, .. }), line, ..
                }) => {
                    let text = self.masked(&text);
                    return Ok(
                        html! { (self.tools(flow, line)) div.body.prose { (prose(&text)) } },
                    );
                }
                _ => {}
            }
        }
        Ok(html! {})
    }

    fn call(&self, flow: &Flow, call: &Call, id: Option<BlockId>) -> transcript::Result<Markup> {
        if !self.has_tools() {
            return Ok(html! {});
        }
        let is_error = call.result.as_ref().is_some_and(|result| result.error);
        let facts: Vec<String> = call.facts().iter().map(|fact| self.masked(fact)).collect();
        let about = self.about(call);
        let took = call.result.as_ref().and_then(|result| result.duration_ms);
        let took = took.filter(|took| *took >= 1_000);
        let spent = self.spent_by(call);
        let error =
            is_error.then(|| call.result.as_ref().map(|result| self.masked(&result.text())));
        let error = error.flatten();
        let class = if is_error { "call bad" } else { "call" };
        let has_findings = flow.owner == Owner::Main && self.findings.contains_key(&call.line);
        let summary = html! {
            summary {
                span.tool { (line(&self.masked(&call.tool), 60)) }
                " "
                @match about.rfind('/').filter(|_| call.is_about_file()) {
                    // The name of a file is seen, however deep it is.
                    Some(at) => code.about.path { span { (line(&about[..=at], 1_000)) } b { (line(&about[at + 1..], 300)) } },
                    None => code.about { (line(&about, 220)) },
                }
                span.facts {
                    @for fact in &facts { span.(fact_class(fact)) { (line(fact, 80)) } }
                    @if let Some(error) = &error { span.error { (line(error, 140)) } }
                    @if let Some(took) = took { span { (span(took)) } }
                    @if let Some(spent) = &spent { span.cost { (spent) } }
                    (self.made_at(flow, call.line))
                }
            }
        };
        let anchor = Drawing::anchor(flow.name, "L", call.line);
        let body = match (self.form, id) {
            (Form::Page, Some(id)) => self.unfolded(flow, id),
            _ => call::body(self, flow, call, id)?,
        };
        let source = id.filter(|_| !self.is_file()).map(|id| self.part_address(flow, id));
        let result = call.result.as_ref().map(|result| result.line);
        Ok(html! {
            details.item.(class) id=(anchor) data-src=[source] {
                (summary)
                (body)
            }
            @if has_findings { p.findings { (self.tools(flow, call.line)) } }
            @if let Some(result) = result {
                span.at id=(Drawing::anchor(flow.name, "L", result)) {}
                @if flow.owner == Owner::Main && self.findings.contains_key(&result) {
                    p.findings { (self.tools(flow, result)) }
                }
            }
        })
    }

    /// Output of a terminal, not masked yet.
    pub(crate) fn output(&self, text: &str) -> Markup {
        self.output_masked(&self.masked(text))
    }

    fn output_masked(&self, text: &str) -> Markup {
        let _ = self;
        let mut out = String::new();
        push_output(&mut out, text);
        PreEscaped(out)
    }
}

fn fact_class(fact: &str) -> &'static str {
    match fact.chars().next() {
        Some('+') => "plus",
        Some('−') => "minus",
        _ if fact == "no result" => "error",
        _ => "fact",
    }
}

/// The model of an answer, and the tokens that it took.
fn facts_of(answer: &Answer) -> String {
    let mut facts = Vec::new();
    // What the client wrote in the model's place took nothing.
    let model = answer.model.as_ref().filter(|model| *model != "<synthetic>");
    facts.extend(model.map(|model| one_line(model, 40)));
    if let Some(usage) = answer.usage.as_ref().filter(|_| model.is_some()) {
        let counted = Usage {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_5m: usage.cache_write,
            at_least: !usage.r#final,
            ..Usage::default()
        };
        facts.push(tokens(counted));
    }
    facts.join(" · ")
}

/// Markdown, masked already.
pub(crate) fn prose(text: &str) -> Markup {
    let mut out = String::new();
    push_prose(&mut out, text);
    PreEscaped(out)
}

/// The note below a text whose middle is missing.
pub(crate) fn cut_note() -> Markup {
    html! { p.addition { "The record is too long for memory: the middle of its texts is missing." } }
}
