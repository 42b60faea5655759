//! The syntax of rules: `Tool`, or `Tool(content)`.

use std::path::PathBuf;

/// What a rule says about the calls that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// They may run.
    Allow,
    /// Somebody has to be asked.
    Ask,
    /// They may not run.
    Deny,
}

/// A rule, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it says.
    pub kind: Kind,
    /// The name of the tool; `*` in it matches anything.
    pub tool: String,
    /// Which calls of the tool; None for all.
    pub content: Option<String>,
    /// Who wrote it: the name of the settings, or the flag.
    pub source: String,
    /// Where paths that begin with `/` start.
    pub root: PathBuf,
}

/// What is wrong with a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleError(pub &'static str);

impl std::fmt::Display for RuleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl Rule {
    /// Reads a rule.
    pub fn parse(text: &str, kind: Kind, source: &str, root: PathBuf) -> Result<Rule, RuleError> {
        let text = text.trim();
        let (name, content) = match text.split_once('(') {
            None => (text, None),
            Some((name, rest)) => {
                let content =
                    rest.strip_suffix(')').ok_or(RuleError("it does not end with `)`"))?;
                (name, Some(content))
            }
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.*".contains(c);
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(RuleError("it does not begin with the name of a tool"));
        }
        if kind == Kind::Allow && content.is_none() && name == "*" {
            return Err(RuleError("a rule that allows must name a tool"));
        }
        let mut open = 0_usize;
        let mut is_escaped = false;
        for c in content.unwrap_or_default().chars() {
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = true,
                '(' => open += 1,
                ')' => open = open.checked_sub(1).ok_or(RuleError("its brackets do not match"))?,
                _ => {}
            }
        }
        if open > 0 || is_escaped {
            return Err(RuleError("its brackets do not match"));
        }
        let content = content.filter(|content| !matches!(content.trim(), "" | "*"));
        Ok(Rule {
            kind,
            tool: current(name).to_owned(),
            content: content.map(str::to_owned),
            source: source.to_owned(),
            root,
        })
    }

    /// Whether the rule is about a tool, by its name; one with the name of an MCP server is about
    /// all tools of it.
    pub(crate) fn is_about(&self, tool: &str) -> bool {
        let server = self.tool.strip_prefix("mcp__").filter(|rest| !rest.contains("__"));
        fits(&self.tool, tool) || server.is_some() && fits(&format!("{}__*", self.tool), tool)
    }

    /// The rule as users write it.
    pub fn text(&self) -> String {
        match &self.content {
            None => self.tool.clone(),
            Some(content) => format!("{}({content})", self.tool),
        }
    }
}

/// Names that tools have, or had, in other versions, and what they are called here.
const OTHER_NAMES: [(&str, &str); 6] = [
    ("BashOutput", "TaskOutput"),
    ("AgentOutputTool", "TaskOutput"),
    ("KillShell", "TaskStop"),
    ("KillBash", "TaskStop"),
    ("MultiEdit", "Edit"),
    ("Agent", "Task"),
];

/// The name that a tool has here.
pub fn current(name: &str) -> &str {
    OTHER_NAMES.iter().find(|(other, _)| *other == name).map_or(name, |(_, here)| here)
}

/// All names of the tool that has this one.
pub fn names(name: &str) -> impl Iterator<Item = &str> {
    let here = current(name);
    let others = OTHER_NAMES.iter().filter(move |(_, meant)| *meant == here);
    std::iter::once(here).chain(others.map(|(other, _)| *other))
}

/// The rules in a list whose elements may hold several, separated by commas or blanks outside
/// brackets.
pub fn split<'a>(list: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut all = Vec::new();
    for text in list {
        let (mut depth, mut one, mut is_escaped) = (0_usize, String::new(), false);
        for c in text.chars() {
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' => is_escaped = depth > 0,
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 && (c == ',' || c.is_whitespace()) {
                all.push(std::mem::take(&mut one));
            } else {
                one.push(c);
            }
        }
        all.push(one);
    }
    all.retain(|one| !one.is_empty());
    all
}

/// Whether a text matches a pattern in which `*` matches anything.
pub fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.len() >= last.len() && rest.ends_with(last)
}
