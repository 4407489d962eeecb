//! The kernel's files, below a root that tests choose.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Where `/proc` and `/sys` are.
#[derive(Debug, Clone)]
pub struct Files {
    root: PathBuf,
}

impl Files {
    /// Below `root`, which is `/` but in tests.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// The path of a file, given from `/` on without it: `proc/stat`.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A file's text.
    ///
    /// # Errors
    /// It cannot be read; the path stands in the words.
    pub fn text(&self, name: &str) -> Result<String, String> {
        self.read(name)
            .map_err(|error| format!("could not read /{name}: {error}"))
    }

    /// The same where it does not matter why there is none.
    #[must_use]
    pub fn text_if_any(&self, name: &str) -> Option<String> {
        self.read(name).ok()
    }

    fn read(&self, name: &str) -> io::Result<String> {
        // files of proc have no size: room for most of them at once saves system calls
        let mut bytes = Vec::with_capacity(4096);
        File::open(self.path(name))?.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The number behind `name` in lines such as `MemFree:  12 kB` or `pgfault 12`.
#[must_use]
pub fn field(text: &str, name: &str) -> Option<f64> {
    let found = text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with([':', ' ', '\t']).then_some(rest)
    })?;
    let number = found.trim_start_matches(':').split_whitespace().next()?;
    number.parse().ok()
}

/// The `number`-th word of a line as a number; None when there is none.
#[must_use]
pub fn word(words: &[&str], number: usize) -> Option<f64> {
    words.get(number)?.parse().ok()
}
