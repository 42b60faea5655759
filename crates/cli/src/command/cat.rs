//! `quipu cat`: the records of a session, or its bytes.

use std::io::Write;
use std::ops::RangeInclusive;
use std::path::Path;

use transcript::format::entry::Entry;
use transcript::format::file::{Body, Line, Lines, Record};

use crate::failure::Failure;
use crate::out::Form;
use crate::range::range;
use crate::record;
use crate::select;
use crate::world::World;

/// Print the records of a session, one JSON object per line
///
/// Each line is `{v, line, offset, len, state, kind, entry}`. `state` is `whole`, `recovered`
/// (found in a damaged line) or `damaged` (not a record: `entry` is null and `fault` says why).
/// With `--raw`, prints the bytes of the file unchanged, whatever they are, and reports damage on
/// stderr. In a terminal, and only there, characters that it would obey or hide are escaped, such
/// as `\u009b`. Secrets are not redacted: programs build on this output.
#[derive(clap::Args, Debug)]
pub(crate) struct CatArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    /// Only records of this type, or `type/subtype`; also `damaged` and `recovered` (can be
    /// repeated)
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    /// Only these lines, from 1, both ends included: `10..20`, `10..`, `..20`, `10`
    #[arg(long, value_name = "A..B", value_parser = range)]
    lines: Option<RangeInclusive<u64>>,
    /// Print the lines unchanged, byte for byte
    #[arg(long)]
    raw: bool,
}

/// How many damaged places `--raw` reports before it only counts them.
const COMPLAINTS: u64 = 20;

pub(crate) fn cat(world: &mut World, args: &CatArgs) -> Result<(), Failure> {
    let path = select::session(world, &args.session)?.path;
    let file = files::open(&path).map_err(|error| Failure::unreadable(&path, error))?;
    let mut lines = Lines::new(file);
    let (mut any, mut complaints) = (false, 0);
    while let Some(line) = lines.next_line().map_err(|error| Failure::unreadable(&path, error))? {
        let number = line.number.unwrap_or_default();
        if args.lines.as_ref().is_some_and(|lines| number > *lines.end()) {
            break;
        }
        if args.lines.as_ref().is_some_and(|lines| number < *lines.start()) {
            continue;
        }
        if args.raw {
            any |= raw_line(world, args, &line, &path, &mut complaints)?;
            continue;
        }
        for record in line.records().filter(|record| wanted(record, &args.kind)) {
            any = true;
            record::write(&record, &path, &mut world.out)?;
        }
    }
    if complaints > COMPLAINTS {
        world.out.note(&format!("and {} more", complaints - COMPLAINTS))?;
    }
    if !any && !args.kind.is_empty() {
        world.out.note(&format!("no record has the kind {}", args.kind.join(", ")))?;
    }
    Ok(())
}

/// Writes a line unchanged, if it is wanted. Returns whether it was.
fn raw_line(
    world: &mut World,
    args: &CatArgs,
    line: &Line<'_>,
    path: &Path,
    complaints: &mut u64,
) -> Result<bool, Failure> {
    let mut any = args.kind.is_empty();
    for record in line.records() {
        any |= wanted(&record, &args.kind);
        if let Some(complaint) = record::complaint(&record) {
            *complaints += 1;
            if *complaints <= COMPLAINTS {
                world.out.note(&complaint)?;
            }
        }
    }
    if any {
        let mut verbatim = world.out.verbatim(Form::Bytes);
        match line.body {
            Body::Held(bytes) => verbatim.write_all(bytes)?,
            Body::Condensed(_) => record::copy(path, line.offset, line.len, &mut verbatim)?,
        }
        verbatim.finish()?;
        world.out.write_all(if line.ended { b"\n" } else { b"" })?;
    }
    Ok(any)
}

fn wanted(record: &Record<'_>, kinds: &[String]) -> bool {
    if kinds.is_empty() || kinds.iter().any(|kind| kind == record.state.name()) {
        return true;
    }
    let Some(name) = record::kind(record) else { return false };
    let subtype = record.entry.as_ref().and_then(Entry::subtype);
    let full = subtype.map(|subtype| format!("{name}/{subtype}"));
    kinds.iter().any(|kind| *kind == name || Some(kind) == full.as_ref())
}
