//! Files of the previous version of the tables are read together with those of this one: by the
//! names of columns, which keep their types. `tests/fixtures/version-1` was written by the program
//! when its tables had version 1.

use std::collections::BTreeMap;
use std::fs;

use lake::{TABLES, VERSION};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;

use crate::home::{Scene, rows_of, session};

const DAY: &str = "day=2026-01-02";
const OLD: &str = "elder-5c8e0001-0000-4000-8000-000000000001.parquet";

fn old_file(table: &str) -> Vec<u8> {
    let folder = testkit::root().join("crates/lake/tests/fixtures/version-1");
    fs::read(folder.join(table).join(DAY).join(OLD)).unwrap()
}

/// The columns of a file, with their types.
fn columns(bytes: &[u8]) -> Vec<(String, String)> {
    let reader = SerializedFileReader::new(bytes::Bytes::copy_from_slice(bytes)).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let kind = |column: &parquet::schema::types::ColumnDescPtr| {
        format!(
            "{} {:?} {:?}",
            column.physical_type(),
            column.logical_type_ref(),
            column.self_type().get_basic_info().repetition()
        )
    };
    schema.columns().iter().map(|column| (column.name().to_owned(), kind(column))).collect()
}

#[test]
fn columns_keep_their_names_types_and_order_and_new_ones_come_last() {
    let scene = Scene::new();
    scene.put("-p/one.jsonl", &session("one", "msg_1", "hello"));
    scene.push();
    let files = scene.files();
    for table in &TABLES {
        let new = columns(&files[&format!("{}/{DAY}/m1-one.parquet", table.name)]);
        let old = columns(&old_file(table.name));
        assert_eq!(new[..old.len()], old, "{}", table.name);
        let wanted = table.all().filter(|column| column.since == 1).count();
        assert_eq!(old.len(), wanted, "{}", table.name);
        let later: Vec<&str> = new[old.len()..].iter().map(|(name, _)| name.as_str()).collect();
        let wanted: Vec<&str> =
            table.all().filter(|column| column.since > 1).map(|column| column.name).collect();
        assert_eq!(later, wanted, "{}", table.name);
    }
}

#[test]
fn rows_of_both_versions_are_read_together() {
    let scene = Scene::new();
    let lines = session("one", "msg_1", "hello").replace("\"Edit\"", "\"mcp__tracker__close\"");
    scene.put("-p/one.jsonl", &lines);
    scene.push();
    // As engines do it: the columns of both, by name.
    let mut tools = scene.rows("tools");
    tools.extend(rows_of(&old_file("tools")));
    let mut found: BTreeMap<(i64, String), Option<String>> = BTreeMap::new();
    for row in tools {
        let Field::Long(version) = row["schema_version"] else { panic!("no version: {row:?}") };
        let text = |name: &str| match row.get(name) {
            Some(Field::Str(text)) => Some(text.clone()),
            Some(Field::Null) | None => None,
            other => panic!("{name} is {other:?}"),
        };
        found.insert((version, text("name").unwrap()), text("server"));
    }
    let now = i64::from(VERSION);
    let wanted = [
        ((1, "Edit".to_owned()), None),
        ((1, "mcp__tracker__close".to_owned()), None),
        ((now, "mcp__tracker__close".to_owned()), Some("tracker".to_owned())),
    ];
    assert_eq!(found, wanted.into());
}
