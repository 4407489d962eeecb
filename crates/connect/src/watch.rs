//! What a connection in progress waits for, without a thread that waits.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use rustix::event::{PollFlags, epoll};
use rustix::io::Errno;

use crate::hosts::Endpoint;

/// How long the addresses of a name are used: a storm of connections must not look up each, and a client must notice a
/// name that moves.
const LOOKED_UP_FOR: Duration = Duration::from_secs(1);

/// Names and ports that were looked up, with the instant.
type Addresses = HashMap<(String, u16), (Instant, Vec<SocketAddr>)>;

/// What the connections of a dialer have in common.
#[derive(Debug, Default)]
pub(crate) struct Common {
    answered: Option<Answered>,
    addresses: Addresses,
    /// No wait ends before this, except by an event.
    pub earliest: Option<Instant>,
}

impl Common {
    pub fn wait_until(&mut self, until: Instant) {
        self.earliest = Some(self.earliest.map_or(until, |other| other.min(until)));
    }
}

/// Where a connection in progress registers what it waits for; clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// Reports the socket that is waited for as `key`.
    pub epoll: Arc<OwnedFd>,
    pub key: u64,
    /// When the current wait ends without an event.
    pub until: Arc<Mutex<Option<Instant>>>,
    pub common: Arc<Mutex<Common>>,
}

/// The place that gave a session last: it is tried first, because a silent host before it would cost
/// every client a timeout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    /// Index among the hosts of the parameters.
    pub host: usize,
    pub endpoint: Endpoint,
}

impl Watch {
    /// Waits for one event of the socket, or until the deadline.
    pub async fn until_ready(&self, socket: impl AsFd, events: PollFlags, deadline: Option<Instant>) -> io::Result<()> {
        let mut flags = epoll::EventFlags::ONESHOT;
        flags.set(epoll::EventFlags::IN, events.contains(PollFlags::IN));
        flags.set(epoll::EventFlags::OUT, events.contains(PollFlags::OUT));
        let data = epoll::EventData::new_u64(self.key);
        match epoll::modify(&self.epoll, &socket, data, flags) {
            Err(Errno::NOENT) => epoll::add(&self.epoll, &socket, data, flags)?,
            modified => modified?,
        }
        self.suspend(deadline).await;
        Ok(())
    }

    pub async fn sleep_until(&self, instant: Instant) {
        self.suspend(Some(instant)).await;
    }

    async fn suspend(&self, until: Option<Instant>) {
        *lock(&self.until) = until;
        if let Some(until) = until {
            lock(&self.common).wait_until(until);
        }
        let mut is_over = false;
        poll_fn(|_| match std::mem::replace(&mut is_over, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    pub fn answered(&self) -> Option<Answered> {
        lock(&self.common).answered.clone()
    }

    pub fn set_answered(&self, answered: Answered) {
        lock(&self.common).answered = Some(answered);
    }

    /// The addresses of `place`, if they were looked up less than a second ago.
    pub fn addresses(&self, place: &(String, u16)) -> Option<Vec<SocketAddr>> {
        let common = lock(&self.common);
        let (at, addresses) = common.addresses.get(place)?;
        (at.elapsed() < LOOKED_UP_FOR).then(|| addresses.clone())
    }

    pub fn keep_addresses(&self, place: (String, u16), addresses: &[SocketAddr]) {
        lock(&self.common).addresses.insert(place, (Instant::now(), addresses.to_vec()));
    }
}

/// No code panics while it holds one of these locks.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
