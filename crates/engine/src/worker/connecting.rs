//! How a worker connects its clients during the load: for each transaction (-C), in place of lost
//! connections, and where drivers request sessions. The dialer waits for all of them at once.

use std::io;
use std::time::{Duration, Instant};

use pgdyno_connect::{Dialed, Transport};

use crate::clock::Nanos;
use crate::connect_record::Attempt;
use crate::connections::{Purpose, Request};
use crate::poller::Poller;
use crate::reconnect::Refusal;
use crate::worker::Worker;

impl<P: Poller> Worker<'_, P> {
    pub(super) fn connect_clients(&mut self) -> io::Result<()> {
        let mut requested = false;
        while let Some(client) = self.load.shared.requests.next_unconnected() {
            requested = true;
            let token = self.load.token(client);
            self.dialer.request(Request { token, purpose: Purpose::Connect });
        }
        if requested {
            // sends the ends of the previous sessions
            self.poller.flush(&mut self.load)?;
        }
        while !self.dialer.is_idle() {
            let done = self.dialer.advance(Duration::ZERO)?;
            if done.is_empty() {
                break;
            }
            done.into_iter().for_each(|dialed| self.take_connection(dialed));
        }
        Ok(())
    }

    pub(super) fn next_dial(&self) -> Nanos {
        let left = self.dialer.next_instant().map(|at| at.saturating_duration_since(Instant::now()));
        left.map_or(Nanos::MAX, |left| self.load.shared.clock.now() + left.as_nanos() as Nanos)
    }

    fn take_connection(&mut self, dialed: Dialed<Request>) {
        let Dialed { tag: Request { token, purpose }, began, time_share, result } = dialed;
        if self.load.shared.run.is_stopped() {
            // an interruption may have ended the attempt
            return;
        }
        let Some(client) = self.load.clients.get(token).filter(|client| !client.is_stopped()) else {
            return;
        };
        let id = client.id();
        let times = result.as_ref().map(|session| session.connect_times(began)).unwrap_or_default();
        let result = result.map(|mut session| {
            if self.load.shared.run.prints_notices {
                session.print_notices();
            }
            session.into_transport()
        });
        if purpose == Purpose::ChangeSession {
            let result = match result {
                Ok(transport) => transport.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            self.dialed.insert(token, Some(result));
            return self.load.shared.requests.change_session(id);
        }
        let ago = began.elapsed();
        let took = if self.load.shared.run.reconnects { time_share } else { ago };
        let made = Attempt {
            began: self.load.shared.clock.now().saturating_sub(ago.as_nanos() as Nanos),
            took: took.as_nanos() as Nanos,
            times,
        };
        let result: Result<Transport, Refusal> =
            result.map_err(Refusal::from).and_then(|transport| transport.map_err(Refusal::passing));
        let result = result.and_then(|transport| self.attach(token, transport).map_err(Refusal::passing));
        let result = result.as_ref().copied();
        let connects_later = self.load.shared.run.spec.connects_later();
        self.step(token, |client, shared| {
            if connects_later {
                client.handle_reconnection(result, &made, shared)
            } else {
                client.handle_connection(result, &made, shared)
            }
        });
    }

    pub(super) fn attach(&mut self, token: usize, transport: Transport) -> io::Result<()> {
        self.poller.add(token, transport.socket)?;
        self.load.tls_sessions.set(token, transport.tls);
        self.load.cancels.set(token, transport.cancel);
        Ok(())
    }

    /// The session that the driver of `token` requested. Requests it at the first call; None until
    /// it is made, which requests the change again.
    pub(super) fn take_dialed(&mut self, token: usize) -> Option<Result<Transport, String>> {
        match self.dialed.get(&token) {
            Some(Some(_)) => self.dialed.remove(&token)?,
            Some(None) => None,
            None => {
                self.dialed.insert(token, None);
                self.dialer.request(Request { token, purpose: Purpose::ChangeSession });
                None
            }
        }
    }
}
