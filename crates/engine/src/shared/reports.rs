//! What a worker reports to the engine while the load runs.

use std::sync::Arc;

use crate::clock::{Nanos, SECOND};
use crate::interval::ErrorNote;
use crate::outage::SharedOutages;

/// What a worker reports to the engine while the load runs.
#[derive(Debug)]
pub struct Reports {
    pub notes: Vec<ErrorNote>,
    /// How many errors have a note.
    pub note_limit: NoteLimit,
    /// Outages over all workers; None when a lost connection is not replaced.
    pub outages: Option<Arc<SharedOutages>>,
    /// Whether connections were lost that were not reported yet.
    pub has_losses: bool,
}

/// How many errors a second of one worker have a note.
const NOTES_A_SECOND: u32 = 20;

/// Decides which errors have a note, before its text is made.
#[derive(Debug, Default)]
pub struct NoteLimit {
    is_every: bool,
    second: Nanos,
    /// How many notes the current second has.
    notes: u32,
    pub dropped: u64,
}

impl NoteLimit {
    /// With a note for every error, or for a few a second.
    pub fn new(is_every: bool) -> Self {
        Self { is_every, ..Self::default() }
    }

    pub fn admits(&mut self, now: Nanos) -> bool {
        if self.is_every {
            return true;
        }
        let second = now / SECOND;
        if second != self.second {
            (self.second, self.notes) = (second, 0);
        }
        let is_admitted = self.notes < NOTES_A_SECOND;
        self.notes += u32::from(is_admitted);
        self.dropped += u64::from(!is_admitted);
        is_admitted
    }
}
