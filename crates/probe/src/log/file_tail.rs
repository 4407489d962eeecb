//! Reads what is appended to a file.

use std::fmt::Display;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most that is read at a time: if a server writes more, the rest is skipped, as it would cost too much.
const MOST_BYTES: u64 = 256 << 10;

#[derive(Debug)]
pub struct Tail {
    path: PathBuf,
    file: File,
    inode: u64,
    offset: u64,
    /// The beginning of an incomplete line.
    begun: Vec<u8>,
}

/// The lines that were appended since the last call.
#[derive(Debug, Default)]
pub struct Lines {
    pub text: String,
    /// Number of bytes that were skipped.
    pub skipped: u64,
}

impl Tail {
    /// Opens the file at its end or at its beginning.
    pub fn open(path: PathBuf, at_end: bool) -> Result<Self, String> {
        let facts = std::fs::metadata(&path).map_err(|error| problem(&path, &error))?;
        if !facts.is_file() {
            // opening a pipe would wait for its other end, even after the end of the probe
            return Err(problem(&path, &"it is not a regular file"));
        }
        let file = File::open(&path).map_err(|error| problem(&path, &error))?;
        let facts = file.metadata().map_err(|error| problem(&path, &error))?;
        Ok(Self { offset: if at_end { facts.len() } else { 0 }, inode: facts.ino(), begun: Vec::new(), path, file })
    }

    pub fn is_of(&self, path: &Path) -> bool {
        let inode = std::fs::metadata(path).map(|facts| facts.ino());
        self.path == path && inode.is_ok_and(|inode| inode == self.inode)
    }

    /// Reads the new lines.
    pub fn lines(&mut self) -> Result<Lines, String> {
        let lines = self.read();
        lines.map_err(|error| problem(&self.path, &error))
    }

    fn read(&mut self) -> std::io::Result<Lines> {
        let size = self.file.metadata()?.len();
        let mut lines = Lines::default();
        if size < self.offset {
            // the file was truncated, so it is read from its beginning
            self.offset = 0;
            self.begun.clear();
        }
        if size == self.offset {
            return Ok(lines);
        }
        if size - self.offset > MOST_BYTES {
            lines.skipped = size - self.offset - MOST_BYTES;
            self.offset += lines.skipped;
            self.begun.clear();
        }
        self.file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = std::mem::take(&mut self.begun);
        let was_begun = bytes.len();
        (&self.file).take(MOST_BYTES).read_to_end(&mut bytes)?;
        self.offset += (bytes.len() - was_begun) as u64;
        let end = bytes.iter().rposition(|byte| *byte == b'\n');
        let rest = bytes.split_off(end.map_or(0, |end| end + 1));
        // a line that does not end is not kept indefinitely
        if rest.len() as u64 <= MOST_BYTES {
            self.begun = rest;
        }
        lines.text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(lines)
    }
}

fn problem(path: &Path, error: &impl Display) -> String {
    format!("could not read the server's log {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn whole_lines_are_given_once_and_a_flood_is_passed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut file = File::create(&path).expect("a file");
        writeln!(file, "old").expect("written");
        let mut tail = Tail::open(path.clone(), true).expect("it is there");
        let mut new = || tail.lines().expect("it is read").text;
        assert_eq!(new(), "");
        write!(file, "one\ntw").expect("written");
        assert_eq!(new(), "one\n");
        writeln!(file, "o").expect("written");
        assert_eq!(new(), "two\n");
        file.set_len(0).expect("truncated");
        file.seek(SeekFrom::Start(0)).expect("sought");
        writeln!(file, "x").expect("written");
        assert_eq!(new(), "x\n");
        assert!(tail.is_of(&path));
        std::fs::remove_file(&path).expect("removed");
        assert!(!tail.is_of(&path));
        // a flood is passed over and counted
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut file = File::create(&path).expect("a file");
        let mut tail = Tail::open(path, false).expect("it is there");
        let flood = "x".repeat(99) + "\n";
        for _ in 0..10_000 {
            file.write_all(flood.as_bytes()).expect("written");
        }
        writeln!(file, "last").expect("written");
        let lines = tail.lines().expect("it is read");
        assert_eq!(lines.skipped, 1_000_005 - MOST_BYTES);
        assert!(lines.text.ends_with("\nlast\n"));
    }

    #[test]
    fn what_is_not_a_regular_file_is_refused_without_waiting_for_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
        for path in [pipe, folder.path().to_owned()] {
            let (sender, answer) = std::sync::mpsc::channel();
            std::thread::spawn(move || sender.send(Tail::open(path, true).map(drop)));
            let waited = answer.recv_timeout(std::time::Duration::from_secs(10));
            let answer = waited.expect("it answers without waiting");
            let refused = answer.expect_err("a pipe or a folder is refused");
            assert!(refused.ends_with("it is not a regular file"), "{refused}");
        }
    }
}
