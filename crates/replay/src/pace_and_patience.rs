//! What the clients of a replay share: its file, its pace, and the next session.

use std::sync::atomic::{AtomicUsize, Ordering};

use pgdyno_engine::clock::{Nanos, SECOND};

use crate::replay_file::ReplayFile;
use crate::slots::Slots;

/// A statement may always wait this long for its answer.
pub const LEAST_PATIENCE: Nanos = 60 * SECOND;
/// How many times longer than when it was captured a statement may wait.
const PATIENCE_FACTOR: u64 = 10;
/// How long a statement waits for a value of another session: in a transaction, whose locks that session may await.
pub const WAIT_IN_BLOCK: Nanos = SECOND;
/// See [`WAIT_IN_BLOCK`]; outside of a transaction, where it holds no locks.
pub const WAIT: Nanos = 10 * SECOND;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// At the captured times divided by this.
    Factor(f64),
    /// Without pauses.
    Max,
}

/// What the clients of a replay share.
#[derive(Debug)]
pub struct Progress {
    pub file: ReplayFile,
    pub pace: Pace,
    pub slots: Slots,
    /// Number of the next session that no client has taken.
    next: AtomicUsize,
}

impl Progress {
    /// The begin of a replay; the first sessions belong to the clients that are connected at the start.
    pub fn new(file: ReplayFile, pace: Pace) -> Self {
        let next = AtomicUsize::new(file.at_start);
        let slots = Slots::new(file.header.slots);
        Self { file, pace, slots, next }
    }

    /// The session that a client has when the load begins. Neighbours do not all have one, because they share a worker.
    pub fn first_session(&self, client: usize) -> Option<usize> {
        let up_to = |client: usize| client * self.file.at_start / self.file.clients;
        (up_to(client + 1) > up_to(client)).then(|| up_to(client))
    }

    /// The number of the next session; the file is read ahead to the one that comes as many later as there are clients.
    pub fn take(&self) -> usize {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if let Some(place) = self.file.places.get(number.saturating_add(self.file.clients)) {
            self.file.file.read_ahead(place.offset);
        }
        number
    }

    /// When a captured instant comes, in a load that began at `origin`; 0, which has passed, without intended starts.
    pub fn instant(&self, origin: Nanos, at_us: u64) -> Nanos {
        match self.pace {
            Pace::Factor(factor) => {
                let after = (at_us as f64 * 1000.0 / factor) as Nanos;
                origin.saturating_add(after)
            }
            Pace::Max => 0,
        }
    }

    /// How long a statement may wait for its answer that took `us` microseconds when it was captured.
    pub fn patience(&self, us: Option<u64>) -> Nanos {
        let longest_us = self.file.header.longest_us.max(us.unwrap_or(0));
        let captured = longest_us.saturating_mul(1000);
        captured.saturating_mul(PATIENCE_FACTOR).max(LEAST_PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::samples::{Sample, statement};

    #[test]
    fn sessions_at_the_start_are_spread_over_the_clients() {
        let mut sample = Sample::default();
        for number in 0..10 {
            let at_us = if number < 3 { 0 } else { 10 };
            sample.session(at_us, 100, &[statement(20, "SELECT 1")]);
        }
        let progress = Progress::new(sample.open().expect("it is valid"), Pace::Max);
        let first: Vec<_> = (0..10).map(|client| progress.first_session(client)).collect();
        let some: Vec<_> = first.iter().copied().flatten().collect();
        assert_eq!(some, [0, 1, 2]);
        assert_eq!(first.iter().position(Option::is_some), Some(3));
        assert_eq!(progress.take(), 3);
        // instants are divided by the pace
        let mut sample = Sample::default();
        sample.session(0, 100, &[statement(20, "SELECT 1")]);
        let progress = Progress::new(sample.open().expect("it is valid"), Pace::Factor(2.0));
        assert_eq!(progress.instant(7, 1000), 500_007);
        assert_eq!(progress.instant(7, u64::MAX), Nanos::MAX);
        assert_eq!(progress.patience(None), LEAST_PATIENCE);
        assert_eq!(progress.patience(Some(10_000_000)), 100 * SECOND);
    }
}
