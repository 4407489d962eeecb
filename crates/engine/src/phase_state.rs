//! The phases of a load as one worker sees them: which of its clients are in use, and whose turn the
//! next start is.
//!
//! In an open loop one client of a worker waits for the next intended start; the others that are
//! free stand by, so that a start is never with a client whose phase has ended.

use std::collections::VecDeque;

use pgdyno_script::Rng;

use crate::clock::Nanos;
use crate::load_share::share_of;
use crate::phases::Phases;
use crate::spec::Spec;

/// One worker's view of the phases.
#[derive(Debug)]
pub struct PhaseState<'a> {
    /// Of the whole run.
    pub phases: &'a Phases,
    scripts: usize,
    worker: usize,
    workers: usize,
    /// Number of its first client.
    first: usize,
    /// Number of the engine among those that make the load, and how many they are.
    engine: (usize, usize),
    /// The first transaction's instant.
    origin: Nanos,
    /// The client that waits for the next start.
    waiting: Option<usize>,
    /// Clients that stand by.
    standing_by: VecDeque<usize>,
    /// A start that was drawn and that no client waits for.
    unclaimed: Option<Nanos>,
    /// Last end of a transaction of each phase.
    last_ends: Vec<Nanos>,
}

impl<'a> PhaseState<'a> {
    /// For worker number `worker`; None when the load is the same all the time.
    #[must_use]
    pub fn of(worker: usize, spec: &'a Spec) -> Option<Self> {
        let phases = spec.phases.as_ref()?;
        Some(Self {
            phases,
            scripts: spec.programs.len(),
            worker,
            workers: spec.workers,
            first: spec.first_client() + share_of(spec.clients, spec.workers, worker).start,
            engine: spec.share.map_or((0, 1), |part| (part.number, part.of)),
            origin: 0,
            waiting: None,
            standing_by: VecDeque::new(),
            unclaimed: None,
            last_ends: vec![0; phases.specs().len()],
        })
    }

    /// The first transaction's instant is `origin`.
    pub fn begin(&mut self, origin: Nanos) {
        self.origin = origin;
    }

    /// The phase of a transaction that is meant to begin at `intended`.
    #[must_use]
    pub fn phase(&self, intended: Nanos) -> usize {
        self.phases.at(intended.saturating_sub(self.origin))
    }

    /// Number of the record of `script` in `phase`: see [`crate::recorder::Recorder::scripts`].
    #[must_use]
    pub fn record(&self, phase: usize, script: usize) -> usize {
        phase * self.scripts + script
    }

    /// The phase of a record.
    #[must_use]
    pub fn phase_of_record(&self, record: usize) -> usize {
        record / self.scripts
    }

    /// Whether results count what is recorded there.
    #[must_use]
    pub fn counts(&self, record: usize) -> bool {
        self.phases.specs()[self.phase_of_record(record)].result
    }

    /// Place of a client in the order in which clients are taken into use: engines take turns, and
    /// workers in each, so that each has its share at any number.
    fn rank(&self, client: usize) -> usize {
        let here = (client - self.first) * self.workers + self.worker;
        let (number, engines) = self.engine;
        here * engines + number
    }

    /// When `client` is in use, from `now` on; None when not again.
    #[must_use]
    pub fn next_in_use(&self, client: usize, now: Nanos) -> Option<Nanos> {
        let since = now.saturating_sub(self.origin);
        let when = self.phases.next_in_use(self.rank(client), since)?;
        Some(self.origin + when)
    }

    /// Draws a script by the weights of `phase`.
    #[must_use]
    pub fn choose_script(&self, phase: usize, rng: &mut Rng) -> usize {
        let weights = &self.phases.specs()[phase].weights;
        if weights.len() == 1 {
            return 0;
        }
        let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
        let drawn = rng.range_i64(0, total.cast_signed() - 1).cast_unsigned();
        let mut sum = 0;
        weights
            .iter()
            .position(|&weight| {
                sum += u64::from(weight);
                drawn < sum
            })
            .unwrap_or(0)
    }

    /// A transaction of `record` ended.
    pub fn ended(&mut self, record: usize, now: Nanos) {
        let phase = self.phase_of_record(record);
        self.last_ends[phase] = now;
    }

    /// See [`PhaseState::ended`]; 0 where none did.
    #[must_use]
    pub fn last_ends(&self) -> &[Nanos] {
        &self.last_ends
    }

    // -- whose turn it is --------------------------------------------------------------------------

    /// Whether somebody waits for the next start already.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.waiting.is_some()
    }

    /// Whether `client` is the one.
    #[must_use]
    pub fn is_awaited_by(&self, client: usize) -> bool {
        self.waiting == Some(client)
    }

    /// `client` waits for the next start.
    pub fn waits(&mut self, client: usize) {
        self.waiting = Some(client);
    }

    /// `client` is free, and somebody else waits.
    pub fn stands_by(&mut self, client: usize) {
        self.standing_by.push_back(client);
    }

    /// `client` cannot take a turn.
    pub fn stop_standing_by(&mut self, client: usize) {
        self.standing_by.retain(|&other| other != client);
    }

    /// `client` does not wait any more. The next one's turn, if nobody waits and one stands by: it
    /// is to be woken at once.
    #[must_use]
    pub fn next_turn(&mut self, client: usize) -> Option<usize> {
        if self.is_awaited_by(client) {
            self.waiting = None;
        }
        match self.waiting {
            Some(_) => None,
            None => self.standing_by.pop_front(),
        }
    }

    /// A start that was drawn is for whoever is next.
    pub fn leave_start(&mut self, intended: Nanos) {
        self.unclaimed = Some(intended);
    }

    /// The start that was left, if one was.
    pub fn take_start(&mut self) -> Option<Nanos> {
        self.unclaimed.take()
    }
}
