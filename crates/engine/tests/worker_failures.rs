//! A worker that fails ends the run with its error, whenever that happens.

mod common;
mod faultless;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
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

const CLIENTS: usize = 3;
const HOUR: Duration = Duration::from_secs(3600);
/// After this the run waits for a worker that is gone, and the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// When the last client panics, and its worker with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    Creation,
    Load,
}

impl Drivers for Flaw {
    fn driver(&self, _group: usize, client: usize) -> Box<dyn Driver> {
        let is_last = client == CLIENTS - 1;
        assert!(!is_last || *self != Self::Creation, "a flaw of a client's creation");
        Box::new(Sleeper { is_flawed: is_last })
    }
}

struct Sleeper {
    is_flawed: bool,
}

impl Driver for Sleeper {
    fn resume(&mut self, event: Event<'_>, _: Nanos, _: &mut Outgoing<'_>) -> Request {
        match event {
            Event::Begin { .. } => {
                assert!(!self.is_flawed, "a flaw of a client");
                Request::Sleep(HOUR)
            }
            _ => Request::Done,
        }
    }
}

fn end_of_run(flaw: Flaw) -> String {
    let server = Server::start(Duration::ZERO);
    let (seeds, _) = Seeds::draw(&mut Rng::seed(1), CLIENTS, CLIENTS, false);
    let target = format!("host={} user=u dbname=d", server.folder().display());
    let spec = Spec {
        params: Params::resolve(Some(&target), &[], &Env::empty("u")).expect("it is complete"),
        programs: vec![WeightedProgram { program: Program::driven("asleep", []), weight: 1 }],
        drivers: Some(Arc::new(flaw)),
        symbols: Arc::new(Symbols::new()),
        clients: CLIENTS,
        workers: CLIENTS,
        limit: Limit::Duration(HOUR),
        pacing: vec![Pacing::default()],
        seeds,
        ..Spec::default()
    };
    let (ended, end) = channel();
    thread::spawn(move || {
        let report = run(&spec, Clock::start(), &AtomicBool::new(false), &mut Faultless(|| {}));
        let _ = ended.send(report.expect_err("a worker panicked").to_string());
    });
    let end = end.recv_timeout(PATIENCE).expect("the run ends, and does not panic");
    assert!(server.counts().iter().all(|count| *count == 0), "nothing was sent");
    end
}

#[test]
fn a_worker_that_panics_ends_the_run() {
    for flaw in [Flaw::Creation, Flaw::Load] {
        assert_eq!(end_of_run(flaw), "could not run the load: worker 2 panicked");
    }
}
