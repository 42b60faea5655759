//! A name for people: an adjective, a second word, a noun. Made from an id, so that the same id
//! gives the same name.

const FIRST: [&str; 16] = [
    "amber", "brisk", "calm", "dapper", "eager", "frosty", "gentle", "hardy", "inky", "jolly",
    "keen", "lively", "mellow", "nimble", "quiet", "sunny",
];
const SECOND: [&str; 16] = [
    "baking", "climbing", "dancing", "drifting", "gliding", "humming", "knitting", "mapping",
    "painting", "rowing", "sailing", "singing", "skating", "tying", "walking", "weaving",
];
const THIRD: [&str; 16] = [
    "alder", "brook", "cedar", "comet", "fjord", "heron", "knot", "llama", "lynx", "maple",
    "otter", "pebble", "quartz", "raven", "thistle", "willow",
];

/// A name made from an id.
pub(crate) fn made(id: &str) -> String {
    let digits: Vec<usize> =
        id.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as usize).collect();
    let word = |list: &[&'static str; 16], at: usize| list[digits.get(at).copied().unwrap_or(0)];
    format!("{}-{}-{}", word(&FIRST, 0), word(&SECOND, 1), word(&THIRD, 2))
}
