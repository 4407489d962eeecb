//! Ends that the kernel may not report, and the end of the kernel's requests.

use io_uring::cqueue;
use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

use super::super::handler::{Handler, Poller as _};
use super::super::uring_request::{Request, RequestKind};
use super::Uring;
use crate::clock::{Nanos, SECOND};

/// After how many rounds without the end of a request the memory of the remaining ones is leaked.
const LAST_ROUNDS: usize = 100;

/// How often silent sockets are checked for their end.
const LOOK_EVERY: Nanos = if cfg!(any(test, fuzzing)) { SECOND / 50 } else { SECOND };
/// In how many parts the checks of all sockets are spread over that time: each is a system call,
/// and replies wait for those that are made together.
const PARTS: usize = 50;

/// When sockets are checked for their end, and which.
#[derive(Debug)]
pub(super) struct Looks {
    next: Nanos,
    token: usize,
}

impl Looks {
    pub(super) fn after(now: Nanos) -> Self {
        Self { next: now + LOOK_EVERY, token: 0 }
    }

    fn due(&mut self, now: Nanos, connections: usize) -> usize {
        if now < self.next {
            return 0;
        }
        let period = LOOK_EVERY / PARTS as Nanos;
        let parts = (now - self.next) / period + 1;
        self.next += parts * period;
        let most = parts.min(PARTS as Nanos) as usize * connections.div_ceil(PARTS);
        most.min(connections)
    }

    fn next_token(&mut self, connections: usize) -> usize {
        let token = self.token % connections;
        self.token = token + 1;
        token
    }
}

impl Uring {
    /// Checks the suspects, and the sockets that have been silent since the last check. After an
    /// answer, an end may go unnoticed that the next send does not detect either, because the peer
    /// still reads: a proxy that passes on the end of its server ends only its own direction.
    pub(super) fn check_ends(&mut self, now: Nanos, handler: &mut impl Handler) {
        for token in std::mem::take(&mut self.suspects) {
            self.check_end(token, handler);
        }
        for _ in 0..self.looks.due(now, self.connections.len()) {
            let token = self.looks.next_token(self.connections.len());
            if let Some(connection) = &mut self.connections[token]
                && std::mem::replace(&mut connection.is_quiet, true)
            {
                self.check_end(token, handler);
            }
        }
    }

    /// Checks a socket for its end. If bytes and the end arrive almost together, they are one event
    /// for a multishot receive, which then takes the bytes and waits forever (observed with Linux
    /// 6.18). By the time that we have the bytes, the socket knows of the end. For a client that
    /// sends next, or waits for its time to do so, the send or the next check detects it; for one
    /// that waits for more bytes, the socket is checked immediately.
    pub(super) fn check_end(&mut self, token: usize, handler: &mut impl Handler) {
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
        handler.handle_close(token, why);
    }

    /// Asks the kernel to end the receive of `token`. The completion of the receive confirms it; the kernel reports it
    /// after everything that arrived before, which takes long with many busy connections.
    pub(super) fn end_receive(&mut self, token: usize) {
        let Some(Some(connection)) = self.connections.get_mut(token) else {
            return;
        };
        if connection.is_cancelled {
            return;
        }
        let request = Request { kind: RequestKind::Receive, generation: connection.generation, token: token as u32 };
        let receive = CancelBuilder::user_data(request.user_data());
        let no_wait = Some(Timespec::new());
        // fails if the receive ends by itself or runs at this moment
        let cancelled = self.ring.submitter().register_sync_cancel(no_wait, receive);
        connection.is_cancelled = cancelled.is_ok();
    }

    pub(super) fn end_requests(&mut self) -> bool {
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

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::os::unix::net::UnixStream;

    use super::super::super::handler::Next;
    use super::super::super::tests::io_uring_is_to_work;
    use super::*;
    use crate::clock::Clock;

    /// A client that waits after each piece of bytes, for the rest of an answer or for its time.
    struct Waiting {
        awaits: bool,
        received: usize,
    }

    impl Handler for Waiting {
        fn receive(&mut self, _token: usize, bytes: &[u8]) -> Next {
            self.received += bytes.len();
            Next::Wait
        }

        fn handle_close(&mut self, token: usize, why: Option<io::Error>) {
            panic!("connection {token} ended: {why:?}");
        }

        fn awaits(&self, _token: usize) -> bool {
            self.awaits
        }

        fn outgoing(&self, _token: usize) -> &[u8] {
            &[]
        }
    }

    #[test]
    fn a_socket_is_checked_after_a_part_of_an_answer_alone() {
        if !io_uring_is_to_work() {
            return;
        }
        for awaits in [true, false] {
            let mut poller = Uring::new(1, Clock::start()).expect("it worked before");
            let (ours, mut peer) = UnixStream::pair().expect("sockets");
            poller.add(0, ours.into()).expect("room");
            peer.write_all(b"answer").expect("sent");
            let mut client = Waiting { awaits, received: 0 };
            while client.received == 0 {
                poller.enter(1, Some(SECOND), &client).expect("requests");
                poller.complete(&mut client);
            }
            assert_eq!(poller.suspects, if awaits { &[0][..] } else { &[] });
        }
    }

    #[test]
    fn checks_of_many_sockets_are_spread_over_the_time_between_two() {
        let mut looks = Looks::after(0);
        let step = LOOK_EVERY / 200;
        let mut checked = vec![0; 10_000];
        for turn in 0..200 {
            let due = looks.due(LOOK_EVERY + turn * step, checked.len());
            assert!(due <= checked.len() / PARTS, "{due} at once");
            (0..due).for_each(|_| checked[looks.next_token(10_000)] += 1);
        }
        assert!(checked.iter().all(|&times| times == 1));
        assert_eq!(looks.due(10 * LOOK_EVERY, 10_000), 10_000, "after a pause");
        assert_eq!(looks.due(20 * LOOK_EVERY, 3), 3);
        assert_eq!(looks.due(30 * LOOK_EVERY, 0), 0);
    }
}
