//! What clients know about models: which ones they offer, and what these accept.

use super::line::Line;
use super::listed::VersionChange;
use crate::conversation::price;
use crate::conversation::table::{Ids, Table};
use crate::format::entry::Kind;

/// The models that a client uses if the file names none that it offers: since which version. The
/// case `model_gpt9` shows each.
const DEFAULTS: &[([u32; 3], &str)] = &[
    ([1, 0, 128], "claude-sonnet-4-20250514"),
    ([2, 0, 0], "claude-sonnet-4-5-20250929"),
    ([2, 1, 45], "claude-sonnet-4-6"),
    ([2, 1, 129], "claude-opus-4-7"),
    ([2, 1, 154], "claude-opus-4-8"),
    ([2, 1, 219], "claude-opus-5"),
    ([2, 1, 280], "claude-opus-5-5"),
];

/// The first version that continues with the model of the last answer.
const KEEPS_MODEL: [u32; 3] = [2, 1, 144];

const ALWAYS: [u32; 3] = [u32::MAX; 3];

/// A model, and the versions that offer it.
struct Offered {
    family: &'static str,
    number: [u32; 2],
    since: [u32; 3],
    until: [u32; 3],
    /// A case that shows both.
    case: &'static str,
}

const fn offered(
    family: &'static str,
    number: [u32; 2],
    [since, until]: [[u32; 3]; 2],
    case: &'static str,
) -> Offered {
    Offered { family, number, since, until, case }
}

/// The models that clients offer: in which versions. The first ones with Opus 5 took every name
/// that begins with its name for it.
const OFFERED: &[Offered] = &[
    offered("haiku", [4, 5], [KEEPS_MODEL, ALWAYS], ""),
    offered("sonnet", [4, 5], [KEEPS_MODEL, ALWAYS], ""),
    offered("sonnet", [4, 6], [KEEPS_MODEL, ALWAYS], ""),
    offered("sonnet", [5, 0], [[2, 1, 197], ALWAYS], "model_sonnet5"),
    offered("opus", [4, 5], [KEEPS_MODEL, ALWAYS], ""),
    offered("opus", [4, 6], [KEEPS_MODEL, ALWAYS], ""),
    offered("opus", [4, 7], [KEEPS_MODEL, ALWAYS], ""),
    offered("opus", [4, 8], [[2, 1, 154], ALWAYS], "att_hookctx_opus48"),
    offered("opus", [5, 0], [[2, 1, 219], ALWAYS], "limit_opus5_190k"),
    offered("opus", [5, 5], [[2, 1, 219], [2, 1, 251]], "model_opus55"),
    offered("opus", [5, 5], [[2, 1, 280], ALWAYS], "model_opus55"),
    offered("sonnet", [5, 5], [[2, 1, 280], ALWAYS], ""),
    offered("haiku", [5, 5], [[2, 1, 280], ALWAYS], ""),
];

/// What changed between versions.
pub(super) fn changes() -> Vec<VersionChange> {
    let defaults = DEFAULTS.iter().map(|(since, model)| {
        VersionChange::new(*since, format!("the default model is `{model}`"), "model_gpt9")
    });
    let what = "the model of the last answer continues, if it is offered";
    let keeps = VersionChange::new(KEEPS_MODEL, what, "model_35sonnet20241022");
    let offered = OFFERED.iter().flat_map(|one| {
        let Offered { family, number: [major, minor], since, until, case } = one;
        let name = format!("`{family}` {major}.{minor}");
        [
            VersionChange::new(*since, format!("{name} is offered"), case),
            VersionChange::new(*until, format!("{name} is no longer offered"), case),
        ]
    });
    let offered = offered.filter(|one| ![KEEPS_MODEL, ALWAYS].contains(&one.since));
    let limits = LIMITS.iter().map(|limit| {
        let names = |list: &[&str]| match list {
            [] => "none".to_owned(),
            list => list.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        };
        let (small, large) = (names(limit.small), names(limit.large));
        let what = format!("models that compact at 200,000 tokens: {small}; at a million: {large}");
        VersionChange::new(limit.since, what, limit.case)
    });
    let later = "compacts at 165,000 tokens instead of 155,000";
    let later = VersionChange::new(LATER, later, "limit_sonnet46_160k");
    defaults.chain([keeps, later]).chain(offered).chain(limits).collect()
}

/// The model that continues: that of the last answer, if the client still offers it; otherwise the
/// client's default, and that it is that.
pub(super) fn of<'a>(lines: &[Line], ids: &'a Ids, version: [u32; 3]) -> (&'a str, bool) {
    let answers = lines.iter().rev().filter(|line| line.kind == Kind::Assistant);
    let mut models = answers.filter_map(|line| line.model).map(|model| ids.text(model));
    let last = models.find(|model| *model != "<synthetic>");
    let default = DEFAULTS.iter().rev().find(|(since, _)| *since <= version);
    let default = default.map_or(DEFAULTS[0].1, |(_, model)| *model);
    let offered = last.filter(|model| is_offered(model, version));
    (offered.unwrap_or(default), offered.is_none())
}

/// The family and the number of a model: `("opus", [4, 8])`. A date is not part of it.
fn family(model: &str) -> Option<(&str, Vec<u32>)> {
    let mut parts = model.strip_prefix("claude-")?.split('-');
    let family = parts.next()?;
    let numbers = parts.map_while(|part| part.parse().ok().filter(|number| *number < 1_000));
    matches!(family, "sonnet" | "opus" | "haiku").then(|| (family, numbers.collect()))
}

/// Whether a client continues with this model. It knows no successor of 3.5, and keeps that name.
fn is_offered(model: &str, version: [u32; 3]) -> bool {
    if model.starts_with("claude-3-5-") {
        return version >= KEEPS_MODEL;
    }
    let Some((family, numbers)) = family(model) else { return false };
    let number = match numbers[..] {
        [major] => [major, 0],
        [major, minor] => [major, minor],
        _ => return false,
    };
    OFFERED.iter().any(|one| {
        one.family == family && one.number == number && (one.since..one.until).contains(&version)
    })
}

/// Whether a model accepts messages of the role `system`: 4.8 and later do.
pub fn takes_system(model: &str) -> bool {
    is_at_least(model, [4, 8])
}

/// Whether a model has that number or a later one.
pub(crate) fn is_at_least(model: &str, number: [u32; 2]) -> bool {
    family(model).is_some_and(|(_, numbers)| numbers[..] >= number[..])
}

/// How long a conversation is, how much of it the model reads, and from which length on the client
/// asks for a summary of it before it does anything else. If compaction is switched off, the client
/// refuses it instead.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Limit {
    /// The tokens that the last answer read and wrote, as the API reported them.
    pub tokens: u64,
    /// The model that continues.
    pub model: String,
    /// How many tokens that model reads at most; `None` if the model is not known.
    pub window: Option<u64>,
    /// From how many tokens on the client compacts; `None` if it never does.
    pub compacts_from: Option<u64>,
}

impl Limit {
    pub(super) fn of(
        lines: &[Line],
        table: &Table,
        model: &str,
        is_default: bool,
        version: [u32; 3],
    ) -> Option<Limit> {
        let answers = lines.iter().rev().filter(|line| line.kind == Kind::Assistant);
        let tokens = answers.filter_map(|line| {
            let answer = table.row(line.row?).answer?;
            Some(table.answer(answer).usage.as_ref()?.usage.total()).filter(|tokens| *tokens > 0)
        });
        let tokens = tokens.into_iter().next()?;
        let compacts_from = compacts_from(model, is_default, version);
        let window = price::known(model).and_then(|price| price.max_input_tokens);
        Some(Limit { tokens, model: model.to_owned(), window, compacts_from })
    }

    /// Whether the client compacts first.
    pub fn is_reached(&self) -> bool {
        self.compacts_from.is_some_and(|from| self.tokens >= from)
    }

    /// What the client does because the conversation is too long, as a sentence.
    pub fn warning(&self) -> Option<String> {
        let Limit { tokens, model, .. } = self;
        let from = self.compacts_from.filter(|_| self.is_reached())?;
        Some(format!(
            "the conversation takes {tokens} tokens; from {from} on, the client compacts it first \
             (for {model}), or refuses it if compaction is off"
        ))
    }
}

/// From how many tokens on a version compacts a conversation with this model; `is_default` if that
/// is the client's choice. Clients count what they add anew to the new prompt (environment, lists
/// of skills and agents), so the numbers are a few thousand below round ones, and not exact.
fn compacts_from(model: &str, is_default: bool, version: [u32; 3]) -> Option<u64> {
    let model = if is_default { "default" } else { model.strip_prefix("claude-")? };
    let limit = LIMITS.iter().rev().find(|limit| limit.since <= version)?;
    let is_in = |list: &[&str]| list.iter().any(|name| model.starts_with(name));
    if is_in(limit.small) {
        Some(if version < LATER { 155_000 } else { 165_000 })
    } else if is_in(limit.large) {
        Some(963_500)
    } else {
        None
    }
}

/// The first version that compacts small models' conversations a little later.
const LATER: [u32; 3] = [2, 1, 21];

/// Which models a version takes for small (200,000 tokens) and for large (a million). With others,
/// and with every model before 1.0.128, it does not compact.
struct Limits {
    since: [u32; 3],
    small: &'static [&'static str],
    large: &'static [&'static str],
    /// A case that shows it.
    case: &'static str,
}

const LIMITS: &[Limits] = &[
    Limits { since: [1, 0, 128], small: &["default"], large: &[], case: "" },
    Limits {
        since: [2, 1, 129],
        small: &["haiku-4-5", "sonnet-4", "opus-4"],
        large: &["default"],
        case: "limit_other_190k",
    },
    Limits {
        since: [2, 1, 153],
        small: &["sonnet-4-6", "sonnet-5", "opus-4-6"],
        large: &[],
        case: "limit_opus45_190k",
    },
    Limits {
        since: [2, 1, 217],
        small: &["sonnet-4-6", "sonnet-5", "opus-4-6", "opus-4-8", "opus-5"],
        large: &[],
        case: "limit_opus48_190k",
    },
    Limits {
        since: [2, 1, 285],
        small: &["sonnet-4-6", "opus-4-6"],
        large: &["sonnet-5", "opus-4-7", "opus-4-8", "opus-5", "default"],
        case: "limit_opus47_990k",
    },
];
