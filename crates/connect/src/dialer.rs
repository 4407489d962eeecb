//! Makes many connections at the same time in one thread.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::blocking_session::Session;
use crate::connect_error::ConnectError;
use crate::params::Params;
use crate::watch::{Answered, Watch, lock};

/// How many connections are in progress at the same time: enough to reach a distant server at the
/// rate of its own work, few enough for its queue of connections.
pub const AT_ONCE: usize = 64;

/// Makes connections, each named by a tag, as [`Session::connect`] does and without waiting. The
/// host that answered last is tried first, unless the order is random.
pub struct Dialer<T> {
    params: Arc<Params>,
    epoll: Arc<OwnedFd>,
    answered: Arc<Mutex<Option<Answered>>>,
    queue: VecDeque<T>,
    /// Indexed by the key of the watch.
    dials: Vec<Option<Dial<T>>>,
    /// How many of them are in progress: workers ask before each wait.
    in_progress: usize,
    events: Vec<epoll::Event>,
}

/// A connection in progress.
struct Dial<T> {
    tag: T,
    began: Instant,
    until: Arc<Mutex<Option<Instant>>>,
    future: Pin<Box<dyn Future<Output = Result<Session, ConnectError>>>>,
}

/// The result of a request to a [`Dialer`].
#[derive(Debug)]
pub struct Dialed<T> {
    /// The name of the request.
    pub tag: T,
    /// When the connection was begun.
    pub began: Instant,
    /// The session, which is ready for its first statement.
    pub result: Result<Session, ConnectError>,
}

impl<T> Dialer<T> {
    /// A dialer without requests.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn new(params: Params) -> io::Result<Self> {
        let mut dials = Vec::new();
        dials.resize_with(AT_ONCE, || None);
        Ok(Self {
            params: Arc::new(params),
            epoll: Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?),
            answered: Arc::default(),
            queue: VecDeque::new(),
            dials,
            in_progress: 0,
            events: Vec::with_capacity(AT_ONCE),
        })
    }

    /// Requests a connection, which [`Dialer::advance`] makes.
    pub fn request(&mut self, tag: T) {
        self.queue.push_back(tag);
    }

    /// Whether every request has been answered.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.in_progress == 0
    }

    /// When to call [`Dialer::advance`] if its descriptor does not become readable before.
    pub fn next_instant(&self) -> Option<Instant> {
        if self.is_idle() {
            return None;
        }
        if !self.queue.is_empty() && self.in_progress < AT_ONCE {
            return Some(Instant::now());
        }
        self.dials.iter().flatten().filter_map(|dial| *lock(&dial.until)).min()
    }

    /// Begins requests for which there is room, and continues the connections whose servers have
    /// answered or whose time is over. Waits at most `timeout` for the first of them. Returns the
    /// connections that are complete or have failed.
    ///
    /// # Errors
    /// Waiting itself fails.
    pub fn advance(&mut self, timeout: Duration) -> io::Result<Vec<Dialed<T>>> {
        let mut done = Vec::new();
        self.begin(&mut done);
        let timeout = if done.is_empty() { timeout } else { Duration::ZERO };
        let due = self.next_instant().map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = Timespec::try_from(due.map_or(timeout, |due| due.min(timeout))).map_err(io::Error::other)?;
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            self.poll(event.data.u64() as usize, &mut done);
        }
        self.events = events;
        let now = Instant::now();
        for key in 0..self.dials.len() {
            let dial = self.dials[key].as_ref();
            if dial.is_some_and(|dial| lock(&dial.until).is_some_and(|until| until <= now)) {
                self.poll(key, &mut done);
            }
        }
        Ok(done)
    }

    fn begin(&mut self, done: &mut Vec<Dialed<T>>) {
        for key in 0..self.dials.len() {
            if self.dials[key].is_some() {
                continue;
            }
            let Some(tag) = self.queue.pop_front() else {
                return;
            };
            let watch = Watch {
                epoll: Arc::clone(&self.epoll),
                key: key as u64,
                until: Arc::default(),
                answered: Arc::clone(&self.answered),
            };
            let (params, until) = (Arc::clone(&self.params), Arc::clone(&watch.until));
            let future = Box::pin(async move { Session::connect_by(&params, Some(&watch)).await });
            self.in_progress += 1;
            self.dials[key] = Some(Dial { tag, began: Instant::now(), until, future });
            self.poll(key, done);
        }
    }

    fn poll(&mut self, key: usize, done: &mut Vec<Dialed<T>>) {
        let Some(Some(dial)) = self.dials.get_mut(key) else {
            return;
        };
        let Poll::Ready(result) = dial.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            return;
        };
        if let Ok(session) = &result {
            // its socket is another's from here on
            let _ = epoll::delete(&self.epoll, session.socket());
        }
        if let Some(Dial { tag, began, .. }) = self.dials[key].take() {
            self.in_progress -= 1;
            done.push(Dialed { tag, began, result });
        }
    }
}

impl<T> AsFd for Dialer<T> {
    /// Readable when [`Dialer::advance`] has something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
