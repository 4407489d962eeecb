//! How a client waits for its keying and think times: [`crate::pacing`].

use crate::client::Client;
use crate::client::state::{PauseReason, State};
use crate::clock::Nanos;
use crate::poller::Next;
use crate::shared::Shared;

impl Client {
    /// Starts the keying time of the chosen transaction, whose intended start is its end, or the think time after one;
    /// returns None without such a time.
    pub(super) fn start_pause(&mut self, reason: PauseReason, now: Nanos, shared: &mut Shared<'_>) -> Option<Next> {
        let pacing = shared.run.spec.pacing[self.transaction.script];
        let pause = if reason == PauseReason::Keying { pacing.keying } else { pacing.think };
        let length = pause.draw(&mut self.random.pacing);
        if length == 0 {
            return None;
        }
        self.enter(State::Paused(reason));
        let end = now.saturating_add(length);
        self.transaction.started = now;
        self.transaction.intended = end;
        // the deadline ends both the pause and the client
        let until = shared.run.deadline.map_or(end, |deadline| end.min(deadline));
        self.wake_at(until, shared);
        Some(Next::Wait)
    }

    pub(super) fn end_pause(&mut self, reason: PauseReason, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if shared.run.stops(now) {
            return self.finish(shared);
        }
        let paused = now.saturating_sub(self.transaction.started);
        let record = &mut shared.results.recorder.scripts[self.transaction.record];
        if reason == PauseReason::Keying {
            record.keying.record(paused);
            return self.begin_transaction(now, shared);
        }
        record.think.record(paused);
        self.choose_transaction(now, shared)
    }
}
