//! The server: the state that its threads share, and how they start and end.

use std::sync::{Arc, mpsc};
use std::thread;

use crate::ServeError;
use crate::listen::Listeners;
use crate::options::Options;
use crate::server_state::ServerState;
use crate::server_stop::{self, Waker};
use crate::worker::{Doors, Peer, Worker};

#[derive(Debug)]
pub struct Server<'l> {
    /// The first worker accepts for all.
    workers: Vec<Worker<'l>>,
    global: Arc<ServerState>,
    wakers: Vec<Waker>,
}

impl<'l> Server<'l> {
    /// Creates a server on these sockets. From here on, signals end it in order.
    pub fn new(options: &Options, listeners: &'l Listeners) -> Result<Self, ServeError> {
        let failed = |doing: &'static str| move |cause| ServeError::new(doing, cause);
        let global = Arc::new(ServerState::new(options));
        let mut wakers = Vec::new();
        let mut peers = Vec::new();
        let mut workers = Vec::new();
        for _ in 0..options.threads {
            let (waker, woken) = Waker::pair().map_err(failed("creating a socket pair"))?;
            let (sender, arrivals) = mpsc::channel();
            peers.push(Peer { sender, waker: waker.try_clone().map_err(failed("copying a socket"))? });
            let worker = Worker::new(Arc::clone(&global), woken, arrivals);
            workers.push(worker.map_err(failed("creating an event loop"))?);
            wakers.push(waker);
        }
        let doors = Doors::new(listeners.sockets().collect(), peers);
        let opened = workers[0].open(doors);
        opened.map_err(failed("watching the listening sockets"))?;
        server_stop::at_signals(&global.stop, &wakers).map_err(failed("watching for signals"))?;
        if options.parent_lease {
            let lease = server_stop::with_parent(&global.stop, &wakers);
            lease.map_err(failed("watching standard input"))?;
        }
        Ok(Self { workers, global, wakers })
    }

    pub fn run(self) -> Result<(), ServeError> {
        let Self { workers, global, wakers } = self;
        let end = || server_stop::end(&global.stop, &wakers);
        let mut workers = workers.into_iter();
        let first = workers.next();
        thread::scope(|scope| {
            let mut threads = Vec::new();
            let mut result = Ok(());
            for mut worker in workers {
                // a thread that fails ends the others
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
