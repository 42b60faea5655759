//! `quipu drift`: what transcripts contain that we do not know yet.

use std::path::Path;

use serde::Serialize;
use transcript::format::drift::{Drift, Novelty};
use transcript::format::file::Lines;

use crate::failure::Failure;
use crate::out::JSON_VERSION;
use crate::select::{self, Which};
use crate::table::{Column, Table};
use crate::text::count;
use crate::world::World;

/// Find types, fields and blocks that quipu does not know
///
/// Lists them by client version, with a count and one place; says on stderr what was looked at. If
/// something is unknown, the exit code is 8. Unknown data is still read and kept; this is an early
/// warning for new releases of the client.
#[derive(clap::Args, Debug)]
pub(crate) struct DriftArgs {
    #[command(flatten)]
    which: Which,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct DriftRow<'a> {
    v: u32,
    version: &'a str,
    what: &'static str,
    name: &'a str,
    count: u64,
    file: &'a str,
    line: u64,
}

pub(crate) fn drift(world: &mut World, args: &DriftArgs) -> Result<(), Failure> {
    let files = select::files(world, &args.which)?;
    let mut drift = Drift::default();
    let mut unreadable = 0;
    for path in &files {
        match look(path, &mut drift) {
            Ok(()) => {}
            Err(error) if files.len() == 1 => return Err(Failure::unreadable(path, error)),
            Err(error) => {
                unreadable += 1;
                world.out.note(&format!("cannot read `{}`: {error}", path.display()))?;
            }
        }
    }
    let versions: Vec<String> = drift.versions().map(|version| version.text().to_owned()).collect();
    let findings = drift.finish();
    let rows = findings.iter().map(|((version, novelty), finding)| {
        let (what, name) = match novelty {
            Novelty::Type(name) => ("type", name),
            Novelty::Field(name) => ("field", name),
        };
        let (count, file, line) = (finding.count, finding.file.as_str(), finding.line);
        DriftRow { v: JSON_VERSION, version: version.text(), what, name, count, file, line }
    });
    if args.json {
        for row in rows {
            world.out.json(&row)?;
        }
        args.which.outcome(unreadable)?;
        return outcome(findings.len());
    }
    let mut table = Table::new(&[
        Column::left("version"),
        Column::left("what"),
        Column::left("name"),
        Column::right("count"),
        Column::left("first seen"),
    ]);
    for row in rows {
        table.row(&[
            row.version.to_owned(),
            row.what.to_owned(),
            row.name.to_owned(),
            row.count.to_string(),
            format!("{}:{}", row.file, row.line),
        ]);
    }
    let versions = match versions.as_slice() {
        [] => String::new(),
        [version] => format!(", {version}"),
        [first, .., last] => format!(", {first} to {last}"),
    };
    let looked = count(files.len() as u64, "file");
    if findings.is_empty() {
        world.out.note(&format!("{looked}{versions}: nothing unknown"))?;
    } else {
        table.write(&mut world.out)?;
        let unknown = count(findings.len() as u64, "unknown type or field|unknown types or fields");
        world.out.note(&format!("{looked}{versions}: {unknown}"))?;
    }
    args.which.outcome(unreadable)?;
    outcome(findings.len())
}

fn outcome(unknown: usize) -> Result<(), Failure> {
    if unknown == 0 { Ok(()) } else { Err(Failure::unknown()) }
}

fn look(path: &Path, drift: &mut Drift) -> std::io::Result<()> {
    drift.begin(&path.to_string_lossy());
    let mut lines = Lines::new(files::open(path)?);
    while let Some(line) = lines.next_line()? {
        for record in line.records() {
            if let Some(entry) = &record.entry {
                drift.add(record.line.unwrap_or_default(), entry);
            }
        }
    }
    Ok(())
}
