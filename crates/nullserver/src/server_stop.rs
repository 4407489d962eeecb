//! Ends the server: after a signal, or with its parent.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};

/// Wakes a thread that waits for its sockets.
#[derive(Debug)]
pub(crate) struct Waker(UnixStream);

impl Waker {
    /// A waker, and the socket that becomes readable when it is used.
    pub fn pair() -> io::Result<(Self, UnixStream)> {
        let (waker, woken) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        Ok((Self(waker), woken))
    }

    pub fn wake(&self) {
        // a full socket wakes the thread, too
        let _ = (&self.0).write(&[0]);
    }

    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self(self.0.try_clone()?))
    }
}

/// Sets `stop` and wakes all threads at SIGINT or SIGTERM. The second signal kills the process.
pub(crate) fn at_signals(stop: &Arc<AtomicBool>, wakers: &[Waker]) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(stop))?;
        signal_hook::flag::register(signal, Arc::clone(stop))?;
        for waker in wakers {
            signal_hook::low_level::pipe::register(signal, waker.try_clone()?.0)?;
        }
    }
    Ok(())
}

/// Sets `stop` and wakes all threads when standard input closes.
pub(crate) fn with_parent(stop: &Arc<AtomicBool>, wakers: &[Waker]) -> io::Result<()> {
    let stop = Arc::clone(stop);
    let wakers: Vec<Waker> = wakers.iter().map(Waker::try_clone).collect::<io::Result<_>>()?;
    thread::Builder::new().name("lease".into()).spawn(move || {
        let mut ignored = [0; 256];
        let mut input = io::stdin().lock();
        while matches!(input.read(&mut ignored), Ok(count) if count > 0) {}
        end(&stop, &wakers);
    })?;
    Ok(())
}

pub(crate) fn end(stop: &AtomicBool, wakers: &[Waker]) {
    stop.store(true, Ordering::Relaxed);
    wakers.iter().for_each(Waker::wake);
}
