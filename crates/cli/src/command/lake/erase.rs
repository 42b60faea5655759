//! `quipu lake erase`: removes sessions from the lake, and proves it.

use std::io::Write as _;

use lake::{Record, State, Versions};
use serde::Serialize;

use super::{Lake, TargetArgs, failure};
use crate::failure::Failure;
use crate::out::JSON_VERSION;
use crate::select;
use crate::text::{count, one_line};
use crate::world::World;

/// Remove sessions from the lake, and prove it by listing
///
/// Finds the objects of a session by listing the lake, whichever machine pushed them, deletes them,
/// and lists again. The session itself stays, and is not pushed again unless you name it. Calls of
/// the API that other sessions have, too, count there from the next push on. A session whose
/// transcript is gone is named by its id; by the whole id, if another machine pushed it.
#[derive(clap::Args, Debug)]
pub(crate) struct EraseArgs {
    /// Sessions
    #[arg(required = true)]
    session: Vec<String>,
    #[command(flatten)]
    target: TargetArgs,
    /// Print one JSON object for each session
    #[arg(long)]
    json: bool,
}

/// What `--json` prints for each session.
#[derive(Serialize)]
struct EraseJson<'a> {
    v: u32,
    to: &'a str,
    session: &'a str,
    erased: &'a [String],
    left: &'a [String],
    unclear: &'a [String],
    old_versions: Option<bool>,
}

pub(crate) fn erase(world: &mut World, args: &EraseArgs) -> Result<(), Failure> {
    let lake = Lake::open(world, &args.target)?;
    let (mut state, _held) = lake.state()?;
    let to = lake.target.shown();
    let (mut left, mut unclear) = (0, 0);
    for name in &args.session {
        let (session, unknown) = session_id(world, name, &state);
        let erased =
            lake::erase(&lake.target, &session, &lake.machine).map_err(|error| failure(&error))?;
        let is_found = !erased.objects.is_empty() || !erased.unclear.is_empty();
        if let Some(unknown) = unknown.filter(|_| !is_found) {
            return Err(unknown);
        }
        let record = Record { session: session.clone(), ..Record::default() };
        state.add(record).map_err(|error| Failure::unwritable(&lake.folder, error))?;
        left += erased.left.len();
        unclear += erased.unclear.len();
        if args.json {
            world.out.json(&EraseJson {
                v: JSON_VERSION,
                to: &to,
                session: &session,
                erased: &erased.objects,
                left: &erased.left,
                unclear: &erased.unclear,
                old_versions: match erased.versions {
                    Versions::Gone => Some(false),
                    Versions::Kept => Some(true),
                    Versions::Unknown => None,
                },
            })?;
            continue;
        }
        let session = one_line(&session);
        match erased.objects.len() {
            0 => writeln!(world.out, "{to} has nothing of session {session}.")?,
            number => {
                let objects = count(number as u64, "object");
                let proof = match erased.left.len() {
                    0 => "a second listing finds none".to_owned(),
                    left => format!("a second listing still finds {left}"),
                };
                writeln!(world.out, "Erased session {session} from {to}: {objects}; {proof}.")?;
            }
        }
        for key in &erased.unclear {
            let key = one_line(key);
            world
                .out
                .note(&format!("`{key}` may be of it, and does not say so: it is still there"))?;
        }
        match erased.versions {
            Versions::Gone => {}
            Versions::Kept => world.out.note(
                "the bucket keeps old versions: what was deleted is still there until its rules remove it",
            )?,
            Versions::Unknown => world.out.note(
                "whether the bucket keeps old versions cannot be seen: look at its settings",
            )?,
        }
    }
    if left > 0 {
        let message = format!("{} still there", count(left as u64, "object"));
        let hint = "another machine may have pushed meanwhile: run it again";
        return Err(Failure::undelivered(message, Some(hint)));
    }
    if unclear > 0 {
        let message = format!("{} may be of it", count(unclear as u64, "object"));
        let hint = "look at them, and delete them yourself if they are";
        return Err(Failure::undelivered(message, Some(hint)));
    }
    Ok(())
}

/// The id that a name stands for: of a session that is there, or an id itself, in any form. If it
/// is neither a session nor a UUID, what to say unless the lake has something of it.
fn session_id(world: &mut World, name: &str, state: &State) -> (String, Option<Failure>) {
    if state.of(name).is_some() {
        return (name.to_owned(), None);
    }
    let Ok(id) = uuid::Uuid::try_parse(name) else {
        let unknown = match select::session_to_change(world, name) {
            Ok(session) => return (session.id.to_string(), None),
            Err(unknown) => unknown,
        };
        // Its file may be gone.
        let mut pushed = state.records().filter(|record| record.session.starts_with(name));
        return match (pushed.next(), pushed.next()) {
            (Some(record), None) => (record.session.clone(), None),
            _ => (name.to_owned(), Some(unknown)),
        };
    };
    let id = id.to_string();
    // As it was pushed.
    let pushed = state.records().find(|record| record.session.eq_ignore_ascii_case(&id));
    (pushed.map_or(id, |record| record.session.clone()), None)
}
