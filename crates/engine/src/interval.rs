//! One second of records: what workers hand on, and how those of all workers become one.

use std::collections::BTreeMap;

use crate::clock::Nanos;
use crate::health::Health;
use crate::recorder::Moments;
use crate::recorder::ScriptRecord;
use crate::stall::{self, Stretch};

/// The part of a run in which an interval lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Load that results leave out.
    WarmUp,
    /// The measured part.
    Measure,
    /// Past the deadline, until the last transaction has ended; counts too.
    Drain,
}

/// What a server or a script refused, for the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorNote {
    /// When, since the engine's start.
    pub at: Nanos,
    /// Client's number.
    pub client: usize,
    /// Script's number.
    pub script: usize,
    /// Command's number in it.
    pub command: usize,
    /// Line of the command in the script.
    pub line: usize,
    /// What kind of command: `SQL`, `set`, `shell`…
    pub kind: String,
    /// Number of the statement's result in which it came.
    pub query: usize,
    /// None when it did not come from the server.
    pub sqlstate: Option<String>,
    /// `ERROR`, `FATAL`…; None likewise.
    pub severity: Option<String>,
    /// The error, in one line.
    pub message: String,
    /// What pgbench prints: of a client that gives up always, of a failed try with --verbose-errors.
    pub lines: Vec<String>,
    /// The DETAIL of the server.
    pub detail: Option<String>,
    /// The HINT of the server.
    pub hint: Option<String>,
    /// The phase of its transaction, in a run with phases.
    pub planned: Option<usize>,
    /// What became of the transaction.
    pub consequence: Consequence,
}

/// What an error did to its transaction or client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consequence {
    /// The transaction is given up; the client goes on.
    Failed,
    /// The transaction is tried again.
    Retried,
    /// The client stops for good.
    ClientAborted,
    /// The connection is gone, and the client with it.
    ConnectionLost,
    /// The connection is gone; the client seeks another.
    Reconnecting,
    /// None yet: a statement could not be prepared, and is executed all the same
    /// ([`Preparing::Ahead`](crate::spec::Preparing::Ahead)).
    Unprepared,
}

/// What one worker did in one interval.
#[derive(Debug)]
pub struct Interval {
    /// Worker's number.
    pub worker: usize,
    /// Its bounds, since the engine's start.
    pub from: Nanos,
    /// Exclusive end.
    pub to: Nanos,
    /// Where the grid ends it: after `to` in a worker's last interval, which those of workers that
    /// go on take in.
    pub due: Nanos,
    /// Phase of all of it: intervals are cut where phases change.
    pub phase: Phase,
    /// The phase of the plan, in a run with phases; None after the last one.
    pub planned: Option<usize>,
    /// Transactions that have begun and not ended.
    pub in_flight: usize,
    /// When no client of the worker was served.
    pub stalls: Vec<Stretch>,
    /// The load of the worker itself, without the lag in `scripts`.
    pub health: Health,
    /// See [`crate::recorder::Recorder::scripts`].
    pub scripts: Vec<ScriptRecord>,
}

/// One interval of the whole engine.
#[derive(Debug)]
pub struct Merged {
    /// Bounds, since the engine's start.
    pub from: Nanos,
    /// Exclusive end.
    pub to: Nanos,
    /// See [`Phase`].
    pub phase: Phase,
    /// See [`Interval::planned`].
    pub planned: Option<usize>,
    /// Connected clients.
    pub clients: usize,
    /// Transactions in flight at its end.
    pub in_flight: usize,
    /// When no transaction succeeded.
    pub stalls: Vec<Stretch>,
    /// How each worker fared, by number.
    pub workers: Vec<Health>,
    /// A record a script.
    pub scripts: Vec<ScriptRecord>,
}

impl Merged {
    /// Sums up the records of all phases into one a script; the rest, for reuse.
    pub fn fold_phases(&mut self, scripts: usize) -> Vec<ScriptRecord> {
        let rest = self.scripts.split_off(scripts.min(self.scripts.len()));
        for (at, one) in rest.iter().enumerate() {
            self.scripts[at % scripts].add(one);
        }
        rest
    }
}

/// Lays the workers' intervals side by side; gives one out when every worker has passed its end.
#[derive(Debug)]
pub struct Merger {
    /// Per worker: how far its intervals have come; None once it has ended.
    reached: Vec<Option<Nanos>>,
    /// Intervals that some worker has not passed, by their end on the grid.
    open: BTreeMap<Nanos, Merged>,
}

impl Merger {
    /// For `workers` that all start at `origin`.
    #[must_use]
    pub fn new(workers: usize, origin: Nanos) -> Self {
        Self {
            reached: vec![Some(origin); workers],
            open: BTreeMap::new(),
        }
    }

    /// A worker joins at `from`, and will have intervals that end later; its number.
    pub fn join(&mut self, from: Nanos) -> usize {
        self.reached.push(Some(from));
        self.reached.len() - 1
    }

    /// Takes a worker's interval; gives back its emptied records for reuse where it can.
    pub fn add(&mut self, interval: Interval) -> Option<Vec<ScriptRecord>> {
        let workers = self.reached.len();
        self.reached[interval.worker] = Some(interval.to);
        let mut health = interval.health;
        health.lag = lag(&interval.scripts);
        match self.open.entry(interval.due) {
            std::collections::btree_map::Entry::Vacant(slot) => {
                let mut by_worker = vec![Health::default(); workers];
                by_worker[interval.worker] = health;
                slot.insert(Merged {
                    from: interval.from,
                    to: interval.to,
                    phase: interval.phase,
                    planned: interval.planned,
                    clients: health.clients,
                    in_flight: interval.in_flight,
                    stalls: interval.stalls,
                    workers: by_worker,
                    scripts: interval.scripts,
                });
                None
            }
            std::collections::btree_map::Entry::Occupied(mut slot) => {
                let merged = slot.get_mut();
                merged.from = merged.from.min(interval.from);
                merged.to = merged.to.max(interval.to);
                merged.clients += health.clients;
                merged.in_flight += interval.in_flight;
                merged.stalls = stall::common(&merged.stalls, &interval.stalls);
                if merged.workers.len() < workers {
                    merged.workers.resize(workers, Health::default());
                }
                merged.workers[interval.worker] = health;
                let mut scripts = interval.scripts;
                for (all, one) in merged.scripts.iter_mut().zip(&mut scripts) {
                    all.add(one);
                    one.clear();
                }
                Some(scripts)
            }
        }
    }

    /// A worker has handed on its last interval.
    pub fn ended(&mut self, worker: usize) {
        if let Some(reached) = self.reached.get_mut(worker) {
            *reached = None;
        }
    }

    /// The next interval that no worker can add to.
    pub fn take_whole(&mut self) -> Option<Merged> {
        let passed = self
            .reached
            .iter()
            .flatten()
            .min()
            .copied()
            .unwrap_or(Nanos::MAX);
        let first = self.open.first_entry()?;
        (*first.key() <= passed).then(|| first.remove())
    }
}

/// Schedule lag of all scripts together.
fn lag(scripts: &[ScriptRecord]) -> Moments {
    let mut lag = Moments::default();
    scripts.iter().for_each(|script| lag.add(&script.lag));
    lag
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Ending;

    fn interval(worker: usize, from: Nanos, to: Nanos, latency: Nanos) -> Interval {
        let mut recorder = crate::recorder::Recorder::new(&[vec![]], 1);
        recorder.transaction(0, Ending::Succeeded, latency);
        recorder.scripts[0].lag.record(latency);
        Interval {
            worker,
            from,
            to,
            due: to.next_multiple_of(10),
            phase: Phase::Measure,
            planned: None,
            in_flight: 1,
            stalls: vec![(from, to)],
            health: Health {
                span: to - from,
                cpu: 10,
                clients: 2,
                ..Health::default()
            },
            scripts: recorder.take(None),
        }
    }

    #[test]
    fn an_interval_waits_for_the_slowest_worker() {
        let mut merger = Merger::new(2, 0);
        assert!(merger.add(interval(0, 0, 10, 5)).is_none());
        assert!(merger.add(interval(0, 10, 20, 5)).is_none());
        assert!(merger.take_whole().is_none());
        assert!(merger.add(interval(1, 0, 10, 9)).is_some());
        let first = merger.take_whole().expect("both have passed 10");
        assert_eq!(
            (first.from, first.to, first.clients, first.in_flight),
            (0, 10, 4, 2)
        );
        assert_eq!(first.scripts[0].counts.succeeded, 2);
        assert_eq!(first.scripts[0].latency.moments.max, 9);
        assert_eq!(first.workers[0].cpu, 10);
        assert_eq!((first.workers[0].lag.max, first.workers[1].lag.max), (5, 9));
        assert!(merger.take_whole().is_none());
        merger.ended(1);
        assert_eq!(merger.take_whole().map(|merged| merged.to), Some(20));
    }

    #[test]
    fn the_rest_of_a_worker_is_part_of_the_others_interval() {
        let mut merger = Merger::new(3, 0);
        merger.add(interval(0, 0, 4, 5));
        merger.ended(0);
        merger.add(interval(1, 0, 10, 5));
        merger.add(interval(2, 0, 10, 5));
        let bounds = |merged: Merged| (merged.from, merged.to, merged.scripts[0].counts.succeeded);
        assert_eq!(merger.take_whole().map(bounds), Some((0, 10, 3)));
        merger.add(interval(1, 10, 13, 5));
        merger.ended(1);
        merger.add(interval(2, 10, 17, 5));
        merger.ended(2);
        assert_eq!(merger.take_whole().map(bounds), Some((10, 17, 2)));
        assert!(merger.take_whole().is_none());
    }

    #[test]
    fn a_worker_that_joins_is_waited_for_from_then_on() {
        let mut merger = Merger::new(1, 0);
        merger.add(interval(0, 0, 10, 5));
        assert!(
            merger
                .take_whole()
                .is_some_and(|merged| merged.workers.len() == 1)
        );
        assert_eq!(merger.join(13), 1);
        merger.add(interval(0, 10, 20, 5));
        assert!(
            merger.take_whole().is_none(),
            "the new one is in it from 13 on"
        );
        merger.add(interval(1, 13, 20, 5));
        let second = merger.take_whole().expect("both have passed 20");
        assert_eq!((second.from, second.to, second.clients), (10, 20, 4));
        assert_eq!((second.workers[0].span, second.workers[1].span), (10, 7));
        // the old one may end first
        merger.add(interval(0, 20, 25, 5));
        merger.ended(0);
        assert!(merger.take_whole().is_none());
        merger.add(interval(1, 20, 30, 5));
        let bounds = |merged: Merged| (merged.from, merged.to);
        assert_eq!(merger.take_whole().map(bounds), Some((20, 30)));
        assert!(merger.take_whole().is_none());
    }

    #[test]
    fn an_interval_from_before_a_worker_joined_does_not_wait_for_it() {
        let mut merger = Merger::new(2, 0);
        merger.add(interval(0, 0, 10, 5));
        merger.join(13);
        merger.add(interval(1, 0, 10, 5));
        let first = merger.take_whole().expect("the new one was not there");
        assert_eq!(first.workers[2], Health::default());
    }
}
