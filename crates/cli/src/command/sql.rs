//! `quipu sql`: questions in SQL about all sessions.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use index::catalog::root_of;
use index::sql::{SqlAnswer, SqlError, SqlValue, SqlWish, VIEWS, View};
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::catalog::{self, CatalogArgs};
use crate::csv;
use crate::failure::Failure;
use crate::out::{BOLD, DIM, JSON_VERSION};
use crate::prices;
use crate::table::{Column, Table};
use crate::text::{count, fit, one_line, size};
use crate::world::World;

/// Ask questions about all sessions in SQL
///
/// A query reads views: sessions, turns, messages, calls, files, verdicts, links. Without a query,
/// prints them with their columns; docs/sql.md has examples. A query can read these views and
/// nothing else: no files, no other tables. It may take ten seconds; what has to be read first is
/// read, and kept in the catalog.
#[derive(clap::Args, Debug)]
pub(crate) struct SqlArgs {
    /// The query, in the SQL of `SQLite`
    query: Option<String>,
    /// How many rows to print
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    limit: usize,
    /// Print at most this many bytes of values
    #[arg(long, value_name = "SIZE", value_parser = crate::text::bytes, default_value = "4m")]
    max_bytes: u64,
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values
    #[arg(long, requires = "query")]
    csv: bool,
}

/// How long a query may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The whole of `--json`.
#[derive(Serialize)]
struct SqlJson<'a> {
    v: u32,
    columns: &'a [String],
    rows: Vec<Vec<serde_json::Value>>,
    truncated: bool,
}

pub(crate) fn sql(world: &mut World, args: &SqlArgs) -> Result<(), Failure> {
    let Some(query) = &args.query else {
        return if args.json { views_json(world) } else { views(world) };
    };
    let homes: Vec<PathBuf> = world.homes()?.list.iter().map(root_of).collect();
    let prices = prices::in_force(world, None)?;
    let (mut catalog, _) = args.catalog.open(world)?;
    let redactor = world.redactor();
    let zone = TimeZone::system();
    let wish = SqlWish {
        homes: &homes,
        rows: args.limit,
        bytes: args.max_bytes,
        patience: PATIENCE,
        threads: args.catalog.threads(),
        prices: &prices,
        zone: &zone,
        redactor: &redactor,
    };
    let answer = catalog::with_bar(|progress| catalog.query(query, &wish, progress));
    let answer = answer.map_err(|error| failure(&error))?;
    if answer.left_out > 0 {
        let files = count(answer.left_out as u64, "file");
        world
            .out
            .note(&format!("{files} changed meanwhile or cannot be read, and are left out"))?;
    }
    if args.json {
        let json = |row: &Vec<SqlValue>| row.iter().map(json).collect();
        return Ok(world.out.json(&SqlJson {
            v: JSON_VERSION,
            columns: &answer.columns,
            rows: answer.rows.iter().map(json).collect(),
            truncated: answer.is_cut,
        })?);
    }
    if args.csv {
        print_csv(world, &answer)?;
    } else {
        print_table(world, &answer)?;
    }
    if answer.is_cut {
        let (rows, most) = (answer.rows.len(), size(args.max_bytes));
        let text = format!(
            "there are more than these {rows} rows: raise `--limit` (now {}) or `--max-bytes` \
             (now {most})",
            args.limit
        );
        world.out.note(&text)?;
    }
    Ok(())
}

/// What the user is told about a query that has no answer.
fn failure(error: &SqlError) -> Failure {
    let hint = match error {
        SqlError::Catalog(error) => return catalog::failure(error),
        SqlError::Refused(_) => "`quipu sql` without a query prints the views",
        SqlError::Wrong(_) => "`quipu sql` without a query prints the views and their columns",
        SqlError::Slow(_) | SqlError::Large => "ask for less, or join on fewer rows",
    };
    Failure::usage(one_line(&error.to_string()), Some(hint))
}

fn views(world: &mut World) -> Result<(), Failure> {
    world.page()?;
    for (at, view) in VIEWS.iter().enumerate() {
        if at > 0 {
            writeln!(world.out)?;
        }
        let head = world.out.style(BOLD, view.name);
        writeln!(world.out, "{head}: {}", view.about)?;
        let width = view.columns.iter().map(|column| column.0.len()).max().unwrap_or(0);
        for (name, about) in view.columns {
            let about = world.out.style(DIM, about);
            writeln!(world.out, "  {name:width$}  {about}")?;
        }
    }
    Ok(())
}

/// The whole of `--json` without a query.
#[derive(Serialize)]
struct ViewsJson {
    v: u32,
    views: Vec<ViewJson>,
}

#[derive(Serialize)]
struct ViewJson {
    name: &'static str,
    about: &'static str,
    columns: Vec<ColumnJson>,
}

#[derive(Serialize)]
struct ColumnJson {
    name: &'static str,
    about: &'static str,
}

fn views_json(world: &mut World) -> Result<(), Failure> {
    let view = |view: &View| ViewJson {
        name: view.name,
        about: view.about,
        columns: view.columns.iter().map(|&(name, about)| ColumnJson { name, about }).collect(),
    };
    let views = VIEWS.iter().map(view).collect();
    Ok(world.out.json(&ViewsJson { v: JSON_VERSION, views })?)
}

fn json(value: &SqlValue) -> serde_json::Value {
    match value {
        SqlValue::Null => serde_json::Value::Null,
        SqlValue::Integer(number) => (*number).into(),
        SqlValue::Real(number) => (*number).into(),
        SqlValue::Text(text) => text.as_str().into(),
    }
}

/// A value as text.
fn shown(value: &SqlValue) -> String {
    match value {
        SqlValue::Null => String::new(),
        SqlValue::Integer(number) => number.to_string(),
        SqlValue::Real(number) => number.to_string(),
        SqlValue::Text(text) => text.clone(),
    }
}

fn print_csv(world: &mut World, answer: &SqlAnswer) -> Result<(), Failure> {
    let head: Vec<String> = answer.columns.iter().map(|name| csv::cell(name)).collect();
    writeln!(world.out, "{}", head.join(","))?;
    for row in &answer.rows {
        let cells = row.iter().map(|value| match value {
            SqlValue::Text(text) => csv::cell(text),
            other => shown(other),
        });
        writeln!(world.out, "{}", cells.collect::<Vec<_>>().join(","))?;
    }
    Ok(())
}

/// How many characters of a cell are shown.
const WIDEST: usize = 100;

fn print_table(world: &mut World, answer: &SqlAnswer) -> Result<(), Failure> {
    let is_number = |at: usize| {
        answer.rows.iter().all(|row| !matches!(row[at], SqlValue::Text(_)))
            && answer.rows.iter().any(|row| row[at] != SqlValue::Null)
    };
    let column = |(at, name): (usize, &String)| {
        if is_number(at) { Column::right(name) } else { Column::left(name) }
    };
    let columns: Vec<Column> = answer.columns.iter().enumerate().map(column).collect();
    let mut table = Table::new(&columns);
    // The widest column of texts is cut if the terminal is too narrow.
    let widths = (0..columns.len()).filter(|at| !is_number(*at)).map(|at| {
        let cells = answer.rows.iter().map(|row| shown(&row[at]).len());
        (cells.max().unwrap_or(0), at)
    });
    if let Some((_, at)) = widths.max() {
        table = table.flexible(at);
    }
    for row in &answer.rows {
        let cells = row.iter().map(|value| {
            let start: String = shown(value).chars().take(4 * WIDEST).collect();
            fit(&one_line(&start), WIDEST)
        });
        table.row(&cells.collect::<Vec<_>>());
    }
    world.page()?;
    Ok(table.write(&mut world.out)?)
}
