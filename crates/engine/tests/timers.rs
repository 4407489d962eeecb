//! Clients are woken when they requested it, whatever the other clients of their worker did in the meantime.

mod common;
mod faultless;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::Server;
use faultless::Faultless;
use pgdyno_connect::{Env, Params};
use pgdyno_engine::clock::{Clock, Nanos};
use pgdyno_engine::driver::{Driver, Drivers, Event, Outgoing, Request};
use pgdyno_engine::pacing::Pacing;
use pgdyno_engine::report::Outcome;
use pgdyno_engine::spec::{Io, Limit, Seeds, WeightedProgram};
use pgdyno_engine::{Spec, run};
use pgdyno_script::{Program, Rng, Symbols};

const SLEEP: Duration = Duration::from_millis(30);
const WORK: Duration = Duration::from_millis(20);
const ROUNDS: usize = 10;
/// On a busy machine most clients may wake late because no core is free.
const ATTEMPTS: usize = 5;

/// Two clients that fall asleep together, the second one after some work.
#[derive(Debug, Default)]
struct Sleepers {
    /// How late the first client was woken.
    late: Arc<Mutex<Vec<Nanos>>>,
}

struct Sleeper {
    client: usize,
    late: Arc<Mutex<Vec<Nanos>>>,
    rounds: usize,
    due: Nanos,
}

impl Drivers for Sleepers {
    fn driver(&self, _worker: usize, client: usize) -> Box<dyn Driver> {
        Box::new(Sleeper { client, late: Arc::clone(&self.late), rounds: 0, due: 0 })
    }
}

impl Driver for Sleeper {
    fn resume(&mut self, event: Event<'_>, now: Nanos, _out: &mut Outgoing<'_>) -> Request {
        match event {
            Event::Begin { .. } => {}
            Event::Woken => {
                self.rounds += 1;
                match self.client {
                    0 => self.late.lock().expect("no panic").push(now - self.due),
                    _ => thread::sleep(WORK),
                }
            }
            _ => return Request::Done,
        }
        if self.rounds == ROUNDS {
            return Request::Done;
        }
        self.due = now + SLEEP.as_nanos() as Nanos;
        Request::Sleep(SLEEP)
    }
}

fn spec(server: &Server, drivers: Sleepers, io: Io) -> Spec {
    let (seeds, _) = Seeds::draw(&mut Rng::seed(1), 2, 1, false);
    let target = format!("host={} user=u dbname=d", server.folder().display());
    let program = Program::driven("sleepers", []);
    Spec {
        params: Params::resolve(Some(&target), &[], &Env::empty("u")).expect("it is complete"),
        programs: vec![WeightedProgram { program, weight: 1 }],
        drivers: Some(Arc::new(drivers)),
        symbols: Arc::new(Symbols::new()),
        clients: 2,
        limit: Limit::Transactions(1),
        pacing: vec![Pacing::default()],
        io,
        seeds,
        ..Spec::default()
    }
}

#[test]
fn the_work_of_one_client_does_not_lengthen_anothers_sleep() {
    // the second is io_uring where it works
    for io in [Io::Epoll, Io::Auto] {
        let mut attempts = (0..ATTEMPTS).map(|_| lower_quartile(lateness(io)));
        let is_in_time = attempts.any(|late| Duration::from_nanos(late) < WORK / 2);
        assert!(is_in_time, "{io:?}");
    }
}

fn lower_quartile(mut values: Vec<Nanos>) -> Nanos {
    values.sort_unstable();
    values[values.len() / 4]
}

/// How late the first client was woken, for each round.
fn lateness(io: Io) -> Vec<Nanos> {
    let server = Server::start(Duration::ZERO);
    let drivers = Sleepers::default();
    let late = Arc::clone(&drivers.late);
    let spec = spec(&server, drivers, io);
    let report = run(&spec, Clock::start(), &AtomicBool::new(false), &mut Faultless(|| ()));
    assert_eq!(report.expect("it begins").outcome, Outcome::Finished);
    assert_eq!(server.counts(), [0, 0]);
    let late = late.lock().expect("no panic").clone();
    assert_eq!(late.len(), ROUNDS);
    late
}
