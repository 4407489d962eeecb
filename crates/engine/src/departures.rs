//! Which clients are to leave a worker, so that every worker has its share.

use std::collections::HashSet;

use crate::load_share::worker_of;

/// The clients that are to leave a worker. Each client checks this before a transaction.
#[derive(Debug, Default)]
pub struct Departures {
    /// Number of the engine's first client.
    first_client: usize,
    /// How many workers share the clients.
    workers: usize,
    /// Number of this worker.
    own: usize,
    /// How many more clients are to leave.
    misplaced: usize,
    /// Clients that are ready to leave.
    ready: Vec<usize>,
    /// Clients that could not leave, and stay until the next order.
    kept: HashSet<usize>,
}

impl Departures {
    /// For an engine whose first client has this number.
    #[must_use]
    pub fn of(first_client: usize) -> Self {
        Self { first_client, ..Self::default() }
    }

    /// Starts to share the clients among `workers` workers: those of `clients` that belong to
    /// others leave worker `own`.
    pub fn begin(&mut self, own: usize, workers: usize, clients: impl Iterator<Item = usize>) {
        (self.own, self.workers) = (own, workers);
        self.kept.clear();
        self.misplaced = clients.filter(|client| self.is_misplaced(*client)).count();
    }

    /// The worker to which client number `client` is to move, if it is to leave.
    #[must_use]
    pub fn target(&self, client: usize) -> Option<usize> {
        self.wants(client).then(|| self.worker_of(client))
    }

    /// How many clients are still to leave.
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

    /// Adds client number `client` to those that are ready to leave.
    pub fn add(&mut self, client: usize) {
        self.ready.push(client);
    }

    /// The next client that is ready, and the worker to which it moves.
    pub fn next(&mut self) -> Option<(usize, usize)> {
        let client = self.ready.pop()?;
        Some((client, self.worker_of(client)))
    }

    /// Records that client number `client` has arrived; if it was sent by an earlier order, it may
    /// have to move again.
    pub fn joined(&mut self, client: usize) {
        if self.workers > 0 && self.is_misplaced(client) {
            self.misplaced += 1;
        }
    }

    /// Records that client number `client` has left, or has stopped and never will.
    pub fn settled(&mut self, client: usize) {
        if self.wants(client) {
            self.misplaced -= 1;
        }
    }

    /// Records that client number `client` cannot leave, and stays.
    pub fn keep(&mut self, client: usize) {
        self.settled(client);
        self.kept.insert(client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_leave_that_belong_elsewhere() {
        let mut departures = Departures::default();
        assert!(!departures.wanted());
        departures.begin(1, 4, [1, 3, 5, 7].into_iter());
        assert_eq!([1, 3, 5, 7].map(|client| departures.wants(client)), [false, true, false, true]);
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
