//! By what time throughput is divided: that in which clients were busy with what it counts. In a
//! closed loop, throughput times mean latency is then the number of clients (Little's law).

mod common;
mod faultless;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use common::Server;
use faultless::Faultless;
use pgdyno_connect::{Env, Params};
use pgdyno_engine::clock::Clock;
use pgdyno_engine::pacing::Pacing;
use pgdyno_engine::phases::{PhaseSpec, Phases, Ramp};
use pgdyno_engine::report::Report;
use pgdyno_engine::spec::{Initial, Limit, Seeds, WeightedProgram};
use pgdyno_engine::{Spec, run};
use pgdyno_script::{QueryMode, Rng, Source, Symbols, compile, parse};

const CLIENTS: usize = 4;

/// Runs `script` in a closed loop, as `change` says.
fn report(script: &str, change: impl FnOnce(Spec) -> Spec) -> Report {
    let server = Server::start(Duration::ZERO);
    let mut symbols = Symbols::new();
    let parsed = parse(&Source { name: "test".into(), text: script.into() }).expect("it parses");
    let program = compile(&parsed, QueryMode::Simple, &mut symbols).expect("it compiles");
    let (seeds, _) = Seeds::draw(&mut Rng::seed(1), CLIENTS, 1, false);
    let target = format!("host={} user=u dbname=d", server.folder().display());
    let client_id = symbols.slot("client_id");
    let spec = change(Spec {
        params: Params::resolve(Some(&target), &[], &Env::empty("u")).expect("it is complete"),
        programs: vec![WeightedProgram { program, weight: 1 }],
        initial: vec![(client_id, Initial::ClientId)],
        symbols: Arc::new(symbols),
        clients: CLIENTS,
        pacing: vec![Pacing::default()],
        seeds,
        ..Spec::default()
    });
    let report = run(&spec, Clock::start(), &AtomicBool::new(false), &mut Faultless(|| {}));
    assert_eq!(server.counts(), [0; CLIENTS]);
    report.expect("the load begins")
}

fn clients_in_use(tps: f64, mean_ns: f64) -> f64 {
    tps * mean_ns / 1e9
}

#[test]
fn time_before_and_after_the_measured_part_counts_with_its_transactions() {
    let (warmup, duration) = (Duration::from_millis(200), Duration::from_millis(1000));
    let report = report("\\sleep 500 ms\n", |spec| Spec { warmup, limit: Limit::Duration(duration), ..spec });
    assert_eq!(report.total().counts.succeeded, 3 * CLIENTS as u64);
    let busy = clients_in_use(report.tps(), report.total().latency.moments.mean());
    assert!((busy - CLIENTS as f64).abs() < 0.2, "{busy}");
}

#[test]
fn a_phase_is_as_long_as_its_clients_are_busy_and_not_as_its_last_transaction() {
    let phase = |name: &str| PhaseSpec {
        name: name.into(),
        duration: Duration::from_millis(500),
        rate_per_s: None,
        clients: Ramp::constant(CLIENTS as f64),
        weights: vec![1],
        result: true,
    };
    let script = "\\set ms CASE WHEN :client_id = 0 THEN 2000 ELSE 200 END\n\\sleep :ms ms\n";
    let phases = Phases::new(vec![phase("first"), phase("second")]);
    let duration = Limit::Duration(Duration::from_millis(1000));
    let report = report(script, |spec| Spec { phases: Some(phases), limit: duration, ..spec });
    let first = &report.phases[0];
    let total = first.total();
    assert_eq!(total.counts.succeeded, 1 + 3 * (CLIENTS as u64 - 1));
    let busy = clients_in_use(first.tps(), total.latency.moments.mean());
    assert!((busy - CLIENTS as f64).abs() < 0.2, "{busy}");
}
