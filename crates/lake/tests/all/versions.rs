//! Files of earlier versions of the tables are read together with those of this one: by the names
//! of columns, which keep their types. `tests/fixtures/version-N` was written by the program when
//! its tables had that version.

use std::collections::BTreeMap;
use std::fs;

use lake::{TABLES, VERSION};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;

use crate::home::{Scene, rows_of, session};

const DAY: &str = "day=2026-01-02";

/// The earlier versions, each with the session that was pushed.
const OLD: [(i32, &str); 2] = [
    (1, "day=2026-01-02/elder-5c8e0001-0000-4000-8000-000000000001.parquet"),
    (2, "day=2026-01-04/elder-5c8e0002-0000-4000-8000-000000000002.parquet"),
];

fn old_file(table: &str, (version, name): (i32, &str)) -> Vec<u8> {
    let folder = testkit::root().join(format!("crates/lake/tests/fixtures/version-{version}"));
    fs::read(folder.join(table).join(name)).unwrap()
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
    assert_eq!(OLD.last().unwrap().0, VERSION - 1, "there are no files of the previous version");
    for (table, of) in TABLES.iter().flat_map(|table| OLD.map(|of| (table, of))) {
        let new = columns(&files[&format!("{}/{DAY}/m1-one.parquet", table.name)]);
        let old = columns(&old_file(table.name, of));
        assert_eq!(new[..old.len()], old, "{}", table.name);
        let wanted = table.all().filter(|column| column.since <= of.0).count();
        assert_eq!(old.len(), wanted, "{}", table.name);
        let later: Vec<&str> = new[old.len()..].iter().map(|(name, _)| name.as_str()).collect();
        let wanted: Vec<&str> =
            table.all().filter(|column| column.since > of.0).map(|column| column.name).collect();
        assert_eq!(later, wanted, "{}", table.name);
    }
}

#[test]
fn rows_of_all_versions_are_read_together() {
    let scene = Scene::new();
    let lines = session("one", "msg_1", "hello").replace("\"Edit\"", "\"mcp__tracker__close\"");
    scene.put("-p/one.jsonl", &lines);
    scene.push();
    // As engines do it: the columns of all, by name.
    let mut tools = scene.rows("tools");
    tools.extend(OLD.iter().flat_map(|of| rows_of(&old_file("tools", *of))));
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
        ((2, "Edit".to_owned()), None),
        ((2, "mcp__tracker__close".to_owned()), Some("tracker".to_owned())),
        ((now, "mcp__tracker__close".to_owned()), Some("tracker".to_owned())),
    ];
    assert_eq!(found, wanted.into());
}
