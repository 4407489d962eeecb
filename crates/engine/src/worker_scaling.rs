//! How many workers carry a load: twice as many when the busiest one is close to using a full core.
//!
//! The warm-up measures which number gives the most throughput ([`crate::worker_count_search`]); these rules
//! decide which numbers are tried, with how many workers a load begins, and when to add workers
//! later.

use std::time::Duration;

use crate::clock::{Nanos, SECOND};
use crate::health::Health;

/// Share of a core above which a worker may no longer keep up.
pub const BUSY_SHARE: f64 = 0.7;

/// Clients for each core up to which a worker for each client may be best.
const FEW_CLIENTS: usize = 4;

/// The most clients that have a worker each by default.
const MOST_ALONE: usize = 8;

/// Time from one addition to the next: two whole intervals, which show its effect.
const SETTLING: Nanos = 2 * SECOND;

/// Whether workers are added while the load runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scaling {
    /// The number of workers is fixed.
    Fixed,
    /// The number that gives the most throughput, or the smallest that carries the load.
    Automatic(Rule),
}

/// When workers are added, and up to which number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// The smallest number of workers that is tried.
    pub fewest: usize,
    /// The largest number of workers: a power of two, or one for each client.
    pub most: usize,
    /// The largest number of workers to which a load grows because they are busy: some cores are
    /// the server's.
    pub most_busy: usize,
    /// Share of a core above which a worker gives clients to another.
    pub busy_share: f64,
    /// Least time from one addition to the next.
    pub settling: Duration,
}

impl Rule {
    /// Up to `most` workers, doubled when one of them exceeds [`BUSY_SHARE`].
    #[must_use]
    pub fn up_to(most: usize) -> Self {
        Self { fewest: 1, most, most_busy: most, busy_share: BUSY_SHARE, settling: Duration::from_nanos(SETTLING) }
    }

    /// The default for `clients` clients, if this process may use `cores` cores.
    #[must_use]
    pub fn of(clients: usize, cores: usize, server: Nearness) -> Self {
        let tried = if clients <= FEW_CLIENTS * cores { clients } else { cores };
        let ours = match server {
            // a server on this host needs cores, too
            Nearness::SameHost => cores / 2,
            Nearness::Elsewhere => cores,
        };
        Self {
            fewest: first_workers(clients, cores),
            most: even_workers(tried, clients),
            most_busy: even_workers(ours, clients),
            ..Self::up_to(1)
        }
    }

    /// The possible numbers of workers for `clients` clients, in ascending order.
    #[must_use]
    pub fn numbers(&self, clients: usize) -> Vec<usize> {
        let most = even_workers(self.most, clients);
        let fewest = even_workers(self.fewest, clients);
        let fewer = std::iter::successors(Some(fewest), |number| Some(2 * number));
        fewer.take_while(|number| *number < most).chain([most]).collect()
    }
}

impl Scaling {
    /// The largest number of workers that a load may reach if it begins with `workers`.
    #[must_use]
    pub fn most(self, workers: usize) -> usize {
        match self {
            Self::Fixed => workers,
            Self::Automatic(rule) => rule.most.max(rule.most_busy).max(workers),
        }
    }
}

/// Where the server runs, as far as it matters to the generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nearness {
    /// On this host, where it needs cores, too.
    SameHost,
    /// On another host.
    Elsewhere,
}

/// The largest number of workers up to `number` that divides `clients` evenly after any change: a
/// power of two, or one for each client.
#[must_use]
pub fn even_workers(number: usize, clients: usize) -> usize {
    if number >= clients {
        return clients;
    }
    1 << number.max(1).ilog2()
}

/// Whether this many clients are best served by a worker each, if this process may use `cores`
/// cores.
///
/// Such a worker sleeps while its server works, so it needs no core of its own, and the scheduler
/// wakes a server where its client runs. On 2 cores with 2 to 8 clients no other number of workers
/// gave more, and one for all gave 10 to 35 % less (docs/design/performance.md).
#[must_use]
pub fn are_few(clients: usize, cores: usize) -> bool {
    clients <= (FEW_CLIENTS * cores).min(MOST_ALONE)
}

/// How many workers a load of `clients` clients begins with by default: one for each of a few
/// clients, otherwise one.
#[must_use]
pub fn first_workers(clients: usize, cores: usize) -> usize {
    if are_few(clients, cores) { clients } else { 1 }
}

/// A decision to add workers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// The new number of workers.
    pub workers: usize,
    /// The share of a core that the busiest worker used.
    pub share: f64,
}

/// Decides whether to add workers after an interval that ended at `to`, in which `workers` had
/// these loads; workers without clients are ignored. `last` is the time of the last addition.
#[must_use]
pub fn decide(rule: Rule, clients: usize, last: Option<Nanos>, to: Nanos, workers: &[Health]) -> Option<Growth> {
    let settling = rule.settling.as_nanos() as Nanos;
    let count = workers.iter().filter(|worker| worker.clients > 0).count();
    let next = even_workers(2 * count, clients);
    if count == 0 || next > rule.most_busy || last.is_some_and(|last| to < last + settling) {
        return None;
    }
    // a worker with a single client has nothing to give
    let busiest = workers.iter().filter(|worker| worker.clients > 1);
    let share = busiest.map(Health::share).max_by(f64::total_cmp)?;
    (share > rule.busy_share).then_some(Growth { workers: next, share })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(percent: u64, clients: usize) -> Health {
        Health { span: SECOND, cpu: SECOND / 100 * percent, clients, ..Health::default() }
    }

    fn decided(most: usize, last: Option<Nanos>, workers: &[Health]) -> Option<usize> {
        let clients = workers.iter().map(|worker| worker.clients).sum();
        let growth = decide(Rule::up_to(most), clients, last, 10 * SECOND, workers)?;
        Some(growth.workers)
    }

    #[test]
    fn workers_double_when_the_busiest_has_no_room() {
        assert_eq!(decided(4, None, &[worker(71, 9)]), Some(2));
        assert_eq!(decided(4, None, &[worker(75, 8), worker(10, 8)]), Some(4));
        let growth = decide(Rule::up_to(2), 2, None, 0, &[worker(90, 2)]);
        assert_eq!(growth.map(|growth| growth.share), Some(0.9));
        // one worker for each client is the upper limit
        assert_eq!(decided(4, None, &[worker(99, 2), worker(9, 1)]), Some(3));
    }

    #[test]
    fn a_worker_with_room_keeps_its_clients() {
        assert_eq!(decided(4, None, &[worker(70, 64)]), None);
        assert_eq!(decided(4, None, &[worker(0, 64), worker(69, 64)]), None);
        // a worker without clients is ignored
        assert_eq!(decided(4, None, &[worker(80, 4), worker(0, 0)]), Some(2));
        assert_eq!(decided(4, None, &[]), None);
    }

    #[test]
    fn one_client_cannot_be_shared() {
        assert_eq!(decided(4, None, &[worker(99, 1)]), None);
        assert_eq!(decided(4, None, &[worker(99, 1), worker(80, 3)]), Some(4));
        assert_eq!(decided(4, None, &[worker(99, 1), worker(60, 3)]), None);
    }

    #[test]
    fn a_few_clients_begin_with_a_worker_each() {
        for (clients, cores, workers) in
            [(1, 2, 1), (2, 2, 2), (8, 2, 8), (9, 2, 1), (2, 1, 2), (5, 1, 1), (3, 64, 3), (8, 64, 8), (16, 64, 1)]
        {
            assert_eq!(first_workers(clients, cores), workers, "{clients}, {cores}");
        }
    }

    #[test]
    fn no_more_than_the_most() {
        assert_eq!(decided(1, None, &[worker(99, 64)]), None);
        assert_eq!(decided(2, None, &[worker(99, 64), worker(99, 64)]), None);
        assert_eq!(decided(3, None, &[worker(99, 64), worker(99, 64)]), None);
    }

    #[test]
    fn figures_settle_before_the_next() {
        let busy = [worker(99, 64), worker(99, 64)];
        assert_eq!(decided(4, Some(8 * SECOND + 1), &busy), None);
        assert!(decided(4, Some(8 * SECOND), &busy).is_some());
        // an interval that arrives late
        assert_eq!(decided(4, Some(11 * SECOND), &busy), None);
    }

    #[test]
    fn half_of_the_cores_are_left_to_a_server_on_this_host() {
        use Nearness::{Elsewhere, SameHost};
        for (clients, cores, server, most, most_busy) in [
            (500, 16, Elsewhere, 16, 16),
            (500, 16, SameHost, 16, 8),
            (500, 6, Elsewhere, 4, 4),
            (64, 16, SameHost, 64, 8),
            (64, 3, SameHost, 2, 1),
            (64, 1, SameHost, 1, 1),
            (5, 16, Elsewhere, 5, 5),
            (5, 16, SameHost, 5, 5),
        ] {
            let rule = Rule::of(clients, cores, server);
            assert_eq!((rule.most, rule.most_busy), (most, most_busy), "{clients}");
        }
    }

    #[test]
    fn there_is_nothing_to_try_with_a_few_clients() {
        let numbers = |clients, cores| Rule::of(clients, cores, Nearness::SameHost).numbers(clients);
        assert_eq!(numbers(1, 2), [1]);
        assert_eq!(numbers(8, 2), [8]);
        assert_eq!(numbers(9, 2), [1, 2]);
        assert_eq!(numbers(16, 4), [1, 2, 4, 8, 16]);
    }

    #[test]
    fn numbers_halve_and_double_each_other() {
        let numbers = |most, clients| Rule::up_to(most).numbers(clients);
        assert_eq!(numbers(8, 100), [1, 2, 4, 8]);
        assert_eq!(numbers(6, 6), [1, 2, 4, 6]);
        assert_eq!(numbers(7, 100), [1, 2, 4]);
        assert_eq!(numbers(1, 100), [1]);
        assert_eq!(numbers(4, 1), [1]);
    }

    #[test]
    fn a_fixed_number_is_the_most() {
        assert_eq!(Scaling::Fixed.most(3), 3);
        assert_eq!(Scaling::Automatic(Rule::up_to(4)).most(1), 4);
        assert_eq!(Scaling::Automatic(Rule::up_to(1)).most(2), 2);
    }
}
