//! One event loop: reads what clients send, and sends the answers.

use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, accept_with, recv, sockopt};

use crate::alarm::Alarm;
use crate::answer_times::Nanos;
use crate::client::{Clients, Fate, SendResult};
use crate::connection::Turn;
use crate::held_answers::{Answer, HeldAnswers};
use crate::server_state::ServerState;
use crate::server_stop::Waker;

const SECOND: Nanos = 1_000_000_000;
const READ_BYTES: usize = 64 * 1024;
const EVENTS: usize = 1024;
/// A larger buffer of answers is released.
const KEPT_BYTES: usize = 1024 * 1024;
/// How many connections are accepted before others are served.
const ACCEPTS: usize = 64;
/// How long to wait when no descriptor is left.
const ACCEPT_AGAIN_AFTER: Nanos = SECOND / 10;
const READ: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);
const ENDED: EventFlags = EventFlags::RDHUP.union(EventFlags::HUP).union(EventFlags::ERR);
/// Tokens of the waker and the alarm; those of listening sockets come next, and those of clients far above.
const WOKEN: u64 = 0;
const ALARM: u64 = 1;
const FIRST_DOOR: u64 = 2;
const FIRST_CLIENT: u64 = 1 << 32;

/// Another thread, which receives connections.
#[derive(Debug)]
pub(crate) struct Peer {
    pub sender: Sender<OwnedFd>,
    pub waker: Waker,
}

/// The listening sockets, and the threads that receive connections in turn.
#[derive(Debug)]
pub(crate) struct Doors<'l> {
    /// Each socket, and whether it is TCP.
    sockets: Vec<(BorrowedFd<'l>, bool)>,
    /// All threads; the first is the one that accepts.
    peers: Vec<Peer>,
    next_peer: usize,
    /// When to accept again, if no descriptor was left.
    again_at: Option<Nanos>,
    complained: bool,
}

impl<'l> Doors<'l> {
    pub fn new(sockets: Vec<(BorrowedFd<'l>, bool)>, peers: Vec<Peer>) -> Self {
        Self { sockets, peers, next_peer: 0, again_at: None, complained: false }
    }
}

#[derive(Debug)]
pub(crate) struct Worker<'l> {
    epoll: OwnedFd,
    /// Rings when an answer is due.
    alarm: Alarm,
    global: Arc<ServerState>,
    woken: UnixStream,
    arrivals: Receiver<OwnedFd>,
    doors: Doors<'l>,
    clients: Clients,
    held: HeldAnswers,
    input: Box<[u8]>,
    out: Vec<u8>,
}

impl<'l> Worker<'l> {
    /// A thread that does not accept, but serves connections that another thread passes to it.
    pub fn new(global: Arc<ServerState>, woken: UnixStream, arrivals: Receiver<OwnedFd>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &woken, EventData::new_u64(WOKEN), EventFlags::IN)?;
        let alarm = Alarm::new()?;
        let edge = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &alarm, EventData::new_u64(ALARM), edge)?;
        Ok(Self {
            epoll,
            alarm,
            global,
            woken,
            arrivals,
            doors: Doors::new(Vec::new(), Vec::new()),
            clients: Clients::default(),
            held: HeldAnswers::default(),
            input: vec![0; READ_BYTES].into_boxed_slice(),
            out: Vec::new(),
        })
    }

    /// Lets the thread accept connections on these sockets.
    pub fn open(&mut self, doors: Doors<'l>) -> io::Result<()> {
        self.doors = doors;
        self.watch_doors()
    }

    pub fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        while !self.global.stop.load(Ordering::Relaxed) {
            self.turn(&mut events)?;
        }
        Ok(())
    }

    fn turn(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let next = [self.held.next_due(), self.doors.again_at];
        if let Some(due) = next.into_iter().flatten().min() {
            self.alarm.ring_by(due, || self.global.now())?;
        }
        events.clear();
        let buffer = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, buffer, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // one reading of the clock a turn: answers that are due are sent before new messages are
        // answered, so that the answers of a connection keep their order
        let timed = !self.global.timing.is_immediate() || self.doors.again_at.is_some();
        let now = if timed { self.global.now() } else { 0 };
        self.release(now);
        if self.doors.again_at.is_some_and(|again| again <= now) {
            self.doors.again_at = None;
            self.watch_doors()?;
        }
        for event in events.iter() {
            match event.data.u64() {
                WOKEN => self.wake(),
                ALARM => self.alarm.rang(),
                token if token < FIRST_CLIENT => self.accept((token - FIRST_DOOR) as usize)?,
                token => self.serve(token, event.flags, now),
            }
        }
        Ok(())
    }

    fn watch_doors(&self) -> io::Result<()> {
        for (number, (socket, _)) in self.doors.sockets.iter().enumerate() {
            let data = EventData::new_u64(FIRST_DOOR + number as u64);
            epoll::add(&self.epoll, socket, data, EventFlags::IN)?;
        }
        Ok(())
    }

    /// Takes the connections that other threads have accepted.
    fn wake(&mut self) {
        // the number of wake-ups does not matter
        let _ = (&self.woken).read(&mut self.input);
        while let Ok(socket) = self.arrivals.try_recv() {
            self.add(socket);
        }
    }

    fn accept(&mut self, door: usize) -> io::Result<()> {
        let Some(&(listener, is_tcp)) = self.doors.sockets.get(door) else {
            return Ok(());
        };
        for _ in 0..ACCEPTS {
            match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    if is_tcp {
                        // without this option answers may be delayed, but the connection works nevertheless
                        let _ = sockopt::set_tcp_nodelay(&socket, true);
                    }
                    self.hand_out(socket);
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    return self.rest();
                }
                // the connection was closed before it was accepted
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Stops accepting for a while: no descriptor is left, and the kernel would report the sockets again and again.
    fn rest(&mut self) -> io::Result<()> {
        if self.doors.again_at.is_some() {
            return Ok(());
        }
        if !self.doors.complained {
            let text = "pgnull: error: accepting a connection failed: no file descriptor or memory is left";
            let _ = writeln!(io::stderr(), "{text}");
            self.doors.complained = true;
        }
        self.doors.again_at = Some(self.global.now() + ACCEPT_AGAIN_AFTER);
        for (socket, _) in &self.doors.sockets {
            epoll::delete(&self.epoll, socket)?;
        }
        Ok(())
    }

    fn hand_out(&mut self, socket: OwnedFd) {
        let number = self.doors.next_peer;
        self.doors.next_peer = (number + 1) % self.doors.peers.len().max(1);
        if number == 0 {
            return self.add(socket);
        }
        let peer = &self.doors.peers[number];
        // a thread that has ended ends the server
        if peer.sender.send(socket).is_ok() {
            peer.waker.wake();
        }
    }

    fn add(&mut self, socket: OwnedFd) {
        let token = self.clients.add(socket, self.global.connection());
        let Some(client) = self.clients.get(token) else {
            return;
        };
        let data = EventData::new_u64(token);
        if epoll::add(&self.epoll, client.socket.as_fd(), data, READ).is_err() {
            self.clients.remove(token);
        }
    }

    fn serve(&mut self, token: u64, flags: EventFlags, now: Nanos) {
        if flags.contains(EventFlags::OUT) {
            self.flush(token, now);
        }
        let hung_up = flags.intersects(ENDED);
        if hung_up || flags.contains(EventFlags::IN) {
            self.read(token, hung_up, now);
        }
    }

    /// Reads and answers; with `to_the_end`, reads until there is nothing more, even after a short read.
    fn read(&mut self, token: u64, to_the_end: bool, now: Nanos) {
        loop {
            let Some(client) = self.clients.get(token) else {
                return;
            };
            if client.fate != Fate::Open {
                if to_the_end {
                    self.clients.remove(token);
                }
                return;
            }
            if client.is_clogged() {
                client.unread = true;
                return;
            }
            match recv(&client.socket, &mut self.input[..], RecvFlags::empty()) {
                Ok((_, 0)) => return self.clients.remove(token),
                Ok((_, count)) => {
                    let in_session = client.connection.in_session();
                    let mut out = mem::take(&mut self.out);
                    out.clear();
                    let input = &self.input[..count];
                    let shared = &self.global.shared;
                    let turn = client.connection.receive(input, shared, &mut out);
                    // a message without an answer, such as Terminate, does not begin a stall
                    let due = if out.is_empty() || self.global.timing.is_immediate() {
                        now
                    } else {
                        self.global.timing.due(now, in_session)
                    };
                    if due > now {
                        self.hold(token, due, &out, turn);
                    } else {
                        self.send(token, &out, turn);
                    }
                    if out.capacity() <= KEPT_BYTES {
                        self.out = out;
                    }
                    // a short read emptied the socket, and the next edge reports more; an end that
                    // this edge reported has no edge of its own
                    if count < READ_BYTES && !to_the_end {
                        return;
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(_) => return self.clients.remove(token),
            }
        }
    }

    fn hold(&mut self, token: u64, due: Nanos, bytes: &[u8], turn: Turn) {
        let closes = turn == Turn::Close;
        if bytes.is_empty() && !closes {
            return;
        }
        if let Some(client) = self.clients.get(token) {
            client.held_bytes += bytes.len();
            if closes {
                client.fate = Fate::Ending;
            }
            let bytes = bytes.into();
            self.held.push(due, Answer { token, bytes, closes });
        }
    }

    fn release(&mut self, now: Nanos) {
        while let Some(answer) = self.held.pop_due(now) {
            let Some(client) = self.clients.get(answer.token) else {
                continue;
            };
            client.held_bytes -= answer.bytes.len();
            let turn = if answer.closes { Turn::Close } else { Turn::Open };
            self.send(answer.token, &answer.bytes, turn);
            self.read_again(answer.token, now);
        }
    }

    fn send(&mut self, token: u64, bytes: &[u8], turn: Turn) {
        let Some(client) = self.clients.get(token) else {
            return;
        };
        if turn == Turn::Close {
            client.fate = Fate::Closing;
        }
        if bytes.is_empty() && turn == Turn::Open {
            return;
        }
        let was_stuck = client.is_stuck();
        match client.send(bytes) {
            SendResult::All if client.fate == Fate::Closing => self.clients.remove(token),
            SendResult::All => {}
            // room is watched only while something is stuck, because every read of the client would wake the thread
            SendResult::Stuck if !was_stuck => self.watch(token, READ | EventFlags::OUT),
            SendResult::Stuck => {}
            SendResult::Broken => self.clients.remove(token),
        }
    }

    fn flush(&mut self, token: u64, now: Nanos) {
        let Some(client) = self.clients.get(token) else {
            return;
        };
        match client.flush() {
            SendResult::All if client.fate == Fate::Closing => self.clients.remove(token),
            SendResult::All => {
                self.watch(token, READ);
                self.read_again(token, now);
            }
            SendResult::Stuck => self.read_again(token, now),
            SendResult::Broken => self.clients.remove(token),
        }
    }

    /// Reads again from a client that had too many unsent bytes.
    fn read_again(&mut self, token: u64, now: Nanos) {
        if let Some(client) = self.clients.get(token)
            && client.unread
            && !client.is_clogged()
        {
            client.unread = false;
            self.read(token, true, now);
        }
    }

    fn watch(&mut self, token: u64, flags: EventFlags) {
        let Some(client) = self.clients.get(token) else {
            return;
        };
        let data = EventData::new_u64(token);
        if epoll::modify(&self.epoll, &client.socket, data, flags).is_err() {
            self.clients.remove(token);
        }
    }
}
