//! What the system prompt and the tools cost in every request: tests that the table in
//! `docs/agent.md` is correct.
//!
//! `QUIPU_BLESS=1 cargo test -p agent --test all tokens` writes it anew.

use std::fmt::Write as _;

use agent::prompt::{self, Wishes};
use agent::tool;

/// Only the API counts its tokens; for English and JSON, four characters per token is a good
/// estimate.
fn tokens(text: &str) -> usize {
    text.chars().count().div_ceil(4)
}

#[test]
fn the_table_is_true() {
    let system = prompt::system(&Wishes::default(), "");
    let mut rows = vec![("the system prompt".to_owned(), tokens(&system[0]))];
    let tools = tool::all().iter().map(|tool| (format!("`{}`", tool.name), tokens(&tool.json())));
    rows.extend(tools);
    let sum: usize = rows.iter().map(|(_, tokens)| tokens).sum();
    rows.push(("all".to_owned(), sum));
    let mut table = "| part | tokens, about |\n|---|---|\n".to_owned();
    for (name, tokens) in rows {
        writeln!(table, "| {name} | {tokens} |").unwrap();
    }
    testkit::compare("agent.md", "tokens", &table, "-p agent --test all tokens");
}
