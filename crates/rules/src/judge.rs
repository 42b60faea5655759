//! The judge: what is decided about a call, by which rule, and why.

use std::path::{Path, PathBuf};

use crate::command::{self, names, unwrapped};
use crate::harmless::{changed_by, is_harmless_variable, read_by};
use crate::mode::Mode;
use crate::path::{Pattern, plain};
use crate::rule::{Kind, Rule, fits};
use crate::shell::{self, Arg, Simple};

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
    /// Whether a file in a session's folder controls what programs do.
    pub is_sensitive: &'a dyn Fn(&Path) -> bool,
    /// Whether a file has other names, which rules may be about.
    pub has_other_names: &'a dyn Fn(&Path) -> bool,
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
        let judge = Judge { book: self, mode, place, tool: question.tool };
        match &question.access.runs {
            Some(command) => judge.command(command),
            None => {
                let (decision, rule, why) = judge.call(question.access);
                judgement((decision, rule, why), Vec::new())
            }
        }
    }

    /// Whether a tool is offered: no rule denies it as a whole.
    pub fn offers(&self, tool: &str) -> bool {
        let denies = |rule: &Rule| rule.kind == Kind::Deny && rule.content.is_none() && fits(&rule.tool, tool);
        !self.rules.iter().any(denies)
    }

    /// The paths that rules deny to read, or to change, as far as they are single paths.
    pub fn denied_paths(&self, tool: &str, place: &Place<'_>) -> Vec<PathBuf> {
        let rules = self.rules.iter().filter(|rule| rule.kind == Kind::Deny && rule.tool == tool);
        let literal = |rule: &Rule| Pattern::new(rule.content.as_deref()?, place.root, &rule.root, place.home).literal;
        rules.filter_map(literal).collect()
    }
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
                let decision = if kind == Kind::Deny { Decision::Deny } else { Decision::Ask };
                return (decision, Some(rule), by_rule(rule));
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
        if self.mode == Mode::Bypass {
            return (Decision::Allow, None, "the mode allows everything".to_owned());
        }
        if let Some(rule) = self.rules(Kind::Allow).find(|rule| self.covers(rule, access)) {
            return (Decision::Allow, Some(rule), by_rule(rule));
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
        let why = if access.writes.is_empty() { "it reads in the session's folders" } else { "the mode accepts edits" };
        (Decision::Allow, None, why.to_owned())
    }

    /// What would be a question.
    fn without_rule(&self, why: String) -> Reason<'a> {
        match self.mode {
            Mode::DontAsk => (Decision::Deny, None, format!("{why}, and the mode does not ask")),
            _ => (Decision::Ask, None, why),
        }
    }

    fn hard_links<'b>(&self, access: &'b Access) -> Option<&'b PathBuf> {
        let has_paths = |rule: &Rule| rule.kind != Kind::Allow && rule.content.is_some() && rule.tool != "Bash";
        let mut paths = access.reads.iter().chain(&access.writes);
        self.book.rules.iter().any(has_paths).then(|| paths.find(|path| (self.place.has_other_names)(path))).flatten()
    }

    /// Whether a rule that forbids is about a call.
    fn concerns(&self, rule: &Rule, access: &Access) -> bool {
        let Some(content) = &rule.content else { return fits(&rule.tool, self.tool) };
        match rule.tool.as_str() {
            // What must not be read must not be written either.
            "Read" => access.reads.iter().chain(&access.writes).any(|path| self.path_fits(rule, content, path)),
            "Edit" | "Write" | "NotebookEdit" => access.writes.iter().any(|path| self.path_fits(rule, content, path)),
            "WebFetch" | "WebSearch" => rule.tool == self.tool && access.reaches.iter().any(|host| host_fits(content, host)),
            // What its content means is not known: then it is about every call.
            tool => tool != "Bash" && fits(tool, self.tool),
        }
    }

    /// Whether a rule that allows covers all of a call.
    fn covers(&self, rule: &Rule, access: &Access) -> bool {
        let Some(content) = &rule.content else {
            let edits = rule.tool == "Edit" && matches!(self.tool, "Write" | "NotebookEdit");
            return fits(&rule.tool, self.tool) || edits;
        };
        let all = |paths: &[PathBuf]| paths.iter().all(|path| self.path_covered(rule, content, path));
        match rule.tool.as_str() {
            "Read" => access.writes.is_empty() && access.reaches.is_empty() && !access.reads.is_empty() && all(&access.reads),
            // `Write(path)` grants nothing, as in Claude Code.
            "Edit" => !access.writes.is_empty() && all(&access.writes) && access.writes.iter().all(|path| !self.is_sensitive(path)),
            "WebFetch" => rule.tool == self.tool && !access.reaches.is_empty() && access.reaches.iter().all(|host| host_fits(content, host)),
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
        pattern.matches(&path) || pattern.matches(&real) || real_pattern.is_some_and(|literal| real.starts_with(literal))
    }

    fn path_covered(&self, rule: &Rule, content: &str, path: &Path) -> bool {
        let pattern = self.pattern(rule, content);
        let path = plain(path);
        let real = (self.place.real)(&path);
        let real_pattern = pattern.literal.as_ref().map(|literal| (self.place.real)(literal));
        pattern.matches(&path) && (pattern.matches(&real) || real_pattern.is_some_and(|literal| real.starts_with(literal)))
    }

    fn is_inside(&self, path: &Path, folders: &[PathBuf]) -> bool {
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

    /// A command: each part, and all of it.
    fn command(&self, text: &str) -> Judgement {
        let parsed = shell::parse(text);
        let mut cwd = self.place.cwd.to_owned();
        let mut parts = Vec::new();
        let mut is_moved = false;
        for simple in &parsed.parts {
            let (decision, rule, why) = self.part(simple, &cwd, is_moved);
            parts.push(Part {
                text: simple.text(),
                decision,
                rule: rule.map(Rule::text),
                source: rule.map(|rule| rule.source.clone()),
                why,
            });
            if let [name, to] = &simple.words[..]
                && name.text == "cd"
            {
                is_moved = true;
                cwd = self.named(to, &cwd);
            }
        }
        parts.retain(|part| !part.text.is_empty() || part.decision != Decision::Allow);
        self.summed_up(&parsed.doubts, parts)
    }

    fn summed_up(&self, doubts: &[&'static str], parts: Vec<Part>) -> Judgement {
        let from = |part: &Part, parts: Vec<Part>| Judgement {
            decision: part.decision,
            rule: part.rule.clone(),
            source: part.source.clone(),
            why: if parts.len() > 1 { format!("`{}`: {}", part.text, part.why) } else { part.why.clone() },
            parts,
        };
        if let Some(part) = parts.iter().find(|part| part.decision == Decision::Deny && part.rule.is_some()) {
            return from(&part.clone(), parts);
        }
        let whole = |kind: Kind| self.rules(kind).find(|rule| rule.content.is_none() && fits(&rule.tool, self.tool));
        if let Some(rule) = whole(Kind::Deny) {
            return judgement((Decision::Deny, Some(rule), by_rule(rule)), parts);
        }
        let bare = whole(Kind::Allow);
        let may_forbid = |rule: &Rule| rule.kind != Kind::Allow && matches!(rule.tool.as_str(), "Bash" | "Read" | "Edit" | "Write");
        let is_watched = self.book.rules.iter().any(may_forbid);
        if let Some(doubt) = doubts.first() {
            let why = format!("{doubt}, so its parts do not decide");
            // Where nothing is forbidden, nothing can be missed.
            if !is_watched && self.mode != Mode::Plan {
                if self.mode == Mode::Bypass && !parts.iter().any(|part| part.decision == Decision::Deny) {
                    return judgement((Decision::Allow, None, "the mode allows everything".to_owned()), parts);
                }
                if let Some(rule) = bare.filter(|_| self.mode != Mode::Bypass) {
                    return judgement((Decision::Allow, Some(rule), by_rule(rule)), parts);
                }
            }
            if let Some(part) = parts.iter().find(|part| part.decision == Decision::Ask && part.rule.is_some()) {
                return from(&part.clone(), parts);
            }
            if self.mode == Mode::Bypass {
                let why = format!("{doubt}, and rules forbid something that it may contain");
                return judgement((Decision::Deny, None, why), parts);
            }
            if self.book.allows_sandboxed && !is_watched {
                return judgement((Decision::Allow, None, SANDBOXED.to_owned()), parts);
            }
            return judgement(self.without_rule(why), parts);
        }
        for decision in [Decision::Deny, Decision::Ask] {
            if let Some(part) = parts.iter().find(|part| part.decision == decision) {
                let is_open = decision == Decision::Ask && part.rule.is_none();
                if self.book.allows_sandboxed && is_open && self.mode != Mode::Plan {
                    return judgement((Decision::Allow, None, SANDBOXED.to_owned()), parts);
                }
                return from(&part.clone(), parts);
            }
        }
        match parts.first().cloned() {
            Some(part) => from(&part, parts),
            None => judgement((Decision::Allow, None, "it does nothing".to_owned()), parts),
        }
    }

    /// A part of a command, which runs in this folder.
    fn part(&self, simple: &Simple, cwd: &Path, is_moved: bool) -> Reason<'a> {
        let names = names(simple);
        for kind in [Kind::Deny, Kind::Ask] {
            let decision = if kind == Kind::Deny { Decision::Deny } else { Decision::Ask };
            if let Some(rule) = self.rules(kind).find(|rule| self.forbids(rule, simple, &names, cwd)) {
                return (decision, Some(rule), by_rule(rule));
            }
        }
        if self.mode == Mode::Bypass {
            if self.removes_everything(&names, cwd) {
                return (Decision::Deny, None, "it would remove the home folder, or everything".to_owned());
            }
            return (Decision::Allow, None, "the mode allows everything".to_owned());
        }
        let odd = simple.assignments.iter().find(|(name, value)| !is_harmless_variable(name, value));
        let inner = unwrapped(simple);
        let bare = self.rules(Kind::Allow).find(|rule| rule.content.is_none() && fits(&rule.tool, self.tool));
        if let Some(rule) = bare {
            return (Decision::Allow, Some(rule), by_rule(rule));
        }
        if let Some((name, _)) = odd {
            return self.without_rule(format!("it sets the variable `{name}`"));
        }
        let is_nothing = |word: &&Arg| word.text != "/dev/null" || word.is_unknown;
        let outputs: Vec<&Arg> = simple.outputs.iter().filter(is_nothing).collect();
        let accepts = matches!(self.mode, Mode::AcceptEdits | Mode::Auto);
        let is_changeable = |word: &Arg| !word.is_unknown && self.may_change(&self.named(word, cwd));
        if let Some(word) = outputs.iter().find(|word| !is_changeable(word)) {
            return self.without_rule(format!("it writes to `{}`", word.text));
        }
        if let Some(word) = simple.inputs.iter().find(|word| word.is_unknown || !self.is_readable(&self.named(word, cwd))) {
            return self.without_rule(format!("it reads `{}`, which is outside the session's folders", word.text));
        }
        if inner.words.is_empty() {
            return match simple.assignments.first() {
                Some((name, _)) => self.without_rule(format!("it sets the variable `{name}`")),
                None => (Decision::Allow, None, "it changes nothing else".to_owned()),
            };
        }
        if let Some(rule) = self.rules(Kind::Allow).find(|rule| rule.tool == self.tool && allows(rule, &inner)) {
            // A folder of another repository decides what its version control runs.
            if is_moved && inner.words.first().is_some_and(|word| command::base(&word.text) == "git") {
                return self.without_rule("it changes the folder before version control runs".to_owned());
            }
            return (Decision::Allow, Some(rule), by_rule(rule));
        }
        if accepts
            && !command::is_fed(simple)
            && let Some(files) = changed_by(&inner)
        {
            return match files.iter().find(|file| !is_changeable(file) || self.is_a_folder(file, cwd)) {
                None => (Decision::Allow, None, "the mode accepts edits".to_owned()),
                Some(file) => self.without_rule(format!("`{}` may not be changed without a question", file.text)),
            };
        }
        if let Some(files) = read_by(&inner).filter(|_| !command::is_fed(simple)) {
            if is_moved && inner.words.first().is_some_and(|word| word.text == "git") {
                return self.without_rule("it changes the folder before version control runs".to_owned());
            }
            let is_path = |file: &&&Arg| !file.text.starts_with('-') || file.text.contains('/');
            let outside = |file: &&&Arg| {
                let text = file.text.split_once('=').map_or(file.text.as_str(), |(_, value)| value);
                let text = if file.text.starts_with('-') { text } else { &file.text };
                let named = Arg { text: text.to_owned(), ..(**file).clone() };
                !self.is_readable(&self.named(&named, cwd))
            };
            return match files.iter().filter(is_path).find(outside) {
                None => (Decision::Allow, None, "it only reads".to_owned()),
                Some(file) => self.without_rule(format!("`{}` is outside the session's folders", file.text)),
            };
        }
        self.without_rule("no rule allows it".to_owned())
    }

    /// The path that a word means; of a pattern, the folder before it.
    fn named(&self, word: &Arg, cwd: &Path) -> PathBuf {
        let text = if word.is_pattern {
            let start = word.text.split(['*', '?', '[', '{']).next().unwrap_or_default();
            start.rsplit_once('/').map_or(".", |(folder, _)| if folder.is_empty() { "/" } else { folder })
        } else {
            &word.text
        };
        let home = self.place.home.unwrap_or(Path::new("/"));
        let tail = |start: &str| text.strip_prefix(start).map(|rest| rest.trim_start_matches('/'));
        let path = if let Some(rest) = tail("~").or_else(|| tail("$HOME")).or_else(|| tail("${HOME}")) {
            home.join(rest)
        } else if let Some(rest) = tail("$PWD").or_else(|| tail("${PWD}")) {
            cwd.join(rest)
        } else {
            cwd.join(text)
        };
        plain(&path)
    }

    fn is_a_folder(&self, word: &Arg, cwd: &Path) -> bool {
        let real = (self.place.real)(&self.named(word, cwd));
        self.place.folders.iter().any(|folder| (self.place.real)(folder).starts_with(&real))
    }

    /// Whether a rule that forbids is about a part.
    fn forbids(&self, rule: &Rule, simple: &Simple, names: &[Simple], cwd: &Path) -> bool {
        let Some(content) = &rule.content else { return fits(&rule.tool, self.tool) && !simple.words.is_empty() };
        let words = || simple.words.iter().chain(&simple.inputs).chain(&simple.outputs);
        match rule.tool.as_str() {
            "Bash" => names.iter().any(|name| matches_command(content, name)),
            "Read" => words().any(|word| self.word_fits(rule, content, word, cwd)),
            "Edit" | "Write" | "NotebookEdit" => {
                let only_reads = read_by(simple).is_some();
                simple.outputs.iter().any(|word| self.word_fits(rule, content, word, cwd))
                    || (!only_reads && simple.words.iter().any(|word| self.word_fits(rule, content, word, cwd)))
            }
            _ => false,
        }
    }

    /// Whether a word names a file that a rule is about, also as the value of an option, and in the
    /// folders where the command may be by then.
    fn word_fits(&self, rule: &Rule, content: &str, word: &Arg, cwd: &Path) -> bool {
        let value = word.text.split_once('=').map(|(_, value)| value.to_owned());
        let glued = word.text.strip_prefix('@').or(word.text.strip_prefix("file://")).map(str::to_owned);
        let texts = std::iter::once(word.text.clone()).chain(value).chain(glued);
        let mut paths = texts.flat_map(|text| {
            let word = Arg { text, ..word.clone() };
            [self.named(&word, cwd), self.named(&word, self.place.cwd)]
        });
        paths.any(|path| {
            self.path_fits(rule, content, &path)
                || (word.is_pattern && self.pattern(rule, content).literal.is_some_and(|literal| literal.starts_with(&path)))
        })
    }

    fn removes_everything(&self, names: &[Simple], cwd: &Path) -> bool {
        let home = self.place.home.map(self.place.real);
        names.iter().any(|name| {
            let is_rm = name.words.first().is_some_and(|word| word.text == "rm");
            let is_deep = name.words.iter().any(|word| word.text == "--recursive" || (word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains(['r', 'R'])));
            let is_all = |word: &Arg| {
                let path = (self.place.real)(&self.named(word, cwd));
                path == Path::new("/") || home.as_ref().is_some_and(|home| home.starts_with(&path))
            };
            is_rm && is_deep && name.words.iter().skip(1).any(|word| !word.text.starts_with('-') && is_all(word))
        })
    }
}

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

/// Whether a rule allows a command.
fn allows(rule: &Rule, simple: &Simple) -> bool {
    let is_known = |word: &Arg| !word.is_unknown || word.text.starts_with(['$', '~']);
    rule.content.as_deref().is_some_and(|content| simple.words.iter().all(is_known) && matches_command(content, simple))
}

/// Whether the content of a rule matches a command.
fn matches_command(content: &str, simple: &Simple) -> bool {
    let words: Vec<&str> = simple.words.iter().map(|word| word.text.as_str()).collect();
    if let Some(prefix) = content.strip_suffix(":*") {
        let mut wanted = prefix.split_whitespace();
        let mut words = words.iter();
        return wanted.all(|wanted| words.next() == Some(&wanted));
    }
    let text = Simple { words: simple.words.clone(), ..Simple::default() }.text();
    if content.contains('*') {
        let content = content.split_whitespace().collect::<Vec<_>>().join(" ");
        // `git *` matches `git`.
        return fits(&content, &text) || content.strip_suffix(" *").is_some_and(|start| fits(start, &text));
    }
    let wanted: Vec<Simple> = shell::parse(content).parts;
    text == content.trim() || matches!(&wanted[..], [one] if one.words == simple.words)
}
