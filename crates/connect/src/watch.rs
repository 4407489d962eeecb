//! What a connection in progress waits for, without a thread that waits.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Instant;

use rustix::event::{PollFlags, epoll};
use rustix::io::Errno;

use crate::hosts::Endpoint;

/// Where a connection in progress registers what it waits for; clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// Reports the socket that is waited for as `key`.
    pub epoll: Arc<OwnedFd>,
    pub key: u64,
    /// When the current wait ends without an event.
    pub until: Arc<Mutex<Option<Instant>>>,
    /// Common to all connections of a dialer.
    pub answered: Arc<Mutex<Option<Answered>>>,
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

    /// Waits until `instant`.
    pub async fn sleep_until(&self, instant: Instant) {
        self.suspend(Some(instant)).await;
    }

    async fn suspend(&self, until: Option<Instant>) {
        *lock(&self.until) = until;
        let mut is_over = false;
        poll_fn(|_| match std::mem::replace(&mut is_over, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    pub fn answered(&self) -> Option<Answered> {
        lock(&self.answered).clone()
    }

    pub fn set_answered(&self, answered: Answered) {
        *lock(&self.answered) = Some(answered);
    }
}

/// No code panics while it holds one of these locks.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
