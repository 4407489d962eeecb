//! `--auto-pipeline`: statements that need no earlier result share a round trip.
//!
//! The client runs on through its script and appends statements to a batch. It waits where a
//! result is needed: behind `\gset`, `\aset`, the end of a block and COPY; before `\sleep`,
//! `\shell`, `\setshell` and `\startpipeline`; and at the script's end. Inside a block there is no
//! Sync between two statements, so that the server skips what follows an error; outside each
//! has its own and stays a transaction of its own. Parse stands right before its Bind, as when
//! nothing is batched: the server sees the same messages in the same order.

use pgdyno_script::{Capture, Op, Program, Sequel};
use pgdyno_wire::TxStatus;

use crate::abort::Abort;
use crate::client::{Client, State};
use crate::clock::Nanos;
use crate::interval::Consequence;
use crate::poller::Next;
use crate::shared::Shared;

/// A batch that has grown to this is sent: what is not sent has to be kept in memory.
const LARGEST_BATCH_BYTES: usize = 64 * 1024;

/// The statements of one round trip.
#[derive(Debug, Default)]
struct Batch {
    statements: Vec<Batched>,
    /// Whether it is on its way; else more may be appended.
    sent: bool,
    /// When that was.
    sent_at: Nanos,
    /// Whether a block is open behind its last statement, if none has failed.
    in_block: bool,
    /// The statement whose answer comes next.
    current: usize,
    /// Whether of what was sent only the failed statement is left.
    is_cut: bool,
    /// Ends the client when all is answered: a command failed that stands behind the batch.
    abort: Option<Box<Abort>>,
}

#[derive(Debug, Clone, Copy)]
struct Batched {
    statement: usize,
    /// Its operation.
    op: usize,
    /// Where it begins in what is sent.
    start: usize,
    /// Whether a ReadyForQuery follows its results.
    synced: bool,
}

/// A client's batch; no memory before the first, since there may be many thousand clients.
#[derive(Debug, Default)]
pub(super) struct Batches(Option<Box<Batch>>);

impl Batches {
    /// Whether its answers are awaited.
    pub fn is_sent(&self) -> bool {
        self.0.as_ref().is_some_and(|batch| batch.sent)
    }

    /// Whether statements wait to be sent.
    pub fn is_open(&self) -> bool {
        let waits = |batch: &Batch| !batch.sent && !batch.statements.is_empty();
        self.0.as_deref().is_some_and(waits)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        if let Some(batch) = &mut self.0 {
            batch.statements.clear();
            batch.sent = false;
            batch.is_cut = false;
            batch.abort = None;
        }
    }

    /// The statement whose answer comes next.
    fn current(&self) -> Option<Batched> {
        let batch = self.0.as_deref()?;
        batch.statements.get(batch.current).copied()
    }

    fn get(&mut self) -> &mut Batch {
        self.0.get_or_insert_default()
    }
}

/// Whether a command shows outside of the client, or needs to know how the transaction stands.
fn needs_answers(op: &Op) -> bool {
    match op {
        Op::Sleep { .. } | Op::Shell { .. } | Op::SetShell { .. } | Op::StartPipeline => true,
        Op::Sql { .. }
        | Op::Set { .. }
        | Op::Jump(_)
        | Op::JumpUnless { .. }
        | Op::SyncPipeline
        | Op::EndPipeline => false,
    }
}

impl Client {
    /// Whether the batch is to be answered before `op` runs.
    pub(super) fn batch_comes_before(&self, op: &Op) -> bool {
        self.batch.is_open() && needs_answers(op)
    }

    /// Appends a statement to the batch; None means that the script goes on.
    ///
    /// # Errors
    /// When it is too long for the protocol.
    pub(super) fn batch_statement(
        &mut self,
        statement: usize,
        capture: &Capture,
        shared: &Shared<'_>,
    ) -> Result<Option<Next>, Abort> {
        if self.batch.is_sent() {
            // its connection was lost
            self.batch.clear();
        }
        if self.batch.get().statements.is_empty() {
            self.batch.get().in_block = self.tx_status != TxStatus::Idle;
        }
        let start = self.out.len();
        if let Err(why) = self.write_statement(statement, shared) {
            // what is whole is still to be sent
            self.out.truncate(start);
            return Err(why);
        }
        let sequel = shared.spec.programs[self.script].program.statements[statement].sequel;
        self.batch.get().in_block |= sequel == Sequel::OpensBlock;
        let synced = shared.is_simple || !self.batch.get().in_block;
        if synced {
            self.batch_sync(shared);
        }
        self.batch.get().statements.push(Batched {
            statement,
            op: self.command,
            start,
            synced,
        });
        let waits = sequel == Sequel::Unknown
            || !matches!(capture, Capture::None)
            || self.out.len() >= LARGEST_BATCH_BYTES;
        Ok(waits.then(|| self.send_batch(shared)))
    }

    /// A Query message is answered without a Sync.
    fn batch_sync(&mut self, shared: &Shared<'_>) {
        if shared.is_simple {
            self.awaited += 1;
        } else {
            self.sync();
        }
    }

    /// Sends the batch, which is open.
    pub(super) fn send_batch(&mut self, shared: &Shared<'_>) -> Next {
        if let Some(last) = self.batch.get().statements.last_mut()
            && !last.synced
        {
            last.synced = true;
            self.batch_sync(shared);
        }
        self.batch.get().sent = true;
        self.batch.get().sent_at = shared.clock.now();
        self.batch.get().current = 0;
        self.expect_current(shared);
        self.state = State::Waiting;
        Next::Send
    }

    /// Ends the client because of a command that failed, when those before it are answered.
    pub(super) fn abort_behind_batch(&mut self, why: Abort, shared: &Shared<'_>) -> Next {
        self.batch.get().abort = Some(Box::new(why));
        self.send_batch(shared)
    }

    /// The next answer is the current statement's: its rows may be wanted, and what goes wrong
    /// from here on is its own.
    fn expect_current(&mut self, shared: &Shared<'_>) {
        let Some(batched) = self.batch.current() else {
            return;
        };
        self.statement = Some(batched.statement);
        self.command = batched.op;
        self.command_started = self.batch.get().sent_at;
        let template = &shared.templates[self.script][batched.statement];
        let counts = !batched.synced || template.is_compound();
        let program = &shared.spec.programs[self.script].program;
        self.capture(capture_of(program, batched.op), counts);
    }

    /// A result is complete: if that is all of the current statement's, it has succeeded.
    pub(super) fn batched_result(
        &mut self,
        is_ready: bool,
        now: &mut Option<Nanos>,
        shared: &mut Shared<'_>,
    ) {
        let current = self.batch.current();
        let ends = current.is_some_and(|batched| batched.synced == is_ready);
        if self.error.is_some() || !ends {
            return;
        }
        // one reading for all that came together
        let now = *now.get_or_insert_with(|| shared.clock.now());
        self.end_command(now, shared);
        self.batch.get().current += 1;
        self.expect_current(shared);
    }

    /// The first error has come: it is the current statement's, and the one that the transaction
    /// fails of. Only what that statement sent is kept, in which the error's position counts.
    pub(super) fn batched_error(&mut self) {
        let batch = self.batch.get();
        if std::mem::replace(&mut batch.is_cut, true) {
            return;
        }
        let mut next = batch.statements.iter().skip(batch.current);
        if let Some(batched) = next.next() {
            let end = next.next().map_or(self.out.len(), |next| next.start);
            // there is less of it when a COPY went between
            self.out.truncate(end);
            self.out.drain(..batched.start.min(self.out.len()));
        }
    }

    /// The whole batch is answered.
    pub(super) fn batch_answered(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let abort = self.batch.get().abort.take();
        self.batch.clear();
        if self.error.is_some() {
            return self.statement_failed(now, shared);
        }
        self.forget_fresh();
        if let Some(why) = abort {
            // the command that failed is the last that ran
            self.command = self.at - 1;
            return self.abort(&why, Consequence::ClientAborted, shared);
        }
        match self.rows.assign(&mut self.vars, &shared.spec.symbols) {
            Ok(()) => self.run(now, shared),
            Err(why) => self.abort(&why, Consequence::ClientAborted, shared),
        }
    }
}

fn capture_of(program: &Program, op: usize) -> &Capture {
    match &program.ops[op] {
        Op::Sql { capture, .. } => capture,
        _ => &Capture::None,
    }
}
