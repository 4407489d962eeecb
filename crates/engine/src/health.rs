//! How busy the generator itself is: the CPU that a worker used and how late it was.
//!
//! The counters change once a turn of a worker or once an interval, never once a transaction.

use crate::clock::Nanos;
use crate::latencies::Moments;

/// The load of one worker in one interval, or in all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Health {
    /// The time that this record covers; 0 when the worker did not run.
    pub span: Nanos,
    /// CPU time of its thread.
    pub cpu: Nanos,
    /// Time that the thread was ready to run and had no core; None where the kernel does not report it.
    pub waited: Option<Nanos>,
    /// How often the poller returned.
    pub wakeups: u64,
    /// Pieces of bytes that arrived from the server; most of them are one whole answer.
    pub replies: u64,
    /// The most replies in one wake-up.
    pub most_replies: u64,
    /// Actual start minus intended start (open loop only).
    pub lag: Moments,
    /// The longest time between the end of an interval and its handover to the engine.
    pub late: Nanos,
    /// Running clients of the worker at the end.
    pub clients: usize,
}

impl Health {
    /// CPU time as a share of one core; 0 for an empty span.
    pub fn share(&self) -> f64 {
        if self.span == 0 { 0.0 } else { self.cpu as f64 / self.span as f64 }
    }

    /// Mean number of replies in a wake-up; 0 without wake-ups.
    pub fn mean_replies(&self) -> f64 {
        if self.wakeups == 0 { 0.0 } else { self.replies as f64 / self.wakeups as f64 }
    }

    pub fn woke(&mut self, replies: u64) {
        self.wakeups += 1;
        self.replies += replies;
        self.most_replies = self.most_replies.max(replies);
    }

    pub fn add(&mut self, later: &Self) {
        self.span += later.span;
        self.cpu += later.cpu;
        self.waited = match (self.waited, later.waited) {
            (Some(so_far), Some(later)) => Some(so_far + later),
            (so_far, later) => so_far.or(later),
        };
        self.wakeups += later.wakeups;
        self.replies += later.replies;
        self.most_replies = self.most_replies.max(later.most_replies);
        self.lag.add(&later.lag);
        self.late = self.late.max(later.late);
        if later.span > 0 {
            self.clients = later.clients;
        }
    }
}

/// The load of one worker over the measured part of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WorkerTotal {
    /// The sums; `clients` is that of the last interval.
    pub health: Health,
    pub highest_share: f64,
}

/// The load of all workers over the measured part of a run.
#[derive(Debug, Clone, Default)]
pub struct Healths {
    /// Indexed by the number of the worker.
    pub workers: Vec<WorkerTotal>,
}

impl Healths {
    /// Adds an interval; `workers` are those of [`crate::interval::Merged`].
    pub fn interval(&mut self, workers: &[Health]) {
        if self.workers.len() < workers.len() {
            self.workers.resize(workers.len(), WorkerTotal::default());
        }
        for (number, one) in workers.iter().enumerate() {
            let total = &mut self.workers[number];
            total.health.add(one);
            total.highest_share = total.highest_share.max(one.share());
        }
    }

    /// The highest share of a core that a worker used on average; None if none was measured for
    /// `least`, because less is too short to mean anything.
    pub fn busiest(&self, least: Nanos) -> Option<f64> {
        let long = self.workers.iter().map(|one| &one.health).filter(|one| one.span >= least);
        long.map(Health::share).max_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;

    fn second(cpu_share: f64) -> Health {
        Health { span: SECOND, cpu: (cpu_share * SECOND as f64) as Nanos, clients: 4, ..Health::default() }
    }

    #[test]
    fn wake_ups_and_sums() {
        let mut one = second(0.5);
        [3, 7, 2].into_iter().for_each(|replies| one.woke(replies));
        assert_eq!((one.share(), one.mean_replies(), one.most_replies), (0.5, 4.0, 7));
        let mut later = second(0.25);
        later.woke(1);
        later.late = 5;
        later.waited = Some(3);
        later.clients = 2;
        one.add(&later);
        assert_eq!((one.share(), one.wakeups, one.most_replies), (0.375, 4, 7));
        assert_eq!((one.late, one.clients, one.waited), (5, 2, Some(3)));
        one.add(&later);
        assert_eq!(one.waited, Some(6));
        // an interval without this worker leaves its number of clients unchanged
        one.add(&Health::default());
        assert_eq!(one.clients, 2);
        assert_eq!((Health::default().share(), Health::default().mean_replies()), (0.0, 0.0));
    }

    #[test]
    fn the_busiest_is_known_after_a_while() {
        let mut all = Healths::default();
        all.interval(&[second(0.5), second(0.4)]);
        assert_eq!(all.busiest(2 * SECOND), None);
        all.interval(&[second(0.6), second(0.4)]);
        assert!(all.busiest(2 * SECOND).is_some_and(|share| (share - 0.55).abs() < 1e-9));
        assert!((all.workers[0].highest_share - 0.6).abs() < 1e-9);
        assert_eq!(all.workers[1].health.span, 2 * SECOND);
    }
}
