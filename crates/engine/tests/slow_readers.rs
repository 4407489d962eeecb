//! A reader that is slow to take what the engine reports: the load goes on, and nothing that counts is lost.

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use common::Server;
use pgdyno_connect::{Env, Params};
use pgdyno_engine::clock::{Clock, Nanos};
use pgdyno_engine::interval::{ErrorNote, Merged};
use pgdyno_engine::outage::OutageNote;
use pgdyno_engine::pacing::Pacing;
use pgdyno_engine::phases::{PhaseSpec, Phases, Ramp};
use pgdyno_engine::report::Report;
use pgdyno_engine::spec::{Limit, OnError, Seeds, WeightedProgram};
use pgdyno_engine::{Connected, Observer, Spec, run};
use pgdyno_script::{QueryMode, Rng, Source, Symbols, compile, parse};

const CLIENTS: usize = 2;
/// After this the load stands still, and the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

fn spec(server: &Server, text: &str) -> Spec {
    let mut symbols = Symbols::new();
    let source = Source { name: "test".into(), text: text.into() };
    let parsed = parse(&source).expect("it parses");
    let program = compile(&parsed, QueryMode::Simple, &mut symbols).expect("it compiles");
    let (seeds, _) = Seeds::draw(&mut Rng::seed(1), CLIENTS, 1, false);
    let target = format!("host={} user=u dbname=d", server.folder().display());
    Spec {
        params: Params::resolve(Some(&target), &[], &Env::empty("u")).expect("it is complete"),
        programs: vec![WeightedProgram { program, weight: 1 }],
        symbols: Arc::new(symbols),
        clients: CLIENTS,
        pacing: vec![Pacing::default()],
        on_error: OnError::Continue,
        seeds,
        ..Spec::default()
    }
}

/// Reads nothing after the first report until the server's counts satisfy `until`.
struct SlowReader<'a, F> {
    server: &'a Server,
    until: F,
    has_waited: bool,
    notes: u64,
    intervals: Vec<(Nanos, Nanos)>,
    ended: u64,
}

impl<F: Fn(&[u64]) -> bool> SlowReader<'_, F> {
    fn wait(&mut self) {
        if std::mem::replace(&mut self.has_waited, true) {
            return;
        }
        let began = Instant::now();
        while !(self.until)(&self.server.counts()) {
            assert!(began.elapsed() < PATIENCE, "the load waits for its reader");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl<F: Fn(&[u64]) -> bool> Observer for SlowReader<'_, F> {
    fn connected(&mut self, _: &Connected) {}

    fn interval(&mut self, merged: &Merged) {
        self.wait();
        self.intervals.push((merged.from, merged.to));
        let ended = merged.scripts.iter().map(|script| script.counts.ended());
        self.ended += ended.sum::<u64>();
    }

    fn error(&mut self, _: &ErrorNote) {
        self.wait();
        self.notes += 1;
    }

    fn outage(&mut self, note: &OutageNote) {
        panic!("{note:?}");
    }
}

/// Runs the load, and checks that the intervals have all of it.
fn drive(server: &Server, spec: &Spec, until: impl Fn(&[u64]) -> bool) -> (Report, u64) {
    let mut reader = SlowReader { server, until, has_waited: false, notes: 0, intervals: Vec::new(), ended: 0 };
    let stop = AtomicBool::new(false);
    let report = run(spec, Clock::start(), &stop, &mut reader).expect("it begins");
    assert_eq!(report.total().counts.ended(), reader.ended);
    assert_eq!(server.counts().iter().sum::<u64>(), reader.ended);
    let pairs = reader.intervals.windows(2);
    assert!(pairs.into_iter().all(|pair| pair[0].1 == pair[1].0));
    (report, reader.notes)
}

#[test]
fn a_load_of_errors_does_not_wait_for_their_reader() {
    let each = 1000;
    for notes_every_error in [false, true] {
        let server = Server::start(Duration::ZERO);
        let spec = Spec { limit: Limit::Transactions(each), notes_every_error, ..spec(&server, "SELECT fail;\n") };
        let all = each * CLIENTS as u64;
        let (report, notes) = drive(&server, &spec, |counts| counts.iter().sum::<u64>() == all);
        assert_eq!(report.total().counts.failed(), all);
        let [error] = &report.errors[..] else {
            panic!("one error, not {:?}", report.errors);
        };
        assert_eq!((error.sqlstate.as_deref(), error.count), (Some("40001"), all));
        assert!(notes > 0);
        assert_eq!(notes + report.unreported_errors, all);
    }
}

#[test]
fn phases_end_while_nobody_reads() {
    let server = Server::start(Duration::ZERO);
    let phase = |clients: usize| PhaseSpec {
        name: "phase".into(),
        duration: Duration::from_millis(400),
        rate_per_s: None,
        clients: Ramp::constant(clients as f64),
        weights: vec![1],
        result: true,
    };
    // the second client is only in the last phase
    let phases = Phases::new(vec![phase(1), phase(1), phase(CLIENTS)]);
    let spec = Spec {
        limit: Limit::Duration(Duration::from_millis(1200)),
        phases: Some(phases),
        notes_every_error: true,
        ..spec(&server, "SELECT fail;\n")
    };
    let (report, _) = drive(&server, &spec, |counts| counts.iter().all(|&one| one > 0));
    let ended = report.phases.iter().map(|phase| phase.total().counts.failed());
    assert!(ended.into_iter().all(|failed| failed > 0));
}
