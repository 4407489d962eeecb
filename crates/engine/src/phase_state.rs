//! The phases of a load as one worker sees them: which of its clients are in use, and which one gets the next start.
//!
//! In an open loop one client of a worker waits for the next intended start while the other free
//! clients stand by, so that no start waits for a client whose phase has ended.

use std::collections::VecDeque;

use pgdyno_script::Rng;

use crate::clock::Nanos;
use crate::load_share::share_of;
use crate::phases::Phases;
use crate::spec::Spec;

#[derive(Debug)]
pub struct PhaseState<'a> {
    pub phases: &'a Phases,
    scripts: usize,
    worker: usize,
    workers: usize,
    first: usize,
    /// Number of this generator, and how many generators make the load.
    engine: (usize, usize),
    /// The instant of the first transaction.
    origin: Nanos,
    /// The client that waits for the next start.
    waiting: Option<usize>,
    standing_by: VecDeque<usize>,
    /// A start that was drawn and that no client waits for.
    unclaimed: Option<Nanos>,
}

impl<'a> PhaseState<'a> {
    /// For worker number `worker`; None for a load without phases.
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
        })
    }

    /// Begins the load; its first transaction is at `origin`.
    pub fn begin(&mut self, origin: Nanos) {
        self.origin = origin;
    }

    /// The phase of a transaction whose intended start is `intended`.
    pub fn phase(&self, intended: Nanos) -> usize {
        self.phases.at(intended.saturating_sub(self.origin))
    }

    /// Number of the record for `script` in `phase`; see [`crate::recorder::Recorder::scripts`].
    pub fn record(&self, phase: usize, script: usize) -> usize {
        phase * self.scripts + script
    }

    pub fn phase_of_record(&self, record: usize) -> usize {
        record / self.scripts
    }

    pub fn counts(&self, record: usize) -> bool {
        self.phases.specs()[self.phase_of_record(record)].result
    }

    /// Position of a client in the order in which clients are taken into use: generators take turns, and workers within
    /// each of them, so that all have their share at any number of clients.
    fn rank(&self, client: usize) -> usize {
        let here = (client - self.first) * self.workers + self.worker;
        let (number, engines) = self.engine;
        here * engines + number
    }

    /// When `client` is in use at or after `now`; None if never again.
    pub fn next_in_use(&self, client: usize, now: Nanos) -> Option<Nanos> {
        let since = now.saturating_sub(self.origin);
        let when = self.phases.next_in_use(self.rank(client), since)?;
        Some(self.origin + when)
    }

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

    pub fn end_of(&self, phase: usize) -> Nanos {
        self.origin + self.phases.bounds(phase).1
    }

    // -- turns ------------------------------------------------------------------------------------

    pub fn is_awaited(&self) -> bool {
        self.waiting.is_some()
    }

    pub fn is_awaited_by(&self, client: usize) -> bool {
        self.waiting == Some(client)
    }

    /// Lets `client` wait for the next start.
    pub fn waits(&mut self, client: usize) {
        self.waiting = Some(client);
    }

    /// Lets the free `client` stand by while another one waits.
    pub fn stands_by(&mut self, client: usize) {
        self.standing_by.push_back(client);
    }

    pub fn stop_standing_by(&mut self, client: usize) {
        self.standing_by.retain(|&other| other != client);
    }

    /// Ends the wait of `client`. Returns the client whose turn is next, if none waits and one
    /// stands by: the caller wakes it immediately.
    pub fn next_turn(&mut self, client: usize) -> Option<usize> {
        if self.is_awaited_by(client) {
            self.waiting = None;
        }
        match self.waiting {
            Some(_) => None,
            None => self.standing_by.pop_front(),
        }
    }

    /// Leaves a start that was drawn to the client that is next.
    pub fn leave_start(&mut self, intended: Nanos) {
        self.unclaimed = Some(intended);
    }

    /// Takes the start that a client left, if there is one.
    pub fn take_start(&mut self) -> Option<Nanos> {
        self.unclaimed.take()
    }
}
