//! How the clients of a load are shared out among generators, and those of a generator among workers.

use std::ops::Range;

/// The part of one generator: its clients, and as much of the rate as they are of all clients.
///
/// Clients keep the numbers, and with them the random sequences, that they have in the whole load,
/// and each draws its own scripts: what a client does depends neither on the number of generators
/// nor on that of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadShare {
    /// Of this generator, from 0.
    pub number: usize,
    /// Generators of the load.
    pub of: usize,
    /// Clients of all of them; at least as many as generators.
    pub clients: usize,
}

impl LoadShare {
    /// Numbers of this generator's clients.
    #[must_use]
    pub fn range(self) -> Range<usize> {
        share_of(self.clients, self.of, self.number)
    }

    /// Its share of the rate, above 0 and up to 1.
    #[must_use]
    pub fn fraction(self) -> f64 {
        self.range().len() as f64 / self.clients as f64
    }

    /// How much of a gap its first evenly spaced start is behind the load's: generators take turns.
    #[must_use]
    pub fn turn(self) -> f64 {
        self.range().start as f64 / self.clients as f64
    }
}

/// How many of `clients` worker `worker` of `workers` has, as pgbench shares them out.
#[must_use]
pub fn share_of(clients: usize, workers: usize, worker: usize) -> Range<usize> {
    let mut first = 0;
    for before in 0..worker {
        first += (clients - first + workers - before - 1) / (workers - before);
    }
    first..first + (clients - first + workers - worker - 1) / (workers - worker)
}

/// The worker that has the engine's client number `client` (from 0) when `workers` share the clients.
///
/// Twice as many workers halve each worker's clients, and half as many bring them together again: a
/// client of worker w moves to w + `workers`, or stays.
#[must_use]
pub fn worker_of(client: usize, workers: usize) -> usize {
    client % workers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_has_one_worker() {
        for (clients, workers) in [(1, 1), (7, 3), (64, 5), (10, 10)] {
            let shares: Vec<_> = (0..workers)
                .map(|w| share_of(clients, workers, w))
                .collect();
            assert_eq!(
                shares.iter().cloned().flatten().collect::<Vec<_>>(),
                (0..clients).collect::<Vec<_>>()
            );
            let sizes: Vec<_> = shares.iter().map(ExactSizeIterator::len).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
        }
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
    fn nothing_is_lost_to_rounding() {
        for (clients, of) in [(7, 3), (3, 3), (100, 7), (10_000, 64), (5, 1)] {
            let parts = (0..of).map(|number| LoadShare {
                number,
                of,
                clients,
            });
            let all: Vec<usize> = parts.clone().flat_map(LoadShare::range).collect();
            assert_eq!(all, (0..clients).collect::<Vec<_>>());
            let rate: f64 = parts.map(LoadShare::fraction).sum();
            assert!((rate - 1.0).abs() < 1e-12, "{rate}");
        }
    }
}
