//! The choice of the poller for a load.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use super::handler::{Handler, Next, Poller, Released};
use super::uring::{Uring, explain};
use crate::clock::{Clock, Nanos, SECOND};
use crate::spec::Io;

/// A poller that works on this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollerKind {
    /// Waits for readiness.
    Epoll,
    /// Waits for completions.
    IoUring,
}

/// The poller for `io`, `workers` workers and this many `connections` a worker.
///
/// [`Io::Auto`] is io_uring wherever it works: whether there were 64 or 1,000 connections, it took
/// less CPU a transaction, gave more transactions and had no worse tail
/// (docs/design/performance.md). For a few clients the caller requests epoll.
pub fn choose(io: Io, workers: usize, connections: usize) -> io::Result<PollerKind> {
    // only a trial shows whether seccomp, a sysctl or a limit forbids it; a limit may have room for some rings
    let try_uring = || {
        let clock = Clock::start();
        let rings = (0..workers.max(1)).map(|_| Uring::new(connections.max(1), clock));
        let mut rings = rings.collect::<io::Result<Vec<_>>>()?;
        try_out(&mut rings[0], clock).map_err(explain)?;
        Ok(PollerKind::IoUring)
    };
    match io {
        Io::Epoll => Ok(PollerKind::Epoll),
        Io::IoUring => try_uring(),
        Io::Auto => Ok(try_uring().unwrap_or(PollerKind::Epoll)),
    }
}

/// Echoes a byte, because a seccomp profile may allow io_uring's set-up and refuse its other system calls.
fn try_out(poller: &mut impl Poller, clock: Clock) -> io::Result<()> {
    let (ours, mut peer) = UnixStream::pair()?;
    peer.set_nonblocking(true)?;
    poller.add(0, ours.into())?;
    peer.write_all(BYTE)?;
    let until = clock.now() + LONGEST_TRIAL;
    let mut echo = Echo::Waiting;
    while echo == Echo::Waiting && clock.now() < until {
        poller.wait(Some(until), &mut echo)?;
    }
    poller.flush(&mut echo)?;
    peer.read_exact(&mut [0; BYTE.len()])?;
    let mut released = poller.release(0);
    while matches!(released, Released::Pending) && clock.now() < until {
        poller.wait(Some(until), &mut echo)?;
        released = poller.release(0);
    }
    match released {
        Released::Socket(_) => Ok(()),
        _ => Err(io::Error::other("it did not release a socket")),
    }
}

const BYTE: &[u8] = &[1];
/// A generous limit: the kernel needs microseconds.
const LONGEST_TRIAL: Nanos = 10 * SECOND;

#[derive(Debug, PartialEq, Eq)]
enum Echo {
    Waiting,
    Answered,
}

impl Handler for Echo {
    fn receive(&mut self, _token: usize, _bytes: &[u8]) -> Next {
        *self = Self::Answered;
        Next::Send
    }

    fn handle_close(&mut self, _token: usize, _why: Option<io::Error>) {}

    fn outgoing(&self, _token: usize) -> &[u8] {
        BYTE
    }
}
