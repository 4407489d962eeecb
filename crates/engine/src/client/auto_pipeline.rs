//! `--auto-pipeline`: statements that need no earlier result share a round trip.
//!
//! The client runs on through its script and appends statements to a batch. It waits where a result is needed: after
//! `\gset`, `\aset`, the end of a block and COPY; before `\sleep`, `\shell`, `\setshell` and `\startpipeline`; and at
//! the script's end. Inside a block there is no Sync between two statements, so that the server skips what follows an
//! error; outside each has its own and stays a transaction of its own. Parse stands right before its Bind, as when
//! nothing is batched: the server sees the same messages in the same order.

use pgdyno_script::{Capture, Op, Sequel};
use pgdyno_wire::TxStatus;

use crate::client::Client;
use crate::client::state::{Awaited, State};
use crate::client_abort::Abort;
use crate::clock::Nanos;
use crate::interval::Consequence;
use crate::poller::Next;
use crate::shared::Shared;
use crate::transaction::Batched;

/// A batch of this size is sent at once: until it is sent, it has to stay in memory.
const LARGEST_BATCH_BYTES: usize = 64 * 1024;

pub(super) fn needs_answers(op: &Op) -> bool {
    match op {
        Op::Sleep { .. } | Op::Shell { .. } | Op::SetShell { .. } | Op::StartPipeline => true,
        Op::Sql { .. } | Op::Set { .. } | Op::Jump(_) | Op::JumpUnless { .. } | Op::SyncPipeline | Op::EndPipeline => {
            false
        }
    }
}

impl Client {
    /// Appends a statement to the batch; None means that the script continues.
    pub(super) fn batch_statement(
        &mut self, statement: usize, capture: &Capture, shared: &Shared<'_>,
    ) -> Result<Option<Next>, Abort> {
        let is_block_open = self.session.tx_status() != TxStatus::Idle;
        let start = self.session.outgoing().len();
        if let Err(why) = self.write_statement(statement, shared) {
            // the complete statements before it still have to be sent
            self.session.truncate(start);
            return Err(why);
        }
        let program = &shared.run.spec.programs[self.transaction.script].program;
        let sequel = program.statements[statement].sequel;
        let batch = self.transaction.mode.batch();
        if batch.statements.is_empty() {
            batch.in_block = is_block_open;
        }
        batch.in_block |= sequel == Sequel::OpensBlock;
        let synced = shared.run.is_simple || !batch.in_block;
        batch.statements.push(Batched { statement, op: self.transaction.command, start, synced });
        if synced {
            self.session.end_statement(shared.run.is_simple);
        }
        let waits = sequel == Sequel::Unknown
            || !matches!(capture, Capture::None)
            || self.session.outgoing().len() >= LARGEST_BATCH_BYTES;
        Ok(waits.then(|| self.send_batch(shared)))
    }

    pub(super) fn send_batch(&mut self, shared: &Shared<'_>) -> Next {
        let batch = self.transaction.mode.batch();
        if let Some(last) = batch.statements.last_mut()
            && !last.synced
        {
            last.synced = true;
            self.session.end_statement(shared.run.is_simple);
        }
        batch.send(shared.clock.now());
        self.expect_current(shared);
        self.enter(State::Running(Awaited::Answer));
        Next::Send
    }

    fn expect_current(&mut self, shared: &Shared<'_>) {
        let batch = self.transaction.mode.batch();
        let Some(batched) = batch.next_answered() else {
            return;
        };
        batch.statement = Some(batched.statement);
        self.transaction.command = batched.op;
        self.transaction.command_started = batch.sent_at;
        let capture = match &shared.run.spec.programs[self.transaction.script].program.ops[batched.op] {
            Op::Sql { capture, .. } => capture,
            _ => &Capture::None,
        };
        self.session.capture(capture);
    }

    pub(super) fn end_batched_result(&mut self, is_ready: bool, now: &mut Option<Nanos>, shared: &mut Shared<'_>) {
        let current = self.transaction.mode.batch().next_answered();
        let ends = current.is_some_and(|batched| batched.synced == is_ready);
        if self.session.error().is_some() || !ends {
            return;
        }
        // one reading of the clock serves all results that arrived together
        let now = *now.get_or_insert_with(|| shared.clock.now());
        self.end_command(now, shared);
        self.transaction.mode.batch().current += 1;
        self.expect_current(shared);
    }

    /// Handles the first error of a batch: it belongs to the current statement, and the transaction fails because of
    /// it. Only the bytes of that statement are kept, because the error's position counts in them.
    pub(super) fn assign_batched_error(&mut self) {
        if let Some((start, end)) = self.transaction.mode.batch().cut() {
            self.session.keep_sent(start, end);
        }
    }

    pub(super) fn finish_batch(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let batch = self.transaction.mode.batch();
        let abort = batch.abort.take();
        batch.clear();
        if self.session.error().is_some() {
            return self.fail_statement(now, shared);
        }
        self.session.confirm_prepared();
        if let Some(why) = abort {
            // the command that failed is the last one that ran
            self.transaction.command = self.transaction.next_op - 1;
            return self.abort(&why, Consequence::ClientAborted, shared);
        }
        self.assign_and_run(now, shared)
    }
}
