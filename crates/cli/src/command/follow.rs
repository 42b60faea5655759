//! `quipu follow`: what is written to a session, as it is written.

use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use transcript::format::content::{Block, BlockKind};
use transcript::format::entry::Entry;
use transcript::format::file::{Event, Follow, Record};
use transcript::format::json::Json;

use crate::failure::Failure;
use crate::out::{DIM, Out, WARN};
use crate::record;
use crate::select;
use crate::text::{fit, local, one_line};
use crate::world::World;

/// How long to wait before polling again: short enough to seem immediate, long enough to cost
/// nothing.
const PAUSE: Duration = Duration::from_millis(100);

/// Print what is written to a session, as it is written
///
/// Prints one line per new record, until you stop it. Waits for a line that is not complete yet. If
/// the file is truncated or replaced, reports that and starts again.
#[derive(clap::Args, Debug)]
pub(crate) struct FollowArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    /// Also print what is already there
    #[arg(long)]
    from_start: bool,
    /// Print the records as `quipu cat` does
    #[arg(long)]
    json: bool,
}

pub(crate) fn follow(world: &mut World, args: &FollowArgs) -> Result<(), Failure> {
    let path = select::session(world, &args.session)?.path;
    let begin = if args.from_start { Follow::from_start } else { Follow::from_end };
    let mut follow = begin(&path)?;
    if !args.json {
        world.out.note(&format!("following `{}`; Ctrl-C ends this", path.display()))?;
    }
    loop {
        let mut written = Ok(());
        let polled = follow.poll(|event| {
            if written.is_ok() {
                written = say(&mut world.out, &path, &event, args.json);
            }
        });
        written?;
        world.out.flush()?;
        if !polled? {
            thread::sleep(PAUSE);
        }
    }
}

fn say(out: &mut Out, path: &Path, event: &Event<'_>, json: bool) -> Result<(), Failure> {
    let line = match event {
        Event::Line(line) => line,
        Event::Truncated => {
            return Ok(out.note("the file was truncated: reading it from its start")?);
        }
        Event::Replaced => return Ok(out.note("the file was replaced: reading it from its start")?),
        Event::Gone => return Ok(out.note("the file is gone: waiting for it to come back")?),
    };
    for record in line.records() {
        if json {
            record::write(&record, path, out)?;
        } else {
            let text = brief(out, &record);
            writeln!(out, "{text}")?;
        }
    }
    Ok(())
}

/// A record on one line: time, kind, and the gist.
fn brief(out: &Out, record: &Record<'_>) -> String {
    let Some(entry) = &record.entry else {
        let why = record::complaint(record).unwrap_or_else(|| "JSON, but not a record".to_owned());
        return out.style(WARN, &why);
    };
    let time = entry.time().map_or("        ".to_owned(), |time| local(time, "%H:%M:%S"));
    let name = record::kind(record).unwrap_or_default();
    let subtype = entry.subtype().map(|subtype| format!("/{subtype}")).unwrap_or_default();
    let kind = one_line(&format!("{name}{subtype}"));
    let width = out.width.unwrap_or(200).saturating_sub(time.len() + kind.len() + 4).max(20);
    let line = format!("{}  {kind}  {}", out.style(DIM, &time), fit(&gist(entry), width));
    line.trim_end().to_owned()
}

fn gist(entry: &Entry<'_>) -> String {
    let Some(message) = entry.message() else {
        let names = ["content", "summary", "customTitle", "aiTitle", "lastPrompt", "operation"];
        let text = names.into_iter().find_map(|name| entry.text(name));
        return text.map(|text| one_line(&text)).unwrap_or_default();
    };
    let parts = message.blocks().map(|block| block_gist(&block));
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" | ")
}

fn block_gist(block: &Block<'_>) -> String {
    let text = |name: &str| one_line(&block.field(name).unwrap_or_default());
    match block.kind() {
        BlockKind::Text => one_line(&block.text().unwrap_or_default()),
        BlockKind::Thinking => format!("thinking: {}", text("thinking")),
        BlockKind::ToolUse | BlockKind::ServerToolUse => {
            let input = block.get("input").map(Json::raw).unwrap_or_default();
            let tool = one_line(&block.tool().unwrap_or_default());
            format!("call {tool} {}", one_line(&String::from_utf8_lossy(input)))
        }
        BlockKind::ToolResult | BlockKind::ServerToolResult => {
            let first = block.inner().find_map(|inner| inner.text()).unwrap_or_default();
            format!("result {}", one_line(&first))
        }
        _ => one_line(&block.type_name().unwrap_or_default()),
    }
}
