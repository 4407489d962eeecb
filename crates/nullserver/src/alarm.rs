//! A timer of the kernel (timerfd) that an epoll watches like a socket: epoll's own timeout counts
//! in milliseconds, and answers wait for microseconds.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::answer_times::Nanos;

const SECOND: Nanos = 1_000_000_000;

/// A timer that makes its descriptor readable at an instant.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: OwnedFd,
    /// The instant that is set; None if none is, or if it was reported.
    instant: Option<Nanos>,
}

impl Alarm {
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Monotonic, flags)?, instant: None })
    }

    /// Makes the alarm ring at `instant`, or at an earlier one that is set already. `now` reads the same clock.
    pub fn ring_by(&mut self, instant: Nanos, now: impl FnOnce() -> Nanos) -> io::Result<()> {
        if self.instant.is_some_and(|set| set <= instant) {
            return Ok(());
        }
        // zero would stop the timer
        let wait = instant.saturating_sub(now()).max(1);
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec { tv_sec: (wait / SECOND).cast_signed(), tv_nsec: (wait % SECOND).cast_signed() },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        self.instant = Some(instant);
        Ok(())
    }

    /// Takes note that the descriptor was reported as readable. The next [`Self::ring_by`] sets the
    /// alarm again, which also makes it unreadable.
    pub fn rang(&mut self) {
        self.instant = None;
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
