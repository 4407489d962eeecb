//! A replay file after one scan: what it says of itself, shared texts, places of sessions; no statements yet.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;

use crate::error::{ReplayError, parsed};
use crate::lines::{LONGEST_LINE, Lines, SharedFile, too_long};

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
/// Limited because each is held in memory.
const MOST_SLOTS: usize = 1 << 26;
/// How much of the file the scan reads at a time.
const SCAN_BYTES: usize = 1 << 20;

/// The first line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Header {
    format: String,
    version: u64,
    pub sessions: u64,
    /// How many of them there are at the same time, at most.
    pub most_sessions: u64,
    pub statements: u64,
    /// The length of the capture, in microseconds.
    pub span_us: u64,
    /// The longest time that a statement took on the server, in microseconds; 0 if unknown.
    #[serde(default)]
    pub longest_us: u64,
    /// How many values of answers later statements use.
    #[serde(default)]
    pub slots: usize,
    /// Values that the server may have made, and that no statement gives for certain: they are sent as captured.
    #[serde(default)]
    pub ambiguous: u64,
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

#[derive(Debug, Deserialize)]
struct SessionLine {
    session: u64,
    at_us: u64,
    until_us: u64,
}

#[derive(Debug, Deserialize)]
struct EndLine {
    end: u64,
}

#[derive(Debug)]
pub struct SharedText {
    pub class: u32,
    pub sql: Box<str>,
}

/// Where a session is in the file, and when it begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The offset of its first line, which begins it.
    pub offset: u64,
    pub line: u64,
    /// When it begins, in microseconds since the start of the capture.
    pub at_us: u64,
    /// When it ends.
    pub until_us: u64,
}

/// A replay file whose sessions can be read.
#[derive(Debug)]
pub struct ReplayFile {
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
        let mut lines = Lines::new(Arc::clone(&file), 0, 1, SCAN_BYTES);
        let mut scan = Scan {
            found: Self {
                file,
                header: header(&mut lines)?,
                classes: Vec::new(),
                texts: Vec::new(),
                places: Vec::new(),
                clients: 0,
                at_start: 0,
            },
            text_bytes: 0,
            open: BinaryHeap::new(),
            ends_at: None,
            statements: 0,
        };
        loop {
            let (offset, number) = (lines.offset, lines.line);
            let Some(line) = lines.next(LONGEST_LINE)? else {
                break;
            };
            scan.add(line, offset, number).map_err(|message| ReplayError::in_line(path, number, message))?;
        }
        if scan.ends_at.is_some() {
            let session = scan.found.places.len() - 1;
            let message = format!("the file ends in the midst of session {session}");
            return Err(ReplayError::in_line(path, lines.line - 1, message)
                .hint("The file was not written or copied completely; write or copy it again."));
        }
        scan.agree()?;
        let mut found = scan.found;
        let at_start = found.places.iter().take_while(|place| place.at_us == 0);
        found.at_start = at_start.count().min(found.clients);
        Ok(found)
    }

    pub fn path(&self) -> &Path {
        self.file.path()
    }
}

fn header(lines: &mut Lines) -> Result<Header, ReplayError> {
    const HINT: &str = "pgdyno writes such files from a capture; see docs/reference/replay-file.md.";
    let path = lines.path().to_owned();
    let Some(line) = lines.next(LONGEST_SHORT_LINE)? else {
        return Err(ReplayError::in_file(&path, "the file is empty").hint(HINT));
    };
    let wrong = |message: String| ReplayError::in_line(&path, 1, message);
    let header: Header =
        serde_json::from_slice(line).map_err(|error| wrong(format!("not a replay file: {error}")).hint(HINT))?;
    if header.format != "pgdyno-replay" {
        let message = "not a replay file: format is not \"pgdyno-replay\"".to_owned();
        return Err(wrong(message).hint(HINT));
    }
    if header.version != VERSION {
        let message = format!("version {} of the format; this pgdrive reads version {VERSION}", header.version);
        return Err(wrong(message).hint("Use the pgdyno and the pgdrive of one installation."));
    }
    if header.slots > MOST_SLOTS {
        return Err(wrong(format!("more than {MOST_SLOTS} values of answers are used (slots)")));
    }
    Ok(header)
}

struct Scan {
    found: ReplayFile,
    text_bytes: usize,
    /// The ends of the sessions that are open at the begin of the last one.
    open: BinaryHeap<Reverse<u64>>,
    /// The end of the session whose lines are read; None before the first session and between two.
    ends_at: Option<u64>,
    statements: u64,
}

impl Scan {
    /// Adds line number `number`, which begins at `offset`.
    fn add(&mut self, line: &[u8], offset: u64, number: u64) -> Result<(), String> {
        let (is_begin, is_end) = (line.starts_with(SESSION), line.starts_with(END));
        if (is_begin || is_end) && line.len() > LONGEST_SHORT_LINE {
            return Err(too_long(LONGEST_SHORT_LINE));
        }
        match self.ends_at {
            Some(_) if is_begin => {
                let session = self.found.places.len() - 1;
                Err(format!("session {session} has no line that ends it"))
            }
            Some(until_us) if is_end => {
                let EndLine { end } = parsed(line)?;
                if end != until_us {
                    return Err(format!("the session ends at {end}, and its first line says {until_us} (until_us)"));
                }
                self.ends_at = None;
                Ok(())
            }
            Some(_) if line.first() == Some(&b'{') => {
                self.statements += 1;
                Ok(())
            }
            Some(_) => Err("the line is not a JSON object".to_owned()),
            None if is_begin => self.begin(&parsed(line)?, offset, number),
            None if self.found.places.is_empty() => self.shared_text(&parsed(line)?),
            None => Err("a line outside of a session".to_owned()),
        }
    }

    fn shared_text(&mut self, line: &SharedLine<'_>) -> Result<(), String> {
        let (classes, texts) = (self.found.classes.len(), self.found.texts.len());
        self.text_bytes += line.sql.len();
        if self.text_bytes > MOST_TEXT_BYTES {
            return Err(format!("classes and shared texts have more than {MOST_TEXT_BYTES} bytes"));
        }
        match (line.class, line.text, line.of) {
            (Some(class), None, _) if class != classes as u64 => {
                Err(format!("class {class}, where class {classes} comes next"))
            }
            (Some(_), None, _) if classes == MOST_CLASSES => {
                Err(format!("there are more than {MOST_CLASSES} classes: put rare statements into one"))
            }
            (Some(_), None, _) => {
                self.found.classes.push(excerpt(&line.sql));
                Ok(())
            }
            (None, Some(text), Some(_)) if text != texts as u64 => {
                Err(format!("text {text}, where text {texts} comes next"))
            }
            (None, Some(_), Some(class)) => {
                self.found
                    .texts
                    .push(SharedText { class: known_class(class, classes)?, sql: without_zero(&line.sql)?.into() });
                Ok(())
            }
            _ => Err("neither a class, nor a text with \"of\", nor the begin of a session".to_owned()),
        }
    }

    fn begin(&mut self, begin: &SessionLine, offset: u64, line: u64) -> Result<(), String> {
        let &SessionLine { session, at_us, until_us } = begin;
        let header = &self.found.header;
        let next = self.found.places.len();
        if session != next as u64 {
            return Err(format!("session {session}, where session {next} comes next"));
        }
        let before_us = self.found.places.last().map_or(0, |place| place.at_us);
        for (is_wrong, message) in [
            (at_us < before_us, "the session begins before the one above it"),
            (until_us < at_us, "the session ends before it begins (until_us)"),
            (until_us > header.span_us, "the session ends after the capture (span_us of the first line)"),
        ] {
            if is_wrong {
                return Err(message.to_owned());
            }
        }
        while self.open.peek().is_some_and(|until| until.0 <= at_us) {
            self.open.pop();
        }
        self.open.push(Reverse(until_us));
        let clients = self.open.len().max(self.found.clients);
        if clients as u64 > header.most_sessions {
            return Err(format!(
                "{clients} sessions are open at the same time; the first line says at most {} (most_sessions)",
                header.most_sessions
            ));
        }
        self.found.clients = clients;
        self.found.places.push(Place { offset, line, at_us, until_us });
        self.ends_at = Some(until_us);
        Ok(())
    }

    /// Compares what was found with what the file says.
    fn agree(&self) -> Result<(), ReplayError> {
        let wrong = |message: String| ReplayError::in_file(self.found.path(), message);
        let header = &self.found.header;
        for (what, found, said) in [
            ("sessions", self.found.places.len() as u64, header.sessions),
            ("statements", self.statements, header.statements),
        ] {
            if found != said {
                let message = format!("the file has {found} {what}, and its first line says {said}");
                let hint = "The file was not written completely; write it again.";
                return Err(wrong(message).hint(hint));
            }
        }
        match self.statements {
            0 => Err(wrong("the file has no statements".to_owned())),
            _ => Ok(()),
        }
    }
}

/// The beginning of a text, in one line.
fn excerpt(sql: &str) -> String {
    let words: Vec<_> = sql.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// A class's number, if there is such a class.
pub(crate) fn known_class(class: u64, classes: usize) -> Result<u32, String> {
    match u32::try_from(class) {
        Ok(known) if class < classes as u64 => Ok(known),
        _ => Err(format!("unknown class {class} (of); the file has {classes}")),
    }
}

/// A text that PostgreSQL's protocol can carry.
pub(crate) fn without_zero(text: &str) -> Result<&str, String> {
    match memchr::memchr(0, text.as_bytes()) {
        None => Ok(text),
        Some(_) => Err("a text with a zero byte, which PostgreSQL does not accept".to_owned()),
    }
}
