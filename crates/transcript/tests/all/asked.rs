//! Which versions were asked which cases: the part of `docs/history.md` that says what was
//! observed, what is inferred from its neighbours, and how often that would have been wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use transcript::client::history::{VersionChange, version_changes};

use crate::history::{answers, parse, sides};

/// So many versions were asked a case that all are asked.
const MOST: usize = 60;

type Version = [u32; 3];

/// For each case that all versions are asked: the versions that were, each with the number of its
/// answer.
fn asked() -> Vec<BTreeMap<Version, usize>> {
    let of_case = |of_case: &serde_json::Value| {
        let mut found = BTreeMap::new();
        for (number, answer) in of_case["answers"].as_array().unwrap().iter().enumerate() {
            for version in answer["versions"].as_array().unwrap() {
                found.insert(parse(version.as_str().unwrap()), number);
            }
        }
        found
    };
    answers().values().map(of_case).filter(|of_case| of_case.len() >= MOST).collect()
}

/// How many answers are between two of `from` that are alike, next to each other but for the one
/// between, and how many of those differ from them.
fn between(asked: &[BTreeMap<Version, usize>], from: &[Version], is_one: bool) -> [usize; 2] {
    let mut found = [0, 0];
    for of_case in asked {
        let mut note = |low: Version, version: Version, high: Version| {
            if of_case[&low] == of_case[&high] {
                found[0] += 1;
                found[1] += usize::from(of_case[&version] != of_case[&low]);
            }
        };
        if is_one {
            from.windows(3).for_each(|three| note(three[0], three[1], three[2]));
            continue;
        }
        for version in of_case.keys().filter(|version| !from.contains(version)) {
            let high = from.partition_point(|known| known < version);
            if high > 0 && high < from.len() {
                note(from[high - 1], *version, from[high]);
            }
        }
    }
    found
}

/// The part of `docs/history.md`.
fn list() -> String {
    let name = |[major, minor, patch]: Version| format!("{major}.{minor}.{patch}");
    let asked = asked();
    let lacks = |version: &Version| asked.iter().filter(|all| !all.contains_key(version)).count();
    let versions: BTreeSet<Version> = asked.iter().flat_map(|all| all.keys().copied()).collect();
    let whole: Vec<Version> = versions.into_iter().filter(|version| lacks(version) == 0).collect();
    let changes = version_changes().into_iter();
    let beside: BTreeSet<Version> = changes
        .flat_map(|VersionChange { since, .. }| sides(since))
        .map(|version| parse(&version))
        .collect();
    let part: Vec<Version> = beside.iter().copied().filter(|version| lacks(version) > 0).collect();
    let inferred: usize = part.iter().map(lacks).sum();
    let [near, near_wrong] = between(&asked, &whole, false);
    let [far, far_wrong] = between(&asked, &whole, true);
    let mut text = String::from("\n");
    let mut write = |what: String| write_lines(&mut text, &what);
    let names = |list: &[Version]| list.iter().copied().map(name).collect::<Vec<_>>().join(", ");
    write(format!(
        "{} versions were asked all {} cases: {}.",
        whole.len(),
        asked.len(),
        names(&whole)
    ));
    write(format!(
        "Of the {} versions beside a change, {} were not asked all of them, and {inferred} answers \
         are inferred. How often that is wrong: {near} answers of versions that were not asked \
         everything are between two neighbours that were and that send the same; {near_wrong} of \
         them differ from these. If only every second of the {} versions had been asked, \
         {far_wrong} of {far} inferred answers would have been wrong.",
        beside.len(),
        part.len(),
        whole.len(),
    ));
    let cells: Vec<String> =
        part.iter().map(|version| format!("{} ({})", name(*version), lacks(version))).collect();
    write(format!("With the number of cases that they were not asked: {}.", cells.join(", ")));
    text
}

/// Writes a paragraph in lines of at most a hundred columns.
fn write_lines(text: &mut String, paragraph: &str) {
    let mut width = 0;
    for word in paragraph.split(' ') {
        let is_new = width + word.len() >= 100;
        let gap = if is_new { "\n" } else { " " };
        write!(text, "{}{word}", if width == 0 { "" } else { gap }).unwrap();
        width = if is_new { word.len() } else { width + 1 + word.len() };
    }
    text.push_str("\n\n");
}

#[test]
fn what_was_asked_is_up_to_date() {
    testkit::compare("history.md", "asked", &list(), "-p transcript history asked");
}

/// What is inferred is nearly always right, or a version is not enough between two others.
#[test]
fn behaviour_seldom_changes_and_changes_back() {
    let asked = asked();
    let versions: BTreeSet<Version> = asked.iter().flat_map(|all| all.keys().copied()).collect();
    let is_whole = |version: &Version| asked.iter().all(|all| all.contains_key(version));
    let whole: Vec<Version> = versions.into_iter().filter(is_whole).collect();
    let [near, wrong] = between(&asked, &whole, false);
    assert!(near >= 360 && wrong * 100 <= near, "{wrong} of {near}");
}
