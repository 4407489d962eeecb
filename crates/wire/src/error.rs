//! Errors: the server's own, broken streams, and messages that cannot be sent.

use std::fmt;

use crate::error_position;
use crate::sqlstate::SqlState;

/// An ErrorResponse or NoticeResponse with the fields that are shown at default verbosity.
///
/// Displayed as libpq does at default verbosity, without a newline at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerError {
    /// Severity in the server's language: `ERROR`, `FATAL`, `NOTICE`, ...
    pub severity: String,
    /// Severity in English, since PostgreSQL 9.6.
    pub severity_code: Option<String>,
    /// The five-character code; `None` if missing or malformed.
    pub code: Option<SqlState>,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// Position in the query, in characters from 1.
    pub position: Option<u32>,
    /// Position in `internal_query`, in characters from 1.
    pub internal_position: Option<u32>,
    pub internal_query: Option<String>,
    /// The context: a traceback, innermost first, with one line for each level.
    pub context: Option<String>,
}

impl ServerError {
    /// Reads the body of an ErrorResponse or NoticeResponse.
    ///
    /// Accepts incomplete bodies: the last field of a truncated body is truncated, unknown fields
    /// are ignored, and bytes that are not UTF-8 are replaced.
    pub fn parse(body: &[u8]) -> ServerError {
        let mut error = ServerError::default();
        let mut rest = body;
        while let [kind, tail @ ..] = rest {
            if *kind == 0 {
                break;
            }
            let end = tail.iter().position(|&b| b == 0).unwrap_or(tail.len());
            error.set(*kind, &tail[..end]);
            rest = tail.get(end + 1..).unwrap_or(&[]);
        }
        error
    }

    fn set(&mut self, kind: u8, value: &[u8]) {
        if kind == b'C' {
            self.code = SqlState::parse(value);
            return;
        }
        // a failing load has many errors: fields that nobody reads are not copied
        let text = || String::from_utf8_lossy(value).into_owned();
        let number = || std::str::from_utf8(value).ok()?.parse().ok();
        match kind {
            b'S' => self.severity = text(),
            b'V' => self.severity_code = Some(text()),
            b'M' => self.message = text(),
            b'D' => self.detail = Some(text()),
            b'H' => self.hint = Some(text()),
            b'P' => self.position = number(),
            b'p' => self.internal_position = number(),
            b'q' => self.internal_query = Some(text()),
            b'W' => self.context = Some(text()),
            _ => {}
        }
    }

    /// The error code; [`SqlState::UNKNOWN`] when the server sent none.
    pub fn sqlstate(&self) -> SqlState {
        self.code.unwrap_or(SqlState::UNKNOWN)
    }

    /// Whether the server ends the session after this error.
    pub fn is_fatal(&self) -> bool {
        let severity = self.severity_code.as_deref().unwrap_or(&self.severity);
        matches!(severity, "FATAL" | "PANIC")
    }

    fn is_notice(&self) -> bool {
        let severity = self.severity_code.as_deref().unwrap_or(&self.severity);
        matches!(severity, "WARNING" | "NOTICE" | "DEBUG" | "INFO" | "LOG")
    }

    /// The same text as Display, with the position in `query` shown as in libpq (`LINE 1: ...` and a caret).
    pub fn display_with_query(&self, query: &str) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_text(&mut text, Some(query));
        text
    }

    fn write_text(&self, f: &mut impl fmt::Write, query: Option<&str>) -> fmt::Result {
        if !self.severity.is_empty() {
            write!(f, "{}:  ", self.severity)?;
        }
        f.write_str(&self.message)?;
        let place = match (self.position, self.internal_position) {
            (Some(position), _) => Some((position, query)),
            (None, Some(position)) => Some((position, self.internal_query.as_deref())),
            (None, None) => None,
        };
        match place {
            Some((position, Some(text))) => error_position::write(f, text, position)?,
            Some((position, None)) => write!(f, " at character {position}")?,
            None => {}
        }
        // By libpq's default, the context is shown for errors and not for notices.
        let context = self.context.as_ref().filter(|_| !self.is_notice());
        for (label, field) in [
            ("DETAIL", self.detail.as_ref()),
            ("HINT", self.hint.as_ref()),
            ("QUERY", self.internal_query.as_ref()),
            ("CONTEXT", context),
        ] {
            if let Some(text) = field {
                write!(f, "\n{label}:  {text}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_text(f, None)
    }
}

impl std::error::Error for ServerError {}

/// A stream that does not follow PostgreSQL's protocol. Lengths are those of the headers, which include themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A message type that no server sends, or that is not allowed at this point.
    #[error("{}", lost_synchronization(*kind, *length))]
    UnknownMessage { kind: u8, length: u32 },
    /// A length that is too short, or too long for this type of message.
    #[error("{}", lost_synchronization(*kind, *length))]
    BadLength { kind: u8, length: u32 },
    #[error("invalid message \"{}\" from server: {what}", kind.escape_ascii())]
    Malformed { kind: u8, what: &'static str },
    /// More bytes than the limit for everything before the first ReadyForQuery.
    #[error("server sent too much before it was ready for a query")]
    EndlessStartup,
}

fn lost_synchronization(kind: u8, length: u32) -> String {
    let (kind, length) = (kind.escape_ascii(), length.cast_signed());
    format!("lost synchronization with server: got message type \"{kind}\", length {length}")
}

/// A message that cannot be encoded. The buffer contains no part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error("could not encode message: a string holds a zero byte")]
    ZeroByte,
    #[error("could not encode message: it is longer than 2 GiB")]
    TooLong,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_also_from_cut_and_broken_bodies() {
        let body =
            b"SFEHLER\0VERROR\0C23505\0Mdup\0Dd\0Hh\0P7\0p8\0qq\0Ww\0ss\0tt\0cc\0dd\0nn\0Ff.c\0L9\0Rr\0zunknown\0\0";
        let error = ServerError::parse(body);
        assert_eq!(error.sqlstate(), SqlState::UNIQUE_VIOLATION);
        assert_eq!(error.severity, "FEHLER");
        assert_eq!(error.position, Some(7));
        assert_eq!(error.internal_position, Some(8));
        let texts = [
            (&error.severity_code, "ERROR"),
            (&error.detail, "d"),
            (&error.hint, "h"),
            (&error.internal_query, "q"),
            (&error.context, "w"),
        ];
        for (field, text) in texts {
            assert_eq!(field.as_deref(), Some(text));
        }
        let cut = ServerError::parse(b"SERROR\0C40001\0Mcould not seri");
        assert_eq!(cut.message, "could not seri");
        assert_eq!(cut.sqlstate(), SqlState::SERIALIZATION_FAILURE);
        assert_eq!(ServerError::parse(b"").sqlstate(), SqlState::UNKNOWN);
        assert_eq!(ServerError::parse(b"M\xff\0\0").message, "\u{fffd}");
        // fatal goes by the english severity
        assert!(ServerError::parse(b"SFATAL\0\0").is_fatal());
        assert!(ServerError::parse(b"SFATALE\0VFATAL\0\0").is_fatal());
        assert!(!ServerError::parse(b"SERROR\0VERROR\0\0").is_fatal());
    }

    #[test]
    fn display_is_libpqs() {
        let body = b"SERROR\0C23505\0Mduplicate key\0DKey (id)=(1) already exists.\0Hno\0Wline 1\0\0";
        let text = "ERROR:  duplicate key\nDETAIL:  Key (id)=(1) already exists.\nHINT:  no\nCONTEXT:  line 1";
        assert_eq!(ServerError::parse(body).to_string(), text);
        let notice = ServerError::parse(b"SNOTICE\0VNOTICE\0Mhello\0Winline_code_block line 1\0\0");
        assert_eq!(notice.to_string(), "NOTICE:  hello");
        let error = ServerError::parse(b"SERROR\0C42601\0Msyntax error at or near \"x\"\0P8\0\0");
        assert_eq!(error.to_string(), "ERROR:  syntax error at or near \"x\" at character 8");
    }
}
