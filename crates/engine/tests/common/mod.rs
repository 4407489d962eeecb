//! Loads against a minimal server: it accepts every client, answers every query, and counts. It refuses a query with
//! the word `fail`.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use pgdyno_connect::{Env, Params};
use pgdyno_engine::clock::{Clock, Nanos};
use pgdyno_engine::driver::Drivers;
use pgdyno_engine::interval::{ErrorNote, Merged};
use pgdyno_engine::outage::OutageNote;
use pgdyno_engine::pacing::Pacing;
use pgdyno_engine::phases::{PhaseSpec, Ramp};
use pgdyno_engine::report::Report;
use pgdyno_engine::spec::{Limit, Seeds, WeightedProgram};
use pgdyno_engine::{Connected, Observer, RunError, Spec, run};
use pgdyno_script::{Program, QueryMode, Rng, Source, Symbols, compile, parse};

/// A load of a script, or with an empty text one whose clients have drivers.
pub fn spec(target: &str, text: &str, clients: usize) -> Spec {
    let mut symbols = Symbols::new();
    let program = if text.is_empty() {
        Program::driven("driven", [])
    } else {
        let parsed = parse(&Source { name: "test".into(), text: text.into() }).expect("it parses");
        compile(&parsed, QueryMode::Simple, &mut symbols).expect("it compiles")
    };
    Spec {
        params: Params::resolve(Some(target), &[], &Env::empty("u")).expect("it is complete"),
        programs: vec![WeightedProgram { program, weight: 1 }],
        symbols: Arc::new(symbols),
        clients,
        pacing: vec![Pacing::default()],
        seeds: Seeds::draw(&mut Rng::seed(1), clients, clients, false).0,
        ..Spec::default()
    }
}

/// A load whose clients have these drivers.
pub fn driven(server: &Server, drivers: impl Drivers + 'static, clients: usize, limit: Limit) -> Spec {
    Spec { drivers: Some(Arc::new(drivers)), limit, ..spec(&server.target(), "", clients) }
}

/// A phase of a closed loop.
pub fn phase(duration_ms: u64, clients: usize) -> PhaseSpec {
    PhaseSpec {
        name: "phase".into(),
        duration: Duration::from_millis(duration_ms),
        rate_per_s: None,
        clients: Ramp::constant(clients as f64),
        weights: vec![1],
        result: true,
    }
}

/// Runs a load in which nothing goes wrong; calls `begin` when it is about to begin.
pub fn run_faultless(spec: &Spec, begin: impl FnMut() + Send) -> Result<Report, RunError> {
    run(spec, Clock::start(), &AtomicBool::new(false), &mut Faultless(begin))
}

struct Faultless<F>(F);

impl<F: FnMut() + Send> Observer for Faultless<F> {
    fn ready(&mut self, clock: Clock, _: Nanos) -> Result<Nanos, RunError> {
        (self.0)();
        Ok(clock.now())
    }

    fn connected(&mut self, _: &Connected) {}

    fn interval(&mut self, _: &Merged) {}

    fn error(&mut self, note: &ErrorNote) {
        panic!("{note:?}");
    }

    fn outage(&mut self, note: &OutageNote) {
        panic!("{note:?}");
    }
}

const PORT: u16 = 5432;
/// AuthenticationOk and ReadyForQuery.
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
/// CommandComplete and ReadyForQuery.
const DONE: &[u8] = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";

/// An ErrorResponse and ReadyForQuery.
const REFUSED: &[u8] = b"E\0\0\0\x1eSERROR\0VERROR\0C40001\0Mno\0\0Z\0\0\0\x05I";

/// A server that runs until the test's process ends.
pub struct Server {
    folder: PathBuf,
    /// Queries by connection, in the order of connecting.
    queries: Arc<Mutex<Vec<Arc<AtomicU64>>>>,
}

impl Server {
    pub fn start() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pgdyno-engine-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let listener = UnixListener::bind(folder.join(format!(".s.PGSQL.{PORT}"))).expect("a socket");
        let queries = Arc::new(Mutex::new(Vec::new()));
        let counts = Arc::clone(&queries);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = Arc::new(AtomicU64::new(0));
                counts.lock().expect("no panic").push(Arc::clone(&count));
                // the thread ends with its client
                thread::spawn(move || serve(stream, &count));
            }
        });
        Self { folder, queries }
    }

    pub fn folder(&self) -> String {
        self.folder.display().to_string()
    }

    pub fn target(&self) -> String {
        format!("host={} user=u dbname=d", self.folder())
    }

    /// How many queries each connection has sent up to now.
    pub fn counts(&self) -> Vec<u64> {
        let queries = self.queries.lock().expect("no panic");
        queries.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn serve(mut stream: UnixStream, count: &AtomicU64) -> io::Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    read_body(&mut stream, length)?;
    stream.write_all(WELCOME)?;
    let mut head = [0; 5];
    loop {
        stream.read_exact(&mut head)?;
        let [kind, length @ ..] = head;
        let body = read_body(&mut stream, length)?;
        if kind == b'X' {
            return Ok(());
        }
        count.fetch_add(1, Ordering::Relaxed);
        let fails = body.windows(4).any(|word| word == b"fail");
        stream.write_all(if fails { REFUSED } else { DONE })?;
    }
}

fn read_body(stream: &mut UnixStream, length: [u8; 4]) -> io::Result<Vec<u8>> {
    let mut body = vec![0; (u32::from_be_bytes(length) as usize).saturating_sub(4)];
    stream.read_exact(&mut body)?;
    Ok(body)
}
