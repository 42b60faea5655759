//! The flags that select a receiver of traces, and what the user reads if there is none.
//!
//! `export::receiver` resolves it, from these flags, the environment and the configuration.

use std::path::PathBuf;

use clap::ValueEnum;
use export::client::Sender;
use export::id::Ids;
use export::profile::{Content, Profile, Telling};
use export::receiver::{Overrides, Receiver, ResolveError, Settings, TakenOver, Trust};

use crate::config::ContentLevel;
use crate::failure::Failure;
use crate::text::{bytes, count};
use crate::world::World;

/// The options that select a receiver.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ReceiverArgs {
    /// The receiver: the URL of Langfuse, Phoenix or any OTLP receiver over HTTP
    ///
    /// Without it, the receiver comes from `CC_LANGFUSE_*`, `LANGFUSE_*` or `OTEL_EXPORTER_OTLP_*`
    /// in the environment, or from `[ship]` in the configuration.
    #[arg(long, value_name = "URL")]
    pub(crate) to: Option<String>,
    /// A header for each request, as `name: value` (can be repeated)
    #[arg(long, value_name = "HEADER")]
    header: Vec<String>,
    /// How much is sent: full; metadata only (no prompts, answers, tool I/O); or none (also no
    /// paths, branches, task names)
    #[arg(long, value_name = "HOW MUCH")]
    content: Option<ContentLevel>,
    /// Redact secrets (default, except for receivers on localhost)
    ///
    /// `[redact]` in the configuration adds secrets, and lists values that are not secrets.
    #[arg(long, conflicts_with = "no_redact")]
    redact: bool,
    /// Do not redact secrets
    #[arg(long)]
    no_redact: bool,
    /// Cut longer texts at this size, like 64k or 1M (default: 60k)
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    longest: Option<u64>,
    /// The set of attributes: `lean` works with every receiver; `cc-langfuse` is that of the
    /// cc-langfuse hook
    #[arg(long, value_name = "NAME")]
    profile: Option<ProfileName>,
    /// Use other ids, to send a second copy to a receiver that already has the first
    #[arg(long, value_name = "TEXT")]
    id_salt: Option<String>,
}

// No doc comments: they would be part of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProfileName {
    Lean,
    CcLangfuse,
}

impl ReceiverArgs {
    fn overrides(&self) -> Overrides {
        Overrides {
            to: self.to.clone(),
            headers: self.header.clone(),
            content: self.content.map(|level| match level {
                ContentLevel::Full => Content::Full,
                ContentLevel::Meta => Content::Meta,
                ContentLevel::None => Content::None,
            }),
            redact: match (self.redact, self.no_redact) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                _ => None,
            },
            longest: self.longest,
            profile: self.profile.map(|name| match name {
                ProfileName::Lean => Profile::Lean,
                ProfileName::CcLangfuse => Profile::CcLangfuse,
            }),
            id_salt: self.id_salt.clone(),
        }
    }
}

fn settings<'a>(world: &'a World, args: &ReceiverArgs) -> Settings<'a> {
    Settings {
        variables: Box::new(move |name| world.variable(name)),
        config: world.ship_config(),
        overrides: args.overrides(),
        redactor: world.redactor(),
        folder: world.ship_folder().ok(),
    }
}

/// The receiver that is named somewhere.
pub(crate) fn find(world: &World, args: &ReceiverArgs) -> Result<Receiver, Failure> {
    look_for(world, args)?.ok_or_else(|| {
        let hint = "use `--to URL`, or set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY, or OTEL_EXPORTER_OTLP_ENDPOINT; see `quipu ship --help`";
        Failure::usage("no receiver is configured", Some(hint))
    })
}

/// The receiver that is named somewhere; `None` if there is none.
pub(crate) fn look_for(world: &World, args: &ReceiverArgs) -> Result<Option<Receiver>, Failure> {
    Ok(settings(world, args).resolve()?)
}

/// How traces are written if no receiver is named.
pub(crate) fn telling_nobody(world: &World, args: &ReceiverArgs) -> Telling {
    settings(world, args).telling_nobody()
}

/// The ids that spans get.
pub(crate) fn ids(world: &World, args: &ReceiverArgs) -> Ids {
    settings(world, args).ids()
}

/// How the client that sends trusts the certificates that the user names.
pub(crate) const TRUST: Trust = agent::api::certificates::trusting;

/// The client that sends to a receiver; no socket is opened yet.
pub(crate) fn sender(receiver: &Receiver) -> Result<Sender, Failure> {
    Ok(receiver.sender(TRUST)?)
}

/// The client's home, where the cc-langfuse hook keeps its state.
pub(crate) fn their_home(world: &World) -> PathBuf {
    world.first_home().0
}

/// What was imported from the state of the cc-langfuse hook, in words.
pub(crate) fn of_taken_over(taken_over: &TakenOver) -> String {
    let shown = taken_over.path.display();
    match &taken_over.sessions {
        Ok(number) => {
            let sessions = count(*number as u64, "session");
            format!(
                "according to `{shown}`, cc-langfuse has sent turns of {sessions}: they are not sent again without `--again`"
            )
        }
        Err(error) => format!("cannot parse `{shown}`: {error}"),
    }
}

impl From<ResolveError> for Failure {
    fn from(error: ResolveError) -> Self {
        let hint = match &error {
            ResolveError::HalfOfKeys { .. } => Some("Langfuse needs both"),
            ResolveError::Grpc => Some("use the address for `http/protobuf`, usually port 4318"),
            ResolveError::GrpcPort { .. } => Some("OTLP over HTTP is usually at port 4318"),
            ResolveError::Address { .. } => Some(
                "a URL looks like `http://127.0.0.1:6006` or `https://cloud.langfuse.com/api/public/otel`",
            ),
            ResolveError::NoValue => Some("a header is written as `name: value`"),
            ResolveError::Timeout(_) => Some("it must be a number of milliseconds"),
            ResolveError::NoState => Some("set `HOME`, or `XDG_STATE_HOME`"),
            ResolveError::Keys | ResolveError::Header(_) | ResolveError::Client(_) => None,
        };
        Failure::usage(error.to_string(), hint)
    }
}
