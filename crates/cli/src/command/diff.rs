//! `quipu diff`: where two sessions, or two branches, part.

use serde::Serialize;
use transcript::client::change::{self, ForkError};
use transcript::conversation::Conversation;
use transcript::conversation::parting::{self, Aligned};
use transcript::conversation::preview::preview;
use transcript::conversation::turn::Turn;

use crate::failure::Failure;
use crate::headline::headline;
use crate::out::{BOLD, GOOD, JSON_VERSION, WARN};
use crate::page::{Page, styled, unstyled};
use crate::select;
use crate::text::{count, fit, one_line, shown};
use crate::world::World;

/// Show where two sessions, or two branches, part
///
/// Compares what was asked, answered, called and returned, turn by turn, whatever the ids are. `=`:
/// the same in both; `~`: the same was asked, and something else came of it; `-`: only in A; `+`:
/// only in B.
#[derive(clap::Args, Debug)]
pub(crate) struct DiffArgs {
    /// The first session, or SESSION@UUID: the branch with that record, given by its id or the
    /// start of it
    #[arg(value_name = "A")]
    first: String,
    /// The second session, or SESSION@UUID; @UUID is a branch of A
    #[arg(value_name = "B")]
    second: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One side.
struct Side {
    id: String,
    title: String,
    branch: Option<String>,
    conversation: Conversation,
    turns: Vec<Turn>,
}

pub(crate) fn diff(world: &mut World, args: &DiffArgs) -> Result<(), Failure> {
    let first = side(world, &args.first, None)?;
    let second = side(world, &args.second, Some(args.first.as_str()))?;
    let keys = |side: &Side| parting::keys(&side.conversation, &side.turns);
    let aligned = parting::align(&keys(&first)?, &keys(&second)?);
    if args.json {
        as_json(world, &first, &second, &aligned)
    } else {
        page(world, &first, &second, &aligned)
    }
}

/// A session, and the branch after the `@`.
fn named(name: &str) -> (&str, Option<&str>) {
    let is_id = |text: &str| {
        text.len() >= 4 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    };
    match name.rsplit_once('@') {
        Some((session, branch)) if session.is_empty() || is_id(branch) => (session, Some(branch)),
        _ => (name, None),
    }
}

fn side(world: &mut World, name: &str, other: Option<&str>) -> Result<Side, Failure> {
    let (session, branch) = named(name);
    let session = match other {
        Some(other) if session.is_empty() => named(other).0,
        _ => session,
    };
    let session = select::session(world, session)?;
    let conversation = Conversation::open(&session.path)?;
    let turns = match branch {
        None => conversation.turns_in(&conversation.live()),
        Some(branch) => {
            change::branch_turns(&conversation, branch).map_err(|error| match error {
                ForkError::Read(error) => error.into(),
                other => Failure::not_found(other.to_string(), "`quipu tree` lists the branches"),
            })?
        }
    };
    let found = preview(&session.path).unwrap_or_default();
    Ok(Side {
        id: session.id.to_string(),
        title: one_line(&found.title.or(found.prompt).unwrap_or_default()),
        branch: branch.map(str::to_owned),
        conversation,
        turns,
    })
}

/// How many turns at the beginning are the same.
fn common(aligned: &[Aligned]) -> usize {
    let same = aligned.iter().enumerate();
    same.take_while(|(at, part)| **part == Aligned::Same(*at, *at)).count()
}

fn page(
    world: &mut World,
    first: &Side,
    second: &Side,
    aligned: &[Aligned],
) -> Result<(), Failure> {
    world.page()?;
    let page = &mut Page::new(&mut world.out);
    for (name, side) in [("A", first), ("B", second)] {
        let short: String = side.id.chars().take(8).collect();
        let branch = side.branch.as_ref().map_or(String::new(), |branch| format!("@{branch}"));
        let turns = count(side.turns.len() as u64, "turn");
        let text = format!("  {short}{branch}  {turns}  {}", fit(&side.title, TITLE));
        page.line(&[styled(BOLD, name), unstyled(shown(&text))])?;
    }
    let common = common(aligned);
    let is_all = |side: &Side| side.turns.len() == common;
    let text = match (common, is_all(first), is_all(second)) {
        (_, true, true) => format!("the same: {}", count(common as u64, "turn")),
        (0, ..) => "nothing in common at the beginning".to_owned(),
        (_, true, false) => format!("the same up to turn {common}, where A ends"),
        (_, false, true) => format!("the same up to turn {common}, where B ends"),
        (_, false, false) => {
            format!("the same up to turn {common}; they part at turn {}", common + 1)
        }
    };
    page.line(&[unstyled(text)])?;
    let digits = first.turns.len().max(second.turns.len()).to_string().len();
    let mut rest = &aligned[common..];
    while let Some(part) = rest.first() {
        // Turns that are the same stand on one line.
        let same = rest.iter().take_while(|part| matches!(part, Aligned::Same(..))).count();
        if let (Aligned::Same(a, b), 1..) = (part, same) {
            let numbers = |from: usize| range(from + 1, from + same);
            let text = format!("= A {}, B {}", numbers(*a), numbers(*b));
            page.line(&[unstyled(text)])?;
            rest = &rest[same..];
            continue;
        }
        let [a, b] =
            numbers(*part).map(|turn| turn.map_or(String::new(), |turn| (turn + 1).to_string()));
        let (mark, style) = match part {
            Aligned::Changed(..) => ("~", WARN),
            Aligned::First(_) => ("-", WARN),
            _ => ("+", GOOD),
        };
        let words = fit(&words(first, second, *part)?, TITLE);
        let numbers = format!(" {a:>digits$} {b:>digits$}  ");
        page.line(&[styled(style, mark), unstyled(numbers), unstyled(shown(&words))])?;
        rest = &rest[1..];
    }
    Ok(())
}

/// How much of a title or a prompt is printed.
const TITLE: usize = 100;

fn range(first: usize, last: usize) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// The numbers of a turn in both, counted from 0.
fn numbers(part: Aligned) -> [Option<usize>; 2] {
    match part {
        Aligned::Same(a, b) | Aligned::Changed(a, b) => [Some(a), Some(b)],
        Aligned::First(a) => [Some(a), None],
        Aligned::Second(b) => [None, Some(b)],
    }
}

/// What was asked.
fn words(first: &Side, second: &Side, part: Aligned) -> Result<String, Failure> {
    match numbers(part) {
        [Some(a), _] => headline(&first.conversation, &first.turns[a]),
        [None, Some(b)] => headline(&second.conversation, &second.turns[b]),
        [None, None] => Ok(String::new()),
    }
}

fn as_json(
    world: &mut World,
    first: &Side,
    second: &Side,
    aligned: &[Aligned],
) -> Result<(), Failure> {
    let mut turns = Vec::new();
    for part in aligned {
        let [a, b] = numbers(*part).map(|turn| turn.map(|turn| turn + 1));
        let state = match part {
            Aligned::Same(..) => "same",
            Aligned::Changed(..) => "changed",
            Aligned::First(_) => "a",
            Aligned::Second(_) => "b",
        };
        turns.push(TurnJson { state, a, b, prompt: words(first, second, *part)? });
    }
    let side = |side: &Side| SideJson {
        id: side.id.clone(),
        title: side.title.clone(),
        branch: side.branch.clone(),
        turns: side.turns.len(),
    };
    let value = DiffJson {
        v: JSON_VERSION,
        a: side(first),
        b: side(second),
        common: common(aligned),
        turns,
    };
    Ok(world.out.json(&value)?)
}

#[derive(Serialize)]
struct DiffJson {
    v: u32,
    a: SideJson,
    b: SideJson,
    common: usize,
    turns: Vec<TurnJson>,
}

#[derive(Serialize)]
struct SideJson {
    id: String,
    title: String,
    branch: Option<String>,
    turns: usize,
}

#[derive(Serialize)]
struct TurnJson {
    state: &'static str,
    a: Option<usize>,
    b: Option<usize>,
    prompt: String,
}
