//! A captured statement, in buffers that serve one statement after the other.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;

use crate::error::parsed;
use crate::replay_file::{ReplayFile, known_class, without_zero};

/// Stands for the SQLSTATE of an error whose code the capture does not know.
pub const UNKNOWN_ERROR: [u8; 5] = *b"?????";

/// Buffers up to this size stay allocated between two statements.
const KEPT_BYTES: usize = 64 * 1024;
/// The most parameters that the protocol can carry.
const MOST_PARAMETERS: usize = 65_535;

/// A text of the line without a copy, where it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct StatementLine<'a> {
    at_us: u64,
    #[serde(borrow)]
    sql: Option<Text<'a>>,
    of: Option<u64>,
    text: Option<u64>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    params: Option<Vec<Option<Text<'a>>>>,
    us: Option<u64>,
    #[serde(default)]
    block: bool,
    #[serde(borrow)]
    error: Option<Text<'a>>,
    rows: Option<u64>,
    #[serde(borrow)]
    copy: Option<Vec<Text<'a>>>,
}

#[derive(Debug, Default)]
pub struct Statement {
    /// The intended start, in microseconds since the start of the capture.
    pub at_us: u64,
    pub class: u32,
    /// The number of its shared text; None if it has a text of its own.
    shared: Option<usize>,
    own_sql: String,
    /// Whether it uses the extended protocol.
    pub is_extended: bool,
    /// The name of its prepared statement; empty for the unnamed one.
    pub name: String,
    /// The parameters' values, one after the other.
    values: Vec<u8>,
    /// Where each value is; None for NULL.
    parameters: Vec<Option<Range<usize>>>,
    /// Time on the server when it was captured.
    pub us: Option<u64>,
    /// Whether it belongs to the transaction of the statement before it.
    pub in_block: bool,
    /// The SQLSTATE of the error that it had, or [`UNKNOWN_ERROR`].
    pub error: Option<[u8; 5]>,
    /// Rows that it returned or affected.
    pub rows: Option<u64>,
    /// Rows for COPY FROM STDIN, each with its line end; None if the capture does not have them.
    pub copy: Option<Vec<u8>>,
}

impl Statement {
    /// Reads a line in place of the statement that was here.
    ///
    /// # Errors
    /// The line is invalid; the message has no place.
    pub fn read(&mut self, line: &[u8], file: &ReplayFile) -> Result<(), String> {
        let line: StatementLine<'_> = parsed(line)?;
        self.clear();
        self.at_us = line.at_us;
        match (&line.sql, line.of, line.text) {
            (Some(sql), Some(class), None) => {
                self.class = known_class(class, file.classes.len())?;
                self.own_sql.push_str(without_zero(&sql.0)?);
                self.shared = None;
            }
            (None, None, Some(text)) => {
                let shared = usize::try_from(text).ok();
                let shared = shared.filter(|text| *text < file.texts.len());
                let number = shared.ok_or_else(|| format!("unknown text {text}; the file has {}", file.texts.len()))?;
                self.class = file.texts[number].class;
                self.shared = Some(number);
            }
            _ => return Err("a statement has either \"sql\" and \"of\", or \"text\"".to_owned()),
        }
        self.read_parameters(&line)?;
        self.us = line.us;
        self.in_block = line.block;
        self.rows = line.rows;
        self.error = line.error.map(|error| sqlstate(&error.0)).transpose()?;
        if let Some(rows) = line.copy {
            let copy = self.copy.insert(Vec::new());
            for row in rows {
                copy.extend_from_slice(row.0.as_bytes());
                copy.push(b'\n');
            }
        }
        Ok(())
    }

    fn read_parameters(&mut self, line: &StatementLine<'_>) -> Result<(), String> {
        self.is_extended = line.params.is_some();
        if let Some(name) = &line.name {
            if !self.is_extended {
                return Err("\"name\" needs \"params\"".to_owned());
            }
            self.name.push_str(without_zero(&name.0)?);
        }
        let parameters = line.params.as_deref().unwrap_or_default();
        if parameters.len() > MOST_PARAMETERS {
            return Err(format!("more than {MOST_PARAMETERS} parameters"));
        }
        for parameter in parameters {
            self.parameters.push(match parameter {
                None => None,
                Some(text) => {
                    let start = self.values.len();
                    self.values.extend_from_slice(without_zero(&text.0)?.as_bytes());
                    Some(start..self.values.len())
                }
            });
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.own_sql.clear();
        self.own_sql.shrink_to(KEPT_BYTES);
        self.name.clear();
        self.values.clear();
        self.values.shrink_to(KEPT_BYTES);
        self.parameters.clear();
        self.parameters.shrink_to(KEPT_BYTES / size_of::<Option<Range<usize>>>());
        self.copy = None;
    }

    pub fn sql<'a>(&'a self, file: &'a ReplayFile) -> &'a str {
        match self.shared {
            Some(number) => &file.texts[number].sql,
            None => &self.own_sql,
        }
    }

    /// The parameters' values; None is NULL.
    pub fn parameters(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let values = self.parameters.iter();
        values.map(|place| place.clone().map(|place| &self.values[place]))
    }
}

fn sqlstate(text: &str) -> Result<[u8; 5], String> {
    let is_valid = |state: &[u8; 5]| *state == UNKNOWN_ERROR || state.iter().all(u8::is_ascii_alphanumeric);
    let state = <[u8; 5]>::try_from(text.as_bytes()).ok().filter(is_valid);
    state.ok_or_else(|| "\"error\" is not a SQLSTATE of five letters and digits".to_owned())
}
