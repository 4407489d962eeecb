//! The steps of a client whose driver decides when sessions and transactions begin ([`crate::spec::Sessions::Driven`]).

use pgdyno_wire::ServerError;

use crate::client::Client;
use crate::client::state::{Awaited, Connection, PauseReason, State};
use crate::clock::{Nanos, SECOND};
use crate::driver::Step;
use crate::interval::Consequence;
use crate::poller::Next;
use crate::shared::Shared;
use crate::transaction::{DriverRun, LimitedWait};

/// How long the server may take to end a statement after a cancel request.
const CANCEL_PATIENCE: Nanos = 30 * SECOND;

/// What is due because a statement waits too long for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overdue {
    /// A cancel request.
    Cancel,
    /// The end of the connection: the cancel request had no effect.
    Close,
}

impl Client {
    pub(super) fn choose_step(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if shared.run.stops(now) {
            return self.finish(shared);
        }
        self.transaction.renew();
        let Some(driver) = self.transaction.driver_mut() else {
            return self.finish(shared);
        };
        let times = shared.load_times();
        driver.step = driver.driver.next_step(times, now, driver.is_connected);
        let at = match &driver.step {
            Step::Connect(at) | Step::Transaction(at) | Step::Disconnect(at) => *at,
            Step::Finish => return self.finish(shared),
            Step::Abort(words) => {
                let words = words.clone();
                return self.abort_driver(&words, shared);
            }
        };
        if let Some(deadline) = shared.run.deadline
            && at >= deadline
        {
            return self.after_last_start(deadline, now, shared);
        }
        // without a schedule, a transaction is due when it begins
        self.transaction.intended = if shared.starts.schedule.is_open() { at } else { now };
        if at > now {
            self.enter(State::Paused(PauseReason::Schedule));
            self.sleep_until(at, shared);
            return Next::Wait;
        }
        self.take_step(now, shared)
    }

    pub(super) fn take_step(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let Some(driver) = self.transaction.driver_mut() else {
            return Next::Wait;
        };
        match driver.step {
            Step::Connect(_) => {
                self.enter(State::Unconnected(Connection::Requested));
                shared.requests.connect(self.id);
                Next::Wait
            }
            Step::Disconnect(_) => {
                driver.is_connected = false;
                self.enter(State::Paused(PauseReason::Yield));
                self.wake_at(now, shared);
                self.terminate()
            }
            _ => self.begin_transaction(now, shared),
        }
    }

    pub(super) fn begin_opened_session(&mut self, took: Nanos, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let record = &mut shared.results.recorder.scripts[self.transaction.record];
        record.connecting.record(took);
        self.absence = None;
        self.begin_connected();
        self.choose_step(now, shared)
    }

    pub(super) fn begin_connected(&mut self) {
        self.forget_session();
        if let Some(driver) = self.transaction.driver_mut() {
            driver.is_connected = true;
        }
    }

    pub(super) fn has_driven_session(&self) -> bool {
        let driver = self.transaction.driver();
        driver.is_some_and(|driver| driver.is_connected)
    }

    /// Continues without the lost session. If the server sent an error, that is reported in place of `message`.
    pub(super) fn end_lost_session(&mut self, message: &str, shared: &mut Shared<'_>) -> Next {
        let now = shared.clock.now();
        let line = match self.session.error().map(ServerError::to_string) {
            Some(error) => format!("client {} lost its connection: {error}", self.id),
            None => format!("client {} lost its connection: {message}", self.id),
        };
        let consequence = Consequence::Reconnecting;
        self.count_error(message, shared);
        if shared.reports.note_limit.admits(now) {
            self.note(message.to_owned(), vec![line], consequence, now, shared);
        }
        if self.transaction.begun {
            self.count_lost(now, shared);
        }
        self.forget_session();
        if let Some(driver) = self.transaction.driver_mut() {
            driver.is_connected = false;
            driver.wait = LimitedWait::default();
        }
        self.choose_step(now, shared);
        Next::Close
    }

    /// What is due at `now` because the answer takes longer than the driver allows. The next call
    /// asks for something else only after some time.
    pub fn next_overdue_step(&mut self, now: Nanos) -> Option<Overdue> {
        if self.state != State::Running(Awaited::Answer) {
            return None;
        }
        let DriverRun { wait, .. } = self.transaction.driver_mut()?;
        if wait.until == 0 || now < wait.until {
            return None;
        }
        if wait.is_cancelled {
            return Some(Overdue::Close);
        }
        *wait = LimitedWait { until: now + CANCEL_PATIENCE, is_cancelled: true };
        Some(Overdue::Cancel)
    }
}
