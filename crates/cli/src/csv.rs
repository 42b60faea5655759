//! Comma-separated values.

use crate::text::one_line;

/// A text as one value: quoted if necessary, and never a formula for a spreadsheet, because names
/// come from files.
pub(crate) fn cell(text: &str) -> String {
    let text = one_line(text);
    let text = if text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text };
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}
