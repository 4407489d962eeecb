//! `--tpcc-check`: checks the standard's consistency conditions, with one line for each.

use std::io::{self, Write};
use std::sync::atomic::Ordering;

use pgdyno_connect::Session;
use pgdyno_dataset::tpcc::Profile;
use pgdyno_dataset::tpcc::conditions::{Condition, Verdict, conditions};
use pgdyno_dataset::{LoadError, Stamp, dataset_stamp::Reading};
use pgdyno_engine::clock::Clock;
use serde_json::json;

use crate::connection_params::resolve_params;
use crate::database_setup;
use crate::early_stop::Lease;
use crate::events::Events;
use crate::exit::Exit;
use crate::messages::{Failure, Messages};
use crate::options::{EventSink, TpccCheck};
use crate::outputs::Outputs;
use crate::setup_canceller::Canceller;
use crate::tpcc::tpcc_load::profile_of;

/// Checks a database; reports every failure before it returns.
pub fn run(options: &TpccCheck, messages: &Messages) -> Exit {
    let mut events = match Events::open(options.events.as_ref(), Clock::start()) {
        Ok(events) => events,
        Err(error) => {
            messages.error(format!("could not create the events file: {error}"));
            return Exit::NotBegun;
        }
    };
    let mut out: Box<dyn Write> = match options.events {
        Some(EventSink::Stdout) => Box::new(io::stderr()),
        _ => Box::new(io::stdout()),
    };
    let (exit, failure) = match carry_out(options, messages, &mut events, &mut out) {
        Ok(exit) => (exit, None),
        Err(failure) => {
            failure.report(messages);
            (Exit::NotBegun, Some(failure))
        }
    };
    let end = json!({
        "outcome": match exit {
            Exit::Well | Exit::Refused => "finished",
            Exit::Signalled(_) => "interrupted",
            Exit::NotBegun | Exit::Aborted | Exit::Unwritten => "failed",
        },
        "exit_code": exit.code(),
        "message": failure.as_ref().map(|failure| &failure.message),
        "hint": failure.as_ref().and_then(|failure| failure.hint.as_ref()),
    });
    // Events keeps a failure, which is reported later
    let _ = events.write("end", end);
    let mut outputs = Outputs::new(messages);
    if let Some(error) = events.failure() {
        outputs.report(events.name(), error);
    }
    outputs.exit(exit)
}

fn carry_out(
    options: &TpccCheck, messages: &Messages, events: &mut Events, out: &mut dyn Write,
) -> Result<Exit, Failure> {
    let lease = Lease::take().map_err(|error| Failure::new(format!("could not watch for signals: {error}")))?;
    if options.parent_lease {
        lease.end_with_parent();
    }
    let mut params = resolve_params(&options.connection, messages)?;
    params.interrupt = lease.interrupt();
    let canceller = Canceller::start(&params, &lease.stop);
    let checked = database_setup::connect_first(&mut params).and_then(|(mut session, _)| {
        canceller.watch(&mut session);
        let holds = check(&mut session, options, events, out)?;
        // the server logs a TLS session that ends without Terminate; a failure has no other effect
        let _ = session.close();
        Ok(holds)
    });
    match checked {
        Err(_) if lease.stop.load(Ordering::Relaxed) => Ok(lease.exit()),
        Ok(false) => {
            messages.error("the database is not consistent");
            Ok(Exit::Refused)
        }
        Ok(true) => Ok(Exit::Well),
        Err(failure) => Err(failure),
    }
}

/// Checks the session's database and reports each verdict; returns whether all conditions hold.
pub fn check(
    session: &mut Session, options: &TpccCheck, events: &mut Events, out: &mut dyn Write,
) -> Result<bool, Failure> {
    let (warehouses, profile) = expected_dataset(session, options)?;
    let mut all_hold = true;
    for condition in conditions(warehouses, profile, options.depth) {
        let verdict = condition.check(session).map_err(|error| failure(&error))?;
        all_hold &= verdict.violations == 0;
        tell(&condition, &verdict, events, out)
            .map_err(|error| Failure::new(format!("could not write results: {error}")))?;
    }
    Ok(all_hold)
}

fn tell(condition: &Condition, verdict: &Verdict, events: &mut Events, out: &mut dyn Write) -> io::Result<()> {
    let Verdict { violations, examples, elapsed } = verdict;
    let seconds = elapsed.as_secs_f64();
    let what = match condition.number {
        0 => "cardinalities".to_owned(),
        number => format!("condition {number}"),
    };
    let text = condition.text;
    match violations {
        0 => writeln!(out, "{what}: {text}: holds ({seconds:.2} s)")?,
        count => writeln!(out, "{what}: {text}: broken in {count} places ({seconds:.2} s): {examples}")?,
    }
    // Events keeps a failure, which is reported at the end
    let _ = events.write(
        "condition",
        json!({
            "number": condition.number,
            "text": text,
            "violations": violations,
            "examples": examples,
            "seconds": seconds,
        }),
    );
    Ok(())
}

/// Warehouses and profile: those requested, otherwise those of the dataset stamp.
fn expected_dataset(session: &mut Session, options: &TpccCheck) -> Result<(u64, Profile), Failure> {
    let (warehouses, profile) = match Stamp::read(session).map_err(|error| failure(&error))? {
        Reading::Stamped(stamp) if stamp.dataset == "tpcc" => (Some(stamp.scale), profile_of(&stamp)),
        _ => (None, None),
    };
    let asked = options.warehouses.map(u64::from);
    let Some(warehouses) = asked.or(warehouses) else {
        return Err(Failure::new("the database has no dataset stamp with the number of its warehouses")
            .hint("Give --warehouses=NUM and, for the standard's, --tpcc-profile=spec."));
    };
    // HammerDB updates fewer counters, so its rules hold for both profiles
    let profile = options.profile.or(profile).unwrap_or(Profile::HAMMERDB);
    Ok((warehouses, profile))
}

/// The message for an error of the dataset.
pub fn failure(error: &LoadError) -> Failure {
    let mut failure = Failure::new(error);
    failure.detail = error.detail();
    failure.hint = error.hint().map(ToOwned::to_owned);
    failure
}
