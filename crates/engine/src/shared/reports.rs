//! What a worker reports to the engine while the load runs.

use std::sync::Arc;

use crate::interval::ErrorNote;
use crate::note_limit::NoteLimit;
use crate::outage::OutageTracker;

/// What a worker reports to the engine while the load runs.
#[derive(Debug)]
pub struct Reports {
    pub notes: Vec<ErrorNote>,
    /// How many errors have a note.
    pub note_limit: NoteLimit,
    /// Outages over all workers; None when a lost connection is not replaced.
    pub outages: Option<Arc<OutageTracker>>,
    /// Whether connections were lost that were not reported yet.
    pub has_losses: bool,
}
