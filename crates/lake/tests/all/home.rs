//! A home with sessions, and a lake that they are pushed to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lake::{
    Again, Content, Group, LakeError, Policy, Progress, Push, Pushed, RawLines, Record, State,
    Surroundings, TABLES, Target, groups, recover,
};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use tempfile::TempDir;
use transcript::conversation::place::Home;
use transcript::conversation::price::Prices;
use transcript::conversation::usage::Ledger;

/// A row: its cells by the names of the columns.
pub(crate) type CellsByName = BTreeMap<String, Field>;

pub(crate) struct Scene {
    pub(crate) folder: TempDir,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("home/projects/-p")).unwrap();
        Scene { folder }
    }

    /// With the sessions that are built into the program: every dialect, sub-agents and damage.
    pub(crate) fn with_samples() -> Scene {
        let scene = Scene::new();
        let from = testkit::root().join("samples/home/projects");
        copy(&from, &scene.folder.path().join("home/projects"));
        scene
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn put(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path("home/projects").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::of_homes(&[Home { root: self.path("home") }], 2)
    }

    pub(crate) fn lake(&self) -> Target {
        Target::open(self.path("lake").to_str().unwrap(), &Surroundings::default()).unwrap()
    }

    pub(crate) fn state(&self, name: &str) -> State {
        State::open(&self.path(&format!("state/{name}.jsonl"))).unwrap()
    }

    /// Pushes everything to the folder `lake`.
    pub(crate) fn push(&self) -> Pushed {
        self.push_as(&policy("m1"))
    }

    pub(crate) fn push_as(&self, policy: &Policy) -> Pushed {
        let (pushed, outcome) = self.try_push(&self.lake(), policy, &mut self.state("lake"));
        outcome.unwrap();
        pushed
    }

    pub(crate) fn try_push(
        &self,
        target: &Target,
        policy: &Policy,
        state: &mut State,
    ) -> (Pushed, Result<(), LakeError>) {
        self.push_with(target, policy, state, Again::Changed)
    }

    pub(crate) fn push_with(
        &self,
        target: &Target,
        policy: &Policy,
        state: &mut State,
        again: Again,
    ) -> (Pushed, Result<(), LakeError>) {
        let ledger = self.ledger();
        if let Err(error) = recover(target, state, (&ledger, policy)) {
            return (Pushed::default(), Err(error));
        }
        let groups = groups(&ledger, state);
        let is_wanted = |group: &&Group| !state.of(&group.id).is_some_and(Record::is_erased);
        let chosen: Vec<&Group> = groups.iter().filter(is_wanted).collect();
        let push = Push { ledger: &ledger, target, policy, threads: 2, again };
        push.run(&groups, &chosen, state, &Progress::default())
    }

    /// The files of the folder `lake`.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        for stored in self.lake().list("", &|_| true).unwrap() {
            let bytes = fs::read(self.path("lake").join(&stored.key)).unwrap();
            found.insert(stored.key, bytes);
        }
        found
    }

    /// All rows of a table.
    pub(crate) fn rows(&self, table: &str) -> Vec<CellsByName> {
        let files = self.files();
        let prefix = format!("{table}/");
        let of_table = files.iter().filter(|(key, _)| key.starts_with(&prefix));
        of_table.flat_map(|(_, bytes)| rows_of(bytes)).collect()
    }
}

/// The rows of a Parquet file.
pub(crate) fn rows_of(bytes: &[u8]) -> Vec<CellsByName> {
    let reader = SerializedFileReader::new(bytes::Bytes::copy_from_slice(bytes)).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    let cells = |row: parquet::record::Row| {
        row.get_column_iter().map(|(name, cell)| (name.clone(), cell.clone())).collect()
    };
    rows.map(|row| cells(row.unwrap())).collect()
}

pub(crate) fn policy(machine: &str) -> Policy {
    Policy {
        machine: machine.to_owned(),
        user: Some("anna".to_owned()),
        team: None,
        content: Content::Meta,
        raw: RawLines::LeftOut,
        redactor: Some(Arc::default()),
        redact_rules: String::new(),
        prices: Prices::default(),
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let there = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &there);
        } else {
            fs::copy(entry.path(), &there).unwrap();
        }
    }
}

/// A session of one prompt, one call of a tool and one answer, which names these words.
pub(crate) fn session(id: &str, message: &str, words: &str) -> String {
    let common = format!(
        r#""sessionId":"{id}","cwd":"/home/dev/{id}","gitBranch":"topic","version":"2.1.45","timestamp""#
    );
    let edit =
        r#"{"file_path":"/home/dev/shop/src/main.rs","old_string":"a\n","new_string":"b\nc\n"}"#;
    [
        format!(r#"{{"type":"user","uuid":"{id}-1","parentUuid":null,{common}:"2026-01-02T23:59:58.000Z","message":{{"role":"user","content":"{words}"}}}}"#),
        format!(r#"{{"type":"assistant","uuid":"{id}-2","parentUuid":"{id}-1",{common}:"2026-01-03T00:00:01.000Z","message":{{"id":"{message}","role":"assistant","model":"claude-sonnet-4-5-20250929","stop_reason":"tool_use","content":[{{"type":"tool_use","id":"toolu_{id}","name":"Edit","input":{edit}}}],"usage":{{"input_tokens":3,"output_tokens":7,"cache_read_input_tokens":100,"cache_creation_input_tokens":20}}}}}}"#),
        format!(r#"{{"type":"user","uuid":"{id}-3","parentUuid":"{id}-2",{common}:"2026-01-03T00:00:03.500Z","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"toolu_{id}","content":"done: {words}"}}]}}}}"#),
        format!(r#"{{"type":"assistant","uuid":"{id}-4","parentUuid":"{id}-3",{common}:"2026-01-03T00:00:05.000Z","message":{{"id":"{message}b","role":"assistant","model":"claude-sonnet-4-5-20250929","stop_reason":"end_turn","content":[{{"type":"text","text":"{words}"}}],"usage":{{"input_tokens":1,"output_tokens":5}}}}}}"#),
        String::new(),
    ]
    .join("\n")
}

/// The tables' names.
pub(crate) fn tables() -> Vec<&'static str> {
    TABLES.iter().map(|table| table.name).collect()
}
