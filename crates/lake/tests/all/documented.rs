//! `docs/lake.md` lists the tables as they are.

use std::fmt::Write as _;

use lake::{COMMON, Column, Null, TABLES};

const BEGIN: &str = "<!-- tables -->\n";
const END: &str = "<!-- /tables -->\n";

fn lines(columns: impl Iterator<Item = &'static Column>) -> String {
    let mut text = "| column | type | what it has |\n|---|---|---|\n".to_owned();
    for column in columns {
        let null = if column.null == Null::Never { ", never null" } else { "" };
        let since = if column.since > 1 {
            format!(" (from version {})", column.since)
        } else {
            String::new()
        };
        let (name, sql) = (column.name, column.holds.sql());
        let _ = writeln!(text, "| `{name}` | {sql}{null} | {}{since} |", column.about);
    }
    text
}

fn tables() -> String {
    let mut text = format!("\nAll tables begin with these columns:\n\n{}", lines(COMMON.iter()));
    for table in &TABLES {
        let _ = write!(text, "\n`{}`: {}.\n\n{}", table.name, table.about, lines(table.columns()));
    }
    text.push('\n');
    text
}

/// With `QUIPU_UPDATE=1`, writes them into the page.
#[test]
fn the_page_lists_the_tables_as_they_are() {
    let path = testkit::root().join("docs/lake.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let wanted = tables();
    if std::env::var_os("QUIPU_UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{wanted}{END}{after}")).unwrap();
        return;
    }
    assert!(
        found == wanted,
        "docs/lake.md does not list the tables as they are: run with QUIPU_UPDATE=1"
    );
}

#[test]
fn new_columns_come_last_and_may_be_null() {
    for table in &TABLES {
        let mut names: Vec<&str> = table.all().map(|column| column.name).collect();
        let mut since = 1;
        for column in table.columns() {
            assert!(column.since >= since, "{}.{} is not at the end", table.name, column.name);
            since = column.since;
            assert!(column.since == 1 || column.null == Null::Maybe, "{}", column.name);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), table.all().count(), "{} has a column twice", table.name);
    }
}
