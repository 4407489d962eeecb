//! How a client keys and thinks: [`crate::pacing`].

use crate::client::Client;
use crate::client::state::{Pause, State};
use crate::clock::Nanos;
use crate::poller::Next;
use crate::shared::Shared;

impl Client {
    /// Keys in the transaction that was chosen; None when that takes no time. Its intended start
    /// is the end of it.
    pub(super) fn key(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Option<Next> {
        let pause = shared.spec.pacing[self.transaction.script].keying;
        let length = pause.draw(&mut self.random.pacing);
        self.pause(Pause::Keying, length, now, shared)
    }

    /// Thinks about the transaction that has ended; None when that takes no time.
    pub(super) fn think(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Option<Next> {
        let pause = shared.spec.pacing[self.transaction.script].think;
        let length = pause.draw(&mut self.random.pacing);
        self.pause(Pause::Thinking, length, now, shared)
    }

    fn pause(
        &mut self,
        pause: Pause,
        length: Nanos,
        now: Nanos,
        shared: &mut Shared<'_>,
    ) -> Option<Next> {
        if length == 0 {
            return None;
        }
        self.enter(State::Paused(pause));
        let end = now.saturating_add(length);
        self.transaction.started = now;
        self.transaction.intended = end;
        // the deadline ends the pause, and the client
        let until = shared.deadline.map_or(end, |deadline| end.min(deadline));
        self.wake_at(until, shared);
        Some(Next::Wait)
    }

    /// The keying is over.
    pub(super) fn end_keying(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if shared.stops(now) {
            return self.finish(shared);
        }
        let paused = now.saturating_sub(self.transaction.started);
        let record = &mut shared.recorder.scripts[self.transaction.record];
        record.keying.record(paused);
        self.begin_transaction(now, shared)
    }

    /// The thinking is over.
    pub(super) fn end_thinking(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if shared.stops(now) {
            return self.finish(shared);
        }
        let paused = now.saturating_sub(self.transaction.started);
        let record = &mut shared.recorder.scripts[self.transaction.record];
        record.think.record(paused);
        self.choose(now, shared)
    }
}
