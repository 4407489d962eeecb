//! What a client does whose connection is lost, when it is to come back.

use pgdyno_wire::{self as wire, Exchange, TxStatus};

use crate::abort::{Abort, Form};
use crate::client::{Client, State};
use crate::clock::Nanos;
use crate::interval::Consequence;
use crate::ledger::Fate;
use crate::message::Parsed;
use crate::poller::Next;
use crate::reconnect::{Backoff, Refusal};
use crate::recorder::Ending;
use crate::shared::Shared;
use crate::spec::{OnLoss, Sessions};

/// Makes the seeds of waits differ from those of scripts.
const SEED_OF_WAITS: u64 = 0x7265_636f_6e6e_6563;

/// From a lost connection to the first success after it.
#[derive(Debug)]
pub(super) struct Absence {
    is_back: bool,
    backoff: Backoff,
    since: Nanos,
    /// The end of its patience, or of the run.
    gives_up_at: Nanos,
    /// Whether the next transaction was drawn before: it keeps its intended start.
    has_chosen: bool,
    /// Why the last attempt failed.
    refusal: Option<String>,
}

impl Client {
    /// Whether it lost its connection and has no other yet.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.absence
            .as_ref()
            .is_some_and(|absence| !absence.is_back)
    }

    /// While it is away: whether it has drawn the start of its next transaction.
    pub(super) fn waits_away(&self) -> Option<bool> {
        let absence = self.absence.as_ref()?;
        (!absence.is_back).then_some(absence.has_chosen)
    }

    /// Whether the end of its connection is of no matter: it has stopped, it knows already, or, with
    /// a connection a transaction, it is between two of them.
    fn needs_no_connection(&self, shared: &Shared<'_>) -> bool {
        let between_two = shared.reconnects && !self.transaction.begun;
        self.stopped() || self.is_away() || between_two || self.replaces_session()
    }

    /// The connection is gone: a transaction in flight is lost, and another connection is sought.
    /// What the server said last, if it did, says more than `message`.
    pub(super) fn lost(&mut self, message: &str, shared: &mut Shared<'_>) -> Next {
        if self.needs_no_connection(shared) {
            return Next::Close;
        }
        let now = shared.clock.now();
        let in_transaction = self.transaction.begun;
        let sqlstate = self.error.as_deref().map(|error| error.sqlstate());
        if let Some(outages) = &shared.outages {
            let note = || {
                let line = format!("client {} lost its connection", self.id);
                let message = message.to_owned();
                self.error_note(message, vec![line], Consequence::Reconnecting, now, shared)
            };
            let sqlstate = sqlstate.as_ref().map(|state| state.as_str());
            outages.lost(now, in_transaction, sqlstate, note);
            shared.has_losses = true;
        }
        self.lose_turn(now, shared);
        let has_chosen =
            !in_transaction && self.state == State::Scheduled && shared.roster.is_none();
        if in_transaction {
            self.count_lost(now, shared);
        }
        self.forget_session();
        self.go_away(now, has_chosen, shared);
        if self.limit_reached(shared) || shared.stops(now) {
            self.finish(shared);
        } else {
            self.wait_to_connect(now, shared);
        }
        Next::Close
    }

    /// The transaction may have been committed or not: it is not tried again.
    fn count_lost(&mut self, now: Nanos, shared: &mut Shared<'_>) {
        self.settle(Fate::Unknown);
        let latency = now.saturating_sub(self.transaction.intended);
        self.count(Ending::ConnectionLost, latency, now, shared);
        let counts = &mut shared.recorder.scripts[self.record].counts;
        counts.tried(self.transaction.tries);
        let number = shared.spec.programs[self.script]
            .program
            .command_number(self.command);
        if let Some(record) = &mut shared.recorder.commands[self.script][number] {
            record.failures += 1;
        }
        shared.ended(self.record, now);
        self.transaction.begun = false;
    }

    /// Nothing of one session is true of the next.
    pub(super) fn forget_session(&mut self) {
        self.prepared.fill(Parsed::No);
        self.exchange = Exchange::new(wire::Capture::None, false);
        self.captures = false;
        self.completions = false;
        self.out.clear();
        self.forget_fresh();
        self.piped.clear();
        self.statement = None;
        self.batch.clear();
        self.in_pipeline = false;
        self.awaited = 0;
        self.tx_status = TxStatus::Idle;
        self.error = None;
        self.failed = None;
        if let Some(driven) = &mut self.driven {
            driven.forget_session();
        }
    }

    fn go_away(&mut self, now: Nanos, has_chosen: bool, shared: &mut Shared<'_>) {
        let patience = match shared.spec.on_loss {
            OnLoss::Reconnect {
                patience: Some(patience),
            } => patience.as_nanos() as Nanos,
            OnLoss::Reconnect { patience: None } | OnLoss::Abort => Nanos::MAX,
        };
        let deadline = shared.deadline.unwrap_or(Nanos::MAX);
        let gives_up_at = now.saturating_add(patience).min(deadline);
        // one that was back and has not succeeded since goes on with its longer waits
        let backoff = match self.absence.take() {
            Some(absence) => absence.backoff,
            None => Backoff::new(shared.spec.seeds.clients[self.id] ^ SEED_OF_WAITS ^ self.ended),
        };
        self.absence = Some(Box::new(Absence {
            is_back: false,
            backoff,
            since: now,
            gives_up_at,
            has_chosen,
            refusal: None,
        }));
        if gives_up_at < Nanos::MAX {
            shared.wake_at(gives_up_at, self.id);
        }
    }

    fn wait_to_connect(&mut self, now: Nanos, shared: &mut Shared<'_>) {
        self.state = State::Disconnected;
        if let Some(absence) = &mut self.absence {
            let instant = now + absence.backoff.next_wait();
            self.wake_at(instant, shared);
        }
    }

    /// An instant has come while it has no connection.
    pub(super) fn woken_without_connection(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let Some(absence) = self.absence.as_ref().filter(|absence| !absence.is_back) else {
            // its transaction's own connection is on its way
            return Next::Wait;
        };
        if now >= absence.gives_up_at {
            if shared.stops(now) {
                self.finish(shared);
                return Next::Close;
            }
            let waited_s = now.saturating_sub(absence.since) as f64 / 1e9;
            let mut why = Abort::new(
                Form::While,
                format!("reconnecting; there was no connection for {waited_s:.3} s"),
            );
            why.cause = absence.refusal.clone();
            return self.abort(&why, Consequence::ConnectionLost, shared);
        }
        if self.state != State::Disconnected || now < self.wakes_at {
            return Next::Wait;
        }
        if shared.spec.sessions == Sessions::PerTransaction && !absence.has_chosen {
            return self.choose(now, shared);
        }
        self.state = State::Connecting;
        shared.connect(self.id);
        Next::Wait
    }

    /// The connector has a connection for it, or could not make one; `since` is when it was asked.
    pub fn reconnected(
        &mut self,
        result: Result<(), &Refusal>,
        since: Nanos,
        shared: &mut Shared<'_>,
    ) -> Next {
        let now = shared.clock.now();
        match result {
            Err(refusal) => self.not_reconnected(refusal, now, shared),
            Ok(()) => {
                let has_chosen = self.come_back(now, shared);
                if shared.stops(now) {
                    return self.finish(shared);
                }
                if shared.spec.sessions == Sessions::PerTransaction {
                    return self.connected(Ok(()), since, shared);
                }
                self.resume(has_chosen, now, shared)
            }
        }
    }

    fn not_reconnected(&mut self, refusal: &Refusal, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if let Some(outages) = &shared.outages {
            outages.attempt_failed(now, self.is_away());
        }
        if !self.is_away() {
            self.go_away(now, true, shared);
        }
        if !refusal.may_heal {
            let why = Abort::new(Form::While, "establishing connection").because(refusal);
            return self.abort(&why, Consequence::ConnectionLost, shared);
        }
        if let Some(absence) = &mut self.absence {
            absence.has_chosen |= shared.spec.sessions == Sessions::PerTransaction;
            absence.refusal = Some(refusal.words.clone());
        }
        self.wait_to_connect(now, shared);
        Next::Wait
    }

    /// It has a connection again; whether its next transaction was drawn before it was lost.
    fn come_back(&mut self, now: Nanos, shared: &Shared<'_>) -> bool {
        let Some(absence) = self.absence.as_mut().filter(|absence| !absence.is_back) else {
            return false;
        };
        absence.is_back = true;
        if let Some(outages) = &shared.outages {
            outages.back(now);
        }
        absence.has_chosen
    }

    /// Goes on where the loss of the connection left it.
    fn resume(&mut self, has_chosen: bool, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let intended = self.transaction.intended;
        let is_late = shared
            .latency_limit
            .is_some_and(|limit| intended + limit < now);
        if has_chosen && is_late {
            self.count(Ending::Skipped, 0, now, shared);
        }
        if !has_chosen || is_late {
            return self.choose(now, shared);
        }
        if intended > now {
            self.state = State::Scheduled;
            self.wake_at(intended, shared);
            return Next::Wait;
        }
        self.start(now, shared)
    }

    /// A transaction of a client that had been away has succeeded.
    #[cold]
    pub(super) fn end_absence(&mut self, now: Nanos, shared: &Shared<'_>) {
        self.absence = None;
        if let Some(outages) = &shared.outages {
            outages.succeeded(now);
        }
    }
}
