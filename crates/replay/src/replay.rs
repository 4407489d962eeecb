//! The sessions of a replay file as the load of an engine.
//!
//! A client that is free takes the next session of the file, and waits for its begin. Because
//! sessions are in the order of their begins, there are never more clients than sessions at the
//! busiest moment, and a session that ends late delays only the next one that finds no free client.

use std::sync::{Arc, Mutex, PoisonError};

use pgdyno_engine::driver::{Driver, Drivers};

use crate::driver::SessionDriver;
use crate::outcome::{Outcome, Tally};
use crate::pace_and_patience::{Pace, Progress};
use crate::replay_file::ReplayFile;

/// The sessions of a file, for the clients of a load.
#[derive(Debug)]
pub struct Replay {
    progress: Arc<Progress>,
    /// Indexed by group of clients.
    tallies: Mutex<Vec<Arc<Mutex<Tally>>>>,
}

impl Replay {
    pub fn new(file: ReplayFile, pace: Pace) -> Self {
        Self { progress: Arc::new(Progress::new(file, pace)), tallies: Mutex::default() }
    }

    pub fn file(&self) -> &ReplayFile {
        &self.progress.file
    }

    pub fn pace(&self) -> Pace {
        self.progress.pace
    }

    pub fn outcome(&self) -> Outcome {
        let mut tally = Tally::default();
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        for one in tallies.iter() {
            tally.add(&one.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let header = &self.file().header;
        let (sessions, statements, ambiguous) = (header.sessions, header.statements, header.ambiguous);
        Outcome { sessions, statements, ambiguous, tally }
    }

    /// The tally of a group of clients, which share a thread.
    fn tally(&self, group: usize) -> Arc<Mutex<Tally>> {
        let mut tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        if tallies.len() <= group {
            tallies.resize_with(group + 1, Arc::default);
        }
        Arc::clone(&tallies[group])
    }
}

impl Drivers for Replay {
    fn driver(&self, group: usize, client: usize) -> Box<dyn Driver> {
        Box::new(SessionDriver::new(Arc::clone(&self.progress), self.tally(group), self.progress.first_session(client)))
    }

    fn prints_notices(&self) -> bool {
        false
    }

    fn begins_connected(&self, client: usize) -> bool {
        self.progress.first_session(client).is_some()
    }
}
