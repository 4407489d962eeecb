//! The cost of the probe itself.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::catalogue::source;
use crate::output::Output;
use crate::sample::{Differ, Reading};

/// Number and duration of statements, shared by all threads that send some.
#[derive(Debug, Default)]
pub struct Queries {
    number: AtomicU64,
    time_us: AtomicU64,
    /// Process ID of the session's backend; 0 without a session.
    session: AtomicU32,
    /// CPU time of these backends, measured by the host's side.
    session_us: AtomicU64,
    session_seen: AtomicBool,
}

impl Queries {
    pub fn add(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.number.fetch_add(1, Ordering::Relaxed);
        self.time_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Sets the process ID of the session's backend.
    pub fn session_is(&self, pid: u32) {
        self.session.store(pid, Ordering::Relaxed);
    }

    /// Process ID of the session's backend; 0 without a session.
    pub fn session(&self) -> u32 {
        self.session.load(Ordering::Relaxed)
    }

    /// Adds CPU time of the backend.
    pub fn session_used(&self, us: f64) {
        self.session_us.fetch_add(us as u64, Ordering::Relaxed);
        self.session_seen.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub struct ProbeCost(Differ);

impl ProbeCost {
    pub fn new() -> Self {
        Self(Differ::new(source("probe")))
    }

    pub fn sample(&mut self, output: &Output, queries: &Queries) {
        let at = output.clock().now();
        let session_us = queries.session_seen.load(Ordering::Relaxed);
        let session_us = session_us.then(|| queries.session_us.load(Ordering::Relaxed) as f64);
        let reading = Reading::single(&[
            ("cpu", Some(cpu_us())),
            ("written", Some(output.written() as f64)),
            ("queries", Some(queries.number.load(Ordering::Relaxed) as f64)),
            ("query_time", Some(queries.time_us.load(Ordering::Relaxed) as f64)),
            ("late", Some(output.late_samples() as f64)),
            ("server_cpu", session_us),
            ("resident", resident_bytes()),
        ]);
        output.sample(&self.0.sample(at, reading));
    }
}

pub fn cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + (time.tv_nsec as f64 / 1e3).round()
}

fn resident_bytes() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: f64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as f64)
}
