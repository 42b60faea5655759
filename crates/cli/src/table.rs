//! Tables for people: columns as wide as they need to be, numbers aligned to the right.
//!
//! Widths are those of a terminal, so wide characters line up. One column may be cut if a terminal
//! is too narrow. Cells are made printable here.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use crate::out::{BOLD, Out};
use crate::text::{fit, printable};

/// How wide the flexible column may be without a terminal.
const UNBOUNDED: usize = 72;

#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// The column that is cut if the terminal is too narrow.
    flexible: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Column {
    name: String,
    align: Align,
}

#[derive(Clone, Copy, Debug)]
enum Align {
    Left,
    Right,
}

impl Column {
    pub(crate) fn left(name: &str) -> Self {
        Column { name: printable(name), align: Align::Left }
    }

    /// For numbers.
    pub(crate) fn right(name: &str) -> Self {
        Column { name: printable(name), align: Align::Right }
    }
}

impl Table {
    pub(crate) fn new(columns: &[Column]) -> Self {
        Table { columns: columns.to_vec(), rows: Vec::new(), flexible: None }
    }

    pub(crate) fn flexible(mut self, column: usize) -> Self {
        self.flexible = Some(column);
        self
    }

    pub(crate) fn row(&mut self, cells: &[String]) {
        self.rows.push(cells.iter().map(|cell| printable(cell)).collect());
    }

    pub(crate) fn write(&self, out: &mut Out) -> io::Result<()> {
        let head: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        let mut widths: Vec<usize> = (0..head.len())
            .map(|column| {
                let cells = self.rows.iter().chain([&head]).map(|row| row[column].width());
                cells.max().unwrap_or(0)
            })
            .collect();
        if let Some(column) = self.flexible {
            let others: usize = widths.iter().sum::<usize>() - widths[column];
            let room = out.width.map_or(UNBOUNDED, |screen| {
                screen.saturating_sub(others + 2 * (widths.len() - 1)).max(10)
            });
            widths[column] = widths[column].min(room);
        }
        let line = out.style(BOLD, &self.line(&head, &widths));
        writeln!(out, "{line}")?;
        for row in &self.rows {
            writeln!(out, "{}", self.line(row, &widths))?;
        }
        Ok(())
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((column, cell), width) in self.columns.iter().zip(cells).zip(widths) {
            let cell = fit(cell, *width);
            let pad = " ".repeat(width - cell.width().min(*width));
            match column.align {
                Align::Left => line.extend([cell.as_str(), &pad, "  "]),
                Align::Right => line.extend([pad.as_str(), &cell, "  "]),
            }
        }
        line.trim_end().to_owned()
    }
}
