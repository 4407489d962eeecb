//! How many workers carry a load: one more when the busiest has too little of its core left.

use std::time::Duration;

use crate::clock::{Nanos, SECOND};
use crate::health::Health;

/// Share of a core above which a worker is no longer sure to keep up.
pub const BUSY_SHARE: f64 = 0.7;

/// Most workers that a load begins with when nobody says.
const FEW_WORKERS: usize = 8;

/// Most clients of each of these: more make batches, which are worth more than a worker.
const FEW_CLIENTS: usize = 2;

/// From one addition to the next: two whole intervals in which its effect is seen.
const SETTLING: Nanos = 2 * SECOND;

/// Whether workers are added while the load runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scaling {
    /// The number is what was asked for.
    Fixed,
    /// As few as carry the load.
    Automatic(Rule),
}

/// When a worker is added, and when no more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Most workers.
    pub most: usize,
    /// Share of a core above which a worker gives clients away.
    pub busy_share: f64,
    /// Least time from one addition to the next.
    pub settling: Duration,
}

impl Rule {
    /// Up to `most` workers, each of which is added when another passes [`BUSY_SHARE`].
    #[must_use]
    pub fn up_to(most: usize) -> Self {
        Self {
            most,
            busy_share: BUSY_SHARE,
            settling: Duration::from_nanos(SETTLING),
        }
    }
}

impl Scaling {
    /// The most workers that a load which begins with `workers` may come to.
    #[must_use]
    pub fn most(self, workers: usize) -> usize {
        match self {
            Self::Fixed => workers,
            Self::Automatic(rule) => rule.most.max(workers),
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

/// The most workers for `clients` when nobody says, with `cores` that this process may use: no more
/// than half of them beside a server that wants them as well.
#[must_use]
pub fn most_workers(clients: usize, cores: usize, server: Nearness) -> usize {
    let ours = match server {
        Nearness::SameHost => cores / 2,
        Nearness::Elsewhere => cores,
    };
    ours.min(clients).max(1)
}

/// The workers that a load of `clients` begins with when nobody says, with `cores` that this process
/// may use: several for a few clients, else one.
///
/// A worker with one or two clients sleeps while their servers work, so it needs no core of its own,
/// and the scheduler wakes a server where its client runs. One worker for servers on other cores
/// wakes each of them over there: with 2 clients on 2 cores that is a third of the throughput.
#[must_use]
pub fn first_workers(clients: usize, cores: usize) -> usize {
    let workers = clients.min(cores).clamp(1, FEW_WORKERS);
    if clients <= FEW_CLIENTS * workers {
        workers
    } else {
        1
    }
}

/// A worker that is to be added.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Addition {
    /// The worker that gives clients away.
    pub giver: usize,
    /// How many.
    pub clients: usize,
    /// Share of a core that it used.
    pub share: f64,
}

/// Whether a worker is to be added after an interval that ended at `to`, in which `workers` fared so
/// by number. `last` is when the last one was added.
///
/// The busiest of those that are too busy gives half of its clients; one with a single client has
/// nothing to give.
#[must_use]
pub fn decide(rule: Rule, last: Option<Nanos>, to: Nanos, workers: &[Health]) -> Option<Addition> {
    let settling = rule.settling.as_nanos() as Nanos;
    if workers.len() >= rule.most || last.is_some_and(|last| to < last + settling) {
        return None;
    }
    let (giver, busiest) = workers
        .iter()
        .enumerate()
        .filter(|(_, worker)| worker.clients > 1 && worker.share() > rule.busy_share)
        .max_by(|(_, a), (_, b)| a.share().total_cmp(&b.share()))?;
    Some(Addition {
        giver,
        clients: busiest.clients / 2,
        share: busiest.share(),
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

    fn decided(most: usize, last: Option<Nanos>, workers: &[Health]) -> Option<(usize, usize)> {
        let addition = decide(Rule::up_to(most), last, 10 * SECOND, workers)?;
        Some((addition.giver, addition.clients))
    }

    #[test]
    fn the_busiest_gives_half_of_its_clients() {
        assert_eq!(decided(4, None, &[worker(71, 9)]), Some((0, 4)));
        let three = [worker(75, 8), worker(90, 6), worker(10, 2)];
        assert_eq!(decided(4, None, &three), Some((1, 3)));
        let addition = decide(Rule::up_to(2), None, 0, &[worker(90, 2)]);
        assert_eq!(addition.map(|addition| addition.share), Some(0.9));
    }

    #[test]
    fn a_worker_with_room_keeps_its_clients() {
        assert_eq!(decided(4, None, &[worker(70, 64)]), None);
        assert_eq!(decided(4, None, &[worker(0, 64), worker(69, 64)]), None);
        // one that was not there in this interval
        assert_eq!(decided(4, None, &[worker(50, 4), Health::default()]), None);
    }

    #[test]
    fn one_client_cannot_be_shared() {
        assert_eq!(decided(4, None, &[worker(99, 1)]), None);
        // the next busiest helps where the busiest cannot
        assert_eq!(
            decided(4, None, &[worker(99, 1), worker(80, 3)]),
            Some((1, 1))
        );
    }

    #[test]
    fn a_few_clients_begin_with_several_workers() {
        for (clients, cores, workers) in [
            (1, 2, 1),
            (2, 2, 2),
            (4, 2, 2),
            (5, 2, 1),
            (2, 1, 1),
            (3, 64, 3),
            (16, 64, 8),
            (17, 64, 1),
        ] {
            assert_eq!(first_workers(clients, cores), workers, "{clients}, {cores}");
        }
    }

    #[test]
    fn no_more_than_the_most() {
        assert_eq!(decided(1, None, &[worker(99, 64)]), None);
        assert_eq!(decided(2, None, &[worker(99, 64), worker(99, 64)]), None);
    }

    #[test]
    fn figures_settle_before_the_next() {
        let busy = [worker(99, 64), worker(99, 64)];
        assert_eq!(decided(4, Some(8 * SECOND + 1), &busy), None);
        assert!(decided(4, Some(8 * SECOND), &busy).is_some());
        // an interval that is heard of late
        assert_eq!(decided(4, Some(11 * SECOND), &busy), None);
    }

    #[test]
    fn half_of_the_cores_are_left_to_a_server_on_this_host() {
        use Nearness::{Elsewhere, SameHost};
        for (clients, cores, server, most) in [
            (64, 16, Elsewhere, 16),
            (64, 16, SameHost, 8),
            (64, 3, SameHost, 1),
            (64, 1, SameHost, 1),
            (5, 16, Elsewhere, 5),
            (5, 16, SameHost, 5),
        ] {
            assert_eq!(most_workers(clients, cores, server), most);
        }
    }

    #[test]
    fn a_fixed_number_is_the_most() {
        assert_eq!(Scaling::Fixed.most(3), 3);
        assert_eq!(Scaling::Automatic(Rule::up_to(4)).most(1), 4);
        assert_eq!(Scaling::Automatic(Rule::up_to(1)).most(2), 2);
    }
}
