use std::io::Read as _;

use bytes::Bytes;
use parquet::data_type::Decimal;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::record::Field;
use testkit::Rng;

use super::{Cell, Object, Sheet};
use crate::schema::{Column, Holds, Null, TABLES};

/// How the values of a column look.
#[derive(Clone, Copy, Debug)]
enum Style {
    Constant,
    Runs,
    Few,
    Many,
    Different,
    Extreme,
    Missing,
}

const STYLES: [Style; 7] = [
    Style::Constant,
    Style::Runs,
    Style::Few,
    Style::Many,
    Style::Different,
    Style::Extreme,
    Style::Missing,
];

/// A value of a column, without its type.
fn number_of(chance: &mut Rng, style: Style, row: usize) -> Option<i64> {
    let random = |chance: &mut Rng, below: usize| i64::try_from(chance.below(below)).unwrap();
    match style {
        Style::Constant => Some(41),
        Style::Runs => Some(i64::try_from(row / 13).unwrap() % 5).filter(|number| *number != 3),
        Style::Few => Some(random(chance, 300)).filter(|number| number % 7 != 0),
        // More words than one byte numbers.
        Style::Many => Some(random(chance, 6_000)),
        Style::Different => Some(random(chance, 1 << 40) - (1 << 20)),
        Style::Extreme => {
            let all = [i64::MIN, -1, 0, 1, LONG_TEXT, i64::MAX];
            Some(all[[0, 1, 2, 3, 5, 5, 5, 4][chance.below(8)]]).filter(|_| row % 8 < 5)
        }
        Style::Missing => None,
    }
}

/// Stands for a text that is longer than two bytes can say.
const LONG_TEXT: i64 = i64::MAX - 1;

fn words(column: &Column, number: i64) -> String {
    if number == LONG_TEXT {
        return "\u{e9}\u{1f600}\u{202e}".repeat(8_000);
    }
    match number.rem_euclid(4) {
        0 => String::new(),
        1 => format!("{} · {number}", column.name),
        2 => format!("{number}").repeat(9),
        _ => format!("\u{0}\"{number}\u{1f600}"),
    }
}

/// The cell, its text if it has one, and what a reader should find.
fn made(column: &Column, number: Option<i64>) -> (Cell<'static>, Option<String>, Field) {
    let Some(number) = number else { return (Cell::Null, None, Field::Null) };
    match column.holds {
        Holds::Text => {
            let text = words(column, number);
            (Cell::Null, Some(text.clone()), Field::Str(text))
        }
        Holds::Number => (Cell::Number(number), None, Field::Long(number)),
        Holds::Dollars => {
            (Cell::Number(number), None, Field::Decimal(Decimal::from_i64(number, 18, 12)))
        }
        Holds::Moment => (Cell::Number(number), None, Field::TimestampMillis(number)),
        Holds::Day => {
            let days = i32::try_from(number % 100_000).unwrap();
            (Cell::Days(days), None, Field::Date(days))
        }
        Holds::Flag => (Cell::Flag(number % 2 == 1), None, Field::Bool(number % 2 == 1)),
    }
}

fn opened(object: &mut Object) -> SerializedFileReader<Bytes> {
    let mut bytes = Vec::new();
    object.bytes().unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, object.size);
    SerializedFileReader::new(Bytes::from(bytes)).unwrap()
}

const COMMON_CELLS: [Cell<'_>; 7] = [
    Cell::Number(2),
    Cell::Text("m1"),
    Cell::Null,
    Cell::Text("knots"),
    Cell::Null,
    Cell::Text("0a0b"),
    Cell::Text("meta"),
];

fn common_fields() -> Vec<Field> {
    let text = |text: &str| Field::Str(text.to_owned());
    let (team, session) = (text("knots"), text("0a0b"));
    vec![Field::Long(2), text("m1"), Field::Null, team, Field::Null, session, text("meta")]
}

/// Rows of every table, of any number and look, are read back as they were written, and so are the
/// least and the greatest values that engines skip files by.
#[test]
fn what_is_written_is_read_back() {
    let mut chance = Rng::new(11);
    for (table, schema) in TABLES.iter().enumerate() {
        let many = if schema.name == "messages" { 60_000 } else { 2_000 };
        for rows in [0, 1, 2, 7, 8, 9, 31, 64, 65, 500, many] {
            let columns: Vec<&Column> = schema.columns().collect();
            let style = |column: &&Column| match column.null {
                Null::Maybe => *chance.pick(&STYLES),
                Null::Never => *chance.pick(&[Style::Constant, Style::Many, Style::Different]),
            };
            let styles: Vec<Style> = columns.iter().map(style).collect();
            let mut sheet = Sheet::new(table, &COMMON_CELLS);
            let mut wanted = Vec::new();
            for row in 0..rows {
                let cells: Vec<_> = columns
                    .iter()
                    .zip(&styles)
                    .map(|(column, style)| made(column, number_of(&mut chance, *style, row)))
                    .collect();
                let line: Vec<Cell<'_>> = cells
                    .iter()
                    .map(|(cell, text, _)| text.as_deref().map_or(cell.clone(), Cell::Text))
                    .collect();
                sheet.add(&line).unwrap();
                wanted.push(cells.into_iter().map(|(_, _, field)| field).collect::<Vec<_>>());
            }
            let mut object = sheet.finish().unwrap();
            assert_eq!(object.rows, rows as u64);
            let reader = opened(&mut object);
            let whole = reader.metadata().file_metadata();
            assert_eq!(whole.num_rows(), i64::try_from(rows).unwrap());
            // Long texts make more groups than many rows do.
            assert!(reader.num_row_groups() > 1 || rows <= 50_000);
            let mut read = 0;
            for (row, wanted) in reader.get_row_iter(None).unwrap().zip(&wanted) {
                let (names, found): (Vec<String>, Vec<Field>) =
                    row.unwrap().into_columns().into_iter().unzip();
                assert!(names.iter().map(String::as_str).eq(schema.all().map(|one| one.name)));
                let wanted: Vec<Field> =
                    common_fields().into_iter().chain(wanted.clone()).collect();
                assert_eq!(found, wanted, "{}, row {read} of {rows}: {styles:?}", schema.name);
                read += 1;
            }
            assert_eq!(read, rows);
            for group in reader.metadata().row_groups() {
                for (column, found) in schema.all().zip(group.columns()) {
                    ranges(column, found.statistics().unwrap());
                }
            }
            // Of one group, the values are known.
            if rows > 0 && reader.num_row_groups() == 1 {
                let at = |name: &str| columns.iter().position(|column| column.name == name);
                if let (Some(at), Some(column)) =
                    (at("line"), schema.all().position(|c| c.name == "line"))
                {
                    let numbers = wanted.iter().filter_map(|row| match row[at] {
                        Field::Long(number) => Some(number),
                        _ => None,
                    });
                    let numbers: Vec<i64> = numbers.collect();
                    let found = reader.metadata().row_group(0).column(column).statistics().unwrap();
                    let Statistics::Int64(found) = found else { panic!("{found:?}") };
                    assert_eq!(found.min_opt(), numbers.iter().min());
                    assert_eq!(found.max_opt(), numbers.iter().max());
                    let nulls = rows - numbers.len();
                    assert_eq!(found.null_count_opt(), Some(nulls as u64));
                }
            }
        }
    }
}

/// Texts have no least value; others have one if they have a value at all.
fn ranges(column: &Column, found: &Statistics) {
    let has = found.min_bytes_opt().is_some();
    assert_eq!(has, found.max_bytes_opt().is_some());
    assert!(!has || column.holds != Holds::Text, "{}", column.name);
    assert!(found.null_count_opt().is_some());
}

/// Long texts are in several groups, and compressed.
#[test]
fn long_texts_make_several_groups() {
    let at = |name: &str| TABLES.iter().position(|table| table.name == name).unwrap();
    let table = at("findings");
    let text = "all work and no play ".repeat(60_000);
    let mut sheet = Sheet::new(table, &COMMON_CELLS);
    for line in 0..9 {
        let cells = [
            Cell::Text("damaged-line"),
            Cell::Text("warning"),
            Cell::Null,
            Cell::Number(line),
            Cell::Number(0),
            Cell::Text(&text),
        ];
        sheet.add(&cells).unwrap();
    }
    let mut object = sheet.finish().unwrap();
    assert!(object.size < 100_000, "{}", object.size);
    let reader = opened(&mut object);
    assert_eq!(reader.num_row_groups(), 3);
    let texts = reader.get_row_iter(None).unwrap().map(|row| {
        let (_, last) = row.unwrap().into_columns().pop().unwrap();
        last
    });
    assert!(texts.eq(std::iter::repeat_n(Field::Str(text), 9)));
}
