//! The server: what its threads share, and how they start and end.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use crate::ServeError;
use crate::answers::Answers;
use crate::connection::{Connection, Shared};
use crate::faults::Faults;
use crate::listen::Listeners;
use crate::options::Options;
use crate::stall::{Nanos, Stall, Timing};
use crate::stop::{self, Waker};
use crate::worker::{Doors, Peer, Worker};

/// What all threads look at.
#[derive(Debug)]
pub(crate) struct Global {
    pub shared: Shared,
    pub timing: Timing,
    pub stop: Arc<AtomicBool>,
    started: Instant,
    connections: AtomicU32,
}

impl Global {
    /// Since the server's start.
    pub fn now(&self) -> Nanos {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// A session for one more client.
    pub fn connection(&self) -> Connection {
        Connection::new(self.connections.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Server<'l> {
    /// The first accepts for all.
    workers: Vec<Worker<'l>>,
    global: Arc<Global>,
    wakers: Vec<Waker>,
}

impl<'l> Server<'l> {
    /// A server on these sockets. From here on signals only end it.
    ///
    /// # Errors
    /// When the kernel refuses what it needs.
    pub fn new(options: &Options, listeners: &'l Listeners) -> Result<Self, ServeError> {
        let failed = |doing: &'static str| move |cause| ServeError::new(doing, cause);
        let global = Arc::new(global(options));
        let mut wakers = Vec::new();
        let mut peers = Vec::new();
        let mut workers = Vec::new();
        for _ in 0..options.threads {
            let (waker, woken) = Waker::pair().map_err(failed("creating a socket pair"))?;
            let (sender, arrivals) = mpsc::channel();
            peers.push(Peer {
                sender,
                waker: waker.try_clone().map_err(failed("copying a socket"))?,
            });
            let worker = Worker::new(Arc::clone(&global), woken, arrivals);
            workers.push(worker.map_err(failed("creating an event loop"))?);
            wakers.push(waker);
        }
        let doors = Doors::new(listeners.sockets().collect(), peers);
        let opened = workers[0].open(doors);
        opened.map_err(failed("watching the listening sockets"))?;
        stop::at_signals(&global.stop, &wakers).map_err(failed("watching for signals"))?;
        if options.parent_lease {
            let lease = stop::with_parent(&global.stop, &wakers);
            lease.map_err(failed("watching standard input"))?;
        }
        Ok(Self {
            workers,
            global,
            wakers,
        })
    }

    /// Serves until it is told to stop.
    ///
    /// # Errors
    /// When a thread cannot start, or waiting for events fails.
    pub fn run(self) -> Result<(), ServeError> {
        let Self {
            workers,
            global,
            wakers,
        } = self;
        let end = || stop::end(&global.stop, &wakers);
        let mut workers = workers.into_iter();
        let first = workers.next();
        thread::scope(|scope| {
            let mut threads = Vec::new();
            let mut result = Ok(());
            for mut worker in workers {
                // one that fails ends the others
                let body = move || worker.run().inspect_err(|_| end());
                match thread::Builder::new().spawn_scoped(scope, body) {
                    Ok(thread) => threads.push(thread),
                    Err(cause) => {
                        end();
                        result = Err(ServeError::new("starting a thread", cause));
                    }
                }
            }
            let waiting = |cause| ServeError::new("waiting for events", cause);
            if let Some(mut worker) = first {
                let ran = worker.run().inspect_err(|_| end());
                result = result.and(ran.map_err(waiting));
            }
            for thread in threads {
                if let Ok(ran) = thread.join() {
                    result = result.and(ran.map_err(waiting));
                }
            }
            result
        })
    }
}

fn global(options: &Options) -> Global {
    let stall = options.stall.map(|(at, lasts)| Stall::new(at, lasts));
    let faults = Faults::new(options.error_every, options.error_code, options.close_every);
    Global {
        shared: Shared {
            answers: Answers::new(options.scale),
            faults,
        },
        timing: Timing::new(options.delay, stall),
        stop: Arc::new(AtomicBool::new(false)),
        started: Instant::now(),
        connections: AtomicU32::new(0),
    }
}
