//! Where SQL ends: the rules of psql's scanner, which pgbench uses.
//!
//! A statement ends at a semicolon outside quotes, comments, parentheses and the body of `CREATE
//! FUNCTION ... BEGIN ATOMIC`, or at a backslash command. Blanks and `--` comments before a
//! statement are dropped; `\;` and `\:` are a semicolon and a colon without their special meaning.

use crate::value::is_space;
use crate::vars::is_name_byte;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Semicolon,
    /// A backslash; the scanner is immediately after it.
    Backslash,
    End,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// The SQL, which may be empty.
    pub sql: String,
    /// Offset of its first byte.
    pub start: usize,
    pub stop: Stop,
}

/// Scans one text piece by piece; some state persists across backslash commands.
#[derive(Debug)]
pub(crate) struct SqlScanner<'t> {
    text: &'t str,
    pub position: usize,
    paren_depth: u32,
    begin_depth: u32,
    identifier_count: usize,
    /// First letters of the statement's first words that may begin `CREATE [OR REPLACE] {FUNCTION | PROCEDURE}`.
    identifiers: [u8; 4],
}

impl<'t> SqlScanner<'t> {
    pub fn new(text: &'t str) -> SqlScanner<'t> {
        SqlScanner { text, position: 0, paren_depth: 0, begin_depth: 0, identifier_count: 0, identifiers: [0; 4] }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.position + ahead).copied().unwrap_or(0)
    }

    fn run_length(&self, ahead: usize, belongs: impl Fn(u8) -> bool) -> usize {
        let start = (self.position + ahead).min(self.text.len());
        self.text.as_bytes()[start..].iter().take_while(|b| belongs(**b)).count()
    }

    /// The next statement, up to what ends it.
    pub fn next_piece(&mut self) -> Scanned {
        let mut sql = String::new();
        let mut start = self.position;
        while self.position < self.text.len() {
            let from = self.position;
            let mut stop = None;
            match self.peek(0) {
                b';' => stop = self.semicolon(),
                b'\\' if matches!(self.peek(1), b';' | b':') => {
                    if sql.is_empty() {
                        start = from;
                    }
                    sql.push(self.take_escape());
                    continue;
                }
                b'\\' => {
                    self.position += 1;
                    let stop = Stop::Backslash;
                    return Scanned { sql, start, stop };
                }
                first => {
                    let blank = self.token(first);
                    if blank && sql.is_empty() {
                        continue;
                    }
                }
            }
            if sql.is_empty() {
                start = from;
            }
            sql.push_str(&self.text[from..self.position]);
            if let Some(stop) = stop {
                return Scanned { sql, start, stop };
            }
        }
        let stop = Stop::End;
        Scanned { sql, start, stop }
    }

    /// Consumes a semicolon; returns a stop unless parentheses or a function's body are open.
    fn semicolon(&mut self) -> Option<Stop> {
        self.position += 1;
        if self.paren_depth > 0 || self.begin_depth > 0 {
            return None;
        }
        self.identifier_count = 0;
        Some(Stop::Semicolon)
    }

    /// Consumes a backslash and the character after it, which it returns.
    fn take_escape(&mut self) -> char {
        let escaped = self.peek(1);
        if escaped == b';' {
            self.identifier_count = 0;
        }
        self.position += 2;
        char::from(escaped)
    }

    /// Consumes one token that begins with `first`; returns true if it is blank.
    pub fn token(&mut self, first: u8) -> bool {
        let second = self.peek(1);
        match (first, second) {
            (b'-', b'-') => {
                self.skip_line_comment();
                return true;
            }
            (b'/', b'*') => self.skip_comment(),
            (b'\'', _) => self.skip_quoted(b'\''),
            (b'"', _) => self.skip_quoted(b'"'),
            (b'e' | b'E', b'\'') => self.skip_escaped_string(),
            (b'$', _) => self.skip_dollar(),
            (b'(', _) => {
                self.paren_depth += 1;
                self.position += 1;
            }
            (b')', _) => {
                self.paren_depth = self.paren_depth.saturating_sub(1);
                self.position += 1;
            }
            (b':', b':') => self.position += 2,
            (b':', _) if is_name_byte(second) => {
                self.position += 1 + self.run_length(1, is_name_byte);
            }
            (b'.', b'0'..=b'9') | (b'0'..=b'9', _) => self.skip_number(),
            _ if is_space(first) => {
                self.position += 1;
                return true;
            }
            _ if is_name_byte(first) => self.identifier(),
            _ => self.position += 1,
        }
        false
    }

    fn skip_line_comment(&mut self) {
        self.position += self.run_length(0, |b| b != b'\n' && b != b'\r');
    }

    fn skip_comment(&mut self) {
        let mut depth = 1;
        self.position += 2;
        while depth > 0 && self.position < self.text.len() {
            self.position += match (self.peek(0), self.peek(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    2
                }
                (b'*', b'/') => {
                    depth -= 1;
                    2
                }
                _ => 1,
            };
        }
    }

    /// Skips a string or a quoted identifier. Two quotes in a row end one and begin another, which has the same end.
    fn skip_quoted(&mut self, quote: u8) {
        self.position += 1;
        self.position += self.run_length(0, |b| b != quote);
        self.position = (self.position + 1).min(self.text.len());
    }

    /// Skips a string with backslash escapes. If it is continued on a further line, it remains one.
    fn skip_escaped_string(&mut self) {
        self.position += 2;
        while self.position < self.text.len() {
            match (self.peek(0), self.peek(1)) {
                (b'\\', escaped) if escaped.is_ascii() => self.position += 2,
                (b'\'', b'\'') => self.position += 2,
                (b'\'', _) => {
                    self.position += 1;
                    let Some(length) = self.quote_continuation() else {
                        return;
                    };
                    self.position += length;
                }
                _ => self.position += 1,
            }
        }
        self.position = self.text.len();
    }

    /// Length of blanks that contain a newline and are followed by a quote.
    fn quote_continuation(&self) -> Option<usize> {
        let mut ahead = 0;
        let mut newline = false;
        loop {
            match (self.peek(ahead), self.peek(ahead + 1)) {
                (b'\'', _) if newline => return Some(ahead + 1),
                (b'\n' | b'\r', _) => {
                    newline = true;
                    ahead += 1;
                }
                (b'-', b'-') => {
                    ahead += self.run_length(ahead, |b| b != b'\n' && b != b'\r');
                }
                (blank, _) if is_space(blank) => ahead += 1,
                _ => return None,
            }
        }
    }

    /// Skips `$tag$ ... $tag$`, `$1`, or a single dollar sign.
    fn skip_dollar(&mut self) {
        let tag = match self.peek(1) {
            b'0'..=b'9' => {
                self.position += 1 + self.run_length(1, |b| b.is_ascii_digit());
                // Junk such as $1a is one token.
                let junk = self.peek(0);
                if is_name_byte(junk) {
                    self.position += self.text[self.position..].chars().next().map_or(0, char::len_utf8);
                }
                return;
            }
            _ => self.run_length(1, is_name_byte),
        };
        if self.peek(1 + tag) != b'$' {
            self.position += 1;
            return;
        }
        let delimiter = &self.text[self.position..self.position + tag + 2];
        let body = self.position + delimiter.len();
        let end = self.text[body..].find(delimiter);
        self.position = end.map_or(self.text.len(), |end| body + end + delimiter.len());
    }

    /// Skips a number, with adjacent letters, so that they do not begin a string, and with the sign
    /// of an exponent, so that it does not begin a comment.
    fn skip_number(&mut self) {
        let is_digit = |b: u8| b.is_ascii_digit() || b == b'_';
        self.position += self.run_length(0, is_digit);
        if self.peek(0) == b'.' && self.peek(1) != b'.' {
            self.position += 1 + self.run_length(1, is_digit);
        }
        if let (b'e' | b'E', b'+' | b'-') = (self.peek(0), self.peek(1)) {
            let digits = self.run_length(2, is_digit);
            self.position += 2 + digits;
            if digits == 0 {
                return;
            }
        }
        if is_name_byte(self.peek(0)) {
            self.position += self.run_length(0, is_identifier_byte);
        }
    }

    /// Reads a word; words of a function's definition change the nesting of BEGIN ... END.
    fn identifier(&mut self) {
        let start = self.position;
        self.position += self.run_length(0, is_identifier_byte);
        let word = &self.text[start..self.position];
        let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
        if self.identifier_count == 0 {
            self.identifiers = [0; 4];
        }
        if ["create", "function", "procedure", "or", "replace"].into_iter().any(is)
            && let Some(letter) = self.identifiers.get_mut(self.identifier_count)
        {
            *letter = word.as_bytes()[0].to_ascii_lowercase();
        }
        self.identifier_count += 1;
        let defines_function = matches!(self.identifiers, [b'c', b'f' | b'p', ..] | [b'c', b'o', b'r', b'f' | b'p']);
        if !defines_function || self.paren_depth > 0 {
            return;
        }
        // CASE ends with END, too, which matters only within a body.
        if is("begin") || (is("case") && self.begin_depth > 0) {
            self.begin_depth += 1;
        } else if is("end") {
            self.begin_depth = self.begin_depth.saturating_sub(1);
        }
    }
}

fn is_identifier_byte(byte: u8) -> bool {
    is_name_byte(byte) || byte == b'$'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<String> {
        let mut scanner = SqlScanner::new(text);
        let mut pieces = Vec::new();
        loop {
            let scanned = scanner.next_piece();
            if !scanned.sql.is_empty() {
                pieces.push(scanned.sql);
            }
            if scanned.stop == Stop::End {
                return pieces;
            }
        }
    }

    #[test]
    fn semicolons_that_end_a_statement() {
        for (text, expected) in [
            ("SELECT 1; SELECT 2", &["SELECT 1;", "SELECT 2"][..]),
            (" -- c\n\t-- d\nSELECT 1 -- e;\n;", &["SELECT 1 -- e;\n;"]),
            ("SELECT ';' ; x", &["SELECT ';' ;", "x"]),
            ("SELECT 'it''s;' ; x", &["SELECT 'it''s;' ;", "x"]),
            (r"SELECT '\'; x", &[r"SELECT '\';", "x"]),
            (r"SELECT e'\';'; x", &[r"SELECT e'\';';", "x"]),
            (r"SELECT name'\'; x", &[r"SELECT name'\';", "x"]),
            (r"SELECT 1e'\'; x", &[r"SELECT 1e'\';", "x"]),
            (r"SELECT :e'\'; x", &[r"SELECT :e'\';", "x"]),
            (r"SELECT 1.5e--*/ e'\';'; x", &[r"SELECT 1.5e--*/ e'\';';", "x"]),
            ("SELECT 1..e--;\n; x", &["SELECT 1..e--;\n;", "x"]),
            (r"SELECT 1e-2e'\'; x", &[r"SELECT 1e-2e'\';", "x"]),
            (r"SELECT 1e-e'\';'; x", &[r"SELECT 1e-e'\';';", "x"]),
            ("SELECT 1::a$b$; x", &["SELECT 1::a$b$;", "x"]),
            ("SELECT 1:a$b$;$b$; x", &["SELECT 1:a$b$;$b$;", "x"]),
            ("SELECT e'a' -- c\n 'b\\';'; x", &["SELECT e'a' -- c\n 'b\\';';", "x"]),
            ("SELECT e'a' 'b\\'; x", &["SELECT e'a' 'b\\';", "x"]),
            ("SELECT \"a;\"\"b\"; x", &["SELECT \"a;\"\"b\";", "x"]),
            ("SELECT $$;$a$;$$; x", &["SELECT $$;$a$;$$;", "x"]),
            ("SELECT $a$;$$;$b$a$; x", &["SELECT $a$;$$;$b$a$;", "x"]),
            ("SELECT a$b$; x$b$", &["SELECT a$b$;", "x$b$"]),
            ("SELECT $1$$;$$; x", &["SELECT $1$$;$$;", "x"]),
            ("SELECT $é$;$é$; x", &["SELECT $é$;$é$;", "x"]),
            ("SELECT $1é; x", &["SELECT $1é;", "x"]),
            ("/* ; /* ; */ ; */ SELECT 1; x", &["/* ; /* ; */ ; */ SELECT 1;", "x"]),
            ("SELECT 2*/*;*/3; x", &["SELECT 2*/*;*/3;", "x"]),
            ("SELECT (1;2)); x", &["SELECT (1;2));", "x"]),
            ("SELECT 1 \\; SELECT 2; x", &["SELECT 1 ; SELECT 2;", "x"]),
            ("SELECT a\\:b; x", &["SELECT a:b;", "x"]),
            (";;", &[";", ";"]),
            ("SELECT 'a;", &["SELECT 'a;"]),
            ("SELECT e'a;\\", &["SELECT e'a;\\"]),
            ("SELECT $a$ ;", &["SELECT $a$ ;"]),
            ("SELECT /* ;", &["SELECT /* ;"]),
        ] {
            assert_eq!(pieces(text), expected, "{text}");
        }
    }

    #[test]
    fn statements_end_and_start_where_psqls_do() {
        let body = "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC \
                    SELECT CASE WHEN true THEN 1 END; SELECT 2; END;";
        assert_eq!(pieces(&format!("{body} x")), [body, "x"]);
        let procedure = "create procedure p() begin atomic select 1; end;";
        assert_eq!(pieces(&format!("{procedure} x")), [procedure, "x"]);
        assert_eq!(pieces("BEGIN; CREATE TABLE t(); END;").len(), 3);
        // backslashes stop outside of quotes
        let mut scanner = SqlScanner::new("SELECT '\\' \\gset");
        let scanned = scanner.next_piece();
        assert_eq!((scanned.sql.as_str(), scanned.stop), ("SELECT '\\' ", Stop::Backslash));
        assert_eq!(scanner.position, 12);
        // a statement starts behind blanks and comments
        let mut scanner = SqlScanner::new("\n-- c\n  SELECT 1;");
        assert_eq!(scanner.next_piece().start, 8);
    }
}
