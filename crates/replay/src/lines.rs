//! The lines of a file from an offset on, a buffer at a time. Readers share one descriptor.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Advice, fadvise};

use crate::error::ReplayError;

/// The most bytes of a line. PostgreSQL accepts no longer statement.
pub const LONGEST_LINE: usize = 1 << 30;

/// How much of the file the kernel reads ahead: a worker that waited for the disk would delay all of its clients.
const AHEAD_BYTES: NonZeroU64 = NonZeroU64::new(128 * 1024).expect("it is above 0");

/// A line's buffer up to this size stays allocated.
const KEPT_BYTES: usize = 64 * 1024;

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

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has the kernel read from `offset` on without waiting: by itself it does not, because readers take turns.
    pub fn read_ahead(&self, offset: u64) {
        // a file system that cannot is read when it is needed
        let _ = fadvise(&self.file, offset, Some(AHEAD_BYTES), Advice::WillNeed);
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
        self.file.read_ahead(self.at);
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

#[cfg(test)]
mod tests {
    use std::io::IoSliceMut;
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::io::{ReadWriteFlags, preadv2};

    use super::*;
    use crate::tests::samples::Temporary;

    #[test]
    fn what_follows_is_read_before_it_is_needed() {
        let place = 1 << 20;
        let temporary = Temporary::new(vec![b'\n'; 2 * place]);
        let file = Arc::new(SharedFile::open(temporary.path()).expect("it exists"));
        file.file.sync_all().expect("written");
        fadvise(&file.file, 0, None, Advice::DontNeed).expect("dropped from memory");
        let mut lines = Lines::new(Arc::clone(&file), place as u64, 1, 4096);
        assert!(lines.next(1).expect("readable").is_some());
        let next = place as u64 + AHEAD_BYTES.get() / 2;
        let is_in_memory =
            || preadv2(&file.file, &mut [IoSliceMut::new(&mut [0])], next, ReadWriteFlags::NOWAIT).is_ok();
        let began = Instant::now();
        while !is_in_memory() {
            assert!(began.elapsed() < Duration::from_secs(30), "nothing is read ahead");
            thread::sleep(Duration::from_millis(1));
        }
    }
}
