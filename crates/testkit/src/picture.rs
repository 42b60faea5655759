//! Pictures of what a program writes to a terminal, as SVG: the text with its colours, in a window.
//!
//! Knows the colours and styles that our output uses; another escape is a failure, not a stain. Each
//! run of characters has its place and its length, so that columns stand whatever font is there.

use std::fmt::Write as _;

/// One cell.
const WIDTH: f32 = 8.4;
const HEIGHT: usize = 19;
/// Around the text, and above it for the bar of the window.
const MARGIN: usize = 16;
const BAR: usize = 34;

/// The picture of an output, under the command that made it.
pub fn svg(command: &str, output: &str) -> Result<String, String> {
    let lines: Vec<&str> = output.trim_end().lines().collect();
    let mut body = String::new();
    let mut widest = columns(command) + 2;
    let mut y = BAR + MARGIN;
    let prompt = Style { color: "#7f848e", ..Style::default() };
    run(&mut body, 0, y, "$ ", prompt);
    run(&mut body, 2, y, command, Style { is_bold: true, ..Style::default() });
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
                style = style.with(code).ok_or_else(|| format!("no style is called `{code}`"))?;
            }
            text = rest;
        }
        widest = widest.max(column);
    }
    let width = place(widest) + 2.0 * f32::from(u8::try_from(MARGIN).unwrap_or_default());
    let height = y + MARGIN;
    Ok(format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height}" viewBox="0 0 {width:.0} {height}">
<style>text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; fill: #d7dae0 }}</style>
<rect width="100%" height="100%" rx="8" fill="#1e2127"/>
<circle cx="20" cy="18" r="6" fill="#e06c75"/><circle cx="40" cy="18" r="6" fill="#e5c07b"/><circle cx="60" cy="18" r="6" fill="#98c379"/>
{body}</svg>
"##
    ))
}

#[derive(Clone, Copy, Default)]
struct Style {
    /// None: as the window has it.
    color: &'static str,
    is_bold: bool,
    is_dim: bool,
}

impl Style {
    fn with(self, code: &str) -> Option<Style> {
        Some(match code {
            "0" | "" => Style::default(),
            "1" => Style { is_bold: true, ..self },
            "2" => Style { is_dim: true, ..self },
            "31" => Style { color: "#e06c75", ..self },
            "32" => Style { color: "#98c379", ..self },
            "33" => Style { color: "#e5c07b", ..self },
            "34" => Style { color: "#61afef", ..self },
            "35" => Style { color: "#c678dd", ..self },
            "36" => Style { color: "#56b6c2", ..self },
            "39" => Style { color: "", ..self },
            _ => return None,
        })
    }
}

/// Writes a run of characters. Blanks at both ends need no ink.
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
    let shown = shown.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ =
        writeln!(body, r#"<text x="{x:.1}" y="{y}" textLength="{length:.1}"{look}>{shown}</text>"#);
}

/// How many cells a text takes.
fn columns(text: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(text)
}

/// Where a column begins.
fn place(column: usize) -> f32 {
    WIDTH * f32::from(u16::try_from(column).unwrap_or(u16::MAX))
}
