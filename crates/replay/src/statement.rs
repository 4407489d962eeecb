//! A captured statement, in buffers that serve one statement after the other.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;

use crate::error::parsed;
use crate::replay_file::{ReplayFile, known_class, without_zero};
use crate::slots::Slots;

/// Stands for the SQLSTATE of an error whose code the capture does not know.
pub const UNKNOWN_ERROR: [u8; 5] = *b"?????";

/// Buffers up to this size stay allocated between two statements.
const KEPT_BYTES: usize = 64 * 1024;
/// The most parameters that the protocol can carry.
const MOST_PARAMETERS: usize = 65_535;

/// Stands for the text where places name a parameter.
const TEXT: i32 = 0;
/// Stands for the rows of COPY, each with its line end.
const COPY: i32 = -1;

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
    #[serde(default)]
    gives: Vec<Give>,
    #[serde(default)]
    uses: Vec<Use>,
    #[serde(default)]
    after: Vec<usize>,
    done: Option<usize>,
}

/// A value of the answer that later statements use.
#[derive(Debug, Deserialize)]
pub struct Give {
    pub row: usize,
    pub column: usize,
    pub slot: usize,
    /// The captured value, if the rows may have another order than captured.
    #[serde(default)]
    pub captured: Option<Box<str>>,
}

/// A place where the value of a slot is sent instead of the captured one.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Use {
    slot: usize,
    /// The number of the parameter, from 1; or [`TEXT`], or [`COPY`].
    parameter: i32,
    /// The bytes there: a number, what stands in quotes, an element of an array, or a column of a row.
    from: usize,
    to: usize,
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
    pub gives: Vec<Give>,
    /// In the order of their places.
    uses: Vec<Use>,
    /// The slots that are filled when the statements are done before which this one must not start.
    after: Vec<usize>,
    /// The slot that is filled when this statement is done.
    pub done: Option<usize>,
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
        (self.after, self.done) = (line.after, line.done);
        if let Some(rows) = line.copy {
            let copy = self.copy.insert(Vec::new());
            for row in rows {
                copy.extend_from_slice(row.0.as_bytes());
                copy.push(b'\n');
            }
        }
        self.read_slots(line.gives, line.uses, file.header.slots)
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

    fn read_slots(&mut self, gives: Vec<Give>, uses: Vec<Use>, slots: usize) -> Result<(), String> {
        let named = gives.iter().map(|give| give.slot).chain(uses.iter().map(|one| one.slot));
        let mut named = named.chain(self.after.iter().copied()).chain(self.done);
        if let Some(slot) = named.find(|slot| *slot >= slots) {
            return Err(format!("unknown slot {slot}; the file has {slots}"));
        }
        let mut before = (COPY, 0);
        for one in &uses {
            let text = match one.parameter {
                TEXT => self.shared.is_none().then_some(self.own_sql.as_bytes()),
                COPY => self.copy.as_deref(),
                number => self.range(number).map(|range| &self.values[range]),
            };
            let text = text.and_then(|text| str::from_utf8(text).ok());
            let is_place = text.is_some_and(|text| text.get(one.from..one.to).is_some());
            if !is_place || (one.parameter, one.from) < before {
                return Err(
                    "\"uses\" names a place that is not in the statement, or not after the one before".to_owned()
                );
            }
            before = (one.parameter, one.to);
        }
        (self.gives, self.uses) = (gives, uses);
        Ok(())
    }

    /// The slots without which the statement should not start.
    pub fn awaited(&self) -> impl Iterator<Item = usize> {
        self.uses.iter().map(|one| one.slot).chain(self.after.iter().copied())
    }

    fn range(&self, parameter: i32) -> Option<Range<usize>> {
        self.parameters.get(usize::try_from(parameter).ok()?.checked_sub(1)?)?.clone()
    }

    /// Puts the values of slots in the place of captured ones; returns how many, and how many places keep the
    /// captured value.
    pub fn substitute(&mut self, slots: &Slots) -> (u64, u64) {
        let uses = std::mem::take(&mut self.uses);
        let mut replaced = 0;
        for some in uses.chunk_by(|one, next| one.parameter == next.parameter) {
            let parameter = some[0].parameter;
            let old = match parameter {
                TEXT => std::mem::take(&mut self.own_sql).into_bytes(),
                COPY => self.copy.take().unwrap_or_default(),
                number => self.values[self.range(number).unwrap_or_default()].to_vec(),
            };
            let (mut new, mut at) = (Vec::with_capacity(old.len()), 0);
            for one in some {
                new.extend_from_slice(&old[at..one.from]);
                let value = slots.value(one.slot).and_then(|value| str::from_utf8(value).ok());
                let value = value.and_then(|value| spelling(value, parameter, &old[..one.from]));
                replaced += u64::from(value.is_some());
                new.extend_from_slice(value.as_deref().map_or(&old[one.from..one.to], str::as_bytes));
                at = one.to;
            }
            new.extend_from_slice(&old[at..]);
            match parameter {
                // pieces of UTF-8
                TEXT => self.own_sql = String::from_utf8(new).unwrap_or_default(),
                COPY => self.copy = Some(new),
                number => {
                    let start = self.values.len();
                    self.values.extend_from_slice(&new);
                    self.parameters[number as usize - 1] = Some(start..self.values.len());
                }
            }
        }
        (replaced, uses.len() as u64 - replaced)
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

/// A value as it is written after `before`; None if it cannot stand there.
fn spelling<'a>(value: &'a str, parameter: i32, before: &[u8]) -> Option<Cow<'a, str>> {
    let is_element = matches!(before.last(), Some(b'{' | b','));
    let is_plain =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'.') || is_element && byte.is_ascii_alphabetic();
    match parameter {
        TEXT if before.ends_with(b"'") => Some(value.replace('\'', "''").into()),
        COPY => (!value.contains(['\\', '\t', '\n', '\r'])).then_some(value.into()),
        1.. if !is_element => Some(value.into()),
        1.. => (!value.contains(['{', '}', ',', '"', '\\', ' '])).then_some(value.into()),
        _ => value.bytes().all(is_plain).then_some(value.into()),
    }
}

fn sqlstate(text: &str) -> Result<[u8; 5], String> {
    let is_valid = |state: &[u8; 5]| *state == UNKNOWN_ERROR || state.iter().all(u8::is_ascii_alphanumeric);
    let state = <[u8; 5]>::try_from(text.as_bytes()).ok().filter(is_valid);
    state.ok_or_else(|| "\"error\" is not a SQLSTATE of five letters and digits".to_owned())
}
