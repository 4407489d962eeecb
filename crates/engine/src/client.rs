//! One session's state machine: bytes and instants in, the next step out. It does no I/O.

use std::io::Write;
use std::sync::Arc;

use pgdyno_script::{Capture, Op, Program, Rng, Value, Vars};
use pgdyno_wire::{self as wire, Exchange, Reply, ServerError, SqlState, TxStatus, frontend};

use crate::clock::Nanos;
use crate::interval::{Consequence, ErrorNote};
use crate::poller::Next;
use crate::recorder::Ending;
use crate::rows::Rows;
use crate::shared::Shared;
use crate::spec::{Initial, Limit};

/// A Query message.
const ROLLBACK: &[u8] = b"Q\0\0\0\x0dROLLBACK\0";
/// A CopyFail message: the server then reports an error with these words in it.
const COPY_FAIL: &[u8] = b"f\0\0\0\x19a script has no data\0";

/// What a client is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Lets others run before its next transaction.
    Yielded,
    /// Waits for its intended start.
    Scheduled,
    /// Waits for the answer to a statement or a pipeline.
    Waiting,
    /// In `\sleep`.
    Sleeping,
    /// Waits for the end of a ROLLBACK after a failed statement.
    RollingBack(Ending),
    /// Has done all it had to.
    Finished,
    /// Gave up.
    Aborted,
}

/// The transaction that a client is in, or is about to begin.
#[derive(Debug, Default)]
struct Transaction {
    intended: Nanos,
    begun: bool,
    tries: u32,
    /// Whether it has waited for the server.
    waited: bool,
    /// The random state at its begin, to which a retry returns.
    rng: Option<Rng>,
}

/// One session.
#[derive(Debug)]
pub struct Client {
    id: usize,
    vars: Vars,
    rng: Rng,
    script: usize,
    /// Next operation of the script.
    at: usize,
    state: State,
    exchange: Exchange,
    out: Vec<u8>,
    /// By script and statement: whether this connection has it prepared.
    prepared: Vec<Vec<bool>>,
    in_pipeline: bool,
    /// Syncs that are not yet answered.
    awaited: usize,
    tx_status: TxStatus,
    /// Operation whose answer is awaited.
    command: usize,
    command_started: Nanos,
    error: Option<Box<ServerError>>,
    rows: Rows,
    /// Whether the exchange hands rows over.
    captures: bool,
    transaction: Transaction,
    ended: u64,
}

impl Client {
    /// Client number `id`, before its first transaction.
    #[must_use]
    pub fn new(id: usize, shared: &Shared<'_>) -> Self {
        let spec = shared.spec;
        let mut vars = Vars::new(Arc::clone(&spec.symbols));
        for (slot, initial) in &spec.initial {
            match initial {
                Initial::Text(text) => vars.set_text(*slot, text.as_bytes()),
                Initial::Int(value) => vars.set_value(*slot, Value::Int(*value)),
                Initial::ClientId => vars.set_value(*slot, Value::Int(id as i64)),
            }
        }
        Self {
            id,
            vars,
            rng: Rng::seed(spec.seeds.clients[id]),
            script: 0,
            at: 0,
            state: State::Scheduled,
            exchange: Exchange::new(wire::Capture::None, false),
            out: Vec::new(),
            prepared: spec
                .programs
                .iter()
                .map(|p| vec![false; p.program.statements.len()])
                .collect(),
            in_pipeline: false,
            awaited: 0,
            tx_status: TxStatus::Idle,
            command: 0,
            command_started: 0,
            error: None,
            rows: Rows::default(),
            captures: false,
            transaction: Transaction::default(),
            ended: 0,
        }
    }

    /// What is to be sent.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        &self.out
    }

    /// Whether it is inside a transaction.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.transaction.begun
    }

    /// Whether it has stopped for good.
    #[must_use]
    pub fn stopped(&self) -> bool {
        matches!(self.state, State::Finished | State::Aborted)
    }

    /// Whether it gave up.
    #[must_use]
    pub fn aborted(&self) -> bool {
        self.state == State::Aborted
    }

    /// Begins the first transaction, now that everybody is connected.
    pub fn begin(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.choose(now, shared)
    }

    /// The instant that it waited for has come.
    pub fn woken(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        match self.state {
            State::Yielded => self.choose(now, shared),
            State::Scheduled => self.begin_transaction(now, shared),
            State::Sleeping => {
                self.end_command(now, shared);
                self.run(now, shared)
            }
            _ => Next::Wait,
        }
    }

    /// Bytes came from the server.
    pub fn received(&mut self, bytes: &[u8], shared: &mut Shared<'_>) -> Next {
        let mut input = bytes;
        let broken = loop {
            let reply = match self.exchange.next(&mut input) {
                Ok(None) => return Next::Wait,
                Ok(Some(reply)) => reply,
                Err(error) => break Some(error),
            };
            match reply {
                Reply::Ready(status) => {
                    self.tx_status = status;
                    self.awaited = self.awaited.saturating_sub(1);
                    if self.awaited == 0 {
                        break None;
                    }
                }
                Reply::Error(error) => {
                    self.error.get_or_insert(error);
                }
                Reply::CopyIn => {
                    self.out.clear();
                    self.out.extend_from_slice(COPY_FAIL);
                    return Next::Send;
                }
                reply => self.rows.take(&reply),
            }
        };
        match broken {
            None => self.answered(shared),
            Some(error) => self.abort(&error.to_string(), Consequence::ConnectionLost, shared),
        }
    }

    /// The connection is gone.
    pub fn closed(&mut self, why: Option<&std::io::Error>, shared: &mut Shared<'_>) {
        if self.stopped() {
            return;
        }
        let message = match why {
            Some(error) => format!("perhaps the backend died while processing: {error}"),
            None => "perhaps the backend died while processing".to_owned(),
        };
        self.abort(&message, Consequence::ConnectionLost, shared);
    }

    // -- the life of a transaction -------------------------------------------------------------

    fn choose(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.script = shared.choose_script();
        let mut intended = shared.schedule.next_start(now);
        if let (true, Some(limit)) = (shared.schedule.is_open(), shared.latency_limit) {
            // too late to be worth starting: count it and take the next
            while intended + limit < now && !self.limit_reached(shared) {
                shared.recorder.transaction(self.script, Ending::Skipped, 0);
                self.ended += 1;
                intended = shared.schedule.next_start(now);
            }
            if self.limit_reached(shared) {
                return self.finish();
            }
        }
        if shared.schedule.is_open() && shared.deadline.is_some_and(|deadline| intended > deadline)
        {
            return self.finish();
        }
        self.transaction = Transaction {
            intended,
            ..Transaction::default()
        };
        if intended > now {
            self.state = State::Scheduled;
            shared.wake_at(intended, self.id);
            return Next::Wait;
        }
        self.begin_transaction(now, shared)
    }

    fn begin_transaction(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.transaction.begun = true;
        self.transaction.tries = 1;
        if shared.spec.tries.may_retry() {
            self.transaction.rng = Some(self.rng);
        }
        if shared.schedule.is_open() {
            let lag = now.saturating_sub(self.transaction.intended);
            shared.recorder.scripts[self.script].lag.record(lag);
        }
        self.at = 0;
        self.run(now, shared)
    }

    fn end_transaction(&mut self, ending: Ending, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let latency = now.saturating_sub(self.transaction.intended);
        shared.recorder.transaction(self.script, ending, latency);
        let counts = &mut shared.recorder.scripts[self.script].counts;
        if ending == Ending::Succeeded && shared.latency_limit.is_some_and(|limit| latency > limit)
        {
            counts.late += 1;
        }
        if self.transaction.tries > 1 {
            counts.retried += 1;
            counts.retries += u64::from(self.transaction.tries - 1);
        }
        shared.last_end = now;
        self.transaction.begun = false;
        self.ended += 1;
        if self.limit_reached(shared) || shared.stops(now) {
            return self.finish();
        }
        if !self.transaction.waited {
            // a script of meta commands alone must let others run, and see the deadline
            self.state = State::Yielded;
            shared.wake_at(now, self.id);
            return Next::Wait;
        }
        self.choose(now, shared)
    }

    fn limit_reached(&self, shared: &Shared<'_>) -> bool {
        matches!(shared.spec.limit, Limit::Transactions(most) if self.ended >= most)
    }

    fn finish(&mut self) -> Next {
        self.state = State::Finished;
        self.out.clear();
        frontend::terminate(&mut self.out);
        Next::Send
    }

    // -- commands ------------------------------------------------------------------------------

    /// Runs commands until one has to wait.
    fn run(&mut self, mut now: Nanos, shared: &mut Shared<'_>) -> Next {
        if self.awaited == 0 {
            self.out.clear();
        }
        let program = &shared.spec.programs[self.script].program;
        while let Some(op) = program.ops.get(self.at) {
            self.command = self.at;
            self.command_started = now;
            self.at += 1;
            let waiting = match op {
                Op::Sql { statement, capture } => self.send_statement(*statement, capture, shared),
                Op::Sleep { amount, unit_us } => {
                    match program.sleep_us(self.command, amount, *unit_us, &self.vars) {
                        Ok(sleep_us) => {
                            let sleep = u64::try_from(sleep_us).unwrap_or(0).saturating_mul(1000);
                            self.state = State::Sleeping;
                            shared.wake_at(now.saturating_add(sleep), self.id);
                            Ok(Some(Next::Wait))
                        }
                        Err(error) => Err(error.to_string()),
                    }
                }
                Op::EndPipeline => self.end_pipeline(),
                _ => self.run_meta(program, op).map(|()| None),
            };
            match waiting {
                Err(message) => return self.abort(&message, Consequence::ClientAborted, shared),
                Ok(Some(next)) => return next,
                Ok(None) => {}
            }
            if shared.times_every_command && !matches!(op, Op::Jump(_)) {
                now = shared.clock.now();
                self.end_command(now, shared);
            }
        }
        if self.in_pipeline {
            let message = "end of script reached with pipeline open";
            return self.abort(message, Consequence::ClientAborted, shared);
        }
        self.end_transaction(Ending::Succeeded, now, shared)
    }

    /// Commands that never wait for the server.
    fn run_meta(&mut self, program: &Program, op: &Op) -> Result<(), String> {
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
                if !value.map_err(|error| error.to_string())?.truth() {
                    self.at = *target;
                }
            }
            Op::Set { target, expr } => {
                let value = program.eval(expr, &mut self.vars, &mut self.rng, &mut debug);
                let value = value.map_err(|error| error.to_string())?;
                self.vars
                    .assign(target, "set", value)
                    .map_err(|error| error.to_string())?;
            }
            Op::Shell { args } => crate::shell::run(program, args, &self.vars)?,
            Op::SetShell { target, args } => {
                let value = Value::Int(crate::shell::output(program, args, &self.vars)?);
                self.vars
                    .assign(target, "setshell", value)
                    .map_err(|error| error.to_string())?;
            }
            Op::StartPipeline if self.in_pipeline => {
                return Err("already in pipeline mode".to_owned());
            }
            Op::StartPipeline => {
                self.in_pipeline = true;
                self.capture(&Capture::None);
            }
            Op::SyncPipeline if !self.in_pipeline => return Err("not in pipeline mode".to_owned()),
            Op::SyncPipeline => self.sync(),
            Op::Sql { .. } | Op::Sleep { .. } | Op::EndPipeline => unreachable!("these wait"),
        }
        Ok(())
    }

    fn end_pipeline(&mut self) -> Result<Option<Next>, String> {
        if !self.in_pipeline {
            return Err("not in pipeline mode".to_owned());
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
    ) -> Result<Option<Next>, String> {
        let parsed = &mut self.prepared[self.script][statement];
        shared.templates[self.script][statement].write(&self.vars, *parsed, &mut self.out);
        *parsed = true;
        if self.in_pipeline {
            return match capture {
                Capture::None => Ok(None),
                Capture::Gset { .. } => Err("\\gset is not allowed in pipeline mode".to_owned()),
                Capture::Aset { .. } => Err("\\aset is not allowed in pipeline mode".to_owned()),
            };
        }
        self.capture(capture);
        if shared.is_simple {
            self.awaited += 1;
        } else {
            self.sync();
        }
        self.state = State::Waiting;
        Ok(Some(Next::Send))
    }

    /// From here on rows go where `capture` says.
    fn capture(&mut self, capture: &Capture) {
        self.rows.begin(capture);
        if self.rows.wanted() != self.captures {
            self.captures = self.rows.wanted();
            let rows = if self.captures {
                wire::Capture::Rows
            } else {
                wire::Capture::None
            };
            self.exchange.set_capture(rows);
            self.exchange.set_completions(self.captures);
        }
    }

    fn sync(&mut self) {
        frontend::sync(&mut self.out);
        self.awaited += 1;
    }

    fn end_command(&self, now: Nanos, shared: &mut Shared<'_>) {
        let number = shared.spec.programs[self.script]
            .program
            .command_number(self.command);
        shared.recorder.command(
            self.script,
            number,
            now.saturating_sub(self.command_started),
        );
    }

    /// All that was sent has been answered.
    fn answered(&mut self, shared: &mut Shared<'_>) -> Next {
        let now = shared.clock.now();
        self.transaction.waited = true;
        match self.state {
            State::Waiting if self.error.is_some() => self.statement_failed(now, shared),
            State::Waiting => {
                self.end_command(now, shared);
                match self.rows.assign(&mut self.vars, &shared.spec.symbols) {
                    Ok(()) => self.run(now, shared),
                    Err(message) => self.abort(&message, Consequence::ClientAborted, shared),
                }
            }
            State::RollingBack(_) if self.error.is_some() => {
                self.abort("could not roll back", Consequence::ClientAborted, shared)
            }
            State::RollingBack(ending) => self.after_failure(ending, now, shared),
            State::Yielded
            | State::Scheduled
            | State::Sleeping
            | State::Finished
            | State::Aborted => Next::Wait,
        }
    }

    // -- failures ------------------------------------------------------------------------------

    fn statement_failed(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let ending = match self.error.as_deref().map(ServerError::sqlstate) {
            Some(SqlState::SERIALIZATION_FAILURE) => Ending::SerializationFailure,
            Some(SqlState::DEADLOCK_DETECTED) => Ending::Deadlock,
            _ => return self.abort("", Consequence::ClientAborted, shared),
        };
        // a statement whose Parse failed is not prepared; asking again costs one Parse
        self.prepared[self.script].fill(false);
        let consequence = if self.may_retry(now, shared) {
            Consequence::Retried
        } else {
            Consequence::Failed
        };
        self.note("", consequence, now, shared);
        self.error = None;
        self.in_pipeline = false;
        if self.tx_status == TxStatus::Idle {
            return self.after_failure(ending, now, shared);
        }
        self.out.clear();
        self.out.extend_from_slice(ROLLBACK);
        self.awaited = 1;
        self.state = State::RollingBack(ending);
        Next::Send
    }

    fn may_retry(&self, now: Nanos, shared: &Shared<'_>) -> bool {
        let late = shared
            .latency_limit
            .is_some_and(|limit| now.saturating_sub(self.transaction.intended) > limit);
        shared.spec.tries.allows_another(self.transaction.tries) && !late && !shared.stops(now)
    }

    fn after_failure(&mut self, ending: Ending, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let number = shared.spec.programs[self.script]
            .program
            .command_number(self.command);
        let retry = self.may_retry(now, shared);
        if let Some(record) = &mut shared.recorder.commands[self.script][number] {
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

    /// Gives up. The server's error, if there is one, says more than `message`.
    fn abort(&mut self, message: &str, consequence: Consequence, shared: &mut Shared<'_>) -> Next {
        let now = shared.clock.now();
        self.note(message, consequence, now, shared);
        if self.transaction.begun {
            shared.recorder.transaction(self.script, Ending::Aborted, 0);
            self.transaction.begun = false;
            shared.last_end = now;
        }
        self.state = State::Aborted;
        shared.client_aborted();
        Next::Close
    }

    fn note(&self, message: &str, consequence: Consequence, now: Nanos, shared: &mut Shared<'_>) {
        let program = &shared.spec.programs[self.script].program;
        let command = program.command(self.command);
        let error = self.error.as_deref();
        shared.notes.push(ErrorNote {
            at: now,
            client: self.id,
            script: self.script,
            command: program.command_number(self.command),
            line: command.line as usize,
            kind: command.word.to_string(),
            query: self.rows.query(),
            sqlstate: error.map(|error| error.sqlstate().as_str().to_owned()),
            severity: error.map(|error| error.severity.clone()),
            message: error.map_or_else(|| message.to_owned(), |error| error.message.clone()),
            detail: error.and_then(|error| error.detail.clone()),
            hint: error.and_then(|error| error.hint.clone()),
            consequence,
        });
    }
}
