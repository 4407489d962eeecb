//! A statement's text without its values, which all its executions have in common.

/// Longer texts are truncated: an INSERT of many rows may have half a megabyte.
pub(crate) const LONGEST: usize = 400;

/// Returns `sql` with a `?` in place of every number and string, `?, ...` in place of lists of these, one blank for any
/// white space, and without comments. The result ends at a string or comment that is not terminated.
pub(crate) fn without_values(sql: &[u8]) -> String {
    let mut scan = Scan { rest: sql, out: Vec::with_capacity(sql.len().min(LONGEST) + 8), is_spaced: false };
    while !scan.rest.is_empty() && scan.out.len() <= LONGEST {
        scan.step();
    }
    let is_cut = scan.out.len() > LONGEST;
    let mut text = String::from_utf8_lossy(&scan.out).into_owned();
    if is_cut {
        let end = (0..=LONGEST).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
        text.push_str(" ...");
    }
    text
}

struct Scan<'a> {
    rest: &'a [u8],
    out: Vec<u8>,
    /// Whether white space comes before the next token.
    is_spaced: bool,
}

impl Scan<'_> {
    fn step(&mut self) {
        let next = |at: usize| self.rest.get(at).copied().unwrap_or(0);
        match (next(0), next(1)) {
            (byte, _) if byte.is_ascii_whitespace() => self.space(1),
            (b'-', b'-') => self.space(until(self.rest, b"\n")),
            (b'/', b'*') => self.space(until(self.rest, b"*/")),
            (b'\'', _) => self.value(1 + string(&self.rest[1..], false)),
            (b'e' | b'E', b'\'') => self.value(2 + string(&self.rest[2..], true)),
            (b'b' | b'B' | b'x' | b'X' | b'n' | b'N', b'\'') => {
                self.value(2 + string(&self.rest[2..], false));
            }
            (b'"', _) => self.copy(1 + until(&self.rest[1..], b"\"")),
            (b'$', _) => self.dollar(),
            (b'?', _) => self.value(1),
            (b'0'..=b'9', _) | (b'.', b'0'..=b'9') => self.value(number(self.rest)),
            (byte, _) if begins_word(byte) => self.copy(length(self.rest, is_of_word)),
            _ => self.copy(1),
        }
    }

    fn space(&mut self, length: usize) {
        self.rest = &self.rest[length..];
        self.is_spaced = true;
    }

    fn copy(&mut self, length: usize) {
        let (text, rest) = self.rest.split_at(length);
        if std::mem::take(&mut self.is_spaced) && !self.out.is_empty() && text != b";" {
            self.out.push(b' ');
        }
        self.out.extend_from_slice(text);
        self.rest = rest;
    }

    /// Handles `$1`, or a string between `$tag$`.
    fn dollar(&mut self) {
        let tag = 1 + length(&self.rest[1..], is_of_word);
        if self.rest.get(tag) == Some(&b'$') {
            let (mark, body) = self.rest.split_at(tag + 1);
            self.value(mark.len() + until(body, mark));
        } else {
            self.copy(tag);
        }
    }

    fn value(&mut self, length: usize) {
        self.rest = &self.rest[length..];
        self.drop_sign();
        if self.out.ends_with(b"?, ...,") {
            self.out.pop();
        } else if self.out.ends_with(b"?,") {
            self.out.extend_from_slice(b" ...");
        } else {
            if self.is_spaced && !self.out.is_empty() {
                self.out.push(b' ');
            }
            self.out.push(b'?');
        }
        self.is_spaced = false;
    }

    /// Removes a sign before a number, unless it comes after an operand.
    fn drop_sign(&mut self) {
        let [.., before, b'-' | b'+'] = self.out[..] else {
            return;
        };
        let is_operator = b"=<>(,*/+-".contains(&before);
        // "= -5" has its blank before the sign
        let behind_blank = before == b' ' && {
            let end = self.out.len() - 2;
            self.out[..end].last().is_some_and(|byte| b"=<>(,*/+-".contains(byte))
        };
        if is_operator || behind_blank {
            self.out.pop();
            self.is_spaced = behind_blank;
        }
        if behind_blank {
            self.out.pop();
        }
    }
}

fn begins_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn is_of_word(byte: u8) -> bool {
    begins_word(byte) || byte.is_ascii_digit()
}

fn length(text: &[u8], is_of: fn(u8) -> bool) -> usize {
    text.iter().position(|byte| !is_of(*byte)).unwrap_or(text.len())
}

/// The position of the end of the first `mark` in `text`, or the end of `text`.
fn until(text: &[u8], mark: &[u8]) -> usize {
    let at = text.windows(mark.len()).position(|here| here == mark);
    at.map_or(text.len(), |at| at + mark.len())
}

/// The position after the quote that ends a string; a doubled quote is a part of the string.
fn string(text: &[u8], has_escapes: bool) -> usize {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'\\' if has_escapes => 2,
            b'\'' if text.get(at + 1) == Some(&b'\'') => 2,
            b'\'' => return at + 1,
            _ => 1,
        };
    }
    text.len()
}

/// The length of digits with their decimal point and exponent.
fn number(text: &[u8]) -> usize {
    let mut end = length(text, |byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_');
    let is_exponent = matches!(text[end - 1], b'e' | b'E') && !text.starts_with(b"0x");
    if is_exponent && matches!(text.get(end), Some(b'+' | b'-')) {
        end += 1 + length(&text[end + 1..], |byte| byte.is_ascii_digit());
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_make_no_other_statement() {
        let cases = [
            ("SELECT c FROM sbtest1 WHERE id=4711", "SELECT c FROM sbtest1 WHERE id=?"),
            ("  SELECT\n\t1.5e-3 ,  x ;", "SELECT ? , x;"),
            ("UPDATE t SET k=-5, v = - 3, w=a-1", "UPDATE t SET k=?, v = ?, w=a-?"),
            ("SELECT (-1, -2,-3), 4 - 3", "SELECT (?, ...), ? - ?"),
            ("SELECT 'it''s', E'a\\'b', $$x'y$$, $q$z$$q$", "SELECT ?, ..."),
            ("SELECT \"Col 1\" FROM t2 -- 5\nWHERE /* 6 */ a1 = 2", "SELECT \"Col 1\" FROM t2 WHERE a1 = ?"),
            ("SELECT 1 WHERE id IN (1,2, 3,4) AND x = $12", "SELECT ? WHERE id IN (?, ...) AND x = $12"),
            ("INSERT INTO t(a,b) VALUES (1,'x'),(2,'y')", "INSERT INTO t(a,b) VALUES (?, ...),(?, ...)"),
            ("SELECT 0x1F, 1_000, N'x', new FROM bench_1", "SELECT ?, ..., new FROM bench_1"),
            ("SELECT 'no end", "SELECT ?"),
            ("SELECT 1 /* no end", "SELECT ?"),
            ("SELECT E'no end\\", "SELECT ?"),
            ("SELECT $1, $", "SELECT $1, $"),
            ("SELECT größe FROM maß WHERE é=1", "SELECT größe FROM maß WHERE é=?"),
            ("", ""),
        ];
        for (sql, shown) in cases {
            assert_eq!(without_values(sql.as_bytes()), shown, "{sql}");
        }
        // a long text is cut between letters
        let sql = format!("SELECT {}", "é, ".repeat(300));
        let shown = without_values(sql.as_bytes());
        assert!(shown.len() <= LONGEST + 4 && shown.ends_with(" ..."), "{shown}");
        let rows: String = (0..10_000).map(|n| format!("({n},'x'),")).collect();
        let bulk = |rows: &str| without_values(format!("INSERT INTO t VALUES {rows}").as_bytes());
        assert_eq!(bulk(&rows), bulk(&rows[..rows.len() / 2]));
    }
}
