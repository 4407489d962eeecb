//! When the program has to stop early: after a signal, or without its parent.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use pgdyno_connect::{Interrupt, parent_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::Exit;
use crate::messages::Failure;

/// Whether the program has to stop, and why.
#[derive(Debug, Default, Clone)]
pub struct Lease {
    /// Set when the load has to end.
    pub stop: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Lease {
    /// A lease that ends at SIGINT, SIGTERM and SIGHUP. The second such signal kills the process.
    pub fn take() -> Result<Self, Failure> {
        let lease = Self::default();
        let watched = lease.watch_signals();
        watched.map_err(|error| Failure::new(format!("could not watch for signals: {error}")))?;
        Ok(lease)
    }

    fn watch_signals(&self) -> io::Result<()> {
        // the parent may end before its signal is delivered, which is then the first
        let signalled = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&signalled))?;
            signal_hook::flag::register(signal, Arc::clone(&signalled))?;
            signal_hook::flag::register(signal, Arc::clone(&self.stop))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&self.signal), signal as usize)?;
        }
        Ok(())
    }

    /// A lease that also ends when standard input closes, if there is a parent.
    pub fn take_from(has_parent: bool) -> Result<Self, Failure> {
        let lease = Self::take()?;
        if has_parent {
            let _ = lease.read_parent(None);
        }
        Ok(lease)
    }

    /// Ends the lease when standard input closes or, with a `limit`, has no line for that time; returns the lines.
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

    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends waits for a server when the load has to end.
    pub fn interrupt(&self) -> Interrupt {
        Interrupt::by(Arc::clone(&self.stop))
    }

    pub fn has_signal(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0
    }

    /// The exit of a process that was stopped early: that of its signal, or as after SIGHUP.
    pub fn exit(&self) -> Exit {
        match self.signal.load(Ordering::Relaxed) {
            0 => Exit::Signalled(SIGHUP),
            signal => Exit::Signalled(signal as i32),
        }
    }
}
