//! The status line: model, mode, context, cost, cache, branch, sandbox.

use crate::text::{Line, Span, Style, columns, look, safe};

/// Tokens and money of the session.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Meter {
    /// The tokens of the last request and its answer: what the next one sends again; 0 if that is
    /// not known.
    pub context: u64,
    /// How many there is room for.
    pub window: u64,
    /// What the session has cost, in dollars; None if it is not known.
    pub cost: Option<f64>,
    /// Whether the next request reads from the API's cache.
    pub cache: Cache,
    /// How many milliseconds were spent waiting for the API.
    pub api: u64,
    /// Of the last request: input, output, written to the cache, read from it.
    pub usage: [u64; 4],
}

/// Whether the beginning of the next request is cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// Nothing was sent yet.
    #[default]
    Unknown,
    /// It is.
    Warm,
    /// It is not any more.
    Cold,
}

/// What the status line shows.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The model.
    pub model: String,
    /// The permission mode, by its name.
    pub mode: String,
    /// Tokens and money.
    pub meter: Meter,
    /// The branch that is checked out.
    pub branch: Option<String>,
    /// How much of a sandbox there is: `on`, `off`, `partial`.
    pub sandbox: String,
    /// What the user's command printed; it replaces the rest.
    pub lines: Vec<Line<'static>>,
}

/// A mode in words.
fn mode_words(mode: &str) -> &'static str {
    match mode {
        "acceptEdits" => "accept edits on",
        "plan" => "plan mode on",
        "auto" => "auto mode on",
        "bypassPermissions" => "bypass permissions on",
        "dontAsk" => "don't ask on",
        _ => "manual mode on",
    }
}

/// A number of tokens, in a few characters.
fn tokens(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}k", (number + 500) / 1_000),
        _ => format!("{}M", (number + 500_000) / 1_000_000),
    }
}

impl Status {
    /// The row of that width. What matters least is left out first.
    pub fn row(&self, width: usize) -> Line<'static> {
        let mode_style = match self.mode.as_str() {
            "bypassPermissions" => look::BAD,
            "plan" | "acceptEdits" | "auto" => look::WARN,
            _ => look::DIM,
        };
        let meter = self.meter;
        let mut parts: Vec<(u8, String, Style)> = Vec::new();
        parts.push((0, mode_words(&self.mode).to_owned(), mode_style));
        parts.push((2, safe(&self.model), look::DIM));
        let percent = (meter.context * 100).checked_div(meter.window);
        if let Some(percent) = percent.filter(|_| meter.context > 0) {
            let style = if percent >= 80 { look::WARN } else { look::DIM };
            let text = format!("{}/{} {percent}%", tokens(meter.context), tokens(meter.window));
            parts.push((1, text, style));
        }
        if let Some(cost) = meter.cost {
            parts.push((3, format!("${cost:.2}"), look::DIM));
        }
        match meter.cache {
            Cache::Unknown => {}
            Cache::Warm => parts.push((5, "cache warm".to_owned(), look::DIM)),
            Cache::Cold => parts.push((4, "cache cold".to_owned(), look::WARN)),
        }
        if let Some(branch) = &self.branch {
            parts.push((6, format!("⎇ {}", safe(branch)), look::DIM));
        }
        if !self.sandbox.is_empty() {
            let is_weak = self.sandbox != "on" && self.sandbox != "require";
            let style = if is_weak { look::WARN } else { look::DIM };
            parts.push((if is_weak { 1 } else { 5 }, format!("sandbox {}", self.sandbox), style));
        }
        let wide = |parts: &[(u8, String, Style)]| {
            parts.iter().map(|(_, text, _)| columns(text) + 3).sum::<usize>()
        };
        while parts.len() > 1 && wide(&parts) > width + 3 {
            let least = parts.iter().enumerate().max_by_key(|(_, (rank, ..))| *rank);
            let Some(least) = least.map(|(at, _)| at) else { break };
            parts.remove(least);
        }
        let mut line = Line::default();
        for (number, (_, text, style)) in parts.into_iter().enumerate() {
            if number > 0 {
                line.spans.push(Span::styled(" · ", look::DIM));
            }
            line.spans.push(Span::styled(text, style));
        }
        line
    }
}
