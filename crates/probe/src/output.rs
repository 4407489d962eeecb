//! Writes lines of JSON to standard output; the contract is `docs/reference/probe.md`, version 1.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::{Map, Value};

use crate::clock::{Clock, Stamp};
use crate::probe_stop::Stop;
use crate::sample::Sample;

pub const VERSION: u32 = 1;

/// Writes complete lines from any thread. When the reader has ended, it ends the probe.
pub struct Output {
    clock: Clock,
    stop: Stop,
    sink: Mutex<Box<dyn Write + Send>>,
    written: AtomicU64,
    late: AtomicU64,
    failure: OnceLock<io::Error>,
}

/// What a warning or a gap is about, for programs: the key `reason` of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The server that was named has no process.
    ServerDown,
    SessionLost,
}

impl Reason {
    fn name(self) -> &'static str {
        match self {
            Self::ServerDown => "server_down",
            Self::SessionLost => "session_lost",
        }
    }
}

impl Output {
    pub fn new(sink: Box<dyn Write + Send>, clock: Clock, stop: Stop) -> Self {
        Self {
            clock,
            stop,
            sink: Mutex::new(sink),
            written: AtomicU64::new(0),
            late: AtomicU64::new(0),
            failure: OnceLock::new(),
        }
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Number of samples so far that were left out because their time had passed.
    pub fn late_samples(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    /// Why lines are missing, such as a full disk. The end of the reader is not a failure.
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure.get().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
    }

    /// Writes a line of the kind `event` for the instant `at`.
    pub fn write(&self, event: &str, at: Stamp, fields: Map<String, Value>) {
        let mut line = Map::new();
        line.insert("event".into(), event.into());
        line.insert("t_us".into(), at.t_us.into());
        line.insert("wall_us".into(), at.wall_us.into());
        line.extend(fields);
        let mut text = Value::Object(line).to_string();
        text.push('\n');
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        match sink.write_all(text.as_bytes()).and_then(|()| sink.flush()) {
            Ok(()) => drop(self.written.fetch_add(text.len() as u64, Ordering::Relaxed)),
            Err(error) => self.cannot_write(error),
        }
    }

    /// Writes a sample; an empty one is omitted.
    pub fn sample(&self, sample: &Sample) {
        if !sample.rows.is_empty() {
            self.write("sample", sample.at, sample.fields());
        }
        if sample.reset {
            self.gap(sample.source.name, sample.at, "counters went back", None);
        }
    }

    /// Reports that a source lacks something, once for each problem.
    pub fn warning(&self, source: &str, message: &str, reason: Option<Reason>) {
        self.about("warning", source, self.clock.now(), message, reason);
    }

    /// Answers a line of the parent: `clock ID` requests the current time; other lines request nothing.
    pub fn answer(&self, line: &str) {
        // read first, because later work would count as part of the network delay
        let at = self.clock.now();
        if let Some(id) = line.strip_prefix("clock ") {
            let mut fields = Map::new();
            fields.insert("id".into(), id.into());
            self.write("clock", at, fields);
        }
    }

    /// Reports that figures of `source` are missing from the last sample up to `at`.
    pub fn gap(&self, source: &str, at: Stamp, message: &str, reason: Option<Reason>) {
        self.about("gap", source, at, message, reason);
    }

    /// Counts and reports samples that were left out.
    pub fn missed(&self, source: &str, samples: u32) {
        self.late.fetch_add(samples.into(), Ordering::Relaxed);
        let message = format!("{samples} samples left out: their time had passed");
        self.gap(source, self.clock.now(), &message, None);
    }

    fn about(&self, event: &str, source: &str, at: Stamp, message: &str, reason: Option<Reason>) {
        let mut fields = Map::new();
        fields.insert("source".into(), source.into());
        fields.insert("message".into(), message.into());
        if let Some(reason) = reason {
            fields.insert("reason".into(), reason.name().into());
        }
        self.write(event, at, fields);
    }

    fn cannot_write(&self, error: io::Error) {
        if !self.stop.is_set() {
            // standard error may be closed, too
            let _ = writeln!(io::stderr(), "pgprobe: error: could not write samples: {error}");
        }
        // only the first failure is kept
        let _ = self.failure.set(error);
        self.stop.now();
    }
}
