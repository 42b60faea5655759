//! What a client makes anew at each start, as named patterns.
//!
//! Such texts say nothing about the session, so they are left out of the comparison, but only where
//! a client puts them: in the first prompt, in the new prompt, or in a message of role `system`
//! directly behind one of the two. Elsewhere, only their name is compared. Invariants: a pattern
//! describes how a text of the product begins and nothing more of it; every pattern has a reason;
//! how often each one applied is counted.

use std::collections::BTreeMap;

/// Texts that a client makes anew.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// What they are called in a comparison.
    pub name: &'static str,
    /// How they begin; `*` at the start stands for one word.
    begins: &'static [&'static str],
    /// The types of the attachments that they are stored as. Our own program writes such a type on
    /// the first line, and none of the product's words.
    kinds: &'static [&'static str],
    /// Why they are left out.
    pub why: &'static str,
}

/// A message of role `system` without content, which sets the effort.
pub const EFFORT: &str = "effort";

/// What may still be used: in the new prompt it may be as much as the session says.
pub(super) const BUDGET: &str = "budget";

/// The date of a change, a short word, proves that the change is the session's.
pub(super) const DATE_CHANGE: &str = "date_change";

/// Texts that introduce the session's content, if there is any.
pub(super) const INTRODUCE: &[&str] = &["notice", "plan", "todos"];

/// How a list of tools begins that is not in a reminder.
pub(super) const TOOLS: &str = "<available-deferred-tools>";

/// All patterns. `effort` has no text.
pub const PATTERNS: &[Pattern] = &[
    Pattern {
        name: "context",
        begins: &["As you answer the user's questions, you can use the following context:"],
        kinds: &["session_context"],
        why: "date, memory files and state of the repository, read at the start",
    },
    Pattern {
        name: "environment",
        begins: &["# Environment", "Here is useful information about the environment"],
        kinds: &["environment"],
        why: "folder, platform and shell of the start",
    },
    Pattern {
        name: "model",
        begins: &[
            "You are powered by the model",
            "You are now powered by",
            "Your model has changed",
        ],
        kinds: &["model"],
        why: "the model of the start",
    },
    Pattern {
        name: "agents",
        begins: &["Available agent types", "The following agent types are", "New agent types"],
        kinds: &["agent_listing_delta"],
        why: "agents that are installed",
    },
    Pattern {
        name: "skills",
        begins: &["The following skills are", "# Skill"],
        kinds: &["skill_listing"],
        why: "skills that are installed",
    },
    Pattern {
        name: "tools",
        begins: &[
            "The following deferred tools are",
            "The following deferred tool is",
            "The following tools are",
            "The following tool is",
        ],
        kinds: &["deferred_tools_delta"],
        why: "tools that are offered",
    },
    Pattern {
        name: "servers",
        begins: &["# MCP Server Instructions", "MCP server", "The following MCP servers have"],
        kinds: &["mcp_instructions_delta"],
        why: "servers that are connected",
    },
    Pattern {
        name: "date",
        begins: &["Today's date is ", "The current date is ", "Current date: "],
        kinds: &["date"],
        why: "the day of the start",
    },
    Pattern {
        name: DATE_CHANGE,
        begins: &["The date has changed"],
        kinds: &[],
        why: "that the start is on another day; a change in the session is its content",
    },
    Pattern {
        name: "todos",
        begins: &[
            "This is a reminder that your todo list is currently empty",
            "The TodoWrite tool hasn't been used recently",
            "The task tools haven't been used recently",
        ],
        kinds: &["todo_reminder", "task_reminder"],
        why: "the list of this start, which is empty",
    },
    Pattern {
        name: "style",
        begins: &["# Output Style", "* output style is active"],
        kinds: &["output_style"],
        why: "how answers are to look",
    },
    Pattern {
        name: "plan",
        begins: &["## Exited Plan Mode", "## Exited plan mode"],
        kinds: &["plan_mode_exit"],
        why: "that plan mode, which the session was in, is off at the start",
    },
    Pattern {
        name: "cut",
        begins: &["[cut]"],
        kinds: &[],
        why: "recordings do not have the product's own words",
    },
    Pattern {
        name: "notice",
        begins: &["[SYSTEM NOTIFICATION - NOT USER INPUT]"],
        kinds: &[],
        why: "a task of the session no longer runs; a session's own notice is its content",
    },
    Pattern {
        name: "instructions",
        begins: &["Instruction files were re-read"],
        kinds: &[],
        why: "which memory files there are at the start, and were not before",
    },
    Pattern {
        name: "git",
        begins: &["gitStatus:", "# gitStatus"],
        kinds: &[],
        why: "state of the repository at the start",
    },
    Pattern {
        name: BUDGET,
        begins: &["<total_tokens>"],
        kinds: &["total_tokens_reminder"],
        why: "what may still be used; a session's own note is its content, but in the new prompt",
    },
    Pattern {
        name: "attribution",
        begins: &["Attribution for git commits"],
        kinds: &[],
        why: "a setting",
    },
    Pattern {
        name: "user",
        begins: &["# userEmail", "The user's email"],
        kinds: &[],
        why: "who is logged in",
    },
];

impl Pattern {
    fn fits(&self, text: &str) -> bool {
        let first = text.lines().next().unwrap_or_default().trim();
        let is_kind = self.name == first || self.kinds.contains(&first);
        is_kind
            || self.begins.iter().any(|begins| match begins.strip_prefix('*') {
                None => text.starts_with(begins),
                Some(rest) => {
                    text.find(char::is_whitespace).is_some_and(|at| text[at..].starts_with(rest))
                }
            })
    }
}

/// The name of the pattern that a text begins like.
pub fn kind(text: &str) -> Option<&'static str> {
    let text = text.trim_start();
    PATTERNS.iter().find(|pattern| pattern.fits(text)).map(|pattern| pattern.name)
}

/// Whether a text of this kind lists what is installed, where a word may be by chance.
pub(super) fn is_list(kind: Option<&str>) -> bool {
    kind.is_some_and(|kind| kind != DATE_CHANGE)
}

/// How often each pattern left something out.
#[derive(Clone, Debug, Default)]
pub struct Applied(BTreeMap<&'static str, usize>);

impl Applied {
    pub(super) fn count(&mut self, kind: &'static str) {
        *self.0.entry(kind).or_default() += 1;
    }

    /// The names of the patterns that applied, with their counts.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.0.iter().map(|(name, count)| (*name, *count))
    }
}
