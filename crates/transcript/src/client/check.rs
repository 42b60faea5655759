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
    self, AttachmentCache, History, Limit, Range, Refusal, Rules, outline_with, parse_version,
    ranges_for, version_name,
};
use crate::conversation::Conversation;
use crate::conversation::agents::{Body, WithAgents};
use crate::conversation::place::{Agent, FoundSecrets, Session, agents};
use crate::conversation::table::{BlockId, Id, RowId, Table};
use crate::format::content::BlockKind;
use crate::format::entry::Kind;
use crate::format::secret::Redactor;
use crate::format::threads;
use crate::format::time::Time;
use crate::names::named;
use examine::Examined;
pub(crate) use examine::{Mark, ThinkingFault, What, fields};
use finding::Findings;
pub(crate) use image::{
    LARGEST as LARGEST_IMAGE, LONGEST_OF_MANY, LONGEST_SIDE, MANY, MOST, OTHER_TYPE, media_type,
    pixels,
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
    /// How full the context of the model that continues is; `None` if no answer that is sent
    /// reports it.
    pub context: Option<Limit>,
    /// Everything that is wrong, worst first.
    pub findings: Vec<Finding>,
    /// The verdicts of some versions that differ much, oldest first.
    pub versions: Vec<(String, Verdict)>,
    /// The verdicts of all published versions, oldest first.
    pub ranges: Vec<VersionRange>,
}

impl Report {
    /// The verdict of a published version.
    pub fn verdict_of(&self, rules: Rules) -> Option<Verdict> {
        let range = self.ranges.iter().find(|range| {
            let from = parse_version(&range.from);
            let to = parse_version(&range.to);
            from.is_some_and(|from| from <= rules.version)
                && to.is_some_and(|to| rules.version <= to)
        });
        range.map(|range| range.verdict)
    }
}

impl Report {
    /// Adds what a search found in the session's files, whose table this is.
    pub fn add_secrets(&mut self, table: &Table, session: &Path, found: &FoundSecrets) {
        let (mut main, mut agents) = (Findings::new(table), Findings::new(table));
        for (path, kinds) in &found.seen {
            if path == session {
                surroundings::secrets(kinds, None, &mut main);
            } else {
                surroundings::secrets(kinds, Some(&surroundings::name(path)), &mut agents);
            }
        }
        self.findings.extend(main.into_list());
        self.findings.extend(agents.into_list());
        self.findings.sort_by(Finding::order);
    }
}

/// Published versions, one after the other, with the same verdict.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct VersionRange {
    /// The first version.
    pub from: String,
    /// The last version.
    pub to: String,
    /// Their verdict.
    pub verdict: Verdict,
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
    limit: Option<Limit>,
    leaf: Option<RowId>,
    pub(crate) reach: Reach,
    pub(crate) findings: Vec<Finding>,
    /// What it would be sent, in outline, if only this version was asked about.
    sent: Option<History>,
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
    check_and_keep(session, agents, rules, now, redactor).map(|checked| checked.report)
}

/// A report, and what was read for it.
#[derive(Debug)]
pub struct Checked {
    /// What is wrong.
    pub report: Report,
    /// The session.
    pub main: Conversation,
    /// The files of its sub-agents that could be read.
    pub agents: Vec<Conversation>,
    /// What would be sent, in [`outline`](history::outline), if only one version was asked about
    /// and that resumes the session.
    pub sent: Option<History>,
}

/// Like [`check_with`], for callers that also need what was read.
pub fn check_and_keep(
    session: &Session,
    agents: Vec<Agent>,
    rules: Rules,
    now: Option<Time>,
    redactor: &Arc<Redactor>,
) -> crate::Result<Checked> {
    check_by(session, agents, (rules, now), Examined::with(redactor), ranges_for)
}

/// Like [`check_and_keep`], by one version's rules alone: what other versions would do is most of
/// the work, and is left out of the report.
pub fn check_alone(
    session: &Session,
    agents: Vec<Agent>,
    rules: Rules,
    redactor: &Arc<Redactor>,
) -> crate::Result<Checked> {
    check_by(session, agents, (rules, None), Examined::with(redactor), only(rules))
}

/// Like [`check_alone`], but does not search for secrets, which takes half of the time: for callers
/// that want the verdict, which no secret changes, or have searched ([`Report::add_secrets`]).
pub fn check_unsearched(
    session: &Session,
    agents: Vec<Agent>,
    rules: Rules,
) -> crate::Result<Checked> {
    check_by(session, agents, (rules, None), Examined::default(), only(rules))
}

/// One version's rules.
fn only(rules: Rules) -> impl FnOnce(&Table) -> Vec<Range> {
    move |_| vec![Range { rules, last: rules.version }]
}

fn check_by(
    session: &Session,
    agents: Vec<Agent>,
    (rules, now): (Rules, Option<Time>),
    mut examined: Examined,
    ranges: impl FnOnce(&Table) -> Vec<Range>,
) -> crate::Result<Checked> {
    let conversation = Conversation::open_watched(&session.path, 0, &mut examined)?;
    let case = Case::new(conversation, examined);
    let mut shared = Findings::new(&case.conversation.table);
    judge::records(&case, rules, &mut shared)?;
    let shared = shared.into_list();
    let judged = judge_all(&case, rules, ranges(&case.conversation.table))?;
    report(case, agents, rules, now, shared, judged)
}

/// Of a session with more records than this, one version is judged after the other: what one is
/// sent takes some two hundred bytes for each record.
const MANY_RECORDS: usize = 200_000;

/// The verdicts of these versions. At most two threads: there is not enough work for more.
fn judge_all(case: &Case, asked: Rules, ranges: Vec<Range>) -> crate::Result<Vec<(Range, Judged)>> {
    // The newest versions take the longest, so they come first. Each thread takes the next one in
    // line.
    let is_alone = ranges.len() == 1;
    let next = Mutex::new(ranges.into_iter().rev());
    let cache = AttachmentCache::default();
    let judge = || {
        let mut judged = Vec::new();
        loop {
            let range = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(range) = range else { return Ok(judged) };
            let rules = if range.contains(asked.version) { asked } else { range.rules };
            let found = outline_with(&case.conversation, rules, Some("..."), &cache)?;
            let mut of_records = Findings::new(&case.conversation.table);
            judge::records(case, rules, &mut of_records)?;
            let of_records = Verdict::of(&of_records.into_list());
            let sent = found.as_ref().map_err(|refusal| *refusal);
            let one = judge::judge(case, rules, sent, of_records)?;
            let sent = found.ok().filter(|_| is_alone);
            judged.push((range, Judged { sent, ..one }));
        }
    };
    thread::scope(|scope| {
        let may_share =
            threads::count() > 1 && case.conversation.table.rows().len() <= MANY_RECORDS;
        let other = may_share.then(|| scope.spawn(judge));
        let mut judged: Vec<(Range, Judged)> = judge()?;
        if let Some(other) = other {
            let panicked = |_| Err(io::Error::other("a worker thread panicked").into());
            let others: crate::Result<Vec<(Range, Judged)>> = other.join().unwrap_or_else(panicked);
            judged.extend(others?);
        }
        judged.sort_by_key(|(range, _)| range.rules.version);
        Ok(judged)
    })
}

fn report(
    case: Case,
    agents: Vec<Agent>,
    rules: Rules,
    now: Option<Time>,
    shared: Vec<Finding>,
    judged: Vec<(Range, Judged)>,
) -> crate::Result<Checked> {
    let verdict = |version| {
        let known = judged.iter().find(|(range, _)| range.contains(version));
        known.map(|(_, judged)| judged.verdict)
    };
    let versions = Rules::landmarks().into_iter();
    let versions = versions.filter_map(|rules| Some((rules.name(), verdict(rules.version)?)));
    let versions: Vec<(String, Verdict)> = versions.collect();
    let ranges = by_verdict(&judged, |judged| judged.verdict);
    let ranges = ranges.into_iter().map(|((from, to), verdict)| VersionRange { from, to, verdict });
    let ranges = ranges.collect();
    let others = others(&judged, rules);
    let asked = judged.into_iter().find(|(range, _)| range.contains(rules.version));
    let Some((_, judged)) = asked else {
        return Err(io::Error::other("these are not the rules of a published version").into());
    };
    // A client that refuses a session may still have determined where to resume it.
    let leaf = judged.leaf.or_else(|| history::leaf(&case.conversation.table, rules)).map(|leaf| {
        let row = case.conversation.table.row(leaf);
        (row.line, case.conversation.table.text(row.uuid).map(str::to_owned))
    });
    let mut more = Findings::new(&case.conversation.table);
    surroundings::around(&case, rules, now, &mut more);
    if let Some(text) = judged.limit.as_ref().and_then(Limit::warning) {
        more.add(Code::ContextLimit, Severity::Note, None, text);
    }
    if let Some(text) = others {
        more.add(Code::OtherVersions, Severity::Note, None, text);
    }
    let mut findings = judged.findings;
    findings.extend(shared);
    findings.extend(more.into_list());
    let (more, main, agents) = if agents.is_empty() {
        let mut more = Findings::new(&case.conversation.table);
        surroundings::calls_without_agents(&case.conversation.table, &|_| false, &mut more);
        (more.into_list(), case.conversation, Vec::new())
    } else {
        of_agents(case, agents)
    };
    findings.extend(more);
    findings.sort_by(Finding::order);
    let verdict = Verdict::of(&findings);
    let (version, reach, context) = (rules.name(), judged.reach, judged.limit);
    let sent = judged.sent;
    let report = Report { verdict, version, leaf, reach, context, findings, versions, ranges };
    Ok(Checked { report, main, agents, sent })
}

/// Findings about the sub-agents of a session; the session, and its sub-agents' files.
fn of_agents(case: Case, agents: Vec<Agent>) -> (Vec<Finding>, Conversation, Vec<Conversation>) {
    let (family, seen) = WithAgents::around(case.conversation, agents, &case.examined);
    let files = family.agents.iter().filter_map(|agent| match &agent.body {
        Body::File(conversation) => Some(surroundings::name(&conversation.path)),
        Body::Sidechain(_) => None,
    });
    let examined: Vec<(String, Examined)> = files.zip(seen).collect();
    let mut findings = Findings::new(&family.main.table);
    surroundings::agents(&family, &examined, &mut findings);
    let findings = findings.into_list();
    let files = family.agents.into_iter().filter_map(|agent| match agent.body {
        Body::File(conversation) => Some(*conversation),
        Body::Sidechain(_) => None,
    });
    (findings, family.main, files.collect())
}

/// The first and last version of each run of ranges with the same outcome.
fn by_verdict<T: PartialEq>(
    judged: &[(Range, Judged)],
    outcome: impl Fn(&Judged) -> T,
) -> Vec<((String, String), T)> {
    let mut found: Vec<((String, String), T)> = Vec::new();
    for (range, judged) in judged {
        let last = version_name(range.last);
        match found.last_mut().filter(|(_, known)| *known == outcome(judged)) {
            Some(((_, to), _)) => *to = last,
            None => found.push(((range.rules.name(), last), outcome(judged))),
        }
    }
    found
}

/// What the other versions would do differently, as one sentence.
fn others(judged: &[(Range, Judged)], rules: Rules) -> Option<String> {
    let outcome = |judged: &Judged| (judged.verdict, judged.reach.lost);
    let (_, baseline) = judged.iter().find(|(range, _)| range.contains(rules.version))?;
    let mut groups: Vec<((Verdict, usize), Vec<String>)> = Vec::new();
    for ((from, to), found) in by_verdict(judged, outcome) {
        if found == outcome(baseline) {
            continue;
        }
        let name = if from == to { from } else { format!("{from} to {to}") };
        match groups.iter_mut().find(|(known, _)| *known == found) {
            Some((_, names)) => names.push(name),
            None => groups.push((found, vec![name])),
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
