//! What times the engine waits and measures, against a server that answers at once.

mod common;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{Server, driven, phase, run_faultless, spec};
use pgdyno_engine::Spec;
use pgdyno_engine::clock::Nanos;
use pgdyno_engine::driver::{Driver, Drivers, Event, Outgoing, Request};
use pgdyno_engine::phases::Phases;
use pgdyno_engine::report::{Outcome, Report};
use pgdyno_engine::spec::{Initial, Io, Limit};

// ---- clients are woken when they asked for it, whatever others of their worker did meanwhile ----

const SLEEP: Duration = Duration::from_millis(30);
const WORK: Duration = Duration::from_millis(20);
const ROUNDS: usize = 10;
/// On a busy machine most clients may wake late because no core is free.
const ATTEMPTS: usize = 5;

/// Two clients that fall asleep together, the second one after some work: how late the first one was woken.
#[derive(Debug, Default, Clone)]
struct Sleepers(Arc<Mutex<Vec<Nanos>>>);

struct Sleeper {
    client: usize,
    sleepers: Sleepers,
    rounds: usize,
    due: Nanos,
}

impl Drivers for Sleepers {
    fn driver(&self, _worker: usize, client: usize) -> Box<dyn Driver> {
        Box::new(Sleeper { client, sleepers: self.clone(), rounds: 0, due: 0 })
    }
}

impl Driver for Sleeper {
    fn resume(&mut self, event: Event<'_>, now: Nanos, _out: &mut Outgoing<'_>) -> Request {
        match event {
            Event::Begin { .. } => {}
            Event::Woken => {
                self.rounds += 1;
                match self.client {
                    0 => self.sleepers.0.lock().expect("no panic").push(now - self.due),
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

#[test]
fn the_work_of_one_client_does_not_lengthen_anothers_sleep() {
    // the second is io_uring where it works
    for io in [Io::Epoll, Io::Auto] {
        let mut attempts = (0..ATTEMPTS).map(|_| lower_quartile_of_lateness(io));
        assert!(attempts.any(|late| Duration::from_nanos(late) < WORK / 2), "{io:?}");
    }
}

fn lower_quartile_of_lateness(io: Io) -> Nanos {
    let server = Server::start();
    let sleepers = Sleepers::default();
    let spec = Spec { io, ..driven(&server, sleepers.clone(), 2, Limit::Transactions(1)) };
    assert_eq!(run_faultless(&spec, || {}).expect("it begins").outcome, Outcome::Finished);
    assert_eq!(server.counts(), [0, 0]);
    let mut late = sleepers.0.lock().expect("no panic").clone();
    assert_eq!(late.len(), ROUNDS);
    late.sort_unstable();
    late[ROUNDS / 4]
}

// ---- by what time throughput is divided: in a closed loop, throughput x mean latency = clients (Little's law) ----

const CLIENTS: usize = 4;

/// Runs `script` in a closed loop, as `change` says.
fn report(script: &str, change: impl FnOnce(Spec) -> Spec) -> Report {
    let server = Server::start();
    let mut spec = change(spec(&server.target(), script, CLIENTS));
    let mut symbols = (*spec.symbols).clone();
    spec.initial = vec![(symbols.slot("client_id"), Initial::ClientId)];
    spec.symbols = Arc::new(symbols);
    let report = run_faultless(&spec, || {});
    assert_eq!(server.counts(), [0; CLIENTS]);
    report.expect("the load begins")
}

fn assert_all_clients_were_busy(tps: f64, mean_ns: f64) {
    let busy = tps * mean_ns / 1e9;
    assert!((busy - CLIENTS as f64).abs() < 0.2, "{busy}");
}

#[test]
fn time_before_and_after_the_measured_part_counts_with_its_transactions() {
    let (warmup, duration) = (Duration::from_millis(200), Duration::from_millis(1000));
    let report = report("\\sleep 500 ms\n", |spec| Spec { warmup, limit: Limit::Duration(duration), ..spec });
    assert_eq!(report.total().counts.succeeded, 3 * CLIENTS as u64);
    assert_all_clients_were_busy(report.tps(), report.total().latency.moments.mean());
}

#[test]
fn a_phase_is_as_long_as_its_clients_are_busy_and_not_as_its_last_transaction() {
    let script = "\\set ms CASE WHEN :client_id = 0 THEN 2000 ELSE 200 END\n\\sleep :ms ms\n";
    let phases = Phases::new(vec![phase(500, CLIENTS), phase(500, CLIENTS)]);
    let duration = Limit::Duration(Duration::from_millis(1000));
    let report = report(script, |spec| Spec { phases: Some(phases), limit: duration, ..spec });
    let first = &report.phases[0];
    assert_eq!(first.total().counts.succeeded, 1 + 3 * (CLIENTS as u64 - 1));
    assert_all_clients_were_busy(first.tps(), first.total().latency.moments.mean());
}
