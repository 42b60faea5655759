//! Will it resume? What is wrong with a session, and what a client and the API would do with it.
//!
//! One pass over the file reads its table and examines each record (`examine`). Then, for each
//! version's rules, it determines what that version sends (an
//! [`outline`](crate::client::history::outline)), how much of the conversation that is (`reach`),
//! and what the API would refuse in it (`request`). The worst finding decides the verdict.
//! Invariants: nothing is written; memory grows with the number of records, not with their size;
//! the number of findings is bounded; no finding contains a secret.

mod code;
mod examine;
mod finding;
mod image;
mod judge;
mod reach;
mod request;
mod surroundings;

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use hashbrown::HashMap;

pub use code::{Code, Severity};
pub use finding::Finding;
pub use reach::Reach;
pub(crate) use reach::{is_replacing, is_voice};

use crate::client::history::{
    self, AttachmentCache, History, OBSERVED, Refusal, Rules, outline_with,
};
use crate::conversation::Conversation;
use crate::conversation::agents::{Body, WithAgents};
use crate::conversation::place::{Agent, Session, agents};
use crate::conversation::price;
use crate::conversation::table::{BlockId, BlockRow, Filling, Id, RowId};
use crate::format::content::BlockKind;
use crate::format::entry::Kind;
use crate::format::secret::Redactor;
use crate::format::time::Time;
use crate::names::named;
use examine::Examined;
pub(crate) use examine::{Mark, ThinkingFault, What, fields};
use finding::Findings;
pub(crate) use image::{
    LARGEST as LARGEST_IMAGE, LONGEST_OF_MANY, LONGEST_SIDE, MANY, MOST, OTHER_TYPE, media_type,
};

/// The result of a check.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whether the session resumes, decided by the worst finding.
    pub verdict: Verdict,
    /// The client version whose rules apply.
    pub version: String,
    /// The record that the client continues from: its line and its id.
    pub leaf: Option<(u64, Option<String>)>,
    /// How many messages are sent, summed up, left and lost.
    pub reach: Reach,
    /// How full the context of the model is; `None` if no answer reports it.
    pub context: Option<Context>,
    /// Everything that is wrong, worst first.
    pub findings: Vec<Finding>,
    /// The verdict of each observed version, oldest first.
    pub versions: Vec<(String, Verdict)>,
}

/// How much of a model's context window the conversation takes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Context {
    /// How many tokens the last answer read and wrote, as the API reported them.
    pub tokens: u64,
    /// The model that gave it.
    pub model: String,
    /// How many tokens that model reads at most; `None` if the model is not known.
    pub window: Option<u64>,
}

impl Context {
    /// After the last answer on the branch that the version resumes, if no compaction follows it.
    fn of(conversation: &Conversation, rules: Rules) -> Option<Context> {
        let table = &conversation.table;
        let leaf = history::leaf(table, rules)?;
        let live = conversation.graph.path(conversation.graph.chain_of(leaf));
        let rows: Vec<RowId> = conversation.rows(&live).collect();
        let after = rows.iter().rev().take_while(|row| table.boundary(**row).is_none());
        let mut answers = after.filter_map(|row| table.row(*row).answer);
        answers.find_map(|id| {
            let answer = table.answer(id);
            let tokens = answer.usage.as_ref()?.usage.total();
            let model = table.text(answer.model)?.to_owned();
            let window = price::known(&model).and_then(|price| price.max_input_tokens);
            (tokens > 0).then_some(Context { tokens, model, window })
        })
    }
}

named! {
    /// Whether a session resumes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Verdict {
        /// Everything that was said is sent, or was summed up or abandoned on purpose.
        Full = "full",
        /// Something that was said is not sent.
        Loss = "loss",
        /// The API would refuse the request.
        Rejected = "rejected",
        /// The client does not resume the session, or hangs.
        Refused = "refused",
    }
}

impl Verdict {
    fn of(findings: &[Finding]) -> Verdict {
        match findings.iter().map(|finding| finding.severity).max() {
            Some(Severity::Refused) => Verdict::Refused,
            Some(Severity::Rejected) => Verdict::Rejected,
            Some(Severity::Loss) => Verdict::Loss,
            _ => Verdict::Full,
        }
    }

    /// The verdict as a phrase, for people.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Full => "resumes fully",
            Verdict::Loss => "resumes with loss",
            Verdict::Rejected => "the API would refuse it",
            Verdict::Refused => "the client refuses it",
        }
    }
}

/// The verdict of one client version on a session.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    leaf: Option<RowId>,
    pub(crate) reach: Reach,
    pub(crate) findings: Vec<Finding>,
}

/// A session that is being checked.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) conversation: Conversation,
    pub(crate) examined: Examined,
    /// Offsets where damage begins, in order.
    damage: Vec<u64>,
    /// The first user or assistant record.
    first_said: Option<RowId>,
    /// For each tool call, the line of its first result.
    results: HashMap<Id, u64>,
    /// For each answer, its first record.
    answers: HashMap<Id, RowId>,
}

impl Case {
    fn new(conversation: Conversation, examined: Examined) -> Case {
        let table = &conversation.table;
        let is_damage = |mark: &&Mark| matches!(mark.what, What::Damaged(_) | What::Nul);
        let damage = examined.marks.iter().filter(is_damage).map(|mark| mark.offset).collect();
        let first_said =
            table.numbered().find(|(_, row)| matches!(row.kind, Kind::User | Kind::Assistant));
        let first_said = first_said.map(|(row, _)| row);
        let mut results = HashMap::new();
        for part in table.blocks().iter().filter(|part| part.kind == BlockKind::ToolResult) {
            if let Some(call) = part.id {
                results.entry(call).or_insert(table.row(part.row).line);
            }
        }
        let named = table.answers().iter().filter_map(|answer| Some((answer.id?, answer.first)));
        let answers = named.collect();
        Case { conversation, examined, damage, first_said, results, answers }
    }

    /// Opens a session for its records alone, without searching for secrets.
    pub(crate) fn open(file: File, path: &Path) -> crate::Result<Case> {
        let mut examined = Examined::default();
        let conversation = Conversation::of_file(file, path, 0, &mut examined)?;
        Ok(Case::new(conversation, examined))
    }

    /// Judges the session by the rules of one version. `found` is what that version would send.
    pub(crate) fn judge(
        &self,
        rules: Rules,
        found: Result<&History, Refusal>,
    ) -> crate::Result<Judged> {
        let mut shared = Findings::new(&self.conversation.table);
        judge::records(self, rules, &mut shared)?;
        let shared = shared.into_list();
        let mut judged = judge::judge(self, rules, found, Verdict::of(&shared))?;
        judged.findings.extend(shared);
        judged.findings.sort_by(Finding::order);
        Ok(judged)
    }

    /// The row whose record begins at that offset.
    pub(crate) fn row_at(&self, offset: u64) -> Option<RowId> {
        let rows = self.conversation.table.rows();
        let at = rows.binary_search_by_key(&offset, |row| row.offset).ok()?;
        u32::try_from(at).ok().map(RowId)
    }

    /// The marks on records, each with the block that it is about.
    pub(crate) fn marks(&self) -> impl Iterator<Item = (&Mark, Option<BlockId>)> {
        self.examined.marks.iter().map(|mark| {
            let block = mark.block.and_then(|block| {
                self.conversation.table.blocks_of(self.row_at(mark.offset)?).nth(block as usize)
            });
            (mark, block)
        })
    }

    /// Whether a `last-prompt` record names a record that is in the file.
    fn is_named(&self) -> bool {
        self.conversation
            .table
            .named_leaf
            .is_some_and(|id| self.conversation.graph.row_of(id).is_some())
    }

    /// Whether bytes between two records are damaged.
    fn is_damaged_between(&self, from: RowId, to: RowId) -> bool {
        let offset = |row: RowId| self.conversation.table.row(row).offset;
        let first = self.damage.partition_point(|at| *at < offset(from));
        self.damage.get(first).is_some_and(|at| *at < offset(to))
    }
}

/// Checks a session by the rules of a version. `now` decides which times are in the future.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("0a1b2c3d.jsonl");
/// # let said = r#""message":{"role":"user","content":"hello"}"#;
/// # let line = r#"{"type":"user","uuid":"a","timestamp":"2026-01-01T00:00:00.000Z","#;
/// # std::fs::write(&path, format!("{line}{said}}}\n"))?;
/// use transcript::client::history::Rules;
/// use transcript::{Session, check};
///
/// let report = check(&Session::at(&path)?, Rules::newest(), None)?;
/// for finding in &report.findings {
///     println!("{}: {}", finding.code, finding.text);
/// }
/// assert_eq!(report.verdict.name(), "full");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check(session: &Session, rules: Rules, now: Option<Time>) -> crate::Result<Report> {
    check_with(session, agents(session), rules, now, &Arc::default())
}

/// Like [`check`], with the sub-agents' files already known and with the user's own rules for
/// secrets.
pub fn check_with(
    session: &Session,
    agents: Vec<Agent>,
    rules: Rules,
    now: Option<Time>,
    redactor: &Arc<Redactor>,
) -> crate::Result<Report> {
    let mut examined = Examined::with(redactor);
    let conversation = Conversation::open_watched(&session.path, 0, &mut examined)?;
    let case = Case::new(conversation, examined);
    let mut shared = Findings::new(&case.conversation.table);
    judge::records(&case, rules, &mut shared)?;
    let shared = shared.into_list();
    let judged = judge_all(&case, rules, Verdict::of(&shared))?;
    report(case, agents, rules, now, shared, judged)
}

/// The verdicts of all observed versions. Versions that behave alike share one result. Two threads:
/// there is not enough work for more.
fn judge_all(case: &Case, asked: Rules, shared: Verdict) -> crate::Result<Vec<(Rules, Judged)>> {
    let mut linked = case.conversation.table.rows().iter().filter(|row| row.uuid.is_some());
    let is_timed = linked.all(|row| row.time.is_some());
    let is_odd = |part: &BlockRow| part.filling == Filling::OddContent;
    let is_plain = is_timed && !case.conversation.table.blocks().iter().any(is_odd);
    let is_alike = |rules: &Rules| is_plain && *rules != asked && ALIKE.contains(&rules.version);
    // The newest versions take the longest, so they come first. Each thread takes the next one in
    // line.
    let all = OBSERVED.into_iter().rev().filter(|rules| !is_alike(rules));
    let next = Mutex::new(all);
    let cache = AttachmentCache::default();
    let judge = || {
        let mut judged = Vec::new();
        loop {
            let rules = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(rules) = rules else { return Ok(judged) };
            let found = outline_with(&case.conversation, rules, Some("..."), &cache)?;
            let found = found.as_ref().map_err(|refusal| *refusal);
            judged.push((rules, judge::judge(case, rules, found, shared)?));
        }
    };
    thread::scope(|scope| {
        let other = scope.spawn(judge);
        let mut judged: Vec<(Rules, Judged)> = judge()?;
        let panicked = |_| Err(io::Error::other("a worker thread panicked").into());
        let others: crate::Result<Vec<(Rules, Judged)>> = other.join().unwrap_or_else(panicked);
        judged.extend(others?);
        // The versions that behave alike get a copy.
        let like =
            judged.iter().find(|(rules, _)| rules.version == LIKE).map(|(_, like)| like.clone());
        for rules in OBSERVED.into_iter().filter(is_alike) {
            judged.extend(like.clone().map(|like| (rules, like)));
        }
        judged.sort_by_key(|(rules, _)| rules.version);
        Ok(judged)
    })
}

/// Versions that continue as 2.0.76 does, if all records have times and no call has contents on
/// which only 2.0.76 exits. Their other differences do not matter here.
const ALIKE: [[u32; 3]; 2] = [[2, 0, 42], [2, 0, 50]];
const LIKE: [u32; 3] = [2, 0, 76];

fn report(
    case: Case,
    agents: Vec<Agent>,
    rules: Rules,
    now: Option<Time>,
    shared: Vec<Finding>,
    judged: Vec<(Rules, Judged)>,
) -> crate::Result<Report> {
    let versions: Vec<(String, Verdict)> =
        judged.iter().map(|(rules, judged)| (rules.name(), judged.verdict)).collect();
    let others = others(&judged, rules);
    let Some((_, judged)) = judged.into_iter().find(|(known, _)| *known == rules) else {
        return Err(
            io::Error::other("these are not the rules of an observed client version").into()
        );
    };
    // A client that refuses a session may still have determined where to resume it.
    let leaf = judged.leaf.or_else(|| history::leaf(&case.conversation.table, rules)).map(|leaf| {
        let row = case.conversation.table.row(leaf);
        (row.line, case.conversation.table.text(row.uuid).map(str::to_owned))
    });
    let context = Context::of(&case.conversation, rules);
    let mut more = Findings::new(&case.conversation.table);
    surroundings::around(&case, rules, now, &mut more);
    if let Some(text) = others {
        more.add(Code::OtherVersions, Severity::Note, None, text);
    }
    let mut findings = judged.findings;
    findings.extend(shared);
    findings.extend(more.into_list());
    if agents.is_empty() {
        let mut more = Findings::new(&case.conversation.table);
        surroundings::calls_without_agents(&case.conversation.table, &|_| false, &mut more);
        findings.extend(more.into_list());
    } else {
        findings.extend(of_agents(case, agents));
    }
    findings.sort_by(Finding::order);
    let verdict = Verdict::of(&findings);
    let (version, reach) = (rules.name(), judged.reach);
    Ok(Report { verdict, version, leaf, reach, context, findings, versions })
}

/// Findings about the sub-agents of a session.
fn of_agents(case: Case, agents: Vec<Agent>) -> Vec<Finding> {
    let (family, seen) = WithAgents::around(case.conversation, agents, &case.examined);
    let files = family.agents.iter().filter_map(|agent| match &agent.body {
        Body::File(conversation) => Some(surroundings::name(&conversation.path)),
        Body::Sidechain(_) => None,
    });
    let examined: Vec<(String, Examined)> = files.zip(seen).collect();
    let mut findings = Findings::new(&family.main.table);
    surroundings::agents(&family, &examined, &mut findings);
    findings.into_list()
}

/// What the other versions would do differently, as one sentence.
fn others(judged: &[(Rules, Judged)], rules: Rules) -> Option<String> {
    let outcome = |judged: &Judged| (judged.verdict, judged.reach.lost);
    let (_, baseline) = judged.iter().find(|(known, _)| *known == rules)?;
    let mut groups: Vec<((Verdict, usize), Vec<String>)> = Vec::new();
    for (known, found) in judged.iter().filter(|(_, found)| outcome(found) != outcome(baseline)) {
        match groups.iter_mut().find(|(known, _)| *known == outcome(found)) {
            Some((_, names)) => names.push(known.name()),
            None => groups.push((outcome(found), vec![known.name()])),
        }
    }
    let phrases = groups.into_iter().map(|((verdict, lost), names)| {
        let lost =
            if lost > 0 { format!(" ({} lost)", judge::messages(lost)) } else { String::new() };
        format!("{}: {}{lost}", names.join(", "), verdict.words())
    });
    let phrases: Vec<String> = phrases.collect();
    (!phrases.is_empty()).then(|| phrases.join("; "))
}
