//! A connected client: its socket, its session, and the answers that are not sent yet.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::session::{Session, Turn};
use crate::shared::{Nanos, Shared};

/// The server stops reading from a client with more unsent bytes than this.
const MOST_WAITING_BYTES: usize = 1024 * 1024;

/// The events that report input, and its end.
pub const READ: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);

#[derive(Debug)]
pub struct Client {
    pub socket: OwnedFd,
    session: Session,
    /// Set when the session has ended: what is left is sent, and nothing more is read.
    is_ending: bool,
    /// Bytes that the kernel did not take.
    unsent: Vec<u8>,
    /// Answers that wait for their time, in its order.
    held: VecDeque<(Nanos, Box<[u8]>)>,
    held_bytes: usize,
}

impl Client {
    pub fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            session: Session::default(),
            is_ending: false,
            unsent: Vec::new(),
            held: VecDeque::new(),
            held_bytes: 0,
        }
    }

    /// What to wait for; None if the client is done.
    pub fn interest(&self) -> Option<EventFlags> {
        if self.is_ending && self.unsent.is_empty() && self.held.is_empty() {
            return None;
        }
        // a change of what is waited for reports again what is there
        let mut interest = EventFlags::ET;
        interest.set(READ, self.is_read());
        interest.set(EventFlags::OUT, !self.unsent.is_empty());
        Some(interest)
    }

    /// Whether more messages are taken.
    pub fn is_read(&self) -> bool {
        !self.is_ending && self.unsent.len() + self.held_bytes <= MOST_WAITING_BYTES
    }

    /// Reads once, and sends the answer; returns how many bytes were read, and when to send the answer if that is later.
    /// `input` and `out` are buffers.
    ///
    /// # Errors
    /// The client has closed the connection.
    pub fn read(
        &mut self, input: &mut [u8], out: &mut Vec<u8>, shared: &Shared, now: Nanos,
    ) -> io::Result<(usize, Option<Nanos>)> {
        let bytes = match recv(&self.socket, &mut *input, RecvFlags::empty()) {
            Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((_, bytes)) => bytes,
            Err(Errno::AGAIN) => return Ok((0, None)),
            Err(error) => return Err(error.into()),
        };
        let in_session = self.session.has_begun;
        out.clear();
        self.is_ending = self.session.receive(&input[..bytes], shared, out) == Turn::Close;
        // a message without an answer, such as Terminate, does not begin a stall
        let due = if out.is_empty() { now } else { shared.due(now, in_session) };
        if due <= now {
            self.send(out)?;
            return Ok((bytes, None));
        }
        self.held_bytes += out.len();
        self.held.push_back((due, out.as_slice().into()));
        Ok((bytes, Some(due)))
    }

    /// Sends the answers that are due.
    pub fn release(&mut self, now: Nanos) -> io::Result<()> {
        while self.held.front().is_some_and(|(due, _)| *due <= now)
            && let Some((_, answer)) = self.held.pop_front()
        {
            self.held_bytes -= answer.len();
            self.send(&answer)?;
        }
        Ok(())
    }

    /// Sends again what the kernel did not take.
    pub fn flush(&mut self) -> io::Result<()> {
        let unsent = mem::take(&mut self.unsent);
        self.send(&unsent)
    }

    /// Sends what the kernel takes, and keeps the rest.
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while self.unsent.is_empty() && !bytes.is_empty() {
            match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.unsent.extend_from_slice(bytes);
        Ok(())
    }
}
