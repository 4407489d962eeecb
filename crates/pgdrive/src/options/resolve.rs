//! Resolves the given options into a complete request.

use pgdyno_engine::load_share::LoadShare;
use pgdyno_engine::schedule::{Arrivals, Spacing};
use pgdyno_engine::spec::{Limit, OnError, OnLoss, Sessions, Tries};

use super::benchmark_options::{Benchmark, BenchmarkOptions, WorkloadChoice};
use super::conflicts::{LoadKind, check_dataset};
use super::initialize_options::Initialize;
use super::option_sections::GivenOptions;
use super::option_values::{ScramKeys, ScriptChoice, Vacuum};
use super::queries_options;
use super::reconnect_option::Patience;
use super::request::{Request, UsageError};
use super::tpcc_options::TpccCheck;
use super::tpch_options;
use crate::called_as::CalledAs;
use crate::messages::Failure;
use crate::worker_options::Workers;

pub(super) fn resolve(mut given: GivenOptions, operands: Vec<String>) -> Result<Request, UsageError> {
    if given.called_as == CalledAs::Pgbench {
        given.common.connection.scram_keys = ScramKeys::Derived;
    }
    let mut operands = operands.into_iter();
    if given.common.connection.dbname.is_none() {
        given.common.connection.dbname = operands.next();
    }
    if let Some(extra) = operands.next() {
        let message = format!("too many command-line arguments (first is \"{extra}\")");
        return Err(Failure::new(message)
            .hint(format!("Try \"{} --help\" for more information.", given.called_as.name()))
            .into());
    }
    given.tpcc.agree(given.initialize.wanted, given.load.tpcc)?;
    let seed = given.load.load.seed;
    if let (Some(wanted), false) = (given.tpch.queries(given.initialize.wanted, seed)?, given.load.queries) {
        return Ok(Request::TpchQueries(wanted));
    }
    let refuses_others = given.initialize.wanted || given.has_of_initialization() || given.has_of_benchmarking();
    if let Some(proxy) = given.proxy.resolve(&given.common.connection, &given.load.load, refuses_others)? {
        return Ok(Request::Proxy(Box::new(proxy)));
    }
    if given.initialize.wanted {
        return Ok(Request::Initialize(Box::new(initialize(given)?)));
    }
    if given.tpcc.check {
        return Ok(Request::TpccCheck(tpcc_check(given)?));
    }
    if given.has_of_initialization() {
        return Err(Failure::new("some of the specified options cannot be used in benchmarking mode").into());
    }
    Ok(Request::Benchmark(Box::new(benchmark(given)?)))
}

fn initialize(given: GivenOptions) -> Result<Initialize, Failure> {
    if given.has_of_benchmarking() {
        return Err(Failure::new("some of the specified options cannot be used in initialization (-i) mode"));
    }
    let load = &given.load.load;
    let seed = given.has("random-seed").then_some(load.seed);
    check_dataset(given.initialize.name(), &given)?;
    let dataset = given.initialize.dataset(seed, &given.tpcc, &given.tpch)?;
    let connection = given.common.connection;
    let check = given.tpcc.check.then(|| TpccCheck { connection: connection.clone(), ..given.tpcc.checks() });
    Ok(Initialize {
        connection,
        check,
        steps: given.initialize.steps(),
        mode: given.initialize.mode(given.called_as, dataset.dataset()),
        dataset,
        quiet: given.initialize.quiet,
        events: given.load.load.events,
        parent_lease: given.load.load.parent_lease,
    })
}

fn tpcc_check(given: GivenOptions) -> Result<TpccCheck, Failure> {
    if given.has_of_initialization() || given.has_of_benchmarking() {
        return Err(Failure::new("some of the specified options cannot be used with --tpcc-check"));
    }
    Ok(TpccCheck {
        connection: given.common.connection,
        events: given.load.load.events,
        parent_lease: given.load.load.parent_lease,
        ..given.tpcc.checks()
    })
}

fn benchmark(mut given: GivenOptions) -> Result<Benchmark, Failure> {
    let mut load = given.load.load.clone();
    load.connection = given.common.connection.clone();
    load.debug = given.common.debug;
    resolve_replay(&given, &mut load)?;
    resolve_lua(&mut given, &mut load)?;
    resolve_tpcc(&given, &mut load)?;
    if given.load.tpch {
        LoadKind::Tpch.check(&given)?;
        tpch_options::shape(&mut load);
    }
    if given.load.queries {
        LoadKind::Queries.check(&given)?;
        queries_options::shape(&given.load, given.tpch.queries(false, load.seed)?, &mut load)?;
    }
    if load.scripts.is_empty() {
        load.scripts.push(ScriptChoice::builtin("tpcb-like"));
    }
    if load.scripts.iter().all(|script| script.weight == 0) {
        return Err(Failure::new("total script weight must not be zero"));
    }
    agree_with_phases(&given, &load)?;
    load.limit = if given.load.queries { load.limit } else { limit(&given.load, &load)? };
    load.part = part(&given.load, &load)?;
    let log = std::mem::take(&mut given.load.log);
    load.log = log.resolve(given.load.duration)?;
    if load.progress_timestamp && load.progress_s.is_none() {
        return Err(Failure::new("--progress-timestamp is allowed only under --progress"));
    }
    load.tries = tries(&given.load, &load)?;
    load.arrivals = match &load.workload {
        WorkloadChoice::Replay(replay) => replay.arrivals(),
        _ => arrivals(given.load.rate_per_s, load.spacing),
    };
    load.pacing.check(load.arrivals)?;
    if let WorkloadChoice::Tpcc(tpcc) = &load.workload {
        tpcc.agree(load.arrivals, load.phases_file.is_some())?;
    }
    if let Some(part) = load.part {
        load.clients = part.range().len();
    }
    load.workers = Workers::resolve(given.load.jobs, given.load.max_workers, given.called_as)?;
    load.drain_limit = load.drain_limit.or(given.called_as.drain_limit());
    load.vacuum = vacuum(&given.load, &load);
    load.on_loss = if given.load.counts_refusals {
        count_refusals(&given.load, &load)?
    } else {
        Patience::resolve(given.load.reconnect, load.limit)
    };
    load.parent_lease |= load.lease.is_some();
    Ok(load)
}

fn count_refusals(given: &BenchmarkOptions, load: &Benchmark) -> Result<OnLoss, Failure> {
    if load.sessions != Sessions::PerTransaction {
        return Err(Failure::new("--count-refusals is allowed only under --connect"));
    }
    if given.reconnect.is_some() {
        let hint = "A client either tries again until it has a connection, or continues with its next transaction.";
        return Err(Failure::new("--count-refusals cannot be used with --reconnect").hint(hint));
    }
    Ok(OnLoss::Count)
}

/// --replay, whose statements are the only ones of its load.
fn resolve_replay(given: &GivenOptions, load: &mut Benchmark) -> Result<(), Failure> {
    let Some(replay) = given.load.replay.resolve()? else {
        return Ok(());
    };
    LoadKind::Replay.check(given)?;
    load.scripts.push(replay.script());
    load.sessions = Sessions::Driven;
    load.on_error = OnError::Continue;
    load.limit = Limit::Driven;
    load.workload = WorkloadChoice::Replay(replay);
    Ok(())
}

/// --lua and --workload, whose script is the only one of its load.
fn resolve_lua(given: &mut GivenOptions, load: &mut Benchmark) -> Result<(), Failure> {
    let sizes = given.initialize.sizes.of_workload();
    let Some(lua) = std::mem::take(&mut given.load.lua).resolve(sizes)? else {
        return Ok(());
    };
    LoadKind::Lua.check(given)?;
    load.scripts.push(lua.script());
    // pgdrive's own options take precedence over a script's, because the last one of a name does
    load.connection.overrides.splice(..0, lua.connection());
    if given.load.part.is_some() && lua.command != "run" {
        let message = format!("--part cannot be used with --lua-command={}", lua.command);
        return Err(Failure::new(message).hint("Run it once, on one generator without --part."));
    }
    load.workload = WorkloadChoice::Lua(lua);
    Ok(())
}

/// --workload=tpcc, which has its own scripts.
fn resolve_tpcc(given: &GivenOptions, load: &mut Benchmark) -> Result<(), Failure> {
    if !given.load.tpcc {
        return Ok(());
    }
    LoadKind::Tpcc.check(given)?;
    let tpcc = given.tpcc.load();
    load.scripts = tpcc.scripts();
    load.workload = WorkloadChoice::Tpcc(tpcc);
    Ok(())
}

/// Refuses options whose values a file of phases contains, and --arrivals without a rate.
fn agree_with_phases(given: &GivenOptions, load: &Benchmark) -> Result<(), Failure> {
    if load.phases_file.is_some() {
        return LoadKind::Phases.check(given);
    }
    if load.spacing.is_some() && given.load.rate_per_s.is_none() {
        return Err(Failure::new("--arrivals needs a rate").hint("Give --rate=NUM, or --phases=FILE with rates."));
    }
    Ok(())
}

fn limit(given: &BenchmarkOptions, load: &Benchmark) -> Result<Limit, Failure> {
    let limit = match (given.transactions, given.duration) {
        (Some(_), Some(_)) => {
            return Err(Failure::new("specify either a number of transactions (-t) or a duration (-T), not both"));
        }
        (Some(transactions), None) => Limit::Transactions(transactions),
        (None, Some(duration)) => Limit::Duration(duration),
        (None, None) => load.limit,
    };
    if !load.warmup.is_zero() && matches!(limit, Limit::Transactions(_)) {
        return Err(Failure::new("a warm-up (--warmup) can only be used with a duration (-T)"));
    }
    Ok(limit)
}

/// --part; -c is the number of clients of all generators.
fn part(given: &BenchmarkOptions, load: &Benchmark) -> Result<Option<LoadShare>, Failure> {
    if load.await_start && !load.parent_lease && load.lease.is_none() {
        return Err(Failure::new("--await-start needs --parent-lease or --lease=SECONDS"));
    }
    let Some((number, of)) = given.part else {
        return Ok(None);
    };
    let clients = load.clients;
    if clients < of {
        return Err(Failure::new(format!("{clients} clients (-c) cannot be divided among {of} generators (--part)")));
    }
    Ok(Some(LoadShare { number, of, clients }))
}

/// --max-tries; errors that a Lua script ignores are retried until the end of the load.
fn tries(given: &BenchmarkOptions, load: &Benchmark) -> Result<Tries, Failure> {
    if matches!(load.workload, WorkloadChoice::Lua(_)) {
        return Ok(given.tries.unwrap_or(Tries::Unlimited));
    }
    let tries = given.tries.unwrap_or(load.tries);
    let ends_by_time = given.duration.is_some() || load.phases_file.is_some();
    if tries == Tries::Unlimited && load.latency_limit.is_none() && !ends_by_time {
        return Err(Failure::new(
            "an unlimited number of transaction tries can only be used with --latency-limit or a duration (-T)",
        ));
    }
    Ok(tries)
}

fn arrivals(rate_per_s: Option<f64>, spacing: Option<Spacing>) -> Arrivals {
    match (rate_per_s, spacing) {
        (None, _) => Arrivals::Closed,
        (Some(rate_per_s), Some(Spacing::Regular)) => Arrivals::Regular { rate_per_s },
        (Some(rate_per_s), _) => Arrivals::Poisson { rate_per_s },
    }
}

/// -n and -v; workloads with tables of their own are not vacuumed.
fn vacuum(given: &BenchmarkOptions, load: &Benchmark) -> Vacuum {
    match (given.no_vacuum, given.vacuum_all) {
        _ if load.workload != WorkloadChoice::Scripts => Vacuum::Nothing,
        (true, _) => Vacuum::Nothing,
        (false, true) => Vacuum::All,
        (false, false) => Vacuum::Small,
    }
}
