//! Replay files for tests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::ReplayError;
use crate::replay_file::ReplayFile;

/// A file that is removed with its value.
#[derive(Debug)]
pub struct Temporary(PathBuf);

impl Temporary {
    /// A file with this content.
    pub fn new(content: impl AsRef<[u8]>) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("pgdyno-replay-{}-{number}.jsonl", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).expect("the temporary folder is writable");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The sessions of a file.
#[derive(Debug, Default)]
pub struct Sample {
    pub lines: Vec<String>,
    sessions: usize,
    statements: usize,
    span_us: u64,
    pub slots: usize,
}

/// A statement in the simple protocol, of class 0.
pub fn statement(at_us: u64, sql: &str) -> String {
    serde_json::json!({"at_us": at_us, "sql": sql, "of": 0}).to_string()
}

impl Sample {
    pub fn session(&mut self, at_us: u64, until_us: u64, statements: &[String]) {
        let number = self.sessions;
        self.lines.push(format!(r#"{{"session":{number},"at_us":{at_us},"until_us":{until_us}}}"#));
        self.lines.extend_from_slice(statements);
        self.lines.push(format!(r#"{{"end":{until_us}}}"#));
        self.sessions += 1;
        self.statements += statements.len();
        self.span_us = self.span_us.max(until_us);
    }

    /// The content of the file, with one class and one shared text.
    pub fn content(&self) -> String {
        let Self { sessions, statements, span_us, slots, .. } = self;
        let header = format!(
            r#"{{"format":"pgdyno-replay","version":1,"sessions":{sessions},"most_sessions":{sessions},"statements":{statements},"span_us":{span_us},"slots":{slots}}}"#
        );
        let class = r#"{"class":0,"sql":"SELECT $1"}"#;
        let text = r#"{"text":0,"of":0,"sql":"SELECT $1::int"}"#;
        format!("{header}\n{class}\n{text}\n{}\n", self.lines.join("\n"))
    }

    pub fn open(&self) -> Result<ReplayFile, ReplayError> {
        ReplayFile::open(Temporary::new(self.content()).path())
    }
}
