//! Draws what a program writes to a terminal as SVG: the text with its colours, in a window.
//!
//! Supports the colours and styles of the project's output; any other escape is an error, so that
//! it is not drawn wrongly. Each run of characters has its position and length, so that columns are
//! aligned with any font.

use std::fmt::Write as _;

/// The size of one cell.
const WIDTH: f32 = 8.4;
const HEIGHT: usize = 19;
/// The margin around the text, and the height of the window's title bar above it.
const MARGIN: usize = 16;
const BAR: usize = 34;

/// The colours of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// Light on dark.
    Dark,
    /// Dark on light.
    Light,
}

impl Theme {
    /// The background, the text, and what is less important.
    fn window(self) -> [&'static str; 3] {
        match self {
            Theme::Dark => ["#1e2127", "#d7dae0", "#7f848e"],
            Theme::Light => ["#f6f8fa", "#24292f", "#6e7781"],
        }
    }

    /// One of the terminal's colours, from red to cyan.
    fn color(self, number: usize) -> Option<&'static str> {
        let all = match self {
            Theme::Dark => ["#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2"],
            Theme::Light => ["#cf222e", "#1a7f37", "#9a6700", "#0969da", "#8250df", "#1b7c83"],
        };
        all.get(number.checked_sub(1)?).copied()
    }
}

/// The picture of an output, under the command that printed it; without one, of the middle of it.
pub fn svg(command: &str, output: &str, theme: Theme) -> Result<String, String> {
    let lines: Vec<&str> = output.trim_end().lines().collect();
    let mut body = String::new();
    let mut widest = columns(command) + 2;
    let mut y = BAR + MARGIN;
    let [background, foreground, dim] = theme.window();
    let prompt = Style { color: dim, ..Style::default() };
    if command.is_empty() {
        y -= HEIGHT;
    } else {
        run(&mut body, 0, y, "$ ", prompt);
        run(&mut body, 2, y, command, Style { is_bold: true, ..Style::default() });
    }
    let mut style = Style::default();
    for line in lines {
        y += HEIGHT;
        let mut column = 0;
        let mut parts = line.split("\u{1b}[");
        let mut text = parts.next().unwrap_or_default();
        loop {
            run(&mut body, column, y, text, style);
            column += columns(text);
            let Some(part) = parts.next() else { break };
            let (codes, rest) = part.split_once('m').ok_or_else(|| format!("`{part}`"))?;
            for code in codes.split(';') {
                style = style
                    .with(code, theme)
                    .ok_or_else(|| format!("no style is called `{code}`"))?;
            }
            text = rest;
        }
        widest = widest.max(column);
    }
    let width = place(widest) + 2.0 * f32::from(u8::try_from(MARGIN).unwrap_or_default());
    let height = y + MARGIN;
    Ok(format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height}" viewBox="0 0 {width:.0} {height}">
<rect width="100%" height="100%" rx="8" fill="{background}"/>
<circle cx="20" cy="18" r="6" fill="#e06c75"/><circle cx="40" cy="18" r="6" fill="#e5c07b"/><circle cx="60" cy="18" r="6" fill="#98c379"/>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14" fill="{foreground}">
{body}</g>
</svg>
"##
    ))
}

#[derive(Clone, Copy, Default)]
struct Style {
    /// Empty: the colour of the window.
    color: &'static str,
    is_bold: bool,
    is_dim: bool,
}

impl Style {
    fn with(self, code: &str, theme: Theme) -> Option<Style> {
        let number: usize = if code.is_empty() { 0 } else { code.parse().ok()? };
        Some(match number {
            0 => Style::default(),
            // How letters slant, and what is crossed out or underlined, is not drawn.
            3 | 4 | 7 | 9 | 23 | 24 | 27 | 29 | 49 => self,
            22 => Style { is_bold: false, is_dim: false, ..self },
            90 => Style { color: theme.window()[2], ..self },
            1 => Style { is_bold: true, ..self },
            2 => Style { is_dim: true, ..self },
            31..=36 => Style { color: theme.color(number - 30)?, ..self },
            39 => Style { color: "", ..self },
            _ => return None,
        })
    }
}

/// Draws a run of characters, without the blanks at both ends.
fn run(body: &mut String, column: usize, y: usize, text: &str, style: Style) {
    let shown = text.trim_start();
    let column = column + columns(text) - columns(shown);
    let shown = shown.trim_end();
    if shown.is_empty() {
        return;
    }
    let x = place(column) + f32::from(u8::try_from(MARGIN).unwrap_or_default());
    let length = place(columns(shown));
    let mut look = String::new();
    if !style.color.is_empty() {
        let _ = write!(look, r#" fill="{}""#, style.color);
    }
    if style.is_bold {
        look.push_str(r#" font-weight="bold""#);
    }
    if style.is_dim {
        look.push_str(r#" opacity="0.6""#);
    }
    // SVG would merge consecutive blanks into one.
    let shown = shown
        .replace(' ', "\u{a0}")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let _ =
        writeln!(body, r#"<text x="{x:.1}" y="{y}" textLength="{length:.1}"{look}>{shown}</text>"#);
}

/// How many cells a text takes.
fn columns(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// The position of a column.
fn place(column: usize) -> f32 {
    WIDTH * f32::from(u16::try_from(column).unwrap_or(u16::MAX))
}
