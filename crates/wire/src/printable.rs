//! Makes text from a server safe for a terminal.

use std::borrow::Cow;

/// Escapes characters that control the terminal, because text from a server must not. A newline,
/// also after a carriage return, and a tab are kept; others are written with Rust's escapes.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if steers(c) && !(c == '\r' && chars.peek() == Some(&'\n')) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn steers(c: char) -> bool {
    let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && c != '\n' && c != '\t')
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn nothing_steers_the_terminal_or_turns_the_direction_of_reading() {
        assert_eq!(printable("a\n\tb\r\n\u{e9}"), "a\n\tb\r\n\u{e9}");
        assert_eq!(printable("\x1b]0;owned\x07\r\u{9b}2J\u{7f}\0"), "\\u{1b}]0;owned\\u{7}\\r\\u{9b}2J\\u{7f}\\u{0}");
        assert_eq!(printable("\u{5d0} a\u{202e}b\u{2069}\u{2028}"), "\u{5d0} a\\u{202e}b\\u{2069}\\u{2028}");
    }
}
