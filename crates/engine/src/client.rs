//! One client's state machine: bytes and instants in, the next step out. It does no I/O.
//!
//! Its [`Session`] is the exchange with the server, its [`Transaction`] what it runs there, and its
//! [`State`] what it waits for.

mod auto_pipeline;
mod commands;
mod driver_requests;
mod failures;
mod lifecycle;
mod next_transaction;
mod pauses;
mod reconnect;
mod session_changes;
mod shutdown;
mod state;
mod steps;

use std::sync::Arc;

use pgdyno_script::{Rng, Value, Vars};
use pgdyno_wire::ServerError;

pub use self::state::Hold;
use self::state::{Awaited, Connection, PauseReason, State};
pub use self::steps::Overdue;
use crate::client_abort::{Abort, Form};
use crate::clock::Nanos;
use crate::commit_ledger::{ClientLedger, CommitOutcome};
use crate::connect_record::Attempt;
use crate::driver::Event;
use crate::interval::Consequence;
use crate::pacing;
use crate::poller::Next;
use crate::reconnect::{Absence, Refusal, describe_disconnect, ends_session};
use crate::recorder::Ending;
use crate::session::{Received, Session};
use crate::shared::{AfterLoss, Shared};
use crate::spec::{Initial, Limit, Spec};
use crate::transaction::{DriverRun, Mode, Transaction};

/// How the end of the server's process between two messages is reported.
const BACKEND_DIED: &str = "perhaps the backend died while processing";
/// How a failure in [`Awaited::Rollback`] is reported.
const ROLLING_BACK: &str = "rolling back the transaction after an error";

/// One client of the load.
#[derive(Debug)]
pub struct Client {
    id: usize,
    state: State,
    session: Session,
    transaction: Transaction,
    vars: Vars,
    random: Random,
    /// How many transactions have ended.
    ended: u64,
    /// The instant that the client waits for. The timer of a lost transaction may come before it.
    wakes_at: Nanos,
    /// Present from a lost connection to the first success after it.
    absence: Option<Box<Absence>>,
    /// What became of its transactions (--ledger).
    ledger: Option<Box<ClientLedger>>,
}

#[derive(Debug)]
struct Random {
    /// Used by the functions of scripts.
    functions: Rng,
    /// Chooses scripts; None if the worker chooses.
    choice: Option<Rng>,
    /// Draws keying and think times.
    pacing: Rng,
}

impl Random {
    fn new(id: usize, spec: &Spec) -> Self {
        let seeds = &spec.seeds;
        Self {
            functions: Rng::seed(seeds.clients[id]),
            choice: seeds.choice_of_clients.get(id).copied().map(Rng::seed),
            pacing: pacing::rng(seeds.clients[id]),
        }
    }
}

fn initial_vars(id: usize, spec: &Spec) -> Vars {
    let mut vars = Vars::new(Arc::clone(&spec.symbols));
    for (slot, initial) in &spec.initial {
        match initial {
            Initial::Text(text) => vars.set_text(*slot, text.as_bytes()),
            Initial::Int(value) => vars.set_value(*slot, Value::Int(*value)),
            Initial::ClientId => vars.set_value(*slot, Value::Int(id as i64)),
        }
    }
    vars
}

impl Client {
    /// Client number `id`, before its first transaction.
    pub fn new(id: usize, shared: &Shared<'_>) -> Self {
        let spec = shared.run.spec;
        let mode = match &spec.drivers {
            Some(drivers) => {
                let driver = drivers.driver(shared.run.worker, id);
                Mode::Driver(Box::new(DriverRun::new(driver)))
            }
            None => Mode::Script { statement: None },
        };
        Self {
            id,
            state: State::Paused(PauseReason::Schedule),
            session: Session::new(shared.run.statements()),
            transaction: Transaction::new(mode),
            vars: initial_vars(id, spec),
            random: Random::new(id, spec),
            ended: 0,
            wakes_at: 0,
            absence: None,
            ledger: spec.ledger.as_ref().map(|_| Box::new(ClientLedger::new(id))),
        }
    }

    fn enter(&mut self, state: State) {
        match state {
            State::Paused(_) | State::Unconnected(_) => {
                debug_assert!(!self.transaction.begun, "{state:?} in a transaction");
            }
            State::Running(Awaited::Preparation | Awaited::Answer | Awaited::Rollback(_)) | State::Stopping => {
                debug_assert!(self.session.awaits_answer(), "{state:?} without an answer");
            }
            State::Running(Awaited::SessionChange(_)) => {
                debug_assert!(self.transaction.is_driven(), "{state:?} without a driver");
            }
            State::Running(Awaited::Sleep) | State::Finished | State::Aborted => {}
        }
        debug_assert!(
            !self.is_stopped() || matches!(state, State::Aborted | State::Stopping),
            "{state:?} after {:?}",
            self.state
        );
        self.state = state;
    }

    pub fn outgoing(&self) -> &[u8] {
        self.session.outgoing()
    }

    pub fn in_flight(&self) -> bool {
        self.transaction.begun
    }

    #[inline]
    pub fn awaits_bytes(&self) -> bool {
        self.session.awaits_answer() || matches!(self.state, State::Unconnected(_))
    }

    /// The start that the client waits for: drawn from the schedule, and not begun.
    pub fn awaited_start(&self) -> Option<Nanos> {
        let waits = match self.waits_away() {
            Some(has_chosen) => has_chosen,
            None => {
                matches!(self.state, State::Paused(PauseReason::Schedule) | State::Unconnected(Connection::Requested))
            }
        };
        waits.then_some(self.transaction.intended)
    }

    /// Number of the record for the current transaction, and when that began.
    pub fn record_in_flight(&self) -> Option<(usize, Nanos)> {
        self.in_flight().then_some((self.transaction.record, self.transaction.started))
    }

    /// Takes the client's part of the ledger; a transaction in flight counts as unanswered.
    pub fn take_ledger(&mut self) -> Option<ClientLedger> {
        self.settle(CommitOutcome::Unknown);
        self.ledger.take().map(|ledger| *ledger)
    }

    fn settle(&mut self, fate: CommitOutcome) {
        if let Some(ledger) = &mut self.ledger {
            ledger.settle(fate);
        }
    }

    pub fn is_stopped(&self) -> bool {
        matches!(self.state, State::Finished | State::Aborted)
    }

    pub fn has_aborted(&self) -> bool {
        self.state == State::Aborted
    }

    /// Begins the first transaction, after all clients have connected.
    pub fn begin(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if self.transaction.is_driven() {
            return self.open_driver(now, shared);
        }
        self.choose_transaction(now, shared)
    }

    /// How many transactions have ended, including those of the warm-up.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    pub fn id(&self) -> usize {
        self.id
    }

    pub fn wake(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        match self.state {
            State::Unconnected(_) => self.wake_without_connection(now, shared),
            _ if now < self.wakes_at => Next::Wait,
            State::Paused(pause) => self.resume_from(pause, now, shared),
            State::Running(Awaited::SessionChange(_)) => {
                shared.requests.change_session(self.id);
                Next::Wait
            }
            State::Running(Awaited::Sleep) if self.transaction.is_driven() => self.drive(Event::Woken, now, shared),
            State::Running(Awaited::Sleep) => {
                self.end_command(now, shared);
                self.run(now, shared)
            }
            State::Running(Awaited::Preparation | Awaited::Answer | Awaited::Rollback(_))
            | State::Stopping
            | State::Finished
            | State::Aborted => Next::Wait,
        }
    }

    fn resume_from(&mut self, pause: PauseReason, now: Nanos, shared: &mut Shared<'_>) -> Next {
        match pause {
            PauseReason::Yield | PauseReason::StandBy | PauseReason::Rest => self.choose_transaction(now, shared),
            PauseReason::Schedule if shared.run.driven_sessions => self.take_step(now, shared),
            PauseReason::Schedule if shared.starts.phase_state.is_some() => self.begin_turn(now, shared),
            PauseReason::Schedule => self.begin_transaction(now, shared),
            PauseReason::Keying | PauseReason::Thinking => self.end_pause(pause, now, shared),
        }
    }

    pub fn receive(&mut self, bytes: &[u8], shared: &mut Shared<'_>) -> Next {
        if self.state == State::Stopping {
            return self.received_while_stopping(bytes, shared);
        }
        // an error that arrived between an answer and the sending of this batch: the batch is sent now
        if self.session.error().is_some() && self.transaction.mode.awaits_batch() {
            self.assign_batched_error();
        }
        let mut input = bytes;
        let mut now = None;
        let mut next = Next::Wait;
        let mut copies = false;
        loop {
            let is_unsent = next == Next::Send;
            let symbols = &shared.run.spec.symbols;
            match self.session.receive(&mut input, is_unsent, symbols) {
                Ok(None) if copies => return self.end_copy(shared),
                Ok(None) => return next,
                Ok(Some(Received::Ready)) => {
                    if self.count_ready(&mut now, shared) {
                        copies = false;
                        next = self.handle_answers(shared);
                        // a notice, a part of one, or the reason for a disconnect may follow
                        if input.is_empty() || next == Next::Close {
                            return next;
                        }
                    }
                }
                Ok(Some(Received::Error)) => {
                    // a client that gives up reports the end of the connection itself
                    if self.session.error().is_some_and(ends_session) && shared.run.after_loss != AfterLoss::Abort {
                        return self.lose_connection("", || Abort::command("SQL", BACKEND_DIED), shared);
                    }
                    if !is_unsent && self.transaction.mode.awaits_batch() {
                        self.assign_batched_error();
                    }
                }
                Ok(Some(Received::CopyIn)) => copies = true,
                Ok(Some(Received::Notice(notice))) => self.print_notice(&notice, shared),
                Ok(Some(Received::Result)) => {
                    if !is_unsent && self.transaction.mode.awaits_batch() {
                        self.end_batched_result(false, &mut now, shared);
                    }
                }
                Ok(Some(Received::Other)) => {}
                Err(broken) => return self.report_violation(next, &broken.to_string(), shared),
            }
        }
    }

    /// Handles a ReadyForQuery; returns whether it answers everything that was sent.
    #[inline]
    fn count_ready(&mut self, now: &mut Option<Nanos>, shared: &mut Shared<'_>) -> bool {
        if self.state == State::Running(Awaited::Preparation) {
            self.report_unprepared(shared);
        }
        let is_answered = self.session.count_answer();
        if self.transaction.mode.awaits_batch() {
            self.end_batched_result(true, now, shared);
        }
        is_answered
    }

    #[cold]
    fn report_violation(&mut self, next: Next, broken: &str, shared: &mut Shared<'_>) -> Next {
        if self.is_stopped() {
            return next;
        }
        self.lose_connection(broken, || Abort::command("SQL", broken), shared)
    }

    fn end_copy(&mut self, shared: &Shared<'_>) -> Next {
        let out = self.session.begin_messages();
        let is_simple = match self.transaction.driver_mut() {
            Some(driver) => {
                driver.driver.copy_data(out);
                !driver.asked.is_extended
            }
            None => shared.run.is_simple,
        };
        self.session.end_copy(is_simple);
        Next::Send
    }

    pub fn handle_close(&mut self, why: Option<&std::io::Error>, shared: &mut Shared<'_>) {
        let is_rollback = matches!(self.state, State::Running(Awaited::Rollback(_)));
        let abort = || Abort {
            cause: why.map(|error| describe_disconnect(Some(error))),
            ..if is_rollback {
                Abort::new(Form::While, format!("{ROLLING_BACK}; {BACKEND_DIED}"))
            } else {
                Abort::command("SQL", BACKEND_DIED)
            }
        };
        self.lose_connection(&describe_disconnect(why), abort, shared);
    }

    /// Handles the loss of the connection, whatever shows it. A client that reconnects or continues
    /// without a session reports the server's error, or `message`; one that gives up reports `abort`.
    #[cold]
    pub fn lose_connection(&mut self, message: &str, abort: impl FnOnce() -> Abort, shared: &mut Shared<'_>) -> Next {
        if self.expects_no_session(shared) {
            return Next::Close;
        }
        match shared.run.after_loss {
            AfterLoss::Reconnect => self.begin_outage(message, shared),
            AfterLoss::EndTransaction => self.fail_lost_transaction(message, shared),
            AfterLoss::EndSession => self.end_lost_session(message, shared),
            AfterLoss::Abort => self.abort(&abort(), Consequence::ConnectionLost, shared),
        }
    }

    fn expects_no_session(&self, shared: &Shared<'_>) -> bool {
        let has_none = if shared.run.driven_sessions {
            !self.has_driven_session()
        } else {
            shared.run.reconnects && !self.transaction.begun
        };
        self.is_stopped() || self.is_away() || has_none || self.replaces_session()
    }

    /// Handles the connection that the client requested, or the failure to make it.
    pub fn handle_connection(&mut self, result: Result<(), &Refusal>, made: &Attempt, shared: &mut Shared<'_>) -> Next {
        let now = shared.clock.now();
        self.transaction.dialed = made.began;
        if let Err(refusal) = result {
            if shared.run.after_loss == AfterLoss::EndTransaction {
                return self.fail_refused_transaction(refusal, now, shared);
            }
            let why = Abort::new(Form::While, "establishing connection").because(refusal);
            return self.abort(&why, Consequence::ConnectionLost, shared);
        }
        shared.record_connection(self.transaction.record, made);
        self.forget_session();
        if !shared.starts.schedule.is_open() {
            self.transaction.intended = now;
        }
        self.start_transaction(now, shared)
    }

    /// Waits until `instant`, exactly.
    fn wake_at(&mut self, instant: Nanos, shared: &mut Shared<'_>) {
        self.wakes_at = instant;
        shared.requests.wake_at(instant, self.id);
    }

    fn sleep_until(&mut self, instant: Nanos, shared: &mut Shared<'_>) {
        self.wakes_at = instant;
        shared.requests.sleep_until(instant, self.id);
    }

    fn limit_reached(&self, shared: &Shared<'_>) -> bool {
        matches!(shared.run.spec.limit, Limit::Transactions(most) if self.ended >= most)
    }

    fn finish(&mut self, shared: &mut Shared<'_>) -> Next {
        if let Some(next) = self.close_driver(shared) {
            return next;
        }
        self.enter(State::Finished);
        self.session.terminate();
        Next::Send
    }

    fn handle_answers(&mut self, shared: &mut Shared<'_>) -> Next {
        let now = shared.clock.now();
        self.transaction.waited = true;
        if self.state != State::Running(Awaited::Preparation) {
            shared.run.debug(|| format!("client {} receiving", self.id));
        }
        match self.state {
            State::Running(Awaited::Answer) => match self.transaction.mode {
                Mode::Driver(_) => self.pass_answer(now, shared),
                Mode::Batch(_) => self.finish_batch(now, shared),
                Mode::Script { .. } | Mode::Pipeline { .. } => self.finish_statement(now, shared),
            },
            State::Running(Awaited::Preparation) => self.finish_preparation(now, shared),
            State::Running(Awaited::Rollback(ending)) => self.finish_rollback(ending, now, shared),
            State::Running(Awaited::Sleep | Awaited::SessionChange(_))
            | State::Paused(_)
            | State::Unconnected(_)
            | State::Stopping
            | State::Finished
            | State::Aborted => Next::Wait,
        }
    }

    fn finish_statement(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if self.session.error().is_some() {
            return self.fail_statement(now, shared);
        }
        self.session.confirm_prepared();
        self.end_command(now, shared);
        self.assign_and_run(now, shared)
    }

    fn assign_and_run(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let rows = self.session.rows_mut();
        match rows.assign(&mut self.vars, &shared.run.spec.symbols) {
            Ok(()) => self.run(now, shared),
            Err(why) => self.abort(&why, Consequence::ClientAborted, shared),
        }
    }

    fn finish_rollback(&mut self, ending: Ending, now: Nanos, shared: &mut Shared<'_>) -> Next {
        match self.session.error().map(ServerError::to_string) {
            Some(error) => {
                let why = Abort::new(Form::While, format!("{ROLLING_BACK}; {error}"));
                self.abort(&why, Consequence::ClientAborted, shared)
            }
            None => self.after_failure(ending, now, shared),
        }
    }
}
