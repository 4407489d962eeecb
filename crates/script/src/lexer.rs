//! Words and expression tokens of backslash commands.
//!
//! A command ends at the end of its line; a backslash right before it continues the command on the next one.

use crate::number::parse_double;
use crate::vars::is_name_byte;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Token<'t> {
    /// End of the line or of the text.
    End,
    /// One of [`SYMBOLS`].
    Symbol(&'static str),
    /// One of [`KEYWORDS`].
    Keyword(&'static str),
    Boolean(bool),
    Integer(i64),
    /// 9223372036854775808, which is an integer only after a minus sign.
    MaxIntPlusOne,
    Double(f64),
    Variable(&'t str),
    Name(&'t str),
}

/// A symbol comes before those with which it begins.
const SYMBOLS: [&str; 21] =
    ["<>", "!=", "<=", ">=", "<<", ">>", "<", ">", "=", "+", "-", "*", "/", "%", "|", "&", "#", "~", "(", ")", ","];

const KEYWORDS: [&str; 12] =
    ["and", "or", "not", "is", "isnull", "notnull", "case", "when", "then", "else", "end", "null"];

/// An invalid character or number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LexError {
    pub message: &'static str,
    pub detail: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Lexer<'t> {
    text: &'t str,
    /// End of the last token or word.
    pub position: usize,
    /// Whether the last token was the end of a line (not of the text).
    pub at_newline: bool,
}

impl<'t> Lexer<'t> {
    pub fn new(text: &'t str, position: usize) -> Lexer<'t> {
        Lexer { text, position, at_newline: false }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.position + ahead).copied().unwrap_or(0)
    }

    fn run_length(&self, ahead: usize, belongs: impl Fn(u8) -> bool) -> usize {
        self.text.as_bytes()[self.position + ahead..].iter().take_while(|b| belongs(**b)).count()
    }

    /// Length of a continuation mark `ahead` bytes from here; 0 without one.
    fn continuation(&self, ahead: usize) -> usize {
        match (self.peek(ahead), self.peek(ahead + 1), self.peek(ahead + 2)) {
            (b'\\', b'\n', _) => 2,
            (b'\\', b'\r', b'\n') => 3,
            _ => 0,
        }
    }

    fn skip_blanks(&mut self) {
        loop {
            let skipped = match self.run_length(0, is_blank) {
                0 => self.continuation(0),
                blanks => blanks,
            };
            if skipped == 0 {
                return;
            }
            self.position += skipped;
        }
    }

    /// The next word and the offset that pgbench reports for it, or None at the end of the line. A newline is consumed.
    pub fn word(&mut self) -> Option<(&'t str, usize)> {
        self.skip_blanks();
        self.at_newline = self.peek(0) == b'\n';
        if self.at_newline {
            self.position += 1;
            return None;
        }
        let start = self.position;
        let mut length = self.run_length(0, |b| !is_blank(b) && b != b'\n');
        if length == 0 {
            return None;
        }
        self.position += length;
        if length > 1 && self.text.as_bytes()[self.position - 1] == b'\\' {
            self.position -= 1;
            match self.continuation(0) {
                0 => self.position += 1,
                mark => {
                    self.position += mark;
                    length -= 1;
                }
            }
        }
        // pgbench counts back from the end, past a continuation mark.
        Some((&self.text[start..start + length], self.position - length))
    }

    pub fn token(&mut self) -> Result<Token<'t>, LexError> {
        self.skip_blanks();
        self.at_newline = false;
        let start = self.position;
        if start == self.text.len() {
            return Ok(Token::End);
        }
        let first = self.peek(0);
        if first.is_ascii_digit() || (first == b'.' && self.peek(1).is_ascii_digit()) {
            return self.number();
        }
        if is_name_byte(first) {
            self.position += self.run_length(0, is_name_byte);
            let name = &self.text[start..self.position];
            return Ok(keyword(name).unwrap_or(Token::Name(name)));
        }
        if first == b':' && is_name_byte(self.peek(1)) {
            self.position += 1 + self.run_length(1, is_name_byte);
            return Ok(Token::Variable(&self.text[start + 1..self.position]));
        }
        if first == b'\n' {
            self.position += 1;
            self.at_newline = true;
            return Ok(Token::End);
        }
        let rest = &self.text.as_bytes()[start..];
        let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(symbol.as_bytes())) else {
            self.position += 1;
            return Err(LexError { message: "unexpected character", detail: char::from(first).to_string() });
        };
        self.position += symbol.len();
        Ok(Token::Symbol(symbol))
    }

    /// Parses digits; with a decimal point or an exponent, a double.
    fn number(&mut self) -> Result<Token<'t>, LexError> {
        let start = self.position;
        let digits = |lexer: &Self, ahead| lexer.run_length(ahead, |b| b.is_ascii_digit());
        let mut length = digits(self, 0);
        let mut integer = true;
        if self.peek(length) == b'.' {
            integer = false;
            length += 1 + digits(self, length + 1);
        }
        if matches!(self.peek(length), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(length + 1), b'+' | b'-'));
            let exponent = digits(self, length + 1 + sign);
            if exponent > 0 {
                integer = false;
                length += 1 + sign + exponent;
            }
        }
        self.position += length;
        let text = &self.text[start..self.position];
        let (token, message) = if text == "9223372036854775808" {
            (Some(Token::MaxIntPlusOne), "")
        } else if integer {
            (text.parse().ok().map(Token::Integer), "bigint constant overflow")
        } else {
            (parse_double(text.as_bytes()).map(Token::Double), "double constant overflow")
        };
        token.ok_or_else(|| LexError { message, detail: text.to_owned() })
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

fn keyword(name: &str) -> Option<Token<'static>> {
    match name.to_ascii_lowercase().as_str() {
        "true" => Some(Token::Boolean(true)),
        "false" => Some(Token::Boolean(false)),
        name => KEYWORDS.into_iter().find(|keyword| *keyword == name).map(Token::Keyword),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token<'_>> {
        let mut lexer = Lexer::new(text, 0);
        let mut tokens = Vec::new();
        loop {
            match lexer.token().unwrap() {
                Token::End => return tokens,
                token => tokens.push(token),
            }
        }
    }

    #[test]
    fn tokens_are_pgbenchs() {
        for (text, symbols) in [
            ("<<<=<><", &["<<", "<=", "<>", "<"][..]),
            (">>>=>!==", &[">>", ">=", ">", "!=", "="]),
            ("+-*/%|&#~(),", &["+", "-", "*", "/", "%", "|", "&", "#", "~", "(", ")", ","]),
        ] {
            assert_eq!(tokens(text), symbols.iter().map(|symbol| Token::Symbol(symbol)).collect::<Vec<_>>());
        }
        use Token::*;
        assert_eq!(tokens("1 1.5 .5 1. 1e2"), [Integer(1), Double(1.5), Double(0.5), Double(1.0), Double(100.0)]);
        assert_eq!(tokens("1..2"), [Double(1.0), Double(0.2)]);
        assert_eq!(tokens("1e+"), [Integer(1), Name("e"), Symbol("+")]);
        assert_eq!(tokens("9223372036854775807"), [Integer(i64::MAX)]);
        assert_eq!(tokens("9223372036854775808"), [MaxIntPlusOne]);
        assert_eq!(
            tokens("Ln nOtNull TRUE é :a :1x"),
            [Name("Ln"), Keyword("notnull"), Boolean(true), Name("é"), Variable("a"), Variable("1x")]
        );
    }

    #[test]
    fn lines_continue_and_end() {
        assert_eq!(tokens("1 \\\n2\\\r\n3\n4"), [Token::Integer(1), Token::Integer(2), Token::Integer(3)]);
        let mut lexer = Lexer::new("  sleep\\\n \\\n 10 us\nSELECT", 0);
        assert_eq!(lexer.word(), Some(("sleep", 4)));
        assert_eq!(lexer.word(), Some(("10", 13)));
        assert_eq!(lexer.word(), Some(("us", 16)));
        assert_eq!((lexer.word(), lexer.at_newline, lexer.position), (None, true, 19));
        let mut lexer = Lexer::new("a\\b \\ c\\", 0);
        assert_eq!(lexer.word(), Some(("a\\b", 0)));
        assert_eq!(lexer.word(), Some(("\\", 4)));
        assert_eq!(lexer.word(), Some(("c\\", 6)));
        assert_eq!(lexer.word(), None);
    }
}
