//! Notebooks: cells, their text, and their outputs.
//!
//! Invariants: a cell is named by its id, or `cell-<n>` if it has none, here as in `NotebookEdit`;
//! the output of each cell is bounded, and pictures are only named.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{MOST, ReadDetail, too_long};
use crate::tool::write::unreadable;
use crate::tool::{Answer, Trouble};

/// The largest notebook, in bytes.
pub(in crate::tool) const LARGEST: u64 = 32 << 20;

/// The most characters of one output that are shown.
const OUTPUT: usize = 10_000;

/// A text, which notebooks may have in pieces.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Pieces {
    One(String),
    Many(Vec<String>),
    Other(serde::de::IgnoredAny),
}

impl Pieces {
    fn text(&self) -> String {
        match self {
            Pieces::One(text) => text.clone(),
            Pieces::Many(texts) => texts.concat(),
            Pieces::Other(_) => String::new(),
        }
    }
}

#[derive(Deserialize)]
struct Notebook {
    cells: Vec<Cell>,
    #[serde(default)]
    metadata: Metadata,
}

/// The metadata of a notebook.
#[derive(Debug, Default, Deserialize)]
pub(in crate::tool) struct Metadata {
    language_info: Option<Language>,
    kernelspec: Option<Kernel>,
}

#[derive(Debug, Deserialize)]
struct Language {
    name: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Kernel {
    language: Option<String>,
}

impl Metadata {
    /// The language of the code.
    pub(in crate::tool) fn language(&self) -> &str {
        let info = self.language_info.as_ref().and_then(|info| info.name.as_deref());
        let kernel = self.kernelspec.as_ref().and_then(|kernel| kernel.language.as_deref());
        info.or(kernel).unwrap_or("python")
    }
}

#[derive(Deserialize)]
struct Cell {
    id: Option<String>,
    #[serde(rename = "cell_type")]
    kind: String,
    source: Pieces,
    execution_count: Option<u64>,
    #[serde(default)]
    outputs: Vec<Output>,
}

#[derive(Deserialize)]
struct Output {
    #[serde(rename = "output_type")]
    kind: String,
    text: Option<Pieces>,
    data: Option<BTreeMap<String, Value>>,
    ename: Option<String>,
    evalue: Option<String>,
    traceback: Option<Pieces>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    file_path: &'a str,
    cells: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(rename = "cellType")]
    cell_type: &'a str,
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution_count: Option<u64>,
    cell_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<ShownOutput<'a>>,
}

#[derive(Serialize)]
struct ShownOutput<'a> {
    output_type: &'a str,
    text: String,
}

/// A notebook as a result.
pub(super) fn read(path: &Path, file: impl Read, size: u64) -> Result<Answer, Trouble> {
    if size > LARGEST {
        return Err(Trouble::failed("The notebook is too large (more than 32 MB)."));
    }
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text).map_err(|why| unreadable(path, &why))?;
    let notebook: Notebook = serde_json::from_str(&text)
        .map_err(|why| Trouble::failed(format!("{} is not a notebook: {why}", path.display())))?;
    let language = notebook.metadata.language();
    let shown = |(index, cell): (usize, &'_ Cell)| shown(index, cell, language).render();
    let rendered: Vec<String> = notebook.cells.iter().enumerate().map(shown).collect();
    let output = rendered.join("\n");
    if output.len() > MOST {
        return Err(too_long("Look at its cells with Bash and jq."));
    }
    let cells = notebook.cells.iter().enumerate();
    let detail = File {
        file_path: &path.to_string_lossy(),
        cells: cells.map(|(index, cell)| self::shown(index, cell, language)).collect(),
    };
    Ok(Answer::text(output, &ReadDetail { r#type: "notebook", file: detail }))
}

/// The name of a cell.
pub(in crate::tool) fn name(index: usize, id: Option<&str>) -> String {
    id.map_or_else(|| format!("cell-{index}"), str::to_owned)
}

fn shown<'a>(index: usize, cell: &'a Cell, language: &'a str) -> Shown<'a> {
    Shown {
        cell_type: &cell.kind,
        source: cell.source.text(),
        execution_count: cell.execution_count,
        cell_id: name(index, cell.id.as_deref()),
        language: (cell.kind == "code").then_some(language),
        outputs: cell
            .outputs
            .iter()
            .map(|output| ShownOutput { output_type: &output.kind, text: output.render() })
            .collect(),
    }
}

impl Shown<'_> {
    fn render(&self) -> String {
        let (id, source) = (&self.cell_id, &self.source);
        let kind = match self.language {
            Some("python") => String::new(),
            Some(language) => format!("<language>{language}</language>"),
            None => format!("<cell_type>{}</cell_type>", self.cell_type),
        };
        let mut text = format!("<cell id=\"{id}\">{kind}{source}</cell id=\"{id}\">");
        for output in self.outputs.iter().filter(|output| !output.text.is_empty()) {
            text.push('\n');
            text.push_str(output.text.trim_end_matches('\n'));
        }
        text
    }
}

impl Output {
    /// The output as text.
    fn render(&self) -> String {
        let mut text = self.text.as_ref().map(Pieces::text).unwrap_or_default();
        if let Some(data) = &self.data {
            if let Some(plain) = data.get("text/plain") {
                let plain = Pieces::deserialize(plain).map(|plain| plain.text());
                text.push_str(&plain.unwrap_or_default());
            }
            for kind in data.keys().filter(|kind| kind.starts_with("image/")) {
                let newline = if text.is_empty() { "" } else { "\n" };
                let _ = write!(text, "{newline}[{kind}]");
            }
        }
        if let Some(name) = &self.ename {
            let value = self.evalue.as_deref().unwrap_or_default();
            let trace = self.traceback.as_ref().map(|trace| match trace {
                Pieces::Many(lines) => lines.join("\n"),
                other => other.text(),
            });
            let _ = write!(text, "{name}: {value}\n{}", trace.unwrap_or_default());
        }
        match text.char_indices().nth(OUTPUT) {
            Some((end, _)) => format!("{}… [output cut]", &text[..end]),
            None => text,
        }
    }
}
