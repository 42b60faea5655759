//! What a call of a tool may do: rules that users wrote, modes, and a judge of shell commands.
//!
//! Pure, except that paths are resolved by a function of the caller. Invariants: a rule that denies
//! wins over one that asks, and that over one that allows, from whatever source; what cannot be
//! judged is never allowed by a rule about a part of it; no input makes this panic.

mod command;
mod git;
mod granted;
mod harmless;
mod hidden;
mod judge;
mod mode;
mod path;
mod program;
mod quote;
mod rule;
mod shell;

pub use granted::suggested;
pub use judge::{Access, Decision, Hold, Judgement, Part, Place, Question, Rulebook, UNDECIDED};
pub use mode::Mode;
pub use path::{Pattern, plain};
pub use quote::single_quoted;
pub use rule::{Kind, Rule, RuleError, current, fits, names, split};
