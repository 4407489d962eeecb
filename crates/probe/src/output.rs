//! Writes lines of JSON to standard output; the contract is `docs/reference/probe.md`, version 1.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::{Value, json};

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
    /// Sources and messages of warnings so far.
    warnings: Mutex<HashSet<(String, String)>>,
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
            warnings: Mutex::default(),
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
    pub fn write(&self, event: &str, at: Stamp, fields: Value) {
        let mut line = json!({"event": event, "t_us": at.t_us, "wall_us": at.wall_us});
        if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
            line.extend(fields);
        }
        let text = format!("{line}\n");
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        match sink.write_all(text.as_bytes()).and_then(|()| sink.flush()) {
            Ok(()) => drop(self.written.fetch_add(text.len() as u64, Ordering::Relaxed)),
            Err(error) => {
                // only the first failure is kept
                let _ = self.failure.set(error);
                self.stop.now();
            }
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
        let mut known = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if known.insert((source.to_owned(), message.to_owned())) {
            self.about("warning", source, self.clock.now(), message, reason);
        }
    }

    /// Answers a line of the parent: `clock ID` requests the current time; other lines request nothing.
    pub fn answer(&self, line: &str) {
        // read first, because later work would count as part of the network delay
        let at = self.clock.now();
        if let Some(id) = line.strip_prefix("clock ") {
            self.write("clock", at, json!({"id": id}));
        }
    }

    /// Reports that figures of `source` are missing from the last sample up to `at`.
    pub fn gap(&self, source: &str, at: Stamp, message: &str, reason: Option<Reason>) {
        self.about("gap", source, at, message, reason);
    }

    /// Counts and reports samples that were left out, if any.
    pub fn missed(&self, source: &str, samples: u32) {
        if samples == 0 {
            return;
        }
        self.late.fetch_add(samples.into(), Ordering::Relaxed);
        let message = format!("{samples} samples left out: their time had passed");
        self.gap(source, self.clock.now(), &message, None);
    }

    fn about(&self, event: &str, source: &str, at: Stamp, message: &str, reason: Option<Reason>) {
        let mut fields = json!({"source": source, "message": message});
        if let Some(reason) = reason {
            fields["reason"] = reason.name().into();
        }
        self.write(event, at, fields);
    }
}
