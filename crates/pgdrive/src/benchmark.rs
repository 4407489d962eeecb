//! Runs a load, from its options to its exit code.

use std::sync::mpsc::Receiver;

use pgdyno_engine::clock::Clock;

use crate::early_stop::Lease;
use crate::events::Events;
use crate::exit::{Exit, refuse};
use crate::lua;
use crate::measurement::{self, Run, exit_of_cut_events};
use crate::messages::{Failure, Messages};
use crate::options::{Benchmark, WorkloadChoice};
use crate::phases_file;
use crate::prepared_load::prepare;
use crate::replay;
use crate::run_events::{Reason, end_without_report};
use crate::scripts;
use crate::workload::Workload;

/// Runs the load; reports every failure before it returns.
pub fn run(options: &Benchmark, messages: &Messages) -> Exit {
    let mut options = match phases_file::apply(options) {
        Ok(options) => options,
        Err(failure) => return refuse(&failure, messages),
    };
    if let WorkloadChoice::Lua(choice) = &options.workload
        && let Some(exit) = lua::without_server(&options, choice, messages)
    {
        return exit;
    }
    if options.check.is_some() {
        let checked = match &options.workload {
            WorkloadChoice::Replay(choice) => replay::check(choice),
            _ => scripts::check(&options),
        };
        return match checked {
            Ok(()) => Exit::Well,
            Err(failure) => refuse(&failure, messages),
        };
    }
    let workload = match replay::open(&mut options) {
        Ok(replay) => replay.map_or_else(Workload::default, Workload::Replay),
        Err(failure) => return refuse(&failure, messages),
    };
    let clock = Clock::start();
    match open(&options, clock) {
        Ok((lease, start, events)) => {
            let (options, lease) = (&options, &lease);
            let run = Run { options, messages, lease, clock };
            prepare_and_measure(&run, workload, events, start)
        }
        Err(failure) => refuse(&failure, messages),
    }
}

type Opened = (Lease, Option<Receiver<String>>, Events);

/// Opens the lease, the lines of standard input that say when to begin, and the sink of events.
fn open(options: &Benchmark, clock: Clock) -> Result<Opened, Failure> {
    let lease = Lease::take()?;
    let lines = options.parent_lease.then(|| lease.read_parent(options.lease));
    let events = Events::open(options.events.as_ref(), clock)?;
    let start = lines.filter(|_| options.await_start);
    Ok((lease, start, events))
}

fn prepare_and_measure(run: &Run<'_>, workload: Workload, mut events: Events, start: Option<Receiver<String>>) -> Exit {
    let events = &mut events;
    let failure = match prepare(run.options, workload, run.messages, events, run.lease) {
        Ok(load) => return measurement::measure(run, load, events, start),
        Err(failure) => failure,
    };
    // the reader of events gets the failure, too; if the reader has ended, standard error has it
    let reason = if run.lease.is_over() { Reason::Interrupted } else { Reason::NotPrepared };
    let _ = end_without_report(events, reason, &failure);
    let exit = refuse(&failure, run.messages);
    if run.lease.is_over() {
        run.lease.exit()
    } else {
        exit_of_cut_events(events, run.lease, run.messages).unwrap_or(exit)
    }
}
