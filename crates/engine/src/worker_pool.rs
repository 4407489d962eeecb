//! The engine's side of its workers: their messages, and the records that it returns to them.

use std::sync::mpsc::{Sender, channel};

use crate::recorder::ScriptRecord;
use crate::worker::Links;
use crate::worker_channel::{WorkerReceiver, WorkerSender};
use crate::worker_message::WorkerMessage;

/// All workers of a run.
pub struct WorkerPool {
    received: WorkerReceiver,
    recycling: Vec<Recycling>,
    /// How many workers have not ended.
    running: usize,
}

/// Returns emptied records to one worker.
pub struct Recycling(Sender<Vec<ScriptRecord>>);

impl Recycling {
    /// Gives the worker `records` for reuse. One that has ended needs none.
    pub fn give(&self, records: Vec<ScriptRecord>) {
        let _ = self.0.send(records);
    }
}

/// Creates both sides of a worker's links: its own, and the engine's.
pub fn links(messages: &WorkerSender) -> (Links, Recycling) {
    let (recycling, recycled) = channel();
    (Links { messages: messages.clone(), recycled }, Recycling(recycling))
}

impl WorkerPool {
    /// Creates the pool from the workers' links, by number.
    pub fn new(received: WorkerReceiver, recycling: Vec<Recycling>) -> Self {
        Self { received, running: recycling.len(), recycling }
    }

    /// Waits for the next message; None after the end of the last worker.
    pub fn next(&mut self) -> Option<WorkerMessage> {
        if self.running == 0 {
            return None;
        }
        let message = self.received.recv().ok()?;
        self.running -= usize::from(matches!(message, WorkerMessage::Ended(_)));
        Some(message)
    }

    /// Returns `records` to worker number `worker` for reuse.
    pub fn recycle(&self, worker: usize, records: Vec<ScriptRecord>) {
        self.recycling[worker].give(records);
    }
}
