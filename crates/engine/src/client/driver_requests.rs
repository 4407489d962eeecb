//! How a client carries out the requests of its [`Driver`](crate::driver::Driver).

use pgdyno_wire::{ServerError, SqlState};

use crate::client::Client;
use crate::client::state::{Awaited, State};
use crate::clock::Nanos;
use crate::driver::{Asked, Event, Outgoing, Refused, Request};
use crate::interval::Consequence;
use crate::poller::Next;
use crate::recorder::{Ending, Statements};
use crate::shared::Shared;
use crate::spec::OnError;
use crate::transaction::{FailedTry, LimitedWait, Stage};

impl Client {
    /// Reports the session to the driver before the first transaction. With a connection for each
    /// transaction there is no session yet.
    pub(super) fn open_driver(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if shared.run.driven_sessions {
            if let Some(drivers) = &shared.run.spec.drivers
                && drivers.begins_connected(self.id)
            {
                self.begin_connected();
            }
            return self.choose_step(now, shared);
        }
        if shared.run.reconnects {
            return self.choose_transaction(now, shared);
        }
        self.announce_session(Stage::Opening, now, shared)
    }

    pub(super) fn run_driver(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let Some(driver) = self.transaction.driver_mut() else {
            return Next::Wait;
        };
        if !driver.knows_session {
            return self.announce_session(Stage::Reopening, now, shared);
        }
        driver.begin();
        let event = Event::Begin { script: self.transaction.script, tries: self.transaction.tries };
        self.drive(event, now, shared)
    }

    fn announce_session(&mut self, stage: Stage, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if let Some(driver) = self.transaction.driver_mut() {
            driver.knows_session = true;
            driver.stage = stage;
        }
        self.drive(Event::Connected, now, shared)
    }

    pub(super) fn close_driver(&mut self, shared: &mut Shared<'_>) -> Option<Next> {
        let driver = self.transaction.driver_mut()?;
        if driver.stage == Stage::Closing || !driver.knows_session {
            return None;
        }
        driver.stage = Stage::Closing;
        let now = shared.clock.now();
        Some(self.drive(Event::Ending, now, shared))
    }

    pub(super) fn pass_answer(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let mut answer = self.session.rows_mut().take_answer();
        answer.count(&mut shared.results.recorder.scripts[self.transaction.record].statements);
        answer.end(self.session.take_error(), self.session.tx_status());
        let request = self.ask_driver(Event::Answered(&answer), now);
        let error = answer.take_error();
        let fails = self.transaction.driver().is_some_and(|driver| driver.asked.fails);
        // a failure is counted as such, and like that of a script it is no execution
        if error.is_none() || !(fails || matches!(request, Request::Refused(_))) {
            self.end_command(now, shared);
        }
        if let (Some(error), Some(driver)) = (error, self.transaction.driver_mut()) {
            if fails {
                self.fail_transaction(error, now, shared);
            } else {
                driver.error = Some(error);
            }
        }
        self.session.rows_mut().return_answer(answer);
        self.carry_out(request, now, shared)
    }

    pub(super) fn drive(&mut self, event: Event<'_>, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let request = self.ask_driver(event, now);
        self.carry_out(request, now, shared)
    }

    fn ask_driver(&mut self, event: Event<'_>, now: Nanos) -> Request {
        let Some(driver) = self.transaction.driver_mut() else {
            return Request::Stop;
        };
        let mut out = Outgoing::new(self.session.begin_messages());
        let request = driver.driver.resume(event, now, &mut out);
        driver.asked = out.close();
        request
    }

    fn carry_out(&mut self, request: Request, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if let Some(driver) = self.transaction.driver()
            && driver.asked.counted != Statements::default()
        {
            let statements = &mut shared.results.recorder.scripts[self.transaction.record].statements;
            statements.add(&driver.asked.counted);
        }
        match request {
            Request::Await => self.await_answer(now, shared),
            Request::Sleep(length) => {
                self.enter(State::Running(Awaited::Sleep));
                let length = Nanos::try_from(length.as_nanos()).unwrap_or(Nanos::MAX);
                self.sleep_until(now.saturating_add(length), shared);
                Next::Wait
            }
            Request::Change(change) => self.request_change(change, shared),
            Request::Close(number) => {
                let driver = self.transaction.driver_mut();
                if let Some(sessions) = driver.and_then(|driver| driver.sessions.as_mut()) {
                    sessions.close(number);
                }
                self.drive(Event::Changed(None), now, shared)
            }
            Request::Done => self.finish_driver(now, shared),
            Request::Refused(refused) => self.refuse_transaction(refused, now, shared),
            Request::Stop => {
                if !shared.run.driven_sessions && std::mem::take(&mut self.transaction.begun) {
                    shared.results.in_flight -= 1;
                }
                self.finish(shared)
            }
            Request::Abort(words) => self.abort_driver(&words, shared),
        }
    }

    fn await_answer(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let asked = self.transaction.driver().map_or_else(Asked::default, |driver| driver.asked);
        if asked.readies == 0 {
            return self.abort_driver("it waits for an answer, and has sent nothing", shared);
        }
        self.session.await_answers(asked.readies);
        self.transaction.command = asked.command;
        self.transaction.command_started = asked.intended.unwrap_or(now);
        if let Some(driver) = self.transaction.driver_mut() {
            driver.wait = LimitedWait {
                until: match asked.patience {
                    0 => 0,
                    patience => now.saturating_add(patience),
                },
                is_cancelled: false,
            };
        }
        self.session.rows_mut().begin_answer();
        self.session.report(asked.rows);
        self.enter(State::Running(Awaited::Answer));
        shared.run.debug(|| format!("client {} sending", self.id));
        Next::Send
    }

    fn finish_driver(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        match self.transaction.driver().map(|driver| driver.stage) {
            Some(Stage::Opening) => self.choose_transaction(now, shared),
            Some(Stage::Reopening) => self.run_driver(now, shared),
            Some(Stage::Transaction) => {
                // a transaction without any request took time, too
                let now = if self.transaction.waited { now } else { shared.clock.now() };
                let failed = self.transaction.driver().and_then(|driver| driver.failed);
                self.end_transaction(failed.unwrap_or(Ending::Succeeded), now, shared)
            }
            Some(Stage::Closing) | None => self.finish(shared),
        }
    }

    /// Reports an error of a transaction that continues, and fails because of it.
    fn fail_transaction(&mut self, error: Box<ServerError>, now: Nanos, shared: &mut Shared<'_>) {
        let ending = ending_after(&error);
        let number = self.command_number(shared);
        if let Some(record) = self.command_record(shared) {
            record.failures += 1;
        }
        let line = format!(
            "client {} got an error in command {number} (SQL) of script {}; {error}",
            self.id, self.transaction.script
        );
        let has_failed = self.transaction.driver().is_some_and(|driver| driver.failed.is_some());
        // what the server refuses because of the first error needs no report of its own
        if !(has_failed && error.sqlstate() == SqlState::IN_FAILED_SQL_TRANSACTION) {
            self.session.set_error(Some(error));
            let consequence = Consequence::Failed;
            self.count_error("", shared);
            if shared.reports.note_limit.admits(now) {
                self.note(String::new(), vec![line], consequence, now, shared);
            }
            self.session.take_error();
        }
        if let Some(driver) = self.transaction.driver_mut() {
            driver.failed.get_or_insert(ending);
        }
    }

    fn refuse_transaction(&mut self, refused: Refused, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let Some(driver) = self.transaction.driver_mut() else {
            return Next::Wait;
        };
        let error = driver.error.take();
        let in_transaction = driver.stage == Stage::Transaction;
        driver.ignores_error = refused.ignorable;
        let ending = error.as_deref().map_or(Ending::OtherFailure, ending_after);
        let aborts = ending == Ending::OtherFailure && !refused.ignorable && shared.run.spec.on_error == OnError::Abort;
        let of_server = error.as_ref().map(ToString::to_string);
        let words = refused.words.or(of_server).unwrap_or_default();
        let error = match error {
            Some(error) if in_transaction && !aborts => error,
            error => {
                driver.error = error;
                return self.abort_driver(&words, shared);
            }
        };
        let statements = &mut shared.results.recorder.scripts[self.transaction.record].statements;
        statements.ignored_errors += u64::from(refused.ignorable);
        self.transaction.failed =
            Some(FailedTry { error, message: shared.reports.note_limit.admits(now).then_some(words) });
        self.roll_back(ending, now, shared)
    }

    pub(super) fn abort_driver(&mut self, words: &str, shared: &mut Shared<'_>) -> Next {
        // with the server's error, if there is one, the note has its SQLSTATE
        let driver = self.transaction.driver_mut();
        let error = driver.and_then(|driver| driver.error.take());
        self.session.set_error(error);
        let line = format!("client {} aborted: {words}", self.id);
        let consequence = Consequence::ClientAborted;
        self.abort_with_note(words.to_owned(), vec![line], consequence, shared)
    }
}

/// How a transaction with this error ends, unless it is retried.
fn ending_after(error: &ServerError) -> Ending {
    Ending::after_retryable(error.sqlstate()).unwrap_or(Ending::OtherFailure)
}
