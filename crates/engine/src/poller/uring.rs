//! A poller that waits for completions, with io_uring: one system call for each batch submits all
//! sends and waits for replies.
//!
//! Every connection has one multishot receive in the kernel, which fills buffers of a common ring.
//! Sends use the handler's own bytes: they always complete within the call that submits them, so
//! the handler may change its bytes afterwards. Bytes that did not fit into the socket are copied,
//! and the copy lives until the kernel has completed its send.

use std::collections::HashMap;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use io_uring::types::{CancelBuilder, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, shutdown};

use super::buffers::{Buffers, GROUP};
use super::handler::{Handler, MAX_QUEUED_BYTES, Next, Poller, Released, does_not_read};
use super::request::{GENERATIONS, Request, RequestKind};
use super::setup;
use crate::clock::{Clock, Nanos, SECOND};

/// After how many rounds without the end of a request the memory of the remaining ones is leaked.
const LAST_ROUNDS: usize = 100;
/// How often silent sockets are checked for their end.
const LOOK_EVERY: Nanos = match cfg!(any(test, fuzzing)) {
    true => SECOND / 50,
    false => SECOND,
};
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
    /// When all connections are next checked for their end.
    next_look: Nanos,
    /// Set when the kernel did not take what was submitted: the queue is never submitted again.
    is_broken: bool,
}

struct Connection {
    socket: OwnedFd,
    generation: u32,
    /// Whether the kernel has a receive for the connection.
    is_armed: bool,
    /// Whether the connection gets no further receive, because it is being released.
    is_stopping: bool,
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

impl Uring {
    /// Submits as much of the pending work as one batch holds, and waits for `wanted` completions.
    fn enter(
        &mut self,
        wanted: usize,
        timeout: Option<Nanos>,
        handler: &impl Handler,
    ) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::other("io_uring took no requests"));
        }
        // reset once the kernel has taken the queue; stays set if anything fails or panics before
        self.is_broken = true;
        self.buffers.publish();
        self.submit_receives();
        // from here on the queue points into the handler's messages, which `handler` keeps as they
        // are until this function returns
        self.submit_sends(handler);
        let is_all = self.unarmed.is_empty() && self.unsent.is_empty();
        let timeout = timeout.map(|ns| Timespec::new().sec(ns / SECOND).nsec((ns % SECOND) as u32));
        let args = match &timeout {
            Some(timeout) => SubmitArgs::new().timespec(timeout),
            None => SubmitArgs::new(),
        };
        loop {
            let entered = self
                .ring
                .submitter()
                .submit_with_args(if is_all { wanted } else { 0 }, &args);
            let is_taken = self.ring.submission().is_empty();
            match entered {
                Ok(_) if is_taken => break,
                // the kernel stopped in the middle of the batch, without waiting
                Ok(1..) => {}
                Err(error) if is_taken && is_interruption(&error) => break,
                Ok(_) => return Err(io::Error::other("io_uring took no requests")),
                Err(error) => return Err(error),
            }
        }
        self.is_broken = false;
        Ok(())
    }

    fn submit_receives(&mut self) {
        let mut queue = self.ring.submission();
        let mut looked_at = 0;
        for &token in &self.unarmed {
            if queue.is_full() {
                break;
            }
            looked_at += 1;
            let Some(Some(connection)) = self.connections.get_mut(token) else {
                continue;
            };
            if connection.is_armed || connection.is_stopping {
                continue;
            }
            let request = Request {
                kind: RequestKind::Receive,
                generation: connection.generation,
                token: token as u32,
            };
            let entry = opcode::RecvMulti::new(Fixed(token as u32), GROUP)
                .build()
                .user_data(request.user_data());
            // SAFETY: a receive into selected buffers has no memory but theirs, which `drop` frees
            // only when `receives` is back at 0.
            if unsafe { queue.push(&entry) }.is_ok() {
                connection.is_armed = true;
                self.receives += 1;
            }
        }
        self.unarmed.drain(..looked_at);
    }

    fn submit_sends(&mut self, handler: &impl Handler) {
        let mut queue = self.ring.submission();
        let mut looked_at = 0;
        for &token in &self.unsent {
            if queue.is_full() {
                break;
            }
            // requests of connections that were closed since take up no room in the batch
            looked_at += 1;
            let Some(Some(connection)) = self.connections.get_mut(token) else {
                continue;
            };
            let request = |kind| Request {
                kind,
                generation: connection.generation,
                token: token as u32,
            };
            let entry = match std::mem::take(&mut connection.outgoing) {
                Outgoing::Message => send(token, handler.outgoing(token), SendFlags::DONTWAIT)
                    .flags(squeue::Flags::SKIP_SUCCESS)
                    .user_data(request(RequestKind::Send).user_data()),
                Outgoing::Copy(bytes) => {
                    let data = request(RequestKind::SendCopy).user_data();
                    connection.outgoing = Outgoing::Queued(Vec::new());
                    let entry = send(token, &bytes, SendFlags::empty()).user_data(data);
                    self.copies.insert(data, bytes);
                    entry
                }
                other => {
                    connection.outgoing = other;
                    continue;
                }
            };
            // SAFETY: there is room. A copy is in `copies`, unchanged, until its request completed,
            // whatever becomes of the connection. A message of the handler's is borrowed from it
            // until `enter`, our only caller, returns. By then the request is complete: it may not
            // wait (DONTWAIT), nor is it forced to a worker thread (no ASYNC, no link, no drain),
            // so the kernel makes it inside io_uring_enter, copies the bytes into the socket, and
            // lets go of them. `enter` returns only when the queue is empty, or sets `is_broken`,
            // after which no entry in the queue is ever shown to the kernel.
            let pushed = unsafe { queue.push(&entry) };
            debug_assert!(pushed.is_ok());
        }
        self.unsent.drain(..looked_at);
    }

    /// Handles sends that the kernel could not complete, then received bytes. The order matters:
    /// the rest of a message is copied before the handler may continue with the next.
    fn complete(&mut self, handler: &mut impl Handler) {
        let mut completions = std::mem::take(&mut self.completions);
        completions.extend(self.ring.completion());
        for completion in &completions {
            let request = Request::of(completion);
            match request.kind {
                RequestKind::Receive => {}
                RequestKind::Send => self.message_stuck(request, completion.result(), handler),
                RequestKind::SendCopy => self.copy_ended(request, completion.result(), handler),
            }
        }
        for completion in &completions {
            let request = Request::of(completion);
            if request.kind == RequestKind::Receive {
                self.receive(request, completion, handler);
            }
        }
        completions.clear();
        self.completions = completions;
        for token in std::mem::take(&mut self.suspects) {
            self.look_for_end(token, handler);
        }
    }

    /// Checks the sockets that have been silent since the last check. After an answer, an end may
    /// go unnoticed that the next send does not detect either, because the peer still reads: a
    /// proxy that passes on the end of its server ends only its own direction.
    fn look_for_ends(&mut self, now: Nanos, handler: &mut impl Handler) {
        self.next_look = now + LOOK_EVERY;
        for token in 0..self.connections.len() {
            if let Some(connection) = &mut self.connections[token]
                && std::mem::replace(&mut connection.is_quiet, true)
            {
                self.look_for_end(token, handler);
            }
        }
    }

    /// Checks a socket for its end. If bytes and the end arrive almost together, they are one event
    /// for a multishot receive, which then takes the bytes and waits forever (observed with Linux
    /// 6.18). By the time that we have the bytes, the socket knows of the end. For a client that
    /// sends next, the send or the next check detects it; for one that waits for more, the socket
    /// is checked immediately.
    fn look_for_end(&mut self, token: usize, handler: &mut impl Handler) {
        let Some(Some(connection)) = self.connections.get(token) else {
            return;
        };
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let why = match recv(&connection.socket, &mut [0; 1], flags) {
            Ok((_, 0)) => None,
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => return,
            Err(error) => Some(error.into()),
        };
        self.close(token);
        handler.closed(token, why);
    }

    /// The connection for which a request was made, unless it was closed since.
    fn connection(&mut self, request: Request) -> Option<&mut Connection> {
        self.connections
            .get_mut(request.token as usize)?
            .as_mut()
            .filter(|connection| connection.generation == request.generation)
    }

    fn message_stuck(&mut self, request: Request, result: i32, handler: &mut impl Handler) {
        let Some(sent) = self.sent(request, result, handler) else {
            return;
        };
        let token = request.token as usize;
        if let Some(rest) = handler.outgoing(token).get(sent..) {
            let rest = rest.to_vec();
            self.send_copy(request, rest);
        }
    }

    fn copy_ended(&mut self, request: Request, result: i32, handler: &mut impl Handler) {
        let Some(mut copy) = self.copies.remove(&request.user_data()) else {
            return;
        };
        let Some(sent) = self.sent(request, result, handler) else {
            return;
        };
        let Some(connection) = self.connection(request) else {
            return;
        };
        let queued = std::mem::take(&mut connection.outgoing);
        copy.drain(..sent.min(copy.len()));
        if let Outgoing::Queued(queued) = queued {
            copy.extend_from_slice(&queued);
        }
        if !copy.is_empty() {
            self.send_copy(request, copy);
        }
    }

    /// How many bytes a send that ended with `result` has sent; None if no more can be sent.
    fn sent(&mut self, request: Request, result: i32, handler: &mut impl Handler) -> Option<usize> {
        let connection = self.connection(request)?;
        if let Ok(sent) = usize::try_from(result) {
            return Some(sent);
        }
        match Errno::from_raw_os_error(-result) {
            Errno::AGAIN | Errno::INTR => Some(0),
            // what the server sent before it closed is still to be read
            Errno::PIPE | Errno::CONNRESET => {
                connection.outgoing = Outgoing::Nothing;
                self.suspects.push(request.token as usize);
                None
            }
            error => {
                self.close(request.token as usize);
                handler.closed(request.token as usize, Some(error.into()));
                None
            }
        }
    }

    fn send_copy(&mut self, request: Request, bytes: Vec<u8>) {
        if let Some(connection) = self.connection(request) {
            connection.outgoing = Outgoing::Copy(bytes);
            self.unsent.push(request.token as usize);
        }
    }

    fn receive(
        &mut self,
        request: Request,
        completion: &cqueue::Entry,
        handler: &mut impl Handler,
    ) {
        let is_last = !cqueue::more(completion.flags());
        self.receives -= usize::from(is_last);
        let filled = cqueue::buffer_select(completion.flags());
        let token = request.token as usize;
        if let Some(connection) = self.connection(request) {
            connection.is_armed = !is_last;
            connection.is_quiet = false;
            match (usize::try_from(completion.result()), filled) {
                (Ok(length @ 1..), Some(id)) => {
                    let next = self.hand_over(token, id, length, handler);
                    if next == Next::Wait && !cqueue::sock_nonempty(completion.flags()) {
                        self.suspects.push(token);
                    }
                }
                (Ok(_), _) => {
                    self.close(token);
                    handler.closed(token, None);
                }
                (Err(_), _) => match Errno::from_raw_os_error(-completion.result()) {
                    // all buffers were in use; the receive continues with the next batch
                    Errno::NOBUFS | Errno::INTR | Errno::AGAIN => {}
                    Errno::CANCELED if connection.is_stopping => {}
                    error => {
                        self.close(token);
                        handler.closed(token, Some(error.into()));
                    }
                },
            }
        }
        if let Some(id) = filled {
            self.buffers.give_back(id);
        }
        if is_last {
            self.unarmed.push(token);
        }
    }

    /// Passes the `length` bytes in buffer `id` to the handler for `token`; the caller returns the
    /// buffer.
    fn hand_over(
        &mut self,
        token: usize,
        id: u16,
        length: usize,
        handler: &mut impl Handler,
    ) -> Next {
        // the handler may change a message that waits for the next batch, so it is copied
        if let Some(Some(connection)) = self.connections.get_mut(token)
            && let Outgoing::Message = connection.outgoing
        {
            connection.outgoing = Outgoing::Copy(handler.outgoing(token).to_vec());
        }
        // SAFETY: the completion in hand says so, and its buffer is given back after this.
        let bytes = unsafe { self.buffers.filled(id, length) };
        let next = handler.received(token, bytes);
        match next {
            Next::Wait => {}
            Next::Send => self.send(token, handler),
            Next::Close => self.close(token),
        }
        next
    }

    /// Ends the receive of `token`, if there is one, and waits for the kernel's confirmation.
    fn end_receive(&mut self, token: usize, handler: &mut impl Handler) -> io::Result<()> {
        let moment = SECOND / 100;
        let timeout = Timespec::new().nsec(moment as u32);
        for _ in 0..LAST_ROUNDS {
            let Some(Some(connection)) = self.connections.get(token) else {
                return Ok(());
            };
            if !connection.is_armed {
                return Ok(());
            }
            let request = Request {
                kind: RequestKind::Receive,
                generation: connection.generation,
                token: token as u32,
            };
            let receive = CancelBuilder::user_data(request.user_data());
            // fails if the receive has ended by itself or after the time limit: then try again
            let _ = self
                .ring
                .submitter()
                .register_sync_cancel(Some(timeout), receive);
            self.enter(1, Some(moment), handler)?;
            self.complete(handler);
        }
        Err(io::Error::other("io_uring did not end a receive"))
    }

    /// Ends every request and waits for the kernel's confirmation of each; returns false if it does
    /// not come.
    fn end_requests(&mut self) -> bool {
        if self.is_broken {
            return false;
        }
        // this ends every receive and every send that waits; a cancel request to the ring instead
        // searches all requests for each, which takes a minute with 10,000
        for connection in self.connections.iter().flatten() {
            let _ = shutdown(&connection.socket, Shutdown::Both);
        }
        let timeout = Timespec::new().nsec(10_000_000);
        let mut idle_rounds = 0;
        while self.receives > 0 || !self.copies.is_empty() {
            let submitter = self.ring.submitter();
            // fails after the time limit: then try again
            let _ = submitter.submit_with_args(1, &SubmitArgs::new().timespec(&timeout));
            let before = (self.receives, self.copies.len());
            for completion in self.ring.completion() {
                let request = Request::of(&completion);
                if request.kind == RequestKind::Receive && !cqueue::more(completion.flags()) {
                    self.receives -= 1;
                }
                self.copies.remove(&request.user_data());
            }
            if (self.receives, self.copies.len()) == before {
                idle_rounds += 1;
                if idle_rounds == LAST_ROUNDS {
                    return false;
                }
            }
        }
        true
    }
}

/// A send that transfers all of `message` unless it cannot.
fn send(token: usize, message: &[u8], flags: SendFlags) -> squeue::Entry {
    // MSG_WAITALL has the same value in both directions
    let whole = SendFlags::from_bits_retain(RecvFlags::WAITALL.bits());
    let flags = SendFlags::NOSIGNAL | whole | flags;
    // a message of PostgreSQL's protocol has at most 1 GiB; of a longer one, a part would be sent
    opcode::Send::new(Fixed(token as u32), message.as_ptr(), message.len() as u32)
        .flags(flags.bits().cast_signed())
        .build()
}

/// Whether a wait ended without a completion, which is allowed.
fn is_interruption(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::TIME | Errno::INTR))
}

impl Poller for Uring {
    const NAME: &'static str = "io_uring";

    fn new(connections: usize, clock: Clock) -> io::Result<Self> {
        let (ring, buffers) = setup::ring(connections)?;
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
            next_look: clock.now() + LOOK_EVERY,
            is_broken: false,
        })
    }

    fn add(&mut self, token: usize, socket: OwnedFd) -> io::Result<()> {
        if token >= self.connections.len() {
            let most = self.connections.len();
            return Err(io::Error::other(format!(
                "connection {token} of an io_uring for {most}"
            )));
        }
        self.close(token);
        // otherwise a receive would end immediately when there are no bytes
        rustix::io::ioctl_fionbio(socket.as_fd(), false)?;
        self.ring
            .submitter()
            .register_files_update(token as u32, &[socket.as_raw_fd()])?;
        self.generation = (self.generation + 1) % GENERATIONS;
        self.connections[token] = Some(Connection {
            socket,
            generation: self.generation,
            is_armed: false,
            is_stopping: false,
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
        match &mut connection.outgoing {
            Outgoing::Nothing => {
                connection.outgoing = Outgoing::Message;
                self.unsent.push(token);
            }
            Outgoing::Message => {}
            Outgoing::Queued(bytes) if bytes.len() > MAX_QUEUED_BYTES => {
                self.close(token);
                handler.closed(token, Some(does_not_read()));
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
        if now >= self.next_look {
            self.look_for_ends(now, handler);
        }
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
        let _ = self
            .ring
            .submitter()
            .register_files_update(token as u32, &[-1]);
    }

    fn release(&mut self, token: usize, handler: &mut impl Handler) -> io::Result<Released> {
        let Some(Some(connection)) = self.connections.get_mut(token) else {
            return Ok(Released::Gone);
        };
        if !matches!(connection.outgoing, Outgoing::Nothing) {
            return Ok(Released::Busy);
        }
        connection.is_stopping = true;
        self.end_receive(token, handler)?;
        let Some(slot) = self.connections.get_mut(token) else {
            return Ok(Released::Gone);
        };
        match slot.take() {
            // bytes that the handler received in the meantime ended the connection
            None => Ok(Released::Gone),
            // or made the handler send
            Some(mut connection) if !matches!(connection.outgoing, Outgoing::Nothing) => {
                connection.is_stopping = false;
                *slot = Some(connection);
                self.unarmed.push(token);
                Ok(Released::Busy)
            }
            Some(connection) => {
                // an occupied slot would keep the connection open after its end
                self.ring
                    .submitter()
                    .register_files_update(token as u32, &[-1])?;
                Ok(Released::Socket(connection.socket))
            }
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if self.end_requests() {
            // otherwise the kernel closes the sockets some time after the ring
            let _ = self.ring.submitter().unregister_files();
            // SAFETY: dropped nowhere else, and not used after. No receive is left that may fill
            // them: each was counted in `receives`, and the kernel has told of the end of each.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        } else {
            // memory that the kernel may still write to is leaked rather than freed
            std::mem::forget(std::mem::take(&mut self.copies));
        }
    }
}
