//! The judge of commands: part by part, then all of it.

use std::path::{Path, PathBuf};

use super::spot::Spots;
use super::{Decision, Judge, Judgement, Part, Reason, SANDBOXED, UNDECIDED, by_rule, judgement};
use crate::command::{self, unwrapped};
use crate::granted;
use crate::harmless::{changed_by, is_harmless_variable, read_by};
use crate::mode::Mode;
use crate::path::{glob_fits, plain};
use crate::program;
use crate::rule::{Kind, Rule, fits};
use crate::shell::{self, Arg, Simple};

impl<'a> Judge<'a> {
    /// A command: each part, and all of it.
    pub(super) fn command(&self, text: &str) -> Judgement {
        let parsed = shell::parse(text);
        let mut spots = Spots::new(self.place.cwd);
        let mut parts = Vec::new();
        let mut doubts = parsed.doubts;
        let mut hidden = Vec::new();
        let names: Vec<_> = parsed.parts.iter().map(command::names).collect();
        let all: Vec<Simple> = names.iter().flat_map(|names| names.all.iter().cloned()).collect();
        let written = command::written(&all);
        if all.iter().any(|name| command::runs_one_of(name, &written)) {
            hidden.push("it runs what it has written itself");
        }
        for (simple, names) in parsed.parts.iter().zip(names) {
            let around = spots.of(simple);
            hidden.extend(names.doubts.iter().copied());
            let is_told =
                |name: &Simple| granted::is_open(name, 1) && self.told_by_file(name, &around);
            if names.all.iter().any(is_told) {
                hidden.push("the name of a file may stand for an option");
            }
            hidden.extend(self.may_name(simple, &names.all));
            let (decision, rule, why) = self.part(simple, &names.all, &around, spots.is_moved);
            parts.push(Part {
                text: simple.text(),
                decision,
                rule: rule.map(Rule::text),
                source: rule.map(|rule| rule.source.clone()),
                why,
            });
            spots.follow(simple, self);
        }
        if spots.is_lost {
            doubts.push("it changes to a folder that is not in its text");
        }
        parts.retain(|part| !part.text.is_empty() || part.decision != Decision::Allow);
        self.summed_up(doubts, hidden, parts)
    }

    /// `hidden` counts only where a rule forbids something that it may be.
    fn summed_up(
        &self,
        mut doubts: Vec<&'static str>,
        hidden: Vec<&'static str>,
        parts: Vec<Part>,
    ) -> Judgement {
        let from = |part: &Part, parts: Vec<Part>| Judgement {
            decision: part.decision,
            rule: part.rule.clone(),
            source: part.source.clone(),
            why: if parts.len() > 1 {
                format!("`{}`: {}", part.text, part.why)
            } else {
                part.why.clone()
            },
            parts,
        };
        if let Some(part) =
            parts.iter().find(|part| part.decision == Decision::Deny && part.rule.is_some())
        {
            return from(&part.clone(), parts);
        }
        let whole = |kind: Kind| {
            self.rules(kind).find(|rule| rule.content.is_none() && rule.is_about(self.tool))
        };
        if let Some(rule) = whole(Kind::Deny) {
            return judgement((Decision::Deny, Some(rule), by_rule(rule)), parts);
        }
        let bare = whole(Kind::Allow);
        let may_forbid = |rule: &Rule| {
            rule.kind != Kind::Allow
                && matches!(rule.tool.as_str(), "Bash" | "Read" | "Edit" | "Write" | "NotebookEdit")
        };
        let is_watched = self.book.rules.iter().any(may_forbid);
        if is_watched {
            doubts.extend(hidden);
        }
        if let Some(doubt) = doubts.first() {
            let why = format!("{doubt}{UNDECIDED}");
            // Where nothing is forbidden, nothing can be missed.
            if !is_watched && self.mode != Mode::Plan {
                if self.mode == Mode::Bypass
                    && !parts.iter().any(|part| part.decision == Decision::Deny)
                {
                    return judgement(
                        (Decision::Allow, None, "the mode allows everything".to_owned()),
                        parts,
                    );
                }
                if let Some(rule) = bare.filter(|_| self.mode != Mode::Bypass) {
                    return judgement((Decision::Allow, Some(rule), by_rule(rule)), parts);
                }
            }
            if let Some(part) =
                parts.iter().find(|part| part.decision == Decision::Ask && part.rule.is_some())
            {
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

    /// A part of a command, which runs in one of these folders.
    fn part(
        &self,
        simple: &Simple,
        names: &[Simple],
        spots: &[PathBuf],
        is_moved: bool,
    ) -> Reason<'a> {
        for kind in [Kind::Deny, Kind::Ask] {
            let forbids = |rule: &&Rule| self.forbids(rule, simple, names, spots);
            if let Some(rule) = self.rules(kind).find(forbids) {
                return self.forbidden(rule);
            }
        }
        if let Some(word) = self.other_name(simple, spots) {
            let why = format!("`{}` has other names, which a rule may be about", word.text);
            return self.without_rule(why);
        }
        if self.mode == Mode::Bypass {
            if self.removes_everything(names, spots) {
                return (
                    Decision::Deny,
                    None,
                    "it would remove the home folder, or everything".to_owned(),
                );
            }
            return (Decision::Allow, None, "the mode allows everything".to_owned());
        }
        let odd =
            simple.assignments.iter().find(|(name, value)| !is_harmless_variable(name, value));
        let inner = unwrapped(simple);
        // Nothing but the sandbox keeps a command that a rule allows from changing something.
        let is_open = self.mode == Mode::Plan && self.place.hold.is_none();
        let bare =
            self.rules(Kind::Allow).find(|rule| rule.content.is_none() && rule.is_about(self.tool));
        if let Some(rule) = bare.filter(|_| !is_open) {
            return (Decision::Allow, Some(rule), by_rule(rule));
        }
        if let Some((name, _)) = odd {
            return self.without_rule(format!("it sets the variable `{name}`"));
        }
        let is_nothing = |word: &&Arg| word.text != "/dev/null" || word.is_unknown;
        let outputs: Vec<&Arg> = simple.outputs.iter().filter(is_nothing).collect();
        let accepts = matches!(self.mode, Mode::AcceptEdits | Mode::Auto);
        let is_changeable = |word: &Arg| {
            !word.is_unknown && self.all_meant(word, spots, |path| self.may_change(path))
        };
        let is_readable = |word: &Arg| self.all_meant(word, spots, |path| self.is_readable(path));
        if let Some(word) = outputs.iter().find(|word| !is_changeable(word)) {
            return self.without_rule(format!("it writes to `{}`", word.text));
        }
        let mut inputs = simple.inputs.iter().filter(is_nothing);
        if let Some(word) = inputs.find(|word| word.is_unknown || !is_readable(word)) {
            return self.without_rule(format!(
                "it reads `{}`, which is outside the session's folders",
                word.text
            ));
        }
        if inner.words.is_empty() {
            return match simple.assignments.first() {
                Some((name, _)) => self.without_rule(format!("it sets the variable `{name}`")),
                None => (Decision::Allow, None, "it changes nothing else".to_owned()),
            };
        }
        let granted = || self.granted(&inner, (spots, is_moved), command::is_fed(simple));
        match (!is_open).then(granted).flatten() {
            Some(Ok(rule)) => return (Decision::Allow, Some(rule), by_rule(rule)),
            Some(Err(why)) => return self.without_rule(why),
            None => {}
        }
        if accepts
            && !command::is_fed(simple)
            && let Some(files) = changed_by(&inner)
        {
            return match files
                .iter()
                .find(|file| !is_changeable(file) || self.is_a_folder(file, spots))
            {
                None if self.copies_over(&inner, &files, spots) => {
                    self.without_rule("it may copy over what is in a folder already".to_owned())
                }
                None => (Decision::Allow, None, "the mode accepts edits".to_owned()),
                Some(file) => self
                    .without_rule(format!("`{}` may not be changed without a question", file.text)),
            };
        }
        let reads = read_by(&inner).filter(|_| !command::is_fed(simple));
        if let Some(files) = reads {
            if let Some(why) = self.obeyed(&inner, spots, is_moved) {
                return self.without_rule(why);
            }
            // Of folders, it compares the files in them, wherever links lead.
            let is_diff = inner.words.first().is_some_and(|word| word.text == "diff");
            if let Some(file) = files.iter().find(|file| is_diff && !self.is_closed(file, spots)) {
                let why = format!("`{}` contains links to the outside", file.text);
                return self.without_rule(why);
            }
            return self.only_reads(&files, spots);
        }
        self.without_rule("no rule allows it".to_owned())
    }

    /// The rule that allows a command and all that it runs; or what else it would need. None if no
    /// rule is about it.
    fn granted(
        &self,
        simple: &Simple,
        (spots, is_moved): (&[PathBuf], bool),
        is_fed: bool,
    ) -> Option<Result<&'a Rule, String>> {
        let mut missing = None;
        for rule in self.rules(Kind::Allow).filter(|rule| rule.tool == self.tool) {
            if !allows(rule, simple) {
                continue;
            }
            let why = self.obeyed(simple, spots, is_moved);
            match why.or_else(|| self.missing(rule, simple, spots, is_fed)) {
                None => return Some(Ok(rule)),
                Some(why) => missing = Some(Err(why)),
            }
        }
        missing
    }

    /// What a command does that a rule, which names how it begins, does not allow.
    fn missing(
        &self,
        rule: &Rule,
        simple: &Simple,
        spots: &[PathBuf],
        is_fed: bool,
    ) -> Option<String> {
        let named = granted::named(rule.content.as_deref()?)?;
        if is_fed && granted::is_open(simple, named) {
            return Some("it runs a command with words that are not in its text".to_owned());
        }
        if granted::is_open(simple, named) && self.told_by_file(simple, spots) {
            return Some("the name of a file may stand for an option".to_owned());
        }
        let inner = granted::inner(simple, named);
        if let Some(doubt) = inner.doubt {
            return Some(doubt.to_owned());
        }
        let allows = |command: &&Simple| {
            let changes_folder = command
                .words
                .first()
                .is_none_or(|word| matches!(word.text.as_str(), "cd" | "pushd" | "popd"));
            let is_plain = command.assignments.is_empty()
                && command
                    .inputs
                    .iter()
                    .chain(&command.outputs)
                    .all(|word| word.text == "/dev/null" && !word.is_unknown);
            is_plain
                && !changes_folder
                && match self.granted(command, (spots, false), is_fed) {
                    Some(found) => found.is_ok(),
                    None => read_by(command).is_some_and(|files| {
                        self.obeyed(command, spots, false).is_none()
                            && self.only_reads(&files, spots).0 == Decision::Allow
                    }),
                }
        };
        let other = inner.commands.iter().find(|command| !allows(command))?;
        Some(format!("it runs `{}`, which no rule allows", other.text()))
    }

    /// Why version control may run what a repository says: it decides that by its settings.
    fn obeyed(&self, simple: &Simple, spots: &[PathBuf], is_moved: bool) -> Option<String> {
        let name = simple.words.first().map(|word| program::base(&word.text))?;
        if name != "git" {
            return None;
        }
        if is_moved {
            return Some("it changes the folder before version control runs".to_owned());
        }
        let is_quiet = spots.iter().all(|spot| (self.place.runs_nothing)(spot));
        (!is_quiet).then(|| "the repository's settings may run programs".to_owned())
    }

    /// A command that only reads these words, if they are files.
    fn only_reads(&self, files: &[&Arg], spots: &[PathBuf]) -> Reason<'a> {
        if let Some(word) = files.iter().find(|word| self.may_be_option(word, spots)) {
            return self.without_rule(format!("`{}` may stand for an option", word.text));
        }
        let is_path = |file: &&&Arg| !file.text.starts_with('-') || file.text.contains(['/', '=']);
        let outside = |file: &&&Arg| {
            let text = file.text.split_once('=').map_or(file.text.as_str(), |(_, value)| value);
            let text = if file.text.starts_with('-') { text } else { &file.text };
            let word = Arg { text: text.to_owned(), ..(**file).clone() };
            !self.all_meant(&word, spots, |path| self.is_readable(path))
        };
        match files.iter().filter(is_path).find(outside) {
            None => (Decision::Allow, None, "it only reads".to_owned()),
            Some(file) => {
                self.without_rule(format!("`{}` is outside the session's folders", file.text))
            }
        }
    }

    /// Whether nothing directly in a folder leads out of the session's folders.
    fn is_closed(&self, word: &Arg, spots: &[PathBuf]) -> bool {
        spots.iter().map(|spot| self.joined(word, spot)).all(|folder| {
            let real = (self.place.real)(&folder);
            let entries = ["*", ".*"].map(|sign| (self.place.fitting)(&folder.join(sign)));
            entries.into_iter().all(|entries| {
                // Its parent is among those that begin with a dot.
                let is_readable =
                    |entry: &PathBuf| real.starts_with(entry) || self.is_readable(entry);
                entries.is_some_and(|entries| entries.iter().all(is_readable))
            })
        })
    }

    /// Whether a copy in a folder may go where a link there leads, or to a file that decides what
    /// programs do.
    fn copies_over(&self, simple: &Simple, files: &[&Arg], spots: &[PathBuf]) -> bool {
        let is_copy = simple.words.first().is_some_and(|word| word.text == "cp");
        let Some((into, sources)) = files.split_last().filter(|_| is_copy) else { return false };
        let is_deep = simple
            .words
            .iter()
            .any(|word| word.text.starts_with('-') && word.text.contains(['r', 'R', 'a']));
        let is_filled = |folder: &Path| {
            let real = (self.place.real)(folder);
            let entries = ["*", ".*"].map(|sign| (self.place.fitting)(&real.join(sign)));
            entries.into_iter().any(|found| {
                // The folder around it is among those that begin with a dot.
                found.is_none_or(|found| found.iter().any(|path| path.starts_with(&real)))
            })
        };
        let goes_wrong = |source: &Arg, into: &Path| {
            let is_whole = source.text.ends_with('.');
            let names = self.meant(source, spots).unwrap_or_default();
            let targets = names.iter().filter_map(|path| Some(into.join(path.file_name()?)));
            let whole = is_whole.then(|| into.to_owned());
            targets
                .chain(whole)
                .any(|target| !self.may_change(&target) || (is_deep && is_filled(&target)))
        };
        spots
            .iter()
            .map(|spot| self.joined(into, spot))
            .any(|into| sources.iter().any(|source| goes_wrong(source, &into)))
    }

    /// Whether a pattern among the words may become an option.
    fn told_by_file(&self, simple: &Simple, spots: &[PathBuf]) -> bool {
        simple.words.iter().skip(1).any(|word| self.may_be_option(word, spots))
    }

    fn is_a_folder(&self, word: &Arg, spots: &[PathBuf]) -> bool {
        let holds = |path: &Path| {
            let real = (self.place.real)(path);
            self.place.folders.iter().any(|folder| (self.place.real)(folder).starts_with(&real))
        };
        !self.all_meant(word, spots, |path| !holds(path))
    }

    /// A word that names a file that has other names, if rules are about single files.
    fn other_name<'b>(&self, simple: &'b Simple, spots: &[PathBuf]) -> Option<&'b Arg> {
        let words = simple.words.iter().skip(1).chain(&simple.inputs).chain(&simple.outputs);
        let has_one =
            |word: &&Arg| !self.all_meant(word, spots, |path| !(self.place.has_other_names)(path));
        self.has_path_rules().then(|| words.filter(|word| !word.is_unknown).find(has_one))?
    }

    /// Why a rule that forbids may be about what a command runs in its own way.
    fn may_name(&self, simple: &Simple, names: &[Simple]) -> Option<&'static str> {
        let rules = self.book.rules.iter().filter(|rule| rule.kind != Kind::Allow);
        let contents = rules.filter(|rule| rule.tool == "Bash").filter_map(|rule| {
            // What it begins with, up to the first word that may be anything.
            let content = rule.content.as_deref()?;
            let start = content.strip_suffix(":*").unwrap_or(content);
            let words: Vec<&str> =
                start.split_whitespace().take_while(|word| !word.contains('*')).collect();
            (!words.is_empty()).then_some(words)
        });
        contents.into_iter().find_map(|wanted| {
            let is_fed = names.iter().any(|name| command::may_become(name, &wanted));
            if is_fed {
                return Some("it runs a command with words that are not in its text");
            }
            if names.iter().any(|name| command::renames(name, &wanted)) {
                return Some("it gives another name to a program that a rule forbids");
            }
            if names.iter().any(|name| command::begins_behind_values(name, &wanted)) {
                return Some("behind its options, it may be a command that a rule forbids");
            }
            command::mentions(simple, &wanted)
                .then_some("its words name a command that a rule forbids")
        })
    }

    /// Whether a rule that forbids is about a part.
    fn forbids(&self, rule: &Rule, simple: &Simple, names: &[Simple], spots: &[PathBuf]) -> bool {
        let Some(content) = &rule.content else {
            return rule.is_about(self.tool) && !simple.words.is_empty();
        };
        let words = || simple.words.iter().chain(&simple.inputs).chain(&simple.outputs);
        match rule.tool.as_str() {
            "Bash" => names.iter().any(|name| matches_command(content, name)),
            "Read" => words().any(|word| self.word_fits(rule, content, word, spots)),
            "Edit" | "Write" | "NotebookEdit" => {
                let only_reads = read_by(simple).is_some();
                simple.outputs.iter().any(|word| self.word_fits(rule, content, word, spots))
                    || (!only_reads
                        && simple
                            .words
                            .iter()
                            .any(|word| self.word_fits(rule, content, word, spots)))
            }
            _ => false,
        }
    }

    /// Whether a word names a file that a rule is about, also as the value of an option, and in the
    /// folders where the command may be by then.
    fn word_fits(&self, rule: &Rule, content: &str, word: &Arg, spots: &[PathBuf]) -> bool {
        let value = word.text.split_once('=').map(|(_, value)| value.to_owned());
        let text = value.as_ref().unwrap_or(&word.text);
        let glued = text.strip_prefix('@').or(text.strip_prefix("file://")).map(str::to_owned);
        // Git names a file of another revision by `HEAD:file`, a copy to another machine by
        // `host:file`; a container is given one by `file:/its/name`.
        let (before, behind) = word.text.split_once(':').unwrap_or_default();
        let sides = [before, behind].into_iter().filter(|path| !path.is_empty());
        let sides: Vec<String> = sides.map(str::to_owned).collect();
        let texts = std::iter::once(word.text.clone()).chain(value).chain(glued).chain(sides);
        let mut words = texts.map(|text| Arg { text, ..word.clone() });
        let mut around = spots.to_vec();
        around.push(self.place.cwd.to_owned());
        words.any(|word| {
            let paths = self.meant(&word, &around);
            paths.is_some_and(|paths| paths.iter().any(|path| self.path_fits(rule, content, path)))
                || (word.is_pattern
                    && around.iter().any(|cwd| self.pattern_fits(rule, content, &word, cwd)))
        })
    }

    /// Whether a pattern of file names may mean a file that a rule is about.
    fn pattern_fits(&self, rule: &Rule, content: &str, word: &Arg, cwd: &Path) -> bool {
        let pattern = self.pattern(rule, content);
        let Some(literal) = &pattern.literal else {
            // Both are patterns: they may meet anywhere.
            return true;
        };
        let text = plain(&self.joined(word, cwd));
        literal.ancestors().any(|above| glob_fits(&text, above))
            || text.ancestors().any(|above| glob_fits(above, literal))
    }

    fn removes_everything(&self, names: &[Simple], spots: &[PathBuf]) -> bool {
        let home = self.place.home.map(self.place.real);
        names.iter().any(|name| {
            let is_rm = name.words.first().is_some_and(|word| word.text == "rm");
            let is_deep = name.words.iter().any(|word| {
                word.text == "--recursive"
                    || (word.text.starts_with('-')
                        && !word.text.starts_with("--")
                        && word.text.contains(['r', 'R']))
            });
            let is_everything = |path: &Path| {
                let path = (self.place.real)(path);
                path == Path::new("/") || home.as_ref().is_some_and(|home| home.starts_with(&path))
            };
            let is_all = |word: &Arg| {
                let paths = self.meant(word, spots).unwrap_or_default();
                paths.iter().any(|path| is_everything(path))
            };
            is_rm
                && is_deep
                && name.words.iter().skip(1).any(|word| !word.text.starts_with('-') && is_all(word))
        })
    }
}

/// Whether a rule allows a command.
fn allows(rule: &Rule, simple: &Simple) -> bool {
    let is_known = |word: &Arg| !word.is_unknown || word.text.starts_with(['$', '~']);
    rule.content.as_deref().is_some_and(|content| {
        simple.words.iter().all(is_known) && matches_command(content, simple)
    })
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
        return fits(&content, &text)
            || content.strip_suffix(" *").is_some_and(|start| fits(start, &text));
    }
    let wanted: Vec<Simple> = shell::parse(content).parts;
    text == content.trim() || matches!(&wanted[..], [one] if one.words == simple.words)
}
