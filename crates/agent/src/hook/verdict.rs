//! What the hooks of an event say together.

use serde_json::Value;

use super::run::Ran;
use super::{Hook, Occurs, occurs};

/// What hooks say about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Permission {
    /// It needs no question.
    Allow,
    /// It needs one.
    Ask,
    /// It does not run now, and the turn ends.
    Defer,
    /// It does not run.
    Deny,
}

/// What all hooks of an event say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    /// Refusals: the hook's name if it refused by its exit code, and why.
    pub(crate) blocks: Vec<(Option<String>, String)>,
    /// The strictest word about a call, and why.
    pub(crate) permission: Option<(Permission, String)>,
    /// Another input for the call.
    pub(crate) input: Option<Value>,
    /// Another result of the call.
    pub(crate) output: Option<Value>,
    /// Texts for the model.
    pub(crate) contexts: Vec<String>,
    /// What was printed without any form.
    pub(crate) printed: Vec<String>,
    /// Why the turn is to end.
    pub(crate) halt: Option<String>,
    /// Texts for the user.
    pub(crate) messages: Vec<String>,
    /// Hooks that failed without refusing.
    pub(crate) failures: Vec<String>,
    /// What a `PermissionRequest` hook decides.
    pub(crate) decision: Option<Value>,
    /// A title for the session.
    pub(crate) title: Option<String>,
    /// A prompt that comes first.
    pub(crate) first_prompt: Option<String>,
    /// Whether a prompt that is refused is not repeated to anybody.
    pub(crate) hides_prompt: bool,
}

/// Whether a refusal holds anything up or reaches the model. Otherwise the user gets its words.
fn is_heard(event: &str) -> bool {
    occurs(event) == Some(Occurs::AndBlocks) || event == "PostToolUseFailure"
}

/// The most characters of a text from a hook that reach the model.
const LONGEST: usize = 10_000;

/// A text of a hook as far as it reaches the model.
pub(crate) fn cut(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}… [cut]", &text[..end]),
        None => text.to_owned(),
    }
}

/// What a decision about a call can be.
const DECISIONS: [&str; 6] = ["allow", "approve", "ask", "block", "defer", "deny"];

/// The member of an answer that has another form than it can have.
fn misshapen(answer: &Value) -> Option<&'static str> {
    let more = &answer["hookSpecificOutput"];
    let is_word = |value: &Value| value.as_str().is_some_and(|word| DECISIONS.contains(&word));
    let members = [
        ("continue", &answer["continue"], answer["continue"].is_boolean()),
        ("suppressOutput", &answer["suppressOutput"], answer["suppressOutput"].is_boolean()),
        ("stopReason", &answer["stopReason"], answer["stopReason"].is_string()),
        ("reason", &answer["reason"], answer["reason"].is_string()),
        ("systemMessage", &answer["systemMessage"], answer["systemMessage"].is_string()),
        ("decision", &answer["decision"], is_word(&answer["decision"])),
        ("hookSpecificOutput", more, more.is_object()),
        ("permissionDecision", &more["permissionDecision"], is_word(&more["permissionDecision"])),
        ("updatedInput", &more["updatedInput"], more["updatedInput"].is_object()),
        ("additionalContext", &more["additionalContext"], more["additionalContext"].is_string()),
        ("hookSpecificOutput.decision", &more["decision"], more["decision"].is_object()),
    ];
    let wrong = |(_, value, is_right): &(&str, &Value, bool)| !value.is_null() && !is_right;
    members.into_iter().find(wrong).map(|(name, ..)| name)
}

impl Verdict {
    /// Joins what the hooks of an event said.
    pub(crate) fn of(event: &str, ran: &[(Hook, Ran)]) -> Verdict {
        let mut verdict = Verdict::default();
        for (hook, ran) in ran {
            verdict.add(event, hook, ran);
        }
        if !is_heard(event) {
            let refusals = std::mem::take(&mut verdict.blocks).into_iter();
            let texts = refusals.map(|(name, why)| match name {
                Some(name) => format!("the {event} hook `{name}`: {why}"),
                None => format!("a {event} hook: {why}"),
            });
            verdict.failures.extend(texts);
        }
        verdict
    }

    fn add(&mut self, event: &str, hook: &Hook, ran: &Ran) {
        let name = hook.action.name();
        if let Some(why) = &ran.trouble {
            return self.failed(hook, event, format!("the {event} hook `{name}` {why}"));
        }
        match ran.code {
            Some(0) => {}
            Some(2) => {
                let words = cut(&ran.stderr);
                let words = if words.is_empty() { "No stderr output".to_owned() } else { words };
                self.blocks.push((Some(name.to_owned()), words));
                return;
            }
            code => {
                let code =
                    code.map_or("was killed".to_owned(), |code| format!("ended with {code}"));
                let words = cut(&ran.stderr);
                let why = format!("the {event} hook `{name}` {code}: {words}");
                return self.failed(hook, event, why);
            }
        }
        let text = ran.stdout.trim();
        let answer: Option<Value> =
            if text.starts_with('{') { serde_json::from_str(text).ok() } else { None };
        match answer {
            Some(answer) => {
                // What it says beside that counts: it may be a refusal.
                self.answer(event, &answer);
                if let Some(member) = misshapen(&answer) {
                    let why = format!(
                        "the {event} hook `{name}` printed a `{member}` that is not understood"
                    );
                    self.failed(hook, event, why);
                }
            }
            None if text.starts_with('{') => {
                let why = format!("the {event} hook `{name}` printed JSON that is broken");
                self.failed(hook, event, why);
            }
            None if !text.is_empty() => self.printed.push(cut(text)),
            None => {}
        }
    }

    fn failed(&mut self, hook: &Hook, event: &str, why: String) {
        // A turn that has to go on because a hook fails would never end.
        if hook.blocks_on_failure && !matches!(event, "Stop" | "SubagentStop") {
            self.blocks.push((None, why));
        } else {
            self.failures.push(why);
        }
    }

    fn answer(&mut self, event: &str, answer: &Value) {
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(cut);
        let reason = text(&answer["reason"]);
        let more = &answer["hookSpecificOutput"];
        if answer["continue"] == false {
            let why = text(&answer["stopReason"]).or_else(|| reason.clone());
            self.halt = Some(why.unwrap_or_else(|| format!("A {event} hook ended the turn")));
        }
        self.messages.extend(text(&answer["systemMessage"]));
        self.contexts.extend(text(&more["additionalContext"]));
        let because = || reason.clone().unwrap_or_else(|| format!("Blocked by a {event} hook"));
        let by_word = match more["permissionDecision"].as_str().or(answer["decision"].as_str()) {
            Some("deny" | "block") => Some(Permission::Deny),
            Some("ask") => Some(Permission::Ask),
            Some("defer") => Some(Permission::Defer),
            Some("allow" | "approve") => Some(Permission::Allow),
            _ => None,
        };
        let why = text(&more["permissionDecisionReason"]).unwrap_or_else(because);
        match by_word {
            Some(Permission::Deny) => self.blocks.push((None, why)),
            Some(word) if self.permission.as_ref().is_none_or(|(other, _)| *other < word) => {
                self.permission = Some((word, why));
            }
            _ => {}
        }
        let object = |value: &Value| Some(value.clone()).filter(Value::is_object);
        self.input = object(&more["updatedInput"]).or(self.input.take());
        self.output = more.get("updatedToolOutput").cloned().or(self.output.take());
        if let Some(decision) = object(&more["decision"]) {
            let is_denied = self.decision.as_ref().is_some_and(|other| other["behavior"] == "deny");
            if !is_denied {
                self.decision = Some(decision);
            }
        }
        self.title = text(&more["sessionTitle"]).or(self.title.take());
        self.first_prompt = text(&more["initialUserMessage"]).or(self.first_prompt.take());
        self.hides_prompt |= more["suppressOriginalPrompt"] == true;
    }

    /// Why something is refused, in the words that a model gets.
    pub(crate) fn refusal(&self) -> Option<String> {
        let (name, why) = self.blocks.first()?;
        Some(match name {
            Some(name) => format!("[{name}]: {why}"),
            None => why.clone(),
        })
    }
}
