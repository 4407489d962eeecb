//! The load's clock starts when all workers have created their clients: what that takes must not
//! count as part of the load.

mod common;
mod faultless;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::Server;
use faultless::Faultless;
use pgdyno_connect::{Env, Params};
use pgdyno_engine::clock::{Clock, Nanos};
use pgdyno_engine::driver::{Driver, Drivers, Event, Outgoing, Request};
use pgdyno_engine::pacing::Pacing;
use pgdyno_engine::spec::{Limit, Seeds, WeightedProgram};
use pgdyno_engine::{Spec, run};
use pgdyno_script::{Program, Rng, Symbols};

const CLIENTS: usize = 4;
const CREATION: Duration = Duration::from_millis(20);

/// Counts the clients that exist.
#[derive(Debug, Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl Drivers for Counted {
    fn driver(&self, _worker: usize, _client: usize) -> Box<dyn Driver> {
        thread::sleep(CREATION);
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::new(Idle)
    }
}

struct Idle;

impl Driver for Idle {
    fn resume(&mut self, _: Event<'_>, _: Nanos, _: &mut Outgoing<'_>) -> Request {
        Request::Done
    }
}

#[test]
fn all_clients_exist_when_the_load_begins() {
    let server = Server::start(Duration::ZERO);
    let (seeds, _) = Seeds::draw(&mut Rng::seed(1), CLIENTS, 2, false);
    let target = format!("host={} user=u dbname=d", server.folder().display());
    let program = Program::driven("idle", []);
    let existing = Counted::default();
    let spec = Spec {
        params: Params::resolve(Some(&target), &[], &Env::empty("u")).expect("it is complete"),
        programs: vec![WeightedProgram { program, weight: 1 }],
        drivers: Some(Arc::new(existing.clone())),
        symbols: Arc::new(Symbols::new()),
        clients: CLIENTS,
        workers: 2,
        limit: Limit::Transactions(1),
        pacing: vec![Pacing::default()],
        seeds,
        ..Spec::default()
    };
    let mut at_origin = 0;
    let mut observer = Faultless(|| at_origin = existing.0.load(Ordering::Relaxed));
    let report = run(&spec, Clock::start(), &AtomicBool::new(false), &mut observer);
    report.expect("the load begins");
    assert_eq!(at_origin, CLIENTS);
    assert_eq!(server.counts(), [0; CLIENTS]);
}
