//! A session as rows.
//!
//! Invariants: turns, calls and verdicts are those that the other commands show; tokens and costs
//! are those of the ledger; of records that are in several files, those of one file are no copies;
//! every text passes the mask, which knows the secrets of all files of the session if what was said
//! is pushed; a text that the content tier leaves out is not even read.

mod file;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use index::catalog::agent_of;
use transcript::client::check::{Report, check_and_keep};
use transcript::client::history::Rules;
use transcript::conversation::place::{Agent, is_agent, secrets};
use transcript::conversation::preview::{Preview, preview};
use transcript::conversation::price::Prices;
use transcript::conversation::usage::{CountedFile, Ledger, MessageUsage, Money, Spending, Usage};
use transcript::format::file::Backward;
use transcript::format::secret::{Cover, Form, Mask, Redactor, Values, survey};
use transcript::format::time::Time;
use transcript::{Conversation, Session};

use crate::LakeError;
use crate::group::{Group, GroupCall};
use crate::push::{hashed_name, is_uuid, plain_name};
use crate::schema::{MOST_DOLLARS, TABLES, VERSION};
use crate::sheet::{Cell, Object, Sheet};

/// How much is pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Everything.
    Full,
    /// No prompts, answers, inputs and results of tools.
    Meta,
    /// Also no paths and branches.
    None,
}

impl Content {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Content::Full => "full",
            Content::Meta => "meta",
            Content::None => "none",
        }
    }
}

/// Whether the lines themselves are pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawLines {
    /// They are, if the content is full.
    Pushed,
    /// They are not.
    LeftOut,
}

/// What rows contain.
#[derive(Debug)]
pub struct Policy {
    /// The name of this machine.
    pub machine: String,
    /// The user, if the configuration names one.
    pub user: Option<String>,
    /// The team, if the configuration names one.
    pub team: Option<String>,
    /// How much is pushed.
    pub content: Content,
    /// Whether the lines themselves are pushed.
    pub raw: RawLines,
    /// What hides secrets; `None`: nothing is hidden.
    pub redactor: Option<Arc<Redactor>>,
    /// Stands for the rules of the redactor: other rules make other rows.
    pub redact_rules: String,
    /// What calls cost.
    pub prices: Prices,
}

impl Policy {
    fn is_full(&self) -> bool {
        self.content == Content::Full
    }

    /// Paths and branches are pushed.
    fn has_paths(&self) -> bool {
        self.content != Content::None
    }

    /// A session's id without secrets: the name of a file may be one. Nearly all are UUIDs.
    fn id_of<'t>(&self, session: &'t str) -> Cow<'t, str> {
        match &self.redactor {
            Some(redactor) if !is_uuid(session) => Mask::new(redactor).text(session),
            _ => Cow::Borrowed(session),
        }
    }

    /// A session's name in the names of objects.
    pub(crate) fn name_of(&self, session: &str) -> String {
        let is_shown = self.id_of(session) == session;
        if is_shown { plain_name(session) } else { hashed_name(session) }
    }
}

/// The places of the tables in [`TABLES`].
pub(crate) const CALLS: usize = 0;
pub(crate) const TOOLS: usize = 1;
pub(crate) const EDITS: usize = 2;
pub(crate) const TURNS: usize = 3;
pub(crate) const MESSAGES: usize = 4;
pub(crate) const FINDINGS: usize = 5;
pub(crate) const SESSIONS: usize = 6;

/// The objects of a session.
#[derive(Debug)]
pub(crate) struct Made {
    /// The folder of its day.
    pub(crate) day: String,
    /// One for each table, in the order of [`TABLES`].
    pub(crate) objects: Vec<Object>,
}

/// How many names are remembered.
const NAMES: usize = 1_000;

/// Where an answer is in its file.
#[derive(Clone, Copy, Debug)]
struct Placed {
    turn: u32,
    place: &'static str,
    branch: Option<u32>,
}

/// What is added up over the files of a session.
#[derive(Debug, Default)]
struct Sums {
    bytes: u64,
    records: u64,
    prompts: u64,
    compactions: u64,
    /// Sub-agents, each once.
    agents: HashSet<String>,
    damaged: u64,
    forked_from: Option<String>,
    first: Option<Time>,
    first_of_agent: Option<Time>,
    last: Option<Time>,
}

/// Makes the rows of one session.
struct Maker<'a> {
    policy: &'a Policy,
    mask: Mask<'a>,
    /// Names of models and tools without secrets: the same few come again and again.
    names: HashMap<String, Rc<str>>,
    sheets: Vec<Sheet>,
    /// The calls of the API, and where each is in this list, by the id of its message.
    calls: &'a [GroupCall],
    places: HashMap<&'a str, usize>,
    /// Where in its file each of these calls is.
    placed: Vec<Option<Placed>>,
    /// The records behind the last answers of files, and those of other sessions behind the last
    /// answer that this one has, too.
    tails: HashSet<String>,
    before: HashSet<String>,
    sums: Sums,
}

/// Makes the objects of a session.
pub(crate) fn make(
    policy: &Policy,
    ledger: &Ledger,
    group: &Group,
    project: Option<&str>,
) -> Result<Made, LakeError> {
    let cover = cover_of(policy, ledger, group)?;
    let mask = || match (&cover, &policy.redactor) {
        (Some(cover), _) => Mask::of(cover),
        (None, Some(redactor)) => Mask::new(redactor),
        (None, None) => Mask::none(),
    };
    let project = project.map(|project| mask().text(project).into_owned());
    let id = policy.id_of(&group.id);
    let common = [
        Cell::Number(i64::from(VERSION)),
        Cell::Text(&policy.machine),
        policy.user.as_ref().into(),
        policy.team.as_ref().into(),
        project.as_ref().into(),
        Cell::Text(&id),
        Cell::Text(policy.content.name()),
    ];
    let ids = group.calls.iter().map(|call| ledger.entries[call.entry].message.id.as_str());
    let mut maker = Maker {
        policy,
        mask: mask(),
        names: HashMap::new(),
        sheets: (0..TABLES.len()).map(|table| Sheet::new(table, &common)).collect(),
        calls: &group.calls,
        places: ids.zip(0..).collect(),
        placed: vec![None; group.calls.len()],
        tails: HashSet::new(),
        before: tails_of_owners(ledger, group),
        sums: Sums::default(),
    };
    let files = || group.files.iter().map(|number| &ledger.sources[*number]);
    let newest = files().filter(|file| !file.is_agent).max_by_key(|file| file.modified);
    // Each file is read once, for its rows and for what is wrong with it.
    let mut read = HashMap::new();
    let report = newest.and_then(|newest| maker.check(newest, files(), &mut read));
    for number in &group.files {
        let source = &ledger.sources[*number];
        maker.mask = mask();
        let conversation = match read.remove(&source.path) {
            Some(conversation) => conversation,
            None => Conversation::open(&source.path)?,
        };
        maker.file(*number, source, &conversation)?;
    }
    maker.calls(ledger)?;
    maker.findings(report.as_ref())?;
    maker.session(newest.or_else(|| files().next()), report.as_ref())?;
    let day = day_folder(maker.sums.first.or(maker.sums.first_of_agent));
    let objects = maker.sheets.into_iter().map(Sheet::finish).collect::<Result<_, _>>()?;
    Ok(Made { day, objects })
}

/// The ids of the records that sessions have behind the last answer of theirs that this one has,
/// too: what it has of them is copied, although no answer says so.
fn tails_of_owners(ledger: &Ledger, group: &Group) -> HashSet<String> {
    let mut shared: HashMap<&str, HashSet<&str>> = HashMap::new();
    for call in &group.calls {
        if let Some(owner) = &call.owner {
            shared.entry(owner).or_default().insert(&ledger.entries[call.entry].message.id);
        }
    }
    let mut tails = HashSet::new();
    if shared.is_empty() {
        return tails;
    }
    for source in ledger.sources.iter().filter(|source| !source.is_agent) {
        if let Some(answers) = shared.get(source.session.as_str()) {
            // What cannot be read is not known; it is said where the session itself is read.
            let _ = tail_of(&source.path, answers, &mut tails);
        }
    }
    tails
}

/// Adds the ids of the records of a file behind the last of these answers.
fn tail_of(
    path: &Path,
    answers: &HashSet<&str>,
    tail: &mut HashSet<String>,
) -> transcript::Result<()> {
    let file = files::open(path)?;
    let mut lines = Backward::new(&file)?;
    while let Some(line) = lines.next_line()? {
        for entry in line.records().filter_map(|record| record.entry) {
            let answer = entry.message().and_then(|message| message.text("id"));
            if answer.is_some_and(|id| answers.contains(&*id)) {
                return Ok(());
            }
            tail.extend(entry.uuid().map(Cow::into_owned));
        }
    }
    Ok(())
}

/// The secrets of a session's files, if what was said is pushed: each is hidden wherever it stands.
fn cover_of(policy: &Policy, ledger: &Ledger, group: &Group) -> Result<Option<Cover>, LakeError> {
    let Some(redactor) = policy.redactor.as_ref().filter(|_| policy.is_full()) else {
        return Ok(None);
    };
    let mut values = Values::default();
    let files = group.files.iter().map(|number| &ledger.sources[*number]);
    let (mut agents, mains): (Vec<_>, Vec<_>) = files.partition(|file| is_agent(&file.path));
    for main in mains {
        let is_its = |file: &&CountedFile| file.project == main.project;
        let its = agents.extract_if(.., |file| is_its(file)).map(|file| &file.path);
        let its = its.cloned().map(Agent::at).collect();
        values.add_all(secrets(&Session::at(&main.path)?, its, redactor)?);
    }
    // The session's own file is gone.
    for agent in agents {
        let file = files::open(&agent.path).map_err(transcript::Error::from)?;
        survey(&file, Form::Lines, redactor, None, &mut values)?;
    }
    Ok(Some(Cover::new(Arc::clone(redactor), values)))
}

impl Maker<'_> {
    /// Whether a message of the API in a file is a copy.
    fn is_copy(&self, file: usize, message: Option<&str>) -> bool {
        let call = message.and_then(|id| self.places.get(id)).map(|at| &self.calls[*at]);
        call.is_some_and(|call| call.owner.is_some() || call.file != file)
    }

    /// Remembers where a call of the API is, if this is the file that its row is about.
    fn place(&mut self, file: usize, message: &str, placed: Placed) {
        if let Some(at) = self.places.get(message).filter(|at| self.calls[**at].file == file) {
            self.placed[*at] = Some(placed);
        }
    }

    fn put(&mut self, table: usize, row: &[Cell<'_>]) -> Result<(), LakeError> {
        self.sheets[table].add(row)
    }

    /// A text without secrets.
    fn masked(&mut self, text: Option<&str>) -> Option<String> {
        text.map(|text| self.mask.text(text).into_owned())
    }

    /// The same for the name of a model or a tool.
    fn masked_name(&mut self, name: Option<&str>) -> Option<Rc<str>> {
        let name = name?;
        if let Some(known) = self.names.get(name) {
            return Some(Rc::clone(known));
        }
        if self.names.len() >= NAMES {
            self.names.clear();
        }
        let masked: Rc<str> = self.mask.text(name).into();
        self.names.insert(name.to_owned(), Rc::clone(&masked));
        Some(masked)
    }

    /// An id without secrets. Those that clients make have none by their form, and there are many.
    fn masked_id<'t>(&mut self, id: Option<&'t str>) -> Option<Cow<'t, str>> {
        let id = id?;
        let is_usual = is_uuid(id) || MADE.iter().any(|start| is_made(id, start));
        Some(if is_usual { Cow::Borrowed(id) } else { self.mask.text(id) })
    }

    /// A path or a branch without secrets, if it is pushed at all.
    fn masked_path(&mut self, text: Option<&str>) -> Option<String> {
        self.masked(text.filter(|_| self.policy.has_paths()))
    }

    /// What somebody said, without secrets, if it is pushed at all.
    fn masked_words(&mut self, text: Option<&str>) -> Option<String> {
        self.masked(text.filter(|_| self.policy.is_full()))
    }

    fn calls(&mut self, ledger: &Ledger) -> Result<(), LakeError> {
        for (at, call) in self.calls.iter().enumerate() {
            let message = &ledger.entries[call.entry].message;
            let source = &ledger.sources[call.file];
            let usage = message.usage;
            let [cost, without_cache] = costs(message, &self.policy.prices).map(|cost| {
                let cost = i64::try_from(cost?.trillionths()).unwrap_or(MOST_DOLLARS);
                Some(cost.min(MOST_DOLLARS))
            });
            let placed = self.placed[at];
            let model = self.masked_name(message.model.as_deref());
            let tool = self.masked_name(message.tool.as_deref());
            let agent = self.masked_id(agent_of(&source.path).as_deref()).map(Cow::into_owned);
            let id = self.masked_id(Some(&message.id)).unwrap_or_default();
            let [tier, speed] =
                [&message.tier, &message.speed].map(|text| self.masked_name(text.as_deref()));
            self.put(
                CALLS,
                &[
                    Cell::Text(&id),
                    model.as_deref().into(),
                    moment(message.time),
                    days(message.time),
                    usage.input.into(),
                    usage.output.into(),
                    usage.cache_5m.into(),
                    usage.cache_1h.into(),
                    usage.cache_read.into(),
                    usage.searches.into(),
                    cost.into(),
                    call.owner.is_some().into(),
                    usage.at_least.into(),
                    (source.is_agent || message.is_sidechain).into(),
                    agent.as_ref().into(),
                    placed.map(|placed| placed.turn).into(),
                    placed.map(|placed| placed.place).into(),
                    placed.and_then(|placed| placed.branch).into(),
                    tool.as_deref().into(),
                    tier.as_deref().into(),
                    speed.as_deref().into(),
                    Some(message.line).filter(|_| call.owner.is_none()).into(),
                    without_cache.into(),
                ],
            )?;
        }
        Ok(())
    }

    /// The row of the session itself.
    fn session(
        &mut self,
        source: Option<&CountedFile>,
        report: Option<&Report>,
    ) -> Result<(), LakeError> {
        let seen = source.and_then(|source| preview(&source.path).ok()).unwrap_or_default();
        let Preview { cwd, branch, version, title, prompt, .. } = &seen;
        let cwd = cwd.as_deref().or_else(|| source?.cwd.as_deref());
        let [cwd, branch] = [cwd, branch.as_deref()].map(|text| self.masked_path(text));
        let [title, prompt] =
            [title.as_deref(), prompt.as_deref()].map(|text| self.masked_words(text));
        let version = self.masked(version.as_deref());
        let sums = std::mem::take(&mut self.sums);
        let forked_from = self.masked_id(sums.forked_from.as_deref());
        let first = sums.first.or(sums.first_of_agent);
        let lost = report.map(|report| report.reach.lost);
        let row = [
            moment(first),
            moment(sums.last),
            days(first),
            cwd.as_ref().into(),
            branch.as_ref().into(),
            version.as_ref().into(),
            forked_from.as_deref().into(),
            sums.bytes.into(),
            sums.records.into(),
            sums.prompts.into(),
            sums.compactions.into(),
            sums.agents.len().into(),
            sums.damaged.into(),
            report.map(|report| report.verdict.name()).into(),
            lost.into(),
            title.as_ref().into(),
            prompt.as_ref().into(),
        ];
        self.put(SESSIONS, &row)?;
        self.sums =
            Sums { first: sums.first, first_of_agent: sums.first_of_agent, ..Sums::default() };
        Ok(())
    }

    /// What `quipu check` says; `None` if it cannot read the session. What it has read goes to
    /// `read`, by path.
    fn check<'s>(
        &self,
        source: &CountedFile,
        files: impl Iterator<Item = &'s CountedFile>,
        read: &mut HashMap<PathBuf, Conversation>,
    ) -> Option<Report> {
        let session = Session::at(&source.path).ok()?;
        let usual = Arc::default();
        let redactor = self.policy.redactor.as_ref().unwrap_or(&usual);
        let ours = files.filter(|file| file.project == source.project && is_agent(&file.path));
        let agents = ours.map(|file| Agent::at(file.path.clone())).collect();
        let checked = check_and_keep(&session, agents, Rules::newest(), None, redactor).ok()?;
        for conversation in checked.agents.into_iter().chain([checked.main]) {
            read.insert(conversation.path.clone(), conversation);
        }
        Some(checked.report)
    }

    fn findings(&mut self, report: Option<&Report>) -> Result<(), LakeError> {
        for found in report.into_iter().flat_map(|report| &report.findings) {
            let file = self.masked_path(found.file.as_deref());
            let text = self.masked_words(Some(&found.text));
            self.put(
                FINDINGS,
                &[
                    Cell::Text(found.code.name()),
                    Cell::Text(found.severity.name()),
                    file.as_ref().into(),
                    found.line.into(),
                    found.more.into(),
                    text.as_ref().into(),
                ],
            )?;
        }
        Ok(())
    }
}

/// What a call cost, and what it would have cost if nothing of its input had been in a cache.
pub(crate) fn costs(message: &MessageUsage, prices: &Prices) -> [Option<Money>; 2] {
    let usage = message.usage;
    let without_cache =
        Usage { input: usage.read(), cache_read: 0, cache_5m: 0, cache_1h: 0, ..usage };
    [usage, without_cache].map(|usage| {
        let (model, speed) = (message.model.as_deref(), message.speed.as_deref());
        Spending::of_message(usage, model, speed, prices).cost
    })
}

/// How ids begin that the API and clients make.
const MADE: [&str; 5] = ["msg_", "toolu_", "srvtoolu_", "call_", "req_"];
/// The longest of them.
const LONGEST_ID: usize = 40;

/// Whether an id begins so, and has only letters and digits after that.
fn is_made(id: &str, start: &str) -> bool {
    id.len() <= LONGEST_ID
        && id
            .strip_prefix(start)
            .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// The last moment of the year 9999, in milliseconds: no engine understands later ones.
const LAST: i64 = 253_402_300_799_999;
const DAY: i64 = 24 * 60 * 60 * 1_000;

/// A time that every engine understands.
fn sensible(time: Option<Time>) -> Option<i64> {
    time.map(|time| time.0).filter(|time| (0..=LAST).contains(time))
}

fn moment(time: Option<Time>) -> Cell<'static> {
    sensible(time).map_or(Cell::Null, Cell::Number)
}

fn days(time: Option<Time>) -> Cell<'static> {
    let days = sensible(time).and_then(|time| i32::try_from(time / DAY).ok());
    days.map_or(Cell::Null, Cell::Days)
}

/// The name of the folder of a day.
fn day_folder(time: Option<Time>) -> String {
    let time = sensible(time).and_then(|time| jiff::Timestamp::from_millisecond(time).ok());
    match time {
        Some(time) => time.strftime("day=%Y-%m-%d").to_string(),
        None => "day=unknown".to_owned(),
    }
}
