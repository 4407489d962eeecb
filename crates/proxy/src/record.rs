//! What is written of each statement: a line of JSON.

use std::fmt::Write;

use serde::Serialize;

const BOOL: u32 = 16;
const INT8: u32 = 20;
const INT2: u32 = 21;
const INT4: u32 = 23;
pub const TEXT: u32 = 25;
const OID: u32 = 26;
const BPCHAR: u32 = 1042;
const VARCHAR: u32 = 1043;
/// Numbers, UUID, date and time, text: what can be the key of a row.
const KEYS: [u32; 12] = [INT2, INT4, INT8, OID, TEXT, BPCHAR, VARCHAR, 2950, 1700, 1114, 1184, 1082];
/// Types whose binary format is their text.
const TEXTS: [u32; 5] = [TEXT, BPCHAR, VARCHAR, 19, 114];
/// Longest key in characters of text.
pub const LONGEST_KEY: usize = 64;

pub fn can_be_key(oid: u32) -> bool {
    KEYS.contains(&oid)
}

/// A value of a parameter or of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    Null,
    Text(String),
    /// In binary format, of a type that the reader converts.
    Binary {
        oid: u32,
        hex: String,
    },
}

/// Text that is not in UTF-8.
#[derive(Debug, PartialEq, Eq)]
pub struct NotUtf8;

impl Value {
    pub fn of(bytes: Option<&[u8]>, oid: u32, format: u16, is_utf8: bool) -> Result<Value, NotUtf8> {
        let Some(bytes) = bytes else { return Ok(Value::Null) };
        if format == 0 || TEXTS.contains(&oid) {
            return utf8(bytes, is_utf8).map(Value::Text);
        }
        let number = match (oid, bytes) {
            (INT2, &[a, b]) => Some(i64::from(i16::from_be_bytes([a, b]))),
            (INT4, &[a, b, c, d]) => Some(i64::from(i32::from_be_bytes([a, b, c, d]))),
            (OID, &[a, b, c, d]) => Some(i64::from(u32::from_be_bytes([a, b, c, d]))),
            (INT8, bytes) => bytes.try_into().ok().map(i64::from_be_bytes),
            _ => None,
        };
        Ok(match (number, oid, bytes) {
            (Some(number), ..) => Value::Text(number.to_string()),
            (None, BOOL, &[truth]) => Value::Text(if truth == 0 { "f" } else { "t" }.to_owned()),
            _ => {
                let mut hex = String::with_capacity(2 * bytes.len());
                bytes.iter().for_each(|byte| _ = write!(hex, "{byte:02x}"));
                Value::Binary { oid, hex }
            }
        })
    }

    pub fn bytes(&self) -> usize {
        match self {
            Value::Null => 4,
            Value::Text(text) | Value::Binary { hex: text, .. } => text.len() + 4,
        }
    }
}

/// The text; `is_utf8` tells whether the session's encoding is UTF-8.
pub fn utf8(bytes: &[u8], is_utf8: bool) -> Result<String, NotUtf8> {
    if !is_utf8 && !bytes.is_ascii() {
        return Err(NotUtf8);
    }
    String::from_utf8(bytes.to_vec()).map_err(|_| NotUtf8)
}

/// Why a statement cannot be replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    TooLong,
    Encoding,
    PortalFetch,
    FunctionCall,
    Unreadable,
    Replication,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Connect,
    Done,
    Disconnect,
}

/// One line. Times are microseconds, `at` since 1970.
#[derive(Debug, Serialize)]
pub struct Record<'a> {
    pub kind: Kind,
    pub session: u64,
    pub at: i64,
    pub database: &'a str,
    pub user: &'a str,
    pub application: &'a str,
    #[serde(flatten)]
    pub statement: Option<&'a Statement>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Statement {
    #[serde(skip)]
    pub at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub us: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,
    /// Of the extended protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sqlstate: Option<String>,
    /// The first rows, one after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_columns: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}
