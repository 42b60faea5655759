//! The picker on a screen: the query, the list, a preview, the keys.
//!
//! Invariants: it only reads the state; every text is made printable here; it fits any size, and
//! says the same without colours.

use std::time::SystemTime;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget, Wrap};
use transcript::conversation::preview::Preview;
use unicode_segmentation::UnicodeSegmentation;

use super::rows::PickRow;
use super::state::{Picker, Search};
use crate::survey::{headline, short_id, short_path};
use crate::text::{age, columns, count, fit, local, one_line, printable, size};
use crate::world::World;

/// From this width on, the preview is beside the list.
const WIDE: u16 = 120;
/// From this width on, the list has a column for the project.
const WITH_PROJECT: usize = 60;
/// With fewer lines than this, there is no preview.
const LOW: u16 = 10;
/// From this height on, a preview has its facts on more lines.
const HIGH: u16 = 7;
/// How much of a text a preview has, in characters.
const LONGEST: usize = 2_000;

/// How things look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    has_color: bool,
    now: SystemTime,
}

impl Look {
    pub(super) fn new(world: &World) -> Look {
        Look { has_color: world.out.has_color(), now: world.now }
    }

    #[cfg(test)]
    pub(super) fn plain(now: SystemTime) -> Look {
        Look { has_color: false, now }
    }

    fn color(self, color: Color) -> Style {
        if self.has_color { Style::new().fg(color) } else { Style::new() }
    }

    fn mark(self) -> Style {
        self.color(Color::Yellow).add_modifier(Modifier::BOLD)
    }
}

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// Where everything is.
struct Areas {
    input: Rect,
    list: Rect,
    /// With a line, or a column, that separates it from the list.
    preview: Option<Rect>,
    keys: Rect,
}

impl Areas {
    fn of(area: Rect) -> Areas {
        let Rect { x, y, width, height } = area;
        let input = Rect { height: height.min(1), ..area };
        let keys = Rect { y: y + height.saturating_sub(1), height: u16::from(height > 1), ..area };
        let middle = Rect { y: y + 1, height: height.saturating_sub(2), ..area };
        if height < LOW {
            return Areas { input, list: middle, preview: None, keys };
        }
        let (list, preview) = if width >= WIDE {
            let left = width / 2;
            (
                Rect { width: left - 1, ..middle },
                Rect { x: x + left, width: width - left, ..middle },
            )
        } else {
            let low = (middle.height * 2 / 5).clamp(5, 12);
            let high = middle.height - low;
            (Rect { height: high, ..middle }, Rect { y: middle.y + high, height: low, ..middle })
        };
        Areas { input, list, preview: Some(preview), keys }
    }
}

/// How many rows a screen shows.
pub(super) fn page(area: Rect) -> usize {
    Areas::of(area).list.height.into()
}

pub(super) fn draw(frame: &mut Frame<'_>, picker: &Picker, look: &Look) {
    let areas = Areas::of(frame.area());
    if frame.area().is_empty() {
        return;
    }
    let cursor = input(frame.buffer_mut(), areas.input, picker);
    frame.set_cursor_position((cursor, areas.input.y));
    list(frame.buffer_mut(), areas.list, picker, *look);
    if let Some(area) = areas.preview {
        preview(frame.buffer_mut(), area, picker, *look);
    }
    keys(frame.buffer_mut(), areas.keys, picker, *look);
}

/// Draws what is typed, and how many sessions fit. Returns the column of the cursor.
fn input(buffer: &mut Buffer, area: Rect, picker: &Picker) -> u16 {
    let searching = if picker.search == Search::Running { "… " } else { "" };
    let state = format!("{searching}{}/{}", picker.shown.len(), picker.total());
    let width = usize::from(area.width);
    let state_width = if columns(&state) + 12 <= width { columns(&state) } else { 0 };
    if state_width > 0 {
        let x = area.right() - u16::try_from(state_width).unwrap_or_default();
        buffer.set_string(x, area.y, &state, DIM);
    }
    buffer.set_stringn(area.x, area.y, "> ", width, BOLD);
    let room = width.saturating_sub(2 + state_width + usize::from(state_width > 0));
    // The part around the cursor: one column more than the text, for the cursor behind it.
    let (mut text, mut cursor) = (picker.input.text(), picker.input.cursor());
    while cursor >= room.max(1) && !text.is_empty() {
        let first = text.graphemes(true).next().unwrap_or_default();
        text = &text[first.len()..];
        cursor -= columns(first).min(cursor);
    }
    let x = area.x + 2.min(area.width);
    buffer.set_stringn(x, area.y, text, room, Style::new());
    (x + u16::try_from(cursor).unwrap_or_default()).min(area.right().saturating_sub(1))
}

fn list(buffer: &mut Buffer, area: Rect, picker: &Picker, look: Look) {
    let height = usize::from(area.height);
    if picker.shown.is_empty() && height > 0 {
        let text = match picker.search {
            Search::Running => "searching …",
            _ if picker.input.text().is_empty() => "no sessions",
            _ => "no session fits",
        };
        let width = usize::from(area.width).saturating_sub(2);
        buffer.set_stringn(area.x + 2.min(area.width), area.y, text, width, DIM);
        return;
    }
    // The selection moves through the screen; the list moves if it would leave it.
    let top = (picker.at / height.max(1)) * height.max(1);
    let rows = picker.shown.iter().skip(top).take(height).filter_map(|at| picker.rows.get(*at));
    let rows: Vec<&PickRow> = rows.collect();
    let projects = rows.iter().map(|row| columns(&project(row))).max().unwrap_or(0);
    let width = usize::from(area.width);
    let project_width = if width >= WITH_PROJECT { projects.min(width / 4) } else { 0 };
    for (at, row) in rows.into_iter().enumerate() {
        let is_selected = top + at == picker.at;
        let y = area.y + u16::try_from(at).unwrap_or_default();
        let line = row_line(row, look, project_width, width, is_selected);
        buffer.set_line(area.x, y, &line, area.width);
        if is_selected {
            let row = Rect { y, height: 1, ..area };
            buffer.set_style(row, Style::new().add_modifier(Modifier::REVERSED));
        }
    }
}

fn project(row: &PickRow) -> String {
    one_line(&short_path(row.one.project()))
}

fn row_line(
    row: &PickRow,
    look: Look,
    project_width: usize,
    width: usize,
    is_selected: bool,
) -> Line<'static> {
    let since = look.now.duration_since(row.one.session.modified).unwrap_or_default();
    let mark = if is_selected { "> " } else { "  " };
    let mut spans =
        vec![Span::raw(mark), Span::styled(format!("{:>4}  ", age(since.as_secs())), DIM)];
    let mut used = 8;
    if project_width > 0 {
        let project = fit(&project(row), project_width);
        let pad = project_width.saturating_sub(columns(&project)) + 2;
        let style = if row.is_here { Style::new() } else { DIM };
        spans.push(Span::styled(format!("{project}{}", " ".repeat(pad)), style));
        used += project_width + 2;
    }
    if row.is_deleted {
        spans.push(Span::styled("deleted  ", look.color(Color::Red)));
        used += 9;
    }
    let title = if row.is_seen { headline(&row.one) } else { "…".to_owned() };
    spans.push(Span::raw(fit(&title, width.saturating_sub(used))));
    Line::from(spans)
}

fn preview(buffer: &mut Buffer, area: Rect, picker: &Picker, look: Look) {
    let is_beside = area.width < buffer.area.width;
    let inner = if is_beside {
        for y in area.top()..area.bottom() {
            buffer.set_string(area.x, y, "│", DIM);
        }
        Rect { x: area.x + 2, width: area.width.saturating_sub(2), ..area }
    } else {
        buffer.set_string(area.x, area.y, "─".repeat(area.width.into()), DIM);
        Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }
    };
    let Some(row) = picker.selected() else { return };
    let mut lines = facts(row, picker, look, inner);
    let seen = row.one.seen.as_ref().ok();
    if let Some(hit) = picker.hit() {
        let mut spans = vec![Span::styled(format!("{}: ", one_line(&hit.place)), DIM)];
        let mut at = 0;
        for mark in &hit.snippet.marks {
            spans.push(Span::raw(printable(&hit.snippet.text[at..mark.start])));
            spans.push(Span::styled(printable(&hit.snippet.text[mark.clone()]), look.mark()));
            at = mark.end;
        }
        spans.push(Span::raw(printable(&hit.snippet.text[at..])));
        lines.push(Line::from(spans));
    }
    let prompt = seen.and_then(|seen| seen.prompt.as_deref());
    if let Some(prompt) = prompt.filter(|_| seen.is_some_and(|seen| seen.title.is_some())) {
        lines.push(labelled("first prompt", prompt));
    }
    if let Some(answer) = picker.peek().and_then(|peek| peek.answer.as_deref()) {
        lines.push(labelled("last answer", answer));
    }
    Paragraph::new(lines).wrap(Wrap { trim: true }).render(inner, buffer);
}

/// A text of the session, on one line; it is wrapped where it is drawn.
fn labelled(what: &str, text: &str) -> Line<'static> {
    let start: String = text.chars().take(LONGEST).collect();
    Line::from(vec![Span::styled(format!("{what}: "), DIM), Span::raw(one_line(&start))])
}

/// What is known of a session: one line each, cut if they are too long.
fn facts(row: &PickRow, picker: &Picker, look: Look, area: Rect) -> Vec<Line<'static>> {
    let width = usize::from(area.width);
    let title = Line::from(Span::styled(fit(&headline(&row.one), width), BOLD));
    let seen = match &row.one.seen {
        Ok(seen) => seen,
        Err(error) => {
            let text = one_line(&error.to_string());
            return vec![title, Line::from(Span::styled(text, look.color(Color::Red)))];
        }
    };
    let is_narrow = width < WITH_PROJECT;
    let id = if is_narrow { short_id(&row.one.session) } else { one_line(&row.one.session.id) };
    let mut about = vec![id];
    about.extend(row.prompts.map(|prompts| count(prompts, "prompt")));
    about.push(size(row.one.session.size));
    let mut times: Vec<String> = when(seen).into_iter().collect();
    times.extend(seen.version.as_ref().map(|version| format!("Claude Code {version}")));
    let mut lines = vec![title];
    let about = if area.height < HIGH { vec![[about, times].concat()] } else { vec![about, times] };
    for facts in about {
        lines.push(Line::from(Span::styled(fit(&one_line(&facts.join(" · ")), width), DIM)));
    }
    let is_gone = picker.peek().is_some_and(|peek| !peek.has_folder);
    let branch = seen.branch.as_deref().filter(|branch| !branch.is_empty());
    let branch = branch.map(|branch| format!(" ({})", one_line(branch))).unwrap_or_default();
    let gone = if is_gone { "  this folder is gone" } else { "" };
    let room = width.saturating_sub(columns(gone));
    let place = fit(&format!("in {}{branch}", one_line(row.one.project())), room);
    lines.push(Line::from(vec![
        Span::styled(place, DIM),
        Span::styled(gone, look.color(Color::Red)),
    ]));
    let troubles = row.one.troubles(&[]);
    if !troubles.is_empty() {
        let text = format!("damage: {} (`quipu check`)", troubles.join(", "));
        lines.push(Line::from(Span::styled(fit(&text, width), look.color(Color::Yellow))));
    }
    lines
}

/// When the session began and ended.
fn when(seen: &Preview) -> Option<String> {
    let (start, end) = (seen.started?, seen.ended?);
    let (first, last) = (local(start, "%Y-%m-%d"), local(end, "%Y-%m-%d"));
    let form = if first == last { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    Some(format!("{} to {}", local(start, "%Y-%m-%d %H:%M"), local(end, form)))
}

/// The last line: what happened, or the keys.
fn keys(buffer: &mut Buffer, area: Rect, picker: &Picker, look: Look) {
    if area.is_empty() {
        return;
    }
    let width = usize::from(area.width);
    let note = match (&picker.message, &picker.search, picker.reading) {
        (Some(text), _, _) => Some((text.clone(), BOLD)),
        (None, Search::Failed(text), _) => Some((text.clone(), look.color(Color::Yellow))),
        (None, _, Some((done, total))) => {
            let percent = (done * 100).checked_div(total).unwrap_or(100).min(100);
            let text = format!("reading sessions: {percent} % can be searched");
            Some((text, DIM))
        }
        (None, _, None) => None,
    };
    if let Some((text, style)) = note {
        buffer.set_stringn(area.x, area.y, fit(&one_line(&text), width), width, style);
        return;
    }
    let verb = picker.verb.as_str();
    let long =
        [("Enter", verb), ("^R", "resume"), ("^F", "fork"), ("^Y", "copy id"), ("Esc", "leave")];
    let short = [("Enter", verb), ("^R", "resume"), ("^F", "fork"), ("^Y", "id"), ("Esc", "")];
    let wanted = |all: &[(&str, &str)], gap: usize| -> usize {
        all.iter().map(|(key, what)| key.len() + 1 + columns(what) + gap).sum::<usize>() - gap
    };
    let (all, gap) = if wanted(&long, 2) <= width { (long, "  ") } else { (short, " ") };
    let mut spans = Vec::new();
    for (key, what) in all {
        if !spans.is_empty() {
            spans.push(Span::raw(gap));
        }
        spans.push(Span::styled(key, BOLD));
        spans.push(Span::styled(format!(" {what}"), DIM));
    }
    buffer.set_line(area.x, area.y, &Line::from(spans), area.width);
}
