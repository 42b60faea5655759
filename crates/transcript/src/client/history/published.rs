//! The client versions that were published, from the oldest observed one to the newest.
//!
//! Invariant: the list in `published.txt` is in order and ends with [`NEWEST`].

use std::sync::LazyLock;

use super::changes::{CHANGES, Matters};
use super::rules::{Rules, parse_version};
use super::traits::Traits;
use super::tree;
use crate::conversation::table::Table;

/// Runs of versions whose last numbers follow one another: `2.0.0-3` is 2.0.0 to 2.0.3.
const LIST: &str = include_str!("published.txt");

/// The newest version that was observed.
pub(super) const NEWEST: [u32; 3] = [2, 1, 325];

/// The same, as text.
pub const NEWEST_NAME: &str = "2.1.325";

/// The first and the last version of each run, in order.
fn runs() -> impl Iterator<Item = ([u32; 3], [u32; 3])> {
    LIST.split_whitespace().filter_map(|run| {
        let (first, last) = run.split_once('-').unwrap_or((run, ""));
        let first = parse_version(first)?;
        let last = last.parse().map_or(first, |last| [first[0], first[1], last]);
        Some((first, last))
    })
}

/// The newest published version that is not newer than this one; the oldest if there is none.
pub(super) fn at(version: [u32; 3]) -> [u32; 3] {
    let older = runs().take_while(|(first, _)| *first <= version).last();
    older.map_or_else(
        || runs().next().map_or(NEWEST, |(first, _)| first),
        |(_, last)| last.min(version),
    )
}

/// The newest published version that is older than this one.
pub(super) fn before(version: [u32; 3]) -> Option<[u32; 3]> {
    let (first, last) = runs().take_while(|(first, _)| *first < version).last()?;
    Some(if version <= last { [first[0], first[1], version[2] - 1] } else { last })
}

/// Published versions, one after the other, that follow the same rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The rules, named after the first of the versions.
    pub rules: Rules,
    /// The last of the versions.
    pub last: [u32; 3],
}

impl Range {
    /// Whether a version is one of them.
    pub(crate) fn contains(&self, version: [u32; 3]) -> bool {
        (self.rules.version..=self.last).contains(&version)
    }
}

/// All published versions, by their rules, oldest first.
pub fn ranges() -> &'static [Range] {
    static RANGES: LazyLock<Vec<Range>> = LazyLock::new(|| joined(|_| true));
    &RANGES
}

/// All published versions, by their rules. Versions are together if no change between them matters
/// for this session.
pub(crate) fn ranges_for(table: &Table) -> Vec<Range> {
    let traits = Traits::of(table);
    let chain = |version| tree::chain(table, Rules::since(version));
    let mut known = chain(at([0; 3]));
    joined(|since| {
        let mut matters = false;
        let here = CHANGES.iter().filter(|one| one.since == since);
        for kind in here.map(|one| one.matters) {
            matters |= matches!(kind, Matters::When(has) if has(&traits));
            // No other change is about the chain, so it is still the one that is known.
            if matches!(kind, Matters::Chain) {
                let new = chain(since);
                matters |= new != known;
                known = new;
            }
        }
        matters
    })
}

/// The ranges that begin at the oldest version, and at those changes that count.
fn joined(mut counts: impl FnMut([u32; 3]) -> bool) -> Vec<Range> {
    let oldest = at([0; 3]);
    let mut firsts: Vec<[u32; 3]> = CHANGES.iter().map(|change| change.since).collect();
    firsts.dedup();
    firsts.retain(|since| *since > oldest && counts(*since));
    firsts.insert(0, oldest);
    let ends = firsts.iter().skip(1).filter_map(|next| before(*next)).chain([NEWEST]);
    let ends: Vec<[u32; 3]> = ends.collect();
    firsts
        .into_iter()
        .zip(ends)
        .map(|(first, last)| Range { rules: Rules::since(first), last })
        .collect()
}
