//! The part of SQL's lexical rules that is needed here: ends of quotes and comments, words, statements.

/// The tag in `$tag$` is an identifier, whose length is limited.
const LONGEST_TAG_BYTES: usize = 63;

/// The first statement of `sql`, and what follows its semicolon.
pub(crate) fn split(sql: &[u8]) -> (&[u8], &[u8]) {
    let Some(first) = sql.iter().position(|&byte| byte == b';') else {
        return (sql, &[]);
    };
    // the common case does not require a search for quotes
    if is_blank(&sql[first + 1..]) {
        return (&sql[..first], &[]);
    }
    let mut at = 0;
    while at < sql.len() {
        match quoted_end(sql, at) {
            Some(end) => at = end,
            None if sql[at] == b';' => return (&sql[..at], &sql[at + 1..]),
            None => at += 1,
        }
    }
    (sql, &[])
}

pub(crate) fn is_blank(sql: &[u8]) -> bool {
    let mut at = 0;
    while at < sql.len() {
        if is_space(sql[at]) {
            at += 1;
        } else if sql[at..].starts_with(b"--") || sql[at..].starts_with(b"/*") {
            at = quoted_end(sql, at).unwrap_or(sql.len());
        } else {
            return false;
        }
    }
    true
}

/// The greatest n of the parameters $n.
pub(crate) fn parameters(sql: &[u8]) -> u16 {
    let mut highest = 0;
    if !sql.contains(&b'$') {
        return highest;
    }
    let mut at = 0;
    while at < sql.len() {
        if let Some(end) = quoted_end(sql, at) {
            at = end;
            continue;
        }
        let digits = digits_after_dollar(sql, at);
        let number = digits.iter().fold(0u16, |n, d| n.saturating_mul(10).saturating_add(u16::from(d - b'0')));
        highest = highest.max(number);
        at += 1 + digits.len();
    }
    highest
}

fn digits_after_dollar(sql: &[u8], at: usize) -> &[u8] {
    if sql[at] != b'$' || (at > 0 && is_word(sql[at - 1])) {
        return &[];
    }
    let rest = &sql[at + 1..];
    let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    &rest[..count]
}

/// The words of a statement in order; quoted text, comments and other characters are skipped.
#[derive(Debug, Clone)]
pub(crate) struct Words<'t> {
    sql: &'t [u8],
    at: usize,
}

impl<'t> Words<'t> {
    pub fn of(sql: &'t [u8]) -> Self {
        Self { sql, at: 0 }
    }

    /// The text after the last word.
    pub fn rest(&self) -> &'t [u8] {
        &self.sql[self.at..]
    }
}

impl<'t> Iterator for Words<'t> {
    type Item = &'t [u8];

    fn next(&mut self) -> Option<&'t [u8]> {
        while self.at < self.sql.len() {
            if is_word(self.sql[self.at]) {
                let rest = &self.sql[self.at..];
                let length = rest.iter().take_while(|&&byte| is_word(byte)).count();
                self.at += length;
                // a letter before a quote belongs to the quoted text: e'', b'', x''
                return Some(&rest[..length]);
            }
            self.at = quoted_end(self.sql, self.at).unwrap_or(self.at + 1);
        }
        None
    }
}

/// Where the quoted text or comment that begins at `at` ends; None if none begins there.
fn quoted_end(sql: &[u8], at: usize) -> Option<usize> {
    let next = sql.get(at + 1).copied().unwrap_or(0);
    match (sql[at], next) {
        (b'\'', _) => Some(string_end(sql, at)),
        (b'"', _) => Some(find(sql, at + 1, |byte| byte == b'"') + 1),
        (b'-', b'-') => Some(find(sql, at, |byte| byte == b'\n')),
        (b'/', b'*') => Some(comment_end(sql, at)),
        (b'$', _) => dollar_end(sql, at),
        _ => return None,
    }
    .map(|end| end.min(sql.len()))
}

fn find(sql: &[u8], from: usize, wanted: impl Fn(u8) -> bool) -> usize {
    let from = from.min(sql.len());
    let found = sql[from..].iter().position(|&byte| wanted(byte));
    found.map_or(sql.len(), |offset| from + offset)
}

fn string_end(sql: &[u8], at: usize) -> usize {
    let letter = at.checked_sub(1).map(|before| sql[before]);
    let alone = at.checked_sub(2).is_none_or(|before| !is_word(sql[before]));
    if !(matches!(letter, Some(b'e' | b'E')) && alone) {
        return find(sql, at + 1, |byte| byte == b'\'') + 1;
    }
    let mut at = at + 1;
    loop {
        at = find(sql, at, |byte| matches!(byte, b'\'' | b'\\'));
        match sql.get(at) {
            Some(b'\\') => at += 2,
            _ => return at + 1,
        }
    }
}

fn comment_end(sql: &[u8], at: usize) -> usize {
    let mut depth = 1;
    let mut at = at + 2;
    while depth > 0 && at < sql.len() {
        match (sql[at], sql.get(at + 1)) {
            (b'/', Some(b'*')) => (depth, at) = (depth + 1, at + 2),
            (b'*', Some(b'/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    at
}

fn dollar_end(sql: &[u8], at: usize) -> Option<usize> {
    if at > 0 && is_word(sql[at - 1]) {
        return None;
    }
    let name = &sql[at + 1..];
    let length = name.iter().take_while(|&&byte| is_word(byte)).count();
    let is_tag = name.get(length) == Some(&b'$') && length <= LONGEST_TAG_BYTES && !name[0].is_ascii_digit();
    if !is_tag {
        return None;
    }
    let tag = &sql[at..at + length + 2];
    let body = at + tag.len();
    let found = sql[body..].windows(tag.len()).position(|text| text == tag);
    Some(found.map_or(sql.len(), |offset| body + offset + tag.len()))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(sql: &str) -> Vec<String> {
        let mut rest = sql.as_bytes();
        let mut all = Vec::new();
        while !rest.is_empty() {
            let (one, tail) = split(rest);
            all.push(String::from_utf8_lossy(one).trim().to_owned());
            rest = tail;
        }
        all
    }

    #[test]
    fn statements_end_at_semicolons_outside_of_quotes() {
        assert_eq!(statements("a"), ["a"]);
        assert_eq!(statements("a; "), ["a"]);
        assert_eq!(statements("a; -- b"), ["a"]);
        assert_eq!(statements("a;b;"), ["a", "b"]);
        for quoted in ["'x;''y'", "e'x\\';y'", "\"x;\"\"y\"", "/* ; /* ; */ ; */", "$$;$$", "$t$;$$;$t$", "-- ;\n"] {
            let sql = format!("a {quoted} b; c");
            let expected = [format!("a {quoted} b"), "c".to_owned()];
            assert_eq!(statements(&sql), expected, "{sql}");
        }
        assert_eq!(statements("a 'not closed; b; c"), ["a 'not closed; b; c"]);
        assert_eq!(statements("a$1;$1 b; c"), ["a$1", "$1 b", "c"]);
    }

    #[test]
    fn parameters_are_counted_outside_of_quotes() {
        let cases = [
            ("select 1", 0),
            ("select $1, $12", 12),
            ("select '$2', $1", 1),
            ("select $$ $3 $$ || $1", 1),
            ("select a$5", 0),
            ("select $99999", u16::MAX),
            ("select $", 0),
        ];
        for (sql, count) in cases {
            assert_eq!(parameters(sql.as_bytes()), count, "{sql}");
        }
    }

    #[test]
    fn words_are_found_behind_comments() {
        let words: Vec<&[u8]> = Words::of(b"/* a */ (Select -- b\n 'c' d)").collect();
        assert_eq!(words, [&b"Select"[..], b"d"]);
    }
}
