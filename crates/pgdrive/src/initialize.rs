//! `-i`: makes pgbench's tables and says how it goes.

use std::io::Write;
use std::time::{Duration, Instant};

use pgdyno_dataset::{LoadError, Rows, Step, Watcher};
use pgdyno_engine::clock::Clock;
use serde_json::json;

use crate::benchmark::{cpu_us, resolve_params};
use crate::events::Events;
use crate::exit::Exit;
use crate::lease::Lease;
use crate::messages::{Failure, Messages};
use crate::options::Initialize;
use crate::setup;

/// Between two lines about the same table.
const SAY_EVERY: Duration = Duration::from_secs(5);

/// Makes the dataset; every failure is said before this returns.
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
        Err(failure) => {
            failure.say(messages);
            (Exit::NotBegun, Some(failure))
        }
    };
    let fields = json!({
        "outcome": match exit {
            Exit::Well => "finished",
            Exit::Signalled(_) => "interrupted",
            Exit::NotBegun | Exit::Aborted => "failed",
        },
        "exit_code": exit.code(),
        "message": failure.as_ref().map(|failure| &failure.message),
        "hint": failure.as_ref().and_then(|failure| failure.hint.as_ref()),
        "cpu_us": cpu_us(),
    });
    match events.write("end", fields) {
        Ok(()) => exit,
        Err(error) => {
            messages.error(format!("could not write events: {error}"));
            Exit::NotBegun
        }
    }
}

fn load(options: &Initialize, messages: &Messages, events: &mut Events) -> Result<Exit, Failure> {
    let lease = Lease::take()
        .map_err(|error| Failure::new(format!("could not watch for signals: {error}")))?;
    let params = resolve_params(&options.connection, messages)?;
    let mut session = setup::connect(&params)?;
    let steps: Vec<Step> = options
        .steps
        .chars()
        .filter_map(Step::from_letter)
        .collect();
    let mut said = Said {
        quiet: options.quiet,
        events,
        last: Instant::now(),
    };
    let result = pgdyno_dataset::initialize(
        &mut session,
        options.scale,
        options.fillfactor,
        &steps,
        &lease.stop,
        &mut said,
    );
    match result {
        Ok(times) => {
            say(&done(&times));
            Ok(Exit::Well)
        }
        Err(LoadError::Interrupted) => {
            say("interrupted; the tables are not complete");
            Ok(lease.exit())
        }
        Err(error) => Err(Failure::new(error)),
    }
}

/// The last line: how long all of it took, and each step.
fn done(times: &[(Step, Duration)]) -> String {
    let all: Duration = times.iter().map(|(_, time)| *time).sum();
    let steps: Vec<String> = times
        .iter()
        .map(|(step, time)| format!("{} {:.2} s", step.name(), time.as_secs_f64()))
        .collect();
    format!("done in {:.2} s ({}).", all.as_secs_f64(), steps.join(", "))
}

fn say(line: &str) {
    // standard error may be closed; the load goes on
    let _ = writeln!(std::io::stderr(), "{line}");
}

struct Said<'a> {
    quiet: bool,
    events: &'a mut Events,
    last: Instant,
}

impl Watcher for Said<'_> {
    fn step(&mut self, step: Step) {
        say(step.progress());
        // a reader that is gone is noticed at the end, which is written too
        let _ = self.events.write("load", json!({ "step": step.name() }));
    }

    fn rows(&mut self, rows: &Rows) {
        let complete = rows.rows == rows.rows_total;
        let due = self.last.elapsed() >= SAY_EVERY;
        let step_of_ten = rows.rows_total >= 10 && rows.rows.is_multiple_of(rows.rows_total / 10);
        if due || complete || step_of_ten {
            let fields = json!({
                "step": Step::GenerateHere.name(),
                "table": rows.table.name(),
                "rows": rows.rows,
                "rows_total": rows.rows_total,
                "bytes": rows.bytes,
                "elapsed_us": rows.elapsed.as_micros() as u64,
            });
            let _ = self.events.write("load", fields);
        }
        if due || (complete && !self.quiet && rows.rows_total > 100_000) {
            self.last = Instant::now();
            let elapsed = rows.elapsed.as_secs_f64();
            let left = elapsed * (rows.rows_total - rows.rows) as f64 / rows.rows as f64;
            say(&format!(
                "{} of {} tuples ({}%) of {} done (elapsed {elapsed:.2} s, remaining {left:.2} s)",
                rows.rows,
                rows.rows_total,
                rows.rows * 100 / rows.rows_total,
                rows.table.name(),
            ));
        }
    }
}
