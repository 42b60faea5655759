//! `quipu files`: everything that belongs to a session.

use std::borrow::Cow;

use serde::Serialize;
use transcript::conversation::place::{Agent, belongings};
use transcript::format::json::Json;

use crate::failure::Failure;
use crate::out::JSON_VERSION;
use crate::select;
use crate::table::{Column, Table};
use crate::text::{self, one_line};
use crate::world::World;

/// List the files that belong to a session
///
/// The transcript, its sub-agents and their tasks, large results, copies of edited files, todo
/// lists, plans; and the shared files that mention the session: the session index and the prompt
/// history.
#[derive(clap::Args, Debug)]
pub(crate) struct FilesArgs {
    /// The session
    #[arg(default_value = "last")]
    session: String,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct FilesRow<'a> {
    v: u32,
    thing: &'static str,
    path: Cow<'a, str>,
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<String>,
}

pub(crate) fn files(world: &mut World, args: &FilesArgs) -> Result<(), Failure> {
    let session = select::session(world, &args.session)?;
    let mut table = Table::new(&[
        Column::left("what"),
        Column::right("size"),
        Column::left("about"),
        Column::left("path"),
    ]);
    for one in belongings(&session) {
        let size = match files::metadata(&one.path) {
            Ok(found) => Some(found.len()),
            Err(error) => {
                world.out.note(&format!("cannot read `{}`: {error}", one.path.display()))?;
                None
            }
        };
        let row = FilesRow {
            v: JSON_VERSION,
            thing: one.thing.name(),
            path: one.path.to_string_lossy(),
            size,
            about: one.agent.as_ref().and_then(about),
        };
        if args.json {
            world.out.json(&row)?;
        } else {
            table.row(&[
                row.thing.to_owned(),
                row.size.map_or("?".to_owned(), text::size),
                row.about.unwrap_or_default(),
                row.path.into_owned(),
            ]);
        }
    }
    if !args.json {
        table.write(&mut world.out)?;
    }
    Ok(())
}

/// The task of a sub-agent, according to its sidecar.
fn about(agent: &Agent) -> Option<String> {
    let bytes = agent.meta()?;
    let meta = Json::parse(&bytes)?.object()?;
    let parts = ["agentType", "description"].map(|name| meta.text(name));
    let parts: Vec<String> = parts.into_iter().flatten().map(|part| one_line(&part)).collect();
    (!parts.is_empty()).then(|| parts.join(": "))
}
