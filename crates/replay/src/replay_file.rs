//! A replay file after one scan: what it says of itself, its shared texts, and where its sessions
//! are. Statements are not read yet.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use crate::error::{ReplayError, json_message};
use crate::lines::{LONGEST_LINE, Lines, SharedFile};

/// The prefix of a line that begins a session; no other line has it.
pub const SESSION: &[u8] = b"{\"session\":";
/// The prefix of a line that ends one.
pub const END: &[u8] = b"{\"end\":";
/// The most bytes of a line that has no text.
pub const LONGEST_SHORT_LINE: usize = 64 * 1024;
/// The version of the format that this program reads.
const VERSION: u64 = 1;
/// Limited because each class has a histogram in every worker.
const MOST_CLASSES: usize = 10_000;
/// The sum of all shared texts, which are held in memory.
const MOST_TEXT_BYTES: usize = 1 << 30;
/// A class is shown by the beginning of its text.
const SHOWN_CHARACTERS: usize = 1000;
/// How much of the file the scan reads at a time.
const SCAN_BYTES: usize = 1 << 20;

/// The first line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Header {
    format: String,
    version: u64,
    /// How many sessions there are.
    pub sessions: u64,
    /// How many of them there are at the same time, at most.
    pub most_sessions: u64,
    /// How many statements all sessions have.
    pub statements: u64,
    /// The length of the capture, in microseconds.
    pub span_us: u64,
    /// The longest time that a statement took on the server, in microseconds; 0 if unknown.
    #[serde(default)]
    pub longest_us: u64,
}

/// A class or a shared text.
#[derive(Debug, Deserialize)]
struct SharedLine<'a> {
    class: Option<u64>,
    text: Option<u64>,
    of: Option<u64>,
    #[serde(borrow)]
    sql: Cow<'a, str>,
}

/// The line that begins a session.
#[derive(Debug, Deserialize)]
struct SessionLine {
    session: u64,
    at_us: u64,
    until_us: u64,
}

/// The line that ends one.
#[derive(Debug, Deserialize)]
struct EndLine {
    end: u64,
}

/// A text that several statements share.
#[derive(Debug)]
pub struct SharedText {
    /// The number of its class.
    pub class: u32,
    /// The text.
    pub sql: Box<str>,
}

/// Where a session is in the file, and when it begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The offset of its first line, which begins it.
    pub offset: u64,
    /// The number of that line.
    pub line: u64,
    /// When it begins, in microseconds since the start of the capture.
    pub at_us: u64,
    /// When it ends.
    pub until_us: u64,
}

/// A replay file whose sessions can be read.
#[derive(Debug)]
pub struct ReplayFile {
    /// The open file.
    pub(crate) file: Arc<SharedFile>,
    /// What the file says of itself.
    pub header: Header,
    /// The classes of statements, as they are shown: the beginnings of their texts in one line.
    pub classes: Vec<String>,
    pub(crate) texts: Vec<SharedText>,
    pub(crate) places: Vec<Place>,
    /// How many sessions there are at the same time, at most: the number of clients.
    pub clients: usize,
    /// How many sessions exist when the capture begins; the first ones in the file.
    pub(crate) at_start: usize,
}

impl ReplayFile {
    /// Opens and scans the file.
    ///
    /// # Errors
    /// It cannot be read, is no replay file, or is not complete. Errors within statements are found
    /// when a statement is read.
    pub fn open(path: &Path) -> Result<Self, ReplayError> {
        let file = Arc::new(SharedFile::open(path)?);
        let mut scan = Scan {
            lines: Lines::new(Arc::clone(&file), 0, 1, SCAN_BYTES),
            classes: Vec::new(),
            texts: Vec::new(),
            text_bytes: 0,
            places: Vec::new(),
            open: BinaryHeap::new(),
            clients: 0,
            statements: 0,
        };
        let header = scan.header()?;
        scan.shared_texts()?;
        while scan.session(&header)? {}
        scan.agree(&header)?;
        let at_start = scan.places.iter().take_while(|place| place.at_us == 0);
        Ok(Self {
            file,
            header,
            at_start: at_start.count().min(scan.clients),
            classes: scan.classes,
            texts: scan.texts,
            places: scan.places,
            clients: scan.clients,
        })
    }

    /// The file's name.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }
}

/// The scan of a file.
struct Scan {
    lines: Lines,
    classes: Vec<String>,
    texts: Vec<SharedText>,
    text_bytes: usize,
    places: Vec<Place>,
    /// The ends of the sessions that are open at the begin of the last one.
    open: BinaryHeap<Reverse<u64>>,
    clients: usize,
    statements: u64,
}

impl Scan {
    /// An error in the line that was read last.
    fn wrong(&self, message: impl Into<String>) -> ReplayError {
        ReplayError::in_line(self.lines.path(), self.lines.line() - 1, message)
    }

    fn header(&mut self) -> Result<Header, ReplayError> {
        let not_ours = |error: ReplayError| {
            error
                .hint("pgdyno writes such files from a capture; see docs/reference/replay-file.md.")
        };
        let path = self.lines.path().to_owned();
        let Some(line) = self.lines.next(LONGEST_SHORT_LINE)? else {
            return Err(not_ours(ReplayError::in_file(&path, "the file is empty")));
        };
        let wrong = |message: String| not_ours(ReplayError::in_line(&path, 1, message));
        let header: Header = serde_json::from_slice(line)
            .map_err(|error| wrong(format!("not a replay file: {error}")))?;
        if header.format != "pgdyno-replay" {
            return Err(wrong(
                "not a replay file: format is not \"pgdyno-replay\"".into(),
            ));
        }
        if header.version != VERSION {
            let message = format!(
                "version {} of the format; this pgdrive reads version {VERSION}",
                header.version
            );
            return Err(ReplayError::in_line(&path, 1, message)
                .hint("Use the pgdyno and the pgdrive of one installation."));
        }
        Ok(header)
    }

    /// Reads the lines before the first session.
    fn shared_texts(&mut self) -> Result<(), ReplayError> {
        loop {
            let start = self.lines.peek(SESSION.len())?;
            if start.is_empty() || start == SESSION {
                return Ok(());
            }
            let path = self.lines.path().to_owned();
            let number = self.lines.line();
            let wrong = |message: String| ReplayError::in_line(&path, number, message);
            let Some(line) = self.lines.next(LONGEST_LINE)? else {
                return Ok(());
            };
            let line: SharedLine<'_> =
                serde_json::from_slice(line).map_err(|error| wrong(json_message(&error)))?;
            self.text_bytes += line.sql.len();
            if self.text_bytes > MOST_TEXT_BYTES {
                let message =
                    format!("classes and shared texts have more than {MOST_TEXT_BYTES} bytes");
                return Err(wrong(message));
            }
            match (line.class, line.text, line.of) {
                (Some(class), None, _) => {
                    if class != self.classes.len() as u64 {
                        let next = self.classes.len();
                        return Err(wrong(format!(
                            "class {class}, where class {next} comes next"
                        )));
                    }
                    if self.classes.len() == MOST_CLASSES {
                        let message = format!("there are more than {MOST_CLASSES} classes");
                        return Err(wrong(message).hint("Put rare statements into one class."));
                    }
                    self.classes.push(shown(&line.sql));
                }
                (None, Some(text), Some(class)) => {
                    if text != self.texts.len() as u64 {
                        let next = self.texts.len();
                        return Err(wrong(format!("text {text}, where text {next} comes next")));
                    }
                    self.texts.push(SharedText {
                        class: known_class(class, self.classes.len()).map_err(wrong)?,
                        sql: without_zero(&line.sql).map_err(wrong)?.into(),
                    });
                }
                _ => {
                    return Err(wrong(
                        "neither a class, nor a text with \"of\", nor the begin of a session"
                            .into(),
                    ));
                }
            }
        }
    }

    /// Finds the place of the next session; returns false at the end of the file.
    fn session(&mut self, header: &Header) -> Result<bool, ReplayError> {
        if self.lines.peek(1)?.is_empty() {
            return Ok(false);
        }
        let number = self.places.len();
        let (offset, line) = (self.lines.offset(), self.lines.line());
        if self.lines.peek(SESSION.len())? != SESSION {
            self.lines.skip()?;
            return Err(self.wrong("a line outside of a session"));
        }
        let begin = self.lines.next(LONGEST_SHORT_LINE)?.unwrap_or_default();
        let parsed = serde_json::from_slice(begin).map_err(|error| json_message(&error));
        let begin: SessionLine = parsed.map_err(|message| self.wrong(message))?;
        let before_us = self.places.last().map_or(0, |place| place.at_us);
        let wrong = if begin.session != number as u64 {
            Some(format!(
                "session {}, where session {number} comes next",
                begin.session
            ))
        } else if begin.at_us < before_us {
            Some("the session begins before the one above it".to_owned())
        } else if begin.until_us < begin.at_us {
            Some("the session ends before it begins (until_us)".to_owned())
        } else if begin.until_us > header.span_us {
            Some("the session ends after the capture (span_us of the first line)".to_owned())
        } else {
            None
        };
        if let Some(message) = wrong {
            return Err(self.wrong(message));
        }
        self.count_open(&begin, header)?;
        self.places.push(Place {
            offset,
            line,
            at_us: begin.at_us,
            until_us: begin.until_us,
        });
        self.find_end(&begin)?;
        Ok(true)
    }

    /// Counts the sessions that are open at the same time.
    fn count_open(&mut self, begin: &SessionLine, header: &Header) -> Result<(), ReplayError> {
        while self
            .open
            .peek()
            .is_some_and(|Reverse(until)| *until <= begin.at_us)
        {
            self.open.pop();
        }
        self.open.push(Reverse(begin.until_us));
        self.clients = self.clients.max(self.open.len());
        if self.clients as u64 > header.most_sessions {
            let message = format!(
                "{} sessions are open at the same time; the first line says at most {} (most_sessions)",
                self.clients, header.most_sessions
            );
            return Err(self.wrong(message));
        }
        Ok(())
    }

    /// Skips the statements of a session, and reads the line that ends it.
    fn find_end(&mut self, begin: &SessionLine) -> Result<(), ReplayError> {
        loop {
            let start = self.lines.peek(SESSION.len())?;
            if start.starts_with(END) {
                let line = self.lines.next(LONGEST_SHORT_LINE)?.unwrap_or_default();
                let parsed = serde_json::from_slice(line).map_err(|error| json_message(&error));
                let end: EndLine = parsed.map_err(|message| self.wrong(message))?;
                if end.end != begin.until_us {
                    let message = format!(
                        "the session ends at {}, and its first line says {} (until_us)",
                        end.end, begin.until_us
                    );
                    return Err(self.wrong(message));
                }
                return Ok(());
            }
            let (is_end, is_session) = (start.is_empty(), start == SESSION);
            if is_end {
                let message = format!("the file ends in the midst of session {}", begin.session);
                return Err(self.wrong(message).hint(
                    "The file was not written or copied completely; write or copy it again.",
                ));
            }
            let is_object = start.first() == Some(&b'{');
            self.lines.skip()?;
            if is_session {
                let message = format!("session {} has no line that ends it", begin.session);
                return Err(self.wrong(message));
            }
            if !is_object {
                return Err(self.wrong("the line is not a JSON object"));
            }
            self.statements += 1;
        }
    }

    /// Compares what was found with what the file says.
    fn agree(&self, header: &Header) -> Result<(), ReplayError> {
        let sessions = self.places.len() as u64;
        for (what, found, said) in [
            ("sessions", sessions, header.sessions),
            ("statements", self.statements, header.statements),
        ] {
            if found != said {
                let message =
                    format!("the file has {found} {what}, and its first line says {said}");
                return Err(ReplayError::in_file(self.lines.path(), message)
                    .hint("The file was not written completely; write it again."));
            }
        }
        if self.statements == 0 {
            return Err(ReplayError::in_file(
                self.lines.path(),
                "the file has no statements",
            ));
        }
        Ok(())
    }
}

/// The beginning of a text, in one line.
fn shown(sql: &str) -> String {
    let mut shown = String::new();
    for word in sql.split_whitespace() {
        if !shown.is_empty() {
            shown.push(' ');
        }
        shown.push_str(word);
        if let Some((end, _)) = shown.char_indices().nth(SHOWN_CHARACTERS) {
            shown.truncate(end);
            shown.push('…');
            break;
        }
    }
    shown
}

/// A class's number, if there is such a class.
pub(crate) fn known_class(class: u64, classes: usize) -> Result<u32, String> {
    match u32::try_from(class) {
        Ok(known) if class < classes as u64 => Ok(known),
        _ => Err(format!(
            "unknown class {class} (of); the file has {classes}"
        )),
    }
}

/// A text that PostgreSQL's protocol can carry.
pub(crate) fn without_zero(text: &str) -> Result<&str, String> {
    match memchr::memchr(0, text.as_bytes()) {
        None => Ok(text),
        Some(_) => Err("a text with a zero byte, which PostgreSQL does not accept".to_owned()),
    }
}
