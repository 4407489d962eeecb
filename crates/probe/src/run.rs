//! The probe from its start to its end, with one thread for the host, one for the server, and one for itself.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pgdyno_connect::{Params, Poolers, parent_process};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::host;
use crate::log;
use crate::options::{Options, Server};
use crate::output::{Output, VERSION};
use crate::probe_cost::{ProbeCost, Queries, cpu_us};
use crate::probe_stop::Stop;
use crate::server::{self, Rates, own_queries};
use crate::ticks::Ticks;

/// How often counters are read.
const PERIOD: Duration = Duration::from_secs(1);

/// Samples until the probe is stopped.
///
/// # Errors
/// A message that says why sampling could not begin, that the server is a connection pooler, or that samples could not
/// be written.
pub fn run(options: &Options) -> Result<(), String> {
    let clock = Clock::start();
    let stop = Stop::default();
    stop.at_signals().map_err(|error| format!("could not listen to signals: {error}"))?;
    let server = options.server.as_ref();
    let params = server.map(|server| params(server, &stop)).transpose()?;
    let output = Arc::new(Output::new(Box::new(io::stdout()), clock, stop.clone()));
    let began = clock.now();
    output.write("start", began, start(options));
    if options.parent_lease {
        let output = Arc::clone(&output);
        let ending = stop.clone();
        let stop = move || ending.now();
        parent_process::watch(io::stdin(), options.lease, stop, move |line| output.answer(line))
            .map_err(|error| format!("could not watch the parent: {error}"))?;
    }
    let queries = Queries::default();
    let sampled = thread::scope(|scope| {
        if let Some(choice) = &options.host {
            scope.spawn(|| host::run(choice, PERIOD, &output, &queries, &stop));
            if choice.has_log() {
                scope.spawn(|| log::run(choice, &output, &stop));
            }
        }
        let sampling = server.zip(params.as_ref()).map(|(server, params)| {
            let rates = Rates { waits_hz: server.waits_hz, period: PERIOD, statements: server.statements };
            let (output, queries, stop) = (&output, &queries, &stop);
            scope.spawn(move || server::run(params, rates, output, queries, stop))
        });
        for (server, params) in server.iter().zip(&params) {
            for own in &server.own {
                scope.spawn(|| own_queries::run(params, own, &output, &queries, &stop));
            }
        }
        let deadline = options.time.map(|time| clock.at(time));
        own_samples(&output, &queries, &stop, deadline);
        stop.now();
        // a thread that has panicked has reported it
        sampling.map_or(Ok(()), |thread| thread.join().unwrap_or(Ok(())))
    });
    let end = json!({"cpu_us": cpu_us() as u64, "written_bytes": output.written(), "late": output.late_samples()});
    output.write("end", clock.now(), end);
    sampled?;
    output.failure().map_or(Ok(()), |error| Err(format!("could not write samples: {error}")))
}

/// Samples the probe itself until it is stopped, or until the deadline.
fn own_samples(output: &Output, queries: &Queries, stop: &Stop, deadline: Option<Instant>) {
    let mut own = ProbeCost::new();
    let mut ticks = Ticks::new(output.clock().at(Duration::ZERO), PERIOD);
    loop {
        let due = ticks.next(Instant::now()).due;
        let is_last = deadline.is_some_and(|deadline| deadline < due);
        if stop.sleep_until(deadline.map_or(due, |deadline| due.min(deadline))) || is_last {
            return;
        }
        own.sample(output, queries);
    }
}

fn params(server: &Server, stop: &Stop) -> Result<Params, String> {
    let mut overrides = server.overrides.clone();
    // the probe's sessions are recognized by this name, and left out
    overrides.push(("application_name", server::NAME.to_owned()));
    let target = server.dbname.as_deref();
    let env = pgdyno_connect::Env::from_process();
    let mut params = Params::resolve(target, &overrides, &env).map_err(|error| error.to_string())?;
    params.interrupt = stop.interrupt();
    params.poolers = Poolers::Refused;
    Ok(params)
}

fn start(options: &Options) -> Value {
    let host = options.host.as_ref();
    json!({
        "v": VERSION,
        "pgprobe": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "period_us": PERIOD.as_micros() as u64,
        "waits_hz": options.server.as_ref().map(|server| server.waits_hz),
        "host": host.is_some(),
        "server": options.server.is_some(),
        "data": host.and_then(|host| host.data.as_ref()),
        "wal": host.and_then(|host| host.wal.as_ref()),
    })
}
