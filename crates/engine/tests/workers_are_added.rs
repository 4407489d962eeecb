//! The number of workers changes while a load runs: no transaction is lost or repeated, and no
//! client stays where it does not belong.

mod common;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use common::Server;
use pgdyno_connect::{Env, Params};
use pgdyno_engine::clock::Clock;
use pgdyno_engine::interval::{ErrorNote, Merged, Phase};
use pgdyno_engine::log_spec::{Detail, LogFile, LogSpec};
use pgdyno_engine::observer::Added;
use pgdyno_engine::outage::OutageNote;
use pgdyno_engine::pacing::Pacing;
use pgdyno_engine::report::{Outcome, Report};
use pgdyno_engine::schedule::Arrivals;
use pgdyno_engine::spec::{Io, Limit, Seeds, Sessions, WeightedProgram};
use pgdyno_engine::worker_count_search::Choice;
use pgdyno_engine::worker_scaling::{Rule, Scaling};
use pgdyno_engine::{Connected, Observer, Spec, run};
use pgdyno_script::{QueryMode, Rng, Source, Symbols, compile, parse};

const CLIENTS: usize = 12;
const WORKERS: usize = 4;
/// Before each answer of the server.
const PAUSE: Duration = Duration::from_millis(2);

/// A load for `server` in which every worker is busy enough to give clients away.
fn spec(server: &Server, io: Io) -> Spec {
    let mut symbols = Symbols::new();
    let source = Source { name: "test".into(), text: "\\set x random(1, 9)\nSELECT :x;\n".into() };
    let program = parse(&source).expect("it parses");
    let mode = QueryMode::Simple;
    let program = compile(&program, mode, &mut symbols).expect("it compiles");
    let (seeds, _) = Seeds::draw(&mut Rng::seed(1), CLIENTS, WORKERS, false);
    let target = format!("host={} user=u dbname=d", server.folder().display());
    Spec {
        params: Params::resolve(Some(&target), &[], &Env::empty("u")).expect("it is complete"),
        programs: vec![WeightedProgram { program, weight: 1 }],
        symbols: Arc::new(symbols),
        mode,
        clients: CLIENTS,
        scaling: Scaling::Automatic(Rule { busy_share: 0.0, settling: Duration::ZERO, ..Rule::up_to(WORKERS) }),
        // interval ends at 0.2, 1.2, 2.2 s…: more than workers to add, because an interval may
        // arrive late
        warmup: Duration::from_millis(200),
        limit: Limit::Duration(Duration::from_millis(4800)),
        pacing: vec![Pacing::default()],
        io,
        seeds,
        ..Spec::default()
    }
}

/// The observations of a load.
#[derive(Default)]
struct Seen {
    added: Vec<Added>,
    /// Queries by connection when the last worker was added.
    before: Vec<u64>,
    /// Clients of each worker, for each interval of measuring.
    clients: Vec<Vec<usize>>,
    succeeded: u64,
    warm_up: u64,
    chosen: Vec<Choice>,
    errors: Vec<ErrorNote>,
}

struct Watcher<'a> {
    server: &'a Server,
    seen: Seen,
}

impl Observer for Watcher<'_> {
    fn connected(&mut self, _: &Connected) {}

    fn interval(&mut self, merged: &Merged) {
        let succeeded: u64 = merged.scripts.iter().map(|script| script.counts.succeeded).sum();
        match merged.phase {
            Phase::WarmUp => self.seen.warm_up += succeeded,
            phase => {
                self.seen.succeeded += succeeded;
                if phase == Phase::Measure {
                    let clients = merged.workers.iter().map(|worker| worker.clients);
                    self.seen.clients.push(clients.collect());
                }
            }
        }
    }

    fn error(&mut self, note: &ErrorNote) {
        self.seen.errors.push(note.clone());
    }

    fn outage(&mut self, _: &OutageNote) {}

    fn workers_chosen(&mut self, choice: &Choice) {
        self.seen.chosen.push(choice.clone());
    }

    fn worker_added(&mut self, added: &Added) {
        self.seen.added.push(*added);
        self.seen.before = self.server.counts();
    }

    fn worker_refused(&mut self, why: &io::Error) {
        panic!("{why}");
    }
}

fn drive(server: &Server, spec: &Spec) -> (Report, Seen) {
    let mut watcher = Watcher { server, seen: Seen::default() };
    let stop = AtomicBool::new(false);
    let report = run(spec, Clock::start(), &stop, &mut watcher).expect("it begins");
    (report, watcher.seen)
}

/// Checks that hold after every load of this file.
fn check(report: &Report, seen: &Seen) {
    assert!(seen.errors.is_empty(), "{:?}", seen.errors);
    assert_eq!(report.outcome, Outcome::Finished);
    assert_eq!((report.in_flight, report.clients_aborted), (0, 0));
    let numbers: Vec<_> = seen.added.iter().map(|added| added.worker).collect();
    assert_eq!(numbers, (1..WORKERS).collect::<Vec<_>>());
    assert_eq!(report.health.workers.len(), WORKERS);
    assert_eq!(report.counts().succeeded, seen.succeeded);
    assert_eq!(report.latency().moments.count, seen.succeeded);
    let replies: u64 = report.health.workers.iter().map(|w| w.health.replies).sum();
    assert!(replies > 0);
}

fn both(test: impl Fn(Io) + Sync) {
    std::thread::scope(|scope| {
        scope.spawn(|| test(Io::Epoll));
        // io_uring where it works
        test(Io::Auto);
    });
}

#[test]
fn clients_go_on_where_they_are_sent() {
    both(|io| {
        let server = Server::start(PAUSE);
        let spec = spec(&server, io);
        let (report, seen) = drive(&server, &spec);
        check(&report, &seen);
        let after = server.counts();
        assert_eq!(after.len(), CLIENTS);
        assert_eq!(after.iter().sum::<u64>(), seen.warm_up + seen.succeeded);
        for (client, (before, after)) in seen.before.iter().zip(&after).enumerate() {
            assert!(after > before, "client {client} did nothing after the last worker came");
        }
        // at the end of the last interval clients have stopped
        let mut by_worker = seen.clients[seen.clients.len() - 2].clone();
        by_worker.sort_unstable();
        assert_eq!(by_worker, [3; WORKERS], "{:?}", seen.clients);
    });
}

#[test]
fn every_client_runs_its_transactions() {
    both(|io| {
        let server = Server::start(PAUSE);
        let mut spec = spec(&server, io);
        spec.warmup = Duration::ZERO;
        spec.limit = Limit::Transactions(400);
        spec.arrivals = Arrivals::Poisson { rate_per_s: 1000.0 };
        let (report, seen) = drive(&server, &spec);
        check(&report, &seen);
        assert_eq!(server.counts(), [400; CLIENTS]);
        assert_eq!(seen.succeeded, 400 * CLIENTS as u64);
    });
}

#[test]
fn no_start_is_lost_or_doubled() {
    both(|io| {
        let server = Server::start(PAUSE);
        let mut spec = spec(&server, io);
        spec.arrivals = Arrivals::Regular { rate_per_s: 1000.0 };
        let (report, seen) = drive(&server, &spec);
        check(&report, &seen);
        // 5 s at 1,000 a second; each client may end one start before the deadline or after it, and
        // every split shifts the starts of one worker by less than its gap
        let all = seen.warm_up + seen.succeeded;
        assert!(all.abs_diff(5000) <= 3 * CLIENTS as u64, "{all}");
        // transactions that began in the warm-up have their lag there
        let lags = report.lag().count;
        assert!(lags.abs_diff(seen.succeeded) <= CLIENTS as u64, "{lags}");
    });
}

#[test]
fn with_a_connection_a_transaction_clients_move_without() {
    both(|io| {
        let server = Server::start(PAUSE);
        let mut spec = spec(&server, io);
        spec.sessions = Sessions::PerTransaction;
        // without a rate there would be a thread for each transaction
        spec.arrivals = Arrivals::Poisson { rate_per_s: 300.0 };
        let (report, seen) = drive(&server, &spec);
        check(&report, &seen);
        let after = server.counts();
        assert_eq!(after.len() as u64, seen.warm_up + seen.succeeded);
        assert!(after.iter().all(|&queries| queries == 1));
    });
}

#[test]
fn a_script_that_waits_moves_when_it_is_done() {
    both(|io| {
        let server = Server::start(PAUSE);
        let mut spec = spec(&server, io);
        let mut symbols = Symbols::new();
        let source = Source { name: "sleeps".into(), text: "SELECT 1;\n\\sleep 300 ms\nSELECT 2;\n".into() };
        let parsed = parse(&source).expect("it parses");
        let program = compile(&parsed, spec.mode, &mut symbols).expect("it compiles");
        spec.programs = vec![WeightedProgram { program, weight: 1 }];
        spec.symbols = Arc::new(symbols);
        let (report, seen) = drive(&server, &spec);
        check(&report, &seen);
        // both statements of every transaction, on the same connection
        let after = server.counts();
        assert_eq!(after.len(), CLIENTS);
        assert!(after.iter().all(|queries| queries % 2 == 0 && *queries >= 8), "{after:?}");
        assert_eq!(after.iter().sum::<u64>(), 2 * (seen.warm_up + seen.succeeded));
    });
}

#[test]
fn every_transaction_is_in_one_log() {
    let server = Server::start(PAUSE);
    let mut spec = spec(&server, Io::Auto);
    spec.arrivals = Arrivals::Poisson { rate_per_s: 1000.0 };
    let files: Vec<_> =
        (0..WORKERS + 1).map(|worker| LogFile::new(server.folder().join(format!("log.{worker}")))).collect();
    files[0].create().expect("a file");
    let paths: Vec<_> = files.iter().map(|file| file.path().to_owned()).collect();
    spec.log = Some(LogSpec {
        files,
        detail: Detail::Transaction { sampling_rate: 1.0 },
        failures_detailed: false,
        failure: std::sync::OnceLock::new(),
    });
    let (report, seen) = drive(&server, &spec);
    check(&report, &seen);
    // the log is written when its worker ends, which is before the end of the load
    drop(spec);
    let mut numbers = vec![Vec::new(); CLIENTS];
    for path in &paths[..WORKERS] {
        let text = std::fs::read_to_string(path).expect("every worker has one");
        assert!(!text.is_empty());
        for line in text.lines() {
            let mut words = line.split(' ').map(|word| word.parse::<u64>());
            let mut next = || words.next().expect("a column").expect("a number");
            numbers[next() as usize].push(next());
        }
    }
    assert!(!paths[WORKERS].exists(), "one for each that was there");
    // each client has one sequence of numbers, whichever worker it was on
    let mut all = 0;
    for mut numbers in numbers {
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1));
        all += numbers.len() as u64;
    }
    assert_eq!(all, seen.succeeded);
}

/// A load whose warm-up is long enough to try 1, 2 and 4 workers.
fn tuned(server: &Server, io: Io) -> Spec {
    Spec {
        workers: 2,
        scaling: Scaling::Automatic(Rule::up_to(WORKERS)),
        warmup: Duration::from_millis(1500),
        limit: Limit::Duration(Duration::from_millis(2200)),
        ..spec(server, io)
    }
}

fn check_tuned(report: &Report, seen: &Seen) {
    assert!(seen.errors.is_empty(), "{:?}", seen.errors);
    assert_eq!(report.outcome, Outcome::Finished);
    assert_eq!((report.in_flight, report.clients_aborted), (0, 0));
    assert!(seen.added.is_empty(), "what was chosen stays");
    let [choice] = &seen.chosen[..] else {
        panic!("one choice, not {:?}", seen.chosen);
    };
    let tried: Vec<_> = choice.tried.iter().map(|tried| tried.workers).collect();
    assert_eq!(tried, [1, 2, 4]);
    assert!(choice.tried.iter().all(|tried| !tried.rates_per_s.is_empty()));
    assert_eq!(report.health.workers.len(), choice.workers);
    let of_workers = CLIENTS / choice.workers;
    // on a busy machine the last move may come after the warm-up; clients stop in the last interval
    let clients = &seen.clients[seen.clients.len() - 2];
    let mut expected = vec![of_workers; choice.workers];
    expected.resize(clients.len(), 0);
    assert_eq!(*clients, expected, "{:?}", seen.clients);
    assert_eq!(report.counts().succeeded, seen.succeeded);
}

#[test]
fn numbers_of_workers_are_tried_while_warming_up() {
    both(|io| {
        let server = Server::start(PAUSE);
        let spec = tuned(&server, io);
        let (report, seen) = drive(&server, &spec);
        check_tuned(&report, &seen);
        let after = server.counts();
        assert_eq!(after.len(), CLIENTS, "each kept its connection");
        assert_eq!(after.iter().sum::<u64>(), seen.warm_up + seen.succeeded);
        assert!(after.iter().all(|queries| *queries > 0));
    });
}

#[test]
fn numbers_are_tried_with_a_connection_a_transaction() {
    both(|io| {
        let server = Server::start(PAUSE);
        let mut spec = tuned(&server, io);
        spec.sessions = Sessions::PerTransaction;
        let (report, seen) = drive(&server, &spec);
        check_tuned(&report, &seen);
        let after = server.counts();
        assert_eq!(after.len() as u64, seen.warm_up + seen.succeeded);
    });
}

#[test]
fn a_load_that_is_stopped_while_numbers_are_tried_ends() {
    both(|io| {
        let server = Server::start(PAUSE);
        let mut spec = tuned(&server, io);
        spec.warmup = Duration::from_secs(60);
        let stop = AtomicBool::new(false);
        let mut watcher = Watcher { server: &server, seen: Seen::default() };
        let report = std::thread::scope(|scope| {
            scope.spawn(|| {
                while server.counts().iter().sum::<u64>() < 1000 {
                    std::thread::yield_now();
                }
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            run(&spec, Clock::start(), &stop, &mut watcher).expect("it begins")
        });
        assert_eq!(report.outcome, Outcome::Interrupted);
    });
}

#[test]
fn workers_that_were_only_tried_leave_no_log() {
    let server = Server::start(PAUSE);
    let mut spec = tuned(&server, Io::Auto);
    spec.workers = 1;
    let files: Vec<_> =
        (0..WORKERS).map(|worker| LogFile::new(server.folder().join(format!("log.{worker}")))).collect();
    files[0].create().expect("a file");
    let paths: Vec<_> = files.iter().map(|file| file.path().to_owned()).collect();
    spec.log = Some(LogSpec {
        files,
        detail: Detail::Transaction { sampling_rate: 1.0 },
        failures_detailed: false,
        failure: std::sync::OnceLock::new(),
    });
    let (report, seen) = drive(&server, &spec);
    check_tuned(&report, &seen);
    drop(spec);
    let there = paths.iter().filter(|path| path.exists()).count();
    assert_eq!(there, report.health.workers.len());
}
