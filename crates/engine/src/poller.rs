//! The seam between the load and the kernel: bytes in, bytes out, timeouts.
//!
//! A [`Handler`] decides, a [`Poller`] does. Whether the kernel is asked for readiness (epoll) or
//! for completions (io_uring), the handler sees only bytes that came and is asked for bytes to go.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::Timespec;

use crate::clock::{Nanos, SECOND};

/// What a handler wants after bytes came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// More bytes.
    Wait,
    /// [`Handler::outgoing`] to be sent, then more bytes.
    Send,
    /// The connection closed.
    Close,
}

/// Decides what is sent; does no I/O.
pub trait Handler {
    /// Bytes came on connection `token`.
    fn received(&mut self, token: usize, bytes: &[u8]) -> Next;

    /// Connection `token` ended; `why` is None when the server closed it in order.
    fn closed(&mut self, token: usize, why: Option<io::Error>);

    /// What to send on `token`. Stays the same until [`Handler::received`] is called for it.
    fn outgoing(&self, token: usize) -> &[u8];
}

/// Moves bytes between connections and a handler.
pub trait Poller {
    /// What events call it.
    const NAME: &'static str;

    /// Takes over a connected socket under the name `token` (small, dense numbers).
    ///
    /// # Errors
    /// When the kernel refuses to watch it.
    fn add(&mut self, token: usize, socket: OwnedFd) -> io::Result<()>;

    /// Starts to send what the handler has for `token`.
    fn send(&mut self, token: usize, handler: &mut impl Handler);

    /// Waits for bytes at most until `timeout` (None: without end) and serves all that came.
    ///
    /// # Errors
    /// When waiting itself fails; a broken connection goes to [`Handler::closed`].
    fn wait(&mut self, timeout: Option<Nanos>, handler: &mut impl Handler) -> io::Result<()>;

    /// Closes a connection at once.
    fn close(&mut self, token: usize);
}

const READ_BYTES: usize = 64 * 1024;
const EVENTS: usize = 1024;
const READ: EventFlags = EventFlags::IN
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);
const ENDED: EventFlags = EventFlags::RDHUP
    .union(EventFlags::HUP)
    .union(EventFlags::ERR);

/// Readiness by edge-triggered epoll.
pub struct Epoll {
    epoll: OwnedFd,
    sockets: Vec<Option<Socket>>,
    events: Vec<epoll::Event>,
    buffer: Box<[u8]>,
}

struct Socket {
    fd: OwnedFd,
    /// Bytes of the handler's outgoing message that the kernel has taken; None when all are gone.
    sent: Option<usize>,
}

impl Epoll {
    /// An empty poller.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            sockets: Vec::new(),
            events: Vec::with_capacity(EVENTS),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
        })
    }

    fn flush(&mut self, token: usize, handler: &mut impl Handler) {
        let Some(Some(socket)) = self.sockets.get_mut(token) else {
            return;
        };
        let Some(mut sent) = socket.sent else { return };
        let resumed = sent > 0;
        let message = handler.outgoing(token);
        while sent < message.len() {
            match send(&socket.fd, &message[sent..], SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    socket.sent = Some(sent);
                    return self.watch(token, READ | EventFlags::OUT, handler);
                }
                Err(error) => {
                    // what the server said before it went is still to be read: let recv find the end
                    if !matches!(error, Errno::PIPE | Errno::CONNRESET) {
                        self.sockets[token] = None;
                        handler.closed(token, Some(error.into()));
                    }
                    return;
                }
            }
        }
        socket.sent = None;
        if resumed {
            self.watch(token, READ, handler);
        }
    }

    /// Room to send is watched only while a message is stuck: every read of the peer would wake us.
    fn watch(&mut self, token: usize, flags: EventFlags, handler: &mut impl Handler) {
        let Some(Some(socket)) = self.sockets.get(token) else {
            return;
        };
        let data = epoll::EventData::new_u64(token as u64);
        if let Err(error) = epoll::modify(&self.epoll, &socket.fd, data, flags) {
            self.sockets[token] = None;
            handler.closed(token, Some(error.into()));
        }
    }

    fn drain(&mut self, token: usize, hung_up: bool, handler: &mut impl Handler) {
        loop {
            let Some(Some(socket)) = self.sockets.get(token) else {
                return;
            };
            match recv(&socket.fd, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((_, 0)) => {
                    self.sockets[token] = None;
                    return handler.closed(token, None);
                }
                Ok((_, count)) => {
                    match handler.received(token, &self.buffer[..count]) {
                        Next::Wait => {}
                        Next::Send => self.send(token, handler),
                        Next::Close => return self.close(token),
                    }
                    // a short read emptied the socket, and the next edge tells of more; an end that
                    // this edge told of has no edge of its own
                    if count < READ_BYTES && !hung_up {
                        return;
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(error) => {
                    self.sockets[token] = None;
                    return handler.closed(token, Some(error.into()));
                }
            }
        }
    }
}

impl Poller for Epoll {
    const NAME: &'static str = "epoll";

    fn add(&mut self, token: usize, socket: OwnedFd) -> io::Result<()> {
        rustix::io::ioctl_fionbio(socket.as_fd(), true)?;
        epoll::add(
            &self.epoll,
            &socket,
            epoll::EventData::new_u64(token as u64),
            READ,
        )?;
        if self.sockets.len() <= token {
            self.sockets.resize_with(token + 1, || None);
        }
        self.sockets[token] = Some(Socket {
            fd: socket,
            sent: None,
        });
        Ok(())
    }

    fn send(&mut self, token: usize, handler: &mut impl Handler) {
        if let Some(Some(socket)) = self.sockets.get_mut(token) {
            socket.sent = Some(0);
            self.flush(token, handler);
        }
    }

    fn wait(&mut self, timeout: Option<Nanos>, handler: &mut impl Handler) -> io::Result<()> {
        let timeout = timeout.map(|ns| Timespec {
            tv_sec: (ns / SECOND).cast_signed(),
            tv_nsec: (ns % SECOND).cast_signed(),
        });
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let buffer = rustix::buffer::spare_capacity(&mut events);
        let waited = match epoll::wait(&self.epoll, buffer, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        };
        for event in &events {
            let token = event.data.u64() as usize;
            let flags = event.flags;
            if flags.contains(EventFlags::OUT) {
                self.flush(token, handler);
            }
            let hung_up = flags.intersects(ENDED);
            if hung_up || flags.contains(EventFlags::IN) {
                self.drain(token, hung_up, handler);
            }
        }
        self.events = events;
        waited
    }

    fn close(&mut self, token: usize) {
        if let Some(socket) = self.sockets.get_mut(token) {
            *socket = None;
        }
    }
}
