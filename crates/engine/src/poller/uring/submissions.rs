//! What an io_uring is to do: receives and sends, submitted in batches.

use std::io;
use std::os::fd::AsRawFd;

use io_uring::types::{self, Fixed, SubmitArgs, Timespec};
use io_uring::{opcode, squeue};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::super::buffers::GROUP;
use super::super::handler::Handler;
use super::super::uring_request::{Request, RequestKind};
use super::{Outgoing, Uring};
use crate::clock::{Nanos, SECOND};

impl Uring {
    pub(super) fn enter(&mut self, wanted: usize, timeout: Option<Nanos>, handler: &impl Handler) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::other("io_uring took no requests"));
        }
        // reset once the kernel has taken the queue; stays set if anything fails or panics before
        self.is_broken = true;
        self.buffers.publish();
        self.submit_watch();
        self.submit_receives();
        // from here on the queue points into the handler's messages, which stay as they are until this function returns
        self.submit_sends(handler);
        let is_all = self.unarmed.is_empty() && self.unsent.is_empty();
        let timeout = timeout.map(|ns| Timespec::new().sec(ns / SECOND).nsec((ns % SECOND) as u32));
        let args = match &timeout {
            Some(timeout) => SubmitArgs::new().timespec(timeout),
            None => SubmitArgs::new(),
        };
        loop {
            let entered = self.ring.submitter().submit_with_args(if is_all { wanted } else { 0 }, &args);
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

    fn submit_watch(&mut self) {
        let Some(fd) = self.watched.as_ref().filter(|_| !self.is_watching) else {
            return;
        };
        let request = Request { kind: RequestKind::Watch, generation: 0, token: 0 };
        let entry = opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), PollFlags::IN.bits().into()).build();
        let entry = entry.user_data(request.user_data());
        // SAFETY: a poll has no memory, and the kernel holds the file that it polls.
        self.is_watching = unsafe { self.ring.submission().push(&entry) }.is_ok();
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
            let request =
                Request { kind: RequestKind::Receive, generation: connection.generation, token: token as u32 };
            let entry = opcode::RecvMulti::new(Fixed(token as u32), GROUP).build().user_data(request.user_data());
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
            let request = |kind| Request { kind, generation: connection.generation, token: token as u32 };
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
            // SAFETY: there is room. A copy is in `copies`, unchanged, until its request completed, whatever becomes of
            // the connection. A message of the handler's is borrowed from it until `enter`, our only caller, returns.
            // By then the request is complete: it may not wait (DONTWAIT), nor is it forced to a worker thread (no
            // ASYNC, no link, no drain), so the kernel makes it inside io_uring_enter, copies the bytes into the
            // socket, and lets go of them. `enter` returns only when the queue is empty, or sets `is_broken`, after
            // which no entry in the queue is ever shown to the kernel.
            let pushed = unsafe { queue.push(&entry) };
            debug_assert!(pushed.is_ok());
        }
        self.unsent.drain(..looked_at);
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

fn is_interruption(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::TIME | Errno::INTR))
}
