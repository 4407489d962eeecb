//! What a client does when a statement, a command or its connection fails.

use pgdyno_connect::notice;
use pgdyno_wire::{ServerError, TxStatus};

use crate::client::Client;
use crate::client::state::{Awaited, State};
use crate::client_abort::{Abort, Form, Place};
use crate::clock::Nanos;
use crate::command_record::CommandRecord;
use crate::commit_ledger::CommitOutcome;
use crate::interval::{Consequence, ErrorNote};
use crate::poller::Next;
use crate::recorder::Ending;
use crate::shared::Shared;
use crate::spec::{OnError, Tries};
use crate::transaction::FailedTry;

impl Client {
    pub(super) fn fail_statement(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let state = self.session.error().map(ServerError::sqlstate);
        let ending = match (state.and_then(Ending::after_retryable), shared.run.spec.on_error) {
            (Some(ending), _) => ending,
            (None, OnError::Continue) if state.is_some() => Ending::OtherFailure,
            _ => return self.abort_by_error(Consequence::ClientAborted, shared),
        };
        self.session.doubt_prepared();
        self.transaction.mode.close_pipeline();
        // the note is written once it is known whether the transaction is retried
        let is_noted = shared.reports.note_limit.admits(now);
        let message = is_noted.then(|| self.describe_error(shared));
        self.transaction.failed = self.session.take_error().map(|error| FailedTry { error, message });
        self.roll_back(ending, now, shared)
    }

    pub(super) fn roll_back(&mut self, ending: Ending, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if self.session.tx_status() == TxStatus::Idle {
            return self.after_failure(ending, now, shared);
        }
        self.session.roll_back();
        self.enter(State::Running(Awaited::Rollback(ending)));
        Next::Send
    }

    fn may_retry(&self, ending: Ending, now: Nanos, shared: &Shared<'_>) -> bool {
        let late = shared.run.latency_limit.is_some_and(|limit| now.saturating_sub(self.transaction.intended) > limit);
        (ending != Ending::OtherFailure || self.transaction.driver().is_some_and(|driver| driver.ignores_error))
            && shared.run.spec.tries.allows_another(self.transaction.tries)
            && !late
            && !shared.run.stops(now)
    }

    pub(super) fn after_failure(&mut self, ending: Ending, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let retry = self.may_retry(ending, now, shared);
        let consequence = if retry { Consequence::Retried } else { Consequence::Failed };
        if let Some(failed) = self.transaction.failed.take() {
            let FailedTry { error, message } = failed;
            self.session.set_error(Some(error));
            self.count_error("", shared);
            if let Some(message) = message {
                let lines = self.describe_try(&message, retry, now, shared);
                self.note(String::new(), lines, consequence, now, shared);
            }
            self.session.take_error();
        }
        if let Some(record) = self.command_record(shared) {
            if retry {
                record.retries += 1;
            } else {
                record.failures += 1;
            }
        }
        if !retry {
            return self.end_transaction(ending, now, shared);
        }
        self.transaction.tries += 1;
        if let Some(rng) = self.transaction.rng {
            self.random.functions = rng;
        }
        self.transaction.next_op = 0;
        self.run(now, shared)
    }

    /// Number of the current command in its script, as pgbench counts.
    pub(super) fn command_number(&self, shared: &Shared<'_>) -> usize {
        shared.run.spec.programs[self.transaction.script].program.command_number(self.transaction.command)
    }

    /// The record of the current command; None if the transaction is not counted.
    pub(super) fn command_record<'s>(&self, shared: &'s mut Shared<'_>) -> Option<&'s mut CommandRecord> {
        if !shared.starts.counts(self.transaction.record) {
            return None;
        }
        let number = self.command_number(shared);
        shared.results.recorder.commands[self.transaction.script][number].as_mut()
    }

    /// The line that pgbench prints for a failed try with --verbose-errors.
    fn describe_try(&self, error: &str, retry: bool, now: Nanos, shared: &Shared<'_>) -> Vec<String> {
        let (id, script) = (self.id, self.transaction.script);
        let command = self.command_number(shared);
        let what = if retry { "repeats the transaction after the error" } else { "ends the failed transaction" };
        let mut tries = self.transaction.tries.to_string();
        if let Tries::AtMost(most) = shared.run.spec.tries {
            tries.push_str(&format!("/{most}"));
        }
        if let Some(limit) = shared.run.latency_limit {
            let used = now.saturating_sub(self.transaction.intended);
            let percent = 100.0 * used as f64 / limit as f64;
            tries.push_str(&format!(", {percent:.3}% of the maximum time of tries was used"));
        }
        vec![
            format!("client {id} got an error in command {command} (SQL) of script {script}; {error}"),
            format!("client {id} {what} (try {tries})"),
        ]
    }

    /// The server's error as libpq displays it, with its position in the statement.
    fn describe_error(&self, shared: &Shared<'_>) -> String {
        match self.session.error() {
            Some(error) => self.describe(error, self.session.error_query(), shared),
            None => String::new(),
        }
    }

    /// An error or a notice of result number `query`, as libpq displays it.
    pub(super) fn describe(&self, error: &ServerError, query: usize, shared: &Shared<'_>) -> String {
        let under_way = match self.state {
            // each Parse has a Sync of its own
            State::Running(Awaited::Preparation) => {
                self.session.being_prepared().map(|number| shared.run.statement_in(self.transaction.script, number))
            }
            _ => self.transaction.mode.statement_of_result(query),
        };
        match under_way {
            Some(statement) => error.display_with_query(
                &shared.run.templates[self.transaction.script][statement].sql(self.session.outgoing()),
            ),
            None => error.to_string(),
        }
    }

    /// Prints a notice or a warning to standard error immediately, as libpq does.
    pub(super) fn print_notice(&self, notice: &ServerError, shared: &Shared<'_>) {
        // every lost connection may have a notice, and the losses of an outage are reported together
        let is_of_outage = shared.reports.outages.is_some() && notice.sqlstate().class() == "57";
        if !shared.run.prints_notices || is_of_outage {
            return;
        }
        let is_placed = notice.position.is_some() && !self.transaction.mode.awaits_batch();
        notice::print(&if is_placed {
            self.describe(notice, self.session.rows().query(), shared)
        } else {
            notice.to_string()
        });
    }

    fn query_of_error(&self) -> usize {
        match self.transaction.mode.statement() {
            Some(_) if self.session.error().is_some() => self.session.error_query(),
            Some(_) => self.session.rows().query(),
            None => 0,
        }
    }

    /// Aborts the client because it is still busy after the drain limit.
    pub fn abort_overdue(&mut self, shared: &mut Shared<'_>) -> Next {
        let limit_s = shared.run.spec.drain_limit.unwrap_or_default().as_secs_f64();
        let late = format!("not done {limit_s} s after the end of the run (--drain-limit)");
        let why = Abort::new(Form::Command(None), late);
        self.abort(&why, Consequence::ClientAborted, shared)
    }

    /// Aborts the client because of the server's error.
    pub(super) fn abort_by_error(&mut self, consequence: Consequence, shared: &mut Shared<'_>) -> Next {
        let (id, script) = (self.id, self.transaction.script);
        let command = self.command_number(shared);
        let query = self.query_of_error();
        let words = self.describe_error(shared);
        let line = format!("client {id} script {script} aborted in command {command} query {query}: {words}");
        self.abort_with_note(String::new(), vec![line], consequence, shared)
    }

    pub(super) fn abort(&mut self, why: &Abort, consequence: Consequence, shared: &mut Shared<'_>) -> Next {
        if self.session.error().is_some() && why.form != Form::While {
            return self.abort_by_error(consequence, shared);
        }
        let program = &shared.run.spec.programs[self.transaction.script].program;
        // a client that could not connect has not reached a command yet
        let command = program.clamp_step(self.transaction.command);
        let query = match why.form {
            Form::Rows => self.session.rows().unfit_query(),
            _ => self.session.rows().query(),
        };
        let place = Place {
            client: self.id,
            script: self.transaction.script,
            command: program.command_number(command),
            query,
            word: &program.command(command).word,
        };
        let lines = why.lines(&place);
        self.abort_with_note(why.reason().to_owned(), lines, consequence, shared)
    }

    pub(super) fn abort_with_note(
        &mut self, message: String, lines: Vec<String>, consequence: Consequence, shared: &mut Shared<'_>,
    ) -> Next {
        let now = shared.clock.now();
        self.count_error(&message, shared);
        self.note(message, lines, consequence, now, shared);
        if self.transaction.begun {
            self.settle(CommitOutcome::Unknown);
            shared.results.recorder.transaction(self.transaction.record, Ending::Aborted, 0);
            self.transaction.begun = false;
            shared.end_transaction(self.transaction.record, self.transaction.started, now);
        }
        self.give_up_turn(now, shared);
        self.enter(State::Aborted);
        shared.run.stop_after_abort();
        Next::Close
    }

    pub(super) fn note(
        &self, message: String, lines: Vec<String>, consequence: Consequence, now: Nanos, shared: &mut Shared<'_>,
    ) {
        let note = self.error_note(message, lines, consequence, now, shared);
        shared.reports.notes.push(note);
    }

    pub(super) fn count_error(&self, message: &str, shared: &mut Shared<'_>) {
        let record = self.transaction.record;
        match self.session.error() {
            Some(error) => {
                shared.count_error(record, Some(error.sqlstate()), &error.message);
            }
            None => shared.count_error(record, None, message),
        }
    }

    pub(super) fn error_note(
        &self, message: String, lines: Vec<String>, consequence: Consequence, now: Nanos, shared: &Shared<'_>,
    ) -> ErrorNote {
        let program = &shared.run.spec.programs[self.transaction.script].program;
        let op = program.clamp_step(self.transaction.command);
        let command = program.command(op);
        let error = self.session.error();
        ErrorNote {
            at: now,
            client: self.id,
            script: self.transaction.script,
            command: program.command_number(op),
            line: command.line as usize,
            kind: command.word.to_string(),
            query: self.query_of_error(),
            sqlstate: error.map(|error| error.sqlstate().as_str().to_owned()),
            severity: error.map(|error| error.severity.clone()),
            message: error.map_or(message, |error| error.message.clone()),
            lines,
            planned: shared
                .starts
                .phase_state
                .as_ref()
                .map(|phase_state| phase_state.phase_of_record(self.transaction.record)),
            detail: error.and_then(|error| error.detail.clone()),
            hint: error.and_then(|error| error.hint.clone()),
            consequence,
        }
    }
}
