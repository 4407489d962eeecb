//! The engine's one clock: nanoseconds on a monotonic scale.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Nanoseconds since an origin that all threads of the process share.
pub type Nanos = u64;

/// One second in nanoseconds.
pub const SECOND: Nanos = 1_000_000_000;

/// Reads the time; copies share one origin.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Nanos,
}

impl Clock {
    pub fn start() -> Self {
        Self { origin: read(ClockId::Monotonic) }
    }

    /// Nanoseconds since [`Clock::start`].
    #[inline]
    pub fn now(&self) -> Nanos {
        read(ClockId::Monotonic) - self.origin
    }

    /// `instant` on the kernel's monotonic clock, for timers that are set by instant.
    pub fn monotonic(&self, instant: Nanos) -> Timespec {
        let nanos = self.origin.saturating_add(instant);
        Timespec { tv_sec: (nanos / SECOND).cast_signed(), tv_nsec: (nanos % SECOND).cast_signed() }
    }
}

/// CPU time that the calling thread has used, user and system together.
pub fn thread_cpu() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

#[inline]
fn read(id: ClockId) -> Nanos {
    let t = clock_gettime(id);
    // both parts are non-negative for these clocks
    t.tv_sec.unsigned_abs() * SECOND + t.tv_nsec.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_those_of_the_kernel() {
        let clock = Clock::start();
        let before = clock_gettime(ClockId::Monotonic);
        let now = clock.monotonic(clock.now());
        let after = clock_gettime(ClockId::Monotonic);
        assert!(before <= now && now <= after);
        assert!(clock.monotonic(Nanos::MAX) > after);
    }
}
