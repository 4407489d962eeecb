//! The lines of a file from an offset on, a buffer at a time. Readers share one descriptor.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::error::ReplayError;

/// The most bytes of a line. PostgreSQL accepts no longer statement.
pub const LONGEST_LINE: usize = 1 << 30;

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
        Ok(Self {
            file,
            path: path.into(),
        })
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads lines one after the other.
#[derive(Debug)]
pub struct Lines {
    file: Arc<SharedFile>,
    /// The offset of the end of the buffer in the file.
    read_to: u64,
    buffer: Vec<u8>,
    /// Where the next line begins in the buffer.
    start: usize,
    /// Number of the next line, from 1.
    line: u64,
    /// How many bytes are read at a time.
    chunk: usize,
    is_at_end: bool,
}

impl Lines {
    /// Reads from `offset`, where line number `line` begins, `chunk` bytes at a time.
    pub fn new(file: Arc<SharedFile>, offset: u64, line: u64, chunk: usize) -> Self {
        Self {
            file,
            read_to: offset,
            buffer: Vec::new(),
            start: 0,
            line,
            chunk,
            is_at_end: false,
        }
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Number of the next line.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Where the next line begins in the file.
    pub fn offset(&self) -> u64 {
        self.read_to - (self.buffer.len() - self.start) as u64
    }

    /// Reads another chunk after what is left in the buffer.
    fn fill(&mut self) -> Result<(), ReplayError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.buffer.len() < self.chunk && self.buffer.capacity() > 2 * self.chunk {
            // a long line has passed
            self.buffer.shrink_to(2 * self.chunk);
        }
        let end = self.buffer.len();
        self.buffer.resize(end + self.chunk, 0);
        let read = loop {
            let result = self
                .file
                .file
                .read_at(&mut self.buffer[end..], self.read_to);
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        let count = read.as_ref().copied().unwrap_or(0);
        self.buffer.truncate(end + count);
        self.read_to += count as u64;
        self.is_at_end = count == 0;
        match read {
            Ok(_) => Ok(()),
            Err(error) => Err(ReplayError::of_system(self.path(), "read", &error)),
        }
    }

    /// The first `count` bytes of the next line, or fewer at the end of the file; empty at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn peek(&mut self, count: usize) -> Result<&[u8], ReplayError> {
        while self.buffer.len() - self.start < count && !self.is_at_end {
            self.fill()?;
        }
        let end = self.buffer.len().min(self.start + count);
        Ok(&self.buffer[self.start..end])
    }

    /// The next line without its end; None at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read, or the line has more than `most` bytes.
    pub fn next(&mut self, most: usize) -> Result<Option<&[u8]>, ReplayError> {
        let mut searched = 0;
        loop {
            let rest = &self.buffer[self.start..];
            let found = memchr::memchr(b'\n', &rest[searched..]).map(|at| searched + at);
            if found.unwrap_or(rest.len()) > most {
                return Err(self.too_long(most));
            }
            if found.is_some() || (self.is_at_end && !rest.is_empty()) {
                let end = self.start + found.unwrap_or(rest.len());
                let line = self.start..end;
                self.start = self.buffer.len().min(end + 1);
                self.line += 1;
                return Ok(Some(&self.buffer[line]));
            }
            if self.is_at_end {
                return Ok(None);
            }
            searched = rest.len();
            self.fill()?;
        }
    }

    /// Skips the next line without keeping it.
    ///
    /// # Errors
    /// The file cannot be read, or the line is longer than [`LONGEST_LINE`].
    pub fn skip(&mut self) -> Result<(), ReplayError> {
        let mut length = 0;
        loop {
            let rest = &self.buffer[self.start..];
            let found = memchr::memchr(b'\n', rest);
            length += found.unwrap_or(rest.len());
            if length > LONGEST_LINE {
                return Err(self.too_long(LONGEST_LINE));
            }
            if let Some(at) = found {
                self.start += at + 1;
                self.line += 1;
                return Ok(());
            }
            self.start = self.buffer.len();
            if self.is_at_end {
                self.line += 1;
                return Ok(());
            }
            self.fill()?;
        }
    }

    fn too_long(&self, most: usize) -> ReplayError {
        let message = format!("the line has more than {most} bytes");
        ReplayError::in_line(self.path(), self.line, message)
    }
}
