//! Turns that are dropped, kept, squashed, stripped and reworded, sessions that are split and
//! merged: on every real session, and on random ones.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use testkit::Rng;
use transcript::client::change::{
    self, ForkError, GraftSource, MergeError, Renames, Rework, ReworkError, SplitError, SplitNote,
    Subject, TurnAction,
};
use transcript::client::check::Verdict;
use transcript::client::history::{Rules, Siblings, history};
use transcript::conversation::Conversation;
use transcript::conversation::place::Session;
use transcript::conversation::table::BlockId;

use super::change::{
    CASES, NEW, OLD, VERSIONS, chance, file_of, is_apart, is_worse, made, subject, verdict,
};

const NOTE: SplitNote<'_> = SplitNote { origin: "11111111", summary: "Earlier: two questions." };

fn turns(subject: &Subject) -> usize {
    let conversation = subject.conversation();
    conversation.turns_in(&conversation.live()).len()
}

/// The first words of the prompts of the live conversation.
fn prompts(subject: &Subject) -> Vec<String> {
    let conversation = subject.conversation();
    let found = conversation.turns_in(&conversation.live());
    let headline = |turn| transcript::conversation::view::headline(conversation, turn).unwrap();
    found.iter().map(headline).collect()
}

fn session(id: &str) -> Session {
    Session {
        id: id.into(),
        path: PathBuf::from(format!("{id}.jsonl")),
        project: String::new(),
        size: 0,
        modified: SystemTime::UNIX_EPOCH,
    }
}

fn read(bytes: &[u8], id: &str) -> Subject {
    let path = format!("{id}.jsonl");
    Subject::of_file(file_of(bytes), Path::new(&path), Rules::newest()).unwrap()
}

/// Calls without results and results without calls, in the whole file.
fn halves(conversation: &Conversation) -> BTreeSet<String> {
    let table = &conversation.table;
    let blocks = (0..u32::try_from(table.blocks().len()).unwrap()).map(BlockId);
    let is_half = |block: &BlockId| {
        let part = table.block(*block);
        (part.kind.is_call() || part.kind.is_result())
            && !part.is_repeat
            && conversation.pairs.of(*block).is_none()
    };
    let halves = blocks.filter(is_half);
    halves.filter_map(|block| table.text(table.block(block).id).map(str::to_owned)).collect()
}

/// One action for every turn.
fn plan(count: usize, action: impl Fn(usize) -> TurnAction) -> Rework {
    Rework { turns: (1..=count).map(action).collect(), branches: Vec::new() }
}

fn only(number: usize, action: &TurnAction) -> impl Fn(usize) -> TurnAction {
    move |turn| if turn == number { action.clone() } else { TurnAction::Keep }
}

/// Changes of turns, by name, with how many turns they leave.
fn plans(count: usize) -> Vec<(String, Rework, usize)> {
    let mut all = Vec::new();
    let middle = count.div_ceil(2);
    for number in BTreeSet::from([1, middle, count]) {
        let drop = plan(count, only(number, &TurnAction::Drop));
        all.push((format!("drop {number}"), drop, count - 1));
        all.push((format!("strip {number}"), plan(count, only(number, &TurnAction::Strip)), count));
        let text = TurnAction::Reword("something \"else\"\nentirely".to_owned());
        all.push((format!("reword {number}"), plan(count, only(number, &text)), count));
        let keep = |turn| if turn == number { TurnAction::Keep } else { TurnAction::Drop };
        all.push((format!("keep {number}"), plan(count, keep), 1));
    }
    for number in BTreeSet::from([2, count]) {
        let squash = plan(count, only(number, &TurnAction::Squash));
        all.push((format!("squash {number}"), squash, count - 1));
    }
    all
}

/// The messages that a version would send, without ids.
fn sent(bytes: &[u8], version: &str) -> Option<Vec<String>> {
    let rules = Rules::of(version).unwrap();
    let subject = subject(bytes, rules);
    let found = history(subject.conversation(), rules, None).unwrap().ok()?;
    let messages = found.messages.iter().map(|message| {
        let blocks =
            message.blocks.iter().map(|block| unnamed(&String::from_utf8_lossy(block.raw())));
        format!("{:?} {}", message.role, blocks.collect::<Vec<_>>().join(" "))
    });
    Some(messages.collect())
}

/// A text without ids of sessions and records, which differ in a copy.
fn unnamed(text: &str) -> String {
    let bytes = text.as_bytes();
    let is_id = |at: usize| {
        bytes.get(at..at + 36).is_some_and(|id| {
            id.iter().enumerate().all(|(place, byte)| match place {
                8 | 13 | 18 | 23 => *byte == b'-',
                _ => byte.is_ascii_hexdigit(),
            })
        })
    };
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if is_id(at) {
            out.push(b'#');
            at += 36;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A session before changes.
struct Original {
    halves: BTreeSet<String>,
    verdicts: Vec<(&'static str, Verdict)>,
}

impl Original {
    fn new(bytes: &[u8], versions: &[&'static str]) -> Original {
        // Before a compaction, versions that lose parallel results lose them anew.
        let is_compacted = memchr::memmem::find(bytes, b"compact_boundary").is_some();
        let loses = |version| Rules::of(version).unwrap().siblings == Siblings::Lost;
        let versions = versions.iter().filter(|version| !is_compacted || !loses(version));
        Original {
            halves: halves(subject(bytes, Rules::newest()).conversation()),
            verdicts: versions.map(|version| (*version, verdict(bytes, version).0)).collect(),
        }
    }
}

struct Wrong(Vec<String>);

impl Wrong {
    /// Holds a result against what it was made from.
    fn compare(&mut self, name: &str, before: &Original, after: &[u8]) {
        let is = halves(subject(after, Rules::newest()).conversation());
        if !is.is_subset(&before.halves) {
            let broken: Vec<_> = is.difference(&before.halves).collect();
            self.0.push(format!("{name}: breaks {broken:?}"));
        }
        for (version, was) in &before.verdicts {
            let is = verdict(after, version).0;
            if is_worse(version, *was, is) {
                self.0.push(format!("{name} as {version}: {} -> {}", was.name(), is.name()));
            }
        }
    }

    fn done(&self) {
        let (odd, wrong): (Vec<&String>, Vec<&String>) =
            self.0.iter().partition(|text| is_odd(text.lines().next().unwrap_or_default()));
        let list = |texts: &[&String]| {
            texts.iter().map(|text| text.as_str()).collect::<Vec<_>>().join("\n")
        };
        println!("{} known:\n{}", odd.len(), list(&odd));
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), list(&wrong));
    }
}

/// A session as two, the second with ids of its own.
fn halved(before: &Subject, turn: usize) -> Option<[Vec<u8>; 2]> {
    let [first, second] = match change::split(before, turn, NOTE) {
        Ok(halves) => halves,
        // Nothing was said in one of them.
        Err(SplitError::Fork(ForkError::Nothing)) => return None,
        Err(error) => panic!("{error}"),
    };
    let mut ids = Renames::new(OLD, NEW);
    ids.learn(&before.conversation().table);
    Some([made(before, &first, None).0, made(before, &second, Some(&ids)).0])
}

fn merged(first: &[u8], second: &[u8]) -> Result<Vec<u8>, MergeError> {
    let (one, other) = (read(first, OLD), read(second, NEW));
    let source = GraftSource { session: session(NEW), subject: other, branch: None };
    let count = change::turn_count(&source)?;
    let turns: Vec<usize> = (1..=count).collect();
    let change = change::merge(&one, &session(OLD), source, &turns)?;
    Ok(made(&one, &change, None).0)
}

/// Damaged sessions where a call stands twice, and its copy no longer counts as one.
const KNOWN: [u64; 3] = [376, 518, 530];

/// Sessions where a change of turns does not do all that it should, and why. What is said about
/// them is printed, and not an error.
const ODD: [(&str, &str); 17] = [
    ("/no_uuids", "records without ids have no end to add to"),
    ("/sidechain_on_the_chain", "a sidechain in the middle of the path belongs to two turns"),
    ("/gap_nearest_by_time", "clients and we bridge a gap to other records"),
    ("/gap_tie_first_in_file", "clients and we bridge a gap to other records"),
    ("/glued_records", "the first record stays as a link, without its content"),
    ("/nt_attachment_itself", "an older version sends an attachment that it did not send"),
    ("/compacted_segment", "the second half has what a compaction keeps as one more turn"),
    ("/compacted_messages", "the second half has what a compaction keeps as one more turn"),
    ("/g_compact/projects/-home-dev-demo/3832b285", "the same"),
    ("/s_rewind_accept/", "the same, and its calls get other ids when they are merged"),
    ("/p_hooks_rest/", "a split right after a compaction counts turns wrong"),
    ("/q_compact/", "a prompt in the queue belongs to the next turn: a half is refused"),
    ("/v_screen/", "older versions resume the second half with loss"),
    ("/images-in-user-messages", "a prompt of two records counts as two turns"),
    ("/i_rewind/", "a branch that begins with a command stays beside the one turn that is kept"),
    ("/f_resume/", "a turn that a resumed client repeats cannot be kept alone: refused"),
    ("/seen_same_ms_tie_k_hooks/", "its last turn cannot be dropped: refused"),
];

fn is_odd(name: &str) -> bool {
    ODD.iter().any(|(part, _)| name.contains(part))
}

/// The versions by which a session is judged before and after. Those made by hand show what single
/// versions do wrong.
fn versions(name: &str, at: usize) -> &'static [&'static str] {
    let is_made = name.contains("/observed/") || name.contains("/edited/");
    if is_made { &VERSIONS[..1] } else { [&VERSIONS[..2], &VERSIONS[..3], &VERSIONS[..1]][at % 3] }
}

/// The real sessions with more than one turn that can be resumed; long ones would take minutes.
fn sessions() -> impl Iterator<Item = (String, Vec<u8>, Subject, usize)> {
    testkit::real_files().into_iter().filter_map(|file| {
        let name = file.path.display().to_string();
        if name.contains("/agent-") || file.bytes.len() > 300_000 || is_apart(&name) {
            return None;
        }
        let before = subject(&file.bytes, Rules::newest());
        let total = turns(&before);
        let is_fit = total > 1 && before.verdict().unwrap() != Verdict::Refused;
        is_fit.then_some((name, file.bytes, before, total))
    })
}

#[test]
fn turns_of_every_real_session_can_be_changed() {
    let mut wrong = Wrong(Vec::new());
    let (mut count, mut changed, mut refused) = (0, 0, 0);
    for (at, (name, bytes, before, total)) in sessions().enumerate() {
        let original = Original::new(&bytes, versions(&name, at));
        count += 1;
        let words = prompts(&before);
        for (row, (what, plan, left)) in plans(total).into_iter().enumerate() {
            // All changes of all sessions would take minutes.
            if (at + row) % 3 != 0 {
                continue;
            }
            let change = match change::rework(&before, &plan) {
                Ok(change) => change,
                Err(
                    ReworkError::NoPrompt(_) | ReworkError::Compaction(_) | ReworkError::Nothing,
                ) => {
                    refused += 1;
                    continue;
                }
                Err(error) => panic!("{name}: {what}: {error}"),
            };
            changed += 1;
            let (out, _) = made(&before, &change, None);
            wrong.compare(&format!("{name}: {what}"), &original, &out);
            let after = subject(&out, Rules::newest());
            if turns(&after) != left {
                wrong.0.push(format!(
                    "{name}: {what}: {total} turns -> {}, not {left}",
                    turns(&after)
                ));
            } else if what.starts_with("drop") {
                let number: usize = what["drop ".len()..].parse().unwrap();
                let mut rest = words.clone();
                rest.remove(number - 1);
                if prompts(&after) != rest {
                    wrong.0.push(format!("{name}: {what}: {:?} {:?}", prompts(&after), rest));
                }
            }
        }
    }
    println!("{count} sessions, {changed} changes, {refused} that cannot be made");
    wrong.done();
}

#[test]
fn every_real_session_says_the_same_after_it_was_split_and_merged() {
    let mut wrong = Wrong(Vec::new());
    let mut count = 0;
    for (at, (name, bytes, before, total)) in sessions().enumerate() {
        let original = Original::new(&bytes, versions(&name, at));
        let places = [2, total.div_ceil(2).max(2), total];
        for turn in BTreeSet::from([places[at % 3], places[(at + 1) % 3]]) {
            let Some([first, second]) = halved(&before, turn) else { continue };
            count += 1;
            let what = format!("{name}: split at {turn}");
            wrong.compare(&format!("{what}, first"), &original, &first);
            wrong.compare(&format!("{what}, second"), &original, &second);
            let counts = [&first, &second].map(|bytes| turns(&subject(bytes, Rules::newest())));
            if counts != [turn - 1, total + 1 - turn] {
                wrong.0.push(format!("{what}: {total} turns -> {counts:?}"));
            }
            let together = match merged(&first, &second) {
                Ok(together) => together,
                Err(error) => {
                    wrong.0.push(format!("{what}: {error}"));
                    continue;
                }
            };
            wrong.compare(&format!("{what}, merged"), &original, &together);
            let was = sent(&bytes, VERSIONS[0]);
            let is_whole = before.verdict().unwrap() == Verdict::Full;
            for version in ["2.1.325", "2.1.100"] {
                // What a version loses, or takes for the live branch, may change.
                let (other, is) = (sent(&bytes, version), sent(&together, version));
                if is_whole && other == was && is != was {
                    wrong.0.push(format!(
                        "{what} as {version}: {}",
                        difference(was.as_deref(), is.as_deref())
                    ));
                }
            }
        }
    }
    println!("{count} splits");
    wrong.done();
}

fn difference(was: Option<&[String]>, is: Option<&[String]>) -> String {
    let (was, is) = (was.unwrap_or_default(), is.unwrap_or_default());
    let at = was.iter().zip(is).take_while(|(was, is)| was == is).count();
    let cut = |list: &[String]| {
        let text: String = list.get(at).map_or("nothing", |text| text).chars().take(300).collect();
        text
    };
    format!("{} -> {} messages, at {at}:\n  {}\n  {}", was.len(), is.len(), cut(was), cut(is))
}

/// What random changes do to random sessions, every other one of them damaged.
#[test]
fn no_change_of_turns_breaks_a_pair() {
    let mut wrong = Wrong(Vec::new());
    let mut made_changes = 0;
    for seed in 0..CASES {
        let text = chance(seed);
        if KNOWN.contains(&seed) {
            println!(
                "left out: seed {seed}: a call stands twice, and its copy no longer counts as one"
            );
            continue;
        }
        let mut rng = Rng::new(seed + 7);
        let before = read(text.as_bytes(), OLD);
        let total = turns(&before);
        if total == 0 {
            continue;
        }
        let turns = (0..total).map(|_| match rng.below(6) {
            0 | 1 => TurnAction::Keep,
            2 | 3 => TurnAction::Drop,
            4 => TurnAction::Strip,
            _ => TurnAction::Squash,
        });
        let plan = Rework { turns: turns.collect(), branches: Vec::new() };
        let versions: &[&'static str] =
            if seed.is_multiple_of(2) { &[] } else { &["2.1.325", "2.1.100"] };
        let original = Original::new(text.as_bytes(), versions);
        if let Ok(change) = change::rework(&before, &plan) {
            made_changes += 1;
            let (out, _) = made(&before, &change, None);
            wrong.compare(&format!("seed {seed} {:?}", plan.turns), &original, &out);
        }
        if total < 2 {
            continue;
        }
        // Older versions leave records out that the newest one brings back, and so may halves.
        let original = Original::new(text.as_bytes(), &versions[..versions.len().min(1)]);
        let turn = 2 + rng.below(total - 1);
        let Ok([first, second]) = change::split(&before, turn, NOTE) else { continue };
        let mut ids = Renames::new(OLD, NEW);
        ids.learn(&before.conversation().table);
        let (first, second) = (made(&before, &first, None).0, made(&before, &second, Some(&ids)).0);
        wrong.compare(&format!("seed {seed} split {turn}, 1"), &original, &first);
        wrong.compare(&format!("seed {seed} split {turn}, 2"), &original, &second);
        if let Ok(together) = merged(&first, &second) {
            made_changes += 1;
            let what = format!("seed {seed} split {turn}, merged");
            wrong.compare(&what, &original, &together);
            if !versions.is_empty() {
                let (was, is) = (sent(text.as_bytes(), "2.1.325"), sent(&together, "2.1.325"));
                if was != is {
                    wrong.0.push(format!("{what}: {}", difference(was.as_deref(), is.as_deref())));
                }
            }
        }
    }
    assert!(made_changes > 300, "{made_changes}");
    wrong.done();
}
