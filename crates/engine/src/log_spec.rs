//! Where transactions are logged (`-l`), and what one line represents.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// What one line of a log represents.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Detail {
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

#[derive(Debug)]
pub struct LogSpec {
    pub files: Vec<LogFile>,
    pub detail: Detail,
    /// Whether failures are listed by kind (--failures-detailed).
    pub failures_detailed: bool,
    /// The first file that could not be written to, and the error; after that, no file is written to.
    pub failure: OnceLock<(PathBuf, io::Error)>,
}

#[derive(Debug)]
pub struct LogFile {
    pub path: PathBuf,
    pub file: File,
}
