//! The command line, resolved once into a complete value.

use std::time::Duration;

use pgdyno_dataset::Step;
use pgdyno_dataset::pgbench::{Method, Partitions, Persistence, Schema};
use pgdyno_engine::schedule::Arrivals;
use pgdyno_engine::spec::{Io, Limit, OnError, Sessions, Tries};
use pgdyno_script::QueryMode;

use crate::called_as::CalledAs;
use crate::getopt::{Found, Opt, parse};
use crate::help::{BENCHMARK, COMMON, INITIALIZE};
use crate::log_options::{LogChoice, LogOptions};
use crate::messages::Failure;
use crate::percentiles::Percentiles;

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// `--help`
    Help,
    /// `--version`
    Version,
    /// `-b list`
    ListBuiltins,
    /// `--show-script`
    ShowScript(String),
    /// `-i`
    Initialize(Initialize),
    /// Everything else.
    Benchmark(Box<Benchmark>),
}

/// How to reach the server, as far as the command line says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connection {
    /// Database or connection string.
    pub dbname: Option<String>,
    /// Keyword and value for each of -h, -p, -U.
    pub overrides: Vec<(&'static str, String)>,
}

/// Where events go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventSink {
    /// To a file of this name.
    File(String),
    /// To standard output; the summary goes to standard error.
    Stdout,
}

/// A load.
#[derive(Debug, Clone, PartialEq)]
pub struct Benchmark {
    /// How to reach the server.
    pub connection: Connection,
    /// What is run, in order.
    pub scripts: Vec<ScriptChoice>,
    /// -c
    pub clients: usize,
    /// -j, at most `clients`
    pub workers: usize,
    /// -t or -T
    pub limit: Limit,
    /// --warmup
    pub warmup: Duration,
    /// -M
    pub mode: QueryMode,
    /// -s, if given
    pub scale: Option<i64>,
    /// -D
    pub variables: Vec<(String, String)>,
    /// -R
    pub arrivals: Arrivals,
    /// -L
    pub latency_limit: Option<Duration>,
    /// --max-tries
    pub tries: Tries,
    /// What is vacuumed before.
    pub vacuum: Vacuum,
    /// -P, seconds
    pub progress_s: Option<u64>,
    /// --progress-timestamp
    pub progress_timestamp: bool,
    /// -l
    pub log: Option<LogChoice>,
    /// -r
    pub per_command: bool,
    /// --percentiles
    pub percentiles: Option<Percentiles>,
    /// --histogram, a file
    pub histogram: Option<String>,
    /// --json, a file
    pub json: Option<String>,
    /// --failures-detailed
    pub failures_detailed: bool,
    /// --verbose-errors
    pub verbose_errors: bool,
    /// --debug
    pub debug: bool,
    /// --continue-on-error
    pub on_error: OnError,
    /// -C
    pub sessions: Sessions,
    /// --exit-on-abort
    pub exit_on_abort: bool,
    /// --io
    pub io: Io,
    /// --random-seed
    pub seed: Seed,
    /// --events
    pub events: Option<EventSink>,
    /// --parent-lease
    pub parent_lease: bool,
    /// --check
    pub check: bool,
}

/// A script by name or file, with its weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptChoice {
    /// Where it comes from.
    pub origin: Origin,
    /// Its share.
    pub weight: u32,
}

/// Where a script comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Built in, by a prefix of its name.
    Builtin(String),
    /// A file; `-` is standard input.
    File(String),
}

/// What is vacuumed before a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vacuum {
    /// -n
    Nothing,
    /// Branches and tellers; history is emptied.
    Small,
    /// -v: accounts too.
    All,
}

/// Where random sequences come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seed {
    /// The clock; not said.
    Default,
    /// The clock.
    Time,
    /// The system's source of randomness.
    Strong,
    /// As given.
    Fixed(u64),
}

/// Making the dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initialize {
    /// How to reach the server.
    pub connection: Connection,
    /// -I, without what -n takes away and with what --foreign-keys adds
    pub steps: Vec<Step>,
    /// -s, -F, --unlogged-tables, and where tables lie and how they are divided
    pub schema: Schema,
    /// -q
    pub quiet: bool,
    /// --events
    pub events: Option<EventSink>,
    /// --parent-lease
    pub parent_lease: bool,
}

/// A usage error: with or without "Try --help".
#[derive(Debug)]
pub enum UsageError {
    /// Said by getopt.
    Getopt(String),
    /// Said by us.
    Failure(Failure),
}

impl From<Failure> for UsageError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// What was given, before it is resolved.
#[derive(Default)]
struct Given {
    called_as: CalledAs,
    connection: Connection,
    initialize: bool,
    benchmark_option: bool,
    initialize_option: bool,
    scripts: Vec<ScriptChoice>,
    clients: Option<i64>,
    workers: Option<i64>,
    transactions: Option<i64>,
    duration: Option<Duration>,
    warmup: Duration,
    mode: Option<QueryMode>,
    scale: Option<i64>,
    variables: Vec<(String, String)>,
    rate_per_s: Option<f64>,
    latency_limit: Option<Duration>,
    tries: Option<Tries>,
    no_vacuum: bool,
    vacuum_all: bool,
    progress_s: Option<u64>,
    progress_timestamp: bool,
    log: LogOptions,
    per_command: bool,
    percentiles: Option<Percentiles>,
    histogram: Option<String>,
    json: Option<String>,
    failures_detailed: bool,
    verbose_errors: bool,
    debug: bool,
    continue_on_error: bool,
    connect: bool,
    exit_on_abort: bool,
    io: Option<Io>,
    seed: Option<Seed>,
    events: Option<EventSink>,
    parent_lease: bool,
    check: bool,
    steps: Option<Vec<Step>>,
    fillfactor: Option<u32>,
    foreign_keys: bool,
    unlogged: bool,
    tablespace: Option<String>,
    index_tablespace: Option<String>,
    partitions: u32,
    partition_method: Option<Method>,
    quiet: bool,
}

/// Reads the command line (without the program's name).
///
/// # Errors
/// For the first thing that is wrong, in pgbench's words.
pub fn read(
    args: Vec<String>,
    environment_seed: Option<String>,
    called_as: CalledAs,
) -> Result<Request, UsageError> {
    match args.first().map(String::as_str) {
        Some("--help" | "-?") => return Ok(Request::Help),
        Some("--version" | "-V") => return Ok(Request::Version),
        _ => {}
    }
    let mut given = Given {
        called_as,
        ..Given::default()
    };
    if let Some(text) = environment_seed {
        let source = "PGBENCH_RANDOM_SEED environment variable";
        given.seed = Some(seed(&text, source)?);
    }
    let (found, complaint) = parse(&table(), args);
    let mut operands = Vec::new();
    for one in found {
        match one {
            Found::Option("show-script", name) => return Ok(Request::ShowScript(name)),
            Found::Option("builtin", name) if name == "list" => return Ok(Request::ListBuiltins),
            Found::Option("help", _) => return Ok(Request::Help),
            Found::Option("version", _) => return Ok(Request::Version),
            Found::Option(name, value) => take(&mut given, name, value)?,
            Found::Operand(text) => operands.push(text),
        }
    }
    if let Some(complaint) = complaint {
        return Err(UsageError::Getopt(complaint.to_string()));
    }
    resolve(given, operands)
}

/// All options.
#[must_use]
pub fn table() -> Vec<Opt> {
    let mut all: Vec<Opt> = Vec::new();
    for option in [INITIALIZE, BENCHMARK, COMMON].concat() {
        // -n stands in both parts of the help
        if !all.iter().any(|known| known.long == option.long) {
            all.push(option);
        }
    }
    all
}

fn take(given: &mut Given, name: &str, value: String) -> Result<(), Failure> {
    if INITIALIZE.iter().any(|option| option.long == name)
        && !matches!(name, "initialize" | "no-vacuum" | "scale")
    {
        given.initialize_option = true;
    }
    if BENCHMARK.iter().any(|option| option.long == name)
        && !matches!(
            name,
            "no-vacuum" | "scale" | "events" | "parent-lease" | "debug"
        )
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
        "partitions" => given.partitions = whole(&value, "--partitions", 0, I32)? as u32,
        "partition-method" => given.partition_method = Some(partition_method(&value)?),
        "quiet" => given.quiet = true,
        "builtin" => given.scripts.push(script(&value, Origin::Builtin)?),
        "file" => given.scripts.push(script(&value, Origin::File)?),
        "select-only" | "skip-some-updates" => given.scripts.push(shorthand(name)),
        "client" => given.clients = Some(whole(&value, "-c/--clients", 1, I32)?),
        "jobs" => given.workers = Some(whole(&value, "-j/--jobs", 1, I32)?),
        "transactions" => given.transactions = Some(whole(&value, "-t/--transactions", 1, I32)?),
        "time" if given.called_as == CalledAs::Pgbench => {
            let whole_s = whole(&value, "-T/--time", 1, I32)?;
            given.duration = Some(Duration::from_secs(whole_s as u64));
        }
        "time" => given.duration = Some(seconds(&value, "-T/--time")?),
        "warmup" => given.warmup = seconds_or_none(&value, "--warmup")?,
        "protocol" => given.mode = Some(protocol(&value)?),
        "scale" => given.scale = Some(whole(&value, "-s/--scale", 1, I32)?),
        "define" => given.variables.push(definition(&value)?),
        "rate" => given.rate_per_s = Some(positive(&value, "invalid rate limit")?),
        "latency-limit" => {
            let limit_ms = positive(&value, "invalid latency limit")?;
            given.latency_limit = Some(Duration::from_secs_f64(limit_ms / 1000.0));
        }
        "max-tries" => given.tries = Some(tries(&value)?),
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
        "sampling-rate" => given.log.sampling_rate = Some(sampling_rate(&value)?),
        "percentiles" => given.percentiles = Some(Percentiles::parse(&value)?),
        "histogram" => given.histogram = Some(value),
        "json" => given.json = Some(value),
        "verbose-errors" => given.verbose_errors = true,
        "debug" => given.debug = true,
        "continue-on-error" => given.continue_on_error = true,
        "connect" => given.connect = true,
        "failures-detailed" => given.failures_detailed = true,
        "exit-on-abort" => given.exit_on_abort = true,
        "io" => given.io = Some(io(&value)?),
        "random-seed" => given.seed = Some(seed(&value, "--random-seed option")?),
        "events" => {
            given.events = Some(if value == "-" {
                EventSink::Stdout
            } else {
                EventSink::File(value)
            })
        }
        "parent-lease" => given.parent_lease = true,
        "check" => given.check = true,
        "dbname" => given.connection.dbname = Some(value),
        "host" => given.connection.overrides.push(("host", value)),
        "port" => given.connection.overrides.push(("port", value)),
        "username" => given.connection.overrides.push(("user", value)),
        _ => unreachable!("every option of the table is taken: {name}"),
    }
    Ok(())
}

fn resolve(mut given: Given, operands: Vec<String>) -> Result<Request, UsageError> {
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
    if given.initialize {
        return Ok(Request::Initialize(initialize(given)?));
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
    Ok(Initialize {
        connection: given.connection,
        steps,
        schema: Schema {
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
        },
        quiet: given.quiet,
        events: given.events,
        parent_lease: given.parent_lease,
    })
}

fn benchmark(mut given: Given) -> Result<Benchmark, Failure> {
    if given.scripts.is_empty() {
        given.scripts.push(ScriptChoice {
            origin: Origin::Builtin("tpcb-like".to_owned()),
            weight: 1,
        });
    }
    if given.scripts.iter().all(|script| script.weight == 0) {
        return Err(Failure::new("total script weight must not be zero"));
    }
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
    let log = given.log.resolve(given.duration)?;
    if given.progress_timestamp && given.progress_s.is_none() {
        return Err(Failure::new(
            "--progress-timestamp is allowed only under --progress",
        ));
    }
    let tries = given.tries.unwrap_or(Tries::AtMost(1));
    if tries == Tries::Unlimited && given.latency_limit.is_none() && given.duration.is_none() {
        return Err(Failure::new(
            "an unlimited number of transaction tries can only be used with --latency-limit or a duration (-T)",
        ));
    }
    let clients = given.clients.unwrap_or(1) as usize;
    Ok(Benchmark {
        connection: given.connection,
        scripts: given.scripts,
        clients,
        workers: (given.workers.unwrap_or(1) as usize).min(clients),
        limit,
        warmup: given.warmup,
        mode: given.mode.unwrap_or(QueryMode::Simple),
        scale: given.scale,
        variables: given.variables,
        arrivals: given
            .rate_per_s
            .map_or(Arrivals::Closed, |rate_per_s| Arrivals::Poisson {
                rate_per_s,
            }),
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
        parent_lease: given.parent_lease,
        check: given.check,
    })
}

// -- values ------------------------------------------------------------------------------------

const I32: i64 = i32::MAX as i64;

fn whole(text: &str, option: &str, least: i64, most: i64) -> Result<i64, Failure> {
    let value: i64 = text
        .trim()
        .parse()
        .map_err(|_| Failure::new(format!("invalid value \"{text}\" for option {option}")))?;
    if value < least || value > most {
        return Err(Failure::new(format!(
            "{option} must be in range {least}..{most}"
        )));
    }
    Ok(value)
}

/// Whole seconds as pgbench has them, or decimals, which it refuses.
fn seconds(text: &str, option: &str) -> Result<Duration, Failure> {
    let duration = seconds_or_none(text, option)?;
    if duration.is_zero() {
        return Err(Failure::new(format!("{option} must be in range 1..{I32}")));
    }
    Ok(duration)
}

fn seconds_or_none(text: &str, option: &str) -> Result<Duration, Failure> {
    let invalid = || Failure::new(format!("invalid value \"{text}\" for option {option}"));
    let seconds: f64 = text.trim().parse().map_err(|_| invalid())?;
    if seconds < 0.0 || seconds > I32 as f64 {
        return Err(Failure::new(format!("{option} must be in range 1..{I32}")));
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| invalid())
}

fn positive(text: &str, complaint: &str) -> Result<f64, Failure> {
    match text.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err(Failure::new(format!("{complaint}: \"{text}\""))),
    }
}

fn sampling_rate(text: &str) -> Result<f64, Failure> {
    let complaint = "invalid sampling rate";
    let rate = positive(text, complaint)?;
    if rate > 1.0 {
        return Err(Failure::new(format!("{complaint}: \"{text}\"")));
    }
    Ok(rate)
}

fn protocol(text: &str) -> Result<QueryMode, Failure> {
    match text {
        "simple" => Ok(QueryMode::Simple),
        "extended" => Ok(QueryMode::Extended),
        "prepared" => Ok(QueryMode::Prepared),
        _ => Err(Failure::new(format!("invalid query mode (-M): \"{text}\""))),
    }
}

fn io(text: &str) -> Result<Io, Failure> {
    match text {
        "auto" => Ok(Io::Auto),
        "epoll" => Ok(Io::Epoll),
        "io_uring" => Ok(Io::IoUring),
        _ => Err(
            Failure::new(format!("invalid I/O method (--io): \"{text}\""))
                .hint("Valid methods are \"auto\", \"epoll\" and \"io_uring\"."),
        ),
    }
}

fn tries(text: &str) -> Result<Tries, Failure> {
    match text.trim().parse::<u32>() {
        Ok(0) => Ok(Tries::Unlimited),
        Ok(most) => Ok(Tries::AtMost(most)),
        Err(_) => Err(Failure::new(format!(
            "invalid number of maximum tries: \"{text}\""
        ))),
    }
}

fn definition(text: &str) -> Result<(String, String), Failure> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(Failure::new(format!(
            "invalid variable definition: \"{text}\""
        ))),
    }
}

fn script(text: &str, origin: fn(String) -> Origin) -> Result<ScriptChoice, Failure> {
    let Some((name, weight)) = text.rsplit_once('@') else {
        return Ok(ScriptChoice {
            origin: origin(text.to_owned()),
            weight: 1,
        });
    };
    let number: i64 = weight
        .parse()
        .map_err(|_| Failure::new(format!("invalid weight specification: @{weight}")))?;
    let weight = u32::try_from(number)
        .ok()
        .filter(|&weight| i64::from(weight) <= I32)
        .ok_or_else(|| {
            Failure::new(format!(
                "weight specification out of range (0 .. {I32}): {number}"
            ))
        })?;
    Ok(ScriptChoice {
        origin: origin(name.to_owned()),
        weight,
    })
}

fn shorthand(option: &str) -> ScriptChoice {
    let name = if option == "select-only" {
        "select-only"
    } else {
        "simple-update"
    };
    ScriptChoice {
        origin: Origin::Builtin(name.to_owned()),
        weight: 1,
    }
}

fn seed(text: &str, source: &str) -> Result<Seed, Failure> {
    match text {
        "time" => Ok(Seed::Time),
        "rand" => Ok(Seed::Strong),
        _ => text.parse().map(Seed::Fixed).map_err(|_| {
            Failure::new(format!("unrecognized random seed option \"{text}\""))
                .detail("Expecting an unsigned integer, \"time\" or \"rand\".")
                .also(format!("error while setting random seed from {source}"))
        }),
    }
}

fn steps(text: &str) -> Result<Vec<Step>, Failure> {
    if text.is_empty() {
        return Err(Failure::new("no initialization steps specified"));
    }
    let letters = text.chars().filter(|letter| *letter != ' ');
    let step = |letter| {
        Step::from_letter(letter).ok_or_else(|| {
            let failure = Failure::new(format!("unrecognized initialization step \"{letter}\""));
            let allowed = pgdyno_dataset::STEPS;
            failure.detail(format!("Allowed step characters are: \"{allowed}\"."))
        })
    };
    letters.map(step).collect()
}

fn partition_method(text: &str) -> Result<Method, Failure> {
    let methods = [Method::Range, Method::Hash];
    let method = methods
        .into_iter()
        .find(|method| text.eq_ignore_ascii_case(method.name()));
    method.ok_or_else(|| {
        Failure::new(format!(
            "invalid partition method, expecting \"range\" or \"hash\", got: \"{text}\""
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgdyno_engine::log::Detail;

    fn request(args: &[&str]) -> Result<Request, String> {
        request_as(CalledAs::Pgdrive, args)
    }

    fn request_as(called_as: CalledAs, args: &[&str]) -> Result<Request, String> {
        let args = args.iter().map(ToString::to_string).collect();
        read(args, None, called_as).map_err(|error| match error {
            UsageError::Getopt(text) => text,
            UsageError::Failure(failure) => failure.message,
        })
    }

    #[test]
    fn pgbench_takes_whole_seconds_only() {
        assert_eq!(
            load(&["-T", "2.5"]).limit,
            Limit::Duration(Duration::from_millis(2500))
        );
        assert_eq!(
            request_as(CalledAs::Pgbench, &["-T", "2.5"]),
            Err("invalid value \"2.5\" for option -T/--time".to_owned())
        );
    }

    #[test]
    fn logs_are_resolved() {
        let log = load(&["-l", "--log-prefix=x", "--aggregate-interval=2", "-T", "4"]).log;
        let expected = LogChoice {
            prefix: "x".into(),
            detail: Detail::Interval { length_s: 2 },
        };
        assert_eq!(log, Some(expected));
        let plain = LogChoice {
            prefix: "pgbench_log".into(),
            detail: Detail::Transaction { sampling_rate: 1.0 },
        };
        assert_eq!(load(&["--log"]).log, Some(plain));
        assert_eq!(load(&[]).log, None);
    }

    fn load(args: &[&str]) -> Benchmark {
        match request(args) {
            Ok(Request::Benchmark(benchmark)) => *benchmark,
            other => panic!("not a benchmark: {other:?}"),
        }
    }

    #[test]
    fn defaults_are_pgbenchs() {
        let load = load(&[]);
        assert_eq!(
            (load.clients, load.workers, load.limit),
            (1, 1, Limit::Transactions(10))
        );
        assert_eq!(load.scripts[0].origin, Origin::Builtin("tpcb-like".into()));
        assert_eq!(
            (load.mode, load.tries, load.vacuum),
            (QueryMode::Simple, Tries::AtMost(1), Vacuum::Small)
        );
    }

    #[test]
    fn a_usual_line() {
        let load = load(&[
            "-c64",
            "-j",
            "100",
            "-T",
            "30",
            "-M",
            "prepared",
            "-S",
            "-f",
            "a@b.sql@3",
            "bench",
        ]);
        assert_eq!((load.clients, load.workers), (64, 64));
        assert_eq!(load.limit, Limit::Duration(Duration::from_secs(30)));
        assert_eq!(
            load.scripts[1],
            ScriptChoice {
                origin: Origin::File("a@b.sql".into()),
                weight: 3
            }
        );
        assert_eq!(load.connection.dbname.as_deref(), Some("bench"));
    }

    #[test]
    fn complaints_are_pgbenchs() {
        for (args, complaint) in [
            (
                &["-c", "0"][..],
                "-c/--clients must be in range 1..2147483647",
            ),
            (&["-c", "x"], "invalid value \"x\" for option -c/--clients"),
            (&["-M", "odd"], "invalid query mode (-M): \"odd\""),
            (
                &["-t1", "-T1"],
                "specify either a number of transactions (-t) or a duration (-T), not both",
            ),
            (&["-D", "x"], "invalid variable definition: \"x\""),
            (&["--io", "poll"], "invalid I/O method (--io): \"poll\""),
            (&["-f", "a@x"], "invalid weight specification: @x"),
            (&["-b", "s@0"], "total script weight must not be zero"),
            (
                &["-i", "-S"],
                "some of the specified options cannot be used in initialization (-i) mode",
            ),
            (
                &["-F", "50"],
                "some of the specified options cannot be used in benchmarking mode",
            ),
            (
                &["a", "b"],
                "too many command-line arguments (first is \"b\")",
            ),
            (
                &["-i", "-I", "dx"],
                "unrecognized initialization step \"x\"",
            ),
            (&["-i", "-I", ""], "no initialization steps specified"),
            (
                &["-i", "--partition-method=hash"],
                "--partition-method requires greater than zero --partitions",
            ),
            (
                &["-i", "--partition-method=list"],
                "invalid partition method, expecting \"range\" or \"hash\", got: \"list\"",
            ),
            (
                &["-i", "--partitions=-1"],
                "--partitions must be in range 0..2147483647",
            ),
            (
                &["--foreign-keys"],
                "some of the specified options cannot be used in benchmarking mode",
            ),
            (
                &["--max-tries=0"],
                "an unlimited number of transaction tries can only be used with --latency-limit or a duration (-T)",
            ),
            (&["-L", "-1"], "invalid latency limit: \"-1\""),
            (
                &["--sampling-rate=0.5"],
                "log sampling (--sampling-rate) is allowed only when logging transactions (-l)",
            ),
            (
                &["-l", "--sampling-rate=1.1"],
                "invalid sampling rate: \"1.1\"",
            ),
            (
                &["-l", "--sampling-rate=1", "--aggregate-interval=1"],
                "log sampling (--sampling-rate) and aggregation (--aggregate-interval) cannot be used at the same time",
            ),
            (
                &["--aggregate-interval=1"],
                "log aggregation is allowed only when actually logging transactions",
            ),
            (
                &["--log-prefix=x"],
                "log file prefix (--log-prefix) is allowed only when logging transactions (-l)",
            ),
            (
                &["-l", "--aggregate-interval=6", "-T5"],
                "number of seconds for aggregation (6) must not be higher than test duration (5)",
            ),
            (
                &["-l", "--aggregate-interval=2", "-T5"],
                "duration (5) must be a multiple of aggregation interval (2)",
            ),
            (
                &["--progress-timestamp"],
                "--progress-timestamp is allowed only under --progress",
            ),
        ] {
            assert_eq!(request(args), Err(complaint.to_owned()), "{args:?}");
        }
    }

    fn init(args: &[&str]) -> Initialize {
        match request(&[&["-i"], args].concat()) {
            Ok(Request::Initialize(init)) => init,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn steps_of_initialization_are_resolved() {
        use Step::{CreateTables, Drop, ForeignKeys, GenerateHere, PrimaryKeys, Vacuum};
        for (args, steps) in [
            (
                &[][..],
                &[Drop, CreateTables, GenerateHere, Vacuum, PrimaryKeys][..],
            ),
            (&["-n"], &[Drop, CreateTables, GenerateHere, PrimaryKeys]),
            (&["-n", "-I", "v d v "], &[Drop]),
            (&["-I", " "], &[]),
            (&["-I", "pf", "--foreign-keys"], &[PrimaryKeys, ForeignKeys]),
            (
                &["-I", "dv", "--foreign-keys"],
                &[Drop, Vacuum, ForeignKeys],
            ),
        ] {
            assert_eq!(init(args).steps, steps, "{args:?}");
        }
    }

    #[test]
    fn the_schema_is_complete() {
        let plain = Schema {
            scale: 1,
            fillfactor: 100,
            persistence: Persistence::Logged,
            partitions: None,
            tablespace: None,
            index_tablespace: None,
        };
        assert_eq!(init(&[]).schema, plain);
        let by = |method, count| Some(Partitions { method, count });
        let partitions = |args: &[&str]| init(args).schema.partitions;
        assert_eq!(partitions(&["--partitions=0"]), None);
        assert_eq!(partitions(&["--partitions=4"]), by(Method::Range, 4));
        assert_eq!(
            partitions(&["--partitions=4", "--partition-method=HASH"]),
            by(Method::Hash, 4)
        );
        let all = [
            "-s7",
            "-F50",
            "--unlogged-tables",
            "--tablespace=a",
            "--index-tablespace=b",
        ];
        let expected = Schema {
            scale: 7,
            fillfactor: 50,
            persistence: Persistence::Unlogged,
            partitions: None,
            tablespace: Some("a".into()),
            index_tablespace: Some("b".into()),
        };
        assert_eq!(init(&all).schema, expected);
    }
}
