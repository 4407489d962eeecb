//! A host that accepts connections and never answers, before one that works: clients wait for it
//! together, and not one after the other.

mod common;
mod faultless;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::Server;
use faultless::Faultless;
use pgdyno_connect::{Env, Params};
use pgdyno_engine::clock::Clock;
use pgdyno_engine::pacing::Pacing;
use pgdyno_engine::spec::{Io, Limit, OnLoss, Seeds, Sessions, WeightedProgram};
use pgdyno_engine::{Spec, run};
use pgdyno_script::{QueryMode, Rng, Source, Symbols, compile, parse};

const CLIENTS: usize = 64;
/// How long an attempt at the silent host takes.
const TIMEOUT: Duration = Duration::from_secs(2);

fn spec(target: &str) -> Spec {
    let mut symbols = Symbols::new();
    let source = Source { name: "test".into(), text: "select 1;".into() };
    let program = compile(&parse(&source).expect("it parses"), QueryMode::Simple, &mut symbols);
    let (seeds, _) = Seeds::draw(&mut Rng::seed(1), CLIENTS, 1, false);
    let mut params = Params::resolve(Some(target), &[], &Env::empty("u")).expect("it is complete");
    params.connect_timeout = Some(TIMEOUT);
    Spec {
        params,
        programs: vec![WeightedProgram { program: program.expect("it compiles"), weight: 1 }],
        symbols: Arc::new(symbols),
        clients: CLIENTS,
        limit: Limit::Transactions(3),
        pacing: vec![Pacing::default()],
        seeds,
        ..Spec::default()
    }
}

#[test]
fn all_clients_wait_for_it_at_the_same_time() {
    let server = Server::start(Duration::ZERO);
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
    let target = format!("host=127.0.0.1,{} port={port},5432 user=u dbname=d", server.folder().display());
    let mut sent = 0;
    for io in [Io::Epoll, Io::Auto] {
        for (sessions, on_loss) in [
            (Sessions::Kept, OnLoss::Abort),
            (Sessions::PerTransaction, OnLoss::Abort),
            (Sessions::PerTransaction, OnLoss::Reconnect { patience: None }),
        ] {
            accepted.store(0, Ordering::Relaxed);
            let spec = Spec { sessions, on_loss, io, ..spec(&target) };
            let began = Instant::now();
            let report = run(&spec, Clock::start(), &AtomicBool::new(false), &mut Faultless(|| {}));
            assert_eq!(report.expect("it begins").total().counts.ended(), 3 * CLIENTS as u64);
            sent += 3 * CLIENTS as u64;
            assert_eq!(server.counts().iter().sum::<u64>(), sent);
            // the transactions after the first begin at the host that answered
            assert_eq!(accepted.load(Ordering::Relaxed), CLIENTS);
            // eight at a time took eight times as long
            assert!(began.elapsed() < 5 * TIMEOUT, "{:?} {sessions:?}", began.elapsed());
        }
    }
}
