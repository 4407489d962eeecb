//! The life of a transaction: chosen, begun, ended, counted.

use pgdyno_script::Value;
use pgdyno_wire::{TxStatus, frontend};

use crate::abort::{Abort, Form};
use crate::client::{Client, State, Transaction};
use crate::clock::Nanos;
use crate::interval::Consequence;
use crate::ledger::Fate;
use crate::log::Entry;
use crate::poller::Next;
use crate::recorder::Ending;
use crate::shared::Shared;
use crate::spec::Window;

impl Client {
    pub(super) fn choose(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if shared.roster.is_some() {
            return self.choose_in_phase(now, shared);
        }
        if shared.departures.wants(self.id) {
            return self.depart(shared);
        }
        self.transaction = Transaction::default();
        self.script = shared.choose_script(self.choice.as_mut());
        self.record = self.script;
        shared.debug(|| {
            let name = &shared.spec.programs[self.script].program.name;
            format!("client {} executing script \"{name}\"", self.id)
        });
        if shared.pauses
            && let Some(next) = self.key(now, shared)
        {
            return next;
        }
        let mut intended = shared.schedule.next_start(now);
        if let (true, Some(limit)) = (shared.schedule.is_open(), shared.latency_limit) {
            // too late to be worth starting: count it and take the next
            while intended + limit < now
                && shared.deadline.is_none_or(|deadline| intended <= deadline)
                && !self.limit_reached(shared)
                && !shared.stopped()
            {
                self.count(Ending::Skipped, 0, now, shared);
                intended = shared.schedule.next_start(now);
            }
            if self.limit_reached(shared) {
                return self.finish(shared);
            }
        }
        if let (true, Some(deadline)) = (shared.schedule.is_open(), shared.deadline)
            && intended > deadline
        {
            return self.after_last_start(deadline, now, shared);
        }
        self.transaction.intended = intended;
        if intended > now {
            self.state = State::Scheduled;
            self.sleep_until(intended, shared);
            return Next::Wait;
        }
        self.begin_transaction(now, shared)
    }

    /// It has no start before the deadline any more.
    fn after_last_start(&mut self, deadline: Nanos, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if now >= deadline || shared.spec.window == Window::ToLastTransaction {
            return self.finish(shared);
        }
        self.state = State::Resting;
        self.wake_at(deadline, shared);
        Next::Wait
    }

    pub(super) fn begin_transaction(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if shared.reconnects {
            self.state = State::Connecting;
            shared.connect(self.id);
            return Next::Wait;
        }
        self.start(now, shared)
    }

    pub(super) fn start(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.transaction.begun = true;
        self.transaction.started = now;
        self.transaction.tries = 1;
        if shared.spec.tries.may_retry() {
            self.transaction.rng = Some(self.rng);
        }
        if let (Some(page), Some(ledger)) = (&self.page, &shared.spec.ledger) {
            let number = Value::Int(page.next().cast_signed());
            self.vars.set_value(ledger.slot(), number);
        }
        self.at = 0;
        self.run(now, shared)
    }

    /// Counts and logs a transaction.
    pub(super) fn count(
        &mut self,
        ending: Ending,
        latency: Nanos,
        now: Nanos,
        shared: &mut Shared<'_>,
    ) {
        shared.recorder.transaction(self.record, ending, latency);
        self.ended += 1;
        let lag = match ending {
            Ending::Succeeded => self
                .transaction
                .started
                .saturating_sub(self.transaction.intended),
            _ => 0,
        };
        if ending == Ending::Succeeded && shared.schedule.is_open() {
            shared.recorder.scripts[self.record].lag.record(lag);
        }
        let entry = || Entry {
            client: self.id,
            number: self.ended,
            script: self.script,
            ending,
            latency,
            lag,
            retries: self.transaction.tries.saturating_sub(1),
        };
        if shared.counts(self.record) {
            shared.log(entry, now);
        }
    }

    pub(super) fn end_transaction(
        &mut self,
        ending: Ending,
        now: Nanos,
        shared: &mut Shared<'_>,
    ) -> Next {
        self.settle(match (ending, self.tx_status) {
            (Ending::Succeeded, TxStatus::Idle) => Fate::Acknowledged,
            (Ending::Succeeded, _) => Fate::Unknown,
            _ => Fate::Refused,
        });
        let latency = now.saturating_sub(self.transaction.intended);
        self.count(ending, latency, now, shared);
        let counts = &mut shared.recorder.scripts[self.record].counts;
        if ending == Ending::Succeeded && shared.latency_limit.is_some_and(|limit| latency > limit)
        {
            counts.late += 1;
        }
        counts.tried(self.transaction.tries);
        shared.ended(self.record, now);
        self.transaction.begun = false;
        if ending == Ending::Succeeded {
            shared.lulls.served(now);
            if self.absence.is_some() {
                self.end_absence(now, shared);
            }
        }
        if self.tx_status != TxStatus::Idle && self.driven.is_none() {
            let open = "end of script reached without completing the last transaction";
            let why = Abort::new(Form::AtEnd, open);
            return self.abort(&why, Consequence::ClientAborted, shared);
        }
        if self.limit_reached(shared) || shared.stops(now) {
            return self.finish(shared);
        }
        if shared.pauses
            && !shared.reconnects
            && let Some(next) = self.think(now, shared)
        {
            return next;
        }
        if shared.reconnects {
            return self.leave(now, shared);
        }
        if !self.transaction.waited && !self.goes_on_silently() {
            // a script of meta commands alone must let others run, and see the deadline
            self.state = State::Yielded;
            self.wake_at(now, shared);
            return Next::Wait;
        }
        self.choose(now, shared)
    }

    /// Takes leave of the server, before the next transaction asks for a connection of its own.
    pub(super) fn leave(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if !(shared.pauses && self.think(now, shared).is_some()) {
            self.state = State::Yielded;
            self.wake_at(now, shared);
        }
        self.out.clear();
        frontend::terminate(&mut self.out);
        Next::Send
    }
}
