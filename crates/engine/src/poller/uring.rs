//! A poller that waits for completions, with io_uring: one system call for each batch submits all
//! sends and waits for replies.
//!
//! Every connection has one multishot receive in the kernel, which fills buffers of a common ring.
//! Sends use the handler's own bytes: they always complete within the call that submits them, so
//! the handler may change its bytes afterwards. Bytes that did not fit into the socket are copied,
//! and the copy lives until the kernel has completed its send.

mod completions;
mod ends;
mod submissions;

use std::collections::HashMap;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, cqueue};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use self::ends::Looks;
use super::buffers::Buffers;
use super::handler::{Handler, MAX_QUEUED_BYTES, Poller, Released, does_not_read};
use super::uring_request::GENERATIONS;
use crate::clock::{Clock, Nanos};

/// The most rounds of flushing: a server that keeps sending could be answered without end.
const FLUSH_ROUNDS: usize = 100;

/// A poller that waits for completions, with io_uring. Needs Linux 6.1.
pub struct Uring {
    /// Its submission queue is empty whenever none of our functions runs, unless `is_broken`.
    ring: IoUring,
    clock: Clock,
    /// Dropped only when no request is left that may fill them.
    buffers: ManuallyDrop<Buffers>,
    connections: Vec<Option<Connection>>,
    /// How many connections there have been.
    generation: u32,
    /// Tokens without a receive in the kernel.
    unarmed: Vec<usize>,
    /// Tokens with bytes to send.
    unsent: Vec<usize>,
    /// The bytes of sends that wait for room, by user data.
    copies: HashMap<u64, Vec<u8>>,
    /// How many receives the kernel has.
    receives: usize,
    completions: Vec<cqueue::Entry>,
    /// Tokens of connections whose end the kernel may not have reported.
    suspects: Vec<usize>,
    /// When connections are checked for their end.
    looks: Looks,
    /// What ends each wait, and whether the kernel polls it.
    watched: Option<OwnedFd>,
    is_watching: bool,
    /// Set when the kernel did not take what was submitted: the queue is never submitted again.
    is_broken: bool,
}

struct Connection {
    socket: OwnedFd,
    generation: u32,
    /// Whether the kernel has a receive for the connection.
    is_armed: bool,
    /// Whether the connection gets no further receive, because it is being released; until the handler sends.
    is_stopping: bool,
    /// Whether the kernel was asked to end the receive.
    is_cancelled: bool,
    /// Whether nothing has arrived since the last check for ends.
    is_quiet: bool,
    outgoing: Outgoing,
}

/// The part of a connection's messages that is still to be sent.
#[derive(Default)]
enum Outgoing {
    #[default]
    Nothing,
    /// The handler's message, which is sent with the next batch.
    Message,
    /// A copy, which is sent with the next batch.
    Copy(Vec<u8>),
    /// The kernel has a copy and waits for room; these bytes come after it.
    Queued(Vec<u8>),
}

impl Poller for Uring {
    const NAME: &'static str = "io_uring";

    fn new(connections: usize, clock: Clock) -> io::Result<Self> {
        let (ring, buffers) = make_ring(connections)?;
        let mut vacant = Vec::new();
        vacant.resize_with(connections, || None);
        Ok(Self {
            ring,
            clock,
            buffers: ManuallyDrop::new(buffers),
            connections: vacant,
            generation: 0,
            unarmed: Vec::new(),
            unsent: Vec::new(),
            copies: HashMap::new(),
            receives: 0,
            completions: Vec::new(),
            suspects: Vec::new(),
            looks: Looks::after(clock.now()),
            watched: None,
            is_watching: false,
            is_broken: false,
        })
    }

    fn watch(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.watched = Some(fd.try_clone_to_owned()?);
        Ok(())
    }

    fn add(&mut self, token: usize, socket: OwnedFd) -> io::Result<()> {
        if token >= self.connections.len() {
            let most = self.connections.len();
            return Err(io::Error::other(format!("connection {token} of an io_uring for {most}")));
        }
        self.close(token);
        // otherwise a receive would end immediately when there are no bytes
        rustix::io::ioctl_fionbio(socket.as_fd(), false)?;
        self.ring.submitter().register_files_update(token as u32, &[socket.as_raw_fd()])?;
        self.generation = (self.generation + 1) % GENERATIONS;
        self.connections[token] = Some(Connection {
            socket,
            generation: self.generation,
            is_armed: false,
            is_stopping: false,
            is_cancelled: false,
            is_quiet: false,
            outgoing: Outgoing::Nothing,
        });
        self.unarmed.push(token);
        Ok(())
    }

    fn send(&mut self, token: usize, handler: &mut impl Handler) {
        let Some(Some(connection)) = self.connections.get_mut(token) else {
            return;
        };
        if std::mem::take(&mut connection.is_stopping) {
            self.unarmed.push(token);
        }
        match &mut connection.outgoing {
            Outgoing::Nothing => {
                connection.outgoing = Outgoing::Message;
                self.unsent.push(token);
            }
            Outgoing::Message => {}
            Outgoing::Queued(bytes) if bytes.len() > MAX_QUEUED_BYTES => {
                self.close(token);
                handler.handle_close(token, Some(does_not_read()));
            }
            Outgoing::Copy(bytes) | Outgoing::Queued(bytes) => {
                bytes.extend_from_slice(handler.outgoing(token));
            }
        }
    }

    fn wait(&mut self, until: Option<Nanos>, handler: &mut impl Handler) -> io::Result<()> {
        let now = self.clock.now();
        let timeout = until.map(|until| until.saturating_sub(now));
        self.enter(1, timeout, handler)?;
        self.complete(handler);
        self.check_ends(now, handler);
        Ok(())
    }

    fn flush(&mut self, handler: &mut impl Handler) -> io::Result<()> {
        for _ in 0..FLUSH_ROUNDS {
            if self.unsent.is_empty() {
                break;
            }
            self.enter(0, None, handler)?;
            self.complete(handler);
        }
        Ok(())
    }

    fn close(&mut self, token: usize) {
        let Some(connection) = self.connections.get_mut(token).and_then(Option::take) else {
            return;
        };
        // This ends the receive, and a send that waits. Their completions no longer find a
        // connection of their generation. Errors are ignored: the peer may have closed, and an
        // occupied slot keeps only a socket that is shut down.
        let _ = shutdown(&connection.socket, Shutdown::Both);
        let _ = self.ring.submitter().register_files_update(token as u32, &[-1]);
    }

    fn release(&mut self, token: usize) -> Released {
        let Some(slot) = self.connections.get_mut(token) else {
            return Released::Gone;
        };
        let Some(mut connection) = slot.take() else {
            return Released::Gone;
        };
        let is_busy = !matches!(connection.outgoing, Outgoing::Nothing);
        connection.is_stopping = !is_busy;
        if is_busy || connection.is_armed {
            *slot = Some(connection);
            if is_busy {
                return Released::Busy;
            }
            self.end_receive(token);
            return Released::Pending;
        }
        // an occupied slot would keep the connection open after its end
        let vacated = self.ring.submitter().register_files_update(token as u32, &[-1]);
        if vacated.is_err() {
            connection.is_stopping = false;
            self.connections[token] = Some(connection);
            self.unarmed.push(token);
            return Released::Busy;
        }
        Released::Socket(connection.socket)
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if self.end_requests() {
            // otherwise the kernel closes the sockets some time after the ring
            let _ = self.ring.submitter().unregister_files();
            // SAFETY: dropped nowhere else, and not used after. No receive is left that may fill
            // them: each was counted in `receives`, and the kernel has reported the end of each.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        } else {
            // memory that the kernel may still write to is leaked rather than freed
            std::mem::forget(std::mem::take(&mut self.copies));
        }
    }
}

/// How many requests one system call submits at most; others wait for the next call.
const BATCH: usize = 1024;
/// How often a ring is tried without memory for it, and the time between: the kernel releases that of
/// rings that were closed, such as those of a trial, some time later.
const MOST_TRIES: usize = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);
/// How many buffers there are; what finds none of them free is received with the next call.
const BUFFERS: usize = 256;

/// Makes a ring with a table for the files of this many `connections`, and its buffers. The buffers
/// have to outlive every request of the ring that selects from them.
fn make_ring(connections: usize) -> io::Result<(IoUring, Buffers)> {
    let mut tries = 1;
    loop {
        let made = try_ring(connections);
        let has_no_memory = |error: &io::Error| error.raw_os_error() == Some(Errno::NOMEM.raw_os_error());
        if tries == MOST_TRIES || !made.as_ref().is_err_and(has_no_memory) {
            return made.map_err(explain);
        }
        tries += 1;
        thread::sleep(BETWEEN_TRIES);
    }
}

fn try_ring(connections: usize) -> io::Result<(IoUring, Buffers)> {
    let files = u32::try_from(connections.max(1)).map_err(io::Error::other)?;
    let entries = connections.next_power_of_two().clamp(8, BATCH);
    // every send may fail, every buffer may be filled, and every receive may end: one batch has
    // room for all of that, so that no completion is delayed by a batch
    let completions = (entries + BUFFERS + connections).next_power_of_two();
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .setup_defer_taskrun()
        .setup_submit_all()
        .setup_clamp()
        .setup_cqsize(completions as u32)
        .build(entries as u32)?;
    let mut buffers = Buffers::new(BUFFERS as u16)?;
    ring.submitter().register_files_sparse(files)?;
    // SAFETY: the ring has no request; from here on the caller is responsible for it.
    unsafe { buffers.register(&ring.submitter()) }?;
    Ok((ring, buffers))
}

/// Explains why io_uring does not work here.
pub fn explain(error: io::Error) -> io::Error {
    let reason = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSYS) => "the kernel has none, or a seccomp profile forbids it",
        Some(Errno::PERM | Errno::ACCESS) => "kernel.io_uring_disabled or a seccomp profile forbids it",
        Some(Errno::INVAL) => "it needs Linux 6.1",
        Some(Errno::NOMEM) => "perhaps the limit of locked memory (ulimit -l) is too low",
        Some(Errno::MFILE) => "the limit of open files (ulimit -n) is too low",
        _ => "it is needed for --io=io_uring",
    };
    io::Error::new(error.kind(), format!("could not set up io_uring: {error}; {reason}"))
}
