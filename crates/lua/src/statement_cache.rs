//! Prepared statements of a worker's scripts: each text is translated and formatted once for all clients.

use std::collections::HashMap;

use pgdyno_wire::{BindTemplate, Columns, EncodeError};

use crate::statement_numbers::{ANY, Commands};

/// One statement text with the types of its parameters.
#[derive(Debug)]
pub(crate) struct Statement {
    /// The statement's name in every session.
    pub name: String,
    /// The text with `$1`, `$2`…
    pub sql: Vec<u8>,
    /// The original text, with a `?` for each parameter.
    text: Vec<u8>,
    pub types: Vec<u32>,
    /// The number under which its latency is counted.
    pub command: usize,
    /// Bind, which requests binary values as sysbench does, and Execute.
    bind: BindTemplate,
    /// Bind, Describe and Execute.
    described: BindTemplate,
}

impl Statement {
    /// The messages that execute it, with or without a description of its rows.
    pub fn bind(&self, rows: bool) -> &BindTemplate {
        if rows { &self.described } else { &self.bind }
    }
}

impl Statement {
    /// The text with a literal in place of each `?`, as sysbench sends it with `--db-ps-mode=disable`: `write(i, out)`
    /// appends the text of parameter `i` (from 0), and returns whether it must be quoted, or None for NULL.
    pub fn with_values(&self, mut write: impl FnMut(u16, &mut Vec<u8>) -> Option<bool>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.text.len() + 64);
        let mut value = Vec::new();
        let mut index = 0;
        for byte in &self.text {
            if *byte != b'?' {
                out.push(*byte);
                continue;
            }
            value.clear();
            match write(index, &mut value) {
                Some(true) => quote(&value, &mut out),
                Some(false) => out.extend_from_slice(&value),
                None => out.extend_from_slice(b"NULL"),
            }
            index += 1;
        }
        out
    }
}

/// Appends a literal. If it contains a backslash, it has the form that is independent of `standard_conforming_strings`.
fn quote(value: &[u8], out: &mut Vec<u8>) {
    let escapes = value.contains(&b'\\');
    out.extend_from_slice(if escapes { b" E'" } else { b"'" });
    for byte in value {
        if *byte == b'\'' || *byte == b'\\' {
            out.push(*byte);
        }
        out.push(*byte);
    }
    out.push(b'\'');
}

#[derive(Debug, Default)]
pub(crate) struct Statements {
    by_text: HashMap<(Vec<u8>, Vec<u32>), usize>,
    all: Vec<Statement>,
    /// None if latencies are not distinguished.
    commands: Option<Commands>,
}

impl Statements {
    /// No statements yet; `commands` distinguishes their latencies.
    pub fn new(commands: Option<Commands>) -> Self {
        Self { commands, ..Self::default() }
    }

    /// The number under which the latency of the statement `sql` is counted.
    pub fn command(&mut self, sql: &[u8]) -> usize {
        let commands = self.commands.as_mut();
        commands.map_or(ANY, |commands| commands.number(sql))
    }

    /// Adds a statement, whose text has a `?` for each parameter; returns its number.
    ///
    /// # Errors
    /// It has too many parameters.
    pub fn number(&mut self, text: &[u8], types: Vec<u32>) -> Result<usize, EncodeError> {
        let key = (text.to_vec(), types);
        if let Some(number) = self.by_text.get(&key) {
            return Ok(*number);
        }
        let number = self.all.len();
        let name = format!("sb_{number}");
        let parameters = u16::try_from(key.1.len()).map_err(|_| EncodeError::TooLong)?;
        let command = self.command(text);
        self.all.push(Statement {
            command,
            bind: BindTemplate::new(&name, parameters, Columns::Unread)?,
            described: BindTemplate::new(&name, parameters, Columns::Described)?,
            name,
            sql: with_numbers(text),
            types: key.1.clone(),
            text: key.0.clone(),
        });
        self.by_text.insert(key, number);
        Ok(number)
    }

    pub fn get(&self, number: usize) -> Option<&Statement> {
        self.all.get(number)
    }
}

/// Replaces every `?` by the next `$n`, wherever it is, as sysbench's driver does.
fn with_numbers(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    let mut number = 0;
    for byte in text {
        if *byte == b'?' {
            number += 1;
            out.extend_from_slice(format!("${number}").as_bytes());
        } else {
            out.push(*byte);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_translated_once() {
        let mut statements = Statements::default();
        let text = b"SELECT c FROM t WHERE id BETWEEN ? AND ?";
        assert_eq!(statements.number(text, vec![23, 23]), Ok(0));
        assert_eq!(statements.number(b"BEGIN", vec![]), Ok(1));
        assert_eq!(statements.number(text, vec![23, 23]), Ok(0));
        assert_eq!(statements.number(text, vec![20, 20]), Ok(2));
        let statement = statements.get(0).expect("it is there");
        assert_eq!(statement.sql, b"SELECT c FROM t WHERE id BETWEEN $1 AND $2");
        assert_eq!(statement.name, "sb_0");
        assert!(statements.get(3).is_none());
        // values stand in the text
        let mut statements = Statements::default();
        let number = statements.number(b"SELECT ?, ?, ? FROM t", vec![23, 25, 25]);
        let statement = statements.get(number.expect("short")).expect("it is there");
        let values: [(&[u8], Option<bool>); 3] = [(b"7", Some(false)), (b"it's \\", Some(true)), (b"", None)];
        let text = statement.with_values(|index, out| {
            let (value, kind) = values[usize::from(index)];
            out.extend_from_slice(value);
            kind
        });
        assert_eq!(text, b"SELECT 7,  E'it''s \\\\', NULL FROM t");
    }
}
