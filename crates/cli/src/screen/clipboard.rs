//! The clipboard of the terminal, also over ssh: OSC 52.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// What is between the program and the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Multiplexer {
    None,
    Tmux,
}

/// What makes a terminal put a text into its clipboard.
pub(crate) fn sequence(text: &str, within: Multiplexer) -> String {
    let plain = format!("\x1b]52;c;{}\x07", STANDARD.encode(text));
    match within {
        Multiplexer::None => plain,
        // Depending on its options, tmux takes the plain one (`set-clipboard on`) or passes the
        // other one on (`allow-passthrough on`); the clipboard is the same after both.
        Multiplexer::Tmux => {
            format!("{plain}\x1bPtmux;{}\x1b\\", plain.replace('\x1b', "\x1b\x1b"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tmux_is_asked_in_both_ways() {
        assert_eq!(sequence("id", Multiplexer::None), "\x1b]52;c;aWQ=\x07");
        let both = "\x1b]52;c;aWQ=\x07\x1bPtmux;\x1b\x1b]52;c;aWQ=\x07\x1b\\";
        assert_eq!(sequence("id", Multiplexer::Tmux), both);
    }
}
