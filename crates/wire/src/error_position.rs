//! The line of a query to which an error refers, cut to a window, with a caret below.

use std::fmt;

/// Number of columns to which a line is cut.
const WINDOW: usize = 60;
/// Number of columns that remain to the right of the position when a line is cut on both sides.
const RIGHT_OF_PLACE: usize = 10;

/// Writes a newline, `LINE n: text`, a newline and the caret, in the layout of libpq. Writes
/// nothing when `position` (in characters from 1) is outside `query`.
///
/// A character counts as one column.
pub fn write(f: &mut impl fmt::Write, query: &str, position: u32) -> fmt::Result {
    let chars: Vec<char> = query.chars().collect();
    let place = match (position as usize).checked_sub(1) {
        Some(place) if place <= chars.len() => place,
        _ => return Ok(()),
    };
    let before = &chars[..place];
    let begin = before.iter().rposition(is_newline).map_or(0, |at| at + 1);
    let end = chars[place..].iter().position(is_newline).map_or(chars.len(), |at| place + at);
    let number = 1 + newlines(&chars[..begin]);

    let (from, to) = window(begin, end, place);
    let left = if from > begin { "..." } else { "" };
    let right = if to < end { "..." } else { "" };
    let text: String = chars[from..to].iter().map(|&c| if c == '\t' { ' ' } else { c }).collect();
    let label = format!("LINE {number}: {left}");
    let indent = label.len() + place - from;
    write!(f, "\n{label}{text}{right}\n{:indent$}^", "")
}

fn is_newline(c: &char) -> bool {
    matches!(c, '\n' | '\r')
}

fn newlines(chars: &[char]) -> usize {
    let mut count = 0;
    let mut previous = ' ';
    for &c in chars {
        if c == '\r' || (c == '\n' && previous != '\r') {
            count += 1;
        }
        previous = c;
    }
    count
}

fn window(begin: usize, end: usize, place: usize) -> (usize, usize) {
    if end - begin <= WINDOW {
        (begin, end)
    } else if place - begin + RIGHT_OF_PLACE <= WINDOW {
        (begin, begin + WINDOW)
    } else {
        let end = end.min(place + RIGHT_OF_PLACE);
        (end.saturating_sub(WINDOW).max(begin), end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(query: &str, position: u32) -> String {
        let mut text = String::new();
        write(&mut text, query, position).expect("a String takes everything");
        text
    }

    #[test]
    fn the_line_is_shown_and_cut_around_the_place() {
        assert_eq!(shown("select\r\n\tfoo\nfrom t", 10), "\nLINE 2:  foo\n         ^");
        assert_eq!(shown("select 1 +", 11), "\nLINE 1: select 1 +\n                  ^");
        assert_eq!(shown("select", 0), "");
        assert_eq!(shown("select", 8), "");
        let line = format!("{}X{}", "a".repeat(100), "b".repeat(100));
        let text = shown(&line, 101);
        let mut lines = text.lines().skip(1);
        let (source, caret) = (lines.next().expect("text"), lines.next().expect("caret"));
        assert!(source.starts_with("LINE 1: ...a") && source.ends_with("b..."));
        assert_eq!(source.find('X'), caret.find('^'));
        let early = shown(&line.replace('X', "a"), 3);
        assert!(early.starts_with("\nLINE 1: aaa") && early.contains("aaa..."));
    }
}
