//! Outages: when clients were without a connection, over all workers.
//!
//! While every client is connected, no worker uses this module. A worker reports here when a client
//! loses its connection, fails to reconnect, reconnects, or succeeds for the first time after that.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::clock::{Nanos, SECOND};
use crate::interval::ErrorNote;

/// A connection that is lost less than this after all clients have reconnected belongs to the same
/// outage: a server that goes down does not lose all its clients at one instant.
const GAP: Nanos = SECOND;

/// How many outages are reported one by one; later ones are only counted.
const MOST_KEPT: usize = 1000;

/// How many periods of an outage in which all clients are disconnected are reported one by one.
const MOST_ALL_AWAY: usize = 100;

/// How many different losses wait to be reported; the others are only counted.
const MOST_LOSSES: usize = 64;

/// A period in which at least one client had no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// Number of the outage from 1, in the order of their starts, including those of the warm-up.
    pub number: u64,
    /// When the first connection was lost.
    pub began: Nanos,
    /// The same instant on the wall clock.
    pub began_at: SystemTime,
    /// When the last client had reconnected; None if some never did.
    pub ended: Option<Nanos>,
    /// Total time in which all clients were disconnected.
    pub all_away: Nanos,
    /// When all clients were disconnected, as pairs of start and end; the first hundred periods.
    pub all_away_in: Vec<(Nanos, Nanos)>,
    /// When a client that had been disconnected first succeeded in a transaction.
    pub first_success: Option<Nanos>,
    /// The largest number of clients that were disconnected at the same time.
    pub most_away: u64,
    /// Connections and transactions that were lost in the outage, and attempts to reconnect.
    pub tally: Tally,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub connections_lost: u64,
    /// How many transactions were in flight on them.
    pub transactions_lost: u64,
    pub reconnects: u64,
    pub failed_attempts: u64,
    /// Clients that gave up, or were still disconnected at the end of the run.
    pub never_back: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Self) {
        self.connections_lost += other.connections_lost;
        self.transactions_lost += other.transactions_lost;
        self.reconnects += other.reconnects;
        self.failed_attempts += other.failed_attempts;
        self.never_back += other.never_back;
    }
}

impl Outage {
    fn all_were_away(&mut self, since: Nanos, until: Nanos) {
        self.all_away += until.saturating_sub(since);
        if self.all_away_in.len() < MOST_ALL_AWAY {
            self.all_away_in.push((since, until.max(since)));
        }
    }
}

/// What happens to an outage while the load runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutageNote {
    /// The first connection of an outage was lost.
    Began(Outage),
    /// Lost connections with one reason: `clients` since the last such report. The note is that of the first.
    Lost {
        /// The first loss with this reason.
        note: Box<ErrorNote>,
        /// How many clients lost their connection for this reason.
        clients: u64,
    },
    /// The outage, or the run, is over.
    Ended(Outage),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outages {
    /// The first thousand outages, in order.
    pub outages: Vec<Outage>,
    /// How many outages there were, including those that are not listed.
    pub count: u64,
    /// The sum over all of them.
    pub tally: Tally,
}

impl Outages {
    fn add(&mut self, outage: Outage) {
        self.count += 1;
        self.tally.add(&outage.tally);
        if self.outages.len() < MOST_KEPT {
            self.outages.push(outage);
        }
    }
}

/// Why a disconnected client does not reconnect any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// It gave up, or the run is over.
    NeverBack,
    /// It had finished all its transactions.
    Done,
}

/// The tracker that all workers share.
#[derive(Debug)]
pub struct SharedOutages(Mutex<OutageTracker>);

impl SharedOutages {
    /// For this many clients, all of which are connected.
    pub fn new(clients: usize) -> Self {
        Self(Mutex::new(OutageTracker::new(clients)))
    }

    pub fn lock(&self) -> MutexGuard<'_, OutageTracker> {
        // the counts remain usable even if a worker panicked while it held the lock
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps track of outages.
#[derive(Debug, Default)]
pub struct OutageTracker {
    /// How many clients have not stopped.
    running: u64,
    away: u64,
    open: Option<Open>,
    /// Completed outages, in order.
    settled: Vec<Outage>,
    count: u64,
    losses: Vec<Loss>,
    /// When losses may be reported again: clients lose their connections one by one, and the reports combine them.
    tells_losses_at: Nanos,
    pending_notes: VecDeque<OutageNote>,
}

/// An outage that may continue.
#[derive(Debug)]
struct Open {
    outage: Outage,
    last_back: Nanos,
    /// Since when all clients have been disconnected.
    all_since: Option<Nanos>,
    is_reported: bool,
}

/// Losses for one reason that were not reported yet.
#[derive(Debug)]
struct Loss {
    sqlstate: Option<String>,
    note: Box<ErrorNote>,
    clients: u64,
}

impl OutageTracker {
    /// For this many clients, all of which are connected.
    pub fn new(clients: usize) -> Self {
        Self { running: clients as u64, ..Self::default() }
    }

    /// Records a lost connection; `note` describes it, and is called only if it is to be reported.
    pub fn record_loss(
        &mut self, now: Nanos, in_transaction: bool, sqlstate: Option<&str>, note: impl FnOnce() -> ErrorNote,
    ) {
        self.goes_away(now);
        if let Some(open) = &mut self.open {
            open.outage.tally.connections_lost += 1;
            open.outage.tally.transactions_lost += u64::from(in_transaction);
        }
        self.tell_loss(sqlstate, note);
    }

    fn goes_away(&mut self, now: Nanos) {
        self.settle(now);
        self.away += 1;
        let count = &mut self.count;
        let open = self.open.get_or_insert_with(|| {
            *count += 1;
            Open {
                outage: Outage {
                    number: *count,
                    began: now,
                    began_at: SystemTime::now(),
                    ended: None,
                    all_away: 0,
                    all_away_in: Vec::new(),
                    first_success: None,
                    most_away: 0,
                    tally: Tally::default(),
                },
                last_back: now,
                all_since: None,
                is_reported: false,
            }
        });
        // reports of two workers may arrive in another order than their instants
        open.outage.began = open.outage.began.min(now);
        open.outage.most_away = open.outage.most_away.max(self.away);
        self.check_whether_all_are_away(now);
    }

    fn check_whether_all_are_away(&mut self, now: Nanos) {
        let (away, running) = (self.away, self.running);
        if let Some(open) = &mut self.open {
            match open.all_since {
                None if away > 0 && away >= running => open.all_since = Some(now),
                Some(since) if away == 0 || away < running => {
                    open.outage.all_were_away(since, now);
                    open.all_since = None;
                }
                _ => {}
            }
        }
    }

    fn tell_loss(&mut self, sqlstate: Option<&str>, note: impl FnOnce() -> ErrorNote) {
        let known = self.losses.iter_mut().find(|loss| loss.sqlstate.as_deref() == sqlstate);
        match known {
            Some(loss) => loss.clients += 1,
            None => {
                if self.losses.len() < MOST_LOSSES {
                    self.losses.push(Loss {
                        sqlstate: sqlstate.map(ToOwned::to_owned),
                        note: Box::new(note()),
                        clients: 1,
                    });
                }
            }
        }
    }

    /// Records a failed attempt to connect, of a client disconnected `already` or that needs one for a transaction.
    pub fn record_failed_attempt(&mut self, now: Nanos, already: bool) {
        if !already {
            self.goes_away(now);
        }
        if let Some(open) = &mut self.open {
            open.outage.tally.failed_attempts += 1;
        }
    }

    pub fn record_return(&mut self, now: Nanos) {
        self.away = self.away.saturating_sub(1);
        self.check_whether_all_are_away(now);
        if let Some(open) = &mut self.open {
            open.outage.tally.reconnects += 1;
            open.last_back = open.last_back.max(now);
        }
    }

    /// Records the first success of a client after it reconnected.
    pub fn record_success(&mut self, now: Nanos) {
        if let Some(open) = &mut self.open {
            open.outage.first_success.get_or_insert(now);
        }
    }

    pub fn record_leave(&mut self, now: Nanos, why: Leave) {
        self.away = self.away.saturating_sub(1);
        if let Some(open) = &mut self.open {
            // the number of remaining clients is compared when they are counted off
            if self.away == 0
                && let Some(since) = open.all_since.take()
            {
                open.outage.all_were_away(since, now);
            }
            open.outage.tally.never_back += u64::from(why == Leave::NeverBack);
        }
    }

    /// Records that a connected client has stopped; the remaining ones may now all be disconnected.
    pub fn record_stop(&mut self, now: Nanos) {
        self.running = self.running.saturating_sub(1);
        self.check_whether_all_are_away(now);
    }

    fn settle(&mut self, now: Nanos) {
        let is_over = |open: &mut Open| {
            self.away == 0 && open.outage.first_success.is_some() && now >= open.last_back.saturating_add(GAP)
        };
        if let Some(open) = self.open.take_if(is_over) {
            self.close(open);
        }
    }

    fn end(&mut self, now: Nanos) {
        if let Some(mut open) = self.open.take() {
            if let Some(since) = open.all_since.take() {
                open.outage.all_were_away(since, now);
            }
            open.outage.tally.never_back += std::mem::take(&mut self.away);
            self.close(open);
        }
    }

    fn close(&mut self, open: Open) {
        let mut outage = open.outage;
        let is_back = outage.tally.never_back == 0 && outage.tally.reconnects > 0;
        outage.ended = is_back.then_some(open.last_back);
        if !open.is_reported {
            self.pending_notes.push_back(OutageNote::Began(outage.clone()));
        }
        self.flush_losses();
        self.pending_notes.push_back(OutageNote::Ended(outage.clone()));
        self.settled.push(outage);
    }

    fn flush_losses(&mut self) {
        let losses = self.losses.drain(..).map(|loss| OutageNote::Lost { note: loss.note, clients: loss.clients });
        self.pending_notes.extend(losses);
    }

    /// Ends the run: returns the events that were not reported yet, and the outages not over before `measure`.
    pub fn finish(&mut self, now: Nanos, measure: Nanos) -> (Vec<OutageNote>, Outages) {
        self.end(now);
        let notes = std::iter::from_fn(|| self.take_note(now)).collect();
        let mut outages = Outages::default();
        for outage in std::mem::take(&mut self.settled) {
            if outage.ended.is_none_or(|ended| ended >= measure) {
                outages.add(outage);
            }
        }
        (notes, outages)
    }

    /// The next event to report at `now`.
    pub fn take_note(&mut self, now: Nanos) -> Option<OutageNote> {
        self.settle(now);
        if self.pending_notes.is_empty() {
            if let Some(open) = self.open.as_mut().filter(|open| !open.is_reported) {
                open.is_reported = true;
                self.pending_notes.push_back(OutageNote::Began(open.outage.clone()));
            }
            if !self.losses.is_empty() && now >= self.tells_losses_at {
                self.tells_losses_at = now.saturating_add(GAP);
                self.flush_losses();
            }
        }
        self.pending_notes.pop_front()
    }
}

#[cfg(test)]
mod tests;
