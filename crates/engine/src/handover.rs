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
    /// A part of the rate, from an instant on; comes first, and only in an open loop.
    Share(Share),
    /// A client that is between two transactions, and its connection unless every transaction makes its
    /// own.
    Client(Box<Client>, Option<Transport>),
}

/// The clients are to be shared out anew: client number `i` of the engine goes to worker
/// [`worker_of`](crate::load_share::worker_of)`(i, workers)`.
#[derive(Debug)]
pub struct Order {
    /// How many workers have clients from now on.
    pub workers: usize,
    /// By worker: where to send the clients that it is to have. Dropped when all have left.
    pub to: Vec<Option<Sender<Handover>>>,
    /// Where clients of other workers come from; None when none is to come.
    pub from: Option<Receiver<Handover>>,
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
}
