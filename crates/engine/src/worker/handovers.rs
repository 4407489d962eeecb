//! How clients move between workers: each worker sends those that belong to others, and receives its own.

use std::io;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use pgdyno_connect::Transport;

use crate::client::Client;
use crate::clock::{Nanos, SECOND};
use crate::handover::{Dismissed, Handover, Order};
use crate::interval::Phase;
use crate::poller::{Next, Poller, Released};
use crate::worker::{LONGEST_WAIT, Load, NOWHERE, Worker};

/// How long a worker waits at most before it checks for clients that are on their way to it.
const ARRIVAL_WAIT: Nanos = SECOND / 1000;

/// The result of sending a client away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Departure {
    /// The client has left, or stays.
    Settled,
    /// The poller has not released its connection yet.
    Pending,
}

impl<P: Poller> Worker<'_, P> {
    /// Begins without clients at `from`, and waits for an order that brings some.
    pub fn begin_idle(&mut self, from: Nanos) {
        if self.timetable.phase(from).0 != Phase::WarmUp {
            self.load.shared.begin_measuring(self.timetable.measure);
        }
        self.load.shared.schedule.begin_with_nothing();
        self.from = from;
        self.to = self.timetable.interval_end(from);
        self.is_idle = true;
    }

    pub(super) fn has_work(&self) -> bool {
        self.has_clients() || self.is_idle
    }

    /// Whether the worker has clients, or some are on their way to it.
    pub(super) fn has_clients(&self) -> bool {
        self.load.running > 0 || self.expects_clients()
    }

    fn expects_clients(&self) -> bool {
        !self.arrivals.is_empty() || !self.earlier_arrivals.is_empty()
    }

    pub(super) fn longest_wait(&self) -> Nanos {
        if self.expects_clients() { ARRIVAL_WAIT } else { LONGEST_WAIT }
    }

    /// Waits for an order, because a worker without clients has nothing else to do; until the end
    /// of the load.
    pub(super) fn await_order(&mut self, timeout: Nanos) -> io::Result<()> {
        let now = self.load.shared.clock.now();
        if self.load.shared.stops(now) {
            self.is_idle = false;
            return Ok(());
        }
        match self.links.orders.wait(Duration::from_nanos(timeout)) {
            Ok(Some(order)) => self.follow(order),
            Ok(None) => Ok(()),
            Err(Dismissed) => {
                self.is_idle = false;
                Ok(())
            }
        }
    }

    /// Follows an order, if one has arrived.
    pub(super) fn take_order(&mut self) -> io::Result<()> {
        match self.links.orders.take() {
            Some(order) => self.follow(order),
            None => Ok(()),
        }
    }

    /// Begins to send away the clients that now belong to other workers. Those that wait for their
    /// intended start leave immediately with that start; the others after their transaction.
    fn follow(&mut self, order: Order) -> io::Result<()> {
        let load = &mut self.load;
        let shared = &mut load.shared;
        self.earlier_arrivals.append(&mut self.arrivals);
        self.arrivals.extend(order.from);
        self.is_idle = self.number >= order.workers.min(shared.spec.clients);
        let running = load.clients.iter().flatten().filter(|one| !one.stopped());
        let ids = running.map(Client::id);
        shared.departures.begin(self.number, order.workers, ids);
        self.destinations = order.to;
        if shared.schedule.is_open() {
            // the number of workers has doubled, so all clients that leave go to one other worker
            let part = shared.departures.misplaced() as f64 / load.running.max(1) as f64;
            let other = load.clients.iter().flatten().find_map(|client| {
                let target = shared.departures.target(client.id());
                target.filter(|_| !client.stopped())
            });
            if let Some(Some(to)) = other.and_then(|other| self.destinations.get(other)) {
                // a worker that has ended takes nothing: the load is being stopped
                let _ = to.send(Handover::Share(shared.schedule.give(part)));
            }
        }
        for client in load.clients.iter_mut().flatten() {
            client.depart_if_waiting(shared);
        }
        // before the timer of one of them expires here
        self.send_clients()
    }

    /// Sends away the clients that are ready.
    pub(super) fn send_clients(&mut self) -> io::Result<()> {
        if self.destinations.is_empty() {
            return Ok(());
        }
        let mut pending = Vec::new();
        while let Some((client, worker)) = self.load.shared.departures.next() {
            let token = self.load.token(client);
            if let Some(token) = token.filter(|token| self.load.may_leave(*token))
                && self.send_client(token, worker)? == Departure::Pending
            {
                pending.push(client);
            }
        }
        for client in pending {
            self.load.shared.departures.add(client);
        }
        // clients that an earlier order sent here may have to move on
        if !self.load.shared.departures.wanted() && self.earlier_arrivals.is_empty() {
            // the other workers learn that all clients have arrived
            self.destinations.clear();
        }
        Ok(())
    }

    fn send_client(&mut self, token: usize, worker: usize) -> io::Result<Departure> {
        let Some(Some(to)) = self.destinations.get(worker).cloned() else {
            return Ok(self.keep(token));
        };
        let transport = if self.load.shared.reconnects {
            // sends the end of the previous session
            self.poller.flush(&mut self.load)?;
            self.poller.close(token);
            None
        } else {
            match self.poller.release(token) {
                Released::Socket(socket) => Some(self.load.transport(token, socket)),
                Released::Pending => return Ok(Departure::Pending),
                Released::Gone => return Ok(Departure::Settled),
                Released::Busy => return Ok(self.keep(token)),
            }
        };
        let Some(client) = self.load.remove(token) else {
            return Ok(Departure::Settled);
        };
        let id = client.id();
        let parcel = Handover::Client(Box::new(client), transport);
        if let Err(refused) = to.send(parcel)
            && let Handover::Client(client, transport) = refused.0
        {
            // the worker has ended, as all of its clients have: this one stays
            self.load.shared.departures.keep(id);
            self.add_client(*client, transport);
            return Ok(Departure::Settled);
        }
        self.load.shared.departures.settled(id);
        Ok(Departure::Settled)
    }

    /// Keeps a client that was to leave and cannot.
    fn keep(&mut self, token: usize) -> Departure {
        let now = self.load.shared.clock.now();
        self.step(token, |client, shared| {
            shared.departures.keep(client.id());
            client.stayed(now, shared)
        });
        Departure::Settled
    }

    /// Takes in the clients that have arrived.
    pub(super) fn receive_clients(&mut self) {
        let mut earlier = std::mem::take(&mut self.earlier_arrivals);
        earlier.retain(|from| self.receive_clients_from(from));
        self.earlier_arrivals = earlier;
        let mut arrivals = std::mem::take(&mut self.arrivals);
        arrivals.retain(|from| self.receive_clients_from(from));
        self.arrivals = arrivals;
    }

    /// Returns whether more clients may arrive.
    fn receive_clients_from(&mut self, from: &Receiver<Handover>) -> bool {
        loop {
            match from.try_recv() {
                Ok(Handover::Share(share)) => self.load.shared.schedule.take(share),
                Ok(Handover::Client(client, transport)) => self.add_client(*client, transport),
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn add_client(&mut self, client: Client, transport: Option<Transport>) {
        self.load.shared.departures.joined(client.id());
        let token = self.load.add(client);
        let attached = transport.map_or(Ok(()), |transport| self.attach(token, transport));
        let now = self.load.shared.clock.now();
        self.step(token, |client, shared| match attached {
            Ok(()) => client.arrived(now, shared),
            // this ends the client's connection, and not the load
            Err(error) => {
                client.closed(Some(&error), shared);
                Next::Wait
            }
        });
    }
}

impl Load<'_> {
    /// Adds a client; returns its token.
    fn add(&mut self, client: Client) -> usize {
        let token = self.vacant.pop().unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        self.tokens[client.id() - self.first_client] = token as u32;
        self.running += usize::from(!client.stopped());
        self.clients[token] = Some(client);
        token
    }

    /// Whether a client that was ready to leave still is: it may have stopped, or its intended start
    /// has come.
    fn may_leave(&self, token: usize) -> bool {
        let client = self.clients.get(token).and_then(Option::as_ref);
        client.is_some_and(Client::may_leave)
    }

    /// Removes a client.
    fn remove(&mut self, token: usize) -> Option<Client> {
        let client = self.clients.get_mut(token)?.take()?;
        self.tokens[client.id() - self.first_client] = NOWHERE;
        self.running -= usize::from(!client.stopped());
        self.vacant.push(token);
        Some(client)
    }
}
