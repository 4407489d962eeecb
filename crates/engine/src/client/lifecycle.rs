//! The lifecycle of a transaction: how a client chooses, begins, ends and counts it.

use pgdyno_script::Value;
use pgdyno_wire::TxStatus;

use crate::client::Client;
use crate::client::state::{Connection, PauseReason, State};
use crate::client_abort::{Abort, Form};
use crate::clock::Nanos;
use crate::commit_ledger::CommitOutcome;
use crate::interval::Consequence;
use crate::log::Entry;
use crate::poller::Next;
use crate::recorder::Ending;
use crate::shared::Shared;
use crate::spec::Window;
use crate::transaction::DriverRun;

impl Client {
    pub(super) fn choose_transaction(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if shared.starts.phase_state.is_some() {
            return self.choose_in_phase(now, shared);
        }
        if shared.run.driven_sessions {
            return self.choose_step(now, shared);
        }
        self.transaction.renew();
        self.transaction.script = shared.starts.choose_script(self.random.choice.as_mut());
        self.transaction.record = self.transaction.script;
        shared.run.debug(|| {
            let name = &shared.run.spec.programs[self.transaction.script].program.name;
            format!("client {} executing script \"{name}\"", self.id)
        });
        if shared.run.pauses
            && let Some(next) = self.start_pause(PauseReason::Keying, now, shared)
        {
            return next;
        }
        let mut intended = shared.starts.schedule.next_start(now);
        if let (true, Some(limit)) = (shared.starts.schedule.is_open(), shared.run.latency_limit) {
            // too late to be worth starting: count it as skipped and draw the next start
            while intended + limit < now
                && shared.run.deadline.is_none_or(|deadline| intended < deadline)
                && !self.limit_reached(shared)
                && !shared.run.is_stopped()
            {
                self.count(Ending::Skipped, 0, now, shared);
                intended = shared.starts.schedule.next_start(now);
            }
            if self.limit_reached(shared) {
                return self.finish(shared);
            }
        }
        if let (true, Some(deadline)) = (shared.starts.schedule.is_open(), shared.run.deadline)
            && intended >= deadline
        {
            return self.after_last_start(deadline, now, shared);
        }
        self.transaction.intended = intended;
        if intended > now {
            self.enter(State::Paused(PauseReason::Schedule));
            self.sleep_until(intended, shared);
            return Next::Wait;
        }
        self.begin_transaction(now, shared)
    }

    pub(super) fn after_last_start(&mut self, deadline: Nanos, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if now >= deadline || shared.run.spec.window == Window::ToLastTransaction {
            return self.finish(shared);
        }
        self.enter(State::Paused(PauseReason::Rest));
        self.wake_at(deadline, shared);
        Next::Wait
    }

    pub(super) fn begin_transaction(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if shared.run.reconnects {
            self.enter(State::Unconnected(Connection::Requested));
            shared.requests.connect(self.id);
            return Next::Wait;
        }
        self.start_transaction(now, shared)
    }

    pub(super) fn start_transaction(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.transaction.begin(now);
        shared.results.in_flight += 1;
        if shared.run.spec.tries.may_retry() {
            self.transaction.rng = Some(self.random.functions);
        }
        if let (Some(own), Some(ledger)) = (&self.ledger, &shared.run.spec.ledger) {
            let number = Value::Int(own.next().cast_signed());
            self.vars.set_value(ledger.slot(), number);
        }
        self.run(now, shared)
    }

    pub(super) fn count(&mut self, ending: Ending, latency: Nanos, now: Nanos, shared: &mut Shared<'_>) {
        shared.results.recorder.transaction(self.transaction.record, ending, latency);
        self.ended += 1;
        let lag = match ending {
            // what connecting takes is the server's
            Ending::Succeeded if shared.run.reconnects => {
                self.transaction.dialed.saturating_sub(self.transaction.intended)
            }
            Ending::Succeeded => self.transaction.started.saturating_sub(self.transaction.intended),
            _ => 0,
        };
        if ending == Ending::Succeeded && shared.starts.schedule.is_open() {
            shared.results.recorder.scripts[self.transaction.record].lag.record(lag);
        }
        let entry = || Entry {
            client: self.id,
            number: self.ended,
            script: self.transaction.script,
            ending,
            latency,
            lag,
            retries: self.transaction.tries.saturating_sub(1),
        };
        if shared.starts.counts(self.transaction.record) {
            shared.results.log(entry, now);
        }
    }

    pub(super) fn end_transaction(&mut self, ending: Ending, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.settle(match (ending, self.session.tx_status()) {
            (Ending::Succeeded, TxStatus::Idle) => CommitOutcome::Acknowledged,
            (Ending::Succeeded, _) => CommitOutcome::Unknown,
            _ => CommitOutcome::Refused,
        });
        let latency = now.saturating_sub(self.transaction.intended);
        self.count(ending, latency, now, shared);
        let counts = &mut shared.results.recorder.scripts[self.transaction.record].counts;
        if ending == Ending::Succeeded && shared.run.latency_limit.is_some_and(|limit| latency > limit) {
            counts.late += 1;
        }
        counts.tried(self.transaction.tries);
        shared.end_transaction(self.transaction.record, self.transaction.started, now);
        self.transaction.begun = false;
        if ending == Ending::Succeeded {
            shared.results.stalls.record_success(now);
            if self.absence.is_some() {
                self.end_absence(now, shared);
            }
        }
        self.continue_after_transaction(now, shared)
    }

    #[inline]
    fn continue_after_transaction(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if self.session.tx_status() != TxStatus::Idle && !self.transaction.is_driven() {
            let open = "end of script reached without completing the last transaction";
            let why = Abort::new(Form::AtEnd, open);
            return self.abort(&why, Consequence::ClientAborted, shared);
        }
        if self.limit_reached(shared) || shared.run.stops(now) {
            return self.finish(shared);
        }
        if shared.run.pauses
            && !shared.run.reconnects
            && let Some(next) = self.start_pause(PauseReason::Thinking, now, shared)
        {
            return next;
        }
        if shared.run.reconnects {
            return self.end_session(now, shared);
        }
        if !self.transaction.waited && !self.transaction.driver_mut().is_some_and(DriverRun::goes_on_silently) {
            // a script without SQL must let other clients run, and must notice the deadline
            self.enter(State::Paused(PauseReason::Yield));
            self.wake_at(now, shared);
            return Next::Wait;
        }
        self.choose_transaction(now, shared)
    }

    /// Ends the session, because the next transaction has a connection of its own.
    pub(super) fn end_session(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.pause_before_connecting(now, shared);
        self.session.terminate();
        Next::Send
    }

    pub(super) fn pause_before_connecting(&mut self, now: Nanos, shared: &mut Shared<'_>) {
        if !(shared.run.pauses && self.start_pause(PauseReason::Thinking, now, shared).is_some()) {
            self.enter(State::Paused(PauseReason::Yield));
            self.wake_at(now, shared);
        }
    }
}
