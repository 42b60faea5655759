//! The system prompt: short, in our own words (`data/system.md`).

/// The user's changes to the system prompt.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// A text that replaces the default one.
    pub instead: Option<String>,
    /// A text that is added after it.
    pub more: Option<String>,
    /// Where the default one says where the session works.
    pub surroundings: Surroundings,
}

/// Where the model is told where the session works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surroundings {
    /// At the end of the system prompt.
    #[default]
    System,
    /// Before the first prompt: the system prompt is the same everywhere.
    FirstPrompt,
}

/// The blocks of the system prompt. A replacement has to contain what the model has to know.
pub fn system(wishes: &Wishes, surroundings: &str) -> Vec<String> {
    let default_text = include_str!("../data/system.md").trim_end();
    let (text, surroundings) = match &wishes.instead {
        Some(instead) => (instead.as_str(), None),
        None if wishes.surroundings == Surroundings::FirstPrompt => (default_text, None),
        None => (default_text, Some(surroundings)),
    };
    let parts = [Some(text), wishes.more.as_deref(), surroundings].into_iter().flatten();
    let parts: Vec<&str> = parts.filter(|part| !part.trim().is_empty()).collect();
    if parts.is_empty() { Vec::new() } else { vec![parts.join("\n\n")] }
}
