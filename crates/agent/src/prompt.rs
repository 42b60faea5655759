//! The system prompt: short, in our own words (`data/system.md`).

/// What the user has said about it.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Instead of ours.
    pub instead: Option<String>,
    /// Behind it.
    pub more: Option<String>,
}

/// The blocks of the system prompt.
pub fn system(wishes: &Wishes, surroundings: &str) -> Vec<String> {
    let own = include_str!("../data/system.md").trim_end();
    let mut text = wishes.instead.clone().unwrap_or_else(|| own.to_owned());
    for more in [wishes.more.as_deref(), Some(surroundings)].into_iter().flatten() {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(more);
    }
    vec![text]
}
