//! `NotebookEdit`: replaces, inserts or deletes a cell of a notebook.
//!
//! The notebook is not written anew: changes are spliced into its text. Invariants: bytes outside
//! of the cell stay as they are, and so do the members of the cell that do not change, and their
//! order; a new cell is written as Jupyter does, with the indentation of the file.

mod cell;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::read::notebook::{LARGEST, Metadata, name};
use super::write::{guard, save, unreadable};
use super::{Answer, Call, Site, Trouble, text};
use cell::{Members, Style};

#[derive(Deserialize)]
struct Notebook<'a> {
    #[serde(borrow)]
    cells: &'a RawValue,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    nbformat: u64,
    #[serde(default)]
    nbformat_minor: u64,
}

#[derive(Serialize)]
struct NotebookEditDetail<'a> {
    new_source: &'a str,
    cell_type: &'a str,
    language: &'a str,
    edit_mode: &'a str,
    cell_id: &'a str,
    error: &'a str,
    notebook_path: &'a str,
    original_file: &'a str,
    updated_file: &'a str,
}

/// The changed notebook.
struct Done {
    updated: String,
    cell_id: String,
    cell_type: String,
    verb: &'static str,
}

pub(super) fn run(call: &Call, site: &Site) -> Result<Answer, Trouble> {
    let path = site.path(text(call, "notebook_path"));
    if path.extension().is_none_or(|ext| ext != "ipynb") {
        return Err(Trouble::wrong("This is not a notebook (.ipynb): use Edit."));
    }
    let at = site.pinned(call, &path);
    match guard(&path, site)? {
        None => return Err(Trouble::wrong("File does not exist.")),
        Some(found) if found.len() > LARGEST => {
            return Err(Trouble::failed("The notebook is too large (more than 32 MB)."));
        }
        Some(_) => {}
    }
    let original = files::read_text_fixed(&at, LARGEST).map_err(|why| unreadable(&path, &why))?;
    let broken = |why| Trouble::failed(format!("{} is not a notebook: {why}", path.display()));
    let notebook: Notebook<'_> = serde_json::from_str(&original).map_err(broken)?;
    let cells: Vec<&RawValue> = serde_json::from_str(notebook.cells.get()).map_err(broken)?;
    let members: Result<Vec<Members<'_>>, _> =
        cells.iter().map(|cell| serde_json::from_str(cell.get())).collect();
    let sheet = Sheet {
        text: &original,
        style: Style::of(&original),
        list: notebook.cells,
        cells,
        members: members.map_err(broken)?,
        has_ids: (notebook.nbformat, notebook.nbformat_minor) >= (4, 5),
    };
    let mode = call.input.get("edit_mode").and_then(Value::as_str).unwrap_or("replace");
    let done = match mode {
        "replace" => sheet.replace(call)?,
        "insert" => sheet.insert(call, site)?,
        "delete" => sheet.delete(call)?,
        _ => return Err(Trouble::wrong(format!("There is no edit_mode {mode}."))),
    };
    save((&path, &at), done.updated.as_bytes(), site)?;
    let detail = NotebookEditDetail {
        new_source: text(call, "new_source"),
        cell_type: &done.cell_type,
        language: notebook.metadata.language(),
        edit_mode: mode,
        cell_id: &done.cell_id,
        error: "",
        notebook_path: &path.to_string_lossy(),
        original_file: &original,
        updated_file: &done.updated,
    };
    Ok(Answer::text(format!("{} cell {}.", done.verb, done.cell_id), &detail))
}

/// A notebook's text, and where its cells are.
struct Sheet<'a> {
    text: &'a str,
    style: Style<'a>,
    list: &'a RawValue,
    cells: Vec<&'a RawValue>,
    members: Vec<Members<'a>>,
    /// Whether cells have ids, according to its format version.
    has_ids: bool,
}

impl Sheet<'_> {
    fn replace(&self, call: &Call) -> Result<Done, Trouble> {
        let index = self.needed(call)?;
        let mut new = self.members[index].clone();
        let kind = kind(call)?.map(str::to_owned).or_else(|| new.text("cell_type"));
        let kind = kind.unwrap_or_default();
        new.become_kind(&kind);
        new.set_source(text(call, "new_source"), &self.style);
        let (start, end) = self.range(self.cells[index]);
        Ok(Done {
            updated: self.spliced(start, end, &new.written(&self.style)),
            cell_id: name(index, new.text("id").as_deref()),
            cell_type: kind,
            verb: "Updated",
        })
    }

    fn insert(&self, call: &Call, site: &Site) -> Result<Done, Trouble> {
        let Some(kind) = kind(call)? else {
            return Err(Trouble::wrong("cell_type is missing: a new cell needs it."));
        };
        let place = self.wanted(call)?.map_or(0, |before| before + 1);
        let new_id = || site.nature.id().chars().take(8).collect();
        let id: Option<String> = self.has_ids.then(new_id);
        let new = Members::new(kind, id.as_deref(), text(call, "new_source"), &self.style);
        let new = new.written(&self.style);
        let between = self.style.between(2);
        let updated = if let Some(last) = place.checked_sub(1) {
            let (_, end) = self.range(self.cells[last]);
            self.spliced(end, end, &format!("{between}{new}"))
        } else if let Some(next) = self.cells.first() {
            let (start, _) = self.range(next);
            self.spliced(start, start, &format!("{new}{between}"))
        } else {
            let (start, end) = self.range(self.list);
            let (inner, outer) = (self.style.line(2), self.style.line(1));
            self.spliced(start, end, &format!("[{inner}{new}{outer}]"))
        };
        let cell_id = name(place, id.as_deref());
        Ok(Done { updated, cell_id, cell_type: kind.to_owned(), verb: "Inserted" })
    }

    fn delete(&self, call: &Call) -> Result<Done, Trouble> {
        let index = self.needed(call)?;
        let (start, end) = self.range(self.cells[index]);
        // The comma is removed, too: the one before the cell, or for the first cell the one after
        // it.
        let updated = if let Some(last) = index.checked_sub(1) {
            self.spliced(self.range(self.cells[last]).1, end, "")
        } else if let Some(next) = self.cells.get(1) {
            self.spliced(start, self.range(next).0, "")
        } else {
            let (start, end) = self.range(self.list);
            self.spliced(start, end, "[]")
        };
        let gone = &self.members[index];
        Ok(Done {
            updated,
            cell_id: name(index, gone.text("id").as_deref()),
            cell_type: gone.text("cell_type").unwrap_or_default(),
            verb: "Deleted",
        })
    }

    /// The cell that a call has to name.
    fn needed(&self, call: &Call) -> Result<usize, Trouble> {
        self.wanted(call)?.ok_or_else(|| Trouble::wrong("cell_id is missing."))
    }

    /// The cell that a call names, by its id or by its index.
    fn wanted(&self, call: &Call) -> Result<Option<usize>, Trouble> {
        let Some(wanted) = call.input.get("cell_id").and_then(Value::as_str) else {
            return Ok(None);
        };
        let by_id = self.members.iter().position(|cell| cell.text("id").as_deref() == Some(wanted));
        let place = wanted.strip_prefix("cell-").and_then(|place| place.parse().ok());
        let by_place = place.filter(|&place: &usize| place < self.cells.len());
        match by_id.or(by_place) {
            None => Err(Trouble::wrong(format!("There is no cell {wanted} in the notebook."))),
            found => Ok(found),
        }
    }

    /// The position of a part of the text, which was borrowed from it.
    fn range(&self, part: &RawValue) -> (usize, usize) {
        let start = part.get().as_ptr() as usize - self.text.as_ptr() as usize;
        (start, start + part.get().len())
    }

    fn spliced(&self, start: usize, end: usize, new: &str) -> String {
        format!("{}{new}{}", &self.text[..start], &self.text[end..])
    }
}

/// The kind of cell that a call names.
fn kind(call: &Call) -> Result<Option<&str>, Trouble> {
    match call.input.get("cell_type").and_then(Value::as_str) {
        Some(kind) if !matches!(kind, "code" | "markdown") => {
            Err(Trouble::wrong(format!("There is no cell_type {kind}.")))
        }
        kind => Ok(kind),
    }
}

#[cfg(test)]
#[path = "notebook_edit_tests.rs"]
mod tests;
