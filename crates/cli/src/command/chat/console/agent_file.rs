//! The files of agents: edited, and written anew.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ::console::run::Stage;
use ::console::text::look;

use super::backend::Backend;
use super::command;

/// How long such a file can be.
const LONGEST: u64 = 1 << 20;

/// Edits the file of an agent of the project or of the user; a new one is of the project.
pub(super) fn edit<W: Write>(
    backend: &mut Backend<'_>,
    name: &str,
    stage: &mut Stage<'_, W>,
) -> io::Result<()> {
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if !is_name {
        let text = "the name of an agent has letters, digits, `-` and `_`: /agents NAME";
        stage.screen.note(look::WARN, text);
        return Ok(());
    }
    let project = backend.site.root.join(".claude/agents");
    let folders = [project.clone(), backend.home.join("agents")];
    let known = backend.agents.iter().any(|(known, _)| known == name);
    let path = match folders.iter().find_map(|folder| file_of(folder, name)) {
        Some(path) => path,
        None if known => {
            stage.screen.note(look::DIM, &format!("{name} has no file that could be edited"));
            return Ok(());
        }
        None => {
            let path = project.join(format!("{name}.md"));
            fs::create_dir_all(&project)?;
            files::put(&path, template(name).as_bytes(), files::Durability::Process)?;
            path
        }
    };
    if command::edit_file(backend, &path, stage)? {
        let text = format!("{} counts from the next session on: /clear, /fork", path.display());
        stage.screen.note(look::DIM, &text);
    }
    Ok(())
}

/// The file in a folder that defines an agent.
fn file_of(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect();
    paths.sort();
    paths.into_iter().find(|path| {
        let text = files::read_text(path, LONGEST).unwrap_or_default();
        let head = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---"));
        let lines = head.map_or("", |(head, _)| head).lines();
        let mut names = lines.filter_map(|line| line.strip_prefix("name:"));
        names.any(|value| value.trim().trim_matches(['"', '\'']) == name)
    })
}

fn template(name: &str) -> String {
    format!(
        "---\nname: {name}\ndescription: When the model should start it.\ntools: Read, Glob, Grep\n---\n\
         What it is to do, and what its report should say.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_by_the_name_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            files::put(&folder.path().join(name), text.as_bytes(), files::Durability::Process)
                .unwrap();
        };
        put("a.md", "---\nname: \"scout\"\ndescription: x\n---\nname: planner\n");
        put("b.md", &template("writer"));
        put("c.txt", &template("reader"));
        let found = |name: &str| {
            let path = file_of(folder.path(), name)?;
            Some(path.file_name()?.to_string_lossy().into_owned())
        };
        assert_eq!(found("scout").as_deref(), Some("a.md"));
        assert_eq!(found("writer").as_deref(), Some("b.md"));
        assert_eq!((found("planner"), found("reader")), (None, None));
    }
}
