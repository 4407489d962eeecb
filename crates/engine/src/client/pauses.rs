//! How a client keys and thinks: [`crate::pacing`].

use crate::client::{Client, State};
use crate::clock::Nanos;
use crate::poller::Next;
use crate::shared::Shared;

impl Client {
    /// Keys in the transaction that was chosen; None when that takes no time. Its intended start
    /// is the end of it.
    pub(super) fn key(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Option<Next> {
        let pause = shared.spec.pacing[self.script].keying;
        let length = pause.draw(&mut self.pacing_rng);
        self.pause(State::Keying, length, now, shared)
    }

    /// Thinks about the transaction that has ended; None when that takes no time.
    pub(super) fn think(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Option<Next> {
        let pause = shared.spec.pacing[self.script].think;
        let length = pause.draw(&mut self.pacing_rng);
        self.pause(State::Thinking, length, now, shared)
    }

    fn pause(
        &mut self,
        state: State,
        length: Nanos,
        now: Nanos,
        shared: &mut Shared<'_>,
    ) -> Option<Next> {
        if length == 0 {
            return None;
        }
        self.state = state;
        let end = now.saturating_add(length);
        self.transaction.started = now;
        self.transaction.intended = end;
        // the deadline ends the pause, and the client
        let until = shared.deadline.map_or(end, |deadline| end.min(deadline));
        self.wake_at(until, shared);
        Some(Next::Wait)
    }

    /// The keying or thinking is over.
    pub(super) fn paused(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if shared.stops(now) {
            return self.finish(shared);
        }
        let paused = now.saturating_sub(self.transaction.started);
        let record = &mut shared.recorder.scripts[self.record];
        if self.state == State::Keying {
            record.keying.record(paused);
            return self.begin_transaction(now, shared);
        }
        record.think.record(paused);
        self.choose(now, shared)
    }
}
