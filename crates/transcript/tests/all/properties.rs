//! Random sessions: trees, damage, several files. Properties that hold for all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use proptest::prelude::*;
use testkit::Rng;
use testkit::session::Script;
use transcript::conversation::Conversation;
use transcript::conversation::graph::Graph;
use transcript::conversation::lineage::{Relation, relatives};
use transcript::conversation::place::Session;
use transcript::conversation::table::Table;
use transcript::conversation::turn::Pairs;
use transcript::format::file::Lines;

/// What a client may have written: prompts, answers with both forms of parallel calls, hooks,
/// rewinds, resumes from anywhere.
pub(super) fn conversation(rng: &mut Rng, steps: usize) -> Vec<String> {
    let mut script = Script::new();
    let mut nodes: Vec<String> = Vec::new();
    let mut last = "-".to_owned();
    for step in 0..steps {
        let name = |part: &str| format!("{part}{step}");
        match rng.below(12) {
            0..4 => {
                // Sometimes from somewhere earlier.
                if rng.below(4) == 0 && !nodes.is_empty() {
                    last.clone_from(rng.pick(&nodes));
                }
                script = script.prompt(&name("p"), &last, "go");
                last = name("p");
                nodes.push(last.clone());
            }
            4..8 => {
                let (answer, count) = (name("m"), 1 + rng.below(3));
                let mut calls = Vec::new();
                for number in 0..count {
                    let (uuid, call) = (format!("a{step}x{number}"), format!("t{step}x{number}"));
                    script = script.call(&uuid, &last, &answer, &call, "Read");
                    last.clone_from(&uuid);
                    nodes.push(uuid.clone());
                    calls.push((uuid, call));
                }
                let siblings = rng.below(2) == 0;
                for (number, (uuid, call)) in calls.into_iter().enumerate() {
                    if rng.below(8) == 0 {
                        continue;
                    }
                    let result = format!("r{step}x{number}");
                    script =
                        script.result(&result, if siblings { &uuid } else { &last }, &call, "ok");
                    last.clone_from(&result);
                    nodes.push(result);
                }
            }
            8..10 => {
                script = script.says(&name("s"), &last, &name("n"), "text");
                last = name("s");
                nodes.push(last.clone());
            }
            10 => {
                let kind = *rng.pick(&["progress", "attachment", "system"]);
                script = script.record(kind, &name("h"), &last, "");
                // A hook may be on the path, or beside it.
                if rng.below(2) == 0 {
                    last = name("h");
                }
                nodes.push(name("h"));
            }
            _ => {
                let side = r#""isSidechain":true,"message":{"role":"user","content":"x"}"#;
                script = script.record("user", &name("side"), "-", side);
            }
        }
    }
    script.text().lines().map(str::to_owned).collect()
}

/// Lines out of order, repeated, without ids, with parents that are missing or form a cycle; cut
/// off and glued.
pub(super) fn damage(rng: &mut Rng, lines: &mut Vec<String>) {
    for _ in 0..=lines.len() / 4 {
        let at = rng.below(lines.len());
        let other = rng.below(lines.len());
        match rng.below(8) {
            0 => lines.swap(at, other),
            1 => {
                let copy = lines[at].clone();
                lines.insert(other, copy);
            }
            2 => lines[at] = lines[at].replacen("\"uuid\":", "\"noId\":", 1),
            3 => lines[at] = lines[at].replacen("\"parentUuid\":\"", "\"parentUuid\":\"gone", 1),
            4 => {
                let uuid = lines[other]
                    .split("\"uuid\":\"")
                    .nth(1)
                    .and_then(|rest| rest.split('"').next());
                let uuid = format!("\"parentUuid\":\"{}\"", uuid.unwrap_or("none"));
                let old = lines[at].split(",\"isSidechain\"").next().unwrap().to_owned();
                lines[at] = lines[at].replacen(&old[1..], &uuid, 1);
            }
            5 => {
                let half = lines[at].len() / 2;
                lines[at].truncate(half);
            }
            6 => {
                let glued = lines[other].clone();
                lines[at].push_str(&glued);
            }
            _ => lines.insert(at, r#"{"type":"ai-title","aiTitle":"T"}"#.to_owned()),
        }
    }
}

/// The chains as sets of ids, and which result answers which call.
type Shape = (BTreeSet<BTreeSet<String>>, BTreeMap<String, String>);

fn shape(lines: &[String]) -> Shape {
    let text = lines.join("\n");
    let table = Table::read(Lines::new(text.as_bytes())).unwrap();
    let graph = Graph::new(&table);
    let name = |row| table.text(table.row(row).uuid).unwrap().to_owned();
    let chains =
        graph.numbered().map(|(id, _)| graph.rows(id).iter().map(|row| name(*row)).collect());
    let pairs = Pairs::new(&table);
    let numbers = (0..).map(transcript::conversation::table::BlockId).take(table.blocks().len());
    let calls = numbers.filter(|block| table.block(*block).kind.is_call());
    let answered = calls.filter_map(|call| {
        let result = pairs.of(call)?;
        Some((name(table.block(call).row), name(table.block(result).row)))
    });
    (chains.collect(), answered.collect())
}

fn saved(lines: &[String]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    std::fs::File::create(&path).unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    (folder, path)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_record_is_in_one_chain_and_every_block_is_shown_once(seed: u64, steps in 1..60_usize) {
        let mut rng = Rng::new(seed);
        let mut lines = conversation(&mut rng, steps);
        super::conversation::check(&saved(&lines).1);
        damage(&mut rng, &mut lines);
        super::conversation::check(&saved(&lines).1);
    }

    #[test]
    fn the_order_of_lines_does_not_matter_where_ids_link_them(seed: u64, steps in 1..60_usize) {
        let mut rng = Rng::new(seed);
        let mut lines = conversation(&mut rng, steps);
        let before = shape(&lines);
        for at in (1..lines.len()).rev() {
            lines.swap(at, rng.below(at + 1));
        }
        prop_assert_eq!(before, shape(&lines));
    }

    #[test]
    fn relatives_agree_about_each_other(seed: u64, steps in 2..40_usize) {
        let mut rng = Rng::new(seed);
        let lines = conversation(&mut rng, steps);
        let cut = 1 + rng.below(lines.len());
        let mut fork = lines[..cut].to_vec();
        // As forks do it: the ids are kept; the session's id is kept or replaced.
        if rng.below(2) == 0 {
            for line in &mut fork {
                *line = line.replace(r#""sessionId":"s""#, r#""sessionId":"t""#);
            }
        }
        fork.push(r#"{"type":"user","uuid":"new","parentUuid":null,"sessionId":"t","message":{"role":"user","content":"on"}}"#.to_owned());
        let (folder, path) = saved(&lines);
        let other = folder.path().join("t.jsonl");
        std::fs::File::create(&other).unwrap().write_all(fork.join("\n").as_bytes()).unwrap();
        let relation = |first_path: &std::path::Path, other: &std::path::Path| {
            let (one, two) = (Session::at(first_path).unwrap(), Session::at(other).unwrap());
            let found = relatives(&one, &Conversation::open(first_path).unwrap(), &[one.clone(), two]);
            (found[0].relation, found[0].shared)
        };
        let (there, shared) = relation(&path, &other);
        let (back, same) = relation(&other, &path);
        prop_assert_eq!(shared, same);
        let opposite = match there {
            Relation::From => Relation::Into,
            Relation::Into => Relation::From,
            Relation::Beside => Relation::Beside,
        };
        prop_assert_eq!(opposite, back);
    }
}
