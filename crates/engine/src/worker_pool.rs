//! The engine's side of its workers: their messages, and the records that it returns to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{Sender, channel};

use crate::clock::Clock;
use crate::outage::OutageTracker;
use crate::recorder::ScriptRecord;
use crate::spec::Spec;
use crate::statement_template::Template;
use crate::worker::Links;
use crate::worker_channel::{WorkerReceiver, WorkerSender};
use crate::worker_message::WorkerMessage;

/// What every thread of the engine works with.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The specification of the run.
    pub spec: &'a Spec,
    /// Indexed by script and statement.
    pub templates: &'a [Vec<Template>],
    /// The engine's clock.
    pub clock: Clock,
    /// Stops all threads.
    pub stop: &'a AtomicBool,
    /// How late the latest worker started, in nanoseconds.
    pub delay: &'a AtomicU64,
}

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
pub fn links(messages: &WorkerSender, outages: Option<Arc<OutageTracker>>) -> (Links, Recycling) {
    let (recycling, recycled) = channel();
    (Links { messages: messages.clone(), recycled, outages }, Recycling(recycling))
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
