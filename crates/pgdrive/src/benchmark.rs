//! A load from its options to its summary.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use pgdyno_connect::{Env, Params, Sources};
use pgdyno_engine::clock::Clock;
use pgdyno_engine::interval::{Consequence, ErrorNote, Merged};
use pgdyno_engine::report::{Outcome, Report};
use pgdyno_engine::schedule::Arrivals;
use pgdyno_engine::spec::{Initial, Limit, Seeds, Spec, Timing, Tries, WeightedProgram};
use pgdyno_engine::{Connected, Observer, RunError};
use pgdyno_script::{QueryMode, Rng, SlotId, Symbols, valid_name};
use serde_json::{Value, json};

use crate::events::{self, Events};
use crate::exit::Exit;
use crate::lease::Lease;
use crate::messages::{Failure, Messages};
use crate::options::{Benchmark, Connection, EventSink, Origin, Seed};
use crate::progress::{Columns, Progress};
use crate::scripts;
use crate::setup::{self, Database};
use crate::summary::{self, Shown};

/// Runs the load; every failure is said before this returns.
pub fn run(options: &Benchmark, messages: &Messages) -> Exit {
    if options.check {
        return match scripts::load(&options.scripts, options.mode, &mut Symbols::new()) {
            Ok(_) => Exit::Well,
            Err(failure) => refuse(&failure, messages),
        };
    }
    let lease = match Lease::take() {
        Ok(lease) => lease,
        Err(error) => {
            return refuse(
                &Failure::new(format!("could not watch for signals: {error}")),
                messages,
            );
        }
    };
    if options.parent_lease {
        lease.end_with_parent();
    }
    let clock = Clock::start();
    let mut events = match Events::open(options.events.as_ref(), clock) {
        Ok(events) => events,
        Err(error) => {
            return refuse(
                &Failure::new(format!("could not create the events file: {error}")),
                messages,
            );
        }
    };
    match prepare(options, messages, &mut events) {
        Ok(load) => measure(options, &load, messages, &mut events, clock, &lease),
        Err(failure) => {
            // the reader of events learns of it as well; if it is gone, standard error says it
            let _ = end_without_report(&mut events, &failure);
            refuse(&failure, messages)
        }
    }
}

fn refuse(failure: &Failure, messages: &Messages) -> Exit {
    failure.say(messages);
    Exit::NotBegun
}

/// A load that is ready to run.
struct Load {
    spec: Spec,
    database: Database,
    scale: i64,
}

fn prepare(options: &Benchmark, messages: &Messages, events: &mut Events) -> Result<Load, Failure> {
    let mut symbols = Symbols::new();
    let programs = scripts::load(&options.scripts, options.mode, &mut symbols)?;
    let params = resolve_params(&options.connection, messages)?;
    let seed = seed(options.seed, messages)?;
    let defined = |name: &str| options.variables.iter().any(|(defined, _)| defined == name);
    let (seeds, default_seed) = Seeds::draw(
        &mut Rng::seed(seed),
        options.clients,
        options.workers,
        !defined("default_seed"),
    );
    let start = start_event(options, &programs, seed);
    events
        .write("start", start)
        .map_err(|error| Failure::new(format!("could not write events: {error}")))?;
    let mut session = setup::connect(&params)?;
    banner(options, messages, &session.server_version);
    let builtin = options
        .scripts
        .iter()
        .any(|script| matches!(script.origin, Origin::Builtin(_)));
    let database = setup::look(
        &mut session,
        &params,
        builtin,
        options.scale.is_some(),
        messages,
    )?;
    let scale = database.scale.or(options.scale).unwrap_or(1);
    let automatic = [
        ("scale", Initial::Int(scale)),
        ("client_id", Initial::ClientId),
        (
            "default_seed",
            Initial::Int(default_seed.unwrap_or(0).cast_signed()),
        ),
        ("random_seed", Initial::Int(seed.cast_signed())),
    ];
    let initial = initial(&options.variables, automatic, &mut symbols)?;
    setup::vacuum(&mut session, options.vacuum, messages);
    let timing = if options.per_command {
        Timing::EveryCommand
    } else {
        Timing::Statements
    };
    let spec = Spec {
        params,
        programs,
        symbols: Arc::new(symbols),
        initial,
        mode: options.mode,
        clients: options.clients,
        workers: options.workers,
        limit: options.limit,
        warmup: options.warmup,
        arrivals: options.arrivals,
        latency_limit: options.latency_limit,
        tries: options.tries,
        timing,
        exit_on_abort: options.exit_on_abort,
        seeds,
    };
    Ok(Load {
        spec,
        database,
        scale,
    })
}

/// Connection parameters from the command line, the environment and libpq's files.
///
/// # Errors
/// In libpq's words.
pub fn resolve_params(connection: &Connection, messages: &Messages) -> Result<Params, Failure> {
    let Connection { dbname, overrides } = connection;
    let dbname = dbname.as_deref();
    let mut options: Vec<(&str, String)> = overrides.to_vec();
    options.push(("fallback_application_name", messages.program().to_owned()));
    // a connection string wins over -h, -p and -U, as for pgbench
    let sources = Sources {
        options: &options,
        target: dbname,
        ..Sources::default()
    };
    let params = Params::resolve_from(sources, &Env::from_process()).map_err(Failure::new)?;
    params
        .warnings
        .iter()
        .for_each(|warning| messages.warning(warning));
    Ok(params)
}

fn seed(seed: Seed, messages: &Messages) -> Result<u64, Failure> {
    let from_clock = || {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        since.as_micros() as u64
    };
    let value = match seed {
        Seed::Default => return Ok(from_clock()),
        Seed::Time => from_clock(),
        Seed::Fixed(value) => value,
        Seed::Strong => {
            let mut bytes = [0; 8];
            let read = std::fs::File::open("/dev/urandom")
                .and_then(|mut file| io::Read::read_exact(&mut file, &mut bytes));
            read.map_err(|error| Failure::new("could not generate random seed").detail(error))?;
            u64::from_ne_bytes(bytes)
        }
    };
    messages.plain(format!("setting random seed to {value}"));
    Ok(value)
}

fn initial(
    given: &[(String, String)],
    automatic: [(&str, Initial); 4],
    symbols: &mut Symbols,
) -> Result<Vec<(SlotId, Initial)>, Failure> {
    let mut initial = Vec::new();
    for (name, value) in given {
        if !valid_name(name) {
            return Err(Failure::new(format!(
                "option: invalid variable name: \"{name}\""
            )));
        }
        initial.push((symbols.slot(name), Initial::Text(value.clone())));
    }
    for (name, value) in automatic {
        if !given.iter().any(|(given, _)| given == name) {
            initial.push((symbols.slot(name), value));
        }
    }
    Ok(initial)
}

/// Where the summary goes: events on standard output push it to standard error.
fn summary_out(options: &Benchmark) -> Box<dyn Write> {
    match options.events {
        Some(EventSink::Stdout) => Box::new(io::stderr()),
        _ => Box::new(io::stdout()),
    }
}

fn banner(options: &Benchmark, messages: &Messages, server: &str) {
    let line = format!(
        "{} ({}, server {server})",
        messages.program(),
        env!("CARGO_PKG_VERSION")
    );
    // a closed output is noticed when the summary is written
    let _ = writeln!(summary_out(options), "{line}");
}

// -- the load ----------------------------------------------------------------------------------

fn measure(
    options: &Benchmark,
    load: &Load,
    messages: &Messages,
    events: &mut Events,
    clock: Clock,
    lease: &Lease,
) -> Exit {
    let progress = options.progress_s.map(|every_s| {
        let is_open = options.arrivals != Arrivals::Closed;
        let columns = Columns {
            lag: is_open,
            skipped: is_open && options.latency_limit.is_some(),
            retries: options.tries.may_retry(),
        };
        Progress::new(every_s, columns)
    });
    let mut watcher = Watcher {
        events,
        progress,
        messages,
        load,
        stop: &lease.stop,
        broken: None,
    };
    let result = pgdyno_engine::run(&load.spec, clock, &lease.stop, &mut watcher);
    let broken = watcher.broken.take();
    if let Some(error) = broken {
        messages.error(format!("could not write events: {error}"));
    }
    let report = match result {
        Ok(report) => report,
        Err(error) => {
            let failure = Failure::new(&error);
            let _ = end_without_report(events, &failure);
            failure.say(messages);
            return if matches!(error, RunError::Interrupted) {
                lease.exit()
            } else {
                Exit::NotBegun
            };
        }
    };
    let exit = match report.outcome {
        Outcome::Finished => Exit::Well,
        Outcome::Aborted => Exit::Aborted,
        Outcome::Interrupted => lease.exit(),
    };
    let end = end_event(&load.spec, &report, exit, events);
    let shown = Shown {
        spec: &load.spec,
        scale: load.scale,
        partitions: load.database.partitions.as_ref(),
        latency_measured: options.progress_s.is_some()
            || options.latency_limit.is_some()
            || options.arrivals != Arrivals::Closed,
        per_command: options.per_command,
        failures_detailed: options.failures_detailed,
    };
    let written = summary::write(&mut summary_out(options), &shown, &report)
        .and_then(|()| events.write("end", end));
    match report.outcome {
        Outcome::Aborted => messages.error("Run was aborted; the above results are incomplete."),
        Outcome::Interrupted => messages.warning("interrupted; the above results are incomplete"),
        Outcome::Finished => {}
    }
    match written {
        Err(error) if exit == Exit::Well => {
            messages.error(format!("could not write the results: {error}"));
            Exit::NotBegun
        }
        _ => exit,
    }
}

/// Hands what happens to the events, the progress line and standard error.
struct Watcher<'a> {
    events: &'a mut Events,
    progress: Option<Progress>,
    messages: &'a Messages,
    load: &'a Load,
    stop: &'a AtomicBool,
    /// The first failure to write events: a load that nobody hears of is stopped.
    broken: Option<io::Error>,
}

impl Watcher<'_> {
    fn check(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.stop.store(true, Ordering::Relaxed);
            self.broken.get_or_insert(error);
        }
    }
}

impl Observer for Watcher<'_> {
    fn connected(&mut self, connected: &Connected) {
        self.events.set_origin(connected.origin);
        if let Some(progress) = &mut self.progress {
            progress.begin(connected.origin);
        }
        let fields = json!({
            "server_version": self.load.database.server_version,
            "address": self.load.spec.params.display().to_string(),
            "scale": self.load.scale,
            "connect_us": connected.connecting / 1000,
            "origin_us": connected.origin / 1000,
            "io": connected.io,
        });
        let written = self.events.write("connected", fields);
        self.check(written);
    }

    fn interval(&mut self, merged: &Merged) {
        let written = self.events.interval(merged);
        self.check(written);
        if let Some(progress) = &mut self.progress {
            progress.interval(merged);
        }
    }

    fn error(&mut self, note: &ErrorNote) {
        let written = self.events.error(note);
        self.check(written);
        if matches!(
            note.consequence,
            Consequence::ClientAborted | Consequence::ConnectionLost
        ) {
            say_aborted(note, &self.load.spec, self.messages);
        }
    }
}

/// A client that gives up is always said: for the server's errors with SQLSTATE and statement.
fn say_aborted(note: &ErrorNote, spec: &Spec, messages: &Messages) {
    let ErrorNote {
        client,
        script,
        command,
        kind,
        query,
        message,
        ..
    } = note;
    let Some(sqlstate) = &note.sqlstate else {
        return messages.error(format!(
            "client {client} aborted in command {command} ({kind}) of script {script}; {message}"
        ));
    };
    let severity = note.severity.as_deref().unwrap_or("ERROR");
    messages.error(format!(
        "client {client} script {script} aborted in command {command} query {query}: {severity}:  {sqlstate}: {message}"
    ));
    if let Some(detail) = &note.detail {
        messages.detail(detail);
    }
    let program = &spec.programs[*script].program;
    if let Some(command) = program.commands.get(*command) {
        messages.detail(format!("{}:{}: {}", program.name, note.line, command.text));
    }
    if let Some(hint) = &note.hint {
        messages.hint(hint);
    }
}

// -- events that frame a run -------------------------------------------------------------------

fn start_event(options: &Benchmark, programs: &[WeightedProgram], seed: u64) -> Value {
    let (duration_s, transactions) = match options.limit {
        Limit::Duration(duration) => (Some(duration.as_secs_f64()), None),
        Limit::Transactions(each) => (None, Some(each)),
    };
    let rate_per_s = match options.arrivals {
        Arrivals::Closed => None,
        Arrivals::Regular { rate_per_s } | Arrivals::Poisson { rate_per_s } => Some(rate_per_s),
    };
    let scripts: Vec<Value> = programs
        .iter()
        .enumerate()
        .map(|(id, p)| script_event(id, p))
        .collect();
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    json!({
        "v": events::VERSION,
        "epoch_us": since.as_micros() as u64,
        "pgdrive": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "clients": options.clients,
        "workers": options.workers,
        "protocol": match options.mode {
            QueryMode::Simple => "simple",
            QueryMode::Extended => "extended",
            QueryMode::Prepared => "prepared",
        },
        "duration_s": duration_s,
        "transactions": transactions,
        "warmup_s": options.warmup.as_secs_f64(),
        "rate_per_s": rate_per_s,
        "latency_limit_ms": options.latency_limit.map(|limit| limit.as_secs_f64() * 1e3),
        "max_tries": match options.tries {
            Tries::AtMost(most) => most,
            Tries::Unlimited => 0,
        },
        "seed": seed,
        "scripts": scripts,
    })
}

fn script_event(id: usize, script: &WeightedProgram) -> Value {
    let commands = script.program.commands.iter().enumerate();
    let statements: Vec<Value> = commands
        .filter(|(_, command)| command.statement.is_some())
        .map(|(id, command)| json!({ "id": id, "line": command.line, "text": command.text }))
        .collect();
    json!({ "id": id, "name": script.program.name, "weight": script.weight, "statements": statements })
}

fn end_event(spec: &Spec, report: &Report, exit: Exit, events: &mut Events) -> Value {
    if !events.wanted() {
        return Value::Null;
    }
    let latency = report.latency();
    let counts = report.counts();
    let scripts: Vec<Value> = (0..spec.programs.len())
        .map(|number| script_end(spec, report, number, events))
        .collect();
    let errors: Vec<Value> = report
        .errors
        .iter()
        .map(|error| json!({ "sqlstate": error.sqlstate, "message": error.message, "count": error.count }))
        .collect();
    json!({
        "outcome": match report.outcome {
            Outcome::Finished => "finished",
            Outcome::Interrupted => "interrupted",
            Outcome::Aborted => "aborted",
        },
        "exit_code": exit.code(),
        "message": report.errors.first().filter(|_| report.outcome == Outcome::Aborted).map(|error| &error.message),
        "measured_s": report.measured_s(),
        "scheduled": report.scheduled(),
        "succeeded": counts.succeeded,
        "failed": counts.failed(),
        "skipped": counts.skipped,
        "in_flight": report.in_flight,
        "late": counts.late,
        "retried": counts.retried,
        "retries": counts.retries,
        "clients_aborted": report.clients_aborted,
        "tps": report.tps(),
        "latency_ns": events::latency(&latency),
        "histogram": (latency.moments.count > 0).then(|| events.histogram(&latency.histogram)),
        "scripts": scripts,
        "errors": errors,
        "cpu_us": cpu_us(),
    })
}

fn script_end(spec: &Spec, report: &Report, number: usize, events: &mut Events) -> Value {
    let program = &spec.programs[number].program;
    let record = &report.scripts[number];
    let mut script = events::counts(record);
    script["script"] = json!(number);
    script["latency_ns"] = events::latency(&record.latency);
    if record.latency.moments.count > 0 {
        script["histogram"] = json!(events.histogram(&record.latency.histogram));
    }
    let commands = program
        .commands
        .iter()
        .zip(&report.commands[number])
        .enumerate();
    let statements: Vec<Value> = commands
        .filter(|(_, (command, _))| command.statement.is_some())
        .filter_map(|(id, (_, record))| record.as_ref().map(|record| (id, record)))
        .map(|(id, record)| {
            json!({
                "id": id,
                "executions": record.latency.moments.count,
                "failures": record.failures,
                "retries": record.retries,
                "latency_ns": events::latency(&record.latency),
            })
        })
        .collect();
    script["statements"] = json!(statements);
    script
}

fn end_without_report(events: &mut Events, failure: &Failure) -> io::Result<()> {
    let fields = json!({
        "outcome": "failed",
        "exit_code": Exit::NotBegun.code(),
        "message": failure.message,
        "hint": failure.hint,
        "cpu_us": cpu_us(),
    });
    events.write("end", fields)
}

/// CPU time of the process up to now, microseconds.
#[must_use]
pub fn cpu_us() -> Value {
    let ticks = |text: &str| {
        text.parse::<u64>().unwrap_or(0) * 1_000_000 / rustix::param::clock_ticks_per_second()
    };
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // the name in parentheses may hold blanks; utime and stime are fields 14 and 15
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    match (fields.get(11), fields.get(12)) {
        (Some(user), Some(system)) => json!({ "user": ticks(user), "system": ticks(system) }),
        _ => Value::Null,
    }
}
