//! `-i`: creates the dataset and reports the progress.

pub mod load_progress;

use std::time::Duration;

use pgdyno_connect::{Poolers, Session};
use pgdyno_dataset::{LoadError, LoadMode, Order, Step};

use crate::database_setup::resolve_params;
use crate::early_stop::Lease;
use crate::events::Events;
use crate::exit::Exit;
use crate::messages::{Failure, Messages};
use crate::options::Initialize;
use crate::run_events::run_with_events;
use crate::setup_canceller::Canceller;
use crate::tpcc;
use load_progress::{Cadence, LoadReporter, print_line};

/// Creates the dataset; reports every failure before it returns.
pub fn run(options: &Initialize, messages: &Messages) -> Exit {
    run_with_events(options.events.as_ref(), messages, |events| load(options, messages, events))
}

fn load(options: &Initialize, messages: &Messages, events: &mut Events) -> Result<Exit, Failure> {
    let lease = Lease::take_from(options.parent_lease)?;
    let mut params = resolve_params(&options.connection, messages)?;
    params.interrupt = lease.interrupt();
    params.poolers = Poolers::Refused;
    let mut session = match Session::connect(&params) {
        Err(_) if lease.is_over() => return Ok(lease.exit()),
        connected => {
            connected.map_err(|error| Failure::new(error).also("could not create connection for initialization"))?
        }
    };
    let canceller = Canceller::start(&params, &lease.stop);
    canceller.watch(&mut session);
    end_with_client(&mut session);
    let further = || {
        let mut session = Session::connect(&params)?;
        canceller.watch(&mut session);
        end_with_client(&mut session);
        Ok(session)
    };
    let order = Order { steps: options.steps.clone(), mode: options.mode, program_version: env!("CARGO_PKG_VERSION") };
    let mut reporter = LoadReporter::new(cadence(options), events, messages);
    let dataset = options.dataset.dataset();
    let result = pgdyno_dataset::load(&mut session, &further, dataset, &order, &lease.stop, &mut reporter);
    let resumable = reporter.resumable();
    let checked = match (&options.check, &result) {
        (Some(check), Ok(_)) => tpcc::check::check(&mut session, check, events, &mut std::io::stderr()),
        _ => Ok(true),
    };
    drop(canceller);
    // pgbench closes its session, too; if the server has gone before, the result shows it
    let _ = session.close();
    match result {
        Ok(times) => {
            print_line(&times_line(&times));
            checked.map(|is_consistent| tpcc::check::exit(is_consistent, messages))
        }
        Err(error) => end_early(&error, resumable, &lease, messages),
    }
}

fn cadence(options: &Initialize) -> Cadence {
    match (options.quiet, options.mode) {
        (true, _) => Cadence::Quiet,
        (false, LoadMode::OneTransaction) => Cadence::Rows,
        (false, LoadMode::Chunks(_)) => Cadence::Seconds,
    }
}

fn end_early(error: &LoadError, resumable: bool, lease: &Lease, messages: &Messages) -> Result<Exit, Failure> {
    if matches!(error, LoadError::Interrupted) {
        print_line(&error.to_string());
        if resumable {
            messages.hint(RESUME);
        }
        return Ok(lease.exit());
    }
    let mut failure = Failure::from(error);
    if failure.hint.is_none() && resumable {
        failure.hint = Some(RESUME.to_owned());
    }
    if lease.is_over() {
        failure.report(messages);
        return Ok(lease.exit());
    }
    Err(failure)
}

/// The first version with client_connection_check_interval.
const CHECKS_CLIENT_FROM_VERSION: i32 = 140_000;
/// The remedy after an interrupted load.
const RESUME: &str = "Run the same command with --resume to continue after what was committed.";

/// Lets the server check every second whether its client still exists (PostgreSQL 14 and later).
///
/// Nothing cancels the statements of a program that was killed by SIGKILL, and a server notices its end only when it
/// sends the next answer. Until then it builds an index, or waits for a lock, and the next load has to wait for it.
fn end_with_client(session: &mut Session) {
    if session.server_version_num >= CHECKS_CLIENT_FROM_VERSION {
        // a server on another operating system may refuse the setting, which is no reason to abort the load
        let _ = session.execute("SET client_connection_check_interval = '1s'");
    }
}

fn times_line(times: &[(Step, Duration)]) -> String {
    let all: Duration = times.iter().map(|(_, time)| *time).sum();
    let steps: Vec<String> =
        times.iter().map(|(step, time)| format!("{} {:.2} s", step.name(), time.as_secs_f64())).collect();
    format!("done in {:.2} s ({}).", all.as_secs_f64(), steps.join(", "))
}
