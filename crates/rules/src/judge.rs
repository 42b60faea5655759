//! The judge: what is decided about a call, by which rule, and why.

mod part;
mod spot;

use std::path::{Path, PathBuf};

use crate::mode::Mode;
use crate::path::{Pattern, plain};
use crate::rule::{Kind, Rule, current};

/// What is decided about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    /// It may run.
    Allow,
    /// Somebody has to be asked.
    Ask,
    /// It may not run.
    Deny,
}

impl Decision {
    /// The word for programs.
    pub fn name(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        }
    }
}

/// A decision, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What is decided.
    pub decision: Decision,
    /// The rule that decided it.
    pub rule: Option<String>,
    /// Who wrote that rule.
    pub source: Option<String>,
    /// Why, for people.
    pub why: String,
    /// The same for each part of a command.
    pub parts: Vec<Part>,
}

/// A part of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The part, in words.
    pub text: String,
    /// What is decided about it.
    pub decision: Decision,
    /// The rule that decided it.
    pub rule: Option<String>,
    /// Who wrote that rule.
    pub source: Option<String>,
    /// Why, for people.
    pub why: String,
}

/// What a call would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Files and folders that it reads.
    pub reads: Vec<PathBuf>,
    /// Files that it changes.
    pub writes: Vec<PathBuf>,
    /// The command that it runs.
    pub runs: Option<String>,
    /// The hosts that it reaches.
    pub reaches: Vec<String>,
    /// Whether it does nothing beyond the session itself.
    pub is_internal: bool,
}

/// A call that is to be judged.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The name of the tool.
    pub tool: &'a str,
    /// What the call would do.
    pub access: &'a Access,
}

/// Where a session works, and how its paths are resolved.
pub struct Place<'a> {
    /// The current folder of the shell.
    pub cwd: &'a Path,
    /// The folder where the session began.
    pub root: &'a Path,
    /// The session's folders: the one where it began, and additional ones.
    pub folders: &'a [PathBuf],
    /// Other folders that may be read.
    pub readable: &'a [PathBuf],
    /// The user's home folder.
    pub home: Option<&'a Path>,
    /// The path with its links followed, as far as it exists.
    pub real: &'a dyn Fn(&Path) -> PathBuf,
    /// The paths that a pattern of file names in a shell fits now; None if they are too many.
    pub fitting: &'a dyn Fn(&Path) -> Option<Vec<PathBuf>>,
    /// Whether a file in a session's folder controls what programs do.
    pub is_sensitive: &'a dyn Fn(&Path) -> bool,
    /// Whether a file has other names, which rules may be about.
    pub has_other_names: &'a dyn Fn(&Path) -> bool,
    /// Whether the repository around a folder names no program that version control would run; of
    /// one that the user trusts, that does not matter.
    pub runs_nothing: &'a dyn Fn(&Path) -> bool,
    /// What holds also where a mode allows everything; None without a sandbox.
    pub hold: Option<Hold<'a>>,
}

/// What holds also where a mode allows everything, unless a rule allows more.
#[derive(Clone, Copy)]
pub struct Hold<'a> {
    /// Whether a path is hidden, or contains something that is.
    pub is_hidden: &'a dyn Fn(&Path) -> bool,
    /// Folders that may be written in addition to the session's.
    pub writable: &'a [PathBuf],
}

impl std::fmt::Debug for Hold<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").field("writable", &self.writable).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

/// All rules of a session.
#[derive(Clone, Debug, Default)]
pub struct Rulebook {
    /// The rules.
    pub rules: Vec<Rule>,
    /// Whether commands run in a sandbox that holds, and may run without a question in it.
    pub allows_sandboxed: bool,
}

/// A decision with its reason, without parts.
type Reason<'a> = (Decision, Option<&'a Rule>, String);

impl Rulebook {
    /// Decides about a call.
    pub fn judge(&self, question: &Question<'_>, mode: Mode, place: &Place<'_>) -> Judgement {
        let judge = Judge { book: self, mode, place, tool: current(question.tool) };
        if let Some(command) = &question.access.runs {
            return judge.command(command);
        }
        let (decision, rule, why) = judge.call(question.access);
        judgement((decision, rule, why), Vec::new())
    }

    /// Whether a tool is offered: no rule denies it as a whole.
    pub fn offers(&self, tool: &str) -> bool {
        let denies = |rule: &Rule| {
            rule.kind == Kind::Deny && rule.content.is_none() && rule.is_about(current(tool))
        };
        !self.rules.iter().any(denies)
    }

    /// The patterns of files that rules keep from being read without a question.
    pub fn closed(&self, place: &Place<'_>) -> Vec<Pattern> {
        let rules =
            self.rules.iter().filter(|rule| rule.kind != Kind::Allow && rule.tool == "Read");
        patterns(rules, place).collect()
    }

    /// The patterns of files that rules deny to read, or to change, as far as they are not single
    /// paths.
    pub fn denied_patterns(&self, tool: &str, place: &Place<'_>) -> Vec<Pattern> {
        let rules = self.rules.iter().filter(|rule| rule.kind == Kind::Deny && rule.tool == tool);
        patterns(rules, place).filter(|pattern| pattern.literal.is_none()).collect()
    }

    /// The paths that rules deny to read, or to change, as far as they are single paths.
    pub fn denied_paths(&self, tool: &str, place: &Place<'_>) -> Vec<PathBuf> {
        let rules = self.rules.iter().filter(|rule| rule.kind == Kind::Deny && rule.tool == tool);
        let literal = |rule: &Rule| {
            Pattern::new(rule.content.as_deref()?, place.root, &rule.root, place.home).literal
        };
        rules.filter_map(literal).collect()
    }
}

/// The patterns of rules, and the same where links lead the folders in which they begin.
fn patterns<'a>(
    rules: impl Iterator<Item = &'a Rule>,
    place: &Place<'_>,
) -> impl Iterator<Item = Pattern> {
    let pattern = move |rule: &Rule| {
        Some(Pattern::new(rule.content.as_deref()?, place.root, &rule.root, place.home))
    };
    rules.filter_map(pattern).flat_map(move |pattern| {
        let led = pattern.led(place.real);
        std::iter::once(pattern).chain(led)
    })
}

fn judgement((decision, rule, why): Reason<'_>, parts: Vec<Part>) -> Judgement {
    Judgement {
        decision,
        rule: rule.map(Rule::text),
        source: rule.map(|rule| rule.source.clone()),
        why,
        parts,
    }
}

struct Judge<'a> {
    book: &'a Rulebook,
    mode: Mode,
    place: &'a Place<'a>,
    tool: &'a str,
}

impl<'a> Judge<'a> {
    fn rules(&self, kind: Kind) -> impl Iterator<Item = &'a Rule> {
        self.book.rules.iter().filter(move |rule| rule.kind == kind)
    }

    /// A call that runs no command.
    fn call(&self, access: &Access) -> Reason<'a> {
        for kind in [Kind::Deny, Kind::Ask] {
            if let Some(rule) = self.rules(kind).find(|rule| self.concerns(rule, access)) {
                return self.forbidden(rule);
            }
        }
        if access.is_internal {
            return (Decision::Allow, None, "it changes nothing outside the session".to_owned());
        }
        let named = self.hard_links(access);
        if self.mode == Mode::Plan && !access.writes.is_empty() {
            return (Decision::Deny, None, "in plan mode nothing is changed".to_owned());
        }
        if let Some(path) = named {
            let why = format!("`{}` has other names, which a rule may be about", path.display());
            return self.without_rule(why);
        }
        if let Some(rule) = self.rules(Kind::Allow).find(|rule| self.covers(rule, access)) {
            return (Decision::Allow, Some(rule), by_rule(rule));
        }
        if self.mode == Mode::Bypass {
            let why = "the mode allows everything".to_owned();
            let held = self.place.hold.and_then(|hold| self.held(hold, access));
            return held.map_or((Decision::Allow, None, why), |why| (Decision::Deny, None, why));
        }
        if let Some(path) = access.writes.iter().find(|path| !self.may_change(path)) {
            let why = format!("`{}` may not be changed without a question", path.display());
            return self.without_rule(why);
        }
        if let Some(path) = access.reads.iter().find(|path| !self.is_readable(path)) {
            let why = format!("`{}` is outside the session's folders", path.display());
            return self.without_rule(why);
        }
        if access.writes.is_empty() && access.reads.is_empty() {
            return self.without_rule(format!("no rule allows {}", self.tool));
        }
        let why = if access.writes.is_empty() {
            "it reads in the session's folders"
        } else {
            "the mode accepts edits"
        };
        (Decision::Allow, None, why.to_owned())
    }

    /// Why a call goes beyond what the sandbox would let a command do.
    fn held(&self, hold: Hold<'_>, access: &Access) -> Option<String> {
        let is_closed = |path: &&PathBuf| {
            let is_inside = self.is_inside(path, self.place.folders);
            let is_added = self.is_inside(path, hold.writable);
            !(is_added || is_inside && !self.is_sensitive(path))
        };
        let what = if let Some(path) = access.writes.iter().find(is_closed) {
            format!("`{}` is not changed where the sandbox is on", path.display())
        } else {
            let is_hidden = |path: &&PathBuf| (hold.is_hidden)(&(self.place.real)(&plain(path)));
            let path = access.reads.iter().chain(&access.writes).find(is_hidden)?;
            format!("`{}` is, or contains, what the sandbox hides", path.display())
        };
        Some(format!("{what}; a rule that allows {}, or `--sandbox off`, permits it", self.tool))
    }

    /// What a rule that denies or asks makes of a call.
    fn forbidden(&self, rule: &'a Rule) -> Reason<'a> {
        let why = by_rule(rule);
        match (rule.kind, self.mode) {
            (Kind::Deny, _) => (Decision::Deny, Some(rule), why),
            (_, Mode::DontAsk) => {
                (Decision::Deny, Some(rule), format!("{why}, and the mode does not ask"))
            }
            _ => (Decision::Ask, Some(rule), why),
        }
    }

    /// What would be a question.
    fn without_rule(&self, why: String) -> Reason<'a> {
        match self.mode {
            Mode::DontAsk => (Decision::Deny, None, format!("{why}, and the mode does not ask")),
            _ => (Decision::Ask, None, why),
        }
    }

    fn hard_links<'b>(&self, access: &'b Access) -> Option<&'b PathBuf> {
        let mut paths = access.reads.iter().chain(&access.writes);
        let has_other_names = |path: &&PathBuf| (self.place.has_other_names)(path);
        self.has_path_rules().then(|| paths.find(has_other_names)).flatten()
    }

    /// Whether rules forbid something about single paths.
    fn has_path_rules(&self) -> bool {
        let is_one =
            |rule: &Rule| rule.kind != Kind::Allow && rule.content.is_some() && rule.tool != "Bash";
        self.book.rules.iter().any(is_one)
    }

    /// Whether a rule that forbids is about a call.
    fn concerns(&self, rule: &Rule, access: &Access) -> bool {
        let Some(content) = &rule.content else { return rule.is_about(self.tool) };
        match rule.tool.as_str() {
            // What must not be read must not be written either.
            "Read" => access
                .reads
                .iter()
                .chain(&access.writes)
                .any(|path| self.path_fits(rule, content, path)),
            "Edit" | "Write" | "NotebookEdit" => {
                access.writes.iter().any(|path| self.path_fits(rule, content, path))
            }
            "WebFetch" | "WebSearch" => {
                rule.tool == self.tool && access.reaches.iter().any(|host| host_fits(content, host))
            }
            // What its content means is not known: then it is about every call.
            tool => tool != "Bash" && rule.is_about(self.tool),
        }
    }

    /// Whether a rule that allows covers all of a call.
    fn covers(&self, rule: &Rule, access: &Access) -> bool {
        let Some(content) = &rule.content else {
            let edits = rule.tool == "Edit" && matches!(self.tool, "Write" | "NotebookEdit");
            return rule.is_about(self.tool) || edits;
        };
        let all =
            |paths: &[PathBuf]| paths.iter().all(|path| self.path_covered(rule, content, path));
        match rule.tool.as_str() {
            "Read" => {
                access.writes.is_empty()
                    && access.reaches.is_empty()
                    && !access.reads.is_empty()
                    && all(&access.reads)
            }
            // `Write(path)` grants nothing, as in Claude Code.
            "Edit" => {
                !access.writes.is_empty()
                    && all(&access.writes)
                    && access.writes.iter().all(|path| !self.is_sensitive(path))
            }
            "WebFetch" => {
                rule.tool == self.tool
                    && !access.reaches.is_empty()
                    && access.reaches.iter().all(|host| host_fits(content, host))
            }
            _ => false,
        }
    }

    fn pattern(&self, rule: &Rule, content: &str) -> Pattern {
        Pattern::new(content, self.place.root, &rule.root, self.place.home)
    }

    fn path_fits(&self, rule: &Rule, content: &str, path: &Path) -> bool {
        let pattern = self.pattern(rule, content);
        let path = plain(path);
        let real = (self.place.real)(&path);
        // The pattern itself may lead through a link.
        let real_pattern = pattern.literal.as_ref().map(|literal| (self.place.real)(literal));
        let is_led = |led: Pattern| led.matches(&path) || led.matches(&real);
        pattern.matches(&path)
            || pattern.matches(&real)
            || real_pattern.is_some_and(|literal| real.starts_with(literal))
            || pattern.led(self.place.real).is_some_and(is_led)
    }

    fn path_covered(&self, rule: &Rule, content: &str, path: &Path) -> bool {
        let pattern = self.pattern(rule, content);
        let path = plain(path);
        let real = (self.place.real)(&path);
        let real_pattern = pattern.literal.as_ref().map(|literal| (self.place.real)(literal));
        pattern.matches_exactly(&path)
            && (pattern.matches_exactly(&real)
                || real_pattern.is_some_and(|literal| real.starts_with(literal)))
    }

    fn is_inside(&self, path: &Path, folders: &[PathBuf]) -> bool {
        // Where these lead depends on who asks.
        let is_own = |folder: &str| plain(path).starts_with(folder);
        if ["/proc", "/dev/fd", "/dev/stdin"].into_iter().any(is_own) {
            return false;
        }
        let real = (self.place.real)(&plain(path));
        folders.iter().any(|folder| real.starts_with((self.place.real)(folder)))
    }

    fn is_readable(&self, path: &Path) -> bool {
        self.is_inside(path, self.place.folders) || self.is_inside(path, self.place.readable)
    }

    fn is_sensitive(&self, path: &Path) -> bool {
        let path = plain(path);
        (self.place.is_sensitive)(&path) || (self.place.is_sensitive)(&(self.place.real)(&path))
    }

    fn may_change(&self, path: &Path) -> bool {
        matches!(self.mode, Mode::AcceptEdits | Mode::Auto)
            && self.is_inside(path, self.place.folders)
            && !self.is_sensitive(path)
    }
}

/// The end of the reason why the parts of a command do not decide about it.
pub const UNDECIDED: &str = ", so its parts do not decide";

const SANDBOXED: &str = "it runs in the sandbox";

fn by_rule(rule: &Rule) -> String {
    let verb = match rule.kind {
        Kind::Allow => "allows it",
        Kind::Ask => "wants a question",
        Kind::Deny => "denies it",
    };
    format!("the rule `{}` of {} {verb}", rule.text(), rule.source)
}

fn host_fits(content: &str, host: &str) -> bool {
    let wanted = content.strip_prefix("domain:").unwrap_or(content).trim().to_ascii_lowercase();
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    match wanted.strip_prefix("*.") {
        Some(parent) => host.strip_suffix(parent).is_some_and(|rest| rest.ends_with('.')),
        None => host == wanted,
    }
}
