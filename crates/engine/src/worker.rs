//! One engine thread: its clients, its poller, its timers, its recorder. No locks.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};

use pgdyno_connect::Session;

use crate::client::Client;
use crate::clock::{Nanos, SECOND, thread_cpu};
use crate::interval::{ErrorNote, Interval, Phase};
use crate::poller::{Handler, Next, Poller};
use crate::recorder::{CommandRecord, ScriptRecord};
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
    wakeups: u64,
    links: Links,
}

/// How a worker and the engine hear of each other while it runs.
pub struct Links {
    /// To the engine; bounded.
    pub words: SyncSender<Word>,
    /// Emptied records for reuse.
    pub recycled: Receiver<Vec<ScriptRecord>>,
}

/// The clients, as the poller sees them.
struct Load<'a> {
    /// Number of the first client: tokens count from 0 in each worker.
    first: usize,
    clients: Vec<Client>,
    shared: Shared<'a>,
    running: usize,
}

impl Load<'_> {
    /// Keeps the number of running clients right after a step.
    fn stepped(&mut self, token: usize, was_stopped: bool) {
        if !was_stopped && self.clients[token].stopped() {
            self.running -= 1;
        }
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
        let waiting = self.clients.iter().filter_map(Client::awaited_start);
        let waiting = waiting.filter(|start| *start <= until).count();
        waiting as u64 + self.shared.schedule.overdue(until)
    }
}

impl Handler for Load<'_> {
    fn received(&mut self, token: usize, bytes: &[u8]) -> Next {
        let was_stopped = self.clients[token].stopped();
        let next = self.clients[token].received(bytes, &mut self.shared);
        self.stepped(token, was_stopped);
        next
    }

    fn closed(&mut self, token: usize, why: Option<io::Error>) {
        let was_stopped = self.clients[token].stopped();
        self.clients[token].closed(why.as_ref(), &mut self.shared);
        self.stepped(token, was_stopped);
    }

    fn outgoing(&self, token: usize) -> &[u8] {
        self.clients[token].outgoing()
    }
}

impl<'a, P: Poller> Worker<'a, P> {
    /// A worker whose connections are in `poller` under the tokens 0, 1, 2…; `first` is the number
    /// of the client with token 0.
    pub fn new(
        number: usize,
        first: usize,
        clients: Vec<Client>,
        poller: P,
        mut shared: Shared<'a>,
        timetable: Timetable,
        links: Links,
    ) -> Self {
        shared.deadline = timetable.deadline;
        shared.schedule.begin(timetable.origin);
        let running = clients.len();
        Self {
            number,
            poller,
            load: Load {
                first,
                clients,
                shared,
                running,
            },
            timetable,
            from: timetable.origin,
            to: timetable.interval_end(timetable.origin),
            cpu: thread_cpu(),
            wakeups: 0,
            links,
        }
    }

    /// When clients that have not ended are not waited for any longer.
    fn drained_by(&self) -> Nanos {
        let limit = self.load.shared.spec.drain_limit;
        let ends = self.timetable.deadline.zip(limit);
        ends.map_or(Nanos::MAX, |(deadline, limit)| {
            deadline.saturating_add(limit.as_nanos() as Nanos)
        })
    }

    /// Gives up all clients that still run.
    fn give_up_clients(&mut self) {
        for token in 0..self.load.clients.len() {
            if !self.load.clients[token].stopped() {
                let next = self.load.clients[token].overdue(&mut self.load.shared);
                self.act(token, false, next);
            }
        }
        self.hand_on_errors();
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
        let in_flight = load.clients.iter().filter(|c| c.in_flight()).count();
        let end = WorkerEnd {
            worker: self.number,
            in_flight,
            unstarted,
            aborted: load
                .clients
                .iter()
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
            let next = self.load.clients[token].begin(now, &mut self.load.shared);
            self.act(token, false, next);
        }
        let drained_by = self.drained_by();
        while self.load.running > 0 && !self.load.shared.stopped() {
            let now = self.load.shared.clock.now();
            if now >= drained_by {
                self.give_up_clients();
                break;
            }
            self.wake(now);
            self.connect_clients();
            self.pass_boundaries(now);
            self.hand_on_errors();
            if self.load.running == 0 {
                break;
            }
            let until = self
                .load
                .shared
                .next_timer()
                .unwrap_or(Nanos::MAX)
                .min(self.to);
            let timeout = until.saturating_sub(now).min(LONGEST_WAIT);
            self.poller.wait(Some(timeout), &mut self.load)?;
            self.wakeups += 1;
        }
        Ok(())
    }

    fn act(&mut self, token: usize, was_stopped: bool, next: Next) {
        // before a send, which may find the connection gone and stop the client in its own turn
        self.load.stepped(token, was_stopped);
        match next {
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
            let token = client - self.load.first;
            let was_stopped = self.load.clients[token].stopped();
            let next = self.load.clients[token].woken(now, &mut self.load.shared);
            self.act(token, was_stopped, next);
        }
    }

    /// Makes the connections that clients ask for (-C), one after the other, as pgbench does.
    fn connect_clients(&mut self) {
        while let Some(client) = self.load.shared.next_unconnected() {
            let token = client - self.load.first;
            let since = self.load.shared.clock.now();
            let connected = self.connect(token);
            if self.load.shared.stopped() {
                // it may have been cut short
                return;
            }
            let result = connected.as_ref().copied().map_err(AsRef::as_ref);
            let next = self.load.clients[token].connected(result, since, &mut self.load.shared);
            self.act(token, false, next);
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
        let interval = Interval {
            worker: self.number,
            from: self.from,
            to,
            due: self.to,
            phase: self.timetable.phase(self.from).0,
            clients: self.load.running,
            in_flight: self
                .load
                .clients
                .iter()
                .filter(|client| client.in_flight())
                .count(),
            cpu: cpu - self.cpu,
            wakeups: self.wakeups,
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
        self.wakeups = 0;
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
