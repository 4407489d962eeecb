//! How a worker gives clients to another, and takes them.

use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};

use pgdyno_connect::Transport;

use crate::clock::{Nanos, SECOND};
use crate::handover::Parcel;
use crate::interval::Phase;
use crate::poller::{Poller, Released};
use crate::worker::{LONGEST_WAIT, Load, NOWHERE, Worker};

/// How long a worker waits at most before it looks for clients that are on their way to it.
const WELCOMING: Nanos = SECOND / 1000;

impl<P: Poller> Worker<'_, P> {
    /// Begins with clients that come by and by, at `from`.
    pub fn begin_empty(&mut self, from: Nanos, arriving: Receiver<Parcel>) {
        if self.timetable.phase(from).0 != Phase::WarmUp {
            self.load.shared.begin_measuring(self.timetable.measure);
        }
        self.load.shared.schedule.begin_with_nothing();
        self.from = from;
        self.to = self.timetable.interval_end(from);
        self.arriving = Some(arriving);
    }

    pub(super) fn has_work(&self) -> bool {
        self.load.running > 0 || self.arriving.is_some()
    }

    pub(super) fn longest_wait(&self) -> Nanos {
        match self.arriving {
            Some(_) => WELCOMING,
            None => LONGEST_WAIT,
        }
    }

    /// Begins to give clients away, if that was ordered. Those that wait for their intended start go
    /// at once, and the start with them; others when their transaction has ended.
    pub(super) fn take_order(&mut self) -> io::Result<()> {
        let Some(order) = self.links.orders.take() else {
            return Ok(());
        };
        let load = &mut self.load;
        let shared = &mut load.shared;
        // one stays
        let clients = order.clients.min(load.running.saturating_sub(1));
        if clients == 0 {
            return Ok(());
        }
        if shared.schedule.is_open() {
            let part = clients as f64 / load.running as f64;
            // a worker that is gone takes nothing: the load is being stopped
            let _ = order.to.send(Parcel::Share(shared.schedule.give(part)));
        }
        shared.departures.want(clients);
        for client in load.clients.iter_mut().flatten() {
            if shared.departures.wanted() {
                client.depart_if_waiting(shared);
            }
        }
        self.giving = Some(order.to);
        // before the timer of one of them wakes it here
        self.give_away()
    }

    /// Sends the clients away that are ready for it.
    pub(super) fn give_away(&mut self) -> io::Result<()> {
        if self.giving.is_none() {
            return Ok(());
        }
        while let Some(client) = self.load.shared.departures.next() {
            if let Some(token) = self.load.token(client) {
                self.give_away_one(token)?;
            }
        }
        if !self.load.shared.departures.wanted() {
            // the other worker learns that all have come
            self.giving = None;
        }
        Ok(())
    }

    fn give_away_one(&mut self, token: usize) -> io::Result<()> {
        let transport = if self.load.shared.reconnects {
            // the last words of the session before
            self.poller.flush(&mut self.load)?;
            self.poller.close(token);
            None
        } else {
            match self.poller.release(token, &mut self.load)? {
                Released::Socket(socket) => Some(Transport {
                    socket,
                    tls: self.load.channels.take(token),
                }),
                Released::Gone => return Ok(()),
                Released::Busy => {
                    let now = self.load.shared.clock.now();
                    self.step(token, |client, shared| client.stayed(now, shared));
                    return Ok(());
                }
            }
        };
        if let (Some(client), Some(to)) = (self.load.remove(token), &self.giving) {
            // one that is gone takes nothing: the load is being stopped
            let _ = to.send(Parcel::Client(Box::new(client), transport));
        }
        Ok(())
    }

    /// Takes in the clients that have come.
    pub(super) fn welcome(&mut self, now: Nanos) -> io::Result<()> {
        while let Some(arriving) = &self.arriving {
            match arriving.try_recv() {
                Ok(Parcel::Share(share)) => self.load.shared.schedule.take(share),
                Ok(Parcel::Client(client, transport)) => {
                    let token = self.load.add(*client);
                    if let Some(transport) = transport {
                        self.attach(token, transport)?;
                    }
                    self.step(token, |client, shared| client.arrived(now, shared));
                }
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => self.arriving = None,
            }
        }
        Ok(())
    }
}

impl Load<'_> {
    /// Takes a client in; its token.
    fn add(&mut self, client: crate::client::Client) -> usize {
        let token = self.clients.len();
        self.tokens[client.id() - self.first_client] = token as u32;
        self.running += usize::from(!client.stopped());
        self.clients.push(Some(client));
        token
    }

    /// Lets a client go.
    fn remove(&mut self, token: usize) -> Option<crate::client::Client> {
        let client = self.clients.get_mut(token)?.take()?;
        self.tokens[client.id() - self.first_client] = NOWHERE;
        self.running -= usize::from(!client.stopped());
        Some(client)
    }
}
