//! Text that a program coloured for a terminal, as lines in the console's colours.
//!
//! Invariant: only colours and weights are taken over, as one of the terminal's sixteen colours;
//! everything else that a terminal would obey is left out, as in [`output_lines`].

use crate::text::{Color, Line, Modifier, Span, Style, output_lines};

/// The first lines of a text, with its colours.
pub fn colored_lines(text: &str, most: usize) -> Vec<Line<'static>> {
    let mut style = Style::new();
    text.lines().take(most).map(|line| colored(line, &mut style)).collect()
}

/// One line. A style goes on in the next line, as in a terminal.
fn colored(line: &str, style: &mut Style) -> Line<'static> {
    let mut spans = Vec::new();
    let mut push = |text: &str, style: Style| {
        let text = output_lines(text).concat();
        if !text.is_empty() {
            spans.push(Span::styled(text, style));
        }
    };
    let (mut rest, mut start) = (line, 0);
    while let Some(found) = rest[start..].find("\u{1b}[") {
        let at = start + found;
        let codes = &rest[at + 2..];
        let end = codes.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'));
        match end {
            Some(end) if codes[end..].starts_with('m') => {
                push(&rest[..at], *style);
                apply(&codes[..end], style);
                (rest, start) = (&codes[end + 1..], 0);
            }
            _ => start = at + 2,
        }
    }
    push(rest, *style);
    Line::from(spans)
}

/// Changes a style as the codes of a sequence say.
fn apply(codes: &str, style: &mut Style) {
    let mut codes = codes.split([';', ':']).map(|code| code.parse::<u16>().unwrap_or(0));
    while let Some(code) = codes.next() {
        *style = match code {
            0 => Style::new(),
            1 => style.add_modifier(Modifier::BOLD),
            2 => style.add_modifier(Modifier::DIM),
            3 => style.add_modifier(Modifier::ITALIC),
            4 => style.add_modifier(Modifier::UNDERLINED),
            7 => style.add_modifier(Modifier::REVERSED),
            9 => style.add_modifier(Modifier::CROSSED_OUT),
            22 => style.remove_modifier(Modifier::BOLD | Modifier::DIM),
            23 => style.remove_modifier(Modifier::ITALIC),
            24 => style.remove_modifier(Modifier::UNDERLINED),
            27 => style.remove_modifier(Modifier::REVERSED),
            29 => style.remove_modifier(Modifier::CROSSED_OUT),
            30..=37 => style.fg(basic(code - 30)),
            90..=97 => style.fg(basic(code - 90)),
            39 => Style { fg: None, ..*style },
            38 => Style { fg: more(&mut codes), ..*style },
            // Backgrounds would hide text in one of two themes.
            48 => {
                more(&mut codes);
                *style
            }
            _ => *style,
        };
    }
}

fn basic(number: u16) -> Color {
    let colors = [Color::Black, Color::Red, Color::Green, Color::Yellow];
    let more = [Color::Blue, Color::Magenta, Color::Cyan, Color::Gray];
    colors.into_iter().chain(more).nth(usize::from(number)).unwrap_or(Color::Gray)
}

/// A colour of 256 or of all, as the nearest of the first eight; None: the usual one.
fn more(codes: &mut impl Iterator<Item = u16>) -> Option<Color> {
    match codes.next()? {
        5 => match codes.next()? {
            number @ 0..=15 => Some(basic(number % 8)),
            number @ 16..=231 => {
                let cube = number - 16;
                let part = |by: u16| cube / by % 6 * 51;
                Some(nearest(part(36), part(6), part(1)))
            }
            _ => None,
        },
        2 => Some(nearest(codes.next()?, codes.next()?, codes.next()?)),
        _ => None,
    }
}

fn nearest(red: u16, green: u16, blue: u16) -> Color {
    let most = red.max(green).max(blue);
    let bit = |part: u16| u16::from(most > 0 && part * 3 >= most * 2);
    basic(bit(red) | bit(green) << 1 | bit(blue) << 2)
}

#[cfg(test)]
#[path = "sgr_tests.rs"]
mod tests;
