//! Where transactions are logged (`-l`), and what one line represents.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// What one line of a log represents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Detail {
    /// One transaction.
    Transaction {
        /// The share of transactions that is written, from 0 to 1. At 1, no random number is drawn.
        sampling_rate: f64,
    },
    /// All transactions that ended within an interval.
    Interval {
        /// Length of the interval in seconds.
        length_s: u64,
    },
}

/// The logs of a run.
#[derive(Debug)]
pub struct LogSpec {
    /// One file for each worker, up to the highest possible number of workers.
    pub files: Vec<LogFile>,
    /// What one line represents.
    pub detail: Detail,
    /// Whether failures are listed by kind (--failures-detailed).
    pub failures_detailed: bool,
    /// The first file that could not be written to, and the error; after that, no file is written
    /// to.
    pub failure: OnceLock<(PathBuf, io::Error)>,
}

/// The log file of one worker.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: OnceLock<File>,
}

impl LogFile {
    /// A file, which is created when its worker begins.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, file: OnceLock::new() }
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the empty file.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn create(&self) -> io::Result<()> {
        let file = File::create(&self.path)?;
        // only its worker calls this, and only once
        let _ = self.file.set(file);
        Ok(())
    }

    /// The file, once it has been created.
    #[must_use]
    pub fn opened(&self) -> Option<&File> {
        self.file.get()
    }

    /// Removes the file, unless something was logged.
    pub fn remove_empty(&self) {
        let length = self.file.get().and_then(|file| file.metadata().ok());
        if length.is_some_and(|file| file.len() == 0) {
            // a file that cannot be removed does no harm
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
