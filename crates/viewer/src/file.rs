//! A session as one HTML file that opens from disk.
//!
//! Made of the same windows as the page of the server, in folded pages if they are many; every dead
//! end is a folded page below them, from where it leaves the live branch on. Several threads draw
//! pieces of it, which are written in order. Invariants: the file requests nothing,
//! and runs only our script, which its policy names by its hash; it can be read without the script;
//! it does not depend on the number of threads; a bounded number of pieces is in memory.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use maud::{Markup, PreEscaped, html};
use transcript::Session;
use transcript::client::check::{check_alone, check_unsearched};
use transcript::client::history::Rules;
use transcript::conversation::place::{FoundSecrets, agents};
use transcript::conversation::price::Prices;
use transcript::format::secret::{Cover, Mask, Redactor};
use transcript::format::threads;

use crate::commits::commits;
use crate::draw::{Drawing, FileForm, Form};
use crate::escape::{T, line};
use crate::opened::{Flow, FlowName, Opened};
use crate::page::{self, Medium};
use crate::panels::{self, Known, TurnRange};
use crate::session_page::{find_field, panel_count};
use crate::timeline::strip;
use crate::words::{count, size_of};

/// How many windows a page of a file has.
const IN_PAGE: usize = 60;
/// How many windows are drawn at a time.
const AT_ONCE: usize = 6;

/// What a file contains.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "facts that have nothing to do with each other")]
pub struct FileWish<'a> {
    /// The turns of the live branch, from the first; none: all.
    pub turns: Option<Vec<bool>>,
    /// Whether thinking is in it.
    pub has_thinking: bool,
    /// Whether calls and their results are in it.
    pub has_tools: bool,
    /// Whether the session itself follows it.
    pub has_session: bool,
    /// The secrets of the session, which are hidden; none: nothing is.
    pub cover: Option<&'a Cover>,
    /// Finds secrets.
    pub redactor: &'a Arc<Redactor>,
    /// What tokens cost.
    pub prices: &'a Prices,
}

/// Why a file could not be made.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The session cannot be read.
    #[error(transparent)]
    Read(#[from] transcript::Error),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// A session that was read, and is written from here.
#[derive(Debug)]
pub struct Source(Opened);

impl Source {
    /// Reads and checks a session, by the rules of the newest client alone: its findings are drawn
    /// at their lines.
    pub fn open(session: &Session, redactor: &Arc<Redactor>) -> transcript::Result<Source> {
        let checked = check_alone(session, agents(session), Rules::newest(), redactor)?;
        Opened::of_checked(session.clone(), checked).map(Source)
    }

    /// The same without a search for secrets, which somebody else does.
    pub fn open_unsearched(session: &Session) -> transcript::Result<Source> {
        let checked = check_unsearched(session, agents(session), Rules::newest())?;
        Opened::of_checked(session.clone(), checked).map(Source)
    }

    /// Adds what was found to the findings.
    pub fn add_secrets(&mut self, found: &FoundSecrets) {
        self.0.add_secrets(found);
    }

    /// How many turns the live branch has.
    pub fn count_turns(&self) -> usize {
        self.0.live.turns.len()
    }
}

/// Writes a session, without the end of the page. Returns how many secrets were redacted, by kind.
pub fn write_file(
    Source(opened): &Source,
    wish: &FileWish<'_>,
    out: &mut dyn Write,
) -> Result<BTreeMap<String, u64>, FileError> {
    let page = FilePage { opened, flow: &opened.live, wish };
    let pieces = page.pieces();
    let mut hidden = BTreeMap::new();
    threads::in_order(
        pieces.len(),
        threads::count(),
        |at| page.draw(&pieces[at]),
        |_, drawn| {
            let (drawn, found) = drawn?;
            for (kind, count) in found {
                *hidden.entry(kind).or_insert(0_u64) += count;
            }
            out.write_all(drawn.as_bytes()).map_err(FileError::from)
        },
    )?;
    out.write_all(page.foot(hidden.values().sum()).into_string().as_bytes())?;
    Ok(hidden)
}

/// Writes the end of the page.
pub fn write_end(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"</body></html>\n")
}

/// A part of a file that is drawn for itself.
enum Piece {
    /// What stands above the conversation.
    Top,
    /// What stands beside it.
    Panels,
    /// Some windows of a flow, by their numbers.
    Windows {
        flow: FlowName,
        windows: Vec<usize>,
        /// The folded page that begins with them.
        begins: Option<Folded>,
        /// Whether a folded page ends with them.
        ends: bool,
    },
}

/// A page of a file.
#[derive(Clone, Copy)]
struct Folded {
    /// Its first and last turn.
    turns: [usize; 2],
    is_open: bool,
}

struct FilePage<'a> {
    opened: &'a Opened,
    flow: &'a Flow,
    wish: &'a FileWish<'a>,
}

impl FilePage<'_> {
    /// Whether a turn is in the file: of the live branch, if it is chosen; of a dead end, if that
    /// has it alone.
    fn is_in(&self, flow: &Flow, turn: usize) -> bool {
        if flow.name != FlowName::Live {
            return turn >= flow.shared;
        }
        self.wish.turns.as_ref().is_none_or(|turns| turns.get(turn) == Some(&true))
    }

    fn pieces(&self) -> Vec<Piece> {
        let mut pieces = vec![Piece::Top, Piece::Panels];
        let wanted = self.windows_in(self.flow);
        let is_paged = wanted.len() > IN_PAGE;
        for (number, page) in wanted.chunks(IN_PAGE).enumerate() {
            let is_open = number == 0;
            push_windows(&mut pieces, self.flow, page, is_paged.then_some(is_open));
        }
        // What was chosen is of the live branch.
        let dead = self.opened.dead_ends().filter(|_| self.wish.turns.is_none());
        for flow in dead.filter_map(|name| self.opened.flow(name)) {
            push_windows(&mut pieces, &flow, &self.windows_in(&flow), Some(false));
        }
        pieces
    }

    /// The windows of a flow that have something that is in the file.
    fn windows_in(&self, flow: &Flow) -> Vec<usize> {
        let has =
            |at: &usize| flow.windows[*at].parts.iter().any(|(turn, _)| self.is_in(flow, *turn));
        (0..flow.windows.len()).filter(has).collect()
    }

    /// A piece, and the secrets that were hidden in it.
    fn draw(&self, piece: &Piece) -> transcript::Result<(String, BTreeMap<String, u64>)> {
        let mask = self.wish.cover.map_or_else(Mask::none, Mask::of);
        let (has_thinking, has_tools) = (self.wish.has_thinking, self.wish.has_tools);
        let form = Form::File(FileForm { has_thinking, has_tools });
        let mut drawing = Drawing::new(self.opened, mask, form, self.wish.prices);
        drawing.chosen = self.wish.turns.as_deref();
        let drawn = match piece {
            Piece::Top => self.top(&drawing),
            Piece::Panels => self.panels(&drawing)?,
            Piece::Windows { flow, windows, begins, ends } => {
                let mut drawn = String::new();
                let Some(flow) = self.opened.flow(*flow) else { return Ok(Default::default()) };
                if let Some(folded) = begins {
                    drawn.push_str(&self.begin(&drawing, &flow, *folded));
                }
                for at in windows {
                    let is_in = |turn| self.is_in(&flow, turn);
                    drawing.push_window(&flow, *at, &is_in, &mut drawn)?;
                }
                if *ends {
                    drawn.push_str("</details>");
                }
                drawn
            }
        };
        Ok((drawn, drawing.mask.into_inner().hidden().clone()))
    }

    /// The beginning of the file. The body stays open, and two elements in it.
    fn top(&self, drawing: &Drawing<'_>) -> String {
        let title = drawing.title();
        let head = html! {
            (page::head(&title, Medium::File))
            body {
                a.skip href="#main" { "Skip to the conversation" }
            }
        };
        let head = head.into_string();
        let top = html! {
            header.top { nav aria-label="Pages" { span.brand { "quipu" } } (page::buttons()) }
            (PreEscaped("<div class=\"session\">"))
            div.headline {
                h1 { (T(&title)) }
                (panels::facts(drawing))
                @if self.wish.has_session {
                    p { "This file also carries the session itself: " code { "quipu unpack THIS-FILE" }
                        " puts it where Claude Code resumes it." }
                }
                @if self.wish.turns.is_none() { (strip(drawing, self.flow)) }
            }
            (find_field())
            (PreEscaped("<div class=\"columns\">"))
        };
        format!("{}{}", head.trim_end_matches("</body>"), top.into_string())
    }

    /// What stands beside the conversation, and the beginning of that. Nothing in it is about turns
    /// or calls that are not in the file.
    fn panels(&self, drawing: &Drawing<'_>) -> transcript::Result<String> {
        let is_shown = |name: &str| match name {
            "agents" | "commits" => self.wish.has_tools,
            "context" => self.wish.turns.is_none(),
            _ => true,
        };
        let panels = html! {
            aside aria-label="About this session" {
                @for (name, title) in panels::PANELS.into_iter().filter(|(name, _)| is_shown(name)) {
                    details.panel data-name=(name) {
                        summary { (title) (panel_count(drawing, self.flow, name)) }
                        @match name {
                            "turns" => (panels::turns(drawing, self.flow, &TurnRange::in_file(self.flow))),
                            "branches" => (panels::branches(drawing, &Known::default())),
                            "agents" => (panels::agents(drawing)?),
                            "commits" => (commits(drawing, self.flow)?),
                            "context" => (panels::context(drawing)),
                            _ => (panels::check(drawing, self.wish.redactor)),
                        }
                    }
                }
            }
        };
        let begin = "<main id=\"main\" tabindex=\"-1\"><div id=\"windows\">";
        Ok(panels.into_string() + begin)
    }

    /// The beginning of a folded page.
    fn begin(&self, drawing: &Drawing<'_>, flow: &Flow, folded: Folded) -> String {
        let [from, to] = folded.turns;
        let words = drawing.masked(&self.opened.headline(flow, from - 1));
        let open = if folded.is_open { " open" } else { "" };
        let is_dead = flow.name != FlowName::Live;
        let class = if is_dead { "page dead" } else { "page" };
        let summary = html! {
            span.who {
                @if is_dead { "Dead end, turn " } @else { "Turns " }
                (from) @if to > from || !is_dead { " to " (to) }
            }
            " " span.about { (line(&words, 100)) }
        };
        format!("<details class=\"{class}\"{open}><summary>{}</summary>", summary.into_string())
    }

    /// What stands below the conversation.
    fn foot(&self, hidden: u64) -> Markup {
        let hidden = usize::try_from(hidden).unwrap_or(usize::MAX);
        html! {
            (PreEscaped("</div>"))
            p.made {
                "Made by quipu from a session of " (size_of(self.opened.session.size)) ". "
                @if self.wish.cover.is_none() { "Nothing is redacted." }
                @else {
                    (count(hidden, "secret")) " redacted on this page"
                    @if self.wish.has_session { "; in the session that it carries, they are, too" }
                    "."
                }
            }
            (PreEscaped("</main></div></div>"))
            (page::dialogs(Medium::File))
        }
    }
}

/// Adds windows of a flow in pieces; as a folded page, if it is known whether that is open.
fn push_windows(pieces: &mut Vec<Piece>, flow: &Flow, page: &[usize], is_open: Option<bool>) {
    let (Some(first), Some(last)) = (page.first(), page.last()) else { return };
    let turn = |part: Option<&(usize, Range<usize>)>| part.map_or(0, |(turn, _)| *turn);
    let first = turn(flow.windows[*first].parts.first()).max(flow.shared);
    let turns = [first + 1, turn(flow.windows[*last].parts.last()) + 1];
    let mut begins = is_open.map(|is_open| Folded { turns, is_open });
    let mut left = page.len();
    for some in page.chunks(AT_ONCE) {
        left -= some.len();
        let (begins, ends) = (begins.take(), is_open.is_some() && left == 0);
        pieces.push(Piece::Windows { flow: flow.name, windows: some.to_vec(), begins, ends });
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
