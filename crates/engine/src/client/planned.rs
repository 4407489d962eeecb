//! How a client chooses its next transaction when the load changes by phases.

use crate::client::{Client, State, Transaction};
use crate::clock::Nanos;
use crate::poller::Next;
use crate::recorder::Ending;
use crate::shared::Shared;

impl Client {
    /// Takes the next transaction, waits for its turn, or rests until its phase comes.
    pub(super) fn choose_in_phase(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.transaction = Transaction::default();
        if shared.stops(now) {
            // those who stand by are to hear of it, too
            self.pass_turn(now, shared);
            return self.finish(shared);
        }
        if let Some(next) = self.rest_unless_in_use(now, shared) {
            return next;
        }
        if !shared.schedule.is_open() {
            return self.begin_in_phase(now, now, shared);
        }
        if shared.roster().is_awaited() {
            shared.roster().stands_by(self.id);
            self.state = State::StandingBy;
            return Next::Wait;
        }
        let mut intended = shared.next_planned_start(now);
        if let Some(limit) = shared.latency_limit {
            // too late to be worth starting: count it and take the next
            while intended + limit < now
                && shared.deadline.is_none_or(|deadline| intended < deadline)
                && !shared.stopped()
            {
                self.skip(intended, now, shared);
                intended = shared.next_planned_start(now);
            }
        }
        if shared.deadline.is_some_and(|deadline| intended >= deadline) {
            // no more starts; the last phase may be a pause
            return self.rest(None, now, shared);
        }
        if intended <= now {
            return self.begin_in_phase(intended, now, shared);
        }
        shared.roster().waits(self.id);
        self.transaction.intended = intended;
        self.state = State::Scheduled;
        self.sleep_until(intended, shared);
        Next::Wait
    }

    /// The start that it waited for has come.
    pub(super) fn turn_came(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let intended = self.transaction.intended;
        if shared.roster().next_in_use(self.id, now) == Some(now) {
            return self.begin_in_phase(intended, now, shared);
        }
        // its phase ended meanwhile: somebody who is in use begins it
        shared.roster().leave_start(intended);
        self.choose_in_phase(now, shared)
    }

    fn begin_in_phase(&mut self, intended: Nanos, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.transaction.intended = intended;
        self.take_script(intended, shared);
        shared.debug(|| {
            let name = &shared.spec.programs[self.script].program.name;
            format!("client {} executing script \"{name}\"", self.id)
        });
        self.pass_turn(now, shared);
        self.begin_transaction(now, shared)
    }

    /// Draws a script by the weights of the phase in which `intended` lies.
    fn take_script(&mut self, intended: Nanos, shared: &mut Shared<'_>) {
        (self.script, self.record) = shared.choose_script_at(intended, self.choice.as_mut());
    }

    /// Whoever stands by takes the next start.
    pub(super) fn pass_turn(&self, now: Nanos, shared: &mut Shared<'_>) {
        if let Some(roster) = &mut shared.roster
            && let Some(next) = roster.next_turn(self.id)
        {
            shared.wake_at(now, next);
        }
    }

    /// It gives up: the start that it waited for is not lost with it.
    pub(super) fn leave_turn(&self, now: Nanos, shared: &mut Shared<'_>) {
        if let Some(roster) = &mut shared.roster
            && roster.is_awaited_by(self.id)
        {
            roster.leave_start(self.transaction.intended);
        }
        self.pass_turn(now, shared);
    }

    /// Its connection is gone: somebody else takes its turn.
    pub(super) fn lose_turn(&self, now: Nanos, shared: &mut Shared<'_>) {
        if let Some(roster) = &mut shared.roster {
            roster.stands_by_no_more(self.id);
            self.leave_turn(now, shared);
        }
    }

    fn rest_unless_in_use(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Option<Next> {
        let next = shared.roster().next_in_use(self.id, now);
        (next != Some(now)).then(|| self.rest(next, now, shared))
    }

    /// Rests until `until`, or to the end of the run.
    fn rest(&mut self, until: Option<Nanos>, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.state = State::Resting;
        let end = shared.deadline.unwrap_or(Nanos::MAX);
        self.wake_at(until.unwrap_or(end).min(end), shared);
        self.pass_turn(now, shared);
        Next::Wait
    }

    fn skip(&mut self, intended: Nanos, now: Nanos, shared: &mut Shared<'_>) {
        self.take_script(intended, shared);
        self.count(Ending::Skipped, 0, now, shared);
    }
}
