//! Loads whose workers fail, whose host is silent, or whose reports are read slowly.

mod common;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use common::{Server, driven, phase, run_faultless, spec};
use pgdyno_engine::clock::{Clock, Nanos};
use pgdyno_engine::driver::{Driver, Drivers, Event, Outgoing, Request};
use pgdyno_engine::interval::{ErrorNote, Merged};
use pgdyno_engine::outage::OutageNote;
use pgdyno_engine::phases::Phases;
use pgdyno_engine::report::Report;
use pgdyno_engine::spec::{Io, Limit, OnError, OnLoss, Sessions};
use pgdyno_engine::{Connected, Observer, Spec, run};

const HOUR: Duration = Duration::from_secs(3600);
/// After this the load stands still, and the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

// ---- drivers ----

/// What the last of three clients does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    No,
    PanicsInCreation,
    PanicsInTheLoad,
}

/// Creates clients slowly, and counts them.
#[derive(Debug, Clone)]
struct Flawed(Flaw, Arc<AtomicUsize>);

impl Drivers for Flawed {
    fn driver(&self, _worker: usize, client: usize) -> Box<dyn Driver> {
        thread::sleep(Duration::from_millis(20));
        self.1.fetch_add(1, Ordering::Relaxed);
        let flaw = if client == 2 { self.0 } else { Flaw::No };
        assert!(flaw != Flaw::PanicsInCreation, "a flaw of a client's creation");
        Box::new(Sleeper { flaw, sleeps: self.0 != Flaw::No })
    }
}

struct Sleeper {
    flaw: Flaw,
    sleeps: bool,
}

impl Driver for Sleeper {
    fn resume(&mut self, event: Event<'_>, _: Nanos, _: &mut Outgoing<'_>) -> Request {
        assert!(self.flaw == Flaw::No || !matches!(event, Event::Begin { .. }), "a flaw of a client");
        if self.sleeps && matches!(event, Event::Begin { .. }) { Request::Sleep(HOUR) } else { Request::Done }
    }
}

/// What that takes must not count as part of the load.
#[test]
fn all_clients_exist_when_the_load_begins() {
    let server = Server::start();
    let existing = Arc::new(AtomicUsize::new(0));
    let spec = driven(&server, Flawed(Flaw::No, Arc::clone(&existing)), 4, Limit::Transactions(1));
    let mut at_origin = 0;
    let report = run_faultless(&Spec { workers: 2, ..spec }, || at_origin = existing.load(Ordering::Relaxed));
    report.expect("the load begins");
    assert_eq!(at_origin, 4);
    assert_eq!(server.counts(), [0; 4]);
}

#[test]
fn a_worker_that_panics_ends_the_run() {
    for flaw in [Flaw::PanicsInCreation, Flaw::PanicsInTheLoad] {
        let server = Server::start();
        let spec = Spec { workers: 3, ..driven(&server, Flawed(flaw, Arc::default()), 3, Limit::Duration(HOUR)) };
        let (ended, end) = channel();
        thread::spawn(move || {
            let error = run_faultless(&spec, || {}).expect_err("a worker panicked");
            let _ = ended.send(error.to_string());
        });
        let end = end.recv_timeout(PATIENCE).expect("the run ends, and does not panic");
        assert!(server.counts().iter().all(|count| *count == 0), "nothing was sent");
        assert_eq!(end, "could not run the load: worker 2 panicked");
    }
}

// ---- a host that never answers ----

const MANY: usize = 64;

#[test]
fn all_clients_wait_for_a_silent_host_at_the_same_time() {
    let server = Server::start();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("bound").port();
    let accepted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&accepted);
    thread::spawn(move || {
        let mut kept = Vec::new();
        for socket in silent.incoming() {
            kept.push(socket);
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    let timeout = Duration::from_secs(2);
    let target = format!("host=127.0.0.1,{} port={port},5432 user=u dbname=d", server.folder());
    let mut sent = 0;
    for io in [Io::Epoll, Io::Auto] {
        for (sessions, on_loss) in [
            (Sessions::Kept, OnLoss::Abort),
            (Sessions::PerTransaction, OnLoss::Abort),
            (Sessions::PerTransaction, OnLoss::Reconnect { patience: None }),
        ] {
            accepted.store(0, Ordering::Relaxed);
            let limit = Limit::Transactions(3);
            let mut spec = Spec { sessions, on_loss, io, limit, ..spec(&target, "select 1;", MANY) };
            spec.params.connect_timeout = Some(timeout);
            let began = Instant::now();
            assert_eq!(run_faultless(&spec, || {}).expect("it begins").total().counts.ended(), 3 * MANY as u64);
            sent += 3 * MANY as u64;
            assert_eq!(server.counts().iter().sum::<u64>(), sent);
            // the transactions after the first begin at the host that answered
            assert_eq!(accepted.load(Ordering::Relaxed), MANY);
            // eight at a time took eight times as long
            assert!(began.elapsed() < 5 * timeout, "{:?} {sessions:?}", began.elapsed());
        }
    }
}

// ---- a reader that is slow to take what the engine reports: the load goes on, and nothing that counts is lost ----

const CLIENTS: usize = 2;

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

/// Runs a load of errors, and checks that the intervals have all of it.
fn run_slowly_read(limit: Limit, change: impl FnOnce(&mut Spec), until: impl Fn(&[u64]) -> bool) -> (Report, u64) {
    let server = Server::start();
    let mut spec = Spec { on_error: OnError::Continue, limit, ..spec(&server.target(), "SELECT fail;\n", CLIENTS) };
    change(&mut spec);
    let mut reader =
        SlowReader { server: &server, until, has_waited: false, notes: 0, intervals: Vec::new(), ended: 0 };
    let report = run(&spec, Clock::start(), &AtomicBool::new(false), &mut reader).expect("it begins");
    assert_eq!(report.total().counts.ended(), reader.ended);
    assert_eq!(server.counts().iter().sum::<u64>(), reader.ended);
    assert!(reader.intervals.windows(2).all(|pair| pair[0].1 == pair[1].0));
    (report, reader.notes)
}

#[test]
fn a_load_of_errors_does_not_wait_for_their_reader() {
    let each = 1000;
    let all = each * CLIENTS as u64;
    for notes_every_error in [false, true] {
        let change = |spec: &mut Spec| spec.notes_every_error = notes_every_error;
        let until = |counts: &[u64]| counts.iter().sum::<u64>() == all;
        let (report, notes) = run_slowly_read(Limit::Transactions(each), change, until);
        assert_eq!(report.total().counts.failed(), all);
        let [error] = &report.errors[..] else { panic!("one error, not {:?}", report.errors) };
        assert_eq!((error.sqlstate.as_deref(), error.count), (Some("40001"), all));
        assert!(notes > 0);
        assert_eq!(notes + report.unreported_errors, all);
    }
}

#[test]
fn phases_end_while_nobody_reads() {
    let change = |spec: &mut Spec| {
        // the second client is only in the last phase
        spec.phases = Some(Phases::new(vec![phase(400, 1), phase(400, 1), phase(400, CLIENTS)]));
        spec.notes_every_error = true;
    };
    let limit = Limit::Duration(Duration::from_millis(1200));
    let (report, _) = run_slowly_read(limit, change, |counts| counts.iter().all(|&one| one > 0));
    assert!(report.phases.iter().all(|phase| phase.total().counts.failed() > 0));
}
