//! `quipu inventory`: counts what sessions contain.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;
use transcript::conversation::inventory::{Counts, Inventory};
use transcript::format::file::Lines;
use transcript::format::threads;

use crate::failure::Failure;
use crate::out::BOLD;
use crate::out::JSON_VERSION;
use crate::select::{self, Which};
use crate::table::{Column, Table};
use crate::text::{count, size};
use crate::threads::Threads;
use crate::world::World;

/// Up to this many sessions, each has its own row; JSON always has all.
const ROWS: usize = 20;

/// Count what sessions contain
///
/// Records by type and subtype, stop reasons, content blocks, tool calls, human turns, client
/// versions and models. Records are counted as they are in the file: an answer written as three
/// lines is three records.
#[derive(clap::Args, Debug)]
pub(crate) struct InventoryArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    threads: Threads,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    v: u32,
    sessions: Vec<InventoryRow<'a>>,
    total: &'a Inventory,
    unreadable: Vec<Cow<'a, str>>,
}

#[derive(Serialize)]
struct InventoryRow<'a> {
    id: String,
    path: Cow<'a, str>,
    #[serde(flatten)]
    tally: &'a Inventory,
}

pub(crate) fn inventory(world: &mut World, args: &InventoryArgs) -> Result<(), Failure> {
    let files = select::files(world, &args.which)?;
    let each_shown = args.json || files.len() <= ROWS;
    let mut counted = Vec::new();
    let mut total = Inventory::default();
    let mut unreadable = Vec::new();
    let read = |at: usize| take(&files[at]);
    threads::in_order(files.len(), args.threads.count(), read, |at, one| {
        let path = &files[at];
        match one {
            Ok(one) => {
                total.merge(&one);
                counted.extend(each_shown.then_some((path, one)));
            }
            // A single file must be readable; among several, one that is not is skipped and
            // reported.
            Err(error) if files.len() == 1 => return Err(Failure::unreadable(path, error)),
            Err(error) => {
                world.out.note(&format!("cannot read `{}`: {error}", path.display()))?;
                unreadable.push(path.clone());
            }
        }
        Ok(())
    })?;
    if args.json {
        let sessions = counted.iter().map(|(path, one)| {
            let path = path.as_path();
            InventoryRow { id: id(path), path: path.to_string_lossy(), tally: one }
        });
        world.out.json(&Report {
            v: JSON_VERSION,
            sessions: sessions.collect(),
            total: &total,
            unreadable: unreadable.iter().map(|path| path.to_string_lossy()).collect(),
        })?;
    } else {
        world.page()?;
        if counted.len() > 1 {
            write_sessions(world, &counted)?;
        }
        write_total(world, &total, files.len() - unreadable.len())?;
    }
    args.which.outcome(unreadable.len())
}

thread_local! {
    /// A reader, whose buffers are used again for the next file.
    static READER: RefCell<Option<Lines<File>>> = const { RefCell::new(None) };
}

/// Counts one file.
fn take(path: &Path) -> std::io::Result<Inventory> {
    let file = files::open(path)?;
    let mut lines = match READER.take() {
        Some(lines) => lines.reopen(file),
        None => Lines::new(file),
    };
    let mut one = Inventory::default();
    while let Some(line) = lines.next_line()? {
        one.add(&line);
    }
    READER.set(Some(lines));
    Ok(one)
}

fn id(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

type Counted<'a> = (&'a PathBuf, Inventory);

/// A row for each session.
fn write_sessions(world: &mut World, counted: &[Counted<'_>]) -> Result<(), Failure> {
    fn of(one: &Inventory, names: &[&str]) -> u64 {
        names.iter().filter_map(|name| one.types.get(*name)).sum()
    }
    type Count = fn(&Inventory) -> u64;
    let columns: [(&str, Count); 10] = [
        ("lines", |one| one.lines),
        ("user", |one| of(one, &["user", "human", "tool_result"])),
        ("assistant", |one| of(one, &["assistant"])),
        ("calls", |one| one.tool_calls),
        ("turns", |one| one.human_turns),
        ("files", |one| of(one, &["file-history-snapshot", "file-history-delta"])),
        ("summary", |one| of(one, &["summary"])),
        ("system", |one| of(one, &["system"])),
        ("queue", |one| of(one, &["queue-operation"])),
        ("damaged", |one| one.damaged),
    ];
    let columns = columns.map(|(name, get)| (name.to_owned(), Box::new(get) as Get));
    session_table(world, counted, columns.into(), "versions", |one| {
        one.versions.keys().cloned().collect::<Vec<_>>().join(" ")
    })?;
    for (title, counts) in [
        ("Stop reasons", (|one| &one.stop_reasons) as fn(&Inventory) -> &Counts),
        ("Content blocks", |one| &one.blocks),
    ] {
        let names: BTreeSet<String> =
            counted.iter().flat_map(|(_, one)| counts(one).keys().cloned()).collect();
        let columns = names.into_iter().map(|name| {
            let key = name.clone();
            let get = move |one: &Inventory| counts(one).get(&key).copied().unwrap_or_default();
            (name, Box::new(get) as Get)
        });
        let title = world.out.style(BOLD, title);
        writeln!(world.out, "{title}")?;
        session_table(world, counted, columns.collect(), "", |_| String::new())?;
    }
    Ok(())
}

type Get = Box<dyn Fn(&Inventory) -> u64>;

/// A row for each session, a column for each count that any of them has, and a last column of text.
fn session_table(
    world: &mut World,
    counted: &[Counted<'_>],
    mut counts: Vec<(String, Get)>,
    last: &'static str,
    text: impl Fn(&Inventory) -> String,
) -> Result<(), Failure> {
    counts.retain(|(_, get)| counted.iter().any(|(_, one)| get(one) > 0));
    let mut columns = vec![Column::left("session")];
    columns.extend(counts.iter().map(|(name, _)| Column::right(name)));
    columns.push(Column::left(last));
    let mut table = Table::new(&columns);
    for (path, one) in counted {
        let mut cells = vec![id(path).chars().take(14).collect()];
        cells.extend(counts.iter().map(|(_, get)| get(one).to_string()));
        cells.push(text(one));
        table.row(&cells);
    }
    table.write(&mut world.out)?;
    Ok(writeln!(world.out)?)
}

fn write_total(world: &mut World, total: &Inventory, files: usize) -> Result<(), Failure> {
    let out = &mut world.out;
    let mut parts = vec![
        count(files as u64, "file"),
        size(total.bytes),
        count(total.lines, "line"),
        count(total.records, "record"),
        count(total.human_turns, "human turn"),
        count(total.tool_calls, "tool call"),
    ];
    parts.extend((total.recovered > 0).then(|| format!("{} recovered", total.recovered)));
    parts.extend((total.damaged > 0).then(|| format!("{} damaged", total.damaged)));
    parts.extend((total.bare > 0).then(|| format!("{} not objects", total.bare)));
    writeln!(out, "{}", parts.join(", "))?;
    for (title, name, counts) in [
        ("Records by type", "type", &total.types),
        ("By subtype", "subtype", &total.subtypes),
        ("Stop reasons of assistant records", "stop reason", &total.stop_reasons),
        ("Content blocks", "block", &total.blocks),
        ("Tool calls", "tool", &total.tools),
        ("Models of assistant records", "model", &total.models),
        ("Records by client version", "version", &total.versions),
    ] {
        if counts.is_empty() {
            continue;
        }
        let title = out.style(BOLD, title);
        writeln!(out, "\n{title}")?;
        let mut table = Table::new(&[Column::left(name), Column::right("count")]);
        let mut rows: Vec<_> = counts.iter().collect();
        rows.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        for (name, number) in rows {
            table.row(&[name.clone(), number.to_string()]);
        }
        table.write(out)?;
    }
    Ok(())
}
