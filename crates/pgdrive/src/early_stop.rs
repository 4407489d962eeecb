//! When the program has to stop early: after a signal, or without its parent.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use pgdyno_connect::{Interrupt, parent_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::Exit;

/// Whether the program has to stop, and why.
#[derive(Debug, Default, Clone)]
pub struct Lease {
    /// Set when the load has to end.
    pub stop: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Lease {
    /// A lease that ends at SIGINT, SIGTERM and SIGHUP. The second such signal kills the process.
    ///
    /// # Errors
    /// The system refuses a handler.
    pub fn take() -> io::Result<Self> {
        let lease = Self::default();
        // the parent may end before its signal is delivered, which is then the first
        let signalled = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&signalled))?;
            signal_hook::flag::register(signal, Arc::clone(&signalled))?;
            signal_hook::flag::register(signal, Arc::clone(&lease.stop))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&lease.signal), signal as usize)?;
        }
        Ok(lease)
    }

    /// Also ends the lease when standard input closes.
    pub fn end_with_parent(&self) {
        let _ = self.read_parent(None);
    }

    /// Ends the lease when standard input closes or, with a `limit`, has no line for that time; returns the lines.
    #[must_use]
    pub fn read_parent(&self, limit: Option<Duration>) -> Receiver<String> {
        let (tell, lines) = mpsc::channel();
        let flag = Arc::clone(&self.stop);
        let stop = move || flag.store(true, Ordering::Relaxed);
        // lines may have no receiver
        let on_line = move |line: &str| drop(tell.send(line.to_owned()));
        if parent_process::watch(io::stdin(), limit, stop, on_line).is_err() {
            self.stop.store(true, Ordering::Relaxed);
        }
        lines
    }

    /// Ends waits for a server when the load has to end.
    #[must_use]
    pub fn interrupt(&self) -> Interrupt {
        Interrupt::by(Arc::clone(&self.stop))
    }

    #[must_use]
    pub fn has_signal(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0
    }

    /// The exit of a process that was stopped early: that of its signal, or as after SIGHUP.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self.signal.load(Ordering::Relaxed) {
            0 => Exit::Signalled(SIGHUP),
            signal => Exit::Signalled(signal as i32),
        }
    }
}
