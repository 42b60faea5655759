//! Tables: in columns if they fit, as they were written if not.

use super::inline::inline;
use crate::text::{Line, Span, Style, look, safe, width};

/// The lines of a table.
pub(super) fn table(rows: &[String], most: usize) -> Vec<Line<'static>> {
    let as_written = || rows.iter().map(|row| Line::from(safe(row))).collect();
    let is_rule = |row: &&String| {
        row.contains('-') && row.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '))
    };
    if rows.len() < 2 || !is_rule(&&rows[1]) {
        return as_written();
    }
    let ends: Vec<bool> =
        cells(&rows[1]).iter().map(|cell| cell.ends_with(':') && !cell.starts_with(':')).collect();
    let mut table: Vec<Vec<Line<'static>>> = Vec::new();
    for (number, row) in rows.iter().enumerate().filter(|(number, _)| *number != 1) {
        let style = if number == 0 { look::BOLD } else { Style::new() };
        let cell = |text: &String| inline(text, style).into_iter().next().unwrap_or_default();
        table.push(cells(row).iter().map(cell).collect());
    }
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| table.iter().filter_map(|row| row.get(column)).map(width).max();
    let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
    if widths.iter().sum::<usize>() + 3 * columns.saturating_sub(1) > most {
        return as_written();
    }
    let mut lines = Vec::new();
    for (number, row) in table.into_iter().enumerate() {
        let mut line = Line::default();
        let count = row.len();
        for (column, cell) in row.into_iter().enumerate() {
            if column > 0 {
                line.spans.push(Span::styled(" │ ", look::DIM));
            }
            let fill = " ".repeat(widths[column] - width(&cell));
            let is_right = ends.get(column).copied().unwrap_or(false);
            if is_right {
                line.spans.push(Span::raw(fill.clone()));
            }
            line.spans.extend(cell.spans);
            // Nothing is filled up at the end of a line.
            if !is_right && column + 1 < count {
                line.spans.push(Span::raw(fill));
            }
        }
        lines.push(line);
        if number == 0 {
            let rule: Vec<String> = widths.iter().map(|wide| "─".repeat(*wide)).collect();
            lines.push(Line::from(Span::styled(rule.join("─┼─"), look::DIM)));
        }
    }
    lines
}

/// The cells of a row.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|');
    let row = row.strip_suffix('|').unwrap_or(row);
    let mut cells = vec![String::new()];
    let (mut is_code, mut is_escaped) = (false, false);
    for c in row.chars() {
        if c == '|' && !is_code && !is_escaped {
            cells.push(String::new());
            continue;
        }
        is_code ^= c == '`';
        is_escaped = c == '\\';
        if let Some(cell) = cells.last_mut() {
            cell.push(c);
        }
    }
    cells.into_iter().map(|cell| cell.trim().replace("\\|", "|")).collect()
}
