//! How a client runs the commands of its script.

use std::io::Write;

use pgdyno_script::{Capture, Op, Program, Value};

use crate::client::Client;
use crate::client::auto_pipeline::needs_answers;
use crate::client::state::{Awaited, State};
use crate::client_abort::{Abort, Form};
use crate::clock::Nanos;
use crate::interval::Consequence;
use crate::poller::Next;
use crate::recorder::Ending;
use crate::shared::Shared;

impl Client {
    pub(super) fn run(&mut self, mut now: Nanos, shared: &mut Shared<'_>) -> Next {
        if !self.session.awaits_answer() {
            self.session.clear_outgoing();
        }
        let program = &shared.run.spec.programs[self.transaction.script].program;
        while let Some(op) = program.ops.get(self.transaction.next_op) {
            if shared.run.auto_pipeline && self.transaction.mode.has_unsent() && needs_answers(op) {
                return self.send_batch(shared);
            }
            self.transaction.command = self.transaction.next_op;
            self.transaction.command_started = now;
            self.transaction.next_op += 1;
            if shared.run.spec.debug.is_some() && !matches!(op, Op::Sql { .. } | Op::Jump(_)) {
                let text = &program.command(self.transaction.command).text;
                shared.run.debug(|| format!("client {} executing {text}", self.id));
            }
            let waiting = self.execute(op, program, now, shared);
            match waiting {
                Err(why) if self.transaction.mode.has_unsent() => {
                    // once the statements before it are answered
                    self.transaction.mode.batch().abort = Some(Box::new(why));
                    return self.send_batch(shared);
                }
                Err(why) => return self.abort(&why, Consequence::ClientAborted, shared),
                Ok(Some(next)) => return next,
                // its latency is recorded when its answer arrives
                Ok(None) if self.transaction.mode.has_unsent() && matches!(op, Op::Sql { .. }) => {
                    if shared.run.times_every_command {
                        now = shared.clock.now();
                    }
                    continue;
                }
                Ok(None) => {}
            }
            if shared.run.times_every_command && !matches!(op, Op::Jump(_)) {
                now = shared.clock.now();
                self.end_command(now, shared);
            }
        }
        self.end_script(now, shared)
    }

    /// Executes one operation; returns None if the next one may follow immediately.
    #[inline]
    fn execute(
        &mut self, op: &Op, program: &Program, now: Nanos, shared: &mut Shared<'_>,
    ) -> Result<Option<Next>, Abort> {
        match op {
            Op::Sql { statement, capture } => self.send_statement(*statement, capture, shared),
            Op::Sleep { amount, unit_us } => {
                let command = self.transaction.command;
                let sleep_us = program
                    .sleep_us(command, amount, *unit_us, &self.vars)
                    .map_err(|error| not_executed("sleep").because(error))?;
                let sleep = u64::try_from(sleep_us).unwrap_or(0).saturating_mul(1000);
                self.enter(State::Running(Awaited::Sleep));
                self.sleep_until(now.saturating_add(sleep), shared);
                Ok(Some(Next::Wait))
            }
            Op::StartPipeline => self.start_pipeline(program, shared),
            Op::EndPipeline => self.end_pipeline(),
            Op::Shell { .. } | Op::SetShell { .. } => {
                let result = self.run_meta(program, op, shared);
                if shared.run.is_stopped() {
                    // the command was ended, and its session is closed like that of one that sleeps
                    self.enter(State::Running(Awaited::Sleep));
                    return Ok(Some(Next::Wait));
                }
                result.map(|()| None)
            }
            _ => self.run_meta(program, op, shared).map(|()| None),
        }
    }

    /// Ends the script. A driver has no script, and decides from here on.
    #[inline]
    fn end_script(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if self.transaction.is_driven() {
            return self.run_driver(now, shared);
        }
        if self.transaction.mode.is_in_pipeline() {
            let why = Abort::new(Form::AtEnd, "end of script reached with pipeline open");
            return self.abort(&why, Consequence::ClientAborted, shared);
        }
        if self.transaction.mode.has_unsent() {
            return self.send_batch(shared);
        }
        self.end_transaction(Ending::Succeeded, now, shared)
    }

    /// Runs a command that never waits for the server.
    fn run_meta(&mut self, program: &Program, op: &Op, shared: &Shared<'_>) -> Result<(), Abort> {
        let (script, command) = (self.transaction.script, self.transaction.command);
        let mut debug = |value| {
            // standard error may be closed, which must not stop the client
            let _ = writeln!(std::io::stderr(), "{}", program.debug_line(script, command, value));
        };
        match op {
            Op::Jump(target) => self.transaction.next_op = *target,
            Op::JumpUnless { expr, target } => {
                let value = program.eval(expr, &mut self.vars, &mut self.random.functions, &mut debug);
                if !value.map_err(|error| not_evaluated().because(error))?.truth() {
                    self.transaction.next_op = *target;
                }
            }
            Op::Set { target, expr } => {
                let value = program.eval(expr, &mut self.vars, &mut self.random.functions, &mut debug);
                let value = value.map_err(|error| not_evaluated().because(error))?;
                self.vars
                    .assign(target, "set", value)
                    .map_err(|error| Abort::command("set", "assignment of meta-command failed").because(error))?;
            }
            Op::Shell { args } => crate::shell::run(program, args, &self.vars, || shared.run.is_stopped())
                .map_err(|error| not_executed("shell").because(error))?,
            Op::SetShell { target, args } => {
                let failed = |error: String| not_executed("setshell").because(error);
                let value =
                    crate::shell::output(program, args, &self.vars, || shared.run.is_stopped()).map_err(failed)?;
                self.vars.assign(target, "setshell", Value::Int(value)).map_err(|error| failed(error.to_string()))?;
            }
            Op::SyncPipeline if !self.transaction.mode.is_in_pipeline() => {
                return Err(Abort::command("syncpipeline", "not in pipeline mode"));
            }
            Op::SyncPipeline => self.session.sync(),
            Op::Sql { .. } | Op::Sleep { .. } | Op::StartPipeline | Op::EndPipeline => {
                unreachable!("these wait")
            }
        }
        Ok(())
    }

    /// Enters pipeline mode. The statements of the pipeline are prepared before it: a Parse inside
    /// it would take a snapshot, after which `BEGIN ISOLATION LEVEL SERIALIZABLE` fails.
    fn start_pipeline(&mut self, program: &Program, shared: &Shared<'_>) -> Result<Option<Next>, Abort> {
        if shared.run.is_simple {
            let why = "cannot use pipeline mode with the simple query protocol";
            return Err(Abort::command("startpipeline", why));
        }
        if self.transaction.mode.is_in_pipeline() {
            return Err(Abort::command("startpipeline", "already in pipeline mode"));
        }
        self.transaction.mode.open_pipeline();
        self.session.capture(&Capture::None);
        let mut anything = false;
        for op in &program.ops[self.transaction.next_op..] {
            match op {
                Op::EndPipeline => break,
                Op::Sql { statement, .. } if self.prepare(*statement, shared) => {
                    anything = true;
                    if shared.run.prepares_ahead {
                        self.session.sync();
                    }
                }
                _ => {}
            }
        }
        if !anything {
            return Ok(None);
        }
        if shared.run.prepares_ahead {
            self.enter(State::Running(Awaited::Preparation));
        } else {
            self.session.sync();
            self.enter(State::Running(Awaited::Answer));
        }
        Ok(Some(Next::Send))
    }

    pub(super) fn report_unprepared(&mut self, shared: &mut Shared<'_>) {
        let Some(error) = self.session.error() else {
            return;
        };
        let now = shared.clock.now();
        let words = self.describe(error, 0, shared);
        let consequence = Consequence::Unprepared;
        self.count_error("", shared);
        self.note(String::new(), vec![words], consequence, now, shared);
        self.session.take_error();
    }

    pub(super) fn finish_preparation(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.session.confirm_prepared();
        self.session.clear_outgoing();
        let program = &shared.run.spec.programs[self.transaction.script].program;
        let next = match &program.ops[self.transaction.command] {
            Op::Sql { statement, capture } => self.send_statement(*statement, capture, shared),
            _ => {
                self.end_command(now, shared);
                Ok(None)
            }
        };
        match next {
            Ok(Some(next)) => next,
            Ok(None) => self.run(now, shared),
            Err(why) => self.abort(&why, Consequence::ClientAborted, shared),
        }
    }

    /// Appends the messages that prepare a statement, unless this connection has prepared it.
    fn prepare(&mut self, statement: usize, shared: &Shared<'_>) -> bool {
        let number = shared.run.statement_number(self.transaction.script, statement);
        let template = &shared.run.templates[self.transaction.script][statement];
        let appended = self.session.prepare(number, template);
        if appended {
            shared.run.debug(|| format!("client {} preparing {}", self.id, template.debug_name(&[])));
        }
        appended
    }

    fn end_pipeline(&mut self) -> Result<Option<Next>, Abort> {
        if !self.transaction.mode.is_in_pipeline() {
            return Err(Abort::command("endpipeline", "not in pipeline mode"));
        }
        self.transaction.mode.close_pipeline();
        self.session.sync();
        self.enter(State::Running(Awaited::Answer));
        Ok(Some(Next::Send))
    }

    /// Appends a statement; returns None if the script continues without waiting for an answer, as in a pipeline.
    fn send_statement(
        &mut self, statement: usize, capture: &Capture, shared: &Shared<'_>,
    ) -> Result<Option<Next>, Abort> {
        if self.transaction.mode.is_in_pipeline() {
            let (word, why) = match capture {
                Capture::None => ("", ""),
                Capture::Gset { .. } => ("gset", "\\gset is not allowed in pipeline mode"),
                Capture::Aset { .. } => ("aset", "\\aset is not allowed in pipeline mode"),
            };
            if !why.is_empty() {
                return Err(Abort::command(word, why));
            }
        }
        if shared.run.prepares_ahead && !self.transaction.mode.is_in_pipeline() && self.prepare(statement, shared) {
            self.session.sync();
            self.enter(State::Running(Awaited::Preparation));
            return Ok(Some(Next::Send));
        }
        if shared.run.auto_pipeline && !self.transaction.mode.is_in_pipeline() {
            return self.batch_statement(statement, capture, shared);
        }
        self.write_statement(statement, shared)?;
        if self.transaction.mode.is_in_pipeline() {
            self.transaction.mode.add_to_pipeline(statement);
            return Ok(None);
        }
        self.transaction.mode.send_alone(statement);
        self.session.capture(capture);
        self.session.end_statement(shared.run.is_simple);
        self.enter(State::Running(Awaited::Answer));
        Ok(Some(Next::Send))
    }

    pub(super) fn write_statement(&mut self, statement: usize, shared: &Shared<'_>) -> Result<(), Abort> {
        let template = &shared.run.templates[self.transaction.script][statement];
        if let (Some(own), Some(ledger)) = (&mut self.ledger, &shared.run.spec.ledger)
            && ledger.is_written_by(self.transaction.script, statement)
        {
            own.write();
        }
        let start = self.session.outgoing().len();
        let number = shared.run.statement_number(self.transaction.script, statement);
        let is_new = self
            .session
            .write(number, template, &self.vars)
            .map_err(|error| Abort::command("SQL", "could not send the statement").because(error))?;
        if is_new && template.is_prepared() {
            shared.run.debug(|| format!("client {} preparing {}", self.id, template.debug_name(&[])));
        }
        shared.run.debug(|| {
            let shown = template.debug_name(&self.session.outgoing()[start..]);
            format!("client {} sending {shown}", self.id)
        });
        Ok(())
    }

    pub(super) fn end_command(&mut self, now: Nanos, shared: &mut Shared<'_>) {
        let row_counts = self.session.rows_mut().take_row_counts();
        if !shared.starts.counts(self.transaction.record) {
            return;
        }
        let number = self.command_number(shared);
        shared.results.recorder.command(
            self.transaction.script,
            number,
            now.saturating_sub(self.transaction.command_started),
            row_counts,
        );
    }
}

fn not_evaluated() -> Abort {
    Abort::new(Form::Command(None), "evaluation of meta-command failed")
}

fn not_executed(word: &'static str) -> Abort {
    Abort::command(word, "execution of meta-command failed")
}
