//! `quipu price`: what the next message of a session costs.

use std::path::PathBuf;

use serde::Serialize;
use transcript::client::context::{self, Reason};
use transcript::client::history::Rules;
use transcript::conversation::Conversation;
use transcript::conversation::price as list;
use transcript::conversation::usage::Usage;

use crate::failure::Failure;
use crate::out::{BOLD, JSON_VERSION};
use crate::page::{Lead, Page, label, styled, unstyled};
use crate::prices;
use crate::prospect::{self, Prospect, ProspectJson};
use crate::refusal::why;
use crate::select;
use crate::text::{age, clock, grouped, one_line};
use crate::version::{self, installed};
use crate::world::World;

/// Show what the next message costs: what is still cached, what is sent anew, and why
///
/// The API keeps what was last sent for five minutes or an hour, as the session's calls asked for,
/// and charges little for the part of the next request that begins with the same. Says how many
/// tokens that is, how many are new, from which message on, and the reason: the cache expired,
/// another client version or model continues, or the conversation was compacted, rewound or
/// changed.
/// The prompt that you will write and its answer are not in the price.
#[derive(clap::Args, Debug)]
pub(crate) struct PriceArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    /// The client version that continues, or `installed`; by default the installed one, or the one
    /// that made the last call
    #[arg(long = "as", value_name = "VERSION")]
    version: Option<String>,
    /// Prices that replace those of the list (docs/usage.md)
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct PriceJson<'a> {
    v: u32,
    id: &'a str,
    path: String,
    r#as: Option<&'a str>,
    last_version: Option<&'a str>,
    #[serde(flatten)]
    next: ProspectJson<'a>,
    prices: &'a str,
}

pub(crate) fn price(world: &mut World, args: &PriceArgs) -> Result<(), Failure> {
    let prices = prices::in_force(world, args.prices.as_deref())?;
    let version = match &args.version {
        Some(version) => Some(version::asked(world, version, version::USUAL)?.version),
        None => installed(world.programs()),
    };
    let rules = version.as_deref().and_then(Rules::of).unwrap_or(Rules::newest());
    let session = select::session(world, &args.session)?;
    let mut conversation = Conversation::open(&session.path)?;
    conversation.resume_as(rules);
    let context = context::count(&conversation, rules)?
        .map_err(|refusal| Failure::refused(&why(&conversation, refusal), &rules.name()))?;
    let next = context.next(&conversation, version.as_deref())?;
    let now = prospect::now(world);
    let prospect = Prospect::new(next, now, &prices);
    let next = &prospect.next;
    if args.json {
        return Ok(world.out.json(&PriceJson {
            v: JSON_VERSION,
            id: &session.id,
            path: session.path.display().to_string(),
            r#as: version.as_deref(),
            last_version: next.version.as_deref(),
            next: prospect.json(),
            prices: &list::COLLECTED,
        })?);
    }
    let mark = prospect.mark();
    let Usage { cache_read, .. } = prospect.usage;
    let written = prospect.usage.cache_write();
    let (of_cached, of_new) = (prospect.price_of_cached(), prospect.price_of_new());
    let mut rows = vec![
        ("cached", format!("{mark}{} tokens, {of_cached}", grouped(cache_read))),
        ("new", format!("{mark}{} tokens, {of_new}", grouped(written))),
        ("because", because(&prospect, version.as_deref())),
    ];
    if let Some((used, expires)) = next.used.zip(next.expires()) {
        let seconds = u64::try_from(now.0.saturating_sub(used.0) / 1_000).unwrap_or(0);
        let ago = match age(seconds).as_str() {
            "now" => "just now".to_owned(),
            age => format!("{age} ago"),
        };
        let end = if next.is_expired(now) { "ended" } else { "ends" };
        let lifetime = next.lifetime.name();
        let text = format!("kept for {lifetime}, used {ago}: {end} at {}", clock(expires));
        rows.push(("cache", text));
    }
    rows.push(("model", one_line(&next.model)));
    let page = &mut Page::new(&mut world.out);
    let head = format!("the next message costs {}", prospect.price());
    page.line(&[styled(BOLD, head), unstyled(", without your prompt and its answer")])?;
    for (name, text) in rows {
        page.paragraph(&Lead::hanging(label(name)), &[unstyled(text)])?;
    }
    if next.is_estimate {
        world.out.note("`~`: estimated from the size of texts (docs/context.md)")?;
    }
    Ok(())
}

/// Why tokens are new, with the place and the names.
fn because(prospect: &Prospect<'_>, version: Option<&str>) -> String {
    let difference = &prospect.next.difference;
    let mut text = prospect.why();
    if let (Some(line), Some(kind)) = (difference.line, difference.kind)
        && prospect.reason != Reason::Expired
    {
        text = format!("{text}; line {line}, {}", kind.name());
    }
    if prospect.reason == Reason::ClientVersion {
        let last = prospect.next.version.as_deref().unwrap_or("an unknown version");
        let now = one_line(version.unwrap_or("another"));
        text = format!("{text}; it was {}, and {now} continues", one_line(last));
    }
    text
}
