//! The figures of published counts, for the files at hand: counted plainly from the JSON, and by
//! this crate.
//!
//! The snapshot has both, side by side. If they count the same thing, they must agree; if this
//! crate is more exact, the name says why.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use serde_json::Value;
use transcript::conversation::Conversation;
use transcript::conversation::agents::{Body, WithAgents};
use transcript::conversation::graph::Link;
use transcript::conversation::lineage::relatives;
use transcript::conversation::place::{Session, sessions_in};
use transcript::format::content::BlockKind;
use transcript::format::input::Input;

/// Two counts of one thing.
#[derive(Default)]
struct Figures {
    names: Vec<&'static str>,
    counts: HashMap<&'static str, [u64; 2]>,
}

impl Figures {
    fn add(&mut self, name: &'static str, plain: u64, ours: u64) {
        if !self.counts.contains_key(name) {
            self.names.push(name);
        }
        let counts = self.counts.entry(name).or_default();
        *counts = [counts[0] + plain, counts[1] + ours];
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for name in &self.names {
            let [plain, ours] = self.counts[name];
            assert!(plain == ours || name.contains("(ours:"), "{name}: {plain} and {ours}");
            writeln!(text, "{plain:>7} {ours:>7}  {name}").unwrap();
        }
        text
    }
}

fn blocks(value: &Value) -> Vec<Value> {
    match &value["message"]["content"] {
        Value::String(text) => vec![serde_json::json!({"type": "text", "text": text})],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    }
}

fn is(value: &Value, kind: &str) -> bool {
    value["type"] == kind
}

fn has_result(value: &Value) -> bool {
    blocks(value).iter().any(|block| is(block, "tool_result"))
}

/// A prompt, a command or an interrupt, as the published counts define it.
fn speaks(value: &Value) -> bool {
    let text = blocks(value).iter().find_map(|block| Some(block["text"].as_str()?.to_owned()));
    let text = text.unwrap_or_default();
    let made = [
        "<local-command-",
        "<bash-std",
        "<system-reminder>",
        "<post-tool-use-hook>",
        "<user-prompt-submit-hook>",
        "<session-start-hook>",
    ];
    is(value, "user")
        && !has_result(value)
        && value["isMeta"] != true
        && value["isCompactSummary"] != true
        && text != "(no content)"
        && !made.iter().any(|tag| text.starts_with(tag))
}

fn count(values: impl Iterator<Item = bool>) -> u64 {
    values.filter(|value| *value).count() as u64
}

fn file(figures: &mut Figures, lines: &[Value], conversation: &Conversation) {
    of_links(figures, lines, conversation);
    of_walks(figures, lines, conversation);
    of_answers(figures, lines, conversation);
    of_calls(figures, lines, conversation);
    of_sessions(figures, lines, conversation);
}

/// 27, 38 to 40, 46, 53, 55, 56: what else records contain.
fn of_sessions(figures: &mut Figures, lines: &[Value], conversation: &Conversation) {
    let table = &conversation.table;
    let mut held: HashSet<String> = HashSet::new();
    let mut twice = 0;
    for line in lines.iter().filter(|line| is(line, "assistant")) {
        let id = line["message"]["id"].as_str().unwrap_or("");
        let keys: Vec<String> = blocks(line).iter().map(|block| format!("{id} {block}")).collect();
        twice += keys.iter().filter(|key| held.contains(*key)).count() as u64;
        held.extend(keys);
    }
    let repeats = table.blocks().iter().filter(|part| {
        part.is_repeat && table.row(part.row).kind == transcript::format::entry::Kind::Assistant
    });
    figures.add(
        "27 blocks that an earlier record of the answer has",
        twice,
        repeats.count() as u64,
    );
    let queued = lines.iter().filter(|line| {
        line["attachment"]["type"] == "queued_command"
            && line["attachment"]["commandMode"] != "task-notification"
    });
    let own_queued = table.rows().iter().filter(|row| row.input == Some(Input::Queued));
    figures.add("39 prompts in attachments", queued.count() as u64, own_queued.count() as u64);
    let noted = lines.iter().filter(|line| line["origin"]["kind"] == "task-notification");
    figures.add(
        "40 notifications by origin (ours: all notifications)",
        noted.count() as u64,
        count(table.rows().iter().map(|row| row.input == Some(Input::Notification))),
    );
    // 46: the record that a result names as its source is the one that contains its call.
    let uuids: HashMap<&str, &Value> =
        lines.iter().filter_map(|line| Some((line["uuid"].as_str()?, line))).collect();
    let mut right = 0;
    for line in lines.iter().filter(|line| line["sourceToolAssistantUUID"].is_string()) {
        let source = uuids.get(line["sourceToolAssistantUUID"].as_str().unwrap());
        let ids: Vec<Value> =
            blocks(line).iter().map(|block| block["tool_use_id"].clone()).collect();
        right +=
            u64::from(source.is_some_and(|source| {
                blocks(source).iter().any(|block| ids.contains(&block["id"]))
            }));
    }
    let paired_there = table.numbered().filter(|(row, _)| {
        let source = conversation
            .look(*row, |entry| {
                entry.text("sourceToolAssistantUUID").map(std::borrow::Cow::into_owned)
            })
            .unwrap();
        source.is_some_and(|source| {
            table.blocks_of(*row).filter_map(|block| conversation.pairs.of(block)).any(|call| {
                table.text(table.row(table.block(call).row).uuid) == Some(source.as_str())
            })
        })
    });
    figures.add(
        "46 results paired with a call on the record that they name (of those with one)",
        right,
        paired_there.count() as u64,
    );
    let sessions: HashSet<&str> =
        lines.iter().filter_map(|line| line["sessionId"].as_str()).collect();
    let named = transcript::conversation::lineage::named_sessions(table).len() as u64;
    figures.add("53 sessions that records name", sessions.len() as u64, named);
    let summaries = lines.iter().filter(|line| line["isCompactSummary"] == true);
    figures.add(
        "55 compaction summaries",
        summaries.count() as u64,
        count(table.rows().iter().map(|row| row.input == Some(Input::Summary))),
    );
    let forked = lines.iter().filter(|line| line["forkedFrom"].is_object()).count() as u64;
    figures.add("56 records that were forked", forked, table.forked_from.len() as u64);
}

/// 47 to 52: sub-agents and copies, over a whole folder.
fn of_families(figures: &mut Figures, folder: &std::path::Path) {
    let mut ids: HashMap<String, HashSet<std::path::PathBuf>> = HashMap::new();
    let files = testkit::files_under(&[folder.to_owned()]);
    for file in &files {
        for line in file.bytes.split(|byte| *byte == b'\n') {
            let Ok(value) = serde_json::from_slice::<Value>(line) else { continue };
            if let Some(uuid) = value["uuid"].as_str() {
                ids.entry(uuid.to_owned()).or_default().insert(file.path.clone());
            }
        }
    }
    let mut pairs: HashSet<(std::path::PathBuf, std::path::PathBuf)> = HashSet::new();
    let is_session = |path: &std::path::PathBuf| {
        !path.file_name().unwrap().to_string_lossy().starts_with("agent-")
    };
    for paths in ids.values() {
        for one in paths.iter().filter(|path| is_session(path)) {
            let beside = |other: &&std::path::PathBuf| {
                other.parent() == one.parent() && *other > one && is_session(other)
            };
            pairs.extend(paths.iter().filter(beside).map(|other| (one.clone(), other.clone())));
        }
    }
    let mut kin = 0;
    let (mut agents, mut joined, mut sides) = (0, 0, 0);
    for file in files.iter().filter(|file| is_session(&file.path)) {
        let session = Session::at(&file.path).unwrap();
        let family = WithAgents::open(&session).unwrap();
        let others = sessions_in(file.path.parent().unwrap());
        let related = relatives(&session, &family.main, &others);
        kin +=
            related.iter().filter(|one| one.shared > 0 && one.session.path > session.path).count()
                as u64;
        for agent in &family.agents {
            agents += u64::from(matches!(agent.body, Body::File(_)));
            sides += u64::from(matches!(agent.body, Body::Sidechain(_)));
            joined += u64::from(agent.start.is_some());
        }
    }
    let agent_files = files.iter().filter(|file| !is_session(&file.path)).count() as u64;
    figures.add(
        "48 files of sub-agents (ours: those that belong to a session here)",
        agent_files,
        agents,
    );
    let side_roots = files.iter().filter(|file| is_session(&file.path)).map(|file| {
        let lines = file.bytes.split(|byte| *byte == b'\n');
        let values = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        values.filter(|value| value["isSidechain"] == true && value["parentUuid"].is_null()).count()
            as u64
    });
    figures.add("47 sidechain roots in sessions' files", side_roots.sum(), sides);
    figures.add("50 sub-agents (ours: joined to a call)", agents + sides, joined);
    figures.add("52 pairs of sessions that share records", pairs.len() as u64, kin);
}

/// The records with ids, and the index of the first one with each id.
fn nodes(lines: &[Value]) -> (Vec<&Value>, HashMap<&str, usize>) {
    let nodes: Vec<&Value> = lines.iter().filter(|line| line["uuid"].is_string()).collect();
    let numbered = nodes.iter().enumerate().rev();
    let place = numbered.map(|(at, node)| (node["uuid"].as_str().unwrap(), at)).collect();
    (nodes, place)
}

/// 15, 18 to 23: parents and children.
fn of_links(figures: &mut Figures, lines: &[Value], conversation: &Conversation) {
    let table = &conversation.table;
    let (nodes, place) = nodes(lines);
    let up = |node: &Value| node["parentUuid"].as_str().and_then(|id| place.get(id)).copied();
    let hangs = || table.numbered().map(|(row, _)| conversation.graph.link(row));

    let kinds = |of: &'static str| nodes.iter().filter(move |node| is(node, of));
    for (name, child, parent) in [
        ("15 answers under progress", "assistant", "progress"),
        ("15 answers under attachments", "assistant", "attachment"),
    ] {
        let plain =
            count(kinds(child).map(|node| up(node).is_some_and(|up| is(nodes[up], parent))));
        let ours = count(table.numbered().map(|(row, known)| {
            let kind = |row: transcript::conversation::table::RowId| {
                format!("{:?}", table.row(row).kind).to_lowercase()
            };
            known.answer.is_some()
                && !known.is_repeat
                && conversation.graph.link(row).parent().is_some_and(|up| kind(up) == parent)
                && matches!(conversation.graph.link(row), Link::Parent(_))
        }));
        figures.add(name, plain, ours);
    }

    // 18: several children.
    let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        if place[node["uuid"].as_str().unwrap()] == at
            && let Some(up) = up(node)
        {
            children.entry(up).or_default().push(at);
        }
    }
    let several = children.values().filter(|list| list.len() > 1);
    let branches =
        several.clone().filter(|list| list.iter().filter(|at| speaks(nodes[**at])).count() > 1);
    figures.add(
        "18 parents with several children (ours: branch points)",
        several.count() as u64,
        conversation.graph.branches().len() as u64,
    );
    figures.add(
        "18 of them with several prompts, commands or interrupts (ours: branch points)",
        branches.count() as u64,
        conversation.graph.branches().len() as u64,
    );

    let roots = nodes.iter().enumerate().filter(|(at, node)| {
        node["parentUuid"].is_null() && place[node["uuid"].as_str().unwrap()] == *at
    });
    let own_roots = table.numbered().filter(|(row, known)| {
        let link = conversation.graph.link(*row);
        known.uuid.is_some() && (link == Link::Root || link.is_compaction())
    });
    figures.add("19 roots", roots.count() as u64, own_roots.count() as u64);
    let missing = nodes.iter().enumerate().filter(|(at, node)| {
        node["parentUuid"].is_string()
            && up(node).is_none()
            && place[node["uuid"].as_str().unwrap()] == *at
    });
    figures.add(
        "20 parents that are not in the file",
        missing.count() as u64,
        count(hangs().map(|link| matches!(link, Link::Lost | Link::Bridged(_)))),
    );
    let early = nodes.iter().enumerate().filter(|(at, node)| {
        up(node).is_some_and(|up| up > *at) && place[node["uuid"].as_str().unwrap()] == *at
    });
    let own_early = table
        .numbered()
        .filter(|(row, _)| matches!(conversation.graph.link(*row), Link::Parent(up) if up > *row));
    figures.add("21 children before their parents", early.count() as u64, own_early.count() as u64);
    figures.add(
        "22 ids that stand twice",
        (nodes.len() - place.len()) as u64,
        count(hangs().map(|link| matches!(link, Link::Repeat(_)))),
    );
    let cut = lines.iter().filter(|line| line["subtype"] == "compact_boundary").collect::<Vec<_>>();
    figures.add("23 compaction boundaries", cut.len() as u64, table.boundaries.len() as u64);
}

/// 16: what a walk from the last message to the root passes.
fn of_walks(figures: &mut Figures, lines: &[Value], conversation: &Conversation) {
    let table = &conversation.table;
    let (nodes, place) = nodes(lines);
    let up = |node: &Value| node["parentUuid"].as_str().and_then(|id| place.get(id)).copied();
    let mut passed = HashSet::new();
    let mut at = nodes.iter().rposition(|node| {
        matches!(node["type"].as_str(), Some("user" | "assistant")) && node["isSidechain"] != true
    });
    while let Some(here) = at {
        at = if passed.insert(here) { up(nodes[here]) } else { None };
    }
    let answers: HashSet<&str> =
        passed.iter().filter_map(|at| nodes[*at]["message"]["id"].as_str()).collect();
    let calls: HashSet<String> = nodes
        .iter()
        .filter(|node| node["message"]["id"].as_str().is_some_and(|id| answers.contains(id)))
        .flat_map(|node| blocks(node))
        .filter(|block| is(block, "tool_use"))
        .map(|block| block["id"].to_string())
        .collect();
    let lost = nodes.iter().enumerate().filter(|(at, node)| {
        let mine = blocks(node).iter().any(|block| {
            is(block, "tool_result") && calls.contains(&block["tool_use_id"].to_string())
        });
        mine && !passed.contains(at)
    });
    let given: HashSet<String> = nodes
        .iter()
        .flat_map(|node| blocks(node))
        .filter(|block| is(block, "tool_result"))
        .map(|block| block["tool_use_id"].to_string())
        .collect();
    let turns = conversation.turns().live;
    let unpaired = turns.iter().flat_map(|turn| turn.calls(table)).filter(|call| {
        let id = table.text(table.block(*call).id).map(|id| Value::from(id).to_string());
        conversation.pairs.of(*call).is_none() && id.is_some_and(|id| given.contains(&id))
    });
    figures.add(
        "16 results of calls on the way that a plain walk loses (ours: that our turns lose)",
        lost.count() as u64,
        unpaired.count() as u64,
    );
}

/// 24 to 34: answers and their usage.
fn of_answers(figures: &mut Figures, lines: &[Value], conversation: &Conversation) {
    let table = &conversation.table;
    let answer_lines: Vec<&Value> = lines.iter().filter(|line| is(line, "assistant")).collect();
    let crowded = answer_lines.iter().filter(|line| blocks(line).len() > 1).count() as u64;
    let own_crowded = table
        .numbered()
        .filter(|(row, known)| known.answer.is_some() && table.blocks_of(*row).count() > 1);
    figures.add("24 answer records with several blocks", crowded, own_crowded.count() as u64);
    let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is(line, "assistant")) {
        by_id.entry(line["message"]["id"].as_str().unwrap_or("")).or_default().push(at);
    }
    figures.add("25 answers", by_id.len() as u64, table.answers().len() as u64);
    let scattered =
        by_id.values().filter(|at| at.last().unwrap() - at[0] + 1 > at.len()).count() as u64;
    let mut spans: HashMap<_, Vec<usize>> = HashMap::new();
    for (row, known) in table.numbered() {
        if let Some(answer) = known.answer {
            spans.entry(answer).or_default().push(row.index());
        }
    }
    let own_scattered =
        spans.values().filter(|at| at.last().unwrap() - at[0] + 1 > at.len()).count() as u64;
    figures.add("25 answers with other records between", scattered, own_scattered);
    let stopped = by_id
        .values()
        .filter(|at| at.iter().any(|at| lines[*at]["message"]["stop_reason"].is_string()));
    figures.add(
        "26 answers with a stop reason",
        stopped.count() as u64,
        count(table.answers().iter().map(transcript::conversation::table::Answer::is_final)),
    );
    let output = |line: &Value| line["message"]["usage"]["output_tokens"].as_u64().unwrap_or(0);
    let best: u64 =
        by_id.values().map(|at| at.iter().map(|at| output(&lines[*at])).max().unwrap()).sum();
    let ours: u64 =
        table.answers().iter().filter_map(|answer| Some(answer.usage.as_ref()?.usage.output)).sum();
    figures.add(
        "34 output tokens summed over records (ours: over answers)",
        answer_lines.iter().map(|line| output(line)).sum(),
        ours,
    );
    figures.add("34 output tokens, the largest of each answer", best, ours);
}

/// 37 and 43: prompts, calls, results.
fn of_calls(figures: &mut Figures, lines: &[Value], conversation: &Conversation) {
    let table = &conversation.table;
    let users: Vec<&Value> = lines.iter().filter(|line| is(line, "user")).collect();
    let lists = users.iter().filter(|line| {
        line["message"]["content"].is_array()
            && speaks(line)
            && !blocks(line)[0]["text"].as_str().unwrap_or("").starts_with("[Request")
    });
    let own_lists = table.numbered().filter(|(row, known)| {
        let strings = || {
            conversation
                .look(*row, |entry| {
                    entry.message().is_some_and(|m| m.blocks().any(|b| b.is_string()))
                })
                .unwrap()
        };
        known.kind == transcript::format::entry::Kind::User
            && known.input.is_some_and(Input::opens)
            && !strings()
    });
    figures.add("37 prompts that are lists", lists.count() as u64, own_lists.count() as u64);

    let ids = |wanted: &str, key: &str| -> Vec<String> {
        let found = lines.iter().flat_map(blocks).filter(|block| is(block, wanted));
        found.map(|block| block[key].to_string()).collect()
    };
    let (calls, results) = (ids("tool_use", "id"), ids("tool_result", "tool_use_id"));
    let call_set: HashSet<&String> = calls.iter().collect();
    let result_set: HashSet<&String> = results.iter().collect();
    let parts = |wanted: BlockKind| table.blocks().iter().filter(move |part| part.kind == wanted);
    figures.add("43 calls", calls.len() as u64, parts(BlockKind::ToolUse).count() as u64);
    figures.add("43 results", results.len() as u64, parts(BlockKind::ToolResult).count() as u64);
    figures.add(
        "43 calls without a result, by id",
        call_set.difference(&result_set).count() as u64,
        conversation.pairs.open(table).len() as u64,
    );
    figures.add(
        "43 results without a call, by id",
        result_set.difference(&call_set).count() as u64,
        conversation.pairs.orphans(table).len() as u64,
    );
    figures.add(
        "43 ids of calls that stand twice (ours: repeats)",
        (calls.len() - call_set.len()) as u64,
        count(parts(BlockKind::ToolUse).map(|part| part.is_repeat)),
    );
    let all: usize = lines
        .iter()
        .filter(|line| matches!(line["type"].as_str(), Some("user" | "assistant")))
        .map(|line| blocks(line).len())
        .sum();
    figures.add("all blocks", all as u64, table.blocks().len() as u64);
}

/// The files of a folder whose lines are all whole, so that a plain reader reads the same as this
/// crate.
fn figures(folder: &std::path::Path) -> String {
    let mut figures = Figures::default();
    let (mut whole, mut broken) = (0, 0);
    for real in testkit::files_under(&[folder.to_owned()]) {
        let lines: Result<Vec<Value>, _> = real
            .bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(serde_json::from_slice)
            .collect();
        match lines {
            Ok(lines) if !lines.is_empty() && lines.iter().all(Value::is_object) => {
                whole += 1;
                file(&mut figures, &lines, &Conversation::open(&real.path).unwrap());
            }
            _ => broken += 1,
        }
    }
    of_families(&mut figures, folder);
    format!(
        "{whole} files; left out, because of broken lines or no line: {broken}\n  plain    ours\n{}",
        figures.text()
    )
}

#[test]
fn of_the_recordings() {
    insta::assert_snapshot!("recordings", figures(&testkit::fixtures().join("recordings")));
}

#[test]
fn of_the_corpus() {
    if let Some(folder) = testkit::shared("corpus") {
        insta::assert_snapshot!("corpus", figures(&folder));
    }
}
