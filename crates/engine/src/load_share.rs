//! How the clients of a load are divided among generators, and those of a generator among workers.

use std::ops::Range;

/// The share of one generator: its clients, and the same fraction of the rate.
///
/// Clients keep the numbers, and with them the random sequences, that they have in the whole load, and each draws its
/// own scripts: what a client does depends neither on the number of generators nor on that of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadShare {
    /// Number of this generator, from 0.
    pub number: usize,
    /// How many generators make the load.
    pub of: usize,
    /// How many clients all generators have; at least one for each generator.
    pub clients: usize,
}

impl LoadShare {
    pub fn range(self) -> Range<usize> {
        share_of(self.clients, self.of, self.number)
    }

    /// The fraction of the load's rate: above 0, at most 1.
    pub fn fraction(self) -> f64 {
        self.range().len() as f64 / self.clients as f64
    }

    /// How much later than the load's first start this generator has its first evenly spaced start,
    /// as a fraction of the gap between two of its starts: generators take turns.
    pub fn turn(self) -> f64 {
        self.range().start as f64 / self.clients as f64
    }
}

/// Which of `clients` worker number `worker` of `workers` has, divided as in pgbench.
pub fn share_of(clients: usize, workers: usize, worker: usize) -> Range<usize> {
    let mut first = 0;
    for before in 0..worker {
        first += (clients - first + workers - before - 1) / (workers - before);
    }
    first..first + (clients - first + workers - worker - 1) / (workers - worker)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_one_worker_and_nothing_is_lost_to_rounding() {
        for (clients, workers) in [(1, 1), (7, 3), (64, 5), (10, 10)] {
            let shares: Vec<_> = (0..workers).map(|w| share_of(clients, workers, w)).collect();
            assert_eq!(shares.iter().cloned().flatten().collect::<Vec<_>>(), (0..clients).collect::<Vec<_>>());
            let sizes: Vec<_> = shares.iter().map(ExactSizeIterator::len).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
        }
        for (clients, of) in [(7, 3), (3, 3), (100, 7), (10_000, 64), (5, 1)] {
            let parts = (0..of).map(|number| LoadShare { number, of, clients });
            let all: Vec<usize> = parts.clone().flat_map(LoadShare::range).collect();
            assert_eq!(all, (0..clients).collect::<Vec<_>>());
            let rate: f64 = parts.map(LoadShare::fraction).sum();
            assert!((rate - 1.0).abs() < 1e-12, "{rate}");
        }
    }
}
