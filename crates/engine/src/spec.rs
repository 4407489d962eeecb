//! The complete specification of a run: code inside the engine never asks whether an option was given.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pgdyno_connect::Params;
use pgdyno_script::{Program, QueryMode, SlotId, Symbols};

use crate::commit_ledger::CommitLedger;
use crate::driver::Drivers;
use crate::load_share::{LoadShare, share_of};
use crate::log_spec::LogSpec;
use crate::pacing::Pacing;
use crate::phases::Phases;
use crate::schedule::{Arrivals, Spacing};

/// When a client stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// After this many transactions, whatever their outcome.
    Transactions(u64),
    /// At the first end of a transaction after this time.
    Duration(Duration),
    /// When its driver says so.
    Driven,
}

/// By what throughput is divided in a run that ends by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// The planned length of the measured part, and on average over the clients the time that they spent before and
    /// after it in transactions that count. Clients whose next start would come after it stay until its end.
    Planned,
    /// The time from the start of measuring to the end of the last transaction, as in pgbench. A
    /// client whose next start would come after the deadline leaves immediately.
    ToLastTransaction,
}

/// How often a transaction is tried after a serialization failure or a deadlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tries {
    /// At most this many times; pgbench's default is 1.
    AtMost(u32),
    /// Until the deadline or the latency limit.
    Unlimited,
}

impl Tries {
    /// Whether a transaction may be retried at all.
    pub fn may_retry(self) -> bool {
        self != Self::AtMost(1)
    }

    /// Whether a transaction that had `tries` tries may be retried.
    pub fn allows_another(self, tries: u32) -> bool {
        match self {
            Self::AtMost(most) => tries < most,
            Self::Unlimited => true,
        }
    }
}

/// Which commands are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// SQL statements only.
    Statements,
    /// All commands, as for pgbench's `-r`: this costs two more clock readings for each meta command.
    EveryCommand,
}

/// What a statement's error does to its client, unless it can be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// The client gives up.
    Abort,
    /// The transaction counts as failed; the client continues with the next.
    Continue,
}

/// What a client does when its connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLoss {
    /// It gives up.
    Abort,
    /// It counts the transaction as failed, also if it has not begun because there was no connection for it, and
    /// continues with the next (only for sessions per transaction).
    Count,
    /// It counts the transaction in flight as lost, and reconnects.
    Reconnect {
        /// How long it tries to reconnect before it gives up; None for the rest of the run.
        patience: Option<Duration>,
    },
}

impl OnLoss {
    pub fn reconnects(self) -> bool {
        matches!(self, Self::Reconnect { .. })
    }
}

/// How long a session lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sessions {
    /// For the whole run.
    Kept,
    PerTransaction,
    /// As long as the client's driver says. The number of workers is fixed then.
    Driven,
}

/// Which statements share a round trip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipelining {
    /// Those between `\startpipeline` and `\endpipeline`.
    Explicit,
    /// All that need no earlier result.
    Auto,
}

/// When a statement is prepared (`-M prepared`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preparing {
    /// Together with its first execution.
    WithFirstUse,
    /// Before its first execution, in a round trip of its own, as libpq's `PQprepare` does it. An
    /// error is reported, and the statement is executed nevertheless.
    Ahead,
}

/// Which interface of the kernel moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Io {
    /// The best one for the load that works here.
    Auto,
    /// epoll, which works everywhere.
    Epoll,
    /// io_uring, which needs Linux 6.1 and a system that does not forbid it.
    IoUring,
}

/// A script and how often it is chosen.
#[derive(Debug)]
pub struct WeightedProgram {
    /// The compiled script.
    pub program: Program,
    /// Its share of the sum of all weights.
    pub weight: u32,
}

/// A variable's value before the first transaction.
#[derive(Debug, Clone, PartialEq)]
pub enum Initial {
    /// The text on the command line; its type is determined when it is used.
    Text(String),
    /// An integer.
    Int(i64),
    ClientId,
}

/// Everything that defines a run of the engine.
#[derive(Debug)]
pub struct Spec {
    /// How every client connects.
    pub params: Params,
    /// Scripts; at least one, with a sum of weights above zero.
    pub programs: Vec<WeightedProgram>,
    /// What decides in place of the programs, which then have only names and commands
    /// ([`Program::driven`]); None when the programs are run.
    pub drivers: Option<Arc<dyn Drivers>>,
    /// Names of the programs' variables.
    pub symbols: Arc<Symbols>,
    /// The initial variables of every client.
    pub initial: Vec<(SlotId, Initial)>,
    /// Protocol that the programs were compiled for.
    pub mode: QueryMode,
    pub preparing: Preparing,
    /// Which statements share a round trip.
    pub pipelining: Pipelining,
    /// How many clients there are; at least one.
    pub clients: usize,
    /// The share of a load that several generators make; None for a single generator.
    pub share: Option<LoadShare>,
    /// The number of threads; from one to `clients`.
    pub workers: usize,
    /// When a client stops; counted after the warm-up.
    pub limit: Limit,
    /// How long after the end of measuring a client may stay in a transaction before it is aborted;
    /// None for as long as it takes.
    pub drain_limit: Option<Duration>,
    /// How long the load runs before measuring begins.
    pub warmup: Duration,
    /// Closed or open loop.
    pub arrivals: Arrivals,
    /// Keying and think times, by script; empty in an open loop.
    pub pacing: Vec<Pacing>,
    /// The phases of the load; with phases, the limit is the duration of all of them, arrivals are
    /// phased or closed as the phases are, and there is no warm-up of its own.
    pub phases: Option<Phases>,
    /// Sleeping clients are woken at multiples of this; zero wakes each at its exact instant.
    pub timer_tick: Duration,
    /// A transaction slower than this is late; in an open loop, one that could only start later than this is skipped.
    pub latency_limit: Option<Duration>,
    /// How often a transaction is tried.
    pub tries: Tries,
    /// Which commands are timed.
    pub timing: Timing,
    pub on_error: OnError,
    /// What becomes of a client whose connection is lost.
    pub on_loss: OnLoss,
    /// Which statements store the number of their transaction in the database; None without
    /// --ledger.
    pub ledger: Option<CommitLedger>,
    /// How long sessions last.
    pub sessions: Sessions,
    /// Where transactions are logged; None without -l.
    pub log: Option<LogSpec>,
    /// Whether every error has a note (--verbose-errors); otherwise a few a second have one.
    pub notes_every_error: bool,
    /// The name under which every step is printed on standard error; None without --debug.
    pub debug: Option<String>,
    /// Which interface of the kernel moves bytes.
    pub io: Io,
    /// Whether all clients stop as soon as one gives up.
    pub exit_on_abort: bool,
    /// By what throughput is divided.
    pub window: Window,
    /// Seeds of the random sequences, drawn from the base sequence in pgbench's order.
    pub seeds: Seeds,
}

impl Default for Spec {
    /// One client in a closed loop that runs 10 transactions of no script, as pgbench does without
    /// options, on libpq's default server. The caller adds programs and their pauses.
    fn default() -> Self {
        Self {
            params: Params::default(),
            programs: Vec::new(),
            drivers: None,
            symbols: Arc::new(Symbols::new()),
            initial: Vec::new(),
            mode: QueryMode::Simple,
            preparing: Preparing::WithFirstUse,
            pipelining: Pipelining::Explicit,
            clients: 1,
            share: None,
            workers: 1,
            limit: Limit::Transactions(10),
            drain_limit: None,
            warmup: Duration::ZERO,
            arrivals: Arrivals::Closed,
            pacing: Vec::new(),
            phases: None,
            timer_tick: Duration::ZERO,
            latency_limit: None,
            tries: Tries::AtMost(1),
            timing: Timing::Statements,
            on_error: OnError::Abort,
            on_loss: OnLoss::Abort,
            ledger: None,
            sessions: Sessions::Kept,
            log: None,
            notes_every_error: false,
            debug: None,
            io: Io::Auto,
            exit_on_abort: false,
            window: Window::Planned,
            seeds: Seeds::default(),
        }
    }
}

impl Spec {
    pub fn first_client(&self) -> usize {
        self.share.map_or(0, |part| part.range().start)
    }

    /// Numbers of the clients that worker number `worker` has: consecutive numbers, as in pgbench.
    pub fn clients_of(&self, worker: usize) -> Range<usize> {
        let (first, share) = (self.first_client(), share_of(self.clients, self.workers, worker));
        first + share.start..first + share.end
    }

    /// Whether clients connect during the load other than for each transaction.
    pub fn connects_later(&self) -> bool {
        self.on_loss.reconnects() || self.sessions == Sessions::Driven
    }

    /// Whether starts at a rate are evenly spaced.
    pub fn arrivals_are_regular(&self) -> bool {
        matches!(self.arrivals, Arrivals::Regular { .. } | Arrivals::Phased(Spacing::Regular))
    }

    /// How many phases there are; 1 for a load without phases.
    pub fn phase_count(&self) -> usize {
        self.phases.as_ref().map_or(1, |phases| phases.specs().len())
    }
}

/// Seeds of all random sequences.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seeds {
    /// One for each client, for the functions of scripts; for a share of a load, one for each client of the whole load.
    pub clients: Vec<u64>,
    /// For a share of a load, one for each client, for the choice of scripts; otherwise empty, and workers choose.
    pub choice_of_clients: Vec<u64>,
    pub choice: Vec<u64>,
    /// One for each worker, for the gaps of an open loop.
    pub arrivals: Vec<u64>,
    /// One for each worker, for the sampling of its log.
    pub sampling: Vec<u64>,
}

impl Seeds {
    /// Draws in pgbench's order: every client's functions, then `default_seed` (returned when
    /// `draw_default_seed`), then for each worker choice, arrivals and log sampling.
    pub fn draw(
        base: &mut pgdyno_script::Rng, clients: usize, workers: usize, draw_default_seed: bool,
    ) -> (Self, Option<u64>) {
        let of_clients = (0..clients).map(|_| base.next_u64()).collect();
        let default_seed = draw_default_seed.then(|| base.next_u64());
        let mut seeds = Self { clients: of_clients, ..Self::default() };
        seeds.draw_for_workers(base, workers);
        (seeds, default_seed)
    }

    /// The same for a share of a load. What clients draw is the same in every share, and what
    /// workers draw differs between shares.
    pub fn draw_for_share(
        base: &mut pgdyno_script::Rng, part: LoadShare, workers: usize, draw_default_seed: bool,
    ) -> (Self, Option<u64>) {
        let (mut seeds, default_seed) = Self::draw(base, part.clients, 0, draw_default_seed);
        seeds.choice_of_clients = (0..part.clients).map(|_| base.next_u64()).collect();
        let of_parts: Vec<u64> = (0..part.of).map(|_| base.next_u64()).collect();
        let mut own = pgdyno_script::Rng::seed(of_parts[part.number]);
        seeds.draw_for_workers(&mut own, workers);
        (seeds, default_seed)
    }

    fn draw_for_workers(&mut self, base: &mut pgdyno_script::Rng, workers: usize) {
        for _ in 0..workers {
            self.choice.push(base.next_u64());
            self.arrivals.push(base.next_u64());
            self.sampling.push(base.next_u64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_come_in_pgbench_order() {
        let mut base = pgdyno_script::Rng::seed(5432);
        let order: Vec<_> = (0..9).map(|_| base.next_u64()).collect();
        let (seeds, default_seed) = Seeds::draw(&mut pgdyno_script::Rng::seed(5432), 2, 2, true);
        assert_eq!(seeds.clients, order[..2]);
        assert_eq!(default_seed, Some(order[2]));
        assert_eq!(seeds.choice, [order[3], order[6]]);
        assert_eq!(seeds.arrivals, [order[4], order[7]]);
        assert_eq!(seeds.sampling, [order[5], order[8]]);
    }

    #[test]
    fn what_clients_draw_does_not_depend_on_the_generators() {
        let draw = |number, of, workers| {
            let part = LoadShare { number, of, clients: 5 };
            Seeds::draw_for_share(&mut pgdyno_script::Rng::seed(7), part, workers, true)
        };
        let (alone, default_seed) = draw(0, 1, 4);
        let parts: Vec<_> = (0..3).map(|number| draw(number, 3, 1)).collect();
        for (seeds, seed) in &parts {
            assert_eq!(seeds.clients, alone.clients);
            assert_eq!(seeds.choice_of_clients, alone.choice_of_clients);
            assert_eq!(*seed, default_seed);
        }
        assert_ne!(parts[0].0.arrivals, parts[1].0.arrivals);
        assert_ne!(parts[1].0.arrivals, parts[2].0.arrivals);
    }
}
