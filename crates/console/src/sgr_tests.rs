use super::*;
use crate::text::{Colors, ansi};

fn shown(text: &str) -> Vec<String> {
    colored_lines(text, 3).iter().map(|line| ansi(line, Colors::Sixteen)).collect()
}

#[test]
fn colours_and_weights_are_kept_and_nothing_else() {
    let reset = "\u{1b}[0m";
    assert_eq!(shown("a\u{1b}[1;31mb\u{1b}[0m c"), [format!("a\u{1b}[1;31mb{reset} c")]);
    assert_eq!(shown("\u{1b}[38;5;196mr"), [format!("\u{1b}[31mr{reset}")]);
    assert_eq!(shown("\u{1b}[38;2;10;200;20mg"), [format!("\u{1b}[32mg{reset}")]);
    assert_eq!(shown("\u{1b}[48;5;1;4mu"), [format!("\u{1b}[4mu{reset}")]);
    // A style goes on in the next line; more lines than asked for are left out.
    let green = |text: &str| format!("\u{1b}[32m{text}{reset}");
    assert_eq!(shown("\u{1b}[92ma\nb\nc\nd"), [green("a"), green("b"), green("c")]);
    // The clipboard, the cursor and broken sequences reach no terminal.
    assert_eq!(shown("\u{1b}]52;c;YQ==\u{7}x\u{1b}[2J\u{1b}[31"), ["x\\x1b[31"]);
}
