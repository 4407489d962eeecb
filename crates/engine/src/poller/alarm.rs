//! A timer of the kernel (timerfd) that an epoll watches like a socket.
//!
//! The timeout of `epoll_wait` counts in milliseconds, far too coarse for the start of a transaction. `epoll_pwait2`
//! counts in nanoseconds, but needs Linux 5.11, and seccomp profiles that are older than it refuse it. A timerfd works
//! everywhere, and it is set by instant: it cannot be late because the clock was read too early. It costs a system call
//! only when the next instant is earlier than the one that it is set to, or when that has passed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::clock::{Clock, Nanos};

/// A timer that makes its descriptor readable at an instant.
pub struct Alarm {
    timer: OwnedFd,
    clock: Clock,
    /// The instant that is set; None if none is, or if it was reported.
    instant: Option<Nanos>,
}

impl Alarm {
    /// An alarm that is not set, for instants on `clock`.
    pub fn new(clock: Clock) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(explain)?;
        Ok(Self { timer, clock, instant: None })
    }

    /// Makes the alarm ring at `instant`, or at an earlier instant that is already set.
    pub fn ring_by(&mut self, instant: Nanos) -> io::Result<()> {
        if self.instant.is_some_and(|set| set <= instant) {
            return Ok(());
        }
        let once = Itimerspec { it_interval: Timespec::default(), it_value: self.clock.monotonic(instant) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        self.instant = Some(instant);
        Ok(())
    }

    /// Takes note that the descriptor was reported as readable. The next [`Self::ring_by`] sets the
    /// alarm again, which also makes it unreadable.
    pub fn rang(&mut self) {
        self.instant = None;
    }
}

fn explain(errno: Errno) -> io::Error {
    let reason = match errno {
        Errno::PERM | Errno::NOSYS => "; a seccomp profile forbids timerfd_create",
        Errno::MFILE => "; the limit of open files (ulimit -n) is too low",
        _ => "",
    };
    let error = io::Error::from(errno);
    io::Error::new(error.kind(), format!("could not create a timer: {error}{reason}"))
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}
