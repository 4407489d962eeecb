//! The lines of a file from an offset on, a buffer at a time. Readers share one descriptor.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::error::ReplayError;

/// The most bytes of a line. PostgreSQL accepts no longer statement.
pub const LONGEST_LINE: usize = 1 << 30;

/// A line's buffer up to this size stays allocated.
const KEPT_BYTES: usize = 64 * 1024;

/// A file that several readers share.
#[derive(Debug)]
pub struct SharedFile {
    file: File,
    path: Box<Path>,
}

impl SharedFile {
    /// Opens a regular file.
    ///
    /// # Errors
    /// It cannot be opened, or has no places to which a reader could return.
    pub fn open(path: &Path) -> Result<Self, ReplayError> {
        let failed = |error: io::Error| ReplayError::of_system(path, "open", &error);
        let file = File::open(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(ReplayError::in_file(path, "is not a regular file")
                .hint("A replay reads several places of the file at the same time."));
        }
        Ok(Self { file, path: path.into() })
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads a file from an offset on, independently of other readers.
#[derive(Debug)]
struct FileReader {
    file: Arc<SharedFile>,
    at: u64,
}

impl Read for FileReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.file.read_at(into, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Reads lines one after the other.
#[derive(Debug)]
pub struct Lines {
    input: BufReader<FileReader>,
    text: Vec<u8>,
    /// Number of the next line, from 1.
    pub line: u64,
    /// Where the next line begins in the file.
    pub offset: u64,
}

impl Lines {
    /// Reads from `offset`, where line number `line` begins, `chunk` bytes at a time.
    pub fn new(file: Arc<SharedFile>, offset: u64, line: u64, chunk: usize) -> Self {
        Self { input: BufReader::with_capacity(chunk, FileReader { file, at: offset }), text: Vec::new(), line, offset }
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.input.get_ref().file.path
    }

    /// The next line without its end; None at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read, or the line has more than `most` bytes.
    pub fn next(&mut self, most: usize) -> Result<Option<&[u8]>, ReplayError> {
        self.text.clear();
        self.text.shrink_to(KEPT_BYTES);
        let mut input = self.input.by_ref().take(most as u64 + 1);
        let read = input.read_until(b'\n', &mut self.text);
        let read = read.map_err(|error| ReplayError::of_system(self.path(), "read", &error))?;
        if self.text.last() == Some(&b'\n') {
            self.text.pop();
        }
        if self.text.len() > most {
            return Err(ReplayError::in_line(self.path(), self.line, too_long(most)));
        }
        self.offset += read as u64;
        self.line += u64::from(read > 0);
        Ok((read > 0).then_some(&self.text))
    }
}

/// What is wrong with a line of more than `most` bytes.
pub fn too_long(most: usize) -> String {
    format!("the line has more than {most} bytes")
}
