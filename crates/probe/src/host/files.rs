//! The kernel's files, below a root directory that tests choose.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The location of `/proc` and `/sys`.
#[derive(Debug, Clone)]
pub struct Files {
    root: PathBuf,
}

impl Files {
    /// Below `root`, which is `/` except in tests.
    pub fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The full path of a file, given relative to the root: `proc/stat`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The text of a file.
    ///
    /// # Errors
    /// It cannot be read; the message contains the path.
    pub fn text(&self, name: &str) -> Result<String, String> {
        self.read(name).map_err(|error| format!("could not read /{name}: {error}"))
    }

    /// The text of a file; None if it cannot be read for any reason.
    pub fn text_if_any(&self, name: &str) -> Option<String> {
        self.read(name).ok()
    }

    fn read(&self, name: &str) -> io::Result<String> {
        // files of /proc have no size, and this capacity for most of them saves system calls
        let mut bytes = Vec::with_capacity(4096);
        File::open(self.path(name))?.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The number after `name` in lines such as `MemFree:  12 kB` or `pgfault 12`.
pub fn field(text: &str, name: &str) -> Option<f64> {
    let found = text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.starts_with([':', ' ', '\t']).then_some(rest)
    })?;
    let number = found.trim_start_matches(':').split_whitespace().next()?;
    number.parse().ok()
}

/// Word `number` of a line as a number; None if it is missing or not a number.
pub fn word(words: &[&str], number: usize) -> Option<f64> {
    words.get(number)?.parse().ok()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Writes a file of the kernel below `folder`.
    pub fn put(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    /// A folder with these files, which is removed when it is dropped.
    pub fn files(made: &[(&str, &str)]) -> (tempfile::TempDir, Files) {
        let folder = tempfile::tempdir().expect("a folder");
        made.iter().for_each(|(name, text)| put(folder.path(), name, text));
        let files = Files::below(folder.path());
        (folder, files)
    }
}
