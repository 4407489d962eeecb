//! The part of SQL's lexical rules that is needed here: ends of quotes and comments, words, parameters, statements.

/// The tag in `$tag$` is an identifier, whose length is limited.
const LONGEST_TAG_BYTES: usize = 63;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'t> {
    Word(&'t [u8]),
    /// `$n`
    Parameter(u16),
    Semicolon,
    /// Quoted text, or another character.
    Other,
}

/// The tokens of a text in order; blanks and comments are skipped.
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'t> {
    /// The text after the last token.
    pub rest: &'t [u8],
}

impl<'t> Iterator for Tokens<'t> {
    type Item = Token<'t>;

    fn next(&mut self) -> Option<Token<'t>> {
        while let Some(bytes @ 1..) = blank_bytes(self.rest) {
            self.rest = &self.rest[bytes.min(self.rest.len())..];
        }
        let text = self.rest;
        let (token, bytes) = match *text.first()? {
            b';' => (Token::Semicolon, 1),
            b'\'' => (Token::Other, 2 + run(&text[1..], |byte| byte != b'\'')),
            b'"' => (Token::Other, 2 + run(&text[1..], |byte| byte != b'"')),
            b'e' | b'E' if text.get(1) == Some(&b'\'') => (Token::Other, 2 + escaped_bytes(&text[2..])),
            b'$' => dollar(text),
            first if is_word(first) => {
                let bytes = run(text, |byte| is_word(byte) || byte == b'$');
                (Token::Word(&text[..bytes]), bytes)
            }
            _ => (Token::Other, 1),
        };
        self.rest = &text[bytes.min(text.len())..];
        Some(token)
    }
}

impl<'t> Tokens<'t> {
    pub fn of(sql: &'t [u8]) -> Self {
        Self { rest: sql }
    }

    pub fn next_word(&mut self) -> Option<&'t [u8]> {
        self.find_map(|token| match token {
            Token::Word(word) => Some(word),
            _ => None,
        })
    }

    /// Whether this word, in any case, is among the following.
    pub fn has(mut self, wanted: &str) -> bool {
        self.any(|token| matches!(token, Token::Word(word) if word.eq_ignore_ascii_case(wanted.as_bytes())))
    }
}

/// The first statement of `sql`, and what follows its semicolon.
pub fn split(sql: &[u8]) -> (&[u8], &[u8]) {
    let first = run(sql, |byte| byte != b';');
    // the common case does not require a search for quotes
    if first == sql.len() || is_blank(&sql[first + 1..]) {
        return (&sql[..first], &[]);
    }
    let mut tokens = Tokens::of(sql);
    match tokens.find(|token| *token == Token::Semicolon) {
        Some(_) => (&sql[..sql.len() - tokens.rest.len() - 1], tokens.rest),
        None => (sql, &[]),
    }
}

pub fn is_blank(sql: &[u8]) -> bool {
    Tokens::of(sql).next().is_none()
}

/// The greatest n of the parameters $n.
pub fn parameters(sql: &[u8]) -> u16 {
    if !sql.contains(&b'$') {
        return 0;
    }
    let number = |token| if let Token::Parameter(number) = token { number } else { 0 };
    Tokens::of(sql).map(number).max().unwrap_or(0)
}

/// How many bytes at the front are blank, or belong to one comment; None without any.
fn blank_bytes(text: &[u8]) -> Option<usize> {
    match text {
        [b'-', b'-', ..] => Some(run(text, |byte| byte != b'\n')),
        [b'/', b'*', ..] => Some(comment_bytes(text)),
        _ => Some(run(text, |byte| byte.is_ascii_whitespace() || byte == 0x0b)).filter(|bytes| *bytes > 0),
    }
}

fn run(text: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|&byte| !belongs(byte)).unwrap_or(text.len())
}

/// Comments nest.
fn comment_bytes(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        match text[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length of a string with backslashes, up to and including its quote.
fn escaped_bytes(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += run(text.get(at..).unwrap_or_default(), |byte| byte != b'\'' && byte != b'\\');
        match text.get(at) {
            Some(b'\\') => at += 2,
            _ => return at + 1,
        }
    }
}

/// A parameter, or a string in dollar quotes.
fn dollar(text: &[u8]) -> (Token<'_>, usize) {
    let name = &text[1..];
    let digits = &name[..run(name, |byte| byte.is_ascii_digit())];
    if !digits.is_empty() {
        let number = digits.iter().fold(0u16, |n, digit| n.saturating_mul(10).saturating_add(u16::from(digit - b'0')));
        return (Token::Parameter(number), 1 + digits.len());
    }
    let bytes = run(name, is_word);
    if name.get(bytes) != Some(&b'$') || bytes > LONGEST_TAG_BYTES {
        return (Token::Other, 1);
    }
    let (tag, body) = text.split_at(bytes + 2);
    let end = body.windows(tag.len()).position(|found| found == tag);
    (Token::Other, end.map_or(text.len(), |end| end + 2 * tag.len()))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_outside_of_quotes() {
        let statements = |sql: &str| {
            let mut rest = sql.as_bytes();
            let mut all = Vec::new();
            while !rest.is_empty() {
                let (one, tail) = split(rest);
                all.push(String::from_utf8_lossy(one).trim().to_owned());
                rest = tail;
            }
            all
        };
        for alone in ["a", "a; ", "a; -- b"] {
            assert_eq!(statements(alone), ["a"], "{alone}");
        }
        for quoted in [
            "'x;''y'", "e'x\\';y'", "e'\\\\'", "\"x;\"\"y\"", "/* ; /* ; */ ; */", "$$;$$", "$t$;$$;$t$", "-- ;\n",
            "'unlike e'';'", "b$1",
        ] {
            let sql = format!("a {quoted} b; c");
            assert_eq!(statements(&sql), [format!("a {quoted} b"), "c".to_owned()], "{sql}");
        }
        assert_eq!(statements("a 'not closed; b; c"), ["a 'not closed; b; c"]);
    }

    #[test]
    fn parameters_and_words_are_found_outside_of_quotes_and_comments() {
        for (sql, count) in [
            ("select 1", 0),
            ("select $1, $12", 12),
            ("select '$2', $1", 1),
            ("select $$ $3 $$ || $1", 1),
            ("select a$5", 0),
            ("select $99999", u16::MAX),
            ("select $", 0),
        ] {
            assert_eq!(parameters(sql.as_bytes()), count, "{sql}");
        }
        let mut tokens = Tokens::of(b"/* a */ (Select -- b\n 'c' d)");
        let words: Vec<&[u8]> = std::iter::from_fn(|| tokens.next_word()).collect();
        assert_eq!(words, [&b"Select"[..], b"d"]);
    }
}
