//! A load that is ready to run: scripts compiled, facts about the database read, the engine's specification complete.

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pgdyno_connect::{Params, Pooler, Session};
use pgdyno_engine::commit_ledger::CommitLedger;
use pgdyno_engine::load_share::LoadShare;
use pgdyno_engine::pacing::Pacing;
use pgdyno_engine::spec::{Initial, Limit, Seeds, Spec, Timing, WeightedProgram};
use pgdyno_script::{QueryMode, Rng, SlotId, Symbols, valid_name};
use pgdyno_wire::printable;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::commit_ledger;
use crate::database_setup::{self, Database, resolve_params};
use crate::early_stop::Lease;
use crate::events::{Events, text_out};
use crate::lua;
use crate::messages::{Failure, Messages, plain};
use crate::options::{Benchmark, Origin, Seed, WorkloadChoice};
use crate::results::SetUp;
use crate::run_events::start_event;
use crate::scripts;
use crate::setup_canceller::Canceller;
use crate::tpcc::tpcc_load;
use crate::worker_options::io_for;
use crate::workload::Workload;

pub struct Load {
    pub spec: Spec,
    pub database: Database,
    pub scale: i64,
    pub workload: Workload,
}

struct Scripts {
    programs: Vec<WeightedProgram>,
    symbols: Symbols,
    ledger: Option<CommitLedger>,
    pacing: Vec<Pacing>,
}

impl Scripts {
    fn compile(options: &Benchmark) -> Result<Self, Failure> {
        let mut symbols = Symbols::new();
        let mut programs = scripts::load(&options.scripts, options.mode, options.ledger, &mut symbols)?;
        if matches!(options.workload, WorkloadChoice::Lua(_)) && options.per_command {
            lua::tell_apart(&mut programs);
        }
        let ledger = commit_ledger::wanted(options, &programs, &symbols)?;
        let pacing = match &options.workload {
            WorkloadChoice::Tpcc(load) => tpcc_load::pacing(load, &options.pacing, &programs)?,
            _ => options.pacing.resolve(&programs)?,
        };
        Ok(Self { programs, symbols, ledger, pacing })
    }
}

struct RandomSeeds {
    base: u64,
    seeds: Seeds,
    /// The value of the variable; None when the command line defines it.
    default_seed: Option<u64>,
}

impl RandomSeeds {
    fn draw(options: &Benchmark, base: u64, most_workers: usize) -> Self {
        let mut variables = options.variables.iter();
        let draws_default = !variables.any(|(name, _)| name == "default_seed");
        let rng = &mut Rng::seed(base);
        let (seeds, default_seed) = match options.part {
            None => Seeds::draw(rng, options.clients, most_workers, draws_default),
            Some(part) => Seeds::draw_for_share(rng, part, most_workers, draws_default),
        };
        Self { base, seeds, default_seed }
    }
}

pub fn prepare(
    options: &Benchmark, workload: Workload, messages: &Messages, events: &mut Events, lease: &Lease,
) -> Result<Load, Failure> {
    let mut scripts = Scripts::compile(options)?;
    let mut params = resolve_params(&options.connection, messages)?;
    params.interrupt = lease.interrupt();
    let base = seed_value(options.seed, messages)?;
    let workers = options.workers.number(options.clients, options.phases.as_ref(), &params);
    allow_open_files(options.clients, workers)?;
    let random = RandomSeeds::draw(options, base, workers);
    let workload = workload.open(options, &params, &random.seeds, lease, messages)?;
    say_start(options, &workload, workers, base, &scripts, events)?;
    let (mut session, canceller) = connect(options, &mut params, lease, &workload, messages)?;
    workload.adapt_params(&mut params, &mut session)?;
    let database = read_facts(options, &params, &mut session, messages)?;
    let set_up = SetUp { options, params: &params, seed: base, clock: events.clock(), messages };
    let workload = workload.read_database(&mut session, &set_up)?;
    let scale = workload.scale().or(database.scale).or(options.scale).unwrap_or(1);
    let initial = initial(options, scale, &random, &mut scripts.symbols)?;
    change_database(session, options, scripts.ledger.is_some(), messages)?;
    drop(canceller);
    let log = options.log.as_ref();
    let log = log.map(|log| log.open(workers, options.failures_detailed));
    let mut spec = Spec {
        params,
        programs: scripts.programs,
        drivers: workload.drivers(),
        symbols: Arc::new(scripts.symbols),
        initial,
        workers,
        pacing: scripts.pacing,
        ledger: scripts.ledger,
        log: log.transpose()?,
        seeds: random.seeds,
        ..settings(options, messages)
    };
    workload.shape(&mut spec);
    Ok(Load { spec, database, scale, workload })
}

/// Connects the session of the set-up, and prints what is known then. Its statements are cancelled when the load has to
/// stop, because some may run for a long time: the vacuum, or counting the warehouses.
fn connect(
    options: &Benchmark, params: &mut Params, lease: &Lease, workload: &Workload, messages: &Messages,
) -> Result<(Session, Canceller), Failure> {
    let (mut session, pooler) = database_setup::connect_first(params)?;
    if let Some(pooler) = pooler {
        check_pooled(&mut session, &pooler, options, workload)?;
    }
    let canceller = Canceller::start(params, &lease.stop);
    canceller.watch(&mut session);
    if workload.is_load() {
        banner(options, messages, &session.server_version);
    }
    if options.debug {
        say_target(options, params, messages);
    }
    Ok((session, canceller))
}

/// Vacuums, creates the ledger's table if the load `has_ledger`, and ends the session. Of several
/// generators, only the first one creates the table, for all.
fn change_database(
    mut session: Session, options: &Benchmark, has_ledger: bool, messages: &Messages,
) -> Result<(), Failure> {
    database_setup::vacuum(&mut session, options.vacuum, messages);
    if has_ledger && options.part.is_none_or(|part| part.number == 0) {
        commit_ledger::make_table(&mut session)?;
    }
    // the server logs a TLS session that ends without Terminate; a failure has no other effect
    let _ = session.close();
    Ok(())
}

/// The parts of the specification that depend only on the options.
fn settings(options: &Benchmark, messages: &Messages) -> Spec {
    let fraction = options.part.map_or(1.0, LoadShare::fraction);
    let phases = options.phases.as_ref();
    let called_as = messages.called_as();
    Spec {
        mode: options.mode,
        preparing: called_as.preparing(),
        pipelining: options.pipelining,
        clients: options.clients,
        share: options.part,
        limit: options.limit,
        drain_limit: options.drain_limit,
        warmup: options.warmup,
        arrivals: options.arrivals.at_fraction(fraction),
        phases: phases.map(|phases| phases.at_fraction(fraction)),
        timer_tick: options.timer_tick,
        latency_limit: options.latency_limit,
        tries: options.tries,
        timing: if options.per_command { Timing::EveryCommand } else { Timing::Statements },
        io: io_for(options.io, options.clients),
        on_error: options.on_error,
        on_loss: options.on_loss,
        sessions: options.sessions,
        notes_every_error: options.verbose_errors,
        debug: options.debug.then(|| messages.program().to_owned()),
        exit_on_abort: options.exit_on_abort,
        window: called_as.window(),
        ..Spec::default()
    }
}

/// Writes the start event; nothing has been connected yet.
fn say_start(
    options: &Benchmark, workload: &Workload, workers: usize, seed: u64, scripts: &Scripts, events: &mut Events,
) -> Result<(), Failure> {
    let (programs, pacing) = (&scripts.programs, &scripts.pacing);
    let mut start = start_event(options, workers, programs, pacing, seed, events.clock());
    workload.add_start_fields(&mut start);
    let _ = events.write("start", start);
    let Some(error) = events.failure() else {
        return Ok(());
    };
    let (what, why) = (events.name(), plain(error));
    Err(Failure::new(format!("could not write {what}: {why}")))
}

fn read_facts(
    options: &Benchmark, params: &Params, session: &mut Session, messages: &Messages,
) -> Result<Database, Failure> {
    let mut origins = options.scripts.iter().map(|script| &script.origin);
    let builtin = origins.any(|origin| matches!(origin, Origin::Builtin(_)));
    database_setup::look(session, params, builtin, options.scale.is_some(), messages)
}

fn seed_value(seed: Seed, messages: &Messages) -> Result<u64, Failure> {
    let from_clock = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        since.as_micros() as u64
    };
    let value = match seed {
        Seed::Default => return Ok(from_clock()),
        Seed::Time => from_clock(),
        Seed::Fixed(value) => value,
        Seed::Strong => {
            let mut bytes = [0; 8];
            let read =
                std::fs::File::open("/dev/urandom").and_then(|mut file| io::Read::read_exact(&mut file, &mut bytes));
            read.map_err(|error| Failure::new("could not generate random seed").detail(error))?;
            u64::from_ne_bytes(bytes)
        }
    };
    messages.plain(format!("setting random seed to {value}"));
    Ok(value)
}

/// The initial variables of every client: those of the command line, and pgbench's own unless it defines them.
fn initial(
    options: &Benchmark, scale: i64, random: &RandomSeeds, symbols: &mut Symbols,
) -> Result<Vec<(SlotId, Initial)>, Failure> {
    let given = &options.variables;
    let mut initial = Vec::new();
    for (name, value) in given {
        if !valid_name(name) {
            return Err(Failure::new(format!("option: invalid variable name: \"{name}\"")));
        }
        initial.push((symbols.slot(name), Initial::Text(value.clone())));
    }
    let default_seed = random.default_seed.unwrap_or(0).cast_signed();
    for (name, value) in [
        ("scale", Initial::Int(scale)),
        ("client_id", Initial::ClientId),
        ("default_seed", Initial::Int(default_seed)),
        ("random_seed", Initial::Int(random.base.cast_signed())),
    ] {
        if !given.iter().any(|(given, _)| given == name) {
            initial.push((symbols.slot(name), value));
        }
    }
    Ok(initial)
}

/// Prints which server is used, and the length of the load.
fn say_target(options: &Benchmark, params: &Params, messages: &Messages) {
    let (what, amount) = match options.limit {
        Limit::Transactions(each) => ("nxacts", each),
        Limit::Duration(duration) => ("duration", duration.as_secs()),
        Limit::Driven => ("duration", 0),
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
    let _ = writeln!(text_out(options.events.as_ref()), "{}", printable(&line));
}

/// How many descriptors pgbench needs in addition to one for each client.
const LEAST: u64 = 3;
/// How many descriptors are preferable in addition to one for each client: for pollers, logs and events.
const COMFORTABLE: u64 = 64;

/// Raises the limit for this many clients and workers as far as possible.
///
/// # Errors
/// The limit is too low for the clients; in pgbench's words.
fn allow_open_files(clients: usize, workers: usize) -> Result<(), Failure> {
    let least = clients as u64 + LEAST;
    let limit = getrlimit(Resource::Nofile);
    let highest = limit.maximum.unwrap_or(u64::MAX);
    if highest < least {
        let message = format!("need at least {least} open files, but system limit is {highest}");
        return Err(advise(Failure::new(message)));
    }
    let wanted = (clients + 4 * workers) as u64 + COMFORTABLE;
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return Ok(());
    }
    let raised = Rlimit { current: Some(wanted.min(highest)), maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Err(error) if current < least => {
            let why = plain(&error.into());
            Err(advise(Failure::new(format!("need at least {least} open files, but couldn't raise the limit: {why}"))))
        }
        _ => Ok(()),
    }
}

fn advise(failure: Failure) -> Failure {
    failure.hint("Reduce number of clients, or use limit/ulimit to increase the system limit.")
}

/// What the clients of a load keep in their sessions.
enum KeptState {
    /// Prepared statements; the text is how the load does without them.
    Statements(Option<&'static str>),
    /// Whatever the captured sessions kept.
    Anything,
}

impl KeptState {
    /// None if the load needs nothing from one transaction to the next.
    fn of(options: &Benchmark, workload: &Workload) -> Option<Self> {
        match (&options.workload, workload) {
            (WorkloadChoice::Replay(_), _) => Some(Self::Anything),
            (WorkloadChoice::Tpcc(_), _) => Some(Self::Statements(None)),
            (WorkloadChoice::Tpch | WorkloadChoice::Queries(_), _) => None,
            (_, Workload::Lua(script)) => {
                script.prepares().then_some(Self::Statements(Some("give --lua-opt=db-ps-mode=disable")))
            }
            _ => {
                (options.mode == QueryMode::Prepared).then_some(Self::Statements(Some("give -M simple or -M extended")))
            }
        }
    }
}

/// Refuses a load that would leave something in sessions of `pooler`, which belong to its other clients, too.
fn check_pooled(
    session: &mut Session, pooler: &Pooler, options: &Benchmark, workload: &Workload,
) -> Result<(), Failure> {
    let (what, way) = match KeptState::of(options, workload) {
        None => return Ok(()),
        // an error means that the pooler passes no transactions on
        Some(KeptState::Statements(_)) if matches!(session.passes_names_on(), Ok(false)) => {
            return Ok(());
        }
        Some(KeptState::Statements(way)) => ("prepared statements", way),
        Some(KeptState::Anything) => ("what captured sessions leave, such as settings", None),
    };
    let message =
        format!("the load would leave {what} in the sessions of a connection pooler, which other clients use, too");
    let remedy = pooler.remedy();
    let hint = way.map_or(remedy.clone(), |way| format!("{way}; or {remedy}"));
    Err(Failure::new(message).detail(pooler).hint(hint))
}
