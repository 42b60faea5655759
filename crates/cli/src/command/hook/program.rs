//! The command that the hook runs: how it is written, and how it is recognised.
//!
//! People also write commands by hand, with other quotes and with options. A command that is not
//! certainly ours is not ours.

use std::path::Path;

use crate::text::shell_word;

/// The words that every command of ours contains.
const LAST: [&str; 2] = ["hook", "stop"];

/// The command that runs this program.
pub(super) fn command(program: &str) -> String {
    format!("{} {}", shell_word(program), LAST.join(" "))
}

/// The program of a command, and the rest after it, if the command is ours: it runs this program,
/// or any program called `quipu`.
pub(super) fn of_ours<'a>(command: &'a str, exe: &str) -> Option<(String, &'a str)> {
    let (program, rest) = split(command)?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    // More than one command is not ours alone.
    let is_one = !rest.contains([';', '&', '|', '<', '>', '(', '`', '\n']);
    let is_quipu = program == exe || Path::new(&program).file_name().is_some_and(|n| n == "quipu");
    (is_quipu && is_one && words.windows(2).any(|two| two == LAST)).then_some((program, rest))
}

/// The first word of a command, without its quotes, and the rest; `None` if there is no rest.
fn split(command: &str) -> Option<(String, &str)> {
    let command = command.trim_start();
    let mut word = String::new();
    let mut quote = None;
    let mut chars = command.char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if c == open => quote = None,
            (None | Some('"'), '\\') => word.push(chars.next()?.1),
            (None, _) if c.is_whitespace() => return Some((word, &command[at..])),
            _ => word.push(c),
        }
    }
    None
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
