//! Accepts connections, until the proxy is told to stop and its sessions have ended.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use pgdyno_connect::{Acceptor, Params};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use crate::opening::{Opening, open};
use crate::recorder::{self, Recording};
use crate::session::Opened;
use crate::worker::{CUT, END_IDLE, Shared, Worker};

const MOST_WORKERS: usize = 4;
/// Connections that begin at the same time, each in a thread.
const MOST_OPENING: usize = 500;
const LOOK: Duration = Duration::from_millis(50);
const TELL: Duration = Duration::from_secs(1);
/// How long sessions may go on when the proxy stops, and then those within a transaction.
const GRACE: Duration = Duration::from_secs(10);
/// A connection is a small state: its thread needs no more.
const STACK_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub struct Options {
    pub listen: SocketAddr,
    /// Where the server is.
    pub params: Params,
    /// What clients get that ask for TLS; None refuses it.
    pub acceptor: Option<Acceptor>,
    /// A new file for records; None records nothing.
    pub record: Option<PathBuf>,
    /// Whether rows of COPY FROM STDIN are recorded.
    pub keeps_copy: bool,
}

/// What others ask of a running proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    Continue,
    /// Accept no more, and end when all sessions have.
    Stop,
    /// End sessions when they are idle, and soon all.
    Hurry,
    /// Relay, and record no more.
    EndRecording,
}

/// The state of the proxy, each second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub open: usize,
    pub sessions: u64,
    pub statements: u64,
    pub recorded_bytes: u64,
    /// Clients that were refused because their authentication is bound to the channel.
    pub refused: u64,
    /// Sessions that the proxy ended, and those of them within a transaction.
    pub ended: u64,
    pub cut: u64,
    /// Why the recording has ended before the proxy.
    pub failure: Option<String>,
    /// Why the server could not be reached at the last attempt that failed.
    pub unreachable: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("could not listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    #[error("could not write \"{path}\": {cause}", path = .0.display(), cause = .1)]
    Record(PathBuf, io::Error),
    #[error("could not relay: {0}")]
    Relay(#[from] io::Error),
}

/// Relays until `control` says otherwise and all sessions have ended; calls `begun` with the address, and `tell` each
/// second.
///
/// # Errors
/// The address is in use, the file exists, or the system refuses threads.
pub fn run(
    options: Options, mut control: impl FnMut() -> Control, begun: impl FnOnce(SocketAddr),
    mut tell: impl FnMut(&Summary),
) -> Result<Summary, ProxyError> {
    raise_descriptor_limit();
    let listener = TcpListener::bind(options.listen).map_err(|error| ProxyError::Listen(options.listen, error))?;
    listener.set_nonblocking(true)?;
    let recording = Arc::new(Recording::default());
    let (recorder, writer) = match &options.record {
        Some(path) => {
            let (sender, thread) =
                recorder::start(path, &recording).map_err(|error| ProxyError::Record(path.clone(), error))?;
            (Some(sender), Some(thread))
        }
        None => (None, None),
    };
    let shared = Arc::new(Shared::new(recording, options.keeps_copy));
    let mut workers = Vec::new();
    let mut threads = Vec::new();
    for number in 0..thread::available_parallelism().map_or(1, usize::from).min(MOST_WORKERS) {
        let (waker, woken) = UnixStream::pair()?;
        let (sender, arrivals) = channel();
        let worker = Worker::new(Arc::clone(&shared), woken, arrivals, recorder.clone())?;
        threads.push(thread::Builder::new().name(format!("relay-{number}")).spawn(move || worker.run())?);
        workers.push(Peer { sender, waker });
    }
    drop(recorder);
    begun(listener.local_addr()?);
    let opener = Arc::new(Opener {
        params: options.params,
        acceptor: options.acceptor,
        shared: Arc::clone(&shared),
        opening: AtomicUsize::new(0),
    });
    let (unreachable, complaints) = channel();
    let mut main = Main { listener: Some(listener), opener, workers, unreachable, complaints, last_complaint: None };
    main.relay(&mut control, &mut tell)?;
    shared.is_over.store(true, Ordering::Relaxed);
    main.workers.iter().for_each(Peer::wake);
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a thread failed"))??;
    }
    if let Some(writer) = writer {
        writer.join().map_err(|_| io::Error::other("the recorder failed"))?;
    }
    Ok(main.summary())
}

struct Peer {
    sender: Sender<Box<Opened>>,
    waker: UnixStream,
}

impl Peer {
    fn wake(&self) {
        // a full socket wakes it as well
        let _ = (&self.waker).write(&[0]);
    }
}

struct Opener {
    params: Params,
    acceptor: Option<Acceptor>,
    shared: Arc<Shared>,
    opening: AtomicUsize,
}

struct Main {
    listener: Option<TcpListener>,
    opener: Arc<Opener>,
    workers: Vec<Peer>,
    unreachable: Sender<String>,
    complaints: Receiver<String>,
    last_complaint: Option<String>,
}

impl Main {
    fn relay(&mut self, control: &mut impl FnMut() -> Control, tell: &mut impl FnMut(&Summary)) -> io::Result<()> {
        let mut tell_at = Instant::now();
        let mut stopped: Option<Instant> = None;
        let mut hurried: Option<Instant> = None;
        loop {
            self.accept()?;
            match control() {
                Control::Continue => {}
                Control::Stop => _ = stopped.get_or_insert_with(Instant::now),
                Control::EndRecording => self.opener.shared.recording.has_ended.store(true, Ordering::Relaxed),
                Control::Hurry => _ = hurried.get_or_insert_with(Instant::now),
            }
            if stopped.is_some_and(|since| since.elapsed() > GRACE) {
                hurried.get_or_insert_with(Instant::now);
            }
            if let Some(since) = hurried {
                let ending = if since.elapsed() > GRACE { CUT } else { END_IDLE };
                self.opener.shared.ending.store(ending, Ordering::Relaxed);
            }
            if stopped.or(hurried).is_some() {
                self.listener = None;
                // a client that connects and says nothing has no session
                let is_late = hurried.is_some_and(|since| since.elapsed() > GRACE + TELL);
                if is_late || self.opener.shared.open.load(Ordering::Relaxed) == 0 {
                    return Ok(());
                }
            }
            if tell_at <= Instant::now() {
                tell_at += TELL;
                tell(&self.summary());
            }
        }
    }

    /// Accepts what comes within a moment.
    fn accept(&mut self) -> io::Result<()> {
        let Some(listener) = &self.listener else {
            thread::sleep(LOOK);
            return Ok(());
        };
        let timeout = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
        match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        while self.opener.opening.load(Ordering::Relaxed) < MOST_OPENING {
            match listener.accept() {
                Ok((socket, _)) => self.begin(socket)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // the connection was closed, or no descriptor is left
                Err(_) => break,
            }
        }
        thread::sleep(Duration::from_millis(1));
        Ok(())
    }

    fn begin(&self, socket: TcpStream) -> io::Result<()> {
        // without these options answers may be delayed, and lost clients stay, but the connection works nevertheless
        let _ = socket.set_nodelay(true);
        let _ = rustix::net::sockopt::set_socket_keepalive(&socket, true);
        let opener = Arc::clone(&self.opener);
        let shared = &opener.shared;
        let at = shared.now();
        opener.opening.fetch_add(1, Ordering::Relaxed);
        // the one that has been counted is open until it fails or its session ends
        let number = shared.open.fetch_add(1, Ordering::Relaxed);
        let peer = &self.workers[number % self.workers.len()];
        let (sender, waker) = (peer.sender.clone(), peer.waker.try_clone()?);
        let unreachable = self.unreachable.clone();
        let thread = thread::Builder::new().name("opening".into()).stack_size(STACK_BYTES);
        thread.spawn(move || {
            let opening = open(socket, &opener.params, opener.acceptor.as_ref(), at);
            opener.opening.fetch_sub(1, Ordering::Relaxed);
            match opening {
                Opening::Session(opened) => {
                    // without a receiver, the proxy has ended
                    let _ = sender.send(opened);
                    return Peer { sender, waker }.wake();
                }
                Opening::Unreachable(why) => {
                    let _ = unreachable.send(why);
                }
                Opening::Cancelled | Opening::Nothing => {}
            }
            opener.shared.open.fetch_sub(1, Ordering::Relaxed);
        })?;
        Ok(())
    }

    fn summary(&mut self) -> Summary {
        self.last_complaint = self.complaints.try_iter().last().or(self.last_complaint.take());
        let shared = &self.opener.shared;
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Summary {
            open: shared.open.load(Ordering::Relaxed),
            sessions: count(&shared.opened),
            statements: count(&shared.recording.statements),
            recorded_bytes: count(&shared.recording.bytes),
            refused: count(&shared.refused),
            ended: count(&shared.ended),
            cut: count(&shared.cut),
            failure: shared.recording.failure(),
            unreachable: self.last_complaint.clone(),
        }
    }
}

/// Raises the limit of open files as far as the hard limit allows.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // with the lower limit fewer clients can connect
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
