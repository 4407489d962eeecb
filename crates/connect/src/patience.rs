//! How long to wait for a server, and what ends the wait early.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::watch::Watch;

/// How often a wait checks for an interruption.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time between two attempts at a Unix socket whose queue of connections is full.
const PAUSE: Duration = Duration::from_millis(2);

/// A flag that ends every wait of its holders. It is a flag because a signal handler may do no more than set one.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Option<Arc<AtomicBool>>);

impl Interrupt {
    /// An interrupt that is triggered by `flag`.
    pub fn by(flag: Arc<AtomicBool>) -> Self {
        Self(Some(flag))
    }

    pub fn is_set(&self) -> bool {
        let flag = self.0.as_ref();
        flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    pub fn caused(error: &io::Error) -> bool {
        let inner = error.get_ref();
        inner.is_some_and(|inner| inner.is::<Interrupted>())
    }
}

/// The error of an interrupted wait. Its kind is not `Interrupted`, because callers retry after that.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
struct Interrupted;

/// The limits of a wait; by default there are none.
#[derive(Clone, Debug, Default)]
pub struct Patience {
    deadline: Option<Instant>,
    interrupt: Interrupt,
    watch: Option<Watch>,
}

impl Patience {
    /// Waits until an instant, if there is one, or until the interrupt.
    pub fn new(deadline: Option<Instant>, interrupt: Interrupt) -> Self {
        Self { deadline, interrupt, watch: None }
    }

    /// The same, except that waits are left to `watch`, if there is one.
    pub(crate) fn watched_by(self, watch: Option<&Watch>) -> Self {
        Self { watch: watch.cloned(), ..self }
    }

    /// Waits until the socket is ready for one of `events`: with a watch only the future waits, otherwise the thread.
    pub(crate) async fn wait(&self, socket: impl AsFd, events: PollFlags) -> io::Result<()> {
        if let Some(watch) = &self.watch {
            watch.until_ready(&socket, events, self.deadline).await?;
            return self.slice().map(drop);
        }
        loop {
            let timeout = match self.slice()? {
                Some(left) => Some(Timespec::try_from(left).map_err(io::Error::other)?),
                None => None,
            };
            match poll(&mut [PollFd::new(&socket, events)], timeout.as_ref()) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Waits a moment before the next attempt.
    pub(crate) async fn pause(&self) -> io::Result<()> {
        self.slice()?;
        match &self.watch {
            Some(watch) => watch.sleep_until(Instant::now() + PAUSE).await,
            None => thread::sleep(PAUSE),
        }
        Ok(())
    }

    /// The addresses of a name, which a thread looks up if there is a watch.
    pub(crate) async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let place = (name.to_owned(), port);
        let Some(watch) = self.watch.as_ref().filter(|_| name.parse::<IpAddr>().is_err()) else {
            return Ok(place.to_socket_addrs()?.collect());
        };
        if let Some(addresses) = watch.addresses(&place) {
            return Ok(addresses);
        }
        let looked_up = place.clone();
        let (ours, theirs) = UnixStream::pair()?;
        let (sender, addresses) = channel();
        thread::Builder::new().name("resolving".into()).spawn(move || {
            // nobody waits for it any more if the attempt has ended
            let _ = sender.send(looked_up.to_socket_addrs().map(Iterator::collect::<Vec<_>>));
            drop(theirs);
        })?;
        self.wait(&ours, PollFlags::IN).await?;
        let addresses: Vec<SocketAddr> = addresses.recv().map_err(io::Error::other)??;
        watch.keep_addresses(place, &addresses);
        Ok(addresses)
    }

    /// How long to wait before calling this again: at least a millisecond, so that it cannot be mistaken for "no
    /// limit"; `None` for no limit.
    pub(crate) fn slice(&self) -> io::Result<Option<Duration>> {
        if self.interrupt.is_set() {
            return Err(io::Error::other(Interrupted));
        }
        let left = match self.deadline {
            None => None,
            Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                Some(left) if !left.is_zero() => Some(left.max(Duration::from_millis(1))),
                _ => return Err(io::ErrorKind::TimedOut.into()),
            },
        };
        Ok(match self.interrupt.0 {
            None => left,
            Some(_) => Some(left.unwrap_or(LOOK_EVERY).min(LOOK_EVERY)),
        })
    }
}

/// Runs a future without a watch, whose waits block the thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
        debug_assert!(false, "it has a watch");
        thread::sleep(PAUSE);
    }
}

impl From<Option<Instant>> for Patience {
    fn from(deadline: Option<Instant>) -> Self {
        Self::new(deadline, Interrupt::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_at_the_deadline_or_when_interrupted() {
        assert_eq!(Patience::default().slice().expect("for ever"), None);
        let past = Patience::from(Some(Instant::now()));
        let error = past.slice().expect_err("it is over");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(!Interrupt::caused(&error));

        let flag = Arc::new(AtomicBool::new(false));
        let patience = Patience::new(None, Interrupt::by(Arc::clone(&flag)));
        assert_eq!(patience.slice().expect("not yet"), Some(LOOK_EVERY));
        flag.store(true, Ordering::Relaxed);
        let error = patience.slice().expect_err("interrupted");
        assert!(Interrupt::caused(&error));
        assert_eq!(error.to_string(), "interrupted");
    }
}
