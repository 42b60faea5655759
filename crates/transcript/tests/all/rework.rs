//! Turns that are dropped, kept, squashed, stripped and reworded, sessions that are split and
//! merged: on every real session, and on random ones.

use std::borrow::Cow;
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
use transcript::conversation::parting::keys;
use transcript::conversation::place::Session;
use transcript::conversation::table::{BlockId, RowId};
use transcript::format::entry::{Entry, Kind};

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

/// What happened to the queue in the live conversation: each operation, and its prompt.
fn queue(subject: &Subject) -> Vec<[Option<String>; 2]> {
    let conversation = subject.conversation();
    let live = conversation.live();
    let is_queue = |row: &RowId| conversation.table.row(*row).kind == Kind::QueueOperation;
    let rows = conversation.rows(&live).filter(is_queue);
    rows.map(|row| {
        let of = |entry: &Entry<'_>, name| entry.text(name).map(Cow::into_owned);
        conversation
            .look(row, |entry| ["operation", "content"].map(|name| of(entry, name)))
            .unwrap()
    })
    .collect()
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
            verdicts: versions.map(|version| (*version, verdict(bytes, version))).collect(),
        }
    }
}

/// What was found wrong, and which sessions were tried.
#[derive(Default)]
struct Wrong {
    all: Vec<String>,
    tried: Vec<String>,
}

impl Wrong {
    /// Holds a result against what it was made from.
    fn compare(&mut self, name: &str, before: &Original, after: &[u8]) {
        let is = halves(subject(after, Rules::newest()).conversation());
        if !is.is_subset(&before.halves) {
            let broken: Vec<_> = is.difference(&before.halves).collect();
            self.all.push(format!("{name}: breaks {broken:?}"));
        }
        for (version, was) in &before.verdicts {
            let is = verdict(after, version);
            if is_worse(version, *was, is) {
                self.all.push(format!("{name} as {version}: {} -> {}", was.name(), is.name()));
            }
        }
    }

    /// Holds what a session says against what it said: its turns, and its queue.
    fn differs(&mut self, name: &str, before: &Subject, after: &Subject) {
        let [was, is] = [before, after].map(|subject| {
            let conversation = subject.conversation();
            let turns = conversation.turns_in(&conversation.live());
            keys(conversation, &turns).unwrap()
        });
        let same = was.iter().zip(&is).take_while(|(was, is)| was == is).count();
        if was.len() != is.len() || same < was.len() {
            let (was, is) = (was.len(), is.len());
            self.all.push(format!("{name}: {was} turns -> {is}, the same up to {same}"));
        }
        let [was, is] = [before, after].map(queue);
        if was != is {
            self.all.push(format!("{name}: queue {was:?} -> {is:?}"));
        }
    }

    /// Only what is known is wrong; and what is known still is, or is to be struck off.
    fn done(&self, known: &[Odd]) {
        let is_it = |odd: &Odd, text: &str| {
            let first = text.lines().next().unwrap_or_default();
            odd.parts().into_iter().all(|part| first.contains(part))
        };
        let mut wrong = Vec::new();
        for text in &self.all {
            match known.iter().find(|odd| is_it(odd, text)) {
                Some(odd) => println!("known: {text}\n  {}", odd.why),
                None => wrong.push(text.as_str()),
            }
        }
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
        if !is_all() {
            return;
        }
        let is_past = |odd: &&Odd| {
            self.tried.iter().any(|name| name.contains(odd.session))
                && !self.all.iter().any(|text| is_it(odd, text))
        };
        let past: Vec<[&str; 3]> = known.iter().filter(is_past).map(Odd::parts).collect();
        assert!(past.is_empty(), "no longer wrong: {past:?}");
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

/// What is known not to be as it should. Everything else about the session is checked.
struct Odd {
    /// A part of the session's name.
    session: &'static str,
    /// The change, and what comes of it: parts of the line that says so.
    change: &'static str,
    what: &'static str,
    why: &'static str,
}

impl Odd {
    fn parts(&self) -> [&'static str; 3] {
        [self.session, self.change, self.what]
    }
}

const fn odd(
    session: &'static str,
    change: &'static str,
    what: &'static str,
    why: &'static str,
) -> Odd {
    Odd { session, change, what, why }
}

const BRIDGED: &str = "clients and we bridge a gap to other records";
const SIDE: &str = "a sidechain in the middle of the path belongs to two turns";
const ONE_ID: &str = "two calls have one id, so the result of one keeps the other, too";
const BEFORE_RESULT: &str = "a text in the record of a result opens a turn once the result is gone";
const TWO_RECORDS: &str = "a prompt of two records counts as two turns";
const REFUSED: &str = "the command refuses it: what is left would resume less well";
const ONE_MORE: &str = "the second half has what a compaction keeps as one more turn";

const ODD_TURNS: &[Odd] = &[
    odd("/sidechain_on_the_chain", "drop 3", "3 turns -> 1, not 2", SIDE),
    odd("/gap_nearest_by_time", "squash 3", "3 turns -> 1, not 2", BRIDGED),
    odd("/gap_nearest_by_time", "drop 1", "[\"[removed]\"", BRIDGED),
    odd("/gap_tie_first_in_file", "squash 2", "2 turns -> 2, not 1", BRIDGED),
    odd(
        "/glued_records",
        "drop 1",
        "[\"[removed]\"]",
        "the first record stays as a link, without its content",
    ),
    odd("/images-in-user-messages", "keep 2", "3 turns -> 2, not 1", TWO_RECORDS),
    odd("/images-in-user-messages", "keep 3", "3 turns -> 2, not 1", TWO_RECORDS),
    odd("/images-in-user-messages", "drop 1", "3 turns -> 3, not 2", TWO_RECORDS),
    odd(
        "/2.1.29/i_rewind/",
        "keep 2",
        "4 turns -> 2, not 1",
        "a branch that begins with a command stays beside the one turn that is kept",
    ),
    odd("/call_again_open", "keep 2", "2 turns -> 2, not 1", ONE_ID),
    odd("/text_before_result", "strip 1", "2 turns -> 3, not 2", BEFORE_RESULT),
    odd("/duplicate_lines", "reword 1", "as 2.1.325: full -> loss", REFUSED),
    odd("/2.1.45/f_resume/", "keep 1", "full -> loss", REFUSED),
    odd("/seen_same_ms_tie_g_compact/", "keep 1", "full -> loss", REFUSED),
    odd("/seen_same_ms_tie_k_hooks/", "keep 1", "as 2.1.325: full -> loss", REFUSED),
    odd("/seen_same_ms_tie_k_hooks/", "drop 2", "as 2.1.325: full -> loss", REFUSED),
];

const ODD_SPLITS: &[Odd] = &[
    odd(
        "/no_uuids",
        "split at 2",
        "there is no conversation in the session to add to",
        "records without ids have no end to add to",
    ),
    odd("/sidechain_on_the_chain", "split at 3", "3 turns -> [1, 1]", SIDE),
    odd("/call_again_open", "split at 2", "2 turns -> [1, 2]", ONE_ID),
    odd("/sidechain_on_the_chain", "split at 3", "6 -> 4 messages", SIDE),
    odd("/gap_nearest_by_time", "split at 2", "3 turns -> [1, 1]", BRIDGED),
    odd("/gap_other_branch", "split at 2 as 2.1.325", "5 -> 4 messages", BRIDGED),
    odd(
        "/nt_attachment_itself",
        "split at 2 as 2.1.100",
        "4 -> 5 messages",
        "an older version sends an attachment that it did not send",
    ),
    odd("/compacted_segment", "split at 3", "3 turns -> [2, 2]", ONE_MORE),
    odd("/compacted_messages", "split at 3", "3 turns -> [2, 2]", ONE_MORE),
    odd("/2.1.325/g_compact/", "split at 2", "4 turns -> [1, 4]", ONE_MORE),
    odd("/2.1.325/q_compact/", "split at 4", "8 turns -> [3, 6]", ONE_MORE),
    odd("/2.1.325/s_rewind_accept/", "split at 2", "2 turns -> [1, 2]", ONE_MORE),
    odd("/2.1.325/q_compact/", "split at 2, first", "full -> loss", REFUSED),
    odd(
        "/2.1.325/v_screen/",
        "split at 5, second",
        "full -> loss",
        "an older version finds another end in the second half",
    ),
];

const TWICE: &str = "a call stands twice, and its copy no longer counts as one";

const ODD_RANDOM: &[Odd] = &[
    odd("seed 376 ", "split 2", "breaks [\"t19x0\"]", TWICE),
    odd("seed 518 ", "split 2", "breaks [\"t3x0\"]", TWICE),
    odd("seed 530 ", "", "breaks [\"t6x1\"]", TWICE),
];

/// Whether everything is tried: a few minutes.
fn is_all() -> bool {
    std::env::var_os("QUIPU_ALL_CHANGES").is_some()
}

/// A number that depends on the session alone, to choose what is tried with it.
fn choice(name: &str) -> usize {
    let file = Path::new(name).file_name().unwrap().to_string_lossy().into_owned();
    file.bytes().map(usize::from).sum()
}

/// The versions by which a session is judged before and after. Those made by hand show what single
/// versions do wrong.
fn versions(name: &str) -> &'static [&'static str] {
    let is_made = name.contains("/observed/") || name.contains("/edited/");
    if is_made {
        &VERSIONS[..1]
    } else {
        [&VERSIONS[..2], &VERSIONS[..3], &VERSIONS[..1]][choice(name) % 3]
    }
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
    let mut wrong = Wrong::default();
    let (mut count, mut changed, mut refused) = (0, 0, 0);
    for (name, bytes, before, total) in sessions() {
        let (original, at) = (Original::new(&bytes, versions(&name)), choice(&name));
        count += 1;
        wrong.tried.push(name.clone());
        let words = prompts(&before);
        for (row, (what, plan, left)) in plans(total).into_iter().enumerate() {
            if (at + row) % 3 != 0 && !is_all() {
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
                wrong.all.push(format!(
                    "{name}: {what}: {total} turns -> {}, not {left}",
                    turns(&after)
                ));
            } else if what.starts_with("drop") {
                let number: usize = what["drop ".len()..].parse().unwrap();
                let mut rest = words.clone();
                rest.remove(number - 1);
                if prompts(&after) != rest {
                    wrong.all.push(format!("{name}: {what}: {:?} {:?}", prompts(&after), rest));
                }
            }
        }
    }
    println!("{count} sessions, {changed} changes, {refused} that cannot be made");
    wrong.done(ODD_TURNS);
}

#[test]
fn every_real_session_says_the_same_after_it_was_split_and_merged() {
    let mut wrong = Wrong::default();
    let mut count = 0;
    for (name, bytes, before, total) in sessions() {
        let (original, at) = (Original::new(&bytes, versions(&name)), choice(&name));
        let places = [2, total.div_ceil(2).max(2), total];
        let chosen = if is_all() { &places[..] } else { &[places[at % 3], places[(at + 1) % 3]] };
        for turn in chosen.iter().copied().collect::<BTreeSet<usize>>() {
            let Some([first, second]) = halved(&before, turn) else { continue };
            count += 1;
            wrong.tried.push(name.clone());
            let what = format!("{name}: split at {turn}");
            wrong.compare(&format!("{what}, first"), &original, &first);
            wrong.compare(&format!("{what}, second"), &original, &second);
            let counts = [&first, &second].map(|bytes| turns(&subject(bytes, Rules::newest())));
            if counts != [turn - 1, total + 1 - turn] {
                wrong.all.push(format!("{what}: {total} turns -> {counts:?}"));
            }
            let together = match merged(&first, &second) {
                Ok(together) => together,
                Err(error) => {
                    wrong.all.push(format!("{what}: {error}"));
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
                    wrong.all.push(format!(
                        "{what} as {version}: {}",
                        difference(was.as_deref(), is.as_deref())
                    ));
                }
            }
        }
    }
    println!("{count} splits");
    wrong.done(ODD_SPLITS);
}

/// A session in which prompts are typed while the model works: one is sent, one is sent and
/// recorded nowhere else, one still waits at the end of the turn, and is sent in the next.
fn busy() -> String {
    let id = |number: usize| format!("00000000-0000-4000-8000-{number:012}");
    let mut text = String::new();
    let mut last = None;
    let mut add = |kind: &str, content: &str| {
        let number = text.lines().count();
        let parent = last.map_or("null".to_owned(), |last| format!("\"{}\"", id(last)));
        last = Some(number);
        let uuid = id(number);
        text += &format!(
            concat!(
                r#"{{"type":"{kind}","uuid":"{uuid}","parentUuid":{parent},"sessionId":"{session}","#,
                r#""isSidechain":false,"userType":"external","version":"2.1.45","cwd":"/p","#,
                r#""timestamp":"2026-01-02T03:04:{number:02}.000Z","#,
                r#""message":{{"role":"{kind}","content":{content}}}}}"#,
                "\n"
            ),
            kind = kind,
            uuid = uuid,
            parent = parent,
            session = OLD,
            number = number,
            content = content,
        );
    };
    let answer = |text: &str| format!(r#"[{{"type":"text","text":"{text}"}}]"#);
    add("user", "\"one\"");
    add("assistant", &answer("first"));
    add("user", "\"two\"");
    add("assistant", &answer("second"));
    add("user", "\"three\"");
    add("assistant", &answer("third"));
    let queued = |operation: &str, content: &str| {
        let content = match content {
            "" => String::new(),
            content => format!(r#","content":"{content}""#),
        };
        format!(
            "{{\"type\":\"queue-operation\",\"operation\":\"{operation}\",\"timestamp\":\"2026-01-02T03:05:00.000Z\",\"sessionId\":\"{OLD}\"{content}}}\n"
        )
    };
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    lines.insert(6, queued("remove", "") + &queued("enqueue", "for later"));
    lines.insert(5, queued("enqueue", "and this"));
    lines.insert(4, queued("dequeue", ""));
    lines.insert(3, queued("enqueue", "three"));
    lines.concat()
}

/// A prompt may stand only in the queue. Turns bring along what it says of them, and nothing of it
/// is taken for what waits in the session.
#[test]
fn turns_are_merged_with_their_queue() {
    let text = busy();
    let before = subject(text.as_bytes(), Rules::newest());
    assert_eq!(queue(&before).len(), 5);
    for turn in [2, 3] {
        let [first, second] = halved(&before, turn).unwrap();
        let together = merged(&first, &second).unwrap();
        let mut wrong = Wrong::default();
        wrong.differs("", &before, &subject(&together, Rules::newest()));
        assert_eq!(wrong.all, [""; 0], "split at {turn}");
    }
    // The turns of another session.
    let (one, two) = (text.replace(OLD, NEW), text.replace("\"three\"", "\"four\""));
    let add = |main: &str| {
        let (main, other) = (read(main.as_bytes(), OLD), read(one.as_bytes(), NEW));
        let source = GraftSource { session: session(NEW), subject: other, branch: None };
        let change = change::merge(&main, &session(OLD), source, &[3]).unwrap();
        let (out, _) = made(&main, &change, None);
        let left: Vec<_> = change.deeds.iter().map(|deed| deed.text.clone()).collect();
        (queue(&subject(&out, Rules::newest())).len(), left)
    };
    let (count, left) = add(&two);
    assert_eq!(count, 5, "{left:?}");
    assert!(left.contains(&LEFT.to_owned()), "{left:?}");
    // Nothing waits there.
    let (count, left) = add(&two.lines().take(7).collect::<Vec<_>>().join("\n"));
    assert_eq!(count, 2 + 3, "{left:?}");
    assert!(!left.contains(&LEFT.to_owned()), "{left:?}");
}

const LEFT: &str = "left out: 3 records of the queue, because prompts wait in the session's own";

/// Copied records have the id that the session's records have, whatever its file is called.
#[test]
fn the_name_of_a_file_is_no_id() {
    let text = busy();
    let before = subject(text.as_bytes(), Rules::newest());
    let [first, second] = halved(&before, 2).unwrap();
    let at = |bytes: &[u8], name: &str| {
        Subject::of_file(file_of(bytes), Path::new(name), Rules::newest()).unwrap()
    };
    let (one, other) = (at(&first, "os-1.jsonl"), at(&second, "os-2.jsonl"));
    assert_eq!([one.session_id(), other.session_id()], [OLD, NEW]);
    let source = GraftSource { session: session("os-2"), subject: other, branch: None };
    let change = change::merge(&one, &session("os-1"), source, &[1, 2]).unwrap();
    let (out, _) = made(&one, &change, None);
    let out = String::from_utf8(out).unwrap();
    let named = |id: &str| out.matches(&format!("\"sessionId\":\"{id}\"")).count();
    assert_eq!((named(OLD), named("os-1"), named(NEW)), (out.lines().count(), 0, 0), "{out}");
    // A file that is called as its records say, or as clients call one, is a session of that name.
    let odd = text.replace(OLD, "aaaa1111");
    for (name, id) in [("aaaa1111.jsonl", "aaaa1111"), ("x.jsonl", "aaaa1111")] {
        assert_eq!(at(odd.as_bytes(), name).session_id(), id);
    }
    assert_eq!(at(odd.as_bytes(), &format!("{NEW}.jsonl")).session_id(), NEW);
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
    let mut wrong = Wrong::default();
    let mut made_changes = 0;
    for seed in 0..CASES {
        let text = chance(seed);
        wrong.tried.push(format!("seed {seed} "));
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
                    wrong
                        .all
                        .push(format!("{what}: {}", difference(was.as_deref(), is.as_deref())));
                }
            }
        }
    }
    assert!(made_changes > 300, "{made_changes}");
    wrong.done(ODD_RANDOM);
}
