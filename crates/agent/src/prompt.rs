//! The system prompt: short, in our own words (`data/system.md`).

/// What the user has said about it.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Instead of ours.
    pub instead: Option<String>,
    /// Behind it.
    pub more: Option<String>,
}

/// The blocks of the system prompt. Whoever gives another says in it what the model has to know.
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
