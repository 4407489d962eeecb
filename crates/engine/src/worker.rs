//! One engine thread: its clients, its poller, its timers, its recorder. No locks.

mod handovers;

use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError};

use pgdyno_connect::Session;

use crate::client::Client;
use crate::clock::{Nanos, SECOND, thread_cpu};
use crate::handover::{Orders, Parcel};
use crate::health::Health;
use crate::interval::{ErrorNote, Interval, Phase};
use crate::poller::{Handler, Next, Poller};
use crate::recorder::{CommandRecord, ScriptRecord};
use crate::run_queue::RunQueue;
use crate::shared::Shared;

/// How long a worker waits at most before it looks whether it is to stop.
const LONGEST_WAIT: Nanos = SECOND / 10;

/// What a worker tells the engine.
#[derive(Debug)]
pub enum Word {
    /// A stretch of time is over.
    Interval(Interval),
    /// Something went wrong.
    Error(ErrorNote),
    /// A worker is there that has no clients yet, or cannot be.
    Hired(io::Result<()>),
    /// The worker is done.
    Ended(WorkerEnd),
}

/// What is left of a worker.
#[derive(Debug)]
pub struct WorkerEnd {
    /// Its number.
    pub worker: usize,
    /// A record a command of each script.
    pub commands: Vec<Vec<Option<CommandRecord>>>,
    /// Transactions that were not waited for.
    pub in_flight: usize,
    /// Intended starts of an open loop that had come, and that no client was free to take.
    pub unstarted: u64,
    /// Clients that gave up.
    pub aborted: usize,
    /// End of its last transaction, or when it was stopped with one under way.
    pub last_end: Nanos,
    /// A failure of the worker itself, such as a poller that does not work.
    pub failure: Option<io::Error>,
}

impl WorkerEnd {
    /// The end of worker number `worker`, which had no clients.
    #[must_use]
    pub fn idle(worker: usize, failure: Option<io::Error>) -> Self {
        Self {
            worker,
            commands: Vec::new(),
            in_flight: 0,
            aborted: 0,
            last_end: 0,
            unstarted: 0,
            failure,
        }
    }
}

/// When phases change.
#[derive(Debug, Clone, Copy)]
pub struct Timetable {
    /// The first transaction's instant.
    pub origin: Nanos,
    /// End of the warm-up; `origin` without one.
    pub measure: Nanos,
    /// End of measuring; None when transactions are counted.
    pub deadline: Option<Nanos>,
}

impl Timetable {
    /// The phase at `instant`, and when it began.
    #[must_use]
    pub fn phase(&self, instant: Nanos) -> (Phase, Nanos) {
        match self.deadline {
            _ if instant < self.measure => (Phase::WarmUp, self.origin),
            Some(deadline) if instant >= deadline => (Phase::Drain, deadline),
            _ => (Phase::Measure, self.measure),
        }
    }

    /// The end of the interval that begins at `from`: a second on the phase's grid, or its end.
    #[must_use]
    pub fn interval_end(&self, from: Nanos) -> Nanos {
        let (phase, began) = self.phase(from);
        let tick = began + ((from - began) / SECOND + 1) * SECOND;
        match (phase, self.deadline) {
            (Phase::WarmUp, _) => tick.min(self.measure),
            (Phase::Measure, Some(deadline)) => tick.min(deadline),
            _ => tick,
        }
    }
}

/// A worker with its clients connected.
pub struct Worker<'a, P> {
    number: usize,
    poller: P,
    load: Load<'a>,
    timetable: Timetable,
    /// Start and end of the open interval.
    from: Nanos,
    to: Nanos,
    cpu: Nanos,
    run_queue: RunQueue,
    /// In the run queue, up to the open interval.
    waited: Option<Nanos>,
    /// Of the open interval: what is counted as it goes.
    health: Health,
    links: Links,
    /// To whom clients are given.
    giving: Option<Sender<Parcel>>,
    /// Whence clients come.
    arriving: Option<Receiver<Parcel>>,
}

/// How a worker and the engine hear of each other while it runs.
pub struct Links {
    /// To the engine; bounded.
    pub words: SyncSender<Word>,
    /// Emptied records for reuse.
    pub recycled: Receiver<Vec<ScriptRecord>>,
    /// To give clients away.
    pub orders: Orders,
}

/// Where a client is that this worker does not have.
const NOWHERE: u32 = u32::MAX;

/// The clients, as the poller sees them.
struct Load<'a> {
    /// By client's number: its token, which counts from 0 in each worker, or [`NOWHERE`].
    tokens: Vec<u32>,
    /// By token; None where a client went to another worker.
    clients: Vec<Option<Client>>,
    shared: Shared<'a>,
    running: usize,
    /// Pieces of bytes that came since the poller was asked.
    replies: u64,
}

impl Load<'_> {
    /// The token of client number `client`, if this worker has it.
    fn token(&self, client: usize) -> Option<usize> {
        let token = *self.tokens.get(client)?;
        (token != NOWHERE).then_some(token as usize)
    }

    /// Clients inside a transaction.
    fn in_flight(&self) -> usize {
        let clients = self.clients.iter().flatten();
        clients.filter(|client| client.in_flight()).count()
    }

    /// One step of the client of `token`; keeps the number of running clients right.
    fn step(
        &mut self,
        token: usize,
        step: impl FnOnce(&mut Client, &mut Shared<'_>) -> Next,
    ) -> Next {
        let Some(Some(client)) = self.clients.get_mut(token) else {
            return Next::Wait;
        };
        let was_stopped = client.stopped();
        let next = step(client, &mut self.shared);
        if !was_stopped && client.stopped() {
            self.running -= 1;
        }
        next
    }

    /// What the schedule wanted by `now`, or by the deadline, and nobody began. With a number of
    /// transactions each of them is a client's own, and none is left over.
    fn unstarted(&mut self, now: Nanos) -> u64 {
        let Some(deadline) = self.shared.deadline else {
            return 0;
        };
        let until = deadline.min(now);
        if !self.shared.schedule.is_open() {
            return 0;
        }
        let waiting = self.clients.iter().flatten();
        let waiting = waiting.filter_map(Client::awaited_start);
        let waiting = waiting.filter(|start| *start <= until).count();
        waiting as u64 + self.shared.schedule.overdue(until)
    }
}

impl Handler for Load<'_> {
    fn received(&mut self, token: usize, bytes: &[u8]) -> Next {
        self.replies += 1;
        self.step(token, |client, shared| client.received(bytes, shared))
    }

    fn closed(&mut self, token: usize, why: Option<io::Error>) {
        self.step(token, |client, shared| {
            client.closed(why.as_ref(), shared);
            Next::Wait
        });
    }

    fn outgoing(&self, token: usize) -> &[u8] {
        match self.clients.get(token) {
            Some(Some(client)) => client.outgoing(),
            _ => &[],
        }
    }
}

impl<'a, P: Poller> Worker<'a, P> {
    /// A worker whose connections are in `poller` under the tokens 0, 1, 2… in the order of
    /// `clients`.
    pub fn new(
        number: usize,
        clients: Vec<Client>,
        poller: P,
        mut shared: Shared<'a>,
        timetable: Timetable,
        links: Links,
    ) -> Self {
        shared.deadline = timetable.deadline;
        shared.schedule.begin(timetable.origin);
        let run_queue = RunQueue::of_this_thread();
        let mut tokens = vec![NOWHERE; shared.spec.clients];
        for (token, client) in clients.iter().enumerate() {
            tokens[client.id()] = token as u32;
        }
        Self {
            number,
            poller,
            load: Load {
                tokens,
                running: clients.len(),
                clients: clients.into_iter().map(Some).collect(),
                shared,
                replies: 0,
            },
            timetable,
            from: timetable.origin,
            to: timetable.interval_end(timetable.origin),
            cpu: thread_cpu(),
            waited: run_queue.waited(),
            run_queue,
            health: Health::default(),
            links,
            giving: None,
            arriving: None,
        }
    }

    /// Drives the clients until they have stopped, or are told to.
    pub fn run(mut self) {
        let failure = self
            .drive()
            .and_then(|()| self.poller.flush(&mut self.load))
            .err();
        let now = self.load.shared.clock.now();
        self.pass_boundaries(now);
        self.hand_on(now.max(self.from), true);
        self.hand_on_errors();
        let mut load = self.load;
        let unstarted = load.unstarted(now);
        let in_flight = load.in_flight();
        let end = WorkerEnd {
            worker: self.number,
            in_flight,
            unstarted,
            aborted: load
                .clients
                .iter()
                .flatten()
                .filter(|client| client.aborted())
                .count(),
            // a server that did not answer up to the stop gave no throughput in that time
            last_end: if in_flight > 0 {
                now
            } else {
                load.shared.last_end
            },
            commands: load.shared.recorder.commands,
            failure,
        };
        // nobody listens only when the engine itself is gone
        let _ = self.links.words.send(Word::Ended(end));
    }

    fn drive(&mut self) -> io::Result<()> {
        let now = self.load.shared.clock.now();
        for token in 0..self.load.clients.len() {
            self.step(token, |client, shared| client.begin(now, shared));
        }
        while self.has_work() && !self.load.shared.stopped() {
            let now = self.load.shared.clock.now();
            self.take_order()?;
            self.welcome(now)?;
            self.wake(now);
            self.connect_clients();
            self.give_away()?;
            self.pass_boundaries(now);
            self.hand_on_errors();
            if !self.has_work() {
                break;
            }
            let until = self
                .load
                .shared
                .next_timer()
                .unwrap_or(Nanos::MAX)
                .min(self.to);
            let timeout = until.saturating_sub(now).min(self.longest_wait());
            self.load.replies = 0;
            self.poller.wait(Some(timeout), &mut self.load)?;
            self.health.woke(self.load.replies);
        }
        Ok(())
    }

    fn step(&mut self, token: usize, step: impl FnOnce(&mut Client, &mut Shared<'_>) -> Next) {
        match self.load.step(token, step) {
            Next::Wait => {}
            Next::Send => self.poller.send(token, &mut self.load),
            Next::Close => self.poller.close(token),
        }
    }

    /// Wakes the clients whose instant has come; those that ask to be woken again wait a turn.
    fn wake(&mut self, now: Nanos) {
        for _ in 0..self.load.clients.len() {
            let Some(client) = self.load.shared.due(now) else {
                return;
            };
            // the timer of one that went away stays behind
            if let Some(token) = self.load.token(client) {
                self.step(token, |client, shared| client.woken(now, shared));
            }
        }
    }

    /// Makes the connections that clients ask for (-C), one after the other, as pgbench does.
    fn connect_clients(&mut self) {
        while let Some(client) = self.load.shared.next_unconnected() {
            let Some(token) = self.load.token(client) else {
                continue;
            };
            let since = self.load.shared.clock.now();
            let connected = self.connect(token);
            let result = connected.as_ref().copied().map_err(AsRef::as_ref);
            self.step(token, |client, shared| {
                client.connected(result, since, shared)
            });
        }
    }

    fn connect(&mut self, token: usize) -> Result<(), Box<dyn std::error::Error>> {
        // the last words of the session before
        self.poller.flush(&mut self.load)?;
        let session = Session::connect(&self.load.shared.spec.params)?;
        self.poller.add(token, session.into_stream()?.into())?;
        Ok(())
    }

    /// Hands on every interval that has ended by `now`.
    fn pass_boundaries(&mut self, now: Nanos) {
        while now >= self.to {
            let end = self.to;
            let (phase, _) = self.timetable.phase(self.from);
            let (next_phase, _) = self.timetable.phase(end);
            self.health.late = now - end;
            self.hand_on(end, phase != next_phase);
            if phase == Phase::WarmUp && next_phase != Phase::WarmUp {
                self.load.shared.begin_measuring(end);
            }
            self.to = self.timetable.interval_end(end);
        }
    }

    /// Hands on what was recorded up to `to`. If the engine is behind, the records stay and are
    /// part of the next interval, unless it `must` be now: the load never waits for a reader.
    fn hand_on(&mut self, to: Nanos, must: bool) {
        if to == self.from && self.load.shared.recorder.is_empty() {
            return;
        }
        let cpu = thread_cpu();
        let waited = self.run_queue.waited();
        let interval = Interval {
            worker: self.number,
            from: self.from,
            to,
            due: self.to,
            phase: self.timetable.phase(self.from).0,
            in_flight: self.load.in_flight(),
            health: Health {
                span: to - self.from,
                cpu: cpu - self.cpu,
                waited: waited
                    .zip(self.waited)
                    .map(|(now, before)| now.saturating_sub(before)),
                clients: self.load.running,
                ..self.health
            },
            scripts: self
                .load
                .shared
                .recorder
                .take(self.links.recycled.try_recv().ok()),
        };
        let refused = if must {
            self.links
                .words
                .send(Word::Interval(interval))
                .err()
                .map(|_| None)
        } else {
            match self.links.words.try_send(Word::Interval(interval)) {
                Ok(()) => None,
                Err(TrySendError::Full(Word::Interval(interval))) => Some(Some(interval)),
                Err(_) => Some(None),
            }
        };
        if let Some(Some(interval)) = refused {
            self.load.shared.recorder.scripts = interval.scripts;
            return;
        }
        self.cpu = cpu;
        self.waited = waited;
        self.health = Health::default();
        self.from = to;
    }

    fn hand_on_errors(&mut self) {
        for note in self.load.shared.notes.drain(..) {
            let _ = self.links.words.send(Word::Error(note));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_cut_where_phases_change() {
        let timetable = Timetable {
            origin: 100,
            measure: 100 + SECOND * 3 / 2,
            deadline: Some(100 + SECOND * 4),
        };
        let mut ends = vec![];
        let mut at = timetable.origin;
        for _ in 0..7 {
            at = timetable.interval_end(at);
            ends.push((at - 100) as f64 / SECOND as f64);
        }
        assert_eq!(ends, [1.0, 1.5, 2.5, 3.5, 4.0, 5.0, 6.0]);
        assert_eq!(timetable.phase(100).0, Phase::WarmUp);
        assert_eq!(timetable.phase(timetable.measure).0, Phase::Measure);
        assert_eq!(timetable.phase(100 + SECOND * 4).0, Phase::Drain);
    }

    #[test]
    fn without_a_deadline_measuring_goes_on() {
        let timetable = Timetable {
            origin: 5,
            measure: 5,
            deadline: None,
        };
        assert_eq!(timetable.interval_end(5), 5 + SECOND);
        assert_eq!(timetable.phase(500 * SECOND), (Phase::Measure, 5));
    }
}
