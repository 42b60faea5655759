//! Will it resume? What is wrong with a session, and what a client and the API would make of it.
//!
//! One pass over the file reads its table and examines each record (`examine`); then each version's rules are asked what they send ([`outline`](crate::history::outline)), how much of the conversation
//! that is (`reach`), and what the API would refuse of it (`request`). The verdict is the worst finding. Invariants: nothing is written; memory grows with the number of records,
//! not with their size; the number of findings is bounded; no secret is ever in one.

mod around;
mod code;
mod examine;
mod finding;
mod image;
mod judge;
mod reach;
mod request;

use std::io;
use std::thread;

pub use code::{Code, Severity};
pub use finding::Finding;
pub use reach::Reach;

use crate::conversation::Conversation;
use crate::family::Family;
use crate::history::{OBSERVED, Rules};
use crate::place::{Session, agents};
use crate::table::{BlockId, RowId, Table};
use crate::time::Time;
use examine::{Examined, Mark};
use finding::Findings;

/// What was found.
#[derive(Clone, Debug)]
pub struct Report {
    /// What it comes to.
    pub verdict: Verdict,
    /// The version whose rules count.
    pub version: String,
    /// The record that the client goes on from: its line, and its id.
    pub leaf: Option<(u64, Option<String>)>,
    /// What becomes of the messages.
    pub reach: Reach,
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
    /// What the versions that were observed would do, the oldest first.
    pub versions: Vec<(String, Verdict)>,
}

/// Whether a session resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// All that was said is sent, or was summed up or left on purpose.
    Full,
    /// Something that was said is not sent.
    Loss,
    /// The API would refuse the request.
    Rejected,
    /// The client does not resume it, or hangs.
    Refused,
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

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Full => "full",
            Verdict::Loss => "loss",
            Verdict::Rejected => "rejected",
            Verdict::Refused => "refused",
        }
    }

    /// The same in words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Full => "resumes fully",
            Verdict::Loss => "resumes with loss",
            Verdict::Rejected => "the API would refuse it",
            Verdict::Refused => "the client refuses it",
        }
    }
}

/// What one version makes of a session.
#[derive(Debug)]
struct Judged {
    verdict: Verdict,
    leaf: Option<RowId>,
    reach: Reach,
    findings: Vec<Finding>,
}

/// A session that is being judged.
#[derive(Debug)]
struct Case {
    own: Conversation,
    examined: Examined,
}

impl Case {
    /// The row whose record begins there.
    fn row_at(&self, offset: u64) -> Option<RowId> {
        let rows = self.own.table.rows();
        let at = rows.binary_search_by_key(&offset, |row| row.offset).ok()?;
        u32::try_from(at).ok().map(RowId)
    }

    /// What was seen in records, with the blocks that it is about.
    fn marks(&self) -> impl Iterator<Item = (&Mark, Option<BlockId>)> {
        self.examined.marks.iter().map(|mark| {
            let block = mark.block.and_then(|block| {
                self.own.table.parts_of(self.row_at(mark.offset)?).nth(block as usize)
            });
            (mark, block)
        })
    }

    /// Whether a `last-prompt` record names a record that is there.
    fn is_named(&self) -> bool {
        self.own.table.named_leaf.is_some_and(|id| self.own.graph.row_of(id).is_some())
    }

    /// Whether bytes between two records are damaged.
    fn is_damaged_between(&self, from: Option<RowId>, to: RowId) -> bool {
        let offset = |row: RowId| self.own.table.row(row).offset;
        let from = from.map_or(0, offset);
        self.examined.marks.iter().any(|mark| {
            let is_damage = matches!(mark.what, examine::What::Damaged(_) | examine::What::Nul);
            is_damage && (from..offset(to)).contains(&mark.offset)
        })
    }
}

/// Judges a session by the rules of a version. `now` tells which times have not come yet.
pub fn check(session: &Session, rules: Rules, now: Option<Time>) -> io::Result<Report> {
    let mut examined = Examined::default();
    let own = Conversation::open_watched(&session.path, 0, &mut examined)?;
    let case = Case { own, examined };
    let mut shared = Findings::new(&case.own.table);
    judge::records(&case, rules, &mut shared)?;
    let shared = shared.into_list();
    let judged = judge_all(&case, rules, &shared)?;
    report(case, session, rules, now, shared, judged)
}

/// What the observed versions make of it. Of those that hardly differ one speaks for the others, unless it is asked for. Two threads: there is not enough to do
/// for more.
fn judge_all(case: &Case, asked: Rules, shared: &[Finding]) -> io::Result<Vec<(Rules, Judged)>> {
    let judge = |all: &[Rules]| -> io::Result<Vec<(Rules, Judged)>> {
        let one = |rules: &Rules| {
            let mut judged = judge::judge(case, *rules)?;
            judged.verdict = Verdict::of(&judged.findings).max(Verdict::of(shared));
            Ok((*rules, judged))
        };
        all.iter().map(one).collect()
    };
    let is_judged = |rules: &Rules| *rules == asked || !ALIKE.contains(&rules.version);
    let all: Vec<Rules> = OBSERVED.into_iter().filter(is_judged).collect();
    let (older, newer) = all.split_at(all.len() / 2);
    thread::scope(|scope| {
        let newer = scope.spawn(|| judge(newer));
        let mut judged = judge(older)?;
        let newer = newer.join().unwrap_or_else(|_| Err(io::Error::other("a thread ended early")));
        judged.extend(newer?);
        Ok(judged)
    })
}

/// Versions that do what 2.0.76 does, but for attachments, errors and records without a time.
const ALIKE: [[u32; 3]; 2] = [[2, 0, 42], [2, 0, 50]];

fn report(
    case: Case,
    session: &Session,
    rules: Rules,
    now: Option<Time>,
    shared: Vec<Finding>,
    judged: Vec<(Rules, Judged)>,
) -> io::Result<Report> {
    let versions: Vec<(String, Verdict)> =
        judged.iter().map(|(rules, judged)| (rules.name(), judged.verdict)).collect();
    let others = others(&judged, rules);
    let Some((_, own)) = judged.into_iter().find(|(known, _)| *known == rules) else {
        return Err(io::Error::other("rules that nobody observed"));
    };
    let leaf = own.leaf.map(|leaf| {
        let row = case.own.table.row(leaf);
        (row.line, case.own.table.text(row.uuid).map(str::to_owned))
    });
    let mut more = Findings::new(&case.own.table);
    around::around(&case, rules, now, &mut more);
    if let Some(text) = others {
        more.add(Code::OtherVersions, Severity::Note, None, text);
    }
    let mut findings = own.findings;
    findings.extend(shared);
    findings.extend(more.into_list());
    let files = agents(session);
    if files.is_empty() {
        let mut more = Findings::new(&case.own.table);
        around::calls_without_agents(&case.own.table, &|_| false, &mut more);
        findings.extend(more.into_list());
    } else {
        findings.extend(of_agents(case.own, session)?);
    }
    findings.sort_by(Finding::order);
    let verdict = Verdict::of(&findings);
    Ok(Report { verdict, version: rules.name(), leaf, reach: own.reach, findings, versions })
}

/// What there is to say about the sub-agents of a session.
fn of_agents(own: Conversation, session: &Session) -> io::Result<Vec<Finding>> {
    let family = Family::around(own, session);
    let mut examined = Vec::new();
    for agent in &family.agents {
        let crate::family::Body::File(own) = &agent.body else { continue };
        let mut seen = Examined::default();
        Table::read_file(&std::fs::File::open(&own.path)?, 0, &mut seen)?;
        let name = own.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        examined.push((name, seen));
    }
    let mut findings = Findings::new(&family.main.table);
    around::agents(&family, &examined, &mut findings);
    Ok(findings.into_list())
}

/// What the other versions would do differently, in a sentence.
fn others(judged: &[(Rules, Judged)], rules: Rules) -> Option<String> {
    let outcome = |judged: &Judged| (judged.verdict, judged.reach.lost);
    let (_, own) = judged.iter().find(|(known, _)| *known == rules)?;
    let mut groups: Vec<((Verdict, usize), Vec<String>)> = Vec::new();
    for (known, found) in judged.iter().filter(|(_, found)| outcome(found) != outcome(own)) {
        match groups.iter_mut().find(|(known, _)| *known == outcome(found)) {
            Some((_, names)) => names.push(known.name()),
            None => groups.push((outcome(found), vec![known.name()])),
        }
    }
    let told = groups.into_iter().map(|((verdict, lost), names)| {
        let lost =
            if lost > 0 { format!(" ({} lost)", judge::messages(lost)) } else { String::new() };
        format!("{}: {}{lost}", names.join(", "), verdict.words())
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| told.join("; "))
}
