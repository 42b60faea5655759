//! Why a session does not begin, with a hint and an exit code.
//!
//! Invariant: the library says what is wrong; which flag helps is said here.

use agent::session::{
    FileError, GuardError, PermitError, PlaceError, PrepareError, SettingsError, StartError,
    TrustError,
};
use agent::settings::Stop;

use crate::failure::Failure;

impl From<TrustError> for Failure {
    fn from(error: TrustError) -> Self {
        let message = error.to_string();
        let hint = match error {
            TrustError::File(error) => return error.into(),
            TrustError::Locked(error) => return error.into(),
            TrustError::Damaged { .. } => "fix it, or remove it and trust your folders again",
            TrustError::Untrustable { .. } => {
                "start in the folder of a project, and trust that one"
            }
        };
        Failure::usage(message, Some(hint))
    }
}

impl From<PrepareError> for Failure {
    fn from(error: PrepareError) -> Self {
        let message = error.to_string();
        let hint = match error {
            PrepareError::Settings(error) => return error.into(),
            PrepareError::Permit(error) => return error.into(),
            PrepareError::KeyHelper(_) => "set `ANTHROPIC_API_KEY`",
            PrepareError::NoKey => {
                "set `ANTHROPIC_API_KEY` (https://console.anthropic.com/settings/keys makes one) or `ANTHROPIC_AUTH_TOKEN`; `quipu chat --offline` needs none"
            }
        };
        Failure::usage(message, Some(hint))
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        let message = error.to_string();
        let hint = match error {
            SettingsError::Given { path, source } => return Failure::unreadable(&path, source),
            SettingsError::Unreadable { .. } => {
                "they may contain restrictions: fix the file, or remove it"
            }
            SettingsError::Refused(Stop { source, .. }) if source.is_managed() => {
                "quipu does not run unless it can honour an administrator's settings"
            }
            SettingsError::Refused(Stop { is_hook: true, .. }) => {
                "`--ignore-hooks` runs without them"
            }
            SettingsError::Refused(Stop { key, .. }) if key.is_empty() => {
                "fix it: what it restricts is unknown"
            }
            SettingsError::Refused(_) => {
                "quipu does not run unless it can honour a restriction: remove it if you can"
            }
        };
        Failure::usage(message, Some(hint))
    }
}

impl From<PermitError> for Failure {
    fn from(error: PermitError) -> Self {
        let hint = match &error {
            PermitError::Mode(_) => Some(
                "use `default`, `acceptEdits`, `plan`, `dontAsk`, `auto` or `bypassPermissions`",
            ),
            PermitError::NoBypass(_) => Some("use another permission mode"),
            PermitError::Root => {
                Some("run as another user, or set `IS_SANDBOX=1` if nothing can be broken here")
            }
            PermitError::Rule { .. } | PermitError::NotFolder(_) => None,
            PermitError::OnlyManaged => {
                let message = format!("`--allowedTools` cannot be used: {error}");
                return Failure::usage(message, Some("leave it out"));
            }
        };
        Failure::usage(error.to_string(), hint)
    }
}

impl From<PlaceError> for Failure {
    fn from(error: PlaceError) -> Self {
        let message = error.to_string();
        match error {
            PlaceError::File(error) => error.into(),
            PlaceError::Workshop(error) => error.into(),
            PlaceError::HasId => {
                let hint = "add `--fork-session`, or leave out `--session-id`";
                Failure::usage(message, Some(hint))
            }
            PlaceError::NotUuid(_) => Failure::usage(message, None),
            PlaceError::Exists(_) => Failure::usage(message, Some("`--resume` continues it")),
            PlaceError::NothingToContinue(_) => {
                Failure::not_found(message, "leave out `--continue` to start a new one")
            }
            PlaceError::NoRecord(_) => Failure::not_found(
                message,
                "`quipu cat` prints the records with their ids (`uuid`)",
            ),
            PlaceError::NoConversation(_) => Failure::not_found(
                message,
                "`quipu check` reports why; leave out `--resume` to start a new one",
            ),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::File(error) => error.into(),
            StartError::NoAgent { .. } => {
                Failure::usage(error.to_string(), Some("`--agents` adds agents of your own"))
            }
            StartError::Script { .. } => Failure::usage(error.to_string(), None),
            StartError::Guard(GuardError::TooWide { .. }) => Failure::usage(
                error.to_string(),
                Some("start in the folder of a project, or add `--sandbox off`"),
            ),
            StartError::Guard(GuardError::Incomplete(_)) => Failure::usage(
                error.to_string(),
                Some("`--sandbox on` goes on with what the kernel can do"),
            ),
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Unreadable { path, source } => Failure::unreadable(&path, source),
            FileError::Unwritable { path, source } => Failure::unwritable(&path, source),
        }
    }
}
