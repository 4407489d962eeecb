//! Writes the records of all sessions to a file, in a thread of its own.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use pgdyno_connect::param_error::system_message;

/// Batches that wait to be written; then the workers wait, and with them the sessions.
const WAITING: usize = 64;

/// What is known of the recording while it lasts.
#[derive(Debug, Default)]
pub struct Recording {
    /// Set when nothing more is recorded.
    pub has_ended: AtomicBool,
    pub bytes: AtomicU64,
    pub statements: AtomicU64,
    failure: Mutex<Option<String>>,
}

impl Recording {
    /// Why records could not be written.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Opens the file, which must be new and which only this user can read, and begins to write what is sent.
pub fn start(path: &Path, recording: &Arc<Recording>) -> io::Result<(SyncSender<Vec<u8>>, JoinHandle<()>)> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let (sender, batches) = sync_channel(WAITING);
    let recording = Arc::clone(recording);
    let thread = thread::Builder::new().name("recorder".into()).spawn(move || write(file, &batches, &recording))?;
    Ok((sender, thread))
}

fn write(mut file: File, batches: &Receiver<Vec<u8>>, recording: &Recording) {
    // after an error, batches are still taken: the sessions go on
    for batch in batches {
        if recording.has_ended.load(Ordering::Relaxed) {
            continue;
        }
        let before = recording.bytes.load(Ordering::Relaxed);
        match file.write_all(&batch) {
            Ok(()) => recording.bytes.store(before + batch.len() as u64, Ordering::Relaxed),
            Err(error) => {
                // a part of a record cannot be read
                let _ = file.set_len(before);
                let failure = Some(system_message(&error));
                *recording.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
                recording.has_ended.store(true, Ordering::Relaxed);
            }
        }
    }
}
