use super::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::num::NonZero;
use std::rc::Rc;

/// A terminal that behaves as real ones do when its height changes: rows below the cursor go first,
/// then those at the top go to the scrollback.
struct Glass {
    parser: vt100::Parser,
    sent: Rc<RefCell<Vec<u8>>>,
}

impl Glass {
    fn new(size: Size) -> Glass {
        let (height, width) = cells(size);
        Glass { parser: vt100::Parser::new(height, width, 100_000), sent: Rc::default() }
    }

    fn receive(&mut self) {
        let bytes = std::mem::take(&mut *self.sent.borrow_mut());
        self.parser.process(&bytes);
    }

    fn resize(&mut self, size: Size) {
        let old = self.parser.screen().size().0.get();
        let (row, column) = self.parser.screen().cursor_position();
        if size.height < old && row >= size.height {
            let over = row + 1 - size.height;
            let moves = format!(
                "\x1b[{old};1H{}\x1b[{};{}H",
                "\n".repeat(over.into()),
                row + 1 - over,
                column + 1
            );
            self.parser.process(moves.as_bytes());
        }
        let (height, width) = cells(size);
        self.parser.screen_mut().set_size(height, width);
    }

    /// Everything: the scrollback, and the screen.
    fn rows(&mut self) -> Vec<String> {
        let (height, width) = self.parser.screen().size();
        let (height, width) = (height.get(), width.get());
        let mut rows = Vec::new();
        self.parser.screen_mut().set_scrollback(usize::MAX);
        let mut back = self.parser.screen().scrollback();
        while back > 0 {
            self.parser.screen_mut().set_scrollback(back);
            let page: Vec<String> = self.parser.screen().rows(0, width).collect();
            let count = back.min(usize::from(height));
            rows.extend(page.into_iter().take(count));
            back -= count;
        }
        self.parser.screen_mut().set_scrollback(0);
        rows.extend(self.parser.screen().rows(0, width));
        rows.iter().map(|row| row.trim_end().to_owned()).collect()
    }
}

fn cells(size: Size) -> (NonZero<u16>, NonZero<u16>) {
    (NonZero::new(size.height).unwrap(), NonZero::new(size.width).unwrap())
}

struct Pipe(Rc<RefCell<Vec<u8>>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn size(width: u16, height: u16) -> Size {
    Size { width, height }
}

/// Rows that fit every window here: `vt100` does not know how to cut rows at the edge, as terminals
/// do on request. The tests in `tmux` have wide ones.
fn narrow(count: usize) -> Live {
    let rows = (0..count).map(|n| Line::from(format!("live {n} {}", "~".repeat(n)))).collect();
    Live { rows, caret: None, focus: None, is_still: false }
}

fn live(count: usize, caret: usize, is_still: bool) -> Live {
    let rows = (0..count).map(|n| Line::from(format!("live {n} {}", "~".repeat(n * 7)))).collect();
    let caret = Some((caret.min(count.saturating_sub(1)), 3));
    Live { rows, caret, focus: None, is_still }
}

#[test]
fn lines_above_and_the_live_area_below() {
    let mut glass = Glass::new(size(20, 6));
    let mut terminal = Terminal::new(Pipe(glass.sent.clone()), size(20, 6), Colors::None);
    terminal.print(&[Line::from("one")]);
    terminal.draw(&live(2, 1, true)).unwrap();
    glass.receive();
    assert_eq!(glass.rows(), ["one", "live 0", "live 1 ~~~~~~~", "", "", ""]);
    assert_eq!(glass.parser.screen().cursor_position(), (2, 3));
    assert!(!glass.parser.screen().hide_cursor());
    terminal.print(&[Line::from("a line of more than twenty columns"), Line::from("two")]);
    terminal.draw(&live(3, 2, false)).unwrap();
    glass.receive();
    assert_eq!(
        glass.rows(),
        [
            "one",
            "a line of more than",
            "twenty columns",
            "two",
            "live 0",
            "live 1 ~~~~~~~",
            "live 2 ~~~~~~~~~~~~…"
        ]
        .map(std::borrow::ToOwned::to_owned)
    );
    assert!(glass.parser.screen().hide_cursor());
    terminal.clear().unwrap();
    glass.receive();
    assert_eq!(glass.rows()[..4], ["one", "a line of more than", "twenty columns", "two"]);
    assert_eq!(glass.rows()[4..].concat(), "");
}

#[test]
fn only_what_changes_is_drawn() {
    let sent: Rc<RefCell<Vec<u8>>> = Rc::default();
    let mut terminal = Terminal::new(Pipe(sent.clone()), size(80, 24), Colors::None);
    terminal.draw(&live(3, 0, false)).unwrap();
    sent.borrow_mut().clear();
    terminal.draw(&live(3, 0, false)).unwrap();
    assert_eq!(sent.borrow().len(), 0);
    let mut other = live(3, 0, false);
    other.rows[1] = Line::from("other");
    terminal.draw(&other).unwrap();
    let bytes = String::from_utf8(sent.borrow().clone()).unwrap();
    assert!(bytes.contains("other\u{1b}[K") && !bytes.contains("live"), "{bytes:?}");
}

/// What happens to a terminal.
#[derive(Clone, Debug)]
enum Deed {
    Print(usize),
    Draw(usize, usize, bool),
    /// The window changes, and the program hears of it before it draws.
    Resize(u16, u16),
    /// The window changes after a drawing was sent, before the terminal has read it.
    Race(u16, u16, usize),
    /// The same with a drawing that only changes the last row.
    Late(u16, u16, usize),
    Redraw,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        3 => (1usize..6).prop_map(Deed::Print),
        4 => (0usize..9, 0usize..9, any::<bool>()).prop_map(|(n, caret, is_still)| Deed::Draw(n, caret, is_still)),
        3 => (30u16..120, 4u16..40).prop_map(|(width, height)| Deed::Resize(width, height)),
        2 => (30u16..120, 4u16..40, 0usize..9).prop_map(|(width, height, n)| Deed::Race(width, height, n)),
        2 => (30u16..120, 4u16..40, 1usize..9).prop_map(|(width, height, n)| Deed::Late(width, height, n)),
        1 => Just(Deed::Redraw),
    ]
}

/// Does it all, and returns the rows at the end and how many lines were printed.
fn storm(deeds: &[Deed], sync: Sync) -> (Vec<String>, usize) {
    let mut glass = Glass::new(size(80, 24));
    let terminal = Terminal::new(Pipe(glass.sent.clone()), size(80, 24), Colors::Sixteen);
    let mut terminal = terminal.of_kind(sync, Reflow::No);
    let mut printed = 0;
    for deed in deeds {
        match *deed {
            Deed::Print(count) => {
                for _ in 0..count {
                    terminal.print(&[Line::from(format!("line {printed}"))]);
                    printed += 1;
                }
            }
            Deed::Draw(count, caret, is_still) => {
                terminal.draw(&live(count, caret, is_still)).unwrap();
            }
            Deed::Resize(width, height) => {
                glass.receive();
                glass.resize(size(width, height));
                terminal.resize(size(width, height));
                terminal.draw(&live(3, 1, false)).unwrap();
            }
            Deed::Race(width, height, count) => {
                // Nothing is raced with while the cursor may rest on the caret.
                terminal.draw(&narrow(count)).unwrap();
                glass.receive();
                terminal.print(&[Line::from(format!("line {printed}"))]);
                printed += 1;
                terminal.draw(&narrow(count)).unwrap();
                glass.resize(size(width, height));
                glass.receive();
                terminal.resize(size(width, height));
                terminal.draw(&live(3, 1, false)).unwrap();
            }
            Deed::Late(width, height, count) => {
                terminal.draw(&narrow(count)).unwrap();
                glass.receive();
                let mut other = narrow(count);
                other.rows[count - 1] = Line::from("live and late");
                terminal.draw(&other).unwrap();
                glass.resize(size(width, height));
                glass.receive();
                terminal.resize(size(width, height));
                terminal.draw(&live(3, 1, false)).unwrap();
            }
            Deed::Redraw => terminal.redraw(),
        }
        glass.receive();
    }
    terminal.clear().unwrap();
    glass.receive();
    (glass.rows(), printed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_line_is_there_once_and_in_order(deeds in proptest::collection::vec(deed(), 0..60), is_sync in any::<bool>()) {
        let (rows, printed) = storm(&deeds, if is_sync { Sync::On } else { Sync::Off });
        let lines: Vec<String> = rows.into_iter().filter(|row| !row.is_empty()).collect();
        let expected: Vec<String> = (0..printed).map(|n| format!("line {n}")).collect();
        prop_assert_eq!(lines, expected);
    }
}

#[test]
fn a_storm_of_five_hundred_resizes() {
    let mut deeds = Vec::new();
    let mut seed: u32 = 7;
    let mut random = |most: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % most
    };
    for _ in 0..500 {
        let (width, height) = (30 + small(random(170)), 4 + small(random(56)));
        deeds.push(Deed::Print(random(8) as usize));
        deeds.push(if random(2) == 0 {
            Deed::Resize(width, height)
        } else {
            Deed::Race(width, height, random(9) as usize)
        });
    }
    for sync in [Sync::On, Sync::Off] {
        let (rows, printed) = storm(&deeds, sync);
        let lines: Vec<String> = rows.into_iter().filter(|row| !row.is_empty()).collect();
        let expected: Vec<String> = (0..printed).map(|n| format!("line {n}")).collect();
        assert!(printed > 1_000);
        let wrong = lines.iter().zip(&expected).find(|(line, expected)| line != expected);
        assert_eq!((wrong, lines.len()), (None, expected.len()), "{sync:?}");
    }
}

fn small(number: u32) -> u16 {
    u16::try_from(number).unwrap()
}

/// The whole console: an answer arrives in pieces, and somebody types, while the window changes 500
/// times.
#[test]
fn an_answer_streams_in_a_storm_of_resizes() {
    for sync in [Sync::On, Sync::Off] {
        answer_in_a_storm(sync);
    }
}

/// What is asked of a terminal that knows it, and of no other.
#[test]
fn without_synchronised_output_nothing_of_it_is_sent() {
    for sync in [Sync::On, Sync::Off] {
        let sent: Rc<RefCell<Vec<u8>>> = Rc::default();
        let terminal = Terminal::new(Pipe(sent.clone()), size(80, 24), Colors::None);
        let mut terminal = terminal.of_kind(sync, Reflow::Yes);
        terminal.print(&[Line::from("one")]);
        terminal.draw(&live(3, 0, false)).unwrap();
        terminal.clear().unwrap();
        let bytes = String::from_utf8(sent.borrow().clone()).unwrap();
        assert_eq!(bytes.contains("[?2026"), sync == Sync::On, "{bytes:?}");
        // Nor are there scroll regions, with it or without.
        assert!(!bytes.contains('r'), "{bytes:?}");
    }
}

fn answer_in_a_storm(sync: Sync) {
    use crate::composer::Keymap;
    use crate::history::History;
    use crate::{News, Screen};

    let mut seed: u32 = 5;
    let mut random = |most: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) % most
    };
    let expected: Vec<String> = (0..1_500).map(|n| format!("line {n} 好")).collect();
    // Some lines end a paragraph, others are code.
    let block = |lines: &[String]| format!("```\n{}\n```\n\n", lines.join("\n"));
    let answer: String = expected
        .chunks(5)
        .enumerate()
        .map(|(n, lines)| if n % 2 == 0 { block(lines) } else { lines.join("\n\n") + "\n\n" })
        .collect();
    let letters: Vec<char> = answer.chars().collect();
    let mut glass = Glass::new(size(80, 24));
    let terminal = Terminal::new(Pipe(glass.sent.clone()), size(80, 24), Colors::Sixteen);
    let mut terminal = terminal.of_kind(sync, Reflow::No);
    let mut screen = Screen::new(Keymap::Emacs, History::default(), Vec::new());
    let mut now = std::time::Duration::ZERO;
    screen.hear(News::Begin, now);
    let mut window = size(80, 24);
    let mut storm = 0;
    for (number, piece) in letters.chunks(13).enumerate() {
        now += std::time::Duration::from_millis(5);
        screen.hear(News::Text(piece.iter().collect()), now);
        if number % 7 == 0 {
            screen.paste("x", now);
        }
        let mut draw = |screen: &mut Screen, window: Size| {
            let live = screen.live(window, now);
            terminal.print(&screen.take_lines());
            terminal.draw(&live).unwrap();
        };
        draw(&mut screen, window);
        if storm < 500 && random(3) == 0 {
            storm += 1;
            let other = size(30 + small(random(170)), 6 + small(random(54)));
            // A drawing may be on its way when the window grows.
            let is_race = other.width >= window.width;
            if is_race {
                screen.hear(News::Text(String::new()), now);
                screen.tick(now);
                draw(&mut screen, window);
                glass.resize(other);
            }
            glass.receive();
            if !is_race {
                glass.resize(other);
            }
            window = other;
            terminal.resize(window);
        } else {
            glass.receive();
        }
    }
    screen.hear(News::End(crate::screen::Ending::Answered), now);
    terminal.print(&screen.take_lines());
    terminal.clear().unwrap();
    glass.receive();
    let is_line = |row: &String| !row.is_empty() && !row.starts_with("```");
    let lines: Vec<String> = glass.rows().into_iter().filter(is_line).collect();
    let wrong = lines.iter().zip(&expected).find(|(line, expected)| line != expected);
    assert_eq!((wrong, lines.len(), storm), (None, expected.len(), 500), "{sync:?}");
}
