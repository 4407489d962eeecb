//! A line of a server's log, in the three forms that PostgreSQL has.

use std::path::Path;

use serde_json::{Map, Value};

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `stderr`, with whatever log_line_prefix puts in front.
    Plain,
    /// `csvlog`
    Csv,
    /// `jsonlog`
    Json,
}

/// What a line tells of that is worth passing on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Matter {
    /// What becomes of the server as a whole.
    Server,
    /// An autovacuum that has ended.
    Vacuum,
}

/// What is of use in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// LOG, WARNING, ERROR, FATAL, PANIC
    pub severity: String,
    /// Who wrote it, where the line says so.
    pub pid: Option<u32>,
    /// Without detail, hint and statement.
    pub message: String,
}

const SEVERITIES: [&str; 5] = ["LOG", "WARNING", "ERROR", "FATAL", "PANIC"];

/// Columns of csvlog, from 0: the same in all versions.
const CSV_PID: usize = 3;
const CSV_SEVERITY: usize = 11;
const CSV_MESSAGE: usize = 13;

/// Begins of messages that say what becomes of the server as a whole.
const OF_THE_SERVER: [&str; 14] = [
    "terminating any other active server processes",
    "all server processes terminated",
    "database system was interrupted",
    "database system was not properly shut down",
    "database system is ready",
    "database system is shut down",
    "redo starts at",
    "redo done at",
    "received smart shutdown",
    "received fast shutdown",
    "received immediate shutdown",
    "received SIGHUP",
    "received promote request",
    "checkpoints are occurring too frequently",
];

const OF_VACUUMS: [&str; 2] = [
    "automatic vacuum of table",
    "automatic aggressive vacuum of table",
];

/// What becomes of one of its processes, behind its kind and number.
const ENDS: [&str; 2] = [") was terminated by ", ") exited with exit code "];

impl Format {
    /// By the end of its name.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|end| end.to_str()) {
            Some("json") => Self::Json,
            Some("csv") => Self::Csv,
            _ => Self::Plain,
        }
    }

    /// Reads a line; None when it is not the begin of an entry.
    #[must_use]
    pub fn read(self, line: &str) -> Option<Entry> {
        match self {
            Self::Plain => plain(line),
            Self::Csv => csv(line),
            Self::Json => json(line),
        }
    }
}

/// The severity stands behind the prefix, whatever that is: the first one in the line counts.
fn plain(line: &str) -> Option<Entry> {
    let places = SEVERITIES.iter().filter_map(|severity| {
        let at = line.find(&format!("{severity}:  "))?;
        Some((at, *severity))
    });
    let (at, severity) = places.min()?;
    let (prefix, behind) = line.split_at(at);
    Some(Entry {
        severity: severity.to_owned(),
        pid: in_brackets(prefix),
        message: behind[severity.len() + 3..].to_owned(),
    })
}

/// `[123]`, as `log_line_prefix` is wont to have it.
fn in_brackets(prefix: &str) -> Option<u32> {
    let parts = prefix.split('[').skip(1);
    let mut numbers = parts.filter_map(|part| part.split_once(']')?.0.parse().ok());
    numbers.next()
}

/// An entry of several lines begins with one that has all columns up to its message's first line.
fn csv(line: &str) -> Option<Entry> {
    let columns = csv_columns(line);
    let severity = columns.get(CSV_SEVERITY)?.clone();
    SEVERITIES.contains(&severity.as_str()).then(|| Entry {
        severity,
        pid: columns.get(CSV_PID).and_then(|pid| pid.parse().ok()),
        message: columns.get(CSV_MESSAGE).cloned().unwrap_or_default(),
    })
}

fn csv_columns(line: &str) -> Vec<String> {
    let mut columns = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                push(&mut columns, '"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(String::new()),
            other => push(&mut columns, other),
        }
    }
    columns
}

fn push(columns: &mut [String], char: char) {
    if let Some(last) = columns.last_mut() {
        last.push(char);
    }
}

fn json(line: &str) -> Option<Entry> {
    let value: Value = serde_json::from_str(line).ok()?;
    let pid = value.get("pid").and_then(Value::as_u64);
    Some(Entry {
        severity: value.get("error_severity")?.as_str()?.to_owned(),
        pid: pid.and_then(|pid| pid.try_into().ok()),
        message: value.get("message")?.as_str()?.to_owned(),
    })
}

impl Entry {
    /// What it tells of; None of statements and their errors.
    #[must_use]
    pub fn matter(&self) -> Option<Matter> {
        let begins = |begin: &&str| self.message.starts_with(begin);
        // `server process (PID 7) was terminated by signal 9`; from 18 on `client backend (PID 7) …`
        let ended = |end: &&str| self.message.contains(" (PID ") && self.message.contains(end);
        let is_of_all = OF_THE_SERVER.iter().any(begins) || ENDS.iter().any(ended);
        match self.severity.as_str() {
            "PANIC" => Some(Matter::Server),
            "LOG" if is_of_all => Some(Matter::Server),
            "LOG" if OF_VACUUMS.iter().any(begins) => Some(Matter::Vacuum),
            _ => None,
        }
    }

    /// Fields of a `log` line.
    #[must_use]
    pub fn fields(&self) -> Map<String, Value> {
        Map::from_iter([
            ("severity".to_owned(), self.severity.as_str().into()),
            ("pid".to_owned(), self.pid.into()),
            ("message".to_owned(), self.message.as_str().into()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(format: Format, line: &str) -> Option<(String, Option<u32>, String)> {
        let entry = format.read(line)?;
        Some((entry.severity, entry.pid, entry.message))
    }

    #[test]
    fn all_three_forms_say_the_same() {
        let expected = Some((
            "LOG".to_owned(),
            Some(77),
            "server process (PID 9) was terminated by signal 9: Killed".to_owned(),
        ));
        let message = "server process (PID 9) was terminated by signal 9: Killed";
        let plain = format!("2026-11-21 15:18:42.123 UTC [77] LOG:  {message}");
        assert_eq!(told(Format::Plain, &plain), expected);
        let csv = format!(
            "2026-11-21 15:18:42.123 UTC,\"a \"\"b\"\", c\",,77,,692,3,,2026-11-21,,0,LOG,00000,\"{message}\",,,,"
        );
        assert_eq!(told(Format::Csv, &csv), expected);
        let json = format!("{{\"pid\":77,\"error_severity\":\"LOG\",\"message\":\"{message}\"}}");
        assert_eq!(told(Format::Json, &json), expected);
        let entry = Format::Json.read(&json).expect("it is one");
        assert_eq!(entry.matter(), Some(Matter::Server));
    }

    #[test]
    fn a_prefix_may_be_anything_and_statements_are_not_passed_on() {
        let line = "main 09:30 ann@shop/[unknown] ERROR:  relation \"LOG:  server process (PID 1)\" is missing";
        let entry = Format::Plain.read(line).expect("it is one");
        assert_eq!((entry.severity.as_str(), entry.pid), ("ERROR", None));
        assert_eq!(entry.matter(), None);
        assert_eq!(Format::Plain.read("\tSELECT 1"), None);
        assert_eq!(Format::Csv.read("second line of a statement,LOG\""), None);
        let statement = "x LOG:  statement: ALTER ROLE a PASSWORD 'b'";
        let entry = Format::Plain.read(statement).expect("it is one");
        assert_eq!(entry.matter(), None);
        let panic = "x PANIC:  could not write";
        let entry = Format::Plain.read(panic).expect("it is one");
        assert_eq!(entry.matter(), Some(Matter::Server));
    }
}
