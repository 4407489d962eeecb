//! A poller that waits for readiness, with edge-triggered epoll.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::alarm::Alarm;
use super::handler::{Handler, MAX_QUEUED_BYTES, Next, Poller, Released, does_not_read};
use crate::clock::{Clock, Nanos};

const READ_BYTES: usize = 64 * 1024;
const EVENTS: usize = 1024;
/// Stands for the alarm in place of a token.
const ALARM: u64 = u64::MAX;
/// Stands for what is only watched.
const WATCHED: u64 = ALARM - 1;
/// How many times in a row one connection is read: one that always has data must not keep the
/// worker from other connections, the clock and the stop flag.
const READS_IN_A_ROW: usize = 16;
const READ: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);
const ENDED: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);

/// A poller that waits for readiness, with edge-triggered epoll.
pub struct Epoll {
    epoll: OwnedFd,
    /// Ends a wait at an instant.
    alarm: Alarm,
    sockets: Vec<Option<Socket>>,
    events: Vec<epoll::Event>,
    buffer: Box<[u8]>,
}

struct Socket {
    fd: OwnedFd,
    /// A copy of the bytes that the kernel has not taken yet, because the handler continues with other messages.
    rest: Vec<u8>,
    /// How many of these bytes came after the first message.
    behind_bytes: usize,
}

impl Socket {
    fn flags(&self) -> EventFlags {
        if self.rest.is_empty() { READ } else { READ | EventFlags::OUT }
    }
}

enum SendResult {
    /// The kernel took this many bytes, and had no room for more.
    Bytes(usize),
    Whole,
    /// The peer has closed. What it sent before is still to be read: recv finds the end.
    Gone,
}

impl Epoll {
    /// Watches for room to send only while a message is stuck, because every read of the peer would wake the worker.
    fn watch_room(&mut self, token: usize, flags: EventFlags, handler: &mut impl Handler) {
        let Some(Some(socket)) = self.sockets.get(token) else {
            return;
        };
        let data = epoll::EventData::new_u64(token as u64);
        if let Err(error) = epoll::modify(&self.epoll, &socket.fd, data, flags) {
            self.sockets[token] = None;
            handler.handle_close(token, Some(error.into()));
        }
    }

    fn resume(&mut self, token: usize, handler: &mut impl Handler) {
        let Some(Some(socket)) = self.sockets.get_mut(token) else {
            return;
        };
        match send_all(&socket.fd, &socket.rest) {
            Ok(SendResult::Bytes(count)) => {
                socket.rest.drain(..count);
            }
            Ok(SendResult::Whole | SendResult::Gone) => {
                socket.rest = Vec::new();
                socket.behind_bytes = 0;
                self.watch_room(token, READ, handler);
            }
            Err(error) => {
                self.sockets[token] = None;
                handler.handle_close(token, Some(error));
            }
        }
    }

    fn drain(&mut self, token: usize, hung_up: bool, handler: &mut impl Handler) {
        for _ in 0..READS_IN_A_ROW {
            let Some(Some(socket)) = self.sockets.get(token) else {
                return;
            };
            match recv(&socket.fd, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((_, 0)) => {
                    self.sockets[token] = None;
                    return handler.handle_close(token, None);
                }
                Ok((_, count)) => {
                    match handler.receive(token, &self.buffer[..count]) {
                        Next::Wait => {}
                        Next::Send => self.send(token, handler),
                        Next::Close => return self.close(token),
                    }
                    // a short read emptied the socket, and the next edge reports more; an end that
                    // this edge reported has no edge of its own
                    if count < READ_BYTES && !hung_up {
                        return;
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(error) => {
                    self.sockets[token] = None;
                    return handler.handle_close(token, Some(error.into()));
                }
            }
        }
        // registering again repeats the edge
        if let Some(Some(socket)) = self.sockets.get(token) {
            self.watch_room(token, socket.flags(), handler);
        }
    }
}

fn send_all(fd: &OwnedFd, message: &[u8]) -> io::Result<SendResult> {
    let mut sent = 0;
    while sent < message.len() {
        match send(fd, &message[sent..], SendFlags::NOSIGNAL) {
            Ok(count) => sent += count,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(SendResult::Bytes(sent)),
            Err(Errno::PIPE | Errno::CONNRESET) => return Ok(SendResult::Gone),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(SendResult::Whole)
}

impl Poller for Epoll {
    const NAME: &'static str = "epoll";

    fn new(connections: usize, clock: Clock) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let alarm = Alarm::new(clock)?;
        let data = epoll::EventData::new_u64(ALARM);
        epoll::add(&epoll, &alarm, data, EventFlags::IN | EventFlags::ET)?;
        Ok(Self {
            epoll,
            alarm,
            sockets: Vec::with_capacity(connections),
            events: Vec::with_capacity(EVENTS),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
        })
    }

    fn watch(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(WATCHED), EventFlags::IN)?)
    }

    fn add(&mut self, token: usize, socket: OwnedFd) -> io::Result<()> {
        rustix::io::ioctl_fionbio(socket.as_fd(), true)?;
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(token as u64), READ)?;
        if self.sockets.len() <= token {
            self.sockets.resize_with(token + 1, || None);
        }
        self.sockets[token] = Some(Socket { fd: socket, rest: Vec::new(), behind_bytes: 0 });
        Ok(())
    }

    fn send(&mut self, token: usize, handler: &mut impl Handler) {
        let Some(Some(socket)) = self.sockets.get_mut(token) else {
            return;
        };
        let message = handler.outgoing(token);
        if !socket.rest.is_empty() {
            socket.behind_bytes += message.len();
            if socket.behind_bytes > MAX_QUEUED_BYTES {
                self.sockets[token] = None;
                return handler.handle_close(token, Some(does_not_read()));
            }
            return socket.rest.extend_from_slice(message);
        }
        match send_all(&socket.fd, message) {
            Ok(SendResult::Whole | SendResult::Gone) => {}
            Ok(SendResult::Bytes(count)) => {
                socket.rest = message[count..].to_vec();
                self.watch_room(token, READ | EventFlags::OUT, handler);
            }
            Err(error) => {
                self.sockets[token] = None;
                handler.handle_close(token, Some(error));
            }
        }
    }

    fn wait(&mut self, until: Option<Nanos>, handler: &mut impl Handler) -> io::Result<()> {
        if let Some(until) = until {
            self.alarm.ring_by(until)?;
        }
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let buffer = rustix::buffer::spare_capacity(&mut events);
        let waited = match epoll::wait(&self.epoll, buffer, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        };
        for event in &events {
            if event.data.u64() == WATCHED {
                continue;
            }
            if event.data.u64() == ALARM {
                self.alarm.rang();
                continue;
            }
            let token = event.data.u64() as usize;
            let flags = event.flags;
            if flags.contains(EventFlags::OUT) {
                self.resume(token, handler);
            }
            let hung_up = flags.intersects(ENDED);
            if hung_up || flags.contains(EventFlags::IN) {
                self.drain(token, hung_up, handler);
            }
        }
        self.events = events;
        waited
    }

    fn flush(&mut self, _handler: &mut impl Handler) -> io::Result<()> {
        Ok(()) // every send was made immediately
    }

    fn close(&mut self, token: usize) {
        if let Some(socket) = self.sockets.get_mut(token) {
            *socket = None;
        }
    }

    fn release(&mut self, token: usize) -> Released {
        let Some(slot) = self.sockets.get_mut(token) else {
            return Released::Gone;
        };
        match slot.take() {
            None => Released::Gone,
            Some(socket) if !socket.rest.is_empty() || epoll::delete(&self.epoll, &socket.fd).is_err() => {
                *slot = Some(socket);
                Released::Busy
            }
            Some(socket) => Released::Socket(socket.fd),
        }
    }
}
