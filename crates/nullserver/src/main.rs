//! pgnull: a PostgreSQL server that answers immediately.
//!
//! It speaks protocol 3.0 and does nothing else: no tables, no locks, no disk. The throughput that a load generator
//! reaches with it is the generator's own ceiling. Its faults (stalls, delays, errors, closed connections) are known in
//! advance, so that a generator's report can be compared with what happened.

mod answers;
mod client;
mod encode;
mod event_loop;
mod extended_query;
mod listen;
mod options;
mod refusal;
mod session;
mod shared;
mod sql;
mod statement;

use std::fmt::Display;
use std::io;
use std::os::unix::net::UnixStream;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::thread;

use pgdyno_commandline::{print, report, start};
use signal_hook::consts::{SIGINT, SIGTERM};

use event_loop::{Doors, EventLoop, Worker};
use listen::Listeners;
use options::Options;
use shared::Shared;

fn main() -> ExitCode {
    start("pgnull", options::HELP, options::resolve, serve)
}

/// Serves until a signal arrives or, with `--parent-lease`, standard input closes.
fn serve(options: Options) -> Result<(), String> {
    let Listeners { sockets, addresses, file: _file } = listen::open(&options)?;
    listen::raise_descriptor_limit();
    let (signals, signalled) = UnixStream::pair().map_err(failed("creating a socket pair"))?;
    for signal in [SIGINT, SIGTERM] {
        let pipe = signalled.try_clone().map_err(failed("copying a socket"))?;
        signal_hook::low_level::pipe::register(signal, pipe).map_err(failed("watching for signals"))?;
    }
    let doors = Doors { listeners: sockets, signals, parent_lease: options.parent_lease };
    let workers: io::Result<Vec<Worker>> = (0..options.threads).map(|_| Worker::new()).collect();
    let workers: Arc<[Worker]> = workers.map_err(failed("creating an event loop"))?.into();
    let shared = Arc::new(Shared::new(options));
    for number in 1..workers.len() {
        let (shared, workers) = (Arc::clone(&shared), Arc::clone(&workers));
        // it ends with the process
        let body = move || {
            let ended = EventLoop::new(&shared, &workers, number, None).and_then(EventLoop::run);
            if let Err(cause) = ended {
                report("pgnull", failed("waiting for events")(cause));
                process::exit(1);
            }
        };
        thread::Builder::new().spawn(body).map_err(failed("starting a thread"))?;
    }
    let event_loop = EventLoop::new(&shared, &workers, 0, Some(doors)).map_err(failed("creating an event loop"))?;
    // standard output may be closed, but clients can connect nevertheless
    print(&format!("pgnull: ready on {}\n", addresses.join(" and ")));
    event_loop.run().map_err(failed("waiting for events"))
}

fn failed<E: Display>(doing: &str) -> impl Fn(E) -> String {
    move |cause| format!("{doing} failed: {cause}")
}
