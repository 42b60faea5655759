//! Permission modes, by the names that Claude Code gives them.

/// How much is allowed without a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Reading in the session's folders.
    #[default]
    Default,
    /// Also changing files there.
    AcceptEdits,
    /// Only reading, until a plan is approved.
    Plan,
    /// What would be a question is refused.
    DontAsk,
    /// Everything.
    Bypass,
    /// As `AcceptEdits`, and commands in the sandbox.
    Auto,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 6] =
        [Mode::Default, Mode::AcceptEdits, Mode::Plan, Mode::DontAsk, Mode::Bypass, Mode::Auto];

    /// The name of the mode in Claude Code.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Default => "default",
            Mode::AcceptEdits => "acceptEdits",
            Mode::Plan => "plan",
            Mode::DontAsk => "dontAsk",
            Mode::Bypass => "bypassPermissions",
            Mode::Auto => "auto",
        }
    }

    /// The mode with this name. Newer clients call the first one `manual`.
    pub fn named(name: &str) -> Option<Mode> {
        let name = if name == "manual" { Mode::Default.name() } else { name };
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }
}
