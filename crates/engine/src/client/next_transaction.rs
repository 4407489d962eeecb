//! How a client chooses its next transaction in a load with phases.

use crate::client::Client;
use crate::client::state::{PauseReason, State};
use crate::clock::Nanos;
use crate::poller::Next;
use crate::recorder::Ending;
use crate::shared::Shared;

impl Client {
    pub(super) fn choose_in_phase(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.transaction.renew();
        if shared.run.stops(now) {
            // the clients that stand by have to stop, too
            self.pass_turn(now, shared);
            return self.finish(shared);
        }
        if let Some(next) = self.rest_unless_in_use(now, shared) {
            return next;
        }
        if !shared.starts.schedule.is_open() {
            return self.begin_in_phase(now, now, shared);
        }
        if shared.starts.phase_state().is_awaited() {
            shared.starts.phase_state().stands_by(self.id);
            self.enter(State::Paused(PauseReason::StandBy));
            return Next::Wait;
        }
        let mut intended = shared.starts.next_planned_start(now);
        if let Some(limit) = shared.run.latency_limit {
            // too late to be worth starting: count it as skipped and draw the next start
            while intended + limit < now
                && shared.run.deadline.is_none_or(|deadline| intended < deadline)
                && !shared.run.is_stopped()
            {
                self.skip(intended, now, shared);
                intended = shared.starts.next_planned_start(now);
            }
        }
        if shared.run.deadline.is_some_and(|deadline| intended >= deadline) {
            // there are no more starts; the last phase may be a pause
            return self.rest(None, now, shared);
        }
        if intended <= now {
            return self.begin_in_phase(intended, now, shared);
        }
        shared.starts.phase_state().waits(self.id);
        self.transaction.intended = intended;
        self.enter(State::Paused(PauseReason::Schedule));
        self.sleep_until(intended, shared);
        Next::Wait
    }

    pub(super) fn begin_turn(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let intended = self.transaction.intended;
        if shared.starts.phase_state().next_in_use(self.id, now) == Some(now) {
            return self.begin_in_phase(intended, now, shared);
        }
        // its phase has ended in the meantime, so a client in use takes the start
        shared.starts.phase_state().leave_start(intended);
        self.choose_in_phase(now, shared)
    }

    fn begin_in_phase(&mut self, intended: Nanos, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.transaction.intended = intended;
        self.take_script(intended, shared);
        shared.run.debug(|| {
            let name = &shared.run.spec.programs[self.transaction.script].program.name;
            format!("client {} executing script \"{name}\"", self.id)
        });
        self.pass_turn(now, shared);
        self.begin_transaction(now, shared)
    }

    fn take_script(&mut self, intended: Nanos, shared: &mut Shared<'_>) {
        let chosen = shared.starts.choose_script_at(intended, self.random.choice.as_mut());
        (self.transaction.script, self.transaction.record) = (chosen.script, chosen.record);
    }

    pub(super) fn pass_turn(&self, now: Nanos, shared: &mut Shared<'_>) {
        if let Some(phase_state) = &mut shared.starts.phase_state
            && let Some(next) = phase_state.next_turn(self.id)
        {
            shared.requests.wake_at(now, next);
        }
    }

    /// Returns the start that this client was waiting for, because the client gives up.
    pub(super) fn give_up_turn(&self, now: Nanos, shared: &mut Shared<'_>) {
        if let Some(phase_state) = &mut shared.starts.phase_state
            && phase_state.is_awaited_by(self.id)
        {
            phase_state.leave_start(self.transaction.intended);
        }
        self.pass_turn(now, shared);
    }

    /// Passes the turn to another client, because the connection is lost.
    pub(super) fn pass_turn_after_loss(&self, now: Nanos, shared: &mut Shared<'_>) {
        if let Some(phase_state) = &mut shared.starts.phase_state {
            phase_state.stop_standing_by(self.id);
            self.give_up_turn(now, shared);
        }
    }

    fn rest_unless_in_use(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Option<Next> {
        let next = shared.starts.phase_state().next_in_use(self.id, now);
        (next != Some(now)).then(|| self.rest(next, now, shared))
    }

    fn rest(&mut self, until: Option<Nanos>, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.enter(State::Paused(PauseReason::Rest));
        let end = shared.run.deadline.unwrap_or(Nanos::MAX);
        self.wake_at(until.unwrap_or(end).min(end), shared);
        self.pass_turn(now, shared);
        Next::Wait
    }

    fn skip(&mut self, intended: Nanos, now: Nanos, shared: &mut Shared<'_>) {
        self.take_script(intended, shared);
        self.count(Ending::Skipped, 0, now, shared);
    }
}
