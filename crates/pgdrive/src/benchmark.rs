//! A load from its options to its summary.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{SystemTime, UNIX_EPOCH};

use pgdyno_connect::{Env, Params, Sources};
use pgdyno_engine::RunError;
use pgdyno_engine::clock::Clock;
use pgdyno_engine::pacing::Pacing;
use pgdyno_engine::part::Part;
use pgdyno_engine::report::Outcome;
use pgdyno_engine::run::LONGEST_PARTING;
use pgdyno_engine::schedule::Arrivals;
use pgdyno_engine::spec::{Initial, Limit, Seeds, Spec, Timing, share_of};
use pgdyno_lua::Workload;
use pgdyno_script::{Rng, SlotId, Symbols, valid_name};
use pgdyno_wire::printable;
use serde_json::Value;

use crate::called_as::CalledAs;
use crate::descriptors;
use crate::events::Events;
use crate::exit::Exit;
pub use crate::framing::cpu_us;
use crate::framing::{end_event, end_without_report, start_event};
use crate::health::Footprint;
use crate::histogram_log::HistogramLog;
use crate::host::peak_resident_bytes;
use crate::initialize::canceller::Canceller;
use crate::lease::Lease;
use crate::ledger;
use crate::lua;
use crate::lua_reports::{self, Reports};
use crate::messages::{Failure, Messages};
use crate::options::{Benchmark, Connection, EventSink, Origin, ScramKeys, Seed};
use crate::outages::OutageTeller;
use crate::outputs::{Outputs, unwritten};
use crate::phases_file;
use crate::progress::{Columns, Progress};
use crate::scripts;
use crate::setup::{self, Database};
use crate::summary::{self, Shown};
use crate::tpcc;
use crate::watcher::Watcher;
use crate::workers::{io_for, warn_of_ceiling};

/// Runs the load; every failure is said before this returns.
pub fn run(options: &Benchmark, messages: &Messages) -> Exit {
    let options = &match phases_file::apply(options) {
        Ok(options) => options,
        Err(failure) => return refuse(&failure, messages),
    };
    if let Some(choice) = &options.lua
        && let Some(exit) = lua::without_server(options, choice, messages)
    {
        return exit;
    }
    if options.check.is_some() {
        return match scripts::check(options) {
            Ok(()) => Exit::Well,
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
    let words = options
        .parent_lease
        .then(|| lease.hear_parent(options.lease));
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
    let start = words.filter(|_| options.await_start);
    match prepare(options, messages, &mut events, &lease) {
        Ok(load) => measure(options, load, messages, &mut events, clock, (&lease, start)),
        Err(failure) => {
            // the reader of events learns of it as well; if it is gone, standard error says it
            let _ = end_without_report(&mut events, &failure);
            let exit = refuse(&failure, messages);
            if lease.stop.load(Ordering::Relaxed) {
                lease.exit()
            } else {
                exit_of_cut_events(&events, &lease, messages).unwrap_or(exit)
            }
        }
    }
}

/// The exit of a run that ended because its events could not be written; None when they could, or
/// when a signal came. A reader that is gone counts as a parent that is.
fn exit_of_cut_events(events: &Events, lease: &Lease, messages: &Messages) -> Option<Exit> {
    let failure = events.failure().filter(|_| !lease.has_signal())?;
    Some(match failure.kind() {
        ErrorKind::BrokenPipe => lease.exit(),
        _ => unwritten(messages),
    })
}

fn refuse(failure: &Failure, messages: &Messages) -> Exit {
    failure.say(messages);
    Exit::NotBegun
}

/// A load that is ready to run.
pub struct Load {
    pub spec: Spec,
    pub database: Database,
    pub scale: i64,
    /// The Lua script that is run, if it is one.
    pub workload: Option<Arc<Workload>>,
    /// What runs beside the clients of TPC-C, until the load is over.
    pub tpcc: Option<tpcc::prepare::Ready>,
}

fn prepare(
    options: &Benchmark,
    messages: &Messages,
    events: &mut Events,
    lease: &Lease,
) -> Result<Load, Failure> {
    descriptors::allow(options.clients, options.workers.upper(options.clients))?;
    let mut symbols = Symbols::new();
    let mut programs = scripts::load(&options.scripts, options.mode, options.ledger, &mut symbols)?;
    if options.lua.is_some() && options.per_command {
        lua::tell_apart(&mut programs);
    }
    let ledger = ledger::wanted(options, &programs, &symbols)?;
    let pacing = match &options.tpcc {
        Some(tpcc) => tpcc::prepare::pacing(tpcc, &options.pacing, &programs)?,
        None => options.pacing.resolve(&programs)?,
    };
    let mut params = resolve_params(&options.connection, messages)?;
    params.interrupt = lease.interrupt();
    let seed = seed(options.seed, messages)?;
    let defined = |name: &str| options.variables.iter().any(|(defined, _)| defined == name);
    let scaling = options
        .workers
        .scaling(options.clients, &params, options.busy_share);
    let most_workers = scaling.most(options.workers.first());
    let base = &mut Rng::seed(seed);
    let draws_default = !defined("default_seed");
    let (seeds, default_seed) = match options.part {
        None => Seeds::draw(base, options.clients, most_workers, draws_default),
        Some(part) => Seeds::draw_of_part(base, part, most_workers, draws_default),
    };
    let fraction = options.part.map_or(1.0, Part::fraction);
    let workload = lua::open(options, Some(&params), &seeds, lease, messages)?;
    let start = start_event(options, scaling, &programs, &pacing, seed, events.clock());
    let _ = events.write("start", start);
    if let Some(error) = events.failure() {
        let (what, why) = (events.name(), scripts::plain(error));
        return Err(Failure::new(format!("could not write {what}: {why}")));
    }
    let mut session = setup::connect(&params)?;
    // a statement of the set-up may take as long as any: the vacuum, counting the warehouses
    let canceller = Canceller::start(&params, &lease.stop);
    canceller.watch(&mut session);
    if workload.as_ref().is_none_or(|workload| workload.is_load()) {
        banner(options, messages, &session.server_version);
    }
    if options.debug {
        say_target(options, &params, messages);
    }
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
    let tpcc = options.tpcc.as_ref().map(|load| {
        let clock = events.clock();
        tpcc::prepare::Ready::new(
            &mut session,
            &params,
            load,
            (
                options.clients,
                tpcc::server::is_asked_by(options.part, options.limit),
            ),
            seed,
            clock,
            messages,
        )
    });
    let tpcc = tpcc.transpose()?;
    let warehouses = tpcc.as_ref().map(|tpcc| i64::from(tpcc.rules.warehouses));
    let scale = warehouses.or(database.scale).or(options.scale).unwrap_or(1);
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
    // of several generators the first makes what all use
    if ledger.is_some() && options.part.is_none_or(|part| part.number == 0) {
        ledger::make_table(&mut session)?;
    }
    // a TLS session that ends without a word is a line in the server's log; else nothing is lost
    let _ = session.close();
    drop(canceller);
    let timing = if options.per_command {
        Timing::EveryCommand
    } else {
        Timing::Statements
    };
    let log = options
        .log
        .as_ref()
        .map(|log| {
            let workers = options.workers.first();
            log.open(workers, most_workers, options.failures_detailed)
        })
        .transpose()?;
    let mut spec = Spec {
        params,
        programs,
        drivers: workload
            .clone()
            .map(|workload| workload as Arc<dyn pgdyno_engine::driver::Drivers>)
            .or(tpcc.as_ref().map(tpcc::prepare::Ready::drivers)),
        symbols: Arc::new(symbols),
        initial,
        mode: options.mode,
        preparing: messages.called_as().preparing(),
        pipelining: options.pipelining,
        clients: options.clients,
        part: options.part,
        workers: options.workers.first(),
        scaling,
        limit: options.limit,
        drain_limit: options.drain_limit,
        warmup: options.warmup,
        arrivals: options.arrivals.at_fraction(fraction),
        pacing,
        phases: options
            .phases
            .as_ref()
            .map(|phases| phases.at_fraction(fraction)),
        timer_tick: options.timer_tick,
        latency_limit: options.latency_limit,
        tries: options.tries,
        timing,
        io: io_for(options.io, options.clients),
        on_error: options.on_error,
        on_loss: options.on_loss,
        ledger,
        sessions: options.sessions,
        log,
        debug: options.debug.then(|| messages.program().to_owned()),
        exit_on_abort: options.exit_on_abort,
        window: messages.called_as().window(),
        seeds,
    };
    if let Some(workload) = &workload {
        lua::shape(&mut spec, workload.task());
    }
    Ok(Load {
        spec,
        database,
        scale,
        workload,
        tpcc,
    })
}

/// Connection parameters from the command line, the environment and libpq's files.
///
/// # Errors
/// In libpq's words.
pub fn resolve_params(connection: &Connection, messages: &Messages) -> Result<Params, Failure> {
    let Connection {
        dbname,
        overrides,
        scram_keys,
    } = connection;
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
    Ok(match scram_keys {
        ScramKeys::Kept => params,
        ScramKeys::Derived => params.without_scram_cache(),
    })
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

/// What is connected to, and how much is to be done there.
fn say_target(options: &Benchmark, params: &Params, messages: &Messages) {
    let (what, amount) = match options.limit {
        Limit::Transactions(each) => ("nxacts", each),
        Limit::Duration(duration) => ("duration", duration.as_secs()),
    };
    messages.plain(format!(
        "target: {} nclients: {} {what}: {amount} dbName: {}",
        params.display(),
        options.clients,
        params.dbname
    ));
}

fn banner(options: &Benchmark, messages: &Messages, server: &str) {
    let line = messages.called_as().banner(server);
    // a closed output is noticed when the summary is written
    let _ = writeln!(summary_out(options), "{}", printable(&line));
}

// -- the load ----------------------------------------------------------------------------------

fn measure(
    options: &Benchmark,
    mut load: Load,
    messages: &Messages,
    events: &mut Events,
    clock: Clock,
    (lease, start): (&Lease, Option<Receiver<String>>),
) -> Exit {
    let tpcc = load.tpcc.take();
    let script = load.workload.as_ref().zip(options.progress_s);
    let is_open = options.arrivals != Arrivals::Closed;
    let reports =
        script.and_then(|(workload, every_s)| Reports::new(workload, every_s, is_open, messages));
    let progress_s = options.progress_s.filter(|_| reports.is_none());
    let progress = progress_s.map(|every_s| {
        let columns = Columns {
            lag: is_open,
            skipped: is_open && options.latency_limit.is_some(),
            retries: options.tries.may_retry(),
            timestamp: options.progress_timestamp,
        };
        Progress::new(every_s, columns)
    });
    let files = match Files::create(options) {
        Ok(files) => files,
        Err(failure) => {
            let _ = end_without_report(events, &failure);
            return refuse(&failure, messages);
        }
    };
    let mut files = files;
    let phases = load.spec.phases.iter().flat_map(|phases| phases.specs());
    let names: Vec<String> = phases.map(|phase| phase.name.clone()).collect();
    if let Some(histogram) = &mut files.histogram {
        histogram.set_phases(names.clone());
    }
    events.set_phases(names);
    let mut watcher = Watcher {
        events,
        histogram: files.histogram,
        verbose_errors: options.verbose_errors,
        outages: OutageTeller::default(),
        first_aborted: None,
        progress,
        reports,
        messages,
        load: &load,
        tpcc: tpcc.as_ref(),
        stop: &lease.stop,
        start,
        outputs: Outputs::new(messages),
    };
    let before_bytes = peak_resident_bytes();
    if let Some(workload) = &load.workload {
        lua::watch(workload, &load.spec, clock, &lease.stop, messages);
    }
    let result = pgdyno_engine::run(&load.spec, clock, &lease.stop, &mut watcher);
    let first_aborted = watcher.first_aborted;
    watcher.outages.end(messages);
    let mut outputs = watcher.outputs;
    let cut = exit_of_cut_events(events, lease, messages);
    if let Some(error) = events.failure() {
        outputs.report(events.name(), error);
    }
    let mut report = match result {
        Ok(report) => report,
        Err(RunError::Interrupted) if cut.is_some() => return cut.unwrap_or(Exit::NotBegun),
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
    if let Some(workload) = &load.workload {
        lua::name_statements(&mut load.spec, &mut report, workload);
    }
    let figures = tpcc.map(|ready| tpcc::result::Figures::new(ready, &load.spec, &report));
    let refusal = figures
        .as_ref()
        .and_then(|figures| figures.refusal(&load.spec));
    let exit = match report.outcome {
        Outcome::Finished if refusal.is_some() => Exit::Refused,
        Outcome::Finished => Exit::Well,
        Outcome::Aborted => Exit::Aborted,
        Outcome::Interrupted => cut.unwrap_or_else(|| lease.exit()),
    };
    if let Some((path, error)) = load.spec.log.as_ref().and_then(|log| log.failure.get()) {
        outputs.report(format!("the log to \"{}\"", path.display()), error);
    }
    if options.exit_on_abort
        && let (CalledAs::Pgbench, Outcome::Aborted) = (messages.called_as(), report.outcome)
    {
        // pgbench leaves at once, without results
        let thread = worker_of(first_aborted.unwrap_or(0), options);
        messages.error(format!(
            "Run was aborted due to an error in thread {thread}"
        ));
        return exit;
    }
    let mut exit = outputs.exit(exit);
    let mut end = if events.wanted() || files.json.is_some() {
        let footprint = Footprint::now(before_bytes, events.steal_us());
        let mut end = end_event(&load.spec, &report, exit, &footprint, events);
        if let Some(figures) = &figures {
            end["tpcc"] = figures.event(refusal.as_deref(), &load.spec, events);
            if let (Exit::Refused, Some(refusal)) = (exit, &refusal) {
                end["outcome"] = "refused".into();
                end["message"] = refusal.as_str().into();
            }
        }
        end
    } else {
        Value::Null
    };
    let shown = Shown {
        spec: &load.spec,
        scale: load.scale,
        partitions: load.database.partitions.as_ref(),
        latency_measured: options.progress_s.is_some()
            || options.latency_limit.is_some()
            || options.arrivals != Arrivals::Closed
            || load.spec.pacing.iter().any(Pacing::pauses),
        per_command: options.per_command,
        failures_detailed: options.failures_detailed,
        percentiles: options.percentiles.as_ref(),
        origin: events.origin(),
        counts_statements: load.workload.is_some(),
        says_automatic: messages.called_as() == CalledAs::Pgdrive,
    };
    if let Some(workload) = &load.workload {
        lua_reports::cumulative(workload, &report, load.spec.clients, messages);
        if let Err(error) = workload.done() {
            Failure::from(error).say(messages);
        }
        if !workload.is_load() {
            return end_with(exit, end, events, outputs);
        }
    }
    let mut out = summary_out(options);
    let written = summary::write(&mut out, &shown, &report)
        .and_then(|()| figures.map_or(Ok(()), |figures| figures.write(&mut out)));
    outputs.check("the summary", written);
    if let Some((path, file)) = files.json {
        outputs.check(format!("the results to \"{path}\""), write_json(file, &end));
    }
    exit = outputs.exit(exit);
    if end.is_object() {
        end["exit_code"] = exit.code().into();
    }
    let exit = end_with(exit, end, events, outputs);
    match report.outcome {
        Outcome::Aborted => messages.error("Run was aborted; the above results are incomplete."),
        Outcome::Interrupted if cut.is_some() => messages
            .error("stopped because events could not be written; the above results are incomplete"),
        Outcome::Interrupted => messages.warning("interrupted; the above results are incomplete"),
        Outcome::Finished => {}
    }
    if let Some(refusal) = refusal {
        messages.error(refusal);
    }
    if report.unstarted > 0 && messages.called_as() == CalledAs::Pgdrive {
        messages.warning(format!(
            "{} transactions were due before the end and no client was free to begin them; their waiting is in no latency",
            report.unstarted
        ));
    }
    if report.left_running > 0 {
        warn_of_statements(report.left_running, messages);
    }
    warn_of_ceiling(&load.spec, &report, options.busy_share, messages);
    exit
}

/// Writes the last event; how the run ends, which would end with `exit` if that can be written.
fn end_with(exit: Exit, end: Value, events: &mut Events, mut outputs: Outputs) -> Exit {
    if events.write("end", end).is_err()
        && let Some(error) = events.failure()
    {
        outputs.report(events.name(), error);
    }
    outputs.exit(exit)
}

/// What could not be ended in the server.
fn warn_of_statements(count: u64, messages: &Messages) {
    let (statements, they) = match count {
        1 => ("1 statement".to_owned(), "it"),
        _ => (format!("{count} statements"), "they"),
    };
    let seconds = LONGEST_PARTING.as_secs();
    messages.warning(format!(
        "the server may still run {statements}: {they} did not end within {seconds} s of being canceled"
    ));
    messages.hint("pg_stat_activity shows them; pg_terminate_backend(pid) ends a session.");
}

/// The worker of a client.
fn worker_of(client: usize, options: &Benchmark) -> usize {
    let workers = options.workers.first();
    (0..workers)
        .find(|worker| share_of(options.clients, workers, *worker).contains(&client))
        .unwrap_or(0)
}

/// What is written beside the summary and the events.
struct Files {
    histogram: Option<HistogramLog>,
    /// With its name.
    json: Option<(String, File)>,
}

impl Files {
    fn create(options: &Benchmark) -> Result<Self, Failure> {
        let refused = |path: &str, error: io::Error| {
            Failure::new(format!(
                "could not create file \"{path}\": {}",
                scripts::plain(&error)
            ))
        };
        let histogram = options
            .histogram
            .as_ref()
            .map(|path| HistogramLog::create(path).map_err(|error| refused(path, error)));
        let json = options.json.as_ref().map(|path| {
            let file = File::create(path).map_err(|error| refused(path, error));
            file.map(|file| (path.clone(), file))
        });
        Ok(Self {
            histogram: histogram.transpose()?,
            json: json.transpose()?,
        })
    }
}

fn write_json(mut file: File, end: &Value) -> io::Result<()> {
    writeln!(file, "{end}")
}
