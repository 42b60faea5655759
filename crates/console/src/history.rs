//! The prompts of earlier sessions: `history.jsonl` in the config home, in the client's form.
//!
//! Invariants: the file is only appended to, one whole line in one write; at most its end is read;
//! lines that are not understood are passed over.

use std::collections::HashSet;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::composer::{Image, Pasted, Prompt};

/// How much of the file is read.
const MOST: u64 = 4 << 20;
/// How many entries are kept in memory.
const ENTRIES: usize = 5_000;
/// A pasted text that is longer is not stored.
const LONGEST: usize = 1 << 20;

/// An entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// The prompt.
    pub prompt: Prompt,
    /// The folder that it was for.
    pub project: String,
}

/// The history, and where it is stored.
#[derive(Debug, Default)]
pub struct History {
    file: Option<PathBuf>,
    project: String,
    session: String,
    /// The oldest first.
    entries: Vec<Past>,
    /// How far back Up has gone, and what was typed before.
    back: usize,
    draft: Option<Prompt>,
}

impl History {
    /// Reads the history. What cannot be read is empty.
    pub fn open(file: Option<&Path>, project: &str, session: &str) -> History {
        let entries = file.and_then(|file| read(file).ok()).unwrap_or_default();
        History {
            file: file.map(Path::to_owned),
            project: project.to_owned(),
            session: session.to_owned(),
            entries,
            ..History::default()
        }
    }

    /// The prompts belong to another session from now on.
    pub fn set_session(&mut self, session: &str) {
        session.clone_into(&mut self.session);
    }

    /// Adds a prompt that is sent. `now` is in milliseconds.
    pub fn add(&mut self, prompt: &Prompt, now: i64) -> io::Result<()> {
        (self.back, self.draft) = (0, None);
        let entry = Past { prompt: prompt.clone(), project: self.project.clone() };
        if self.entries.last() == Some(&entry) || prompt.display.trim().is_empty() {
            return Ok(());
        }
        self.entries.push(entry);
        let Some(file) = &self.file else { return Ok(()) };
        let line = json!({
            "display": prompt.display, "pastedContents": contents(&prompt.pasted), "timestamp": now,
            "project": self.project, "sessionId": self.session,
        });
        let mut file = files::append_private(file)?;
        file.write_all(format!("{line}\n").as_bytes())
    }

    /// The entry before the one that is shown, of this project. `now` is what is typed.
    pub fn older(&mut self, now: Prompt) -> Option<Prompt> {
        let found = self.here(self.back + 1)?.clone();
        if self.back == 0 {
            self.draft = Some(now);
        }
        self.back += 1;
        Some(found)
    }

    /// The entry after the one that is shown; at the end what was typed.
    pub fn newer(&mut self) -> Option<Prompt> {
        self.back = self.back.checked_sub(1)?;
        match self.back {
            0 => self.draft.take(),
            back => self.here(back).cloned(),
        }
    }

    /// What is shown was changed: it is new.
    pub fn leave(&mut self) {
        (self.back, self.draft) = (0, None);
    }

    fn here(&self, back: usize) -> Option<&Prompt> {
        let here = self.entries.iter().rev().filter(|entry| entry.project == self.project);
        here.map(|entry| &entry.prompt).nth(back - 1)
    }

    /// The newest entries that contain a text, each once.
    pub fn search(&self, text: &str, most: usize) -> Vec<&Prompt> {
        let text = text.to_lowercase();
        let mut found: Vec<&Prompt> = Vec::new();
        let mut known: HashSet<&str> = HashSet::new();
        for entry in self.entries.iter().rev() {
            let prompt = &entry.prompt;
            if prompt.display.to_lowercase().contains(&text) && known.insert(&prompt.display) {
                found.push(prompt);
                if found.len() == most {
                    break;
                }
            }
        }
        found
    }
}

fn contents(pasted: &[Pasted]) -> Value {
    use crate::composer::Content;
    let mut all = Map::new();
    for one in pasted {
        let value = match &one.content {
            Content::Text(text) if text.len() <= LONGEST => {
                json!({"id": one.number, "type": "text", "content": text})
            }
            // The bytes of an image are in the session.
            _ => continue,
        };
        all.insert(one.number.to_string(), value);
    }
    Value::Object(all)
}

fn read(path: &Path) -> io::Result<Vec<Past>> {
    let mut file = files::open(path)?;
    let len = file.metadata()?.len();
    let start = len.saturating_sub(MOST);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut entries: Vec<Past> =
        text.lines().skip(usize::from(start > 0)).filter_map(entry).collect();
    entries.drain(..entries.len().saturating_sub(ENTRIES));
    Ok(entries)
}

fn entry(line: &str) -> Option<Past> {
    use crate::composer::Content;
    let value: Value = serde_json::from_str(line).ok()?;
    let display = value["display"].as_str()?.trim_end().to_owned();
    if display.is_empty() {
        return None;
    }
    let mut pasted = Vec::new();
    let mut text = display.clone();
    for one in value["pastedContents"].as_object().into_iter().flat_map(Map::values) {
        let (Some(number), Some(content)) = (one["id"].as_u64(), one["content"].as_str()) else {
            continue;
        };
        let start = if one["type"] == "image" { "[Image #" } else { "[Pasted text #" };
        let start = format!("{start}{number}");
        let Some(mark) = display
            .find(&start)
            .and_then(|at| Some(display[at..=at + display[at..].find(']')?].to_owned()))
        else {
            continue;
        };
        let content = if one["type"] == "image" {
            let media = one["mediaType"].as_str().unwrap_or("image/png").to_owned();
            Content::Image(Image { media, data: content.to_owned() })
        } else {
            text = text.replacen(&mark, content, 1);
            Content::Text(content.to_owned())
        };
        let number = usize::try_from(number).unwrap_or_default();
        pasted.push(Pasted { number, mark, content });
    }
    let project = value["project"].as_str().unwrap_or_default().to_owned();
    Some(Past { prompt: Prompt { display, text, pasted }, project })
}

#[cfg(test)]
#[path = "history_tests.rs"]
mod tests;
