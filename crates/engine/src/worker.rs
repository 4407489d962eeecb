//! One thread of the engine: its clients, its poller, its timers and its recorder, without locks.

mod connecting;
mod long_waits;
mod session_changes;
mod shutdown;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Receiver;

use pgdyno_connect::{CancelToken, Dialer, Transport};

use crate::by_token::ByToken;
use crate::client::{Client, Hold};
use crate::clock::{Nanos, SECOND, thread_cpu};
use crate::connections::{Connections, Request};
use crate::health::Health;
use crate::interval::{Interval, Phase};
use crate::outage::Leave;
use crate::phase_state::PhaseState;
use crate::poller::{Handler, Next, Poller};
use crate::recorder::ScriptRecord;
use crate::run_queue::RunQueue;
use crate::shared::Shared;
use crate::timetable::Timetable;
use crate::tls::TlsSessions;
use crate::worker_channel::{WorkerEnd, WorkerMessage, WorkerSender};

pub use self::shutdown::LONGEST_SHUTDOWN;

/// How long a worker waits at most before it checks whether it is to stop.
const LONGEST_WAIT: Nanos = SECOND / 10;

/// A worker whose clients are connected.
pub struct Worker<'a, P> {
    number: usize,
    poller: P,
    load: Load<'a>,
    timetable: Timetable,
    /// Start and end of the current interval.
    from: Nanos,
    to: Nanos,
    cpu: Nanos,
    run_queue: RunQueue,
    /// The thread's total time in the run queue at the start of the current interval.
    waited: Option<Nanos>,
    /// The load of the worker itself in the current interval.
    health: Health,
    links: Links,
    /// Makes connections.
    dialer: Dialer<Request>,
    /// Indexed by token: the sessions that drivers requested; None while they are being made.
    dialed: HashMap<usize, Option<Result<Transport, String>>>,
    /// Messages that found no room and must not be lost: at most one for each phase and client.
    unsent: VecDeque<WorkerMessage>,
    /// When to check next for statements that wait too long; see [`Worker::end_long_waits`].
    next_check: Nanos,
}

/// How a worker and the engine communicate while it runs.
pub struct Links {
    /// To the engine.
    pub messages: WorkerSender,
    /// Emptied records for reuse.
    pub recycled: Receiver<Vec<ScriptRecord>>,
}

/// The clients, as the poller sees them.
struct Load<'a> {
    /// Number of the worker's first client, whose token is 0.
    first_client: usize,
    /// Indexed by token.
    clients: Vec<Client>,
    /// The TLS sessions between clients and poller.
    tls_sessions: TlsSessions,
    /// The keys for cancelling the statements of their sessions.
    cancels: ByToken<CancelToken>,
    shared: Shared<'a>,
    running: usize,
    /// How many pieces of bytes have arrived in this wake-up.
    replies: u64,
}

impl<'a> Load<'a> {
    fn new(clients: Vec<Client>, tls_sessions: TlsSessions, cancels: ByToken<CancelToken>, shared: Shared<'a>) -> Self {
        let first_client = shared.run.spec.clients_of(shared.run.worker).start;
        Self { first_client, running: clients.len(), clients, tls_sessions, cancels, shared, replies: 0 }
    }

    fn away(&self) -> usize {
        let is_away = |client: &&Client| client.is_away() && !client.is_stopped();
        match self.shared.reports.outages {
            Some(_) => self.clients.iter().filter(is_away).count(),
            None => 0,
        }
    }

    fn token(&self, client: usize) -> usize {
        client - self.first_client
    }

    fn transport(&mut self, token: usize, socket: OwnedFd) -> Transport {
        Transport { socket, tls: self.tls_sessions.take(token), cancel: self.cancels.take(token) }
    }

    fn client_parts(&mut self, token: usize) -> Option<(&mut Client, &mut TlsSessions, &mut Shared<'a>)> {
        let client = self.clients.get_mut(token)?;
        Some((client, &mut self.tls_sessions, &mut self.shared))
    }

    /// Runs one step of the client of `token`. Keeps the number of running clients up to date.
    fn step(
        &mut self, token: usize, step: impl FnOnce(&mut Client, &mut TlsSessions, &mut Shared<'_>) -> Next,
    ) -> Next {
        let Some(client) = self.clients.get_mut(token) else {
            return Next::Wait;
        };
        let was_stopped = client.is_stopped();
        let next = step(client, &mut self.tls_sessions, &mut self.shared);
        if !was_stopped && client.is_stopped() {
            self.running -= 1;
            self.leave_outage(token);
        }
        next
    }

    fn leave_outage(&self, token: usize) {
        let Some(outages) = &self.shared.reports.outages else {
            return;
        };
        let Some(client) = self.clients.get(token) else {
            return;
        };
        let now = self.shared.clock.now();
        let is_over = self.shared.run.stops(now);
        if client.is_away() {
            let why = if client.has_aborted() || is_over { Leave::NeverBack } else { Leave::Done };
            outages.lock().record_leave(now, why);
        }
        // at the end of the run they stop one by one, which must not end the outage for the remaining ones
        if !is_over {
            outages.lock().record_stop(now);
        }
    }

    /// The starts that were due by `now`, or by the deadline, and that no client began. With a
    /// number of transactions each start belongs to a client, and none is left.
    fn count_unstarted(&mut self, now: Nanos) -> Vec<u64> {
        let none = vec![0; self.shared.run.spec.phase_count()];
        let Some(deadline) = self.shared.run.deadline else {
            return none;
        };
        let until = deadline.min(now);
        if !self.shared.starts.schedule.is_open() || self.shared.run.driven_sessions {
            return none;
        }
        let mut counts = self.shared.starts.schedule.overdue_by_phase(until);
        let waiting = self.clients.iter();
        let waiting = waiting.filter_map(Client::awaited_start);
        let unclaimed = self.shared.starts.phase_state.as_mut().and_then(PhaseState::take_start);
        for start in waiting.chain(unclaimed).filter(|start| *start <= until) {
            let phase_state = self.shared.starts.phase_state.as_ref();
            counts[phase_state.map_or(0, |phase_state| phase_state.phase(start))] += 1;
        }
        counts
    }
}

impl Handler for Load<'_> {
    fn receive(&mut self, token: usize, bytes: &[u8]) -> Next {
        self.replies += 1;
        self.step(token, |client, tls_sessions, shared| tls_sessions.receive(token, bytes, client, shared))
    }

    fn handle_close(&mut self, token: usize, why: Option<io::Error>) {
        self.step(token, |client, _, shared| {
            client.handle_close(why.as_ref(), shared);
            Next::Wait
        });
    }

    fn awaits(&self, token: usize) -> bool {
        self.clients.get(token).is_some_and(Client::awaits_bytes)
    }

    fn outgoing(&self, token: usize) -> &[u8] {
        match (self.tls_sessions.outgoing(token), self.clients.get(token)) {
            (Some(sealed), _) => sealed,
            (None, Some(client)) => client.outgoing(),
            (None, _) => &[],
        }
    }
}

impl<'a, P: Poller> Worker<'a, P> {
    /// A worker whose `connections` have the tokens 0, 1, 2… in the order of `clients`.
    pub fn new(
        number: usize, clients: Vec<Client>, connections: Connections<P>, mut shared: Shared<'a>, timetable: Timetable,
        links: Links,
    ) -> Self {
        shared.begin(&timetable);
        let run_queue = RunQueue::of_this_thread();
        Self {
            number,
            poller: connections.poller,
            load: Load::new(clients, connections.tls_sessions, connections.cancels, shared),
            from: timetable.origin,
            to: timetable.interval_end(timetable.origin),
            timetable,
            cpu: thread_cpu(),
            waited: run_queue.waited(),
            run_queue,
            health: Health::default(),
            links,
            dialer: connections.dialer,
            dialed: HashMap::new(),
            unsent: VecDeque::new(),
            next_check: 0,
        }
    }

    fn drained_by(&self) -> Nanos {
        let limit = self.load.shared.run.spec.drain_limit;
        let ends = self.timetable.deadline.zip(limit);
        ends.map_or(Nanos::MAX, |(deadline, limit)| deadline.saturating_add(limit.as_nanos() as Nanos))
    }

    /// Aborts all clients that still run. Their connections stay open, because statements are
    /// cancelled before they are closed.
    fn abort_overdue_clients(&mut self) {
        for token in 0..self.load.clients.len() {
            self.load.step(token, |client, _, shared| {
                if !client.is_stopped() {
                    client.abort_overdue(shared);
                }
                Next::Wait
            });
        }
    }

    /// Drives the clients until they have stopped, or the load is stopped.
    pub fn run(mut self) {
        let driven = self.drive().and_then(|holds| self.poller.flush(&mut self.load).map(|()| holds));
        let (holds, failure) = match driven {
            Ok(holds) => (holds, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        let now = self.load.shared.clock.now();
        let clients = self.load.clients.iter();
        let aborted = clients.filter(|client| client.has_aborted()).count();
        // before anything is reported, because the reader may be stuck
        let left_running = self.shut_down(&holds);
        self.close_intervals(now);
        self.report_interval(now.max(self.from), true);
        self.send_notes();
        // the load has ended, and may wait for its reader
        for message in std::mem::take(&mut self.unsent) {
            self.links.messages.send(message);
        }
        let mut load = self.load;
        if now < self.timetable.measure && load.shared.starts.phase_state.is_none() {
            load.shared.results.recorder.errors.clear();
        }
        let unstarted = load.count_unstarted(now);
        let clients = load.clients.iter();
        let in_flight: Vec<(usize, Nanos)> = clients.filter_map(Client::record_in_flight).collect();
        for (record, started) in &in_flight {
            load.shared.add_overrun(*record, *started, now);
        }
        let in_flight: Vec<usize> = in_flight.into_iter().map(|(record, _)| record).collect();
        let away = load.clients.iter().any(Client::is_away);
        let stopped_in_flight = !in_flight.is_empty();
        let ledgers = load.clients.iter_mut();
        let ledgers = ledgers.filter_map(Client::take_ledger).collect();
        let end = WorkerEnd {
            worker: self.number,
            in_flight,
            unstarted,
            aborted,
            left_running,
            measured_until: load.shared.measured_until(now, stopped_in_flight, away),
            overruns: load.shared.results.overruns,
            ledgers,
            ended: load.clients.iter().map(Client::ended).collect(),
            commands: load.shared.results.recorder.commands,
            errors: load.shared.results.recorder.errors,
            connects: load.shared.results.recorder.connects,
            unreported_errors: load.shared.reports.note_limit.dropped,
            failure,
        };
        self.links.messages.send(WorkerMessage::Ended(end));
    }

    fn drive(&mut self) -> io::Result<Vec<(usize, Hold)>> {
        let now = self.load.shared.clock.now();
        if self.load.shared.run.spec.warmup.is_zero() {
            self.load.shared.results.begin_log(now);
        }
        for token in 0..self.load.clients.len() {
            self.step(token, |client, shared| client.begin(now, shared));
        }
        let drained_by = self.drained_by();
        while self.load.running > 0 && !self.load.shared.run.is_stopped() {
            let now = self.load.shared.clock.now();
            if now >= drained_by {
                let holds = self.holds();
                self.abort_overdue_clients();
                return Ok(holds);
            }
            self.wake(now);
            self.connect_clients()?;
            self.change_sessions()?;
            self.end_long_waits(now);
            self.close_intervals(now);
            self.send_notes();
            if self.load.running == 0 {
                break;
            }
            let until = self.load.shared.requests.next_timer().unwrap_or(Nanos::MAX).min(self.to);
            // an instant instead of a timeout, because clients may have taken long since `now` was read
            let until = until.min(now + LONGEST_WAIT).min(self.next_dial());
            self.load.replies = 0;
            self.poller.wait(Some(until), &mut self.load)?;
            self.health.woke(self.load.replies);
        }
        Ok(self.holds())
    }

    fn step(&mut self, token: usize, step: impl FnOnce(&mut Client, &mut Shared<'_>) -> Next) {
        let next = self.load.step(token, |client, tls_sessions, shared| {
            let next = step(client, shared);
            tls_sessions.seal(token, next, client, shared)
        });
        match next {
            Next::Wait => {}
            Next::Send => self.poller.send(token, &mut self.load),
            Next::Close => self.poller.close(token),
        }
    }

    fn wake(&mut self, now: Nanos) {
        for _ in 0..self.load.clients.len() {
            let Some(client) = self.load.shared.requests.due(now) else {
                return;
            };
            self.step(self.load.token(client), |client, shared| client.wake(now, shared));
        }
    }

    fn close_intervals(&mut self, now: Nanos) {
        while now >= self.to {
            let end = self.to;
            let (phase, _) = self.timetable.phase(self.from);
            let (next_phase, _) = self.timetable.phase(end);
            let (planned, next_planned) = (self.timetable.planned(self.from), self.timetable.planned(end));
            self.health.late = now - end;
            self.report_interval(end, phase != next_phase || planned != next_planned);
            // a run with phases separates the warm-up's commands by transaction
            if planned.is_none() && phase == Phase::WarmUp && next_phase != Phase::WarmUp {
                self.load.shared.results.begin_measuring(end);
            }
            self.to = self.timetable.interval_end(end);
        }
    }

    /// Reports what was recorded up to `to`. If the engine is slow to read, the records stay and become part of the
    /// next interval, unless they `must` not, because another phase begins: the load never waits for a reader.
    fn report_interval(&mut self, to: Nanos, must: bool) {
        if to == self.from && self.load.shared.results.recorder.is_empty() {
            return;
        }
        let cpu = thread_cpu();
        let waited = self.run_queue.waited();
        let interval = self.interval(to, cpu, waited);
        if let Some(interval) = self.send_interval(interval, must) {
            self.load.shared.results.recorder.scripts = interval.scripts;
            return;
        }
        self.cpu = cpu;
        self.waited = waited;
        self.health = Health::default();
        self.load.shared.results.stalls.forget(to);
        self.from = to;
    }

    fn interval(&mut self, to: Nanos, cpu: Nanos, waited: Option<Nanos>) -> Interval {
        debug_assert!(self.from <= to && self.cpu <= cpu, "time does not go back");
        debug_assert_eq!(
            self.load.clients.iter().filter(|client| client.in_flight()).count(),
            self.load.shared.results.in_flight,
            "transactions in flight are counted"
        );
        let waited = waited.zip(self.waited);
        let shared = &mut self.load.shared;
        // merged records go to worker 0, whoever filled them: what it does not need would pile up
        let scripts = shared.results.recorder.take(self.links.recycled.try_iter().last());
        Interval {
            worker: self.number,
            from: self.from,
            to,
            due: self.to,
            phase: self.timetable.phase(self.from).0,
            planned: self.timetable.planned(self.from),
            in_flight: self.load.shared.results.in_flight,
            stalls: self.load.shared.results.stalls.within(self.from, to),
            health: Health {
                span: to - self.from,
                cpu: cpu - self.cpu,
                waited: waited.map(|(now, before)| now.saturating_sub(before)),
                clients: self.load.running - self.load.away(),
                ..self.health
            },
            scripts,
        }
    }

    fn send_interval(&mut self, interval: Interval, must: bool) -> Option<Interval> {
        let message = WorkerMessage::Interval(interval);
        match self.offer(message) {
            Some(WorkerMessage::Interval(interval)) if !must => Some(interval),
            unsent => {
                self.unsent.extend(unsent);
                None
            }
        }
    }

    fn offer(&mut self, message: WorkerMessage) -> Option<WorkerMessage> {
        while let Some(first) = self.unsent.pop_front() {
            if let Some(first) = self.links.messages.offer(first) {
                self.unsent.push_front(first);
                return Some(message);
            }
        }
        self.links.messages.offer(message)
    }

    fn send_notes(&mut self) {
        for note in std::mem::take(&mut self.load.shared.reports.notes) {
            let is_last = note.consequence.ends_client();
            let unsent = self.offer(WorkerMessage::Error(note));
            if is_last {
                self.unsent.extend(unsent);
            } else {
                self.load.shared.reports.note_limit.dropped += u64::from(unsent.is_some());
            }
        }
        if std::mem::take(&mut self.load.shared.reports.has_losses) {
            // if the channel is full, the engine checks the tracker soon enough
            let _ = self.links.messages.offer(WorkerMessage::Outage);
        }
    }
}
