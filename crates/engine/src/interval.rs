//! One second of records: what workers report, and how the intervals of all workers are merged.

use std::collections::BTreeMap;

use crate::clock::Nanos;
use crate::health::Health;
use crate::latencies::Moments;
use crate::recorder::ScriptRecord;
use crate::stall::{self, Stretch};

/// The part of a run in which an interval lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The warm-up, which results leave out.
    WarmUp,
    Measure,
    /// After the deadline, until the last transaction has ended; it counts, too.
    Drain,
}

/// An error of a server or a script, for the record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorNote {
    /// When it happened, since the engine's start.
    pub at: Nanos,
    pub client: usize,
    pub script: usize,
    pub command: usize,
    /// Line of the command in the script.
    pub line: usize,
    /// The kind of command: `SQL`, `set`, `shell`…
    pub kind: String,
    /// Number of the statement's result that failed.
    pub query: usize,
    /// None when the error is not the server's.
    pub sqlstate: Option<String>,
    /// `ERROR`, `FATAL`…; None when the error is not the server's.
    pub severity: Option<String>,
    /// The error, in one line.
    pub message: String,
    /// The lines that pgbench prints: always for a client that gives up, and with --verbose-errors for a failed try.
    pub lines: Vec<String>,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// The phase of the transaction, in a run with phases.
    pub planned: Option<usize>,
    pub consequence: Consequence,
}

/// What an error did to its transaction or client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Consequence {
    /// The transaction failed; the client continues.
    #[default]
    Failed,
    Retried,
    /// The client stops for good.
    ClientAborted,
    /// The connection is lost, and the client stops.
    ConnectionLost,
    /// The connection is lost; the client reconnects.
    Reconnecting,
    /// No effect yet: a statement could not be prepared, and is executed nevertheless
    /// ([`Preparing::Ahead`](crate::spec::Preparing::Ahead)).
    Unprepared,
}

impl Consequence {
    pub fn ends_client(self) -> bool {
        matches!(self, Self::ClientAborted | Self::ConnectionLost)
    }
}

#[derive(Debug)]
pub struct Interval {
    pub worker: usize,
    /// Start of the interval, since the engine's start.
    pub from: Nanos,
    /// End of the interval, exclusive.
    pub to: Nanos,
    /// Its end on the grid of intervals; after `to` in a worker's last interval, which is merged into the others'.
    pub due: Nanos,
    /// The phase of the whole interval: intervals are cut where phases change.
    pub phase: Phase,
    /// The phase of the plan, in a run with phases; None after the last one.
    pub planned: Option<usize>,
    /// Transactions that have begun and not ended.
    pub in_flight: usize,
    /// Periods in which no transaction of the worker's clients succeeded.
    pub stalls: Vec<Stretch>,
    /// The load of the worker itself, without the lag in `scripts`.
    pub health: Health,
    /// See [`crate::recorder::Recorder::scripts`].
    pub scripts: Vec<ScriptRecord>,
}

/// The merged records of all workers for one interval.
#[derive(Debug)]
pub struct Merged {
    /// Start of the interval, since the engine's start.
    pub from: Nanos,
    /// End of the interval, exclusive.
    pub to: Nanos,
    /// The phase of the whole interval; see [`Phase`].
    pub phase: Phase,
    /// The phase of the plan; see [`Interval::planned`].
    pub planned: Option<usize>,
    pub clients: usize,
    /// Transactions in flight at the end of the interval.
    pub in_flight: usize,
    /// Periods in which no transaction succeeded.
    pub stalls: Vec<Stretch>,
    /// The load of each worker, by number.
    pub workers: Vec<Health>,
    pub scripts: Vec<ScriptRecord>,
}

impl Merged {
    /// Adds up the records of all phases, so that one for each script is left; returns the others for reuse.
    pub fn fold_phases(&mut self, scripts: usize) -> Vec<ScriptRecord> {
        let rest = self.scripts.split_off(scripts.min(self.scripts.len()));
        for (at, one) in rest.iter().enumerate() {
            self.scripts[at % scripts].add(one);
        }
        rest
    }
}

/// Merges the workers' intervals; an interval is complete when every worker has passed its end.
#[derive(Debug)]
pub struct Merger {
    /// Indexed by worker: the end of its last interval; None once the worker has ended.
    reached: Vec<Option<Nanos>>,
    /// Intervals that some worker has not passed, by their end on the grid.
    open: BTreeMap<Nanos, Merged>,
}

impl Merger {
    pub fn new(workers: usize, origin: Nanos) -> Self {
        Self { reached: vec![Some(origin); workers], open: BTreeMap::new() }
    }

    /// Adds a worker's interval; returns its emptied records for reuse where possible.
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

    /// Records that a worker has reported its last interval.
    pub fn ended(&mut self, worker: usize) {
        if let Some(reached) = self.reached.get_mut(worker) {
            *reached = None;
        }
    }

    /// The next interval to which no worker can add any more.
    pub fn take_whole(&mut self) -> Option<Merged> {
        let passed = self.reached.iter().flatten().min().copied().unwrap_or(Nanos::MAX);
        let first = self.open.first_entry()?;
        (*first.key() <= passed).then(|| first.remove())
    }
}

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
            health: Health { span: to - from, cpu: 10, clients: 2, ..Health::default() },
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
        assert_eq!((first.from, first.to, first.clients, first.in_flight), (0, 10, 4, 2));
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
}
