//! What a session may do: what the user wants, as far as settings and the system let them.
//!
//! Invariants: settings can forbid what the user allows, never the other way round; root does not
//! allow everything unless nothing can be broken; a wish that cannot be honoured is an error, not
//! ignored.

use std::path::PathBuf;

use crate::permit::{Bypass, Mode, Permit};
use crate::settings::{Environment, Rule, Settings, tools_named};

/// What the user wants to allow and to forbid.
#[derive(Clone, Debug, Default)]
pub struct PermitWishes {
    /// The name of the permission mode.
    pub mode: Option<String>,
    /// Whether everything is to be allowed, whatever the mode.
    pub bypass: BypassWish,
    /// Whether root may allow everything.
    pub root: RootRule,
    /// Tools that may do anything.
    pub allowed: Vec<String>,
    /// Tools to disable.
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
    /// A rule about some uses of a tool.
    #[error("rules like `{0}` are not supported yet")]
    Narrow(String),
    /// A rule that cannot be read.
    #[error("the rule `{rule}`: {why}")]
    Rule {
        /// The rule.
        rule: String,
        /// What is wrong with it.
        why: &'static str,
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
    environment: &dyn Environment,
) -> Result<Permit, PermitError> {
    let named = match &wishes.mode {
        _ if wishes.bypass == BypassWish::Now => Some(Mode::Bypass),
        None => None,
        Some(name) => Some(Mode::named(name).ok_or_else(|| PermitError::Mode(name.clone()))?),
    };
    let by_settings = settings.mode.as_deref();
    // Modes that are not supported yet count as `default`, which allows less than any other; in
    // `plan`, rules allow nothing.
    let mode = named.or_else(|| by_settings.and_then(Mode::named)).unwrap_or_default();
    let is_plan = named.is_none() && by_settings == Some("plan");
    let bypass = bypass(wishes, settings, mode, environment)?;
    let mut rules = wishes.allowed.iter().chain(&wishes.refused);
    if let Some(rule) = rules.find(|rule| rule.contains('(')) {
        return Err(PermitError::Narrow(rule.clone()));
    }
    let named = |rule: &String| {
        tools_named(rule).map_err(|why| PermitError::Rule { rule: rule.clone(), why })
    };
    let refused: Vec<Vec<String>> = wishes.refused.iter().map(named).collect::<Result<_, _>>()?;
    let (mut allowed, mut refused) = (wishes.allowed.clone(), refused.concat());
    if let Some(folder) = wishes.folders.iter().find(|folder| !folder.is_dir()) {
        return Err(PermitError::NotFolder(folder.clone()));
    }
    if settings.only_managed_rules && !allowed.is_empty() {
        return Err(PermitError::OnlyManaged);
    }
    let tools = |rules: &[Rule]| rules.iter().map(|rule| rule.tool.clone()).collect::<Vec<_>>();
    if !is_plan {
        allowed.extend(tools(&settings.allowed));
    }
    refused.extend(tools(&settings.refused));
    // Questions are not possible, so these are refused, in every mode, as in the newest client.
    refused.extend(tools(&settings.asked));
    Ok(Permit { mode, allowed, refused, bypass })
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
