//! One event loop: reads what clients send, and sends the answers. The first thread's also accepts connections, for
//! all threads in turn, and notices when the server has to end.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::client::{Client, READ};
use crate::shared::{Nanos, Shared};

const SECOND: Nanos = 1_000_000_000;
const READ_BYTES: usize = 64 * 1024;
const EVENTS: usize = 1024;
/// A larger buffer of answers is released.
const KEPT_BYTES: usize = 1024 * 1024;
/// How many connections are accepted before others are served.
const ACCEPTS: usize = 64;
/// How long to wait when no descriptor is left.
const ACCEPT_AGAIN_AFTER: Nanos = SECOND / 10;

/// A thread's clients, to which the first thread adds.
#[derive(Debug)]
pub struct Worker {
    epoll: OwnedFd,
    /// By descriptor.
    clients: Mutex<Vec<Option<Box<Client>>>>,
}

impl Worker {
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, clients: Mutex::default() })
    }

    fn clients(&self) -> MutexGuard<'_, Vec<Option<Box<Client>>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, socket: OwnedFd) {
        let place = descriptor(&socket);
        let mut clients = self.clients();
        if watch(&self.epoll, &socket, READ | EventFlags::ET).is_ok() {
            if clients.len() <= place {
                clients.resize_with(place + 1, || None);
            }
            clients[place] = Some(Box::new(Client::new(socket)));
        }
    }
}

/// What the first thread watches beside its clients.
#[derive(Debug)]
pub struct Doors {
    pub listeners: Vec<OwnedFd>,
    /// Becomes readable at a signal.
    pub signals: UnixStream,
    /// Whether the server ends when standard input closes.
    pub parent_lease: bool,
}

#[derive(Debug)]
pub struct EventLoop<'s> {
    shared: &'s Shared,
    workers: &'s [Worker],
    number: usize,
    doors: Option<Doors>,
    /// The worker that receives the next connection.
    next_worker: usize,
    /// When a client has an answer to send, or a listener accepts again; by descriptor.
    times: BTreeSet<(Nanos, usize)>,
    /// Counts in nanoseconds, where epoll's own timeout would count in milliseconds.
    timer: OwnedFd,
    timer_set: Option<Nanos>,
    has_complained: bool,
    input: Box<[u8]>,
    out: Vec<u8>,
}

impl<'s> EventLoop<'s> {
    pub fn new(shared: &'s Shared, workers: &'s [Worker], number: usize, doors: Option<Doors>) -> io::Result<Self> {
        let epoll = &workers[number].epoll;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        watch(epoll, &timer, EventFlags::IN | EventFlags::ET)?;
        if let Some(doors) = &doors {
            watch(epoll, &doors.signals, EventFlags::IN)?;
            for listener in &doors.listeners {
                watch(epoll, listener, EventFlags::IN)?;
            }
        }
        Ok(Self {
            shared,
            workers,
            number,
            doors,
            next_worker: 0,
            times: BTreeSet::new(),
            timer,
            timer_set: None,
            has_complained: false,
            input: vec![0; READ_BYTES].into_boxed_slice(),
            out: Vec::new(),
        })
    }

    /// Serves until the server has to end.
    pub fn run(mut self) -> io::Result<()> {
        let epoll = &self.workers[self.number].epoll;
        if self.doors.as_ref().is_some_and(|doors| doors.parent_lease) {
            match watch(epoll, io::stdin(), EventFlags::IN) {
                // a file, which has no other end that could stay open
                Err(Errno::PERM) => return Ok(()),
                watched => watched?,
            }
        }
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            self.set_timer()?;
            events.clear();
            match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            // one reading of the clock a turn: answers that are due are sent before new messages are
            // answered, so that the answers of a connection keep their order; none where all are sent at once
            let is_timed = self.shared.is_timed() || !self.times.is_empty();
            let now = if is_timed { self.shared.now() } else { 0 };
            while self.times.first().is_some_and(|(due, _)| *due <= now)
                && let Some((_, place)) = self.times.pop_first()
            {
                self.serve(place, EventFlags::empty(), now)?;
            }
            for event in &events {
                let place = event.data.u64() as usize;
                if self.is_end(place) {
                    return Ok(());
                }
                self.serve(place, event.flags, now)?;
            }
        }
    }

    fn set_timer(&mut self) -> io::Result<()> {
        let Some(&(due, _)) = self.times.first() else { return Ok(()) };
        if self.timer_set != Some(due) {
            // zero would stop the timer
            let wait = due.saturating_sub(self.shared.now()).max(1);
            let time = Timespec { tv_sec: (wait / SECOND) as i64, tv_nsec: (wait % SECOND) as i64 };
            let once = Itimerspec { it_interval: Timespec::default(), it_value: time };
            timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
            self.timer_set = Some(due);
        }
        Ok(())
    }

    /// Whether the descriptor's event ends the server: a signal, or the end of standard input.
    fn is_end(&mut self, place: usize) -> bool {
        let Some(doors) = &self.doors else { return false };
        let mut input = io::stdin();
        place == descriptor(&doors.signals)
            || place == descriptor(&input) && !matches!(input.read(&mut self.input), Ok(1..))
    }

    /// Handles an event of a descriptor, or its time in `times`.
    fn serve(&mut self, place: usize, flags: EventFlags, now: Nanos) -> io::Result<()> {
        if place == descriptor(&self.timer) {
            self.timer_set = None;
            return Ok(());
        }
        if let Some(doors) = &self.doors
            && let Some(listener) = doors.listeners.iter().position(|listener| descriptor(listener) == place)
        {
            return self.accept(listener, flags);
        }
        let worker = &self.workers[self.number];
        let mut clients = worker.clients();
        let Some(Some(client)) = clients.get_mut(place) else { return Ok(()) };
        let before = client.interest();
        let served = self.serve_client(place, client, flags, now);
        let interest = client.interest().filter(|_| served.is_ok());
        let is_watched = match interest {
            Some(interest) if before != Some(interest) => {
                let data = EventData::new_u64(place as u64);
                epoll::modify(&worker.epoll, &client.socket, data, interest).is_ok()
            }
            interest => interest.is_some(),
        };
        if !is_watched {
            clients[place] = None;
        }
        Ok(())
    }

    /// # Errors
    /// The connection is closed or broken.
    fn serve_client(&mut self, place: usize, client: &mut Client, flags: EventFlags, now: Nanos) -> io::Result<()> {
        if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        client.release(now)?;
        if flags.contains(EventFlags::OUT) {
            client.flush()?;
        }
        let mut may_have_more = flags.intersects(READ);
        while may_have_more && client.is_read() {
            let (bytes, due) = client.read(&mut self.input, &mut self.out, self.shared, now)?;
            self.times.extend(due.map(|due| (due, place)));
            if self.out.capacity() > KEPT_BYTES {
                self.out = Vec::new();
            }
            // a short read emptied the socket, and the next event reports more; the end of the input that this event
            // reported has no event of its own
            may_have_more = bytes == READ_BYTES || flags.contains(EventFlags::RDHUP);
        }
        Ok(())
    }

    /// Accepts connections, and hands them to the threads in turn.
    fn accept(&mut self, listener: usize, flags: EventFlags) -> io::Result<()> {
        let Some(doors) = &self.doors else { return Ok(()) };
        let listener = &doors.listeners[listener];
        let epoll = &self.workers[self.number].epoll;
        if flags.is_empty() {
            watch(epoll, listener, EventFlags::IN)?;
        }
        for _ in 0..ACCEPTS {
            match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    self.workers[self.next_worker].add(socket);
                    self.next_worker = (self.next_worker + 1) % self.workers.len();
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    // the kernel would report the listener again and again
                    epoll::delete(epoll, listener)?;
                    self.times.insert((self.shared.now() + ACCEPT_AGAIN_AFTER, descriptor(listener)));
                    if !std::mem::replace(&mut self.has_complained, true) {
                        let error = "accepting a connection failed: no file descriptor or memory is left";
                        pgdyno_commandline::report("pgnull", error);
                    }
                    break;
                }
                // the connection was closed before it was accepted
                Err(_) => {}
            }
        }
        Ok(())
    }
}

fn descriptor(file: &impl AsRawFd) -> usize {
    file.as_raw_fd() as usize
}

fn watch(epoll: &OwnedFd, file: impl AsFd, flags: EventFlags) -> Result<(), Errno> {
    let data = EventData::new_u64(file.as_fd().as_raw_fd() as u64);
    epoll::add(epoll, file, data, flags)
}
