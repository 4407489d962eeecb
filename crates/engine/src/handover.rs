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
pub enum Handover {
    /// A share of the rate, from an instant on; it comes first, and only in an open loop.
    Share(Share),
    /// A client between two transactions, with its connection unless every transaction has one of
    /// its own.
    Client(Box<Client>, Option<Transport>),
}

/// Redistributes the clients: client number `i` of the engine goes to worker
/// [`worker_of`](crate::load_share::worker_of)`(i, workers)`.
#[derive(Debug)]
pub struct Order {
    /// How many workers share the clients from now on.
    pub workers: usize,
    /// Indexed by worker: where to send the clients that belong to it. Dropped when all have left.
    pub to: Vec<Option<Sender<Handover>>>,
    /// Where clients arrive from other workers; None when none will.
    pub from: Option<Receiver<Handover>>,
}

/// The receiving end of a worker's orders: it checks a flag once a turn.
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

/// Creates both ends of a worker's orders.
#[must_use]
pub fn orders() -> (OrderSender, Orders) {
    let (sender, queue) = channel();
    let is_new = Arc::new(AtomicBool::new(false));
    let other = OrderSender { is_new: Arc::clone(&is_new), queue: sender };
    (other, Orders { is_new, queue })
}

impl OrderSender {
    /// Sends an order; a worker that has ended drops it, and with it the senders of handovers.
    pub fn give(&self, order: Order) {
        if self.queue.send(order).is_ok() {
            self.is_new.store(true, Ordering::Release);
        }
    }
}

impl Orders {
    /// Takes an order, if one has arrived.
    pub fn take(&self) -> Option<Order> {
        if !self.is_new.load(Ordering::Acquire) {
            return None;
        }
        // the order matters: an order that is sent after the queue was read sets the flag after it,
        // too
        self.is_new.store(false, Ordering::Release);
        let order = self.queue.try_recv().ok();
        if order.is_some() {
            // there may be another order
            self.is_new.store(true, Ordering::Relaxed);
        }
        order
    }

    /// Waits at most `timeout` for an order; for a worker without clients.
    ///
    /// # Errors
    /// No more orders will come.
    pub fn wait(&self, timeout: Duration) -> Result<Option<Order>, Dismissed> {
        match self.queue.recv_timeout(timeout) {
            Ok(order) => Ok(Some(order)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Dismissed),
        }
    }
}

/// The engine no longer needs the worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dismissed;

#[cfg(test)]
mod tests {
    use super::*;

    fn order(workers: usize) -> Order {
        Order { workers, to: vec![], from: None }
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
        let taken = orders.wait(Duration::ZERO).map(|order| order.map(|o| o.workers));
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
}
