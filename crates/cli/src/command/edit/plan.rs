//! The plan of `quipu edit`: text in, one verb for each turn out.
//!
//! Invariants: a plan is accepted as a whole or not at all; every error has the number of its line;
//! a turn without a line is dropped.

/// What happens to a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PlanVerb {
    Keep,
    Drop,
    Strip,
    Squash,
    /// With the new text, if the plan has it.
    Reword(Option<String>),
}

/// What is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlanError {
    /// The number of the line, from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

/// Reads a plan for so many turns; `None` if it is empty.
pub(super) fn parse(text: &str, turns: usize) -> Result<Option<Vec<PlanVerb>>, PlanError> {
    let mut verbs: Vec<Option<PlanVerb>> = vec![None; turns];
    let mut seen: Vec<(usize, usize)> = Vec::new();
    for (line, words) in (1..).zip(text.lines()) {
        let words = words.trim();
        if words.is_empty() || words.starts_with('#') {
            continue;
        }
        let fail = |text: String| PlanError { line, text };
        let (number, verb) = read(words).map_err(fail)?;
        if number == 0 || number > turns {
            let many = if turns == 1 { "turn" } else { "turns" };
            return Err(fail(format!("there is no turn {number}: there are {turns} {many}")));
        }
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == number) {
            return Err(fail(format!("turn {number} is also in line {other}")));
        }
        if let Some((last, _)) = seen.last().filter(|(last, _)| *last > number) {
            let why = "each answer follows from what was said before it";
            return Err(fail(format!(
                "turn {number} stands after turn {last}: turns cannot be reordered, because {why}"
            )));
        }
        seen.push((number, line));
        verbs[number - 1] = Some(verb);
    }
    if seen.is_empty() {
        return Ok(None);
    }
    Ok(Some(verbs.into_iter().map(|verb| verb.unwrap_or(PlanVerb::Drop)).collect()))
}

/// One line: a verb, the number of a turn, and for `reword` a text after a colon.
fn read(words: &str) -> Result<(usize, PlanVerb), String> {
    let (name, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    let verb = match name {
        "k" | "keep" => PlanVerb::Keep,
        "d" | "drop" => PlanVerb::Drop,
        "s" | "strip" => PlanVerb::Strip,
        "q" | "squash" => PlanVerb::Squash,
        "r" | "reword" => PlanVerb::Reword(None),
        other => {
            let other: String = other.chars().take(40).collect();
            let known = "keep, drop, strip, squash and reword are";
            return Err(format!("`{}` is not known: {known}", crate::text::printable(&other)));
        }
    };
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let number = rest[..end].parse::<usize>();
    let number = number.map_err(|_| format!("`{name}` needs the number of a turn"))?;
    let after = &rest[end..];
    if !after.is_empty() && !after.starts_with([':', ' ', '\t']) {
        return Err(format!("`{name}` needs the number of a turn"));
    }
    match (after.strip_prefix(':'), verb) {
        (None, verb) => Ok((number, verb)),
        (Some(text), PlanVerb::Reword(_)) => {
            Ok((number, PlanVerb::Reword(Some(unescaped(text.trim())))))
        }
        (Some(_), _) => Err(format!("only `reword` takes a text: `{name}` does not")),
    }
}

/// A text with `\n` for line ends and `\\` for backslashes.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, letters.clone().next()) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('\\')) => out.push('\\'),
            _ => {
                out.push(letter);
                continue;
            }
        }
        letters.next();
    }
    out
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
