//! A session that is open: its conversations, divided into windows.
//!
//! A [`Flow`] is a conversation to read: the live branch, another branch, or a sub-agent. It is
//! divided into windows of about the same size, and a page holds a few of them, however long the
//! session is. Invariants: every step of a flow is in exactly one window; appending to a session
//! changes only its last window; no text is kept in memory.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use transcript::client::check::{Checked, Report, check_with};
use transcript::client::context::{self, Group, GroupBy};
use transcript::client::history::{History, Rules};
use transcript::conversation::agents::{Body, Owner, WithAgents};
use transcript::conversation::graph::ChainId;
use transcript::conversation::place::{FoundSecrets, agents};
use transcript::conversation::preview::{Preview, preview};
use transcript::conversation::price::Prices;
use transcript::conversation::table::{BlockId, GrowingTable, RowId};
use transcript::conversation::turn::{Step, Turn};
use transcript::conversation::usage::Spending;
use transcript::conversation::view;
use transcript::format::content::BlockKind;
use transcript::format::secret::{Cover, Redactor};
use transcript::{Conversation, Session};

use crate::earlier::Survey;
use crate::timeline::Mark;

/// Which conversation of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FlowName {
    Live,
    Chain(u32),
    Agent(usize),
}

impl FlowName {
    pub(crate) fn parse(text: &str) -> Option<FlowName> {
        let number = |rest: &str| rest.parse().ok();
        match text.split_at_checked(1)? {
            ("m", "") => Some(FlowName::Live),
            ("c", rest) => number(rest).map(FlowName::Chain),
            ("a", rest) => rest.parse().ok().map(FlowName::Agent),
            _ => None,
        }
    }

    /// For people.
    pub(crate) fn words(self) -> String {
        match self {
            FlowName::Live => "live branch".to_owned(),
            FlowName::Chain(number) => format!("branch {number}"),
            FlowName::Agent(number) => format!("sub-agent {}", number + 1),
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            FlowName::Live => "m".to_owned(),
            FlowName::Chain(number) => format!("c{number}"),
            FlowName::Agent(number) => format!("a{number}"),
        }
    }
}

/// A conversation to read.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) name: FlowName,
    pub(crate) owner: Owner,
    pub(crate) turns: Vec<Turn>,
    pub(crate) windows: Vec<Window>,
    /// How many of its first turns it shares with the live branch.
    pub(crate) shared: usize,
    spent: OnceLock<Spending>,
    pub(crate) marks: OnceLock<Vec<Mark>>,
}

/// Some steps that follow each other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    /// Turns, by their indices, and which of their steps.
    pub(crate) parts: Vec<(usize, Range<usize>)>,
    /// About how high it is on a page, in pixels.
    pub(crate) height: u32,
}

/// What an error is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorIn {
    /// An answer of the API.
    Answer,
    /// A call, or a result without its call.
    Call,
}

/// How many items a window has, and how many bytes of text are read for it.
const ITEMS: usize = 10;
const BYTES: u64 = 12_000;

impl Flow {
    fn new(session: &WithAgents, name: FlowName, owner: Owner, turns: Vec<Turn>) -> Flow {
        let table = &session.of(owner).table;
        let mut windows = Vec::new();
        let mut window = Window::default();
        let (mut items, mut bytes) = (0_usize, 0_u64);
        for (number, turn) in turns.iter().enumerate() {
            let mut begin = 0;
            for (at, step) in turn.steps.iter().enumerate() {
                let (more, text) = weight(table, step);
                if items > 0 && (items + more > ITEMS || bytes + text > BYTES) {
                    if at > begin {
                        window.parts.push((number, begin..at));
                    }
                    window.height = height(items, bytes, window.parts.len());
                    windows.push(std::mem::take(&mut window));
                    (items, bytes, begin) = (0, 0, at);
                }
                items += more;
                bytes += text;
            }
            if begin < turn.steps.len() || turn.steps.is_empty() {
                window.parts.push((number, begin..turn.steps.len()));
                items += 1;
            }
        }
        if !window.parts.is_empty() {
            window.height = height(items, bytes, window.parts.len());
            windows.push(window);
        }
        let (spent, marks) = (OnceLock::new(), OnceLock::new());
        Flow { name, owner, turns, windows, shared: 0, spent, marks }
    }

    /// Its turns with their indices; those that the live branch has, too, only if this is the flow
    /// that is shown.
    pub(crate) fn turns_beside(&self, shown: &Flow) -> impl Iterator<Item = (usize, &Turn)> {
        let begin = if self.name == shown.name { 0 } else { self.shared };
        self.turns.iter().enumerate().skip(begin)
    }

    /// The line of the first record from a window on that is or has an error; with `is_shown`, only
    /// of those errors.
    pub(crate) fn error_from(
        &self,
        session: &WithAgents,
        window: usize,
        is_shown: impl Fn(ErrorIn) -> bool,
    ) -> Option<u64> {
        let conversation = session.of(self.owner);
        let table = &conversation.table;
        let line = |block: BlockId| table.row(table.block(block).row).line;
        let failed = |call: &BlockId| {
            let result = conversation.pairs.of(*call);
            result.is_some_and(|result| table.block(result).is_error)
        };
        let windows = self.windows.get(window..).unwrap_or_default().iter();
        let parts = windows.flat_map(|window| &window.parts);
        let mut steps = parts.flat_map(|(turn, steps)| &self.turns[*turn].steps[steps.clone()]);
        steps.find_map(|step| match step {
            Step::Answer { id, blocks, .. } if table.answer(*id).is_error => {
                blocks.first().copied().filter(|_| is_shown(ErrorIn::Answer)).map(line)
            }
            Step::Answer { blocks, .. } if is_shown(ErrorIn::Call) => {
                blocks.iter().copied().find(failed).map(line)
            }
            Step::Orphan(block) if is_shown(ErrorIn::Call) => Some(line(*block)),
            _ => None,
        })
    }

    /// The window that a turn begins in.
    pub(crate) fn window_of_turn(&self, turn: usize) -> usize {
        let last = |window: &Window| window.parts.last().map_or(0, |part| part.0);
        self.windows.partition_point(|window| last(window) < turn)
    }

    /// The window with the record on that line, or the one before which it would be.
    pub(crate) fn window_of_line(&self, session: &WithAgents, line: u64) -> Option<usize> {
        let table = &session.of(self.owner).table;
        let has = |step: &Step| {
            let row = |row: RowId| table.row(row).line == line;
            match step {
                Step::Said(one) | Step::Event(one) => row(*one),
                Step::Orphan(block) => row(table.block(*block).row),
                Step::Answer { blocks, .. } => blocks.iter().any(|block| {
                    let answer = session.of(self.owner).pairs.of(*block);
                    row(table.block(*block).row)
                        || answer.is_some_and(|answer| row(table.block(answer).row))
                }),
            }
        };
        self.windows.iter().position(|window| {
            let mut parts = window.parts.iter();
            parts.any(|(turn, steps)| self.turns[*turn].steps[steps.clone()].iter().any(has))
        })
    }
}

/// About how many items a step shows, and how many bytes of text.
fn weight(table: &transcript::conversation::table::Table, step: &Step) -> (usize, u64) {
    match step {
        Step::Said(row) => (1, table.row(*row).len.min(20_000)),
        Step::Event(_) | Step::Orphan(_) => (1, 200),
        Step::Answer { blocks, .. } => blocks.iter().fold((0, 0), |(items, bytes), block| {
            let part = table.block(*block);
            match part.kind {
                BlockKind::Text => (items + 1, bytes + table.row(part.row).len.min(20_000)),
                BlockKind::Thinking | BlockKind::RedactedThinking => (items + 1, bytes + 100),
                _ => (items + 1, bytes + 200),
            }
        }),
    }
}

fn height(items: usize, bytes: u64, turns: usize) -> u32 {
    let all = items as u64 * 36 + bytes / 5 + turns as u64 * 30;
    u32::try_from(all).unwrap_or(u32::MAX).min(20_000)
}

/// How many dead ends are listed, searched, and put into a file.
pub(crate) const DEAD_ENDS: usize = 200;
/// How many sub-agents are in the cost of a session.
pub(crate) const PRICED: usize = 2_000;
/// How many of them are kept in memory: each has all of its turns from the first one on.
const KEPT: usize = 8;

/// A branch that is not the live one, with the turns that it has alone.
#[derive(Debug)]
pub(crate) struct DeadEnd {
    pub(crate) chain: ChainId,
    pub(crate) turns: Vec<Turn>,
}

/// What fills the context.
#[derive(Debug)]
pub(crate) struct Filling {
    pub(crate) model: String,
    pub(crate) window: Option<u64>,
    pub(crate) compacts_from: Option<u64>,
    pub(crate) tokens: u64,
    pub(crate) is_estimate: bool,
    pub(crate) groups: Vec<(GroupBy, Vec<Group>)>,
}

/// What is computed only once, and only if it is asked for.
type Later<T> = OnceLock<Result<T, String>>;

/// A session that is open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) session: Session,
    pub(crate) seen: Preview,
    pub(crate) family: WithAgents,
    pub(crate) live: Arc<Flow>,
    pub(crate) dead: Vec<DeadEnd>,
    flows: Mutex<HashMap<FlowName, Arc<Flow>>>,
    report: Later<Report>,
    /// What the newest client would be sent, if that is known already.
    sent: Option<History>,
    filling: Later<Filling>,
    cover: Later<Cover>,
    spent: OnceLock<Spending>,
}

impl Opened {
    pub(crate) fn open(session: Session) -> transcript::Result<Opened> {
        let family = WithAgents::open(&session)?;
        Opened::of_family(session, family)
    }

    /// Opens a session that was also checked, by the rules of the newest client: the file is read
    /// once for both.
    pub(crate) fn of_checked(session: Session, checked: Checked) -> transcript::Result<Opened> {
        let family = WithAgents::of_main(checked.main, agents(&session));
        let opened = Opened { sent: checked.sent, ..Opened::of_family(session, family)? };
        // Nobody has asked yet.
        let _ = opened.report.set(Ok(checked.report));
        Ok(opened)
    }

    /// Opens a session again that has grown: only what is new in its file is read.
    pub(crate) fn open_again(
        session: Session,
        growing: &mut GrowingTable,
    ) -> transcript::Result<Opened> {
        let main = Conversation::open_growing(&session.path, growing)?;
        let family = WithAgents::of_main(main, agents(&session));
        Opened::of_family(session, family)
    }

    fn of_family(session: Session, family: WithAgents) -> transcript::Result<Opened> {
        let seen = preview(&session.path)?;
        let turns = family.main.turns();
        let live = Flow::new(&family, FlowName::Live, Owner::Main, turns.live);
        let dead = turns.dead.into_iter().map(|(chain, turns)| DeadEnd { chain, turns });
        Ok(Opened {
            dead: dead.collect(),
            session,
            seen,
            live: Arc::new(live),
            family,
            flows: Mutex::default(),
            report: OnceLock::new(),
            sent: None,
            filling: OnceLock::new(),
            cover: OnceLock::new(),
            spent: OnceLock::new(),
        })
    }

    /// The title, or the first prompt.
    pub(crate) fn title(&self) -> &str {
        let title = self.seen.title.as_deref().or(self.seen.prompt.as_deref());
        title.unwrap_or("(no messages)")
    }

    pub(crate) fn flow(&self, name: FlowName) -> Option<Arc<Flow>> {
        if name == FlowName::Live {
            return Some(Arc::clone(&self.live));
        }
        let mut known = self.flows.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(flow) = known.get(&name) {
            return Some(Arc::clone(flow));
        }
        let family = &self.family;
        let flow = match name {
            FlowName::Live => return None,
            FlowName::Chain(number) => {
                let chain = self.dead.iter().find(|dead| dead.chain.0 == number)?.chain;
                let turns = family.main.turns_in(&family.main.graph.path(chain));
                let live = self.live.turns.iter();
                let is_same = |(one, other): &(&Turn, &Turn)| one.steps == other.steps;
                let shared = turns.iter().zip(live).take_while(is_same).count();
                Flow { shared, ..Flow::new(family, name, Owner::Main, turns) }
            }
            FlowName::Agent(at) => {
                let turns = family.turns(family.agents.get(at)?);
                Flow::new(family, name, Owner::Agent(at), turns)
            }
        };
        let is_dead = |name: &FlowName| matches!(name, FlowName::Chain(_));
        if is_dead(&name) && known.keys().filter(|name| is_dead(name)).count() >= KEPT {
            known.retain(|name, _| !is_dead(name));
        }
        let flow = Arc::new(flow);
        known.insert(name, Arc::clone(&flow));
        Some(flow)
    }

    /// A flow, and if it is the live branch, all others: sub-agents, then dead ends.
    pub(crate) fn parts(&self, flow: &Flow) -> impl Iterator<Item = FlowName> {
        let agents = (0..self.family.agents.len()).map(FlowName::Agent);
        let others = agents.chain(self.dead_ends());
        let others = others.filter(|_| flow.name == FlowName::Live);
        std::iter::once(flow.name).chain(others)
    }

    /// The dead ends that are shown.
    pub(crate) fn dead_ends(&self) -> impl Iterator<Item = FlowName> {
        self.dead.iter().take(DEAD_ENDS).map(|dead| FlowName::Chain(dead.chain.0))
    }

    /// The flow that shows the record on a line of the session's file.
    pub(crate) fn flow_with(&self, line: u64) -> Option<FlowName> {
        let main = &self.family.main;
        let at = main.table.rows().partition_point(|row| row.line < line);
        let (row, known) = main.table.numbered().nth(at)?;
        if known.line != line {
            return None;
        }
        let chain = main.graph.chain_of(row);
        if self.dead.iter().any(|dead| dead.chain == chain) {
            return Some(FlowName::Chain(chain.0));
        }
        let has = |body: &Body| matches!(body, Body::Sidechain(chains) if chains.contains(&chain));
        let agent = self.family.agents.iter().position(|agent| has(&agent.body));
        agent.map(FlowName::Agent)
    }

    /// Which compaction of the live branch a boundary is, from 1.
    pub(crate) fn compaction_number(&self, boundary: RowId) -> Option<usize> {
        let main = &self.family.main;
        let live = main.live();
        let mut all = main.rows(&live).filter(|row| main.table.boundary(*row).is_some());
        all.position(|row| row == boundary).map(|at| at + 1)
    }

    /// What turns took and cost.
    pub(crate) fn spending(&self, flow: &Flow, prices: &Prices) -> Spending {
        let table = &self.family.of(flow.owner).table;
        *flow.spent.get_or_init(|| {
            flow.turns.iter().fold(Spending::default(), |mut sum, turn| {
                sum += turn.spending(table, prices);
                sum
            })
        })
    }

    /// What all of the session took and cost: the live branch, dead ends and sub-agents. Every
    /// message counts once.
    pub(crate) fn spending_of_all(&self, prices: &Prices) -> Spending {
        *self.spent.get_or_init(|| {
            let mut all = self.spending(&self.live, prices);
            let table = &self.family.main.table;
            for turn in self.dead.iter().flat_map(|dead| &dead.turns) {
                all += turn.spending(table, prices);
            }
            for at in 0..self.family.agents.len().min(PRICED) {
                if let Some(flow) = self.flow(FlowName::Agent(at)) {
                    all += self.spending(&flow, prices);
                }
            }
            all
        })
    }

    /// What `check` finds, by the rules of the newest client.
    pub(crate) fn report(&self, redactor: &Arc<Redactor>) -> Result<&Report, &str> {
        let report = self.report.get_or_init(|| {
            let agents = agents(&self.session);
            check_with(&self.session, agents, Rules::newest(), None, redactor)
                .map_err(|error| error.to_string())
        });
        report.as_ref().map_err(String::as_str)
    }

    /// Adds the secrets of the session to what `check` has found, if it was asked before.
    pub(crate) fn add_secrets(&mut self, found: &FoundSecrets) {
        if let Some(Ok(report)) = self.report.get_mut() {
            report.add_secrets(&self.family.main.table, &self.session.path, found);
        }
    }

    /// What `check` has found, if it was asked before.
    pub(crate) fn known_report(&self) -> Option<&Report> {
        self.report.get()?.as_ref().ok()
    }

    /// The secrets of the session and of what belongs to it.
    pub(crate) fn cover(&self, survey: &dyn Survey) -> Result<&Cover, &str> {
        let cover = self.cover.get_or_init(|| survey.cover(&self.session));
        cover.as_ref().map_err(String::as_str)
    }

    /// What would be sent now, by the rules of the newest client.
    pub(crate) fn filling(&self) -> Result<&Filling, &str> {
        let filling = self.filling.get_or_init(|| {
            let main = &self.family.main;
            let counted = match &self.sent {
                Some(sent) => context::count_outline(main, sent, Rules::newest()).map(Ok),
                None => context::count(main, Rules::newest()),
            };
            let counted = counted.map_err(|error| error.to_string())?;
            let counted =
                counted.map_err(|_| "the client does not resume this session".to_owned())?;
            let groups = |by| (by, counted.groups(&main.table, by));
            Ok(Filling {
                groups: GroupBy::ALL.into_iter().map(groups).collect(),
                is_estimate: counted.is_estimated(),
                model: counted.model,
                window: counted.window,
                compacts_from: counted.compacts_from,
                tokens: counted.tokens,
            })
        });
        filling.as_ref().map_err(String::as_str)
    }

    /// What the turn of that number in a flow is about, in one line.
    pub(crate) fn headline(&self, flow: &Flow, turn: usize) -> String {
        self.headline_of(flow.owner, flow.turns.get(turn))
    }

    /// What a turn of the session or a sub-agent is about.
    pub(crate) fn headline_of(&self, owner: Owner, turn: Option<&Turn>) -> String {
        let words = turn.map(|turn| view::headline(self.family.of(owner), turn));
        words.transpose().map_or_else(|error| error.to_string(), Option::unwrap_or_default)
    }

    /// A turn with only some of its steps, for `view::items`.
    pub(crate) fn part_of(turn: &Turn, steps: &[Step]) -> Turn {
        Turn { steps: steps.to_vec(), ..Turn { steps: Vec::new(), ..bare(turn) } }
    }

    /// A turn that consists of one block.
    pub(crate) fn only(&self, flow: &Flow, block: BlockId) -> Option<Turn> {
        let table = &self.family.of(flow.owner).table;
        let row = table.blocks().get(block.index())?.row;
        let turn = flow.turns.first()?;
        let step = match table.row(row).answer {
            Some(id) => Step::Answer { id, blocks: vec![block], counts: false },
            None => return None,
        };
        Some(Opened::part_of(turn, &[step]))
    }
}

/// A turn without its steps.
fn bare(turn: &Turn) -> Turn {
    Turn {
        input: turn.input,
        round: turn.round,
        steps: Vec::new(),
        outcome: turn.outcome,
        rows: turn.rows,
        times: turn.times,
        measured: turn.measured,
        is_cut: turn.is_cut,
    }
}

#[cfg(test)]
#[path = "opened_tests.rs"]
mod tests;
