//! How a client waits for its keying and think times: [`crate::pacing`].

use crate::client::Client;
use crate::client::state::{PauseReason, State};
use crate::clock::Nanos;
use crate::poller::Next;
use crate::shared::Shared;

impl Client {
    /// Starts the keying time of the chosen transaction, whose intended start is its end; returns
    /// None if there is no keying time.
    pub(super) fn start_keying(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Option<Next> {
        let pause = shared.run.spec.pacing[self.transaction.script].keying;
        let length = pause.draw(&mut self.random.pacing);
        self.pause(PauseReason::Keying, length, now, shared)
    }

    /// Starts the think time after a transaction; returns None without a think time.
    pub(super) fn start_thinking(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Option<Next> {
        let pause = shared.run.spec.pacing[self.transaction.script].think;
        let length = pause.draw(&mut self.random.pacing);
        self.pause(PauseReason::Thinking, length, now, shared)
    }

    fn pause(&mut self, pause: PauseReason, length: Nanos, now: Nanos, shared: &mut Shared<'_>) -> Option<Next> {
        if length == 0 {
            return None;
        }
        self.enter(State::Paused(pause));
        let end = now.saturating_add(length);
        self.transaction.started = now;
        self.transaction.intended = end;
        // the deadline ends both the pause and the client
        let until = shared.run.deadline.map_or(end, |deadline| end.min(deadline));
        self.wake_at(until, shared);
        Some(Next::Wait)
    }

    pub(super) fn end_keying(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if shared.run.stops(now) {
            return self.finish(shared);
        }
        let paused = now.saturating_sub(self.transaction.started);
        let record = &mut shared.results.recorder.scripts[self.transaction.record];
        record.keying.record(paused);
        self.begin_transaction(now, shared)
    }

    pub(super) fn end_thinking(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if shared.run.stops(now) {
            return self.finish(shared);
        }
        let paused = now.saturating_sub(self.transaction.started);
        let record = &mut shared.results.recorder.scripts[self.transaction.record];
        record.think.record(paused);
        self.choose_transaction(now, shared)
    }
}
