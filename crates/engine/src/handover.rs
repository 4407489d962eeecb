//! A client's move from one worker to another: between two transactions, with its socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use pgdyno_connect::Transport;

use crate::client::Client;
use crate::schedule::Share;

/// What one worker hands to another.
#[derive(Debug)]
pub enum Parcel {
    /// A part of the rate, from an instant on; comes first, and only in an open loop.
    Share(Share),
    /// A client that is between two transactions, and its connection unless every transaction makes its
    /// own.
    Client(Box<Client>, Option<Transport>),
}

/// The clients are to be shared out anew: client number `i` of the engine goes to worker
/// [`worker_of`]`(i, workers)`.
#[derive(Debug)]
pub struct Order {
    /// How many workers have clients from now on.
    pub workers: usize,
    /// By worker: where to send the clients that it is to have. Dropped when all have left.
    pub to: Vec<Option<Sender<Parcel>>>,
    /// Where clients of other workers come from; None when none is to come.
    pub from: Option<Receiver<Parcel>>,
}

/// The worker that has the engine's client number `client` (from 0) when `workers` share the clients.
///
/// Twice as many workers halve each worker's clients, and half as many bring them together again: a
/// client of worker w moves to w + `workers`, or stays.
#[must_use]
pub fn worker_of(client: usize, workers: usize) -> usize {
    client % workers
}

/// Where orders come to a worker that runs: it looks at a flag once a turn.
#[derive(Debug)]
pub struct Orders {
    is_new: Arc<AtomicBool>,
    queue: Receiver<Order>,
}

/// The other end of [`Orders`].
#[derive(Debug)]
pub struct OrderSender {
    is_new: Arc<AtomicBool>,
    queue: Sender<Order>,
}

/// Both ends of a worker's orders.
#[must_use]
pub fn orders() -> (OrderSender, Orders) {
    let (sender, queue) = channel();
    let is_new = Arc::new(AtomicBool::new(false));
    let other = OrderSender {
        is_new: Arc::clone(&is_new),
        queue: sender,
    };
    (other, Orders { is_new, queue })
}

impl OrderSender {
    /// Gives an order; a worker that is gone drops it, and with it the senders of parcels.
    pub fn give(&self, order: Order) {
        if self.queue.send(order).is_ok() {
            self.is_new.store(true, Ordering::Release);
        }
    }
}

impl Orders {
    /// An order that came.
    pub fn take(&self) -> Option<Order> {
        if !self.is_new.load(Ordering::Acquire) {
            return None;
        }
        // in this order: what is sent after the look into the queue raises the flag after it, too
        self.is_new.store(false, Ordering::Release);
        let order = self.queue.try_recv().ok();
        if order.is_some() {
            // there may be another
            self.is_new.store(true, Ordering::Relaxed);
        }
        order
    }

    /// Waits at most `timeout` for an order, for a worker without clients.
    ///
    /// # Errors
    /// No order will come any more.
    pub fn wait(&self, timeout: Duration) -> Result<Option<Order>, Dismissed> {
        match self.queue.recv_timeout(timeout) {
            Ok(order) => Ok(Some(order)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Dismissed),
        }
    }
}

/// The engine needs a worker no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dismissed;

/// The clients that are to leave a worker. Each client looks here before a transaction.
#[derive(Debug, Default)]
pub struct Departures {
    /// Number of the engine's first client.
    first_client: usize,
    /// Workers that share the clients.
    workers: usize,
    /// The one whose clients these are.
    own: usize,
    /// How many more are to leave.
    misplaced: usize,
    /// Those that are ready to.
    ready: Vec<usize>,
    /// Those that could not leave, and stay until the next order.
    kept: Vec<usize>,
}

impl Departures {
    /// Of an engine whose first client has this number.
    #[must_use]
    pub fn of(first_client: usize) -> Self {
        Self {
            first_client,
            ..Self::default()
        }
    }

    /// From now on `workers` share the clients: those of `clients` leave worker `own` that belong to
    /// others.
    pub fn begin(&mut self, own: usize, workers: usize, clients: impl Iterator<Item = usize>) {
        (self.own, self.workers) = (own, workers);
        self.kept.clear();
        self.misplaced = clients.filter(|client| self.is_misplaced(*client)).count();
    }

    /// The worker to which client number `client` is to go, if it is to leave.
    #[must_use]
    pub fn target(&self, client: usize) -> Option<usize> {
        self.wants(client).then(|| self.worker_of(client))
    }

    /// How many are still to leave.
    #[must_use]
    pub fn misplaced(&self) -> usize {
        self.misplaced
    }

    /// Whether any client is still to leave.
    #[inline]
    #[must_use]
    pub fn wanted(&self) -> bool {
        self.misplaced > 0
    }

    /// Whether client number `client`, which is between two transactions, is to leave.
    #[inline]
    #[must_use]
    pub fn wants(&self, client: usize) -> bool {
        self.wanted() && self.is_misplaced(client)
    }

    fn is_misplaced(&self, client: usize) -> bool {
        self.worker_of(client) != self.own && !self.kept.contains(&client)
    }

    fn worker_of(&self, client: usize) -> usize {
        worker_of(client - self.first_client, self.workers)
    }

    /// Client number `client` is ready to leave.
    pub fn add(&mut self, client: usize) {
        self.ready.push(client);
    }

    /// The next client that is ready, and the worker to which it goes.
    pub fn next(&mut self) -> Option<(usize, usize)> {
        let client = self.ready.pop()?;
        Some((client, self.worker_of(client)))
    }

    /// Client number `client` has come: by an earlier order, if it belongs elsewhere by now.
    pub fn joined(&mut self, client: usize) {
        if self.workers > 0 && self.is_misplaced(client) {
            self.misplaced += 1;
        }
    }

    /// Client number `client` has left, or has stopped and never will.
    pub fn settled(&mut self, client: usize) {
        if self.wants(client) {
            self.misplaced -= 1;
        }
    }

    /// Client number `client` cannot leave: it stays.
    pub fn keep(&mut self, client: usize) {
        self.settled(client);
        self.kept.push(client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(workers: usize) -> Order {
        Order {
            workers,
            to: vec![],
            from: None,
        }
    }

    #[test]
    fn an_order_is_taken_once() {
        let (sender, orders) = orders();
        assert!(orders.take().is_none());
        sender.give(order(3));
        assert_eq!(orders.take().map(|order| order.workers), Some(3));
        assert!(orders.take().is_none());
    }

    #[test]
    fn a_worker_without_clients_waits_for_orders_until_it_is_dismissed() {
        let (sender, orders) = orders();
        sender.give(order(2));
        let taken = orders
            .wait(Duration::ZERO)
            .map(|order| order.map(|o| o.workers));
        assert_eq!(taken, Ok(Some(2)));
        assert!(matches!(orders.wait(Duration::ZERO), Ok(None)));
        drop(sender);
        assert_eq!(orders.wait(Duration::ZERO).map(|_| ()), Err(Dismissed));
    }

    #[test]
    fn parcels_end_when_the_donor_is_gone() {
        let (sender, orders) = orders();
        drop(orders);
        let (to, parcels) = channel();
        let to = vec![Some(to)];
        sender.give(Order { to, ..order(1) });
        assert!(parcels.recv().is_err());
    }

    #[test]
    fn doubling_splits_each_workers_clients_and_halving_brings_them_back() {
        for client in 0..100 {
            for workers in [1, 2, 4, 8] {
                let before = worker_of(client, workers);
                let after = worker_of(client, 2 * workers);
                assert!(after == before || after == before + workers);
            }
        }
    }

    #[test]
    fn those_leave_that_belong_elsewhere() {
        let mut departures = Departures::default();
        assert!(!departures.wanted());
        departures.begin(1, 4, [1, 3, 5, 7].into_iter());
        assert_eq!(
            [1, 3, 5, 7].map(|client| departures.wants(client)),
            [false, true, false, true]
        );
        departures.add(7);
        assert_eq!(departures.next(), Some((7, 3)));
        departures.settled(7);
        assert!(departures.wants(3));
        departures.keep(3);
        assert!(!departures.wanted() && !departures.wants(3));
        assert_eq!(departures.next(), None);
    }

    #[test]
    fn a_client_that_comes_by_an_earlier_order_goes_on() {
        let mut departures = Departures::default();
        departures.joined(1);
        departures.begin(1, 1, std::iter::empty());
        assert!(!departures.wanted());
        departures.joined(1);
        assert_eq!(departures.target(1), Some(0));
    }

    #[test]
    fn a_client_that_stops_is_waited_for_no_longer() {
        let mut departures = Departures::default();
        departures.begin(0, 2, [0, 1, 2].into_iter());
        departures.settled(2);
        assert!(departures.wanted(), "client 2 was to stay");
        departures.settled(1);
        assert!(!departures.wanted());
    }
}
