//! Lines of JSON on standard output: the contract is `docs/reference/probe.md`, version 1.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::{Map, Value};

use crate::clock::{Clock, Stamp};
use crate::probe_stop::Stop;
use crate::sample::Sample;

/// Version of the lines.
pub const VERSION: u32 = 1;

/// Writes lines whole, whichever thread they come from. When nobody reads them any more, it is over.
pub struct Output {
    clock: Clock,
    stop: Stop,
    sink: Mutex<Box<dyn Write + Send>>,
    written: AtomicU64,
    late: AtomicU64,
    failure: OnceLock<io::Error>,
}

impl Output {
    /// Lines to `sink`, with times of `clock`.
    #[must_use]
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

    /// The clock of `t_us`.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Bytes so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Samples so far whose time had passed before they could be taken.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    /// Why lines are missing: a full disk. A reader that went away is no failure.
    #[must_use]
    pub fn failure(&self) -> Option<&io::Error> {
        self.failure
            .get()
            .filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
    }

    /// A line of the kind `event` about the instant `at`.
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

    /// A sample; one with nothing in it is left out.
    pub fn sample(&self, sample: &Sample) {
        if !sample.rows.is_empty() {
            self.write("sample", sample.at, sample.fields());
        }
        if sample.reset {
            self.gap(sample.source.name, sample.at, "counters went back");
        }
    }

    /// Something that one source lacks; said once for each reason.
    pub fn warning(&self, source: &str, message: &str) {
        self.about("warning", source, self.clock.now(), message);
    }

    /// Answers a line of the parent's: `clock ID` asks for this instant; others ask for nothing.
    pub fn answer(&self, line: &str) {
        // before anything else: what follows would count as a part of the way here
        let at = self.clock.now();
        if let Some(id) = line.strip_prefix("clock ") {
            let mut fields = Map::new();
            fields.insert("id".into(), id.into());
            self.write("clock", at, fields);
        }
    }

    /// Figures of `source` up to `at` are missing since the sample before.
    pub fn gap(&self, source: &str, at: Stamp, message: &str) {
        self.about("gap", source, at, message);
    }

    /// Counts and marks samples that were left out.
    pub fn missed(&self, source: &str, samples: u32) {
        self.late.fetch_add(samples.into(), Ordering::Relaxed);
        let message = format!("{samples} samples left out: their time had passed");
        self.gap(source, self.clock.now(), &message);
    }

    fn about(&self, event: &str, source: &str, at: Stamp, message: &str) {
        let mut fields = Map::new();
        fields.insert("source".into(), source.into());
        fields.insert("message".into(), message.into());
        self.write(event, at, fields);
    }

    fn cannot_write(&self, error: io::Error) {
        if !self.stop.is_set() {
            // standard error may be closed, too
            let _ = writeln!(
                io::stderr(),
                "pgprobe: error: could not write samples: {error}"
            );
        }
        // only the first one matters
        let _ = self.failure.set(error);
        self.stop.now();
    }
}
