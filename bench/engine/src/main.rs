//! Which JSON engine: the same question asked of each, on the same lines.
//!
//!     cargo run --release -- FILE...
//!
//! The question is the inventory's: of every line, is it a whole JSON object, and what are its type, version,
//! stop reason, model, and the types of its content blocks? Every engine gets the lines from memory, so that
//! only parsing is measured, and all must give the same answer. Built as the program is built: for any
//! processor of the platform, no `target-cpu`.

use std::borrow::Cow;
use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::IgnoredAny;

/// What was counted: lines that parse, and lengths of the names found, so that nothing can be left out.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
struct Answer {
    objects: usize,
    names: usize,
    blocks: usize,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    stop_reason: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    content: Option<Content<'a>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content<'a> {
    Blocks(#[serde(borrow)] Vec<Block<'a>>),
    Other(#[allow(dead_code)] IgnoredAny),
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Cow<'a, str>>,
}

impl Answer {
    fn name(&mut self, name: Option<&str>) {
        self.names += name.map_or(0, str::len);
    }

    fn typed(&mut self, line: &Line<'_>) {
        self.objects += 1;
        self.name(line.kind.as_deref());
        self.name(line.version.as_deref());
        let Some(message) = &line.message else { return };
        self.name(message.stop_reason.as_deref());
        self.name(message.model.as_deref());
        if let Some(Content::Blocks(blocks)) = &message.content {
            for block in blocks {
                self.blocks += 1;
                self.name(block.kind.as_deref());
            }
        }
    }
}

fn serde_json_typed(lines: &[&[u8]]) -> Answer {
    let mut answer = Answer::default();
    for line in lines {
        if let Ok(line) = serde_json::from_slice::<Line>(line) {
            answer.typed(&line);
        }
    }
    answer
}

fn serde_json_value(lines: &[&[u8]]) -> Answer {
    let mut answer = Answer::default();
    for line in lines {
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(line) else { continue };
        if !value.is_object() {
            continue;
        }
        answer.objects += 1;
        let message = &value["message"];
        for name in [&value["type"], &value["version"], &message["stop_reason"], &message["model"]] {
            answer.name(name.as_str());
        }
        for block in message["content"].as_array().into_iter().flatten() {
            answer.blocks += 1;
            answer.name(block["type"].as_str());
        }
    }
    answer
}

fn sonic_typed(lines: &[&[u8]]) -> Answer {
    let mut answer = Answer::default();
    for line in lines {
        if let Ok(line) = sonic_rs::from_slice::<Line>(line) {
            answer.typed(&line);
        }
    }
    answer
}

/// Walks with raw spans, as we need them.
fn sonic_lazy(lines: &[&[u8]]) -> Answer {
    use sonic_rs::{JsonValueTrait, LazyValue};
    fn name(answer: &mut Answer, value: &LazyValue<'_>) {
        answer.name(value.as_str());
    }
    let mut answer = Answer::default();
    'lines: for line in lines {
        let before = answer;
        for member in sonic_rs::to_object_iter(*line) {
            let Ok((key, value)) = member else {
                answer = before;
                continue 'lines;
            };
            match &*key {
                "type" | "version" => name(&mut answer, &value),
                "message" => {
                    for (key, value) in sonic_rs::to_object_iter(value.as_raw_str()).flatten() {
                        match &*key {
                            "stop_reason" | "model" => name(&mut answer, &value),
                            "content" if value.is_array() => {
                                for block in sonic_rs::to_array_iter(value.as_raw_str()).flatten() {
                                    answer.blocks += 1;
                                    if let Some(kind) = block.get("type") {
                                        name(&mut answer, &kind);
                                    }
                                }
                            }
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        answer.objects += 1;
    }
    answer
}

fn simd_typed(lines: &[&[u8]]) -> Answer {
    let mut answer = Answer::default();
    let mut copy = Vec::new();
    for line in lines {
        // It decodes in place, so the raw bytes must be kept elsewhere.
        copy.clear();
        copy.extend_from_slice(line);
        if let Ok(line) = simd_json::serde::from_slice::<Line>(&mut copy) {
            answer.typed(&line);
        }
    }
    answer
}

fn ours(lines: &[&[u8]]) -> Answer {
    let mut answer = Answer::default();
    for line in lines {
        for piece in transcript::format::line::read(line) {
            let transcript::format::line::Meaning::Whole(entry) = piece.meaning else { continue };
            answer.objects += 1;
            answer.name(entry.text("type").as_deref());
            answer.name(entry.version().as_deref());
            // Seed 002 has content in the record itself; the others do not look there.
            let Some(message) = entry.message().filter(|_| entry.get("message").is_some()) else {
                continue;
            };
            answer.name(message.text("stop_reason").as_deref());
            answer.name(message.text("model").as_deref());
            for block in message.blocks().filter(|block| !block.is_string()) {
                answer.blocks += 1;
                answer.name(block.type_name().as_deref());
            }
        }
    }
    answer
}

fn best_of(times: usize, mut run: impl FnMut() -> Answer) -> (Duration, Answer) {
    let mut best = (Duration::MAX, Answer::default());
    for _ in 0..times {
        let start = Instant::now();
        let answer = black_box(run());
        best = best.min_by_time((start.elapsed(), answer));
    }
    best
}

trait MinByTime {
    fn min_by_time(self, other: Self) -> Self;
}

impl MinByTime for (Duration, Answer) {
    fn min_by_time(self, other: Self) -> Self {
        if other.0 < self.0 { other } else { self }
    }
}

fn main() {
    let files: Vec<Vec<u8>> =
        std::env::args().skip(1).map(|path| std::fs::read(path).expect("a file")).collect();
    let lines: Vec<&[u8]> = files
        .iter()
        .flat_map(|file| file.split(|byte| *byte == b'\n'))
        .filter(|line| !line.is_empty())
        .collect();
    let bytes: usize = lines.iter().map(|line| line.len()).sum();
    println!("{} lines, {} MB", lines.len(), bytes / 1_000_000);

    let (floor, _) = best_of(3, || Answer {
        objects: files.iter().map(|file| memchr::memchr_iter(b'\n', file).count()).sum(),
        ..Answer::default()
    });
    println!("{:28} {:>8} {:>10} {:>8}", "", "ms", "MB/s", "x floor");
    let show = |name: &str, time: Duration| {
        let seconds = time.as_secs_f64();
        let (speed, ratio) = (bytes as f64 / 1e6 / seconds, seconds / floor.as_secs_f64());
        println!("{name:28} {:>8.0} {speed:>10.0} {ratio:>8.1}", seconds * 1e3);
    };
    show("memchr line count (floor)", floor);
    let (time, reference) = best_of(3, || ours(&lines));
    show("transcript (ours)", time);
    type Engine = fn(&[&[u8]]) -> Answer;
    let others: [(&str, Engine); 5] = [
        ("sonic-rs, typed", sonic_typed),
        ("sonic-rs, lazy spans", sonic_lazy),
        ("simd-json, typed", simd_typed),
        ("serde_json, typed", serde_json_typed),
        ("serde_json::Value", serde_json_value),
    ];
    for (name, engine) in others {
        let (time, answer) = best_of(3, || engine(&lines));
        show(name, time);
        if answer != reference {
            println!("{:28} differs: {answer:?} against {reference:?}", "");
        }
    }
}
