//! Takes a shell command apart, with the grammar of bash.
//!
//! Invariants: every simple command is found, wherever it is nested; where the meaning depends on
//! something that is not in the text, or goes beyond lists, pipes and conditions of plain commands,
//! that is a `doubt`.

use brush_parser::ast::{
    AndOr, Command, CommandPrefixOrSuffixItem as Item, CompoundCommand, CompoundList, ElseClause,
    IoFileRedirectKind, IoFileRedirectTarget, IoRedirect, Pipeline, RedirectList,
    SeparatorOperator, SimpleCommand, Word,
};
use brush_parser::word::{Parameter, ParameterExpr, WordPiece, WordPieceWithSource};
use brush_parser::{Parser, ParserOptions};

use crate::quote::single_quoted;

/// Longer commands are not taken apart.
const LONGEST: usize = 10_000;
/// Nor are commands that are nested deeper.
const DEEPEST: usize = 20;
/// Nor are those with more words that something may be nested in.
const OPENING: usize = 100;
/// These words.
const OPENERS: [&str; 10] =
    ["case", "coproc", "elif", "for", "function", "if", "select", "time", "until", "while"];

/// A command, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    /// Its simple commands, from left to right.
    pub(crate) parts: Vec<Simple>,
    /// Why it cannot be judged by its parts.
    pub(crate) doubts: Vec<&'static str>,
    /// How many chains there are.
    chains: usize,
}

/// A simple command.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is true of a command or not")]
pub(crate) struct Simple {
    /// Its words, without quotes.
    pub(crate) words: Vec<Arg>,
    /// Variables that are set for it.
    pub(crate) assignments: Vec<(String, String)>,
    /// Files that its input comes from, and that its output goes to.
    pub(crate) inputs: Vec<Arg>,
    pub(crate) outputs: Vec<Arg>,
    /// Whether it is inside a substitution, or the like.
    pub(crate) is_nested: bool,
    /// The number of its chain: commands that run only if all before them in it succeeded.
    pub(crate) chain: usize,
    /// Whether it runs in a shell of its own, because it is part of a pipe.
    pub(crate) is_piped: bool,
    /// Whether it is given something to read: a file, a text, or what another command prints.
    pub(crate) has_input: bool,
    /// Whether it may run more than once, each time where the last time has left it.
    pub(crate) is_repeated: bool,
}

/// A word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is true of a word or not")]
pub(crate) struct Arg {
    /// The text without quotes.
    pub(crate) text: String,
    /// Whether it contains a pattern of file names.
    pub(crate) is_pattern: bool,
    /// Whether its value is not in the text.
    pub(crate) is_unknown: bool,
    /// Whether a sign of such a pattern is in quotes, and means itself.
    pub(crate) has_quoted_signs: bool,
    /// Whether its beginning is in quotes: then it does not begin with a folder by name.
    pub(crate) is_literal: bool,
}

/// Signs of a pattern of file names.
const SIGNS: [char; 3] = ['*', '?', '['];

impl Arg {
    /// Adds a text that means itself.
    fn quoted(&mut self, text: &str) {
        self.has_quoted_signs |= text.contains(SIGNS) || text.contains('\\');
        self.is_literal |= self.text.is_empty() && text.starts_with(['~', '$']);
        self.text.push_str(text);
    }
}

impl Simple {
    /// The command in words, for people and for rules.
    pub(crate) fn text(&self) -> String {
        let mut words: Vec<String> =
            self.assignments.iter().map(|(name, value)| format!("{name}={value}")).collect();
        words.extend(self.words.iter().map(|word| quoted(&word.text)));
        words.join(" ")
    }

    /// The command, reading what the one reads that runs it.
    pub(crate) fn with_input(self, has_input: bool) -> Simple {
        Simple { has_input: self.has_input || has_input, ..self }
    }

    /// Whether another command is the same.
    pub(crate) fn is_same(&self, other: &Simple) -> bool {
        self.words == other.words
            && self.assignments == other.assignments
            && self.outputs == other.outputs
            && self.has_input == other.has_input
    }

    /// The command from a word on.
    pub(crate) fn since_word(&self, at: usize) -> Simple {
        let words = self.words.get(at..).unwrap_or_default().to_vec();
        Simple { words, is_nested: true, has_input: self.has_input, ..Simple::default() }
    }
}

/// A word in which blanks do not end it, and that is none that a quote of its own ends.
fn quoted(word: &str) -> String {
    if word.contains(['\'', '"']) {
        single_quoted(word)
    } else if word.is_empty() || word.contains(char::is_whitespace) {
        format!("'{word}'")
    } else {
        word.to_owned()
    }
}

/// Takes a command apart.
pub(crate) fn parse(text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    let mut walk = Walk {
        parsed: &mut parsed,
        depth: 0,
        chain: 0,
        is_piped: false,
        has_input: false,
        is_repeated: false,
    };
    walk.text(text);
    parsed
}

struct Walk<'a> {
    parsed: &'a mut Parsed,
    /// More than 0 inside something that cannot be judged.
    depth: usize,
    chain: usize,
    is_piped: bool,
    has_input: bool,
    is_repeated: bool,
}

impl Walk<'_> {
    fn doubt(&mut self, why: &'static str) {
        if !self.parsed.doubts.contains(&why) {
            self.parsed.doubts.push(why);
        }
    }

    /// Walks through what is inside something that cannot be judged.
    fn nested(&mut self, why: &'static str, walk: impl FnOnce(&mut Walk<'_>)) {
        self.doubt(why);
        if self.depth >= DEEPEST {
            return self.doubt("it is nested too deep");
        }
        walk(&mut Walk {
            parsed: self.parsed,
            depth: self.depth + 1,
            chain: self.chain,
            is_piped: self.is_piped,
            has_input: self.has_input,
            is_repeated: self.is_repeated,
        });
    }

    fn text(&mut self, text: &str) {
        // Other characters are blanks or newlines to some and not to others.
        let is_odd = |c: char| (c.is_control() && c != '\n' && c != '\t') || is_odd_blank(c);
        let is_odd = text.chars().any(is_odd) || has_too_large_number(text);
        if text.len() > LONGEST || is_odd || is_too_deep(text) {
            return self.doubt("it cannot be parsed");
        }
        let options = ParserOptions::default();
        match Parser::new(text.as_bytes(), &options).parse_program() {
            Ok(program) => program.complete_commands.iter().for_each(|list| self.list(list)),
            Err(_) => self.doubt("it cannot be parsed"),
        }
    }

    fn list(&mut self, list: &CompoundList) {
        for item in &list.0 {
            if matches!(item.1, SeparatorOperator::Async) {
                self.doubt("a part of it runs in the background");
            }
            let mut chain = self.new_chain();
            self.pipeline(&item.0.first, chain);
            let mut is_negated = item.0.first.bang;
            for more in &item.0.additional {
                let (AndOr::And(pipeline) | AndOr::Or(pipeline)) = more;
                if is_negated || matches!(more, AndOr::Or(_)) {
                    chain = self.new_chain();
                }
                self.pipeline(pipeline, chain);
                is_negated = pipeline.bang;
            }
        }
    }

    fn new_chain(&mut self) -> usize {
        self.parsed.chains += 1;
        self.parsed.chains
    }

    fn pipeline(&mut self, pipeline: &Pipeline, chain: usize) {
        let was = (self.is_piped, self.has_input);
        self.is_piped |= pipeline.seq.len() > 1;
        for command in &pipeline.seq {
            self.chain = chain;
            self.command(command);
            // The next one reads what this one prints.
            self.has_input = true;
        }
        (self.is_piped, self.has_input) = was;
    }

    fn command(&mut self, command: &Command) {
        match command {
            Command::Simple(simple) => self.simple(simple),
            Command::Compound(compound, redirects) => {
                let had_input = self.has_input;
                self.has_input |= redirects.iter().flat_map(|list| &list.0).any(is_input);
                self.compound(compound);
                self.has_input = had_input;
                self.redirects(redirects.as_ref());
            }
            Command::Function(function) => {
                self.nested("it defines a function", |walk| {
                    walk.compound(&function.body.0);
                    walk.redirects(function.body.1.as_ref());
                });
            }
            Command::ExtendedTest(test, redirects) => {
                // Its words may contain substitutions.
                let inner = test.to_string();
                // Numbers are evaluated, whatever the variables contain that they are made of.
                let is_evaluated = inner.split_whitespace().any(|word| {
                    matches!(word, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" | "-v" | "-R")
                });
                if is_evaluated || inner.contains(['$', '`', '<']) {
                    self.doubt("it contains a test that cannot be judged");
                }
                self.redirects(redirects.as_ref());
            }
        }
    }

    /// A simple command that is here, without words.
    fn empty(&self) -> Simple {
        Simple {
            is_nested: self.depth > 0,
            chain: self.chain,
            is_piped: self.is_piped,
            has_input: self.has_input,
            is_repeated: self.is_repeated,
            ..Simple::default()
        }
    }

    fn redirects(&mut self, redirects: Option<&RedirectList>) {
        let Some(list) = redirects else { return };
        let mut simple = self.empty();
        list.0.iter().for_each(|redirect| self.redirect(redirect, &mut simple));
        self.parsed.parts.push(simple);
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition);
                self.list(&clause.then);
                for ElseClause { condition, body } in clause.elses.iter().flatten() {
                    if let Some(list) = condition {
                        self.list(list);
                    }
                    self.list(body);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                let was_repeated = std::mem::replace(&mut self.is_repeated, true);
                self.list(&clause.0);
                self.list(&clause.1.list);
                self.is_repeated = was_repeated;
            }
            CompoundCommand::ForClause(clause) => {
                for word in clause.values.iter().flatten() {
                    self.word(word);
                }
                // The variable is set to values that a later part may use.
                self.nested("it contains a loop with a variable", |walk| {
                    walk.list(&clause.body.list);
                });
            }
            CompoundCommand::BraceGroup(group) => {
                self.nested("it contains a group", |walk| walk.list(&group.list));
            }
            CompoundCommand::Subshell(subshell) => {
                self.nested("it contains a subshell", |walk| walk.list(&subshell.list));
            }
            CompoundCommand::CaseClause(clause) => {
                self.nested("it contains a `case`", |walk| {
                    for case in &clause.cases {
                        case.cmd.iter().for_each(|list| walk.list(list));
                    }
                });
            }
            CompoundCommand::Arithmetic(_)
            | CompoundCommand::ArithmeticForClause(_)
            | CompoundCommand::Coprocess(_) => {
                self.doubt("it contains a part that cannot be judged");
            }
        }
    }

    fn simple(&mut self, command: &SimpleCommand) {
        let mut simple = self.empty();
        let prefix = command.prefix.iter().flat_map(|prefix| &prefix.0);
        for item in prefix {
            match item {
                Item::AssignmentWord(_, word) => self.assignment(word, &mut simple),
                item => self.item(item, &mut simple),
            }
        }
        if let Some(name) = &command.word_or_name {
            let name = self.word(name);
            if name.is_unknown || name.is_pattern {
                self.doubt("the name of a command is not in the text");
            }
            simple.words.push(name);
        }
        let may_be_variable = |word: &Word| word.value.ends_with('}');
        let mut may_set = command.word_or_name.as_ref().is_some_and(may_be_variable);
        for item in command.suffix.iter().flat_map(|suffix| &suffix.0) {
            if may_set && matches!(item, Item::IoRedirect(_)) {
                self.doubt("a redirection in it may set a variable");
            }
            may_set = matches!(item, Item::Word(word) if may_be_variable(word));
            self.item(item, &mut simple);
        }
        self.parsed.parts.push(simple);
    }

    fn assignment(&mut self, word: &Word, simple: &mut Simple) {
        let value = self.word(word);
        match value.text.split_once('=') {
            Some((name, text)) if !value.is_unknown => {
                simple.assignments.push((name.to_owned(), text.to_owned()));
            }
            _ => {
                self.doubt("it sets a variable to a value that is not in the text");
            }
        }
    }

    fn item(&mut self, item: &Item, simple: &mut Simple) {
        match item {
            Item::IoRedirect(redirect) => self.redirect(redirect, simple),
            Item::Word(word) | Item::AssignmentWord(_, word) => {
                let word = self.word(word);
                simple.words.push(word);
            }
            Item::ProcessSubstitution(_, inner) => {
                self.nested("it contains a substitution", |walk| walk.list(&inner.list));
            }
        }
    }

    fn redirect(&mut self, redirect: &IoRedirect, simple: &mut Simple) {
        simple.has_input |= is_input(redirect);
        match redirect {
            IoRedirect::File(_, kind, target) => {
                let word = match target {
                    IoFileRedirectTarget::Fd(_) => return,
                    IoFileRedirectTarget::ProcessSubstitution(_, inner) => {
                        return self
                            .nested("it contains a substitution", |walk| walk.list(&inner.list));
                    }
                    IoFileRedirectTarget::Duplicate(word)
                    | IoFileRedirectTarget::Filename(word) => self.word(word),
                };
                let is_descriptor = |text: &str| {
                    let text = text.strip_suffix('-').unwrap_or(text);
                    text.chars().all(|c| c.is_ascii_digit())
                };
                match kind {
                    IoFileRedirectKind::Read => simple.inputs.push(word),
                    IoFileRedirectKind::DuplicateInput | IoFileRedirectKind::DuplicateOutput
                        if is_descriptor(&word.text) && !word.is_unknown => {}
                    _ => simple.outputs.push(word),
                }
            }
            IoRedirect::OutputAndError(word, _) => {
                let word = self.word(word);
                simple.outputs.push(word);
            }
            IoRedirect::HereString(_, word) => {
                self.word(word);
            }
            IoRedirect::HereDocument(_, document) => {
                let is_continued = document.doc.value.contains("\\\n");
                if !is_plain_end(&document.here_end.value)
                    || (document.requires_expansion && is_continued)
                {
                    self.doubt("where its here document ends cannot be told");
                }
                if document.requires_expansion && document.doc.value.contains(['$', '`']) {
                    let doc = document.doc.value.replace('"', "");
                    self.pieces(&format!("\"{doc}\""), &mut Arg::default());
                    self.doubt("its here document contains something that the shell replaces");
                }
            }
        }
    }

    fn word(&mut self, word: &Word) -> Arg {
        let mut arg = Arg::default();
        self.pieces(&word.value, &mut arg);
        // Alone, it is the name of a command, and the end of its words.
        arg.is_pattern &= word.value != "[";
        arg
    }

    fn pieces(&mut self, text: &str, arg: &mut Arg) {
        if let Ok(pieces) = brush_parser::word::parse(text, &ParserOptions::default()) {
            self.sequence(&pieces, arg, true);
        } else {
            self.doubt("it cannot be parsed");
            arg.is_unknown = true;
        }
    }

    fn sequence(&mut self, pieces: &[WordPieceWithSource], arg: &mut Arg, is_bare: bool) {
        for piece in pieces {
            self.piece(&piece.piece, arg, is_bare);
        }
        if is_bare {
            self.between(pieces, arg);
        }
    }

    /// What the pieces of a word are together.
    fn between(&mut self, pieces: &[WordPieceWithSource], arg: &mut Arg) {
        let bare = pieces.iter().map(|piece| match &piece.piece {
            WordPiece::Text(text) => text.as_str(),
            _ => "_",
        });
        let bare: String = bare.collect();
        let is_brace =
            bare.split_once('{').is_some_and(|(_, rest)| rest.contains(',') || rest.contains(".."));
        if is_brace {
            arg.is_pattern = true;
            self.doubt("it contains braces that the shell replaces");
        }
        let ends_with_dollar = |piece: &WordPiece| {
            matches!(piece, WordPiece::Text(text) | WordPiece::EscapeSequence(text)
                if text.ends_with('$'))
        };
        let is_odd = |pair: &[WordPieceWithSource]| {
            ends_with_dollar(&pair[0].piece)
                && matches!(pair[1].piece, WordPiece::SingleQuotedText(_))
        };
        if pieces.windows(2).any(is_odd) {
            self.doubt("where its quotes end cannot be told");
        }
    }

    fn piece(&mut self, piece: &WordPiece, arg: &mut Arg, is_bare: bool) {
        match piece {
            WordPiece::Text(text) if !is_bare => arg.quoted(text),
            WordPiece::Text(text) => {
                arg.text.push_str(text);
                arg.is_pattern |= text.contains(SIGNS);
                // With `extglob`, that is a pattern without such a sign, too.
                if text.contains('(') {
                    self.doubt("it contains a pattern that cannot be judged");
                }
            }
            WordPiece::SingleQuotedText(text) => arg.quoted(text),
            WordPiece::DoubleQuotedSequence(inner) => self.sequence(inner, arg, false),
            WordPiece::EscapeSequence(text) => {
                // A newline after a backslash is nothing.
                arg.quoted(text.strip_prefix('\\').unwrap_or(text).trim_start_matches('\n'));
            }
            WordPiece::TildeExpansion(tilde) => {
                arg.text.push('~');
                if !matches!(tilde, brush_parser::word::TildeExpr::Home) {
                    arg.is_unknown = true;
                    self.doubt("it names a folder that is not in its text");
                }
            }
            WordPiece::ParameterExpansion(ParameterExpr::Parameter {
                parameter,
                indirect: false,
            }) if matches!(parameter, Parameter::Named(_) | Parameter::Special(_)) => {
                let is_known =
                    matches!(parameter, Parameter::Named(name) if name == "HOME" || name == "PWD");
                let name = parameter.to_string();
                arg.text.push_str(&name);
                arg.is_unknown = true;
                if !is_known {
                    self.doubt("it contains a variable");
                }
            }
            WordPiece::CommandSubstitution(inner) => {
                arg.is_unknown = true;
                let inner = inner.clone();
                self.nested("it contains a substitution", |walk| walk.text(&inner));
            }
            WordPiece::BackquotedCommandSubstitution(inner) => {
                arg.is_unknown = true;
                let inner = inner.replace("\\`", "`").replace("\\\\", "\\").replace("\\$", "$");
                self.nested("it contains a substitution", |walk| walk.text(&inner));
            }
            WordPiece::ParameterExpansion(_)
            | WordPiece::ArithmeticExpression(_)
            | WordPiece::AnsiCQuotedText(_)
            | WordPiece::GettextDoubleQuotedSequence(_) => {
                arg.is_unknown = true;
                self.doubt("it contains a replacement that cannot be judged");
            }
        }
    }
}

/// Whether a redirection gives a command something to read.
fn is_input(redirect: &IoRedirect) -> bool {
    let is_reading = |kind: &IoFileRedirectKind| {
        !matches!(
            kind,
            IoFileRedirectKind::Write
                | IoFileRedirectKind::Append
                | IoFileRedirectKind::Clobber
                | IoFileRedirectKind::DuplicateOutput
        )
    };
    match redirect {
        IoRedirect::File(_, kind, _) => is_reading(kind),
        IoRedirect::HereString(..) | IoRedirect::HereDocument(..) => true,
        IoRedirect::OutputAndError(..) => false,
    }
}

/// Blanks that are not blanks to the shell, and characters that change the direction of text.
fn is_odd_blank(c: char) -> bool {
    (c.is_whitespace() && !c.is_ascii())
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// The most digits of the number of a file that the parser can hold, and of a folder behind a
/// tilde: it ends the program at larger ones.
const DIGITS: (usize, usize) = (9, 18);

/// Whether a text holds a number where the parser expects one that is not so large.
fn has_too_large_number(text: &str) -> bool {
    // A newline behind a backslash is nothing, also in a number.
    let text: Vec<char> = text.replace("\\\n", "").chars().collect();
    let mut at = 0;
    while at < text.len() {
        let digits = text[at..].iter().take_while(|c| c.is_ascii_digit()).count();
        let is_file = matches!(text.get(at + digits), Some('<' | '>'));
        let is_folder = || {
            let before = text[..at].iter().rev().find(|c| !matches!(c, '+' | '-'));
            before == Some(&'~')
        };
        if digits > DIGITS.0 && is_file || digits > DIGITS.1 && is_folder() {
            return true;
        }
        at += digits.max(1);
    }
    false
}

/// Whether a word ends a here document where it is written, whoever reads it.
fn is_plain_end(word: &str) -> bool {
    let quoted = ['"', '\'']
        .iter()
        .find_map(|mark| word.strip_prefix(*mark).and_then(|rest| rest.strip_suffix(*mark)));
    let name = quoted.or(word.strip_prefix('\\')).unwrap_or(word);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

/// Whether it may be nested so deep that parsing takes long, or more stack than there is.
fn is_too_deep(text: &str) -> bool {
    // What ends them is not counted: it may be a word like any other.
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    if words.filter(|word| OPENERS.contains(word)).count() > OPENING {
        return true;
    }
    let (mut depth, mut deepest) = (0_usize, 0);
    for c in text.chars() {
        match c {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest > DEEPEST
}
