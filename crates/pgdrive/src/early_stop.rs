//! When the program has to stop early: after a signal, or without its parent.

use std::io::{self, BufRead as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pgdyno_connect::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::Exit;

/// How long a load whose lease has run out may take to end: its writer may be blocked by a pipe
/// that nothing reads.
const GRACE: Duration = Duration::from_secs(3);

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
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&lease.stop))?;
            signal_hook::flag::register(signal, Arc::clone(&lease.stop))?;
            signal_hook::flag::register_usize(signal, Arc::clone(&lease.signal), signal as usize)?;
        }
        Ok(lease)
    }

    /// Also ends the lease when standard input closes.
    pub fn end_with_parent(&self) {
        let _ = self.read_parent(None);
    }

    /// Ends the lease when standard input closes and, with a `limit`, when no line has arrived for
    /// that time; returns the lines.
    #[must_use]
    pub fn read_parent(&self, limit: Option<Duration>) -> Receiver<String> {
        let (tell, lines) = mpsc::channel();
        let (renew, renewed) = mpsc::channel();
        let stop = Arc::clone(&self.stop);
        thread::spawn(move || {
            let mut input = io::stdin().lock();
            let mut line = String::new();
            while matches!(input.read_line(&mut line), Ok(bytes) if bytes > 0) {
                // without a limit the receiver does not exist, and lines may have none
                let _ = renew.send(());
                let _ = tell.send(std::mem::take(&mut line));
            }
            stop.store(true, Ordering::Relaxed);
        });
        if let Some(limit) = limit {
            let stop = Arc::clone(&self.stop);
            thread::spawn(move || {
                if runs_out(&renewed, limit) {
                    stop.store(true, Ordering::Relaxed);
                    thread::sleep(GRACE);
                    std::process::exit(1);
                }
            });
        }
        lines
    }

    /// Ends waits for a server when the load has to end.
    #[must_use]
    pub fn interrupt(&self) -> Interrupt {
        Interrupt::by(Arc::clone(&self.stop))
    }

    /// Whether a signal ended the lease.
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

/// Whether nothing arrived for the limit; returns false when the sender has ended.
fn runs_out(renewed: &Receiver<()>, limit: Duration) -> bool {
    loop {
        match renewed.recv_timeout(limit) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_lasts_as_long_as_it_is_renewed() {
        let (renew, renewed) = mpsc::channel();
        renew.send(()).expect("it is open");
        assert!(runs_out(&renewed, Duration::from_millis(1)));
        drop(renew);
        assert!(!runs_out(&renewed, Duration::from_secs(60)));
    }
}
