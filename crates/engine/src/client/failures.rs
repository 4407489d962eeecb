//! What a client does when a statement, a command or its connection fails.

use pgdyno_connect::notice;
use pgdyno_wire::{ServerError, SqlState, TxStatus};

use crate::abort::{Abort, Form, Place};
use crate::client::{Client, Failed, State};
use crate::clock::Nanos;
use crate::interval::{Consequence, ErrorNote};
use crate::ledger::Fate;
use crate::message::Parsed;
use crate::poller::Next;
use crate::recorder::Ending;
use crate::shared::Shared;
use crate::spec::{OnError, Tries};

/// A Query message.
const ROLLBACK: &[u8] = b"Q\0\0\0\x0dROLLBACK\0";

impl Client {
    /// The statement under way, or one of the pipeline, has failed and all is answered.
    pub(super) fn statement_failed(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let state = self.error.as_deref().map(ServerError::sqlstate);
        let ending = match (state, shared.spec.on_error) {
            (Some(SqlState::SERIALIZATION_FAILURE), _) => Ending::SerializationFailure,
            (Some(SqlState::DEADLOCK_DETECTED), _) => Ending::Deadlock,
            (Some(_), OnError::Continue) => Ending::OtherFailure,
            _ => return self.refused(Consequence::ClientAborted, shared),
        };
        for statement in std::mem::take(&mut self.fresh) {
            self.prepared[shared.place(self.script, statement)] = Parsed::Perhaps;
        }
        self.in_pipeline = false;
        // the note is written when it is known whether there is another try
        let words = self.error_in_words(shared);
        self.failed = self
            .error
            .take()
            .map(|error| Box::new(Failed { error, words }));
        self.roll_back(ending, now, shared)
    }

    /// What was prepared has been answered; the memory is freed, since most clients prepare but once.
    pub(super) fn forget_fresh(&mut self) {
        if !self.fresh.is_empty() {
            self.fresh = Vec::new();
        }
    }

    /// Ends the block that is open, if one is, before the next try or transaction.
    pub(super) fn roll_back(
        &mut self,
        ending: Ending,
        now: Nanos,
        shared: &mut Shared<'_>,
    ) -> Next {
        if self.tx_status == TxStatus::Idle {
            return self.after_failure(ending, now, shared);
        }
        self.out.clear();
        self.out.extend_from_slice(ROLLBACK);
        self.awaited = 1;
        self.state = State::RollingBack(ending);
        Next::Send
    }

    fn may_retry(&self, ending: Ending, now: Nanos, shared: &Shared<'_>) -> bool {
        let late = shared
            .latency_limit
            .is_some_and(|limit| now.saturating_sub(self.transaction.intended) > limit);
        (ending != Ending::OtherFailure || self.ignores_error())
            && shared.spec.tries.allows_another(self.transaction.tries)
            && !late
            && !shared.stops(now)
    }

    /// The server is ready again: tries once more, or gives the transaction up.
    pub(super) fn after_failure(
        &mut self,
        ending: Ending,
        now: Nanos,
        shared: &mut Shared<'_>,
    ) -> Next {
        let retry = self.may_retry(ending, now, shared);
        let consequence = if retry {
            Consequence::Retried
        } else {
            Consequence::Failed
        };
        if let Some(failed) = self.failed.take() {
            let Failed { error, words } = *failed;
            let lines = self.tries_in_words(&words, retry, now, shared);
            self.error = Some(error);
            self.note(String::new(), lines, consequence, now, shared);
            self.error = None;
        }
        let number = shared.spec.programs[self.script]
            .program
            .command_number(self.command);
        let counts = shared.counts(self.record);
        if let Some(record) = &mut shared.recorder.commands[self.script][number]
            && counts
        {
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
            self.rng = rng;
        }
        self.at = 0;
        self.run(now, shared)
    }

    /// What pgbench says of a failed try with --verbose-errors.
    fn tries_in_words(
        &self,
        error: &str,
        retry: bool,
        now: Nanos,
        shared: &Shared<'_>,
    ) -> Vec<String> {
        let Self { id, script, .. } = self;
        let command = shared.spec.programs[self.script]
            .program
            .command_number(self.command);
        let what = if retry {
            "repeats the transaction after the error"
        } else {
            "ends the failed transaction"
        };
        let mut tries = self.transaction.tries.to_string();
        if let Tries::AtMost(most) = shared.spec.tries {
            tries.push_str(&format!("/{most}"));
        }
        if let Some(limit) = shared.latency_limit {
            let used = now.saturating_sub(self.transaction.intended);
            let percent = 100.0 * used as f64 / limit as f64;
            tries.push_str(&format!(
                ", {percent:.3}% of the maximum time of tries was used"
            ));
        }
        vec![
            format!(
                "client {id} got an error in command {command} (SQL) of script {script}; {error}"
            ),
            format!("client {id} {what} (try {tries})"),
        ]
    }

    /// The server's error as libpq shows it, with its place in the statement.
    fn error_in_words(&self, shared: &Shared<'_>) -> String {
        match self.error.as_deref() {
            Some(error) => self.in_words(error, self.error_query, shared),
            None => String::new(),
        }
    }

    /// An error or a notice that came in result number `query`, likewise.
    pub(super) fn in_words(
        &self,
        error: &ServerError,
        query: usize,
        shared: &Shared<'_>,
    ) -> String {
        let under_way = match self.state {
            // each has a Sync of its own
            State::Preparing => {
                let answered = self.fresh.len().saturating_sub(self.awaited);
                self.fresh.get(answered)
            }
            // of those in a pipeline it is the one after all that were completed
            _ => self.statement.as_ref().or(self.piped.get(query)),
        };
        match under_way.copied() {
            Some(statement) => {
                error.display_with_query(&shared.templates[self.script][statement].sql(&self.out))
            }
            None => error.to_string(),
        }
    }

    /// A notice or a warning has come: it goes to standard error at once, as with libpq.
    pub(super) fn print_notice(&self, notice: &ServerError, shared: &Shared<'_>) {
        // each lost connection may have one, and all of an outage are reported together
        let is_of_outage = shared.outages.is_some() && notice.sqlstate().class() == "57";
        if !shared.prints_notices || is_of_outage {
            return;
        }
        let is_placed = notice.position.is_some() && !self.batch.is_sent();
        notice::print(&if is_placed {
            self.in_words(notice, self.rows.query(), shared)
        } else {
            notice.to_string()
        });
    }

    /// Number of the result in which the error came; a statement of a pipeline has one result.
    fn query_of_error(&self) -> usize {
        match self.statement {
            Some(_) if self.error.is_some() => self.error_query,
            Some(_) => self.rows.query(),
            None => 0,
        }
    }

    /// Gives up because the run is long over.
    pub fn overdue(&mut self, shared: &mut Shared<'_>) -> Next {
        let limit_s = shared.spec.drain_limit.unwrap_or_default().as_secs_f64();
        let late = format!("not done {limit_s} s after the end of the run (--drain-limit)");
        let why = Abort::new(Form::Command(None), late);
        self.abort(&why, Consequence::ClientAborted, shared)
    }

    /// Gives up because of the server's error.
    pub(super) fn refused(&mut self, consequence: Consequence, shared: &mut Shared<'_>) -> Next {
        let (id, script) = (self.id, self.script);
        let command = shared.spec.programs[script]
            .program
            .command_number(self.command);
        let query = self.query_of_error();
        let words = self.error_in_words(shared);
        let line = format!(
            "client {id} script {script} aborted in command {command} query {query}: {words}"
        );
        self.give_up(String::new(), vec![line], consequence, shared)
    }

    /// Gives up; the server's error, if there is one, says more than `why`.
    pub(super) fn abort(
        &mut self,
        why: &Abort,
        consequence: Consequence,
        shared: &mut Shared<'_>,
    ) -> Next {
        if self.error.is_some() && why.form != Form::While {
            return self.refused(consequence, shared);
        }
        let program = &shared.spec.programs[self.script].program;
        // a client that could not connect has not come to a command yet
        let command = program.clamp_step(self.command);
        let query = match why.form {
            Form::Rows => self.rows.unfit_query(),
            _ => self.rows.query(),
        };
        let place = Place {
            client: self.id,
            script: self.script,
            command: program.command_number(command),
            query,
            word: &program.command(command).word,
        };
        let lines = why.lines(&place);
        self.give_up(why.reason().to_owned(), lines, consequence, shared)
    }

    pub(super) fn give_up(
        &mut self,
        message: String,
        lines: Vec<String>,
        consequence: Consequence,
        shared: &mut Shared<'_>,
    ) -> Next {
        let now = shared.clock.now();
        self.note(message, lines, consequence, now, shared);
        if self.transaction.begun {
            self.settle(Fate::Unknown);
            shared.recorder.transaction(self.record, Ending::Aborted, 0);
            self.transaction.begun = false;
            shared.ended(self.record, now);
        }
        self.leave_turn(now, shared);
        self.state = State::Aborted;
        shared.client_aborted();
        Next::Close
    }

    fn note(
        &self,
        message: String,
        lines: Vec<String>,
        consequence: Consequence,
        now: Nanos,
        shared: &mut Shared<'_>,
    ) {
        let note = self.error_note(message, lines, consequence, now, shared);
        shared.notes.push(note);
    }

    pub(super) fn error_note(
        &self,
        message: String,
        lines: Vec<String>,
        consequence: Consequence,
        now: Nanos,
        shared: &Shared<'_>,
    ) -> ErrorNote {
        let program = &shared.spec.programs[self.script].program;
        let op = program.clamp_step(self.command);
        let command = program.command(op);
        let error = self.error.as_deref();
        ErrorNote {
            at: now,
            client: self.id,
            script: self.script,
            command: program.command_number(op),
            line: command.line as usize,
            kind: command.word.to_string(),
            query: self.query_of_error(),
            sqlstate: error.map(|error| error.sqlstate().as_str().to_owned()),
            severity: error.map(|error| error.severity.clone()),
            message: error.map_or(message, |error| error.message.clone()),
            lines,
            planned: shared
                .roster
                .as_ref()
                .map(|roster| roster.phase_of_record(self.record)),
            detail: error.and_then(|error| error.detail.clone()),
            hint: error.and_then(|error| error.hint.clone()),
            consequence,
        }
    }
}
