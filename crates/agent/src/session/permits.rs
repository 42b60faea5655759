//! What a session may do: what the user wants, as far as settings and the system let them.
//!
//! Invariants: settings can forbid what the user allows, never the other way round; root does not
//! allow everything unless nothing can be broken; a wish that cannot be honoured is an error, not
//! ignored.

use std::path::{Path, PathBuf};

use rules::{Kind, Rule, Rulebook};

use crate::permit::{Bypass, Mode, Permit};
use crate::settings::{Environment, Settings};

/// What the user wants to allow and to forbid.
#[derive(Clone, Debug, Default)]
pub struct PermitWishes {
    /// The name of the permission mode.
    pub mode: Option<String>,
    /// Whether everything is to be allowed, whatever the mode.
    pub bypass: BypassWish,
    /// Whether root may allow everything.
    pub root: RootRule,
    /// Rules that allow; each may hold several.
    pub allowed: Vec<String>,
    /// Rules that deny.
    pub refused: Vec<String>,
    /// Additional folders that tools may work in.
    pub folders: Vec<PathBuf>,
}

/// Whether everything is to be allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BypassWish {
    /// As the mode says.
    #[default]
    ByMode,
    /// When a host asks for it.
    Later,
    /// From the start.
    Now,
}

/// Whether root may allow everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RootRule {
    /// Where a variable says that nothing can be broken, as in Claude Code.
    #[default]
    InSandbox,
    /// Anywhere: it is known what will run.
    Exempt,
}

/// Why a session may not do what the user wants.
#[derive(Debug, thiserror::Error)]
pub enum PermitError {
    /// There is no such mode.
    #[error("`{0}` is not a permission mode")]
    Mode(String),
    /// Settings forbid to allow everything; this is their name.
    #[error(
        "`bypassPermissions` is disabled by `permissions.disableBypassPermissionsMode` in `{0}`"
    )]
    NoBypass(String),
    /// Root may not allow everything.
    #[error("root cannot use `bypassPermissions`")]
    Root,
    /// A rule that cannot be read.
    #[error("the rule `{rule}`: {why}")]
    Rule {
        /// The rule.
        rule: String,
        /// What is wrong with it.
        why: rules::RuleError,
    },
    /// An additional folder does not exist.
    #[error("`{}` is not a folder", .0.display())]
    NotFolder(PathBuf),
    /// The user allows tools, which only an administrator may do.
    #[error("by an administrator's settings, only their rules allow anything")]
    OnlyManaged,
}

/// What the session may do.
pub(super) fn permit(
    wishes: &PermitWishes,
    settings: &Settings,
    cwd: &Path,
    environment: &dyn Environment,
) -> Result<Permit, PermitError> {
    let named = match &wishes.mode {
        _ if wishes.bypass == BypassWish::Now => Some(Mode::Bypass),
        None => None,
        Some(name) => Some(Mode::named(name).ok_or_else(|| PermitError::Mode(name.clone()))?),
    };
    let mode = named.or_else(|| settings.mode.as_deref().and_then(Mode::named)).unwrap_or_default();
    let bypass = bypass(wishes, settings, mode, environment)?;
    if let Some(folder) = wishes.folders.iter().find(|folder| !folder.is_dir()) {
        return Err(PermitError::NotFolder(folder.clone()));
    }
    let parsed = |list: &[String], kind: Kind, flag: &str| -> Result<Vec<Rule>, PermitError> {
        let all = rules::split(list.iter().map(String::as_str)).into_iter();
        let parse = |text: String| {
            Rule::parse(&text, kind, flag, cwd.to_owned())
                .map_err(|why| PermitError::Rule { rule: text, why })
        };
        all.map(parse).collect()
    };
    let allowed = parsed(&wishes.allowed, Kind::Allow, "--allowedTools")?;
    let refused = parsed(&wishes.refused, Kind::Deny, "--disallowedTools")?;
    if settings.only_managed_rules && !allowed.is_empty() {
        return Err(PermitError::OnlyManaged);
    }
    let by_settings = settings.rules.iter().map(|(_, rule)| rule.clone());
    let rules = by_settings.chain(allowed).chain(refused).collect();
    let book = Rulebook { rules, allows_sandboxed: false };
    Ok(Permit { mode, book, bypass, allows_sandboxed: settings.sandbox.allows_commands })
}

/// Whether everything may be allowed, now or when a host asks for it.
fn bypass(
    wishes: &PermitWishes,
    settings: &Settings,
    mode: Mode,
    environment: &dyn Environment,
) -> Result<Bypass, PermitError> {
    let is_wanted = mode == Mode::Bypass || wishes.bypass != BypassWish::ByMode;
    match &settings.no_bypass {
        Some(name) if is_wanted => return Err(PermitError::NoBypass(name.clone())),
        Some(_) => return Ok(Bypass::Forbidden),
        None if !is_wanted => return Ok(Bypass::NotOffered),
        None => {}
    }
    // As in Claude Code.
    let is_contained = environment.variable("IS_SANDBOX").is_some_and(|value| value == "1")
        || environment.variable("CLAUDE_CODE_BUBBLEWRAP").is_some();
    if is_root() && !is_contained && wishes.root == RootRule::InSandbox {
        return Err(PermitError::Root);
    }
    Ok(Bypass::Offered)
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root() || rustix::process::getuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}
