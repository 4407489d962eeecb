//! A thread that relays sessions, and hands their records to the recorder.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Instant, SystemTime};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;

use crate::record::{Kind, Reason, Record, Statement};
use crate::recorder::Recording;
use crate::session::{CLIENT, Opened, SERVER, Session};

const BUFFER: usize = 64 * 1024;
const EVENTS: usize = 256;
/// A batch of records is handed over when it has this size, and at this age.
const BATCH_BYTES: usize = 64 * 1024;
const BATCH_NS: i64 = 50_000_000;
const WOKEN: u64 = u64::MAX;

/// How the proxy ends: more and more strictly.
pub const RUNNING: u8 = 0;
/// Sessions end when they are idle and outside of a transaction.
pub const END_IDLE: u8 = 1;
/// All sessions end.
pub const CUT: u8 = 2;

/// What threads know together.
#[derive(Debug)]
pub struct Shared {
    pub began: Instant,
    pub began_us: i64,
    pub recording: Arc<Recording>,
    pub keeps_copy: bool,
    pub ending: AtomicU8,
    /// Set when no session will come any more, and none is left.
    pub is_over: AtomicBool,
    pub opened: AtomicU64,
    pub open: AtomicUsize,
    /// Sessions that were ended by the proxy, and those of them that had an open transaction.
    pub ended: AtomicU64,
    pub cut: AtomicU64,
    /// Clients whose authentication is bound to the channel.
    pub refused: AtomicU64,
}

impl Shared {
    pub fn new(recording: Arc<Recording>, keeps_copy: bool) -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self {
            began: Instant::now(),
            began_us: since.as_micros() as i64,
            recording,
            keeps_copy,
            ending: AtomicU8::new(RUNNING),
            is_over: AtomicBool::new(false),
            opened: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// µs since 1970, by a clock that is never set.
    pub fn now(&self) -> i64 {
        self.began_us + self.began.elapsed().as_micros() as i64
    }
}

struct WatchedSession {
    session: Session,
    interests: [EventFlags; 2],
}

pub struct Worker {
    shared: Arc<Shared>,
    epoll: OwnedFd,
    woken: UnixStream,
    arrivals: Receiver<Box<Opened>>,
    recorder: Option<SyncSender<Vec<u8>>>,
    sessions: Vec<Option<Box<WatchedSession>>>,
    free: Vec<usize>,
    buffer: Box<[u8]>,
    batch: Vec<u8>,
    batch_ns: i64,
}

impl Worker {
    pub fn new(
        shared: Arc<Shared>, woken: UnixStream, arrivals: Receiver<Box<Opened>>, recorder: Option<SyncSender<Vec<u8>>>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        woken.set_nonblocking(true)?;
        epoll::add(&epoll, &woken, EventData::new_u64(WOKEN), EventFlags::IN)?;
        Ok(Self {
            shared,
            epoll,
            woken,
            arrivals,
            recorder,
            sessions: Vec::new(),
            free: Vec::new(),
            buffer: vec![0; BUFFER].into_boxed_slice(),
            batch: Vec::new(),
            batch_ns: 0,
        })
    }

    pub fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let ending = self.shared.ending.load(Ordering::Relaxed);
            // records that wait are handed over soon, and so is the end
            let is_waiting = !self.batch.is_empty() || ending != RUNNING;
            let timeout = Timespec { tv_sec: i64::from(!is_waiting), tv_nsec: if is_waiting { BATCH_NS } else { 0 } };
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    WOKEN => self.receive(),
                    token => self.serve(token, event.flags),
                }
            }
            if ending != RUNNING {
                self.end_sessions(ending);
            }
            self.hand_over(false);
        }
        self.hand_over(true);
        Ok(())
    }

    /// Takes the sessions that other threads have opened.
    fn receive(&mut self) {
        // how often it was woken does not matter
        let _ = (&self.woken).read(&mut self.buffer);
        while let Ok(opened) = self.arrivals.try_recv() {
            let at = opened.at;
            let number = self.shared.opened.fetch_add(1, Ordering::Relaxed);
            let session = Session::new(*opened, number, self.shared.keeps_copy);
            self.record(&session, Kind::Connect, at, None);
            let place = self.free.pop().unwrap_or_else(|| {
                self.sessions.push(None);
                self.sessions.len() - 1
            });
            let interests = [session.interest(CLIENT), session.interest(SERVER)];
            let token = 2 * place as u64;
            let added = epoll::add(&self.epoll, session.socket(CLIENT), EventData::new_u64(token), interests[CLIENT])
                .and_then(|()| {
                    let data = EventData::new_u64(token + 1);
                    epoll::add(&self.epoll, session.socket(SERVER), data, interests[SERVER])
                });
            self.sessions[place] = Some(Box::new(WatchedSession { session, interests }));
            match added {
                // decrypted bytes that are here already raise no event
                Ok(()) => self.serve(token, EventFlags::IN | EventFlags::OUT),
                Err(_) => self.end(place),
            }
        }
    }

    fn serve(&mut self, token: u64, flags: EventFlags) {
        let (place, end) = ((token / 2) as usize, (token % 2) as usize);
        let Some(Some(served)) = self.sessions.get_mut(place) else { return };
        let session = &mut served.session;
        let shared = &self.shared;
        if flags.intersects(EventFlags::OUT) {
            session.pass(1 - end, &mut self.buffer, || shared.now());
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            session.pass(end, &mut self.buffer, || shared.now());
        }
        self.after(place);
    }

    /// Records what has ended, and waits for the next events of a session, or ends it.
    fn after(&mut self, place: usize) {
        self.take_statements(place);
        let Some(Some(served)) = self.sessions.get_mut(place) else { return };
        if served.session.has_ended() {
            return self.end(place);
        }
        let mut is_watched = true;
        for end in [CLIENT, SERVER] {
            let wanted = served.session.interest(end);
            if wanted != served.interests[end] {
                served.interests[end] = wanted;
                let data = EventData::new_u64(2 * place as u64 + end as u64);
                is_watched &= epoll::modify(&self.epoll, served.session.socket(end), data, wanted).is_ok();
            }
        }
        if !is_watched {
            self.end(place);
        }
    }

    fn take_statements(&mut self, place: usize) {
        let Some(Some(mut served)) = self.sessions.get_mut(place).map(Option::take) else { return };
        let statements: Vec<Statement> = served.session.tracker.take().collect();
        for statement in &statements {
            self.record(&served.session, Kind::Done, statement.at, Some(statement));
        }
        self.sessions[place] = Some(served);
    }

    fn end(&mut self, place: usize) {
        if let Some(Some(served)) = self.sessions.get_mut(place) {
            served.session.tracker.finish();
        }
        self.take_statements(place);
        if let Some(served) = self.sessions.get_mut(place).and_then(Option::take) {
            self.record(&served.session, Kind::Disconnect, self.shared.now(), None);
            self.shared.refused.fetch_add(u64::from(served.session.is_refused), Ordering::Relaxed);
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
            self.free.push(place);
        }
    }

    fn end_sessions(&mut self, ending: u8) {
        for place in 0..self.sessions.len() {
            let Some(Some(served)) = self.sessions.get_mut(place) else { continue };
            let is_idle = served.session.tracker.is_idle();
            if is_idle || ending == CUT {
                served.session.say("57P01", "terminating connection because the proxy ends");
                self.shared.ended.fetch_add(1, Ordering::Relaxed);
                self.shared.cut.fetch_add(u64::from(!is_idle), Ordering::Relaxed);
                self.end(place);
            }
        }
    }

    fn record(&mut self, session: &Session, kind: Kind, at: i64, statement: Option<&Statement>) {
        let recording = &self.shared.recording;
        if self.recorder.is_none() || recording.has_ended.load(Ordering::Relaxed) {
            return;
        }
        if self.batch.is_empty() {
            self.batch_ns = self.shared.began.elapsed().as_nanos() as i64;
        }
        let record = Record {
            kind,
            session: session.number,
            at,
            database: &session.database,
            user: &session.user,
            application: session.tracker.application(),
            statement,
        };
        // writing to a vector cannot fail
        let _ = serde_json::to_writer(&mut self.batch, &record);
        self.batch.push(b'\n');
        if statement.is_some_and(|statement| statement.reason != Some(Reason::Replication)) {
            recording.statements.fetch_add(1, Ordering::Relaxed);
        }
        if self.batch.len() >= BATCH_BYTES {
            self.hand_over(true);
        }
    }

    fn hand_over(&mut self, at_once: bool) {
        if self.batch.is_empty()
            || (!at_once && self.shared.began.elapsed().as_nanos() as i64 - self.batch_ns < BATCH_NS)
        {
            return;
        }
        if let Some(recorder) = &self.recorder {
            // waits if the recorder is behind, and so does the application
            let _ = recorder.send(std::mem::take(&mut self.batch));
        }
        self.batch.clear();
    }
}
