//! `-i`: creates the dataset and reports the progress.

pub mod load_progress;

use std::sync::atomic::Ordering;
use std::time::Duration;

use pgdyno_connect::{Params, Poolers, Session};
use pgdyno_dataset::{LoadError, LoadMode, Order, Step};
use pgdyno_engine::clock::Clock;
use serde_json::json;

use crate::connection_params::resolve_params;
use crate::early_stop::Lease;
use crate::events::Events;
use crate::exit::Exit;
use crate::messages::{Failure, Messages};
use crate::options::Initialize;
use crate::outputs::Outputs;
use crate::run_events::cpu_us;
use crate::setup_canceller::Canceller;
use crate::tpcc;
use load_progress::{Cadence, LoadReporter, print_line};

/// Creates the dataset; reports every failure before it returns.
pub fn run(options: &Initialize, messages: &Messages) -> Exit {
    let clock = Clock::start();
    let opened = Events::open(options.events.as_ref(), clock);
    let mut events = match opened {
        Ok(events) => events,
        Err(error) => {
            messages.error(format!("could not create the events file: {error}"));
            return Exit::NotBegun;
        }
    };
    let (exit, failure) = match load(options, messages, &mut events) {
        Ok(exit) => (exit, None),
        Err(failure) => (Exit::NotBegun, Some(failure)),
    };
    let fields = json!({
        "outcome": match exit {
            Exit::Well => "finished",
            Exit::Signalled(_) => "interrupted",
            Exit::NotBegun | Exit::Aborted | Exit::Refused | Exit::Unwritten => "failed",
        },
        "exit_code": exit.code(),
        "message": failure.as_ref().map(|failure| &failure.message),
        "hint": failure.as_ref().and_then(|failure| failure.hint.as_ref()),
        "cpu_us": cpu_us(),
    });
    // Events keeps a failure, which is reported later
    let _ = events.write("end", fields);
    let mut outputs = Outputs::new(messages);
    if let Some(error) = events.failure() {
        outputs.report(events.name(), error);
    }
    outputs.exit(exit)
}

/// A failure was said before it is returned.
fn load(options: &Initialize, messages: &Messages, events: &mut Events) -> Result<Exit, Failure> {
    let said = |failure: Failure| {
        failure.report(messages);
        failure
    };
    let lease = take_lease(options).map_err(said)?;
    let mut params = resolve_params(&options.connection, messages).map_err(said)?;
    params.interrupt = lease.interrupt();
    params.poolers = Poolers::Refused;
    let mut session = match connect(&params, messages) {
        Err(_) if lease.stop.load(Ordering::Relaxed) => return Ok(lease.exit()),
        connected => connected?,
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
    let order = order(options);
    let mut reporter = LoadReporter::new(cadence(options), events, messages);
    let dataset = options.dataset.dataset();
    let stop = &lease.stop;
    let result = pgdyno_dataset::load(&mut session, &further, dataset, &order, stop, &mut reporter);
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
            checked.map_err(said).map(|is_consistent| exit_of_check(is_consistent, messages))
        }
        Err(error) => end_early(&error, resumable, &lease, messages),
    }
}

fn order(options: &Initialize) -> Order {
    Order { steps: options.steps.clone(), mode: options.mode, program_version: env!("CARGO_PKG_VERSION") }
}

fn take_lease(options: &Initialize) -> Result<Lease, Failure> {
    let lease = Lease::take().map_err(|error| Failure::new(format!("could not watch for signals: {error}")))?;
    if options.parent_lease {
        lease.end_with_parent();
    }
    Ok(lease)
}

fn cadence(options: &Initialize) -> Cadence {
    match (options.quiet, options.mode) {
        (true, _) => Cadence::Quiet,
        (false, LoadMode::OneTransaction) => Cadence::Rows,
        (false, LoadMode::Chunks(_)) => Cadence::Seconds,
    }
}

fn exit_of_check(is_consistent: bool, messages: &Messages) -> Exit {
    if is_consistent {
        Exit::Well
    } else {
        messages.error("the database is not consistent");
        Exit::Refused
    }
}

/// Reports why a load ended early; returns the exit of the signal if that was the reason.
fn end_early(error: &LoadError, resumable: bool, lease: &Lease, messages: &Messages) -> Result<Exit, Failure> {
    if matches!(error, LoadError::Interrupted) {
        print_line(&error.to_string());
        if resumable {
            messages.hint(RESUME);
        }
        return Ok(lease.exit());
    }
    let mut failure = tpcc::check::failure(error);
    if failure.hint.is_none() && resumable {
        failure.hint = Some(RESUME.to_owned());
    }
    failure.report(messages);
    if lease.stop.load(Ordering::Relaxed) {
        return Ok(lease.exit());
    }
    Err(failure)
}

/// The first version with client_connection_check_interval.
const CHECKS_CLIENT_FROM_VERSION: i32 = 140_000;
/// The remedy after an interrupted load.
const RESUME: &str = "Run the same command with --resume to continue after what was committed.";

/// Connects; a failure is reported with its reason and with its purpose, as in pgbench.
fn connect(params: &Params, messages: &Messages) -> Result<Session, Failure> {
    Session::connect(params).map_err(|error| {
        let failure = Failure::new(error);
        failure.report(messages);
        messages.error("could not create connection for initialization");
        failure
    })
}

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

/// The last line: the total time, and that of each step.
fn times_line(times: &[(Step, Duration)]) -> String {
    let all: Duration = times.iter().map(|(_, time)| *time).sum();
    let steps: Vec<String> =
        times.iter().map(|(step, time)| format!("{} {:.2} s", step.name(), time.as_secs_f64())).collect();
    format!("done in {:.2} s ({}).", all.as_secs_f64(), steps.join(", "))
}
