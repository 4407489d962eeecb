//! When the engine is to stop before its time: signals, and a parent that is gone.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use pgdyno_connect::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::Exit;

/// Whether to stop, and why.
#[derive(Debug, Default)]
pub struct Lease {
    /// Set when the load is to end.
    pub stop: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Lease {
    /// A lease that ends at SIGINT, SIGTERM and SIGHUP. The second such signal kills at once.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn take() -> io::Result<Self> {
        let lease = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&lease.stop))?;
            signal_hook::flag::register(signal, Arc::clone(&lease.stop))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&lease.signal), signal as usize)?;
        }
        Ok(lease)
    }

    /// Ends the lease when standard input closes, too.
    pub fn end_with_parent(&self) {
        let stop = Arc::clone(&self.stop);
        thread::spawn(move || {
            let mut ignored = [0; 256];
            let mut input = io::stdin().lock();
            while matches!(input.read(&mut ignored), Ok(count) if count > 0) {}
            stop.store(true, Ordering::Relaxed);
        });
    }

    /// Ends waits for a server when the load is to end.
    #[must_use]
    pub fn interrupt(&self) -> Interrupt {
        Interrupt::by(Arc::clone(&self.stop))
    }

    /// The exit of a process that stopped early: by its signal, else as after SIGHUP.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self.signal.load(Ordering::Relaxed) {
            0 => Exit::Signalled(SIGHUP),
            signal => Exit::Signalled(signal as i32),
        }
    }
}
