//! The channel on which workers report to the engine. A worker never waits for its reader: notes
//! have a few places, so that intervals always find room for minutes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TrySendError, sync_channel};

use crate::clock::Nanos;
use crate::command_record::CommandRecord;
use crate::commit_ledger::ClientLedger;
use crate::connect_record::ConnectRecord;
use crate::error_counts::ErrorCounts;
use crate::interval::{ErrorNote, Interval};

/// What a worker reports to the engine.
#[derive(Debug)]
pub enum WorkerMessage {
    Interval(Interval),
    /// An error occurred.
    Error(ErrorNote),
    /// The outage tracker has something to report.
    Outage,
    Ended(WorkerEnd),
}

/// The final state of a worker.
#[derive(Debug, Default)]
pub struct WorkerEnd {
    pub worker: usize,
    pub commands: Vec<Vec<Option<CommandRecord>>>,
    /// Errors that count in the results.
    pub errors: ErrorCounts,
    pub connects: Option<Box<ConnectRecord>>,
    pub unreported_errors: u64,
    /// Numbers of the records of the transactions that were still running.
    pub in_flight: Vec<usize>,
    /// Intended starts of an open loop that were due and that no client was free for; by phase in a run with phases.
    pub unstarted: Vec<u64>,
    /// How many clients gave up.
    pub aborted: usize,
    /// How many statements the server may still run, because they did not end when they were cancelled.
    pub left_running: usize,
    /// Where its measured part ends.
    pub measured_until: Nanos,
    /// See [`the results of `crate::shared::Shared``].
    pub overruns: Vec<Nanos>,
    /// What its clients know of their transactions (--ledger).
    pub ledgers: Vec<ClientLedger>,
    /// For each client that it had at the end, how many of its transactions ended.
    pub ended: Vec<u64>,
    /// The worker's own failure, for example of its poller.
    pub failure: Option<io::Error>,
}

impl WorkerEnd {
    /// The end of worker number `worker`, of which nothing is known but its failure.
    pub fn panicked(worker: usize, failure: io::Error) -> Self {
        Self { worker, failure: Some(failure), ..Self::default() }
    }
}

/// How many messages may wait for a slow reader before workers start to merge intervals.
const MESSAGES_IN_FLIGHT: usize = 256;
/// How many of them may be notes of errors.
const NOTES_IN_FLIGHT: usize = 64;

/// A worker's end of the channel.
#[derive(Debug, Clone)]
pub struct WorkerSender {
    messages: SyncSender<WorkerMessage>,
    notes: Arc<AtomicUsize>,
}

/// The engine's end of the channel.
#[derive(Debug)]
pub struct WorkerReceiver {
    messages: Receiver<WorkerMessage>,
    notes: Arc<AtomicUsize>,
}

pub fn worker_channel() -> (WorkerSender, WorkerReceiver) {
    let (sender, receiver) = sync_channel(MESSAGES_IN_FLIGHT);
    let notes = Arc::<AtomicUsize>::default();
    let sender = WorkerSender { messages: sender, notes: Arc::clone(&notes) };
    let receiver = WorkerReceiver { messages: receiver, notes };
    (sender, receiver)
}

impl WorkerSender {
    /// Sends a message if there is room for it; otherwise returns it.
    pub fn offer(&self, message: WorkerMessage) -> Option<WorkerMessage> {
        let is_note = matches!(message, WorkerMessage::Error(_));
        if is_note && self.notes.fetch_add(1, Ordering::Relaxed) >= NOTES_IN_FLIGHT {
            self.notes.fetch_sub(1, Ordering::Relaxed);
            return Some(message);
        }
        match self.messages.try_send(message) {
            Err(TrySendError::Full(message)) => {
                self.notes.fetch_sub(usize::from(is_note), Ordering::Relaxed);
                Some(message)
            }
            // the channel is closed only if the engine itself has failed
            Ok(()) | Err(TrySendError::Disconnected(_)) => None,
        }
    }

    /// Sends a message, and waits for room: only for a thread whose load has not begun or has ended.
    pub fn send(&self, message: WorkerMessage) {
        let is_note = matches!(message, WorkerMessage::Error(_));
        self.notes.fetch_add(usize::from(is_note), Ordering::Relaxed);
        // the channel is closed only if the engine itself has failed
        let _ = self.messages.send(message);
    }
}

impl WorkerReceiver {
    /// Waits for the next message.
    pub fn recv(&self) -> Result<WorkerMessage, RecvError> {
        self.messages.recv().inspect(|message| {
            let is_note = matches!(message, WorkerMessage::Error(_));
            self.notes.fetch_sub(usize::from(is_note), Ordering::Relaxed);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> WorkerMessage {
        WorkerMessage::Error(ErrorNote::default())
    }

    #[test]
    fn notes_leave_room_for_other_messages() {
        let (sender, receiver) = worker_channel();
        let other = sender.clone();
        assert_eq!((0..1000).filter(|_| sender.offer(note()).is_none()).count(), NOTES_IN_FLIGHT);
        assert!(other.offer(note()).is_some(), "all workers share the places");
        let offers = (0..1000).map(|_| sender.offer(WorkerMessage::Outage));
        assert_eq!(offers.filter(Option::is_none).count(), MESSAGES_IN_FLIGHT - NOTES_IN_FLIGHT);
        assert!(receiver.recv().is_ok());
        assert!(other.offer(note()).is_none(), "there is room again");
        assert!(other.offer(note()).is_some());
    }
}
