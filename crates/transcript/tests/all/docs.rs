//! `docs/format.md` agrees with `schema.txt`, and with the counts of the recordings.
//!
//! `QUIPU_BLESS=1 cargo test -p transcript docs` writes the tables again.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

use transcript::conversation::Conversation;
use transcript::conversation::inventory::Inventory;
use transcript::conversation::turn::reference;
use transcript::format::file::Lines;
use transcript::format::schema::{Place, places};

fn section(title: &str, names: &[&Place], text: &mut String) {
    writeln!(text, "\n### {title}\n").unwrap();
    for place in names {
        write!(text, "**`{}`**", place.name).unwrap();
        if let Some(base) = place.base {
            write!(text, ", and all of `{base}`").unwrap();
        }
        if !place.note.is_empty() {
            write!(text, ". {}", place.note).unwrap();
        }
        text.push('\n');
        if !place.fields.is_empty() {
            text.push_str("\n| member | first | holds | |\n|---|---|---|---|\n");
        }
        for field in &place.fields {
            let holds = match field.into {
                "-" => String::new(),
                "~" => "anything".to_owned(),
                into if into.ends_with('.') => format!("`{into}…`"),
                into => match into.strip_prefix('*') {
                    Some(inner) => format!("by name: `{inner}`"),
                    None => format!("`{into}`"),
                },
            };
            writeln!(text, "| `{}` | {} | {holds} | {} |", field.name, field.first, field.note)
                .unwrap();
        }
        text.push('\n');
    }
}

fn tables() -> String {
    let mut text = String::new();
    let is_record = |place: &Place| {
        transcript::format::entry::Kind::named(place.name) != transcript::format::entry::Kind::Other
    };
    let family = |name: &str| name.split_once('.').map(|parts| parts.0.to_owned());
    let pick =
        |wanted: &dyn Fn(&Place) -> bool| places().iter().filter(|p| wanted(p)).collect::<Vec<_>>();
    section("Records", &pick(&|p| p.name == "envelope" || is_record(p)), &mut text);
    for (title, of) in [
        ("`system` records by subtype", "system"),
        ("Attachments", "attachment"),
        ("Progress", "progress"),
        ("Content blocks", "block"),
    ] {
        section(title, &pick(&|p| family(p.name).as_deref() == Some(of)), &mut text);
    }
    let rest = pick(&|p| p.name != "envelope" && !is_record(p) && family(p.name).is_none());
    section("What stands inside", &rest, &mut text);
    text
}

/// Sessions that are counted in both ways.
const COUNTED: [&str; 5] = ["c_tools", "d_parallel", "e_agent", "g_compact", "i_busy"];

/// Counts by stop reasons and by this crate: `theirs / ours` where they may differ.
fn counts() -> String {
    let mut text = String::from(
        "\n| session | lines | user | assistant | end_turn, tool_use, stop_sequence, null | text, thinking, tool_use, tool_result | turns | \
         answers | calls | calls with a result | blocks lost |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let root = testkit::fixtures().join("recordings");
    let mut versions: Vec<_> =
        fs::read_dir(&root).unwrap().flatten().map(|entry| entry.path()).collect();
    versions.sort_by_key(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.split('.').map(|part| part.parse().unwrap()).collect::<Vec<u32>>()
    });
    for version in versions {
        for scenario in COUNTED {
            let mut files = testkit::files_under(&[version.join(scenario)]);
            files.retain(|file| !file.path.to_string_lossy().contains("agent-"));
            let Some(file) = files.into_iter().max_by_key(|file| file.bytes.len()) else {
                continue;
            };
            let version = version.file_name().unwrap().to_string_lossy();
            let conversation = Conversation::open(&file.path).unwrap();
            let one = reference::read(Lines::new(&file.bytes[..])).unwrap().stop_reason;
            let mut inventory = Inventory::default();
            let mut lines = Lines::new(&file.bytes[..]);
            while let Some(line) = lines.next_line().unwrap() {
                inventory.add(&line);
            }
            let of = |counts: &BTreeMap<String, u64>, names: &[&str]| -> String {
                let numbers =
                    names.iter().map(|name| counts.get(*name).copied().unwrap_or(0).to_string());
                numbers.collect::<Vec<_>>().join(", ")
            };
            let found = conversation.turns();
            let turns =
                found.live.len() + found.dead.iter().map(|(_, turns)| turns.len()).sum::<usize>();
            let calls = conversation
                .table
                .blocks()
                .iter()
                .filter(|part| part.kind.is_call() && !part.is_repeat)
                .count();
            let paired = calls - conversation.pairs.open(&conversation.table).len();
            writeln!(
                text,
                "| {version} {scenario} | {} | {} | {} | {} | {} | {} / {turns} | {} / {} | {} / {calls} | {} / {paired} | {} / {} |",
                inventory.lines,
                of(&inventory.types, &["user"]),
                of(&inventory.types, &["assistant"]),
                of(&inventory.stop_reasons, &["end_turn", "tool_use", "stop_sequence", "null"]),
                of(&inventory.blocks, &["text", "thinking", "tool_use", "tool_result"]),
                one.turns.len(),
                one.messages.len(),
                conversation.table.answers().len(),
                one.calls,
                one.pairs.len(),
                one.lost(),
                super::conversation::lost(&conversation),
            )
            .unwrap();
        }
    }
    text
}

/// One test, because both parts are in one document.
#[test]
fn the_format_document_is_up_to_date() {
    let tests = "-p transcript docs";
    testkit::compare("format.md", "made from schema.txt", &tables(), tests);
    testkit::compare("format.md", "counted by stop reasons and by us", &counts(), tests);
}
