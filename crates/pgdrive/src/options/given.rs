//! From what was given to a complete request.

use std::time::Duration;

use pgdyno_dataset::Step;
use pgdyno_dataset::pgbench::{Method, Partitions, Persistence, Schema};
use pgdyno_engine::part::Part;
use pgdyno_engine::scaling::BUSY_SHARE;
use pgdyno_engine::schedule::{Arrivals, Spacing};
use pgdyno_engine::spec::{Io, Limit, OnError, Pipelining, Sessions, Tries};
use pgdyno_script::QueryMode;

use super::load::LoadOptions;
use super::lua::{Check, LuaOptions};
use super::pacing::{PacingChoice, PauseChoice};
use super::reconnect::Patience;
use super::tpcc::TpccOptions;
use super::values::{
    I32, arrivals, definition, io, latency_limit, part, partition_method, protocol, rate_per_s,
    sampling_rate, scram_keys, script, seconds, seconds_or_none, seed, shorthand, steps,
    timer_tick, tries, whole,
};
use super::{
    Benchmark, Connection, EventSink, Initialize, Origin, Request, ScramKeys, ScriptChoice, Seed,
    TpccCheck, UsageError, Vacuum,
};
use crate::called_as::CalledAs;
use crate::help::{BENCHMARK, INITIALIZE};
use crate::log_options::LogOptions;
use crate::messages::Failure;
use crate::percentiles::Percentiles;
use crate::workers::Workers;

/// pgbench takes more. Here a load lists all of its parts before it begins, and no server would plan
/// a query over so many.
const PARTITIONS_MOST: i64 = 100_000;

/// What was given, before it is resolved.
#[derive(Default)]
pub(super) struct Given {
    pub(super) called_as: CalledAs,
    pub(super) connection: Connection,
    pub(super) initialize: bool,
    pub(super) benchmark_option: bool,
    pub(super) initialize_option: bool,
    pub(super) scripts: Vec<ScriptChoice>,
    pub(super) clients: Option<i64>,
    pub(super) workers: Option<i64>,
    pub(super) most_workers: Option<i64>,
    pub(super) busy_percent: Option<i64>,
    pub(super) transactions: Option<i64>,
    pub(super) duration: Option<Duration>,
    pub(super) drain_limit: Option<Duration>,
    pub(super) warmup: Duration,
    pub(super) mode: Option<QueryMode>,
    pub(super) auto_pipeline: bool,
    pub(super) scale: Option<i64>,
    pub(super) variables: Vec<(String, String)>,
    pub(super) rate_per_s: Option<f64>,
    pub(super) pacing: PacingChoice,
    pub(super) spacing: Option<Spacing>,
    pub(super) timer_tick: Duration,
    pub(super) phases_file: Option<String>,
    pub(super) latency_limit: Option<Duration>,
    pub(super) tries: Option<Tries>,
    pub(super) no_vacuum: bool,
    pub(super) vacuum_all: bool,
    pub(super) progress_s: Option<u64>,
    pub(super) progress_timestamp: bool,
    pub(super) log: LogOptions,
    pub(super) per_command: bool,
    pub(super) percentiles: Option<Percentiles>,
    pub(super) histogram: Option<String>,
    pub(super) json: Option<String>,
    pub(super) failures_detailed: bool,
    pub(super) verbose_errors: bool,
    pub(super) debug: bool,
    pub(super) continue_on_error: bool,
    pub(super) reconnect: Option<Patience>,
    pub(super) ledger: bool,
    pub(super) connect: bool,
    pub(super) exit_on_abort: bool,
    pub(super) io: Option<Io>,
    pub(super) seed: Option<Seed>,
    pub(super) random_seed_option: bool,
    pub(super) events: Option<EventSink>,
    pub(super) parent_lease: bool,
    pub(super) lease: Option<Duration>,
    pub(super) part: Option<(usize, usize)>,
    pub(super) await_start: bool,
    pub(super) check: Option<Check>,
    pub(super) steps: Option<Vec<Step>>,
    pub(super) fillfactor: Option<u32>,
    pub(super) foreign_keys: bool,
    pub(super) unlogged: bool,
    pub(super) tablespace: Option<String>,
    pub(super) index_tablespace: Option<String>,
    pub(super) partitions: u32,
    pub(super) partition_method: Option<Method>,
    pub(super) quiet: bool,
    pub(super) load: LoadOptions,
    pub(super) lua: LuaOptions,
    pub(super) tpcc: TpccOptions,
}

pub(super) fn take(given: &mut Given, name: &str, value: String) -> Result<(), Failure> {
    if INITIALIZE.iter().any(|option| option.long == name)
        && !matches!(
            name,
            "initialize" | "no-vacuum" | "scale" | "tables" | "table-size"
        )
    {
        given.initialize_option = true;
    }
    if BENCHMARK.iter().any(|option| option.long == name)
        && !matches!(
            name,
            "no-vacuum" | "scale" | "events" | "parent-lease" | "debug"
        )
        && !(name == "random-seed" && given.called_as == CalledAs::Pgdrive)
    {
        given.benchmark_option = true;
    }
    match name {
        "initialize" => given.initialize = true,
        "init-steps" => given.steps = Some(steps(&value)?),
        "fillfactor" => given.fillfactor = Some(whole(&value, "-F/--fillfactor", 10, 100)? as u32),
        "foreign-keys" => given.foreign_keys = true,
        "unlogged-tables" => given.unlogged = true,
        "tablespace" => given.tablespace = Some(value),
        "index-tablespace" => given.index_tablespace = Some(value),
        "partitions" => {
            // what pgbench refuses is refused in its words
            let count = whole(&value, "--partitions", 0, I32)?;
            if count > PARTITIONS_MOST {
                let message = format!("--partitions must be in range 0..{PARTITIONS_MOST}");
                return Err(Failure::new(message));
            }
            given.partitions = count as u32;
        }
        "partition-method" => given.partition_method = Some(partition_method(&value)?),
        "quiet" => given.quiet = true,
        name if LoadOptions::NAMES.contains(&name) => given.load.take(name, value)?,
        "workload" if value == TpccOptions::WORKLOAD => given.tpcc.take_workload(),
        name if LuaOptions::NAMES.contains(&name) => given.lua.take(name, value)?,
        name if TpccOptions::NAMES.contains(&name) => given.tpcc.take(name, &value)?,
        "builtin" => given.scripts.push(script(&value, Origin::Builtin)?),
        "file" => given.scripts.push(script(&value, Origin::File)?),
        "select-only" | "skip-some-updates" => given.scripts.push(shorthand(name)),
        "client" => given.clients = Some(whole(&value, "-c/--client", 1, I32)?),
        "jobs" => given.workers = Some(whole(&value, "-j/--jobs", 1, I32)?),
        "max-workers" => given.most_workers = Some(whole(&value, "--max-workers", 1, I32)?),
        "worker-busy" => given.busy_percent = Some(whole(&value, "--worker-busy", 1, 100)?),
        "transactions" => given.transactions = Some(whole(&value, "-t/--transactions", 1, I32)?),
        "time" if given.called_as == CalledAs::Pgbench => {
            let whole_s = whole(&value, "-T/--time", 1, I32)?;
            given.duration = Some(Duration::from_secs(whole_s as u64));
        }
        "time" => given.duration = Some(seconds(&value, "-T/--time")?),
        "drain-limit" => given.drain_limit = Some(seconds_or_none(&value, "--drain-limit")?),
        "warmup" => given.warmup = seconds_or_none(&value, "--warmup")?,
        "protocol" => given.mode = Some(protocol(&value)?),
        "auto-pipeline" => given.auto_pipeline = true,
        "scale" => given.scale = Some(whole(&value, "-s/--scale", 1, I32)?),
        "define" => given.variables.push(definition(&value)?),
        "rate" => given.rate_per_s = Some(rate_per_s(&value, given.called_as)?),
        "keying-time" => {
            let choice = PauseChoice::parse(&value, "--keying-time")?;
            given.pacing.keying.push(choice);
        }
        "think-time" => {
            let choice = PauseChoice::parse(&value, "--think-time")?;
            given.pacing.think.push(choice);
        }
        "arrivals" => given.spacing = Some(arrivals(&value)?),
        "timer-tick" => given.timer_tick = timer_tick(&value)?,
        "phases" => given.phases_file = Some(value),
        "latency-limit" => given.latency_limit = Some(latency_limit(&value, given.called_as)?),
        "max-tries" => given.tries = Some(tries(&value, given.called_as)?),
        "no-vacuum" => given.no_vacuum = true,
        "vacuum-all" => given.vacuum_all = true,
        "progress" => given.progress_s = Some(whole(&value, "-P/--progress", 1, I32)? as u64),
        "report-per-command" => given.per_command = true,
        "progress-timestamp" => given.progress_timestamp = true,
        "log" => given.log.wanted = true,
        "log-prefix" => given.log.prefix = Some(value),
        "aggregate-interval" => {
            given.log.interval_s = Some(whole(&value, "--aggregate-interval", 1, I32)? as u64);
        }
        "sampling-rate" => given.log.sampling_rate = Some(sampling_rate(&value, given.called_as)?),
        "percentiles" => given.percentiles = Some(Percentiles::parse(&value)?),
        "histogram" => given.histogram = Some(value),
        "json" => given.json = Some(value),
        "verbose-errors" => given.verbose_errors = true,
        "debug" => given.debug = true,
        "continue-on-error" => given.continue_on_error = true,
        "reconnect" => given.reconnect = Some(Patience::parse(&value)?),
        "ledger" => given.ledger = true,
        "connect" => given.connect = true,
        "failures-detailed" => given.failures_detailed = true,
        "exit-on-abort" => given.exit_on_abort = true,
        "io" => given.io = Some(io(&value)?),
        "random-seed" => {
            given.seed = Some(seed(&value, "--random-seed option")?);
            given.random_seed_option = true;
        }
        "events" => {
            given.events = Some(if value == "-" {
                EventSink::Stdout
            } else {
                EventSink::File(value)
            })
        }
        "parent-lease" => given.parent_lease = true,
        "lease" => given.lease = Some(seconds(&value, "--lease")?),
        "part" => given.part = Some(part(&value)?),
        "await-start" => given.await_start = true,
        "check" => given.check = Some(Check::parse(&value)?),
        "dbname" => given.connection.dbname = Some(value),
        "host" => given.connection.overrides.push(("host", value)),
        "port" => given.connection.overrides.push(("port", value)),
        "username" => given.connection.overrides.push(("user", value)),
        "scram-cache" => given.connection.scram_keys = scram_keys(&value)?,
        _ => unreachable!("every option of the table is taken: {name}"),
    }
    Ok(())
}

pub(super) fn resolve(mut given: Given, operands: Vec<String>) -> Result<Request, UsageError> {
    if given.called_as == CalledAs::Pgbench {
        given.connection.scram_keys = ScramKeys::Derived;
    }
    let mut operands = operands.into_iter();
    if given.connection.dbname.is_none() {
        given.connection.dbname = operands.next();
    }
    if let Some(extra) = operands.next() {
        let message = format!("too many command-line arguments (first is \"{extra}\")");
        return Err(Failure::new(message)
            .hint(format!(
                "Try \"{} --help\" for more information.",
                given.called_as.name()
            ))
            .into());
    }
    given.tpcc.agree(given.initialize)?;
    if given.initialize {
        return Ok(Request::Initialize(Box::new(initialize(given)?)));
    }
    if given.tpcc.is_check() {
        return Ok(Request::TpccCheck(tpcc_check(given)?));
    }
    if given.initialize_option {
        return Err(Failure::new(
            "some of the specified options cannot be used in benchmarking mode",
        )
        .into());
    }
    Ok(Request::Benchmark(Box::new(benchmark(given)?)))
}

fn initialize(given: Given) -> Result<Initialize, Failure> {
    if given.benchmark_option {
        return Err(Failure::new(
            "some of the specified options cannot be used in initialization (-i) mode",
        ));
    }
    let partitions = match (given.partitions, given.partition_method) {
        (0, None) => None,
        (0, Some(_)) => {
            return Err(Failure::new(
                "--partition-method requires greater than zero --partitions",
            ));
        }
        (count, method) => Some(Partitions {
            method: method.unwrap_or(Method::Range),
            count,
        }),
    };
    let mut steps = given.steps.unwrap_or_else(|| Step::DEFAULT.to_vec());
    if given.no_vacuum {
        steps.retain(|step| *step != Step::Vacuum);
    }
    if given.foreign_keys && !steps.contains(&Step::ForeignKeys) {
        steps.push(Step::ForeignKeys);
    }
    let pgbench_option = given.scale.is_some()
        || given.fillfactor.is_some()
        || given.unlogged
        || partitions.is_some()
        || given.tablespace.is_some()
        || given.index_tablespace.is_some();
    let schema = Schema {
        scale: given.scale.unwrap_or(1) as u32,
        fillfactor: given.fillfactor.unwrap_or(100),
        persistence: if given.unlogged {
            Persistence::Unlogged
        } else {
            Persistence::Logged
        },
        partitions,
        tablespace: given.tablespace,
        index_tablespace: given.index_tablespace,
    };
    let seed = given.random_seed_option.then_some(given.seed).flatten();
    let dataset = given
        .load
        .dataset(schema, pgbench_option, seed, &given.tpcc)?;
    let check = given.tpcc.is_check().then(|| {
        let connection = given.connection.clone();
        given.tpcc.check(connection, None, false)
    });
    Ok(Initialize {
        connection: given.connection,
        check,
        steps,
        way: given.load.way(given.called_as, dataset.dataset()),
        dataset,
        quiet: given.quiet,
        events: given.events,
        parent_lease: given.parent_lease,
    })
}

fn tpcc_check(given: Given) -> Result<TpccCheck, Failure> {
    if given.initialize_option || given.benchmark_option {
        return Err(Failure::new(
            "some of the specified options cannot be used with --tpcc-check",
        ));
    }
    let Given {
        tpcc, connection, ..
    } = given;
    Ok(tpcc.check(connection, given.events, given.parent_lease))
}

/// What `--phases` says itself, and what `--arrivals` needs.
fn agree_with_phases(given: &Given) -> Result<(), Failure> {
    if given.phases_file.is_none() {
        if given.spacing.is_some() && given.rate_per_s.is_none() {
            return Err(Failure::new("--arrivals needs a rate")
                .hint("Give --rate=NUM, or --phases=FILE with rates."));
        }
        return Ok(());
    }
    for (is_given, option, instead) in [
        (
            !given.pacing.keying.is_empty() || !given.pacing.think.is_empty(),
            "--keying-time and --think-time",
            "phases say how many clients are in use, or a rate",
        ),
        (
            given.duration.is_some(),
            "-T/--time",
            "the duration of the run is the sum of its phases",
        ),
        (
            given.transactions.is_some(),
            "-t/--transactions",
            "the duration of the run is the sum of its phases",
        ),
        (
            given.rate_per_s.is_some(),
            "-R/--rate",
            "give each phase its rate in the file",
        ),
        (
            !given.warmup.is_zero(),
            "--warmup",
            "put a phase with result = false first",
        ),
    ] {
        if is_given {
            return Err(
                Failure::new(format!("{option} cannot be used with --phases"))
                    .hint(format!("Leave {option} out: {instead}.")),
            );
        }
    }
    Ok(())
}

/// What cannot be given with a Lua script: whether it was, its name, what to do instead.
fn against_lua(given: &Given) -> [(bool, &'static str, &'static str); 4] {
    [
        (
            !given.scripts.is_empty(),
            "-f/--file and -b/--builtin",
            "A Lua script is the only script of its load.",
        ),
        (
            given.mode.is_some(),
            "-M/--protocol",
            "The script says itself what is prepared.",
        ),
        (
            given.auto_pipeline,
            "--auto-pipeline",
            "A Lua script waits for every answer.",
        ),
        (
            !given.variables.is_empty(),
            "-D/--define",
            "Give options of the script with --lua-opt NAME=VALUE.",
        ),
    ]
}

/// -c
fn all_clients(given: &Given) -> usize {
    given.clients.unwrap_or(1) as usize
}

/// --part, and what goes with it.
fn whose(given: &Given) -> Result<Option<Part>, Failure> {
    if given.await_start && !given.parent_lease && given.lease.is_none() {
        return Err(Failure::new(
            "--await-start needs --parent-lease or --lease=SECONDS",
        ));
    }
    let Some((number, of)) = given.part else {
        return Ok(None);
    };
    let clients = all_clients(given);
    if clients < of {
        return Err(Failure::new(format!(
            "{clients} clients (-c) cannot be shared out to {of} generators (--part)"
        )));
    }
    Ok(Some(Part {
        number,
        of,
        clients,
    }))
}

fn benchmark(mut given: Given) -> Result<Benchmark, Failure> {
    let against = against_lua(&given);
    let lua = std::mem::take(&mut given.lua).resolve(&given.load, &against)?;
    if let Some(lua) = &lua {
        given.scripts.push(lua.script());
        // what pgdrive's own options say wins over a script's, as the last one of a name does
        given.connection.overrides.splice(..0, lua.connection());
        given.no_vacuum = true;
        // errors that a script ignores are tried again until the end of the load
        given.tries = given.tries.or(Some(Tries::Unlimited));
    }
    let tpcc = given.tpcc.load();
    if let (Some(_), Some(lua)) = (given.part, lua.as_ref().filter(|lua| lua.command != "run")) {
        let message = format!("--part cannot be used with --lua-command={}", lua.command);
        return Err(Failure::new(message).hint("It is done once, by one generator without --part."));
    }
    if let Some(tpcc) = &tpcc {
        if !given.scripts.is_empty() {
            return Err(Failure::new(
                "-b, -f, -N and -S cannot be used with --workload=tpcc, which has its own scripts",
            ));
        }
        given.scripts = tpcc.scripts();
        given.no_vacuum = true;
    }
    if given.scripts.is_empty() {
        given.scripts.push(ScriptChoice {
            origin: Origin::Builtin("tpcb-like".to_owned()),
            weight: 1,
        });
    }
    if given.scripts.iter().all(|script| script.weight == 0) {
        return Err(Failure::new("total script weight must not be zero"));
    }
    agree_with_phases(&given)?;
    let limit = match (given.transactions, given.duration) {
        (Some(_), Some(_)) => {
            return Err(Failure::new(
                "specify either a number of transactions (-t) or a duration (-T), not both",
            ));
        }
        (_, Some(duration)) => Limit::Duration(duration),
        (transactions, None) => Limit::Transactions(transactions.unwrap_or(10) as u64),
    };
    if !given.warmup.is_zero() && matches!(limit, Limit::Transactions(_)) {
        return Err(Failure::new(
            "a warm-up (--warmup) can only be used with a duration (-T)",
        ));
    }
    let part = whose(&given)?;
    let all_clients = all_clients(&given);
    let log = given.log.resolve(given.duration)?;
    if given.progress_timestamp && given.progress_s.is_none() {
        return Err(Failure::new(
            "--progress-timestamp is allowed only under --progress",
        ));
    }
    let tries = given.tries.unwrap_or(Tries::AtMost(1));
    let ends_by_time = given.duration.is_some() || given.phases_file.is_some();
    if tries == Tries::Unlimited && lua.is_none() && given.latency_limit.is_none() && !ends_by_time
    {
        return Err(Failure::new(
            "an unlimited number of transaction tries can only be used with --latency-limit or a duration (-T)",
        ));
    }
    let arrivals = match (given.rate_per_s, given.spacing) {
        (None, _) => Arrivals::Closed,
        (Some(rate_per_s), Some(Spacing::Regular)) => Arrivals::Regular { rate_per_s },
        (Some(rate_per_s), _) => Arrivals::Poisson { rate_per_s },
    };
    given.pacing.check(arrivals)?;
    if let Some(tpcc) = &tpcc {
        tpcc.agree(arrivals, given.phases_file.is_some())?;
    }
    let clients = part.map_or(all_clients, |part| part.range().len());
    let number = |given: Option<i64>| given.map(|number| number as usize);
    let fixing = match (&given.phases_file, &given.reconnect) {
        (Some(_), _) => Some("--phases"),
        (None, Some(_)) => Some("--reconnect"),
        (None, None) => None,
    };
    let workers = Workers::resolve(
        number(given.workers),
        number(given.most_workers),
        clients,
        given.called_as,
        fixing,
    )?;
    Ok(Benchmark {
        connection: given.connection,
        scripts: given.scripts,
        tpcc,
        clients,
        workers,
        busy_share: given
            .busy_percent
            .map_or(BUSY_SHARE, |percent| percent as f64 / 100.0),
        limit,
        drain_limit: given.drain_limit.or(given.called_as.drain_limit()),
        warmup: given.warmup,
        mode: given.mode.unwrap_or(QueryMode::Simple),
        pipelining: if given.auto_pipeline {
            Pipelining::Auto
        } else {
            Pipelining::Explicit
        },
        scale: given.scale,
        variables: given.variables,
        arrivals,
        spacing: given.spacing,
        timer_tick: given.timer_tick,
        phases_file: given.phases_file,
        phases: None,
        pacing: given.pacing,
        latency_limit: given.latency_limit,
        tries,
        vacuum: match (given.no_vacuum, given.vacuum_all) {
            (true, _) => Vacuum::Nothing,
            (false, true) => Vacuum::All,
            (false, false) => Vacuum::Small,
        },
        progress_s: given.progress_s,
        progress_timestamp: given.progress_timestamp,
        log,
        per_command: given.per_command,
        percentiles: given.percentiles,
        histogram: given.histogram,
        json: given.json,
        verbose_errors: given.verbose_errors,
        debug: given.debug,
        on_error: if given.continue_on_error {
            OnError::Continue
        } else {
            OnError::Abort
        },
        on_loss: Patience::resolve(given.reconnect, limit),
        ledger: given.ledger,
        sessions: if given.connect {
            Sessions::PerTransaction
        } else {
            Sessions::Kept
        },
        failures_detailed: given.failures_detailed,
        exit_on_abort: given.exit_on_abort,
        io: given.io.unwrap_or(Io::Auto),
        seed: given.seed.unwrap_or(Seed::Default),
        events: given.events,
        parent_lease: given.parent_lease || given.lease.is_some(),
        lease: given.lease,
        part,
        await_start: given.await_start,
        check: given.check,
        lua,
    })
}
