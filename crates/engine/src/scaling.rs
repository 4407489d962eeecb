//! How many workers carry a load: twice as many when the busiest has too little of its core left.
//!
//! What gives the most throughput is measured in the warm-up ([`crate::tuning`]); these rules decide what
//! there is to choose from, how many a load begins with, and when an untried number has become too few.

use std::time::Duration;

use crate::clock::{Nanos, SECOND};
use crate::health::Health;

/// Share of a core above which a worker is no longer sure to keep up.
pub const BUSY_SHARE: f64 = 0.7;

/// Clients a core up to which a worker for each client may be best.
const FEW_CLIENTS: usize = 4;

/// Most clients that have a worker each without being asked.
const MOST_ALONE: usize = 8;

/// From one addition to the next: two whole intervals in which its effect is seen.
const SETTLING: Nanos = 2 * SECOND;

/// Whether workers are added while the load runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scaling {
    /// The number is what was asked for.
    Fixed,
    /// What gives the most throughput, or as few as carry the load.
    Automatic(Rule),
}

/// When workers are added, and when no more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Fewest workers that are tried.
    pub fewest: usize,
    /// Most workers: a power of two, or one for each client.
    pub most: usize,
    /// Most workers to which a load grows because they are busy: some cores are the server's.
    pub most_busy: usize,
    /// Share of a core above which a worker gives clients away.
    pub busy_share: f64,
    /// Least time from one addition to the next.
    pub settling: Duration,
}

impl Rule {
    /// Up to `most` workers, which are doubled when one of them passes [`BUSY_SHARE`].
    #[must_use]
    pub fn up_to(most: usize) -> Self {
        Self {
            fewest: 1,
            most,
            most_busy: most,
            busy_share: BUSY_SHARE,
            settling: Duration::from_nanos(SETTLING),
        }
    }

    /// For `clients` when nobody gives a limit, with `cores` that this process may use.
    #[must_use]
    pub fn of(clients: usize, cores: usize, server: Nearness) -> Self {
        let tried = if clients <= FEW_CLIENTS * cores {
            clients
        } else {
            cores
        };
        let ours = match server {
            // a server on this host wants cores, too
            Nearness::SameHost => cores / 2,
            Nearness::Elsewhere => cores,
        };
        Self {
            fewest: first_workers(clients, cores),
            most: whole(tried, clients),
            most_busy: whole(ours, clients),
            ..Self::up_to(1)
        }
    }

    /// The numbers of workers that there may be for `clients`, fewest first.
    #[must_use]
    pub fn numbers(&self, clients: usize) -> Vec<usize> {
        let most = whole(self.most, clients);
        let fewest = whole(self.fewest, clients);
        let fewer = std::iter::successors(Some(fewest), |number| Some(2 * number));
        fewer
            .take_while(|number| *number < most)
            .chain([most])
            .collect()
    }
}

impl Scaling {
    /// The most workers that a load which begins with `workers` may come to.
    #[must_use]
    pub fn most(self, workers: usize) -> usize {
        match self {
            Self::Fixed => workers,
            Self::Automatic(rule) => rule.most.max(rule.most_busy).max(workers),
        }
    }
}

/// Where the server is, as far as it matters to the generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nearness {
    /// On this host: it needs cores, too.
    SameHost,
    /// Anywhere else.
    Elsewhere,
}

/// The largest number of workers up to `number` that shares `clients` evenly whatever it was before: a
/// power of two, or one for each client.
#[must_use]
pub fn whole(number: usize, clients: usize) -> usize {
    if number >= clients {
        return clients;
    }
    1 << number.max(1).ilog2()
}

/// Whether so many clients are best served by a worker each, with `cores` that this process may use.
///
/// Such a worker sleeps while its server works, so it needs no core of its own, and the scheduler
/// wakes a server where its client runs. On 2 cores with 2 to 8 clients no other number of workers
/// gave more, and one for all gave 10 to 35 % less (docs/design/performance.md).
#[must_use]
pub fn are_few(clients: usize, cores: usize) -> bool {
    clients <= (FEW_CLIENTS * cores).min(MOST_ALONE)
}

/// The workers that a load of `clients` begins with unless it is told: one for each of a few, else one.
#[must_use]
pub fn first_workers(clients: usize, cores: usize) -> usize {
    if are_few(clients, cores) { clients } else { 1 }
}

/// Workers that are to be added.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// How many workers there are to be.
    pub workers: usize,
    /// Share of a core that the busiest used.
    pub share: f64,
}

/// Whether workers are to be added after an interval that ended at `to`, in which they fared so by
/// number; those without clients do not count. `last` is when the last ones were added.
#[must_use]
pub fn decide(
    rule: Rule,
    clients: usize,
    last: Option<Nanos>,
    to: Nanos,
    workers: &[Health],
) -> Option<Growth> {
    let settling = rule.settling.as_nanos() as Nanos;
    let count = workers.iter().filter(|worker| worker.clients > 0).count();
    let next = whole(2 * count, clients);
    if count == 0 || next > rule.most_busy || last.is_some_and(|last| to < last + settling) {
        return None;
    }
    // one with a single client has nothing to give
    let busiest = workers.iter().filter(|worker| worker.clients > 1);
    let share = busiest.map(Health::share).max_by(f64::total_cmp)?;
    (share > rule.busy_share).then_some(Growth {
        workers: next,
        share,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(percent: u64, clients: usize) -> Health {
        Health {
            span: SECOND,
            cpu: SECOND / 100 * percent,
            clients,
            ..Health::default()
        }
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
        // one for each client is as far as it goes
        assert_eq!(decided(4, None, &[worker(99, 2), worker(9, 1)]), Some(3));
    }

    #[test]
    fn a_worker_with_room_keeps_its_clients() {
        assert_eq!(decided(4, None, &[worker(70, 64)]), None);
        assert_eq!(decided(4, None, &[worker(0, 64), worker(69, 64)]), None);
        // without clients it is none of them
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
        for (clients, cores, workers) in [
            (1, 2, 1),
            (2, 2, 2),
            (8, 2, 8),
            (9, 2, 1),
            (2, 1, 2),
            (5, 1, 1),
            (3, 64, 3),
            (8, 64, 8),
            (16, 64, 1),
        ] {
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
        // an interval that is received late
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
        let numbers =
            |clients, cores| Rule::of(clients, cores, Nearness::SameHost).numbers(clients);
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
