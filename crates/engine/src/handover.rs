//! A client's move from one worker to another: between two transactions, with its socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

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

/// A worker is to give clients away.
#[derive(Debug)]
pub struct Order {
    /// How many, unless it has fewer by then. It keeps one.
    pub clients: usize,
    /// To whom. Dropped when no more will come.
    pub to: Sender<Parcel>,
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
    /// Gives an order; a worker that is gone drops it, and with it the sender of parcels.
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
}

/// The clients that are to leave a worker. Each client looks here before a transaction.
#[derive(Debug, Default)]
pub struct Departures {
    /// How many more are to leave.
    wanted: usize,
    /// Those that are ready to.
    ready: Vec<usize>,
}

impl Departures {
    /// So many clients are to leave.
    pub fn want(&mut self, clients: usize) {
        self.wanted = clients;
    }

    /// Whether a client that is between two transactions is to leave.
    #[inline]
    #[must_use]
    pub fn wanted(&self) -> bool {
        self.wanted > 0
    }

    /// Client number `client` is ready to leave.
    pub fn add(&mut self, client: usize) {
        self.wanted = self.wanted.saturating_sub(1);
        self.ready.push(client);
    }

    /// The next client that is ready.
    pub fn next(&mut self) -> Option<usize> {
        self.ready.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_taken_once() {
        let (sender, orders) = orders();
        assert!(orders.take().is_none());
        let (to, _parcels) = channel();
        sender.give(Order { clients: 3, to });
        assert_eq!(orders.take().map(|order| order.clients), Some(3));
        assert!(orders.take().is_none());
    }

    #[test]
    fn parcels_end_when_the_giver_is_gone() {
        let (sender, orders) = orders();
        drop(orders);
        let (to, parcels) = channel();
        sender.give(Order { clients: 3, to });
        assert!(parcels.recv().is_err());
    }

    #[test]
    fn as_many_leave_as_are_wanted() {
        let mut departures = Departures::default();
        assert!(!departures.wanted());
        departures.want(2);
        for client in [5, 3] {
            assert!(departures.wanted());
            departures.add(client);
        }
        assert!(!departures.wanted());
        assert_eq!(
            (departures.next(), departures.next(), departures.next()),
            (Some(3), Some(5), None)
        );
    }
}
