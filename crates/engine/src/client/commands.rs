//! How a client runs the commands of its script.

use std::io::Write;

use pgdyno_script::{Capture, Op, Program, Value};
use pgdyno_wire::{self as wire, frontend};

use crate::abort::{Abort, Form};
use crate::client::{Client, State};
use crate::clock::Nanos;
use crate::interval::Consequence;
use crate::message::{Parsed, Template};
use crate::poller::Next;
use crate::recorder::Ending;
use crate::shared::Shared;

impl Client {
    /// Runs commands until one has to wait.
    pub(super) fn run(&mut self, mut now: Nanos, shared: &mut Shared<'_>) -> Next {
        if self.awaited == 0 {
            self.out.clear();
        }
        let program = &shared.spec.programs[self.script].program;
        while let Some(op) = program.ops.get(self.at) {
            if shared.auto_pipeline && self.batch_comes_before(op) {
                return self.send_batch(shared);
            }
            self.command = self.at;
            self.command_started = now;
            self.at += 1;
            if shared.spec.debug.is_some() && !matches!(op, Op::Sql { .. } | Op::Jump(_)) {
                let text = &program.command(self.command).text;
                shared.debug(|| format!("client {} executing {text}", self.id));
            }
            let waiting = match op {
                Op::Sql { statement, capture } => self.send_statement(*statement, capture, shared),
                Op::Sleep { amount, unit_us } => {
                    match program.sleep_us(self.command, amount, *unit_us, &self.vars) {
                        Ok(sleep_us) => {
                            let sleep = u64::try_from(sleep_us).unwrap_or(0).saturating_mul(1000);
                            self.state = State::Sleeping;
                            self.sleep_until(now.saturating_add(sleep), shared);
                            Ok(Some(Next::Wait))
                        }
                        Err(error) => Err(not_executed("sleep").because(error)),
                    }
                }
                Op::StartPipeline => self.start_pipeline(program, shared),
                Op::EndPipeline => self.end_pipeline(),
                _ => self.run_meta(program, op).map(|()| None),
            };
            match waiting {
                Err(why) if self.batch.is_open() => return self.abort_behind_batch(why, shared),
                Err(why) => return self.abort(&why, Consequence::ClientAborted, shared),
                Ok(Some(next)) => return next,
                // its latency is known with its answer
                Ok(None) if self.batch.is_open() && matches!(op, Op::Sql { .. }) => {
                    if shared.times_every_command {
                        now = shared.clock.now();
                    }
                    continue;
                }
                Ok(None) => {}
            }
            if shared.times_every_command && !matches!(op, Op::Jump(_)) {
                now = shared.clock.now();
                self.end_command(now, shared);
            }
        }
        if self.driven.is_some() {
            return self.run_driven(now, shared);
        }
        if self.in_pipeline {
            let why = Abort::new(Form::AtEnd, "end of script reached with pipeline open");
            return self.abort(&why, Consequence::ClientAborted, shared);
        }
        if self.batch.is_open() {
            return self.send_batch(shared);
        }
        self.end_transaction(Ending::Succeeded, now, shared)
    }

    /// Commands that never wait for the server.
    fn run_meta(&mut self, program: &Program, op: &Op) -> Result<(), Abort> {
        let (script, command) = (self.script, self.command);
        let mut debug = |value| {
            // standard error may be closed; nothing depends on it
            let _ = writeln!(
                std::io::stderr(),
                "{}",
                program.debug_line(script, command, value)
            );
        };
        match op {
            Op::Jump(target) => self.at = *target,
            Op::JumpUnless { expr, target } => {
                let value = program.eval(expr, &mut self.vars, &mut self.rng, &mut debug);
                if !value
                    .map_err(|error| not_evaluated().because(error))?
                    .truth()
                {
                    self.at = *target;
                }
            }
            Op::Set { target, expr } => {
                let value = program.eval(expr, &mut self.vars, &mut self.rng, &mut debug);
                let value = value.map_err(|error| not_evaluated().because(error))?;
                self.vars.assign(target, "set", value).map_err(|error| {
                    Abort::command("set", "assignment of meta-command failed").because(error)
                })?;
            }
            Op::Shell { args } => crate::shell::run(program, args, &self.vars)
                .map_err(|error| not_executed("shell").because(error))?,
            Op::SetShell { target, args } => {
                let failed = |error: String| not_executed("setshell").because(error);
                let value = crate::shell::output(program, args, &self.vars).map_err(failed)?;
                self.vars
                    .assign(target, "setshell", Value::Int(value))
                    .map_err(|error| failed(error.to_string()))?;
            }
            Op::SyncPipeline if !self.in_pipeline => {
                return Err(Abort::command("syncpipeline", "not in pipeline mode"));
            }
            Op::SyncPipeline => self.sync(),
            Op::Sql { .. } | Op::Sleep { .. } | Op::StartPipeline | Op::EndPipeline => {
                unreachable!("these wait")
            }
        }
        Ok(())
    }

    /// Enters pipeline mode. What the pipeline holds is prepared before it: a Parse in it would
    /// take a snapshot, and `BEGIN ISOLATION LEVEL SERIALIZABLE` behind that fails.
    fn start_pipeline(
        &mut self,
        program: &Program,
        shared: &Shared<'_>,
    ) -> Result<Option<Next>, Abort> {
        if shared.is_simple {
            let why = "cannot use pipeline mode with the simple query protocol";
            return Err(Abort::command("startpipeline", why));
        }
        if self.in_pipeline {
            return Err(Abort::command("startpipeline", "already in pipeline mode"));
        }
        self.in_pipeline = true;
        self.statement = None;
        self.piped.clear();
        self.capture(&Capture::None, true);
        let mut anything = false;
        for op in &program.ops[self.at..] {
            match op {
                Op::EndPipeline => break,
                Op::Sql { statement, .. } if self.prepare(*statement, shared) => {
                    anything = true;
                    if shared.prepares_ahead {
                        self.sync();
                    }
                }
                _ => {}
            }
        }
        if !anything {
            return Ok(None);
        }
        if shared.prepares_ahead {
            self.state = State::Preparing;
        } else {
            self.sync();
            self.state = State::Waiting;
        }
        Ok(Some(Next::Send))
    }

    /// The answer to a Parse is complete (`Preparing::Ahead`): the server may have refused it.
    pub(super) fn report_unprepared(&mut self, shared: &mut Shared<'_>) {
        let Some(error) = self.error.as_deref() else {
            return;
        };
        let now = shared.clock.now();
        let words = self.in_words(error, 0, shared);
        let consequence = Consequence::Unprepared;
        let note = self.error_note(String::new(), vec![words], consequence, now, shared);
        shared.notes.push(note);
        self.error = None;
    }

    /// What was to be prepared ahead is, as far as the server accepts it.
    pub(super) fn all_prepared(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.forget_fresh();
        self.out.clear();
        let program = &shared.spec.programs[self.script].program;
        let next = match &program.ops[self.command] {
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

    /// Appends what prepares a statement, unless this connection has it.
    fn prepare(&mut self, statement: usize, shared: &Shared<'_>) -> bool {
        let parsed = &mut self.prepared[shared.place(self.script, statement)];
        let template = &shared.templates[self.script][statement];
        let appended = template.prepare(*parsed, &mut self.out);
        if appended {
            *parsed = Parsed::Yes;
            self.fresh.push(statement);
            shared.debug(|| format!("client {} preparing {}", self.id, template.shown(&[])));
        }
        appended
    }

    fn end_pipeline(&mut self) -> Result<Option<Next>, Abort> {
        if !self.in_pipeline {
            return Err(Abort::command("endpipeline", "not in pipeline mode"));
        }
        self.in_pipeline = false;
        self.sync();
        self.state = State::Waiting;
        Ok(Some(Next::Send))
    }

    /// Appends a statement; None means that the script goes on without an answer (a pipeline).
    fn send_statement(
        &mut self,
        statement: usize,
        capture: &Capture,
        shared: &Shared<'_>,
    ) -> Result<Option<Next>, Abort> {
        if self.in_pipeline {
            let (word, why) = match capture {
                Capture::None => ("", ""),
                Capture::Gset { .. } => ("gset", "\\gset is not allowed in pipeline mode"),
                Capture::Aset { .. } => ("aset", "\\aset is not allowed in pipeline mode"),
            };
            if !why.is_empty() {
                return Err(Abort::command(word, why));
            }
        }
        if shared.prepares_ahead && !self.in_pipeline && self.prepare(statement, shared) {
            self.sync();
            self.state = State::Preparing;
            return Ok(Some(Next::Send));
        }
        if shared.auto_pipeline && !self.in_pipeline {
            return self.batch_statement(statement, capture, shared);
        }
        let template = self.write_statement(statement, shared)?;
        if self.in_pipeline {
            self.piped.push(statement);
            return Ok(None);
        }
        self.statement = Some(statement);
        self.capture(capture, template.is_compound());
        if shared.is_simple {
            self.awaited += 1;
        } else {
            self.sync();
        }
        self.state = State::Waiting;
        Ok(Some(Next::Send))
    }

    /// Appends what runs a statement, without a Sync.
    pub(super) fn write_statement<'a>(
        &mut self,
        statement: usize,
        shared: &Shared<'a>,
    ) -> Result<&'a Template, Abort> {
        let parsed = &mut self.prepared[shared.place(self.script, statement)];
        let template = &shared.templates[self.script][statement];
        if let (Some(page), Some(ledger)) = (&mut self.page, &shared.spec.ledger)
            && ledger.is_written_by(self.script, statement)
        {
            page.write();
        }
        let start = self.out.len();
        template
            .write(&self.vars, *parsed, &mut self.out)
            .map_err(|error| {
                Abort::command("SQL", "could not send the statement").because(error)
            })?;
        if *parsed != Parsed::Yes {
            *parsed = Parsed::Yes;
            self.fresh.push(statement);
            if template.is_prepared() {
                shared.debug(|| format!("client {} preparing {}", self.id, template.shown(&[])));
            }
        }
        shared.debug(|| {
            let shown = template.shown(&self.out[start..]);
            format!("client {} sending {shown}", self.id)
        });
        Ok(template)
    }

    /// From here on rows go where `capture` says; `counts` says whether results are counted
    /// when no rows are wanted, too.
    pub(super) fn capture(&mut self, capture: &Capture, counts: bool) {
        self.rows.begin(capture);
        self.report(self.rows.wanted(), counts);
    }

    /// From here on the exchange hands rows over, and tells of every result, as it is said.
    pub(super) fn report(&mut self, rows: bool, counts: bool) {
        if rows != self.captures {
            self.captures = rows;
            let rows = if rows {
                wire::Capture::Rows
            } else {
                wire::Capture::None
            };
            self.exchange.set_capture(rows);
        }
        let completions = rows || counts;
        if completions != self.completions {
            self.completions = completions;
            self.exchange.set_completions(completions);
        }
    }

    pub(super) fn sync(&mut self) {
        frontend::sync(&mut self.out);
        self.awaited += 1;
    }

    pub(super) fn end_command(&self, now: Nanos, shared: &mut Shared<'_>) {
        if !shared.counts(self.record) {
            return;
        }
        let number = shared.spec.programs[self.script]
            .program
            .command_number(self.command);
        shared.recorder.command(
            self.script,
            number,
            now.saturating_sub(self.command_started),
        );
    }
}

fn not_evaluated() -> Abort {
    Abort::new(Form::Command(None), "evaluation of meta-command failed")
}

fn not_executed(word: &'static str) -> Abort {
    Abort::command(word, "execution of meta-command failed")
}
