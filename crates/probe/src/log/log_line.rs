//! A line of a server's log, in PostgreSQL's three formats.

use std::path::Path;

use serde_json::{Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `stderr`, with any log_line_prefix.
    Plain,
    Csv,
    Json,
}

/// The subject of a line that is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Matter {
    /// An event of the server as a whole.
    Server,
    /// The end of an autovacuum.
    Vacuum,
}

/// The parts of a line that the probe uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub severity: String,
    /// The process that wrote it, if the line shows it.
    pub pid: Option<u32>,
    /// The message without detail, hint and statement.
    pub message: String,
}

const SEVERITIES: [&str; 5] = ["LOG", "WARNING", "ERROR", "FATAL", "PANIC"];

/// What else stands before a text of the format stderr. These lines have the prefix, too, and may
/// quote a statement that contains anything.
const OTHER_HEADINGS: [&str; 9] =
    ["STATEMENT", "DETAIL", "HINT", "CONTEXT", "QUERY", "LOCATION", "NOTICE", "INFO", "DEBUG"];

/// Column of csvlog, from 0: the same in all versions.
const CSV_PID: usize = 3;
const CSV_SEVERITY: usize = 11;
const CSV_MESSAGE: usize = 13;

/// Beginnings of messages about the server as a whole.
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

const OF_VACUUMS: [&str; 2] = ["automatic vacuum of table", "automatic aggressive vacuum of table"];

/// Messages about the end of a process, after its kind and process ID.
const ENDS: [&str; 2] = [") was terminated by ", ") exited with exit code "];

impl Format {
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|end| end.to_str()) {
            Some("json") => Self::Json,
            Some("csv") => Self::Csv,
            _ => Self::Plain,
        }
    }

    /// Parses a line; None if it does not begin an entry.
    pub fn read(self, line: &str) -> Option<Entry> {
        match self {
            Self::Plain => plain(line),
            Self::Csv => csv(line),
            Self::Json => json(line),
        }
    }
}

/// The severity comes after the prefix, whose form is unknown: the first heading in the line counts.
/// The server puts a tab before each further line of a message, whose text may contain anything.
fn plain(line: &str) -> Option<Entry> {
    if line.starts_with('\t') {
        return None;
    }
    let (end, heading) = line.match_indices(":  ").find_map(|(end, _)| {
        let mut headings = SEVERITIES.iter().chain(&OTHER_HEADINGS);
        let heading = headings.find(|heading| line[..end].ends_with(*heading))?;
        Some((end, *heading))
    })?;
    SEVERITIES.contains(&heading).then(|| Entry {
        severity: heading.to_owned(),
        pid: in_brackets(&line[..end - heading.len()]),
        message: without_code(&line[end + 3..]).to_owned(),
    })
}

/// With `log_error_verbosity = verbose`, the SQLSTATE and a colon come before the message.
fn without_code(message: &str) -> &str {
    let is_code = |code: &str| {
        let mut bytes = code.bytes();
        // the server's own codes have digits, and words such as "ERROR" do not
        code.len() == 5
            && code.contains(|char: char| char.is_ascii_digit())
            && bytes.all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
    };
    match message.split_once(": ") {
        Some((code, after)) if is_code(code) => after,
        _ => message,
    }
}

/// Finds `[123]`, the usual form of the process ID in `log_line_prefix`.
fn in_brackets(prefix: &str) -> Option<u32> {
    let parts = prefix.split('[').skip(1);
    let mut numbers = parts.filter_map(|part| part.split_once(']')?.0.parse().ok());
    numbers.next()
}

/// An entry of several lines begins with one that contains all columns up to its message's first line.
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
    /// The subject; None for statements and their errors.
    pub fn matter(&self) -> Option<Matter> {
        let begins = |begin: &&str| self.message.starts_with(begin);
        // `server process (PID 7) was terminated by signal 9`; from version 18 on `client backend (PID 7) …`
        let ended = |end: &&str| self.message.contains(" (PID ") && self.message.contains(end);
        let is_of_all = OF_THE_SERVER.iter().any(begins) || ENDS.iter().any(ended);
        match self.severity.as_str() {
            "PANIC" => Some(Matter::Server),
            "LOG" if is_of_all => Some(Matter::Server),
            "LOG" if OF_VACUUMS.iter().any(begins) => Some(Matter::Vacuum),
            _ => None,
        }
    }

    pub fn fields(&self) -> Value {
        json!({"severity": self.severity, "pid": self.pid, "message": self.message})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed_line(format: Format, line: &str) -> Option<(String, Option<u32>, String)> {
        let entry = format.read(line)?;
        Some((entry.severity, entry.pid, entry.message))
    }

    #[test]
    fn all_three_forms_say_the_same() {
        let expected =
            Some(("LOG".to_owned(), Some(77), "server process (PID 9) was terminated by signal 9: Killed".to_owned()));
        let message = "server process (PID 9) was terminated by signal 9: Killed";
        assert_eq!(parsed_line(Format::Plain, &format!("2026-11-21 15:18:42.123 UTC [77] LOG:  {message}")), expected);
        let csv = format!(
            "2026-11-21 15:18:42.123 UTC,\"a \"\"b\"\", c\",,77,,692,3,,2026-11-21,,0,LOG,00000,\"{message}\",,,,"
        );
        assert_eq!(parsed_line(Format::Csv, &csv), expected);
        let json = format!("{{\"pid\":77,\"error_severity\":\"LOG\",\"message\":\"{message}\"}}");
        assert_eq!(parsed_line(Format::Json, &json), expected);
        assert_eq!(Format::Json.read(&json).expect("it is one").matter(), Some(Matter::Server));
    }

    #[test]
    fn a_line_that_continues_an_entry_or_quotes_one_begins_none() {
        for text in ["PANIC:  ", "LOG:  checkpoint complete: wrote 44 buffers (0.3%)", "select 'ERROR:  x'"] {
            assert_eq!(Format::Plain.read(&format!("\t{text}")), None);
        }
        let entry = Format::Plain.read("a\tb LOG:  database system is ready");
        assert_eq!(entry.map(|entry| entry.matter()), Some(Some(Matter::Server)));
        for heading in ["STATEMENT", "DETAIL", "CONTEXT"] {
            let line = format!("x [77] {heading}:  select 'PANIC:  could not write'");
            assert_eq!(Format::Plain.read(&line), None, "{heading}");
        }
        // the code of a verbose log is no part of the message
        for message in ["checkpoint starting: time", "redo starts at 0/3000028"] {
            let line = format!("2026-11-21 15:18:42.123 UTC [77] LOG:  00000: {message}");
            let entry = Format::Plain.read(&line).expect("it is one");
            assert_eq!((entry.pid, entry.message.as_str()), (Some(77), message));
        }
        assert_eq!(Format::Plain.read("x [77] LOCATION:  LogCheckpointStart, xlog.c:6234"), None);
        assert_eq!(Format::Plain.read("x ERROR:  error: x").expect("it is one").message, "error: x");
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
        assert_eq!(Format::Plain.read(statement).expect("it is one").matter(), None);
        let panic = "x PANIC:  could not write";
        assert_eq!(Format::Plain.read(panic).expect("it is one").matter(), Some(Matter::Server));
    }
}
