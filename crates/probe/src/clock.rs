//! The two times of every sample: monotonic time, and wall-clock time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Starts with the probe.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

/// An instant by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Microseconds since the probe's start, monotonic.
    pub t_us: u64,
    /// Microseconds since 1970 on the host's clock.
    pub wall_us: u64,
}

impl Clock {
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub fn now(&self) -> Stamp {
        Stamp {
            t_us: micros(self.origin.elapsed()),
            wall_us: micros(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()),
        }
    }

    /// The instant this long after the start.
    pub fn at(&self, since_start: Duration) -> Instant {
        self.origin + since_start
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
