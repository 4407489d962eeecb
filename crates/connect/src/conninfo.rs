//! Connection strings: `host=localhost dbname='my db'`, or a URI.

use crate::keyword::{self, Settings};
use crate::param_error::ParamError;
use crate::uri;

/// Whether a text in place of a database name is a connection string, as for libpq: like a URI, or with a `=`.
pub fn is_conninfo(text: &str) -> bool {
    uri::is_uri(text) || text.contains('=')
}

/// Reads a connection string of either form.
///
/// # Errors
/// In libpq's words; passwords are masked.
pub fn parse(text: &str) -> Result<Settings, ParamError> {
    if uri::is_uri(text) { uri::parse(text) } else { parse_pairs(text) }
}

fn parse_pairs(text: &str) -> Result<Settings, ParamError> {
    let mut settings = Settings::default();
    let mut rest = text.trim_start_matches(is_space);
    let mut after_secret = false;
    while !rest.is_empty() {
        let end = rest.find(|c| c == '=' || is_space(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        // The text after a password may be a part of it whose quotes were forgotten.
        let unknown = !keyword::is_known(name);
        let shown = if after_secret && unknown { "***" } else { name };
        let after = rest[end..].trim_start_matches(is_space);
        let Some(after) = after.strip_prefix('=') else {
            return Err(ParamError::Other(format!("missing \"=\" after \"{shown}\" in connection info string")));
        };
        let (value, tail) = take_value(after.trim_start_matches(is_space))?;
        if unknown {
            return Err(ParamError::UnknownOption(shown.to_owned()));
        }
        settings.set_or_translate(name, value)?;
        after_secret = uri::is_secret(name);
        rest = tail.trim_start_matches(is_space);
    }
    Ok(settings)
}

fn take_value(text: &str) -> Result<(String, &str), ParamError> {
    let (quoted, body) = match text.strip_prefix('\'') {
        Some(body) => (true, body),
        None => (false, text),
    };
    let mut value = String::new();
    let mut chars = body.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return Ok((value, &body[at + 1..])),
            c if !quoted && is_space(c) => return Ok((value, &body[at..])),
            c => value.push(c),
        }
    }
    if quoted {
        return Err(ParamError::Other("unterminated quoted string in connection info string".to_owned()));
    }
    Ok((value, ""))
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

pub(crate) fn quote(value: &str) -> String {
    let plain = !value.is_empty() && !value.contains(|c| is_space(c) || c == '\'' || c == '\\');
    if plain {
        value.to_owned()
    } else {
        let escaped = value.replace('\\', "\\\\").replace('\'', "\\'");
        format!("'{escaped}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
        let settings = parse(text).map_err(|error| error.to_string())?;
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Ok(settings.iter().map(owned).collect())
    }

    fn one(text: &str) -> (String, String) {
        let mut pairs = pairs(text).expect(text);
        assert_eq!(pairs.len(), 1, "{text}");
        pairs.remove(0)
    }

    #[test]
    fn values_are_read_and_connection_strings_recognised() {
        for (text, name, value) in [
            ("host=localhost", "host", "localhost"),
            ("  host = localhost  ", "host", "localhost"),
            ("host\t=\n'a b'", "host", "a b"),
            (r"password='it\'s \\ here'", "password", r"it's \ here"),
            (r"password=a\ b", "password", "a b"),
            (r"password=a'b", "password", "a'b"),
            (r"password=a\", "password", "a"),
            ("host=", "host", ""),
            ("host=''", "host", ""),
            ("dbname=a=b", "dbname", "a=b"),
            ("user=h\u{e9}l\u{e8}ne", "user", "h\u{e9}l\u{e8}ne"),
            ("port=1 port=2", "port", "2"),
        ] {
            assert_eq!(one(text), (name.to_owned(), value.to_owned()), "{text}");
        }
        assert_eq!(pairs(""), Ok(vec![]));
        assert_eq!(pairs("host='a'port=1").map(|p| p.len()), Ok(2));
        for text in ["host=x", "=", "postgres://", "postgresql://x/y"] {
            assert!(is_conninfo(text), "{text}");
        }
        for text in ["", "bench", "postgre://x", "Postgres://x"] {
            assert!(!is_conninfo(text), "{text}");
        }
    }

    #[test]
    fn errors_are_libpqs() {
        for (text, error) in [
            ("host", "missing \"=\" after \"host\" in connection info string"),
            ("host localhost", "missing \"=\" after \"host\" in connection info string"),
            ("postgre://", "missing \"=\" after \"postgre://\" in connection info string"),
            ("hots=x", "invalid connection option \"hots\""),
            ("=x", "invalid connection option \"\""),
            ("host='x", "unterminated quoted string in connection info string"),
            (r"host='x\'", "unterminated quoted string in connection info string"),
        ] {
            assert_eq!(pairs(text), Err(error.to_owned()), "{text}");
        }
        // the rest of an unquoted password is not shown
        for text in ["password=my hunter2", "password=my hunter2=x host=y"] {
            let message = pairs(text).expect_err(text);
            assert!(message.contains("***") && !message.contains("hunter2"), "{message}");
        }
    }
}
