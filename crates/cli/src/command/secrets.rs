//! `quipu secrets`: where secrets stand in sessions.
//!
//! Invariant: no output has a secret, a part of one, or anything that is made from one.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use transcript::conversation::place::Session;
use transcript::format::secret::{Cover, Redactor};
use workshop::{Looked, shown_path};

use crate::failure::Failure;
use crate::out::{BOLD, JSON_VERSION};
use crate::redact::MoreRules;
use crate::select;
use crate::survey::{self, short_id};
use crate::text::{count, fit, printable};
use crate::world::World;

/// List the secrets in sessions: where they stand and of which kind, never what they are
///
/// Looks through a session and everything that belongs to it: sub-agents, stored results, copies of
/// edited files, todo lists. The exit code is 9 if there is any, 0 if there is none. `quipu redact`
/// hides them.
#[derive(clap::Args, Debug)]
pub(crate) struct SecretsArgs {
    /// The session; `last` if nothing is given
    #[arg(conflicts_with = "all")]
    session: Option<String>,
    /// All sessions
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    more: MoreRules,
    /// Print one JSON object per session that has any
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct SecretsJson<'a> {
    v: u32,
    session: &'a str,
    path: String,
    /// How many different secrets there are.
    secrets: u64,
    found: Vec<FoundJson<'a>>,
}

#[derive(Serialize)]
struct FoundJson<'a> {
    kind: &'a str,
    file: &'static str,
    path: String,
    line: u64,
    place: &'static str,
    times: u64,
}

pub(crate) fn secrets(world: &mut World, args: &SecretsArgs) -> Result<(), Failure> {
    let redactor = Arc::new(args.more.redactor(world.redact_config())?);
    let sessions = if args.all {
        world.sessions()?
    } else {
        vec![select::session(world, args.session.as_deref().unwrap_or("last"))?]
    };
    let (mut with, mut unreadable) = (0_u64, 0);
    for session in &sessions {
        let looked = match workshop::look_through(session, &redactor, workshop::Unreadable::Refuse)
        {
            Ok(looked) => looked,
            Err(error) if args.all => {
                world.out.note(&Failure::from(error).to_string())?;
                unreadable += 1;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if looked.values.is_empty() && args.all {
            continue;
        }
        with += u64::from(!looked.values.is_empty());
        show(world, args, session, (looked, redactor.clone()))?;
    }
    if !args.json && args.all {
        let all = count(sessions.len() as u64, "session");
        world.out.note(&format!("{with} of {all} with secrets"))?;
    }
    match (with, unreadable) {
        (0, 0) => Ok(()),
        (0, count) => Err(Failure::some_unreadable(count)),
        _ => Err(Failure::secrets()),
    }
}

fn show(
    world: &mut World,
    args: &SecretsArgs,
    session: &Session,
    (looked, redactor): (Looked, Arc<Redactor>),
) -> Result<(), Failure> {
    let secrets = looked.values.kinds().iter().map(|(_, count)| count).sum();
    let cover = Cover::new(redactor, looked.values);
    let shown = |path: &Path| shown_path(path, &cover).display().to_string();
    let mut found: Vec<FoundJson<'_>> = Vec::new();
    let project = session.path.parent().unwrap_or(Path::new(""));
    let files = looked.files.iter().map(|(thing, path, seen)| (thing.name(), &**path, seen));
    let around = looked.around.iter().map(|(what, seen)| (what.name(), project, seen));
    for (file, path, seen) in files.chain(around).filter(|(.., seen)| !seen.seen.is_empty()) {
        let path = shown(path);
        for one in &seen.seen {
            let (place, line) = (one.spot.name(), one.line);
            let path = path.clone();
            match found.last_mut() {
                Some(last)
                    if last.kind == one.kind
                        && last.line == line
                        && last.place == place
                        && last.path == path =>
                {
                    last.times += 1;
                }
                _ => found.push(FoundJson { kind: &one.kind, file, path, line, place, times: 1 }),
            }
        }
    }
    if args.json {
        let (session, path) = (session.id.as_str(), shown(&session.path));
        return Ok(world.out.json(&SecretsJson {
            v: JSON_VERSION,
            session,
            path,
            secrets,
            found,
        })?);
    }
    let surveyed = survey::of_file(&session.path);
    let title = surveyed.map(|one| survey::headline(&one)).unwrap_or_default();
    // A title may have one.
    let title = cover.text(&title).unwrap_or(title);
    let head = format!("{}  {}", short_id(session), fit(&title, 60));
    let head = world.out.style(BOLD, &printable(&head));
    writeln!(world.out, "{head}  {}", count(secrets, "secret"))?;
    for one in &found {
        let times = if one.times > 1 { format!(" ×{}", one.times) } else { String::new() };
        let name = Path::new(&one.path).file_name().unwrap_or_default();
        let file = match one.file {
            "transcript" => String::new(),
            file => format!("  {file} {}", printable(&name.to_string_lossy())),
        };
        let line = if one.line > 0 { format!("line {}", one.line) } else { String::new() };
        writeln!(world.out, "  {line:<11} {:<20} {}{times}{file}", one.kind, one.place)?;
    }
    Ok(())
}
