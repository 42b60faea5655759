//! Sessions that were carried elsewhere, in the real client: packed and unpacked, moved, renamed
//! and tagged. It resumes them in the new place, and sends what we said that it would.

use std::fs;
use std::path::{Path, PathBuf};

use transcript::conversation::place::{Session, slug, working_directory};

use crate::change::{Source, quipu, sources};
use crate::lab::{Lab, clients, write};
use crate::resume::{SESSION, difference, env, predicted, resumed_in};

/// How a session gets to the folder of the client.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Packed byte for byte, and unpacked with its directory mapped.
    Pack,
    /// Packed without its secrets.
    Redacted,
    Move,
    /// Renamed and tagged in its place.
    Mark,
}

const WAYS: [Way; 4] = [Way::Pack, Way::Redacted, Way::Move, Way::Mark];

/// Carries a session, and lets the client go on with it. Says what is wrong; `None` if the session
/// cannot be carried that way.
fn tried(
    source: &Source,
    way: Way,
    version: &str,
    start: &[PathBuf],
) -> Option<Result<(), String>> {
    let lab = Lab::new();
    let here = lab.cwd().to_string_lossy().into_owned();
    let projects = lab.home().join(".claude/projects");
    let at = |home: &Path, folder: &str| {
        let folder = home.join("projects").join(folder);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{SESSION}.jsonl"));
        write(&path, &source.bytes);
        path
    };
    let other = lab.folder.path().join("other");
    let there = at(&other, "-other");
    let cwd = working_directory(&Session::at(&there).unwrap()).unwrap()?;
    if cwd.len() < 2 {
        return None;
    }
    let done = match way {
        Way::Pack | Way::Redacted => {
            let file = lab.folder.path().join("pack.html");
            let (there, file) = (there.to_str().unwrap(), file.to_str().unwrap());
            let mut args = vec!["pack", there, "-o", file, "--json"];
            args.extend(matches!(way, Way::Pack).then_some("--no-redact"));
            let (code, packed) = quipu(&lab, &args);
            if code != Some(0) {
                return Some(Err(format!("pack ends with {code:?}: {packed}")));
            }
            quipu(&lab, &["unpack", file, "--yes", "--json", "--map", &format!("{cwd}={here}")])
        }
        Way::Move => {
            at(&lab.home().join(".claude"), &slug(&cwd));
            quipu(&lab, &["move", SESSION, &here, "--json", "--force"])
        }
        Way::Mark => {
            at(&lab.home().join(".claude"), &slug(&here));
            let renamed = quipu(&lab, &["rename", SESSION, "A title", "--json", "--force"]);
            assert_eq!(renamed.0, Some(0), "{renamed:?}");
            quipu(&lab, &["tag", SESSION, "blue", "--json", "--force"])
        }
    };
    if done.0 != Some(0) {
        return Some(Err(format!("it ends with {done:?}")));
    }
    let path = projects.join(slug(&here)).join(format!("{SESSION}.jsonl"));
    let Ok(before) = fs::read(&path) else {
        return Some(Err(format!("`{}` is not there: {}", path.display(), done.1)));
    };
    let ours = predicted(&path, version);
    let sent = resumed_in(&lab, start, SESSION);
    Some(match (sent, ours) {
        (None, None) => Ok(()),
        (Some(sent), Some(ours)) => difference(&before, &sent, &ours).map_or(Ok(()), Err),
        (Some(_), None) => Err("the client resumes it".to_owned()),
        (None, Some(_)) => Err("the client sends nothing".to_owned()),
    })
}

#[test]
fn carried_sessions_are_sent_as_predicted() {
    let full = env("QUIPU_FULL").is_some();
    let sources = sources(full);
    let (mut tries, mut wrong) = (0, Vec::new());
    for (number, source) in sources.iter().enumerate() {
        for (turn, way) in WAYS.into_iter().enumerate() {
            for (place, (version, start)) in clients().into_iter().enumerate() {
                // In a short run, the ways and the clients take turns.
                let is_turn = number % WAYS.len() == turn && number / WAYS.len() % 2 == place % 2;
                if !full && !is_turn {
                    continue;
                }
                if let Some(outcome) = tried(source, way, &version, &start) {
                    tries += 1;
                    if let Err(why) = outcome {
                        wrong.push(format!("{} {way:?} in {version}: {why}", source.name));
                    }
                }
            }
        }
    }
    println!("{} of {tries} carried sessions are sent as predicted", tries - wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tries > 10, "only {tries} were tried");
}
