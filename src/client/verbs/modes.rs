//! What a program has switched on at the terminal it is shown on (xterm's private modes,
//! `console_codes(4)`), so that it can be undone when the program ends without doing so itself,
//! and while the person is back in the shell.

use std::collections::BTreeSet;

/// Modes worth undoing: cursor keys, mouse in its forms, focus, alternate screens, pasting.
const KNOWN: [u16; 14] = [
    1, 9, 47, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004,
];
/// Shown unless it was hidden.
const CURSOR: u16 = 25;
/// Longer ones are none of these.
const SEQUENCE_MAX: usize = 64;

/// Follows the output of a program.
#[derive(Debug, Default)]
pub struct Modes {
    on: BTreeSet<u16>,
    cursor_hidden: bool,
    keypad: bool,
    /// From an ESC on, while a sequence may still become one of ours.
    open: Vec<u8>,
    within_line: bool,
}

impl Modes {
    /// It has written this.
    pub fn saw(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.one(*byte);
        }
        if let Some(last) = bytes.last() {
            self.within_line = *last != b'\n';
        }
    }

    /// The cursor is not at the start of a line, as far as can be told.
    pub fn is_within_line(&self) -> bool {
        self.within_line
    }

    fn one(&mut self, byte: u8) {
        if byte == 0x1b {
            self.open.clear();
            self.open.push(byte);
            return;
        }
        if self.open.is_empty() {
            return;
        }
        self.open.push(byte);
        let go_on = match self.open.as_slice() {
            [_, b'='] => {
                self.keypad = true;
                false
            }
            [_, b'>'] => {
                self.keypad = false;
                false
            }
            // Full reset.
            [_, b'c'] => {
                *self = Self::default();
                false
            }
            [_, b'['] | [_, b'[', b'?'] => true,
            [_, b'[', b'?', .., b'0'..=b'9' | b';'] => self.open.len() < SEQUENCE_MAX,
            [_, b'[', b'?', numbers @ .., end @ (b'h' | b'l')] => {
                let (numbers, on) = (numbers.to_owned(), *end == b'h');
                self.set(&numbers, on);
                false
            }
            _ => false,
        };
        if !go_on {
            self.open.clear();
        }
    }

    fn set(&mut self, numbers: &[u8], on: bool) {
        let numbers = numbers.split(|byte| *byte == b';');
        let numbers = numbers.filter_map(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        for mode in numbers {
            if mode == CURSOR {
                self.cursor_hidden = !on;
            } else if on && KNOWN.contains(&mode) {
                self.on.insert(mode);
            } else {
                self.on.remove(&mode);
            }
        }
    }

    /// What puts the terminal back; empty if nothing is to be done.
    pub fn undo(&self) -> String {
        // The screen last: what else there is belongs to the one it is said on.
        let mut text: String = self
            .on
            .iter()
            .map(|mode| format!("\x1b[?{mode}l"))
            .collect();
        if self.cursor_hidden {
            text.push_str("\x1b[?25h");
        }
        if self.keypad {
            text.push_str("\x1b>");
        }
        if !text.is_empty() {
            text.push_str("\x1b[0m");
        }
        text
    }

    /// What brings the terminal to where the program believes it is.
    pub fn redo(&self) -> String {
        let mut text: String = self
            .on
            .iter()
            .rev()
            .map(|mode| format!("\x1b[?{mode}h"))
            .collect();
        if self.cursor_hidden {
            text.push_str("\x1b[?25l");
        }
        if self.keypad {
            text.push_str("\x1b=");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(bytes: &[u8]) -> Modes {
        let mut modes = Modes::default();
        // However it is cut.
        for byte in bytes {
            modes.saw(std::slice::from_ref(byte));
        }
        modes
    }

    #[test]
    fn what_was_switched_on_and_not_off_is_undone() {
        for (written, undo) in [
            (&b"plain\x1b[1mbold\x1b[0m\n"[..], ""),
            (b"\x1b[?1049h\x1b[?1049l", ""),
            (b"\x1b[?1049h", "\x1b[?1049l\x1b[0m"),
            (
                b"\x1b[?1;1000;1006h\x1b=\x1b[?25l",
                "\x1b[?1l\x1b[?1000l\x1b[?1006l\x1b[?25h\x1b>\x1b[0m",
            ),
            (b"\x1b[?25l\x1b[?25h\x1b=\x1b>", ""),
            (b"\x1b[?1049h\x1bc", ""),
            // None of ours, or no sequence at all.
            (b"\x1b[?7h\x1b[?12h\x1b[1049h\x1b]0;\x1b[?x1049h", ""),
        ] {
            assert_eq!(after(written).undo(), undo, "{written:?}");
        }
    }

    #[test]
    fn what_is_undone_for_a_while_is_done_again() {
        let modes = after(b"\x1b[?1049h\x1b[?2004h\x1b[?25l");
        assert_eq!(after(modes.redo().as_bytes()).undo(), modes.undo());
    }

    #[test]
    fn a_sequence_without_end_is_given_up() {
        let mut modes = Modes::default();
        modes.saw(b"\x1b[?");
        modes.saw(&[b'1'; 100_000]);
        assert!(modes.open.len() <= SEQUENCE_MAX);
    }

    #[test]
    fn a_line_that_is_not_ended_is_known() {
        assert!(!after(b"").is_within_line());
        assert!(after(b"a\r\nprompt$ ").is_within_line());
        assert!(!after(b"a\r\n").is_within_line());
    }
}
