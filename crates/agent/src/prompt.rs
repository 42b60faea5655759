//! The system prompt: short, in our own words (`data/system.md`).

/// The user's changes to the system prompt.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// A text that replaces the default one.
    pub instead: Option<String>,
    /// A text that is added after it.
    pub more: Option<String>,
}

/// The blocks of the system prompt. A replacement has to contain what the model has to know.
pub fn system(wishes: &Wishes, surroundings: &str) -> Vec<String> {
    let default_text = include_str!("../data/system.md").trim_end();
    let (text, surroundings) = match &wishes.instead {
        Some(instead) => (instead.as_str(), None),
        None => (default_text, Some(surroundings)),
    };
    let parts = [Some(text), wishes.more.as_deref(), surroundings].into_iter().flatten();
    let parts: Vec<&str> = parts.filter(|part| !part.trim().is_empty()).collect();
    if parts.is_empty() { Vec::new() } else { vec![parts.join("\n\n")] }
}
