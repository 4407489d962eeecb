//! Makes many connections, for sessions and for cancel requests, at the same time in one thread.

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
use crate::cancel_token::CancelToken;
use crate::connect_error::{Cause, ConnectError};
use crate::params::Params;
use crate::patience::Patience;
use crate::watch::{Common, Watch, lock};

/// How many connections of a load are in progress at the same time, unless each transaction has its own: enough to reach a distant server at the
/// rate of its own work, few enough for its queue of connections.
pub const AT_ONCE: usize = 64;

/// Makes connections, each named by a tag, as [`Session::connect`] does and without waiting. The
/// host that answered last is tried first, unless the order is random.
pub struct Dialer<T> {
    params: Arc<Params>,
    /// How many connections are in progress at most.
    at_once: usize,
    epoll: Arc<OwnedFd>,
    common: Arc<Mutex<Common>>,
    queue: VecDeque<Request<T>>,
    /// Indexed by the key of the watch.
    dials: Vec<Option<Dial<T>>>,
    /// Keys without a connection.
    free: Vec<usize>,
    /// How many of them are in progress: workers ask before each wait.
    in_progress: usize,
    /// The time in which connections were in progress, of which each had an equal share.
    shared_time: Duration,
    /// Until when that is counted.
    shared_until: Instant,
    events: Vec<epoll::Event>,
    cancel_failure: Option<Cause>,
}

enum Request<T> {
    Connect(T),
    Cancel(CancelToken, Patience),
}

enum Outcome<T> {
    Connected(T, Box<Result<Session, ConnectError>>),
    Cancelled(Result<(), Cause>),
}

struct Dial<T> {
    began: Instant,
    /// The dialer's `shared_time` at that moment.
    shared_before: Duration,
    until: Arc<Mutex<Option<Instant>>>,
    future: Pin<Box<dyn Future<Output = Outcome<T>>>>,
}

/// The result of a request to a [`Dialer`].
#[derive(Debug)]
pub struct Dialed<T> {
    pub tag: T,
    pub began: Instant,
    /// Its share of the time in which connections were in progress: all of it for one alone.
    pub time_share: Duration,
    /// The session, which is ready for its first statement.
    pub result: Result<Session, ConnectError>,
}

impl<T: 'static> Dialer<T> {
    /// A dialer without requests, which makes at most `at_once` connections at the same time.
    pub fn new(params: Params, at_once: usize) -> io::Result<Self> {
        Ok(Self {
            params: Arc::new(params),
            at_once,
            epoll: Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?),
            common: Arc::default(),
            queue: VecDeque::new(),
            dials: Vec::new(),
            free: Vec::new(),
            in_progress: 0,
            shared_time: Duration::ZERO,
            shared_until: Instant::now(),
            events: Vec::with_capacity(AT_ONCE),
            cancel_failure: None,
        })
    }

    /// Requests a connection, which [`Dialer::advance`] makes.
    pub fn request(&mut self, tag: T) {
        self.queue.push_back(Request::Connect(tag));
    }

    /// Requests that a statement is cancelled, as [`CancelToken::send`] does.
    pub fn cancel(&mut self, token: CancelToken, patience: Patience) {
        self.queue.push_back(Request::Cancel(token, patience));
    }

    /// The first failure of a cancel request since the last call.
    pub fn take_cancel_failure(&mut self) -> Option<Cause> {
        self.cancel_failure.take()
    }

    pub fn clear(&mut self) {
        self.queue.clear();
        self.dials.clear();
        self.free.clear();
        self.in_progress = 0;
    }

    pub fn has_room(&self) -> bool {
        self.queue.len() + self.in_progress < self.at_once
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.in_progress == 0
    }

    /// When to call [`Dialer::advance`] if its descriptor does not become readable before.
    pub fn next_instant(&self) -> Option<Instant> {
        if self.is_idle() {
            return None;
        }
        if !self.queue.is_empty() && self.in_progress < self.at_once {
            return Some(Instant::now());
        }
        lock(&self.common).earliest
    }

    /// Begins requests for which there is room, and continues the connections whose servers have
    /// answered or whose time is over. Waits at most `timeout` for the first of them. Returns the
    /// connections that are complete or have failed.
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
        if lock(&self.common).earliest.is_some_and(|earliest| earliest <= now) {
            self.end_waits(now, &mut done);
        }
        Ok(done)
    }

    fn end_waits(&mut self, now: Instant, done: &mut Vec<Dialed<T>>) {
        lock(&self.common).earliest = None;
        for key in 0..self.dials.len() {
            let until = self.dials[key].as_ref().and_then(|dial| *lock(&dial.until));
            match until {
                Some(until) if until <= now => self.poll(key, done),
                Some(until) => lock(&self.common).wait_until(until),
                None => {}
            }
        }
    }

    fn begin(&mut self, done: &mut Vec<Dialed<T>>) {
        while self.in_progress < self.at_once
            && let Some(request) = self.queue.pop_front()
        {
            let key = self.free.pop().unwrap_or_else(|| {
                self.dials.push(None);
                self.dials.len() - 1
            });
            let watch = Watch {
                epoll: Arc::clone(&self.epoll),
                key: key as u64,
                until: Arc::default(),
                common: Arc::clone(&self.common),
            };
            let (params, until) = (Arc::clone(&self.params), Arc::clone(&watch.until));
            let future = Box::pin(async move {
                match request {
                    Request::Connect(tag) => {
                        Outcome::Connected(tag, Box::new(Session::connect_by(&params, Some(&watch)).await))
                    }
                    Request::Cancel(token, patience) => {
                        Outcome::Cancelled(token.request(&params, &patience.watched_by(Some(&watch))).await)
                    }
                }
            });
            let began = self.share_time();
            self.in_progress += 1;
            self.dials[key] = Some(Dial { began, shared_before: self.shared_time, until, future });
            self.poll(key, done);
        }
    }

    fn share_time(&mut self) -> Instant {
        let now = Instant::now();
        if let Ok(in_progress @ 1..) = u32::try_from(self.in_progress) {
            self.shared_time += now.duration_since(self.shared_until) / in_progress;
        }
        self.shared_until = now;
        now
    }

    fn poll(&mut self, key: usize, done: &mut Vec<Dialed<T>>) {
        let Some(Some(dial)) = self.dials.get_mut(key) else {
            return;
        };
        let Poll::Ready(outcome) = dial.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
            return;
        };
        let (began, shared_before) = (dial.began, dial.shared_before);
        self.dials[key] = None;
        self.free.push(key);
        self.share_time();
        self.in_progress -= 1;
        match outcome {
            Outcome::Connected(tag, result) => {
                if let Ok(session) = &*result {
                    // its socket is another's from here on
                    let _ = epoll::delete(&self.epoll, session.socket());
                }
                done.push(Dialed { tag, began, time_share: self.shared_time - shared_before, result: *result });
            }
            Outcome::Cancelled(result) => self.cancel_failure = self.cancel_failure.take().or(result.err()),
        }
    }
}

impl<T> AsFd for Dialer<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
