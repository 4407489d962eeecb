//! What an io_uring has done: received bytes, and sends that did not complete.

use io_uring::cqueue;
use rustix::io::Errno;

use super::super::handler::{Handler, Next, Poller as _};
use super::super::uring_request::{Request, RequestKind};
use super::{Connection, Outgoing, Uring};

impl Uring {
    /// Handles sends that the kernel could not complete, then received bytes. The order matters:
    /// the rest of a message is copied before the handler may continue with the next.
    pub(super) fn complete(&mut self, handler: &mut impl Handler) {
        let mut completions = std::mem::take(&mut self.completions);
        completions.extend(self.ring.completion());
        for completion in &completions {
            let request = Request::of(completion);
            match request.kind {
                RequestKind::Receive => {}
                RequestKind::Watch => self.is_watching = false,
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
                handler.handle_close(request.token as usize, Some(error.into()));
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

    fn receive(&mut self, request: Request, completion: &cqueue::Entry, handler: &mut impl Handler) {
        let is_last = !cqueue::more(completion.flags());
        self.receives -= usize::from(is_last);
        let filled = cqueue::buffer_select(completion.flags());
        let token = request.token as usize;
        if let Some(connection) = self.connection(request) {
            connection.is_armed = !is_last;
            connection.is_cancelled &= !is_last;
            connection.is_quiet = false;
            match (usize::try_from(completion.result()), filled) {
                (Ok(length @ 1..), Some(id)) => {
                    let next = self.hand_over(token, id, length, handler);
                    let waits = next == Next::Wait && handler.awaits(token);
                    if waits && !cqueue::sock_nonempty(completion.flags()) {
                        self.suspects.push(token);
                    }
                }
                (Ok(_), _) => {
                    self.close(token);
                    handler.handle_close(token, None);
                }
                (Err(_), _) => match Errno::from_raw_os_error(-completion.result()) {
                    // all buffers were in use; the receive continues with the next batch
                    Errno::NOBUFS | Errno::INTR | Errno::AGAIN => {}
                    // we ended it, perhaps for a release that did not take place
                    Errno::CANCELED => {}
                    error => {
                        self.close(token);
                        handler.handle_close(token, Some(error.into()));
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

    fn hand_over(&mut self, token: usize, id: u16, length: usize, handler: &mut impl Handler) -> Next {
        // the handler may change a message that waits for the next batch, so it is copied
        if let Some(Some(connection)) = self.connections.get_mut(token)
            && let Outgoing::Message = connection.outgoing
        {
            connection.outgoing = Outgoing::Copy(handler.outgoing(token).to_vec());
        }
        // SAFETY: the completion in hand says so, and its buffer is given back after this.
        let bytes = unsafe { self.buffers.filled(id, length) };
        let next = handler.receive(token, bytes);
        match next {
            Next::Wait => {}
            Next::Send => self.send(token, handler),
            Next::Close => self.close(token),
        }
        next
    }
}
