//! What a client does after it lost its connection, if it is to reconnect.

use pgdyno_wire::ServerError;

use crate::client::Client;
use crate::client::state::{Connection, PauseReason, State};
use crate::client_abort::{Abort, Form};
use crate::clock::{Nanos, SECOND};
use crate::commit_ledger::CommitOutcome;
use crate::connect_record::Attempt;
use crate::interval::Consequence;
use crate::poller::Next;
use crate::reconnect::{Absence, Backoff, Refusal};
use crate::recorder::Ending;
use crate::shared::Shared;
use crate::spec::{OnLoss, Sessions};

/// Makes the seeds of waiting times differ from those of scripts.
const SEED_OF_WAITS: u64 = 0x7265_636f_6e6e_6563;

/// How long a client tries to open the session that its driver requests.
const SESSION_PATIENCE: Nanos = 60 * SECOND;

impl Client {
    /// Whether the client has lost its connection and not replaced it yet.
    pub fn is_away(&self) -> bool {
        self.absence.as_ref().is_some_and(|absence| !absence.is_back)
    }

    pub(super) fn waits_away(&self) -> Option<bool> {
        let absence = self.absence.as_ref()?;
        (!absence.is_back).then_some(absence.has_chosen)
    }

    /// Counts a transaction in flight as lost, and requests another connection. If the server sent
    /// an error, that is reported in place of `message`.
    pub(super) fn begin_outage(&mut self, message: &str, shared: &mut Shared<'_>) -> Next {
        let now = shared.clock.now();
        let in_transaction = self.transaction.begun;
        let sqlstate = self.session.error().map(ServerError::sqlstate);
        if let Some(outages) = &shared.reports.outages {
            let note = || {
                let line = format!("client {} lost its connection", self.id);
                let message = message.to_owned();
                self.error_note(message, vec![line], Consequence::Reconnecting, now, shared)
            };
            let sqlstate = sqlstate.as_ref().map(|state| state.as_str());
            outages.lock().record_loss(now, in_transaction, sqlstate, note);
            shared.reports.has_losses = true;
        }
        self.pass_turn_after_loss(now, shared);
        let has_chosen = !in_transaction
            && self.state == State::Paused(PauseReason::Schedule)
            && shared.starts.phase_state.is_none();
        if in_transaction {
            self.count_lost(now, shared);
        }
        self.forget_session();
        self.begin_absence(now, has_chosen, shared);
        if self.limit_reached(shared) || shared.run.stops(now) {
            self.finish(shared);
        } else {
            self.wait_to_connect(now, shared);
        }
        Next::Close
    }

    /// Counts the transaction as lost. It may have been committed, so it is not retried.
    pub(super) fn count_lost(&mut self, now: Nanos, shared: &mut Shared<'_>) {
        self.settle(CommitOutcome::Unknown);
        let latency = now.saturating_sub(self.transaction.intended);
        self.count(Ending::ConnectionLost, latency, now, shared);
        let counts = &mut shared.results.recorder.scripts[self.transaction.record].counts;
        counts.tried(self.transaction.tries);
        let number = self.command_number(shared);
        if let Some(record) = &mut shared.results.recorder.commands[self.transaction.script][number] {
            record.failures += 1;
        }
        shared.end_transaction(self.transaction.record, self.transaction.started, now);
        self.transaction.begun = false;
    }

    pub(super) fn forget_session(&mut self) {
        self.session.reset();
        self.transaction.mode.forget_session();
        self.transaction.failed = None;
    }

    /// Counts the transaction as failed whose connection was lost, and continues with the next.
    pub(super) fn fail_lost_transaction(&mut self, message: &str, shared: &mut Shared<'_>) -> Next {
        let now = shared.clock.now();
        self.count_error(message, shared);
        if shared.reports.note_limit.admits(now) {
            let line = format!("client {} lost its connection", self.id);
            self.note(message.to_owned(), vec![line], Consequence::Failed, now, shared);
        }
        self.count_lost(now, shared);
        self.forget_session();
        self.continue_without_session(now, shared)
    }

    /// Counts the transaction as failed for which there is no connection, and continues with the next.
    pub(super) fn fail_refused_transaction(&mut self, refusal: &Refusal, now: Nanos, shared: &mut Shared<'_>) -> Next {
        shared.count_refusal(self.transaction.record, refusal.sqlstate, &refusal.cause);
        if shared.reports.note_limit.admits(now) {
            let line = format!("client {} has no connection: {}", self.id, refusal.message);
            let mut note = self.error_note(refusal.cause.clone(), vec![line], Consequence::Failed, now, shared);
            note.sqlstate = refusal.sqlstate.map(|state| state.as_str().to_owned());
            shared.reports.notes.push(note);
        }
        self.count(Ending::OtherFailure, 0, now, shared);
        shared.results.last_end = now;
        self.continue_without_session(now, shared)
    }

    fn continue_without_session(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if self.limit_reached(shared) || shared.run.stops(now) {
            self.finish(shared);
        } else {
            self.pause_before_connecting(now, shared);
        }
        Next::Close
    }

    fn begin_absence(&mut self, now: Nanos, has_chosen: bool, shared: &mut Shared<'_>) {
        let patience = match shared.run.spec.on_loss {
            OnLoss::Reconnect { patience: Some(patience) } => patience.as_nanos() as Nanos,
            // a session that a driver opens
            OnLoss::Abort | OnLoss::Count => SESSION_PATIENCE,
            OnLoss::Reconnect { patience: None } => Nanos::MAX,
        };
        let deadline = shared.run.deadline.unwrap_or(Nanos::MAX);
        let gives_up_at = now.saturating_add(patience).min(deadline);
        // a client that reconnected and has not succeeded since continues with its longer waits
        let backoff = match self.absence.take() {
            Some(absence) => absence.backoff,
            None => Backoff::new(shared.run.spec.seeds.clients[self.id] ^ SEED_OF_WAITS ^ self.ended),
        };
        self.absence =
            Some(Box::new(Absence { is_back: false, backoff, since: now, gives_up_at, has_chosen, refusal: None }));
        if gives_up_at < Nanos::MAX {
            shared.requests.wake_at(gives_up_at, self.id);
        }
    }

    fn wait_to_connect(&mut self, now: Nanos, shared: &mut Shared<'_>) {
        self.enter(State::Unconnected(Connection::BackingOff));
        if let Some(absence) = &mut self.absence {
            let instant = now + absence.backoff.next_wait();
            self.wake_at(instant, shared);
        }
    }

    pub(super) fn wake_without_connection(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let Some(absence) = self.absence.as_ref().filter(|absence| !absence.is_back) else {
            // the connection of its transaction is being made
            return Next::Wait;
        };
        if now >= absence.gives_up_at {
            if shared.run.stops(now) {
                self.finish(shared);
                return Next::Close;
            }
            let what = if shared.run.driven_sessions { "opening a session" } else { "reconnecting" };
            let waited_s = now.saturating_sub(absence.since) as f64 / 1e9;
            let mut why = Abort::new(Form::While, format!("{what}; there was no connection for {waited_s:.3} s"));
            why.cause = absence.refusal.clone();
            return self.abort(&why, Consequence::ConnectionLost, shared);
        }
        if self.state != State::Unconnected(Connection::BackingOff) || now < self.wakes_at {
            return Next::Wait;
        }
        if shared.run.spec.sessions == Sessions::PerTransaction && !absence.has_chosen {
            return self.choose_transaction(now, shared);
        }
        self.enter(State::Unconnected(Connection::Requested));
        shared.requests.connect(self.id);
        Next::Wait
    }

    /// Handles the connector's result, a connection or the reason for the failure.
    pub fn handle_reconnection(
        &mut self, result: Result<(), &Refusal>, made: &Attempt, shared: &mut Shared<'_>,
    ) -> Next {
        let now = shared.clock.now();
        match result {
            Err(refusal) => self.handle_failed_reconnect(refusal, now, shared),
            Ok(()) => {
                let has_chosen = self.return_from_absence(now, shared);
                if shared.run.stops(now) {
                    return self.finish(shared);
                }
                if shared.run.spec.sessions == Sessions::PerTransaction {
                    return self.handle_connection(Ok(()), made, shared);
                }
                if shared.run.driven_sessions {
                    return self.begin_opened_session(made.took, now, shared);
                }
                self.resume(has_chosen, now, shared)
            }
        }
    }

    fn handle_failed_reconnect(&mut self, refusal: &Refusal, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if let Some(outages) = &shared.reports.outages {
            outages.lock().record_failed_attempt(now, self.is_away());
        }
        if !self.is_away() {
            self.begin_absence(now, true, shared);
        }
        if !refusal.is_transient {
            let why = Abort::new(Form::While, "establishing connection").because(refusal);
            return self.abort(&why, Consequence::ConnectionLost, shared);
        }
        if let Some(absence) = &mut self.absence {
            absence.has_chosen |= shared.run.spec.sessions == Sessions::PerTransaction;
            absence.refusal = Some(refusal.message.clone());
        }
        self.wait_to_connect(now, shared);
        Next::Wait
    }

    /// Continues with the new connection; returns whether the start of its next transaction was drawn before the loss.
    fn return_from_absence(&mut self, now: Nanos, shared: &Shared<'_>) -> bool {
        let Some(absence) = self.absence.as_mut().filter(|absence| !absence.is_back) else {
            return false;
        };
        absence.is_back = true;
        if let Some(outages) = &shared.reports.outages {
            outages.lock().record_return(now);
        }
        absence.has_chosen
    }

    fn resume(&mut self, has_chosen: bool, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let intended = self.transaction.intended;
        let is_late = shared.run.latency_limit.is_some_and(|limit| intended + limit < now);
        if has_chosen && is_late {
            self.count(Ending::Skipped, 0, now, shared);
        }
        if !has_chosen || is_late {
            return self.choose_transaction(now, shared);
        }
        if intended > now {
            self.enter(State::Paused(PauseReason::Schedule));
            self.wake_at(intended, shared);
            return Next::Wait;
        }
        self.start_transaction(now, shared)
    }

    #[cold]
    pub(super) fn end_absence(&mut self, now: Nanos, shared: &Shared<'_>) {
        self.absence = None;
        if let Some(outages) = &shared.reports.outages {
            outages.lock().record_success(now);
        }
    }
}
