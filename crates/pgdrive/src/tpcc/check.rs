//! `--tpcc-check`: checks the standard's consistency conditions, with one line for each.

use std::io::{self, Write};

use pgdyno_connect::Session;
use pgdyno_dataset::tpcc::Profile;
use pgdyno_dataset::tpcc::consistency::{Condition, Verdict, conditions};
use pgdyno_dataset::{LoadError, Stamp, dataset_stamp::Reading};
use serde_json::json;

use crate::database_setup;
use crate::database_setup::resolve_params;
use crate::early_stop::Lease;
use crate::events::{Events, text_out};
use crate::exit::Exit;
use crate::messages::{Failure, Messages};
use crate::options::TpccCheck;
use crate::run_events::run_with_events;
use crate::setup_canceller::Canceller;
use crate::tpcc::tpcc_load::profile_of;

/// Checks a database; reports every failure before it returns.
pub fn run(options: &TpccCheck, messages: &Messages) -> Exit {
    run_with_events(options.events.as_ref(), messages, |events| check_alone(options, messages, events))
}

fn check_alone(options: &TpccCheck, messages: &Messages, events: &mut Events) -> Result<Exit, Failure> {
    let lease = Lease::take_from(options.parent_lease)?;
    let mut params = resolve_params(&options.connection, messages)?;
    params.interrupt = lease.interrupt();
    let canceller = Canceller::start(&params, &lease.stop);
    let checked = database_setup::connect_first(&mut params).and_then(|(mut session, _)| {
        canceller.watch(&mut session);
        let holds = check(&mut session, options, events, &mut text_out(options.events.as_ref()))?;
        // the server logs a TLS session that ends without Terminate; a failure has no other effect
        let _ = session.close();
        Ok(holds)
    });
    match checked {
        Err(_) if lease.is_over() => Ok(lease.exit()),
        checked => checked.map(|is_consistent| exit(is_consistent, messages)),
    }
}

pub fn exit(is_consistent: bool, messages: &Messages) -> Exit {
    if is_consistent {
        return Exit::Well;
    }
    messages.error("the database is not consistent");
    Exit::Refused
}

/// Checks the session's database and reports each verdict; returns whether all conditions hold.
pub fn check(
    session: &mut Session, options: &TpccCheck, events: &mut Events, out: &mut dyn Write,
) -> Result<bool, Failure> {
    let (warehouses, profile) = expected_dataset(session, options)?;
    let mut all_hold = true;
    for condition in conditions(warehouses, profile, options.depth) {
        let verdict = condition.check(session).map_err(|error| Failure::from(&error))?;
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
    let (warehouses, profile) = match Stamp::read(session).map_err(|error| Failure::from(&error))? {
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

impl From<&LoadError> for Failure {
    fn from(error: &LoadError) -> Self {
        Self { detail: error.detail(), hint: error.hint().map(ToOwned::to_owned), ..Self::new(error) }
    }
}
