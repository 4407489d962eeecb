//! Where transactions are logged (`-l`), and what a line stands for.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What one line of a log stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Detail {
    /// One transaction; this share of them, from 0 to 1, is written.
    Transaction {
        /// 1 writes all, and then no random number is drawn.
        sampling_rate: f64,
    },
    /// All transactions that ended within so many seconds.
    Interval {
        /// Length.
        length_s: u64,
    },
}

/// The logs of a run.
#[derive(Debug)]
pub struct LogSpec {
    /// One for each of the most workers there may be.
    pub files: Vec<LogFile>,
    /// What a line stands for.
    pub detail: Detail,
    /// Whether failures are listed by kind (--failures-detailed).
    pub failures_detailed: bool,
    /// The first file that could not be written to, and why; after that nothing is written to any.
    pub failure: OnceLock<(PathBuf, io::Error)>,
}

/// One worker's file.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: OnceLock<File>,
}

impl LogFile {
    /// A file that is created when its worker begins.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: OnceLock::new(),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates it, empty.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn create(&self) -> io::Result<()> {
        let file = File::create(&self.path)?;
        // its one worker creates it once
        let _ = self.file.set(file);
        Ok(())
    }

    /// The file, once it is created.
    #[must_use]
    pub fn opened(&self) -> Option<&File> {
        self.file.get()
    }

    /// Removes it again, unless something was logged.
    pub fn remove_empty(&self) {
        let length = self.file.get().and_then(|file| file.metadata().ok());
        if length.is_some_and(|file| file.len() == 0) {
            // one that stays is no loss
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
