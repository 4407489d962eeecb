//! The command line, resolved once into a complete value.

mod given;
mod load;
mod lua;
pub mod pacing;
mod reconnect;
#[cfg(test)]
mod tests;
mod tpcc;
mod values;

use std::time::Duration;

use pgdyno_dataset::{Step, Way};
use pgdyno_engine::part::Part;
use pgdyno_engine::phases::Phases;
use pgdyno_engine::schedule::{Arrivals, Spacing};
use pgdyno_engine::spec::{Io, Limit, OnError, OnLoss, Pipelining, Sessions, Tries};
use pgdyno_script::QueryMode;

use crate::called_as::CalledAs;
use crate::getopt::{Found, Opt, parse};
use crate::help::{BENCHMARK, COMMON, INITIALIZE, TPCC, is_known_as};
use crate::log_options::LogChoice;
use crate::messages::Failure;
use crate::percentiles::Percentiles;
use crate::workers::Workers;
use given::{Given, resolve, take};
pub use load::DatasetChoice;
pub use lua::{Check, LuaChoice, LuaSource};
pub use pacing::PacingChoice;
pub use reconnect::is_patience;
pub use tpcc::{TpccCheck, TpccLoad};
use values::seed;

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
    Initialize(Box<Initialize>),
    /// `--tpcc-check` without `-i`
    TpccCheck(TpccCheck),
    /// Everything else.
    Benchmark(Box<Benchmark>),
}

/// How to reach the server, as far as the command line says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connection {
    /// Database or connection string.
    pub dbname: Option<String>,
    /// Keyword and value for each of -h, -p, -U, and before them of a Lua script's pgsql-... options.
    pub overrides: Vec<(&'static str, String)>,
    /// --scram-cache
    pub scram_keys: ScramKeys,
}

/// What becomes of the keys that SCRAM derives from a password.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ScramKeys {
    /// They are kept for the next connection.
    #[default]
    Kept,
    /// Every connection derives them, as with libpq.
    Derived,
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
    /// --workload=tpcc
    pub tpcc: Option<TpccLoad>,
    /// -c
    pub clients: usize,
    /// -j, --max-workers
    pub workers: Workers,
    /// --worker-busy, a share of a core
    pub busy_share: f64,
    /// -t or -T
    pub limit: Limit,
    /// --drain-limit
    pub drain_limit: Option<Duration>,
    /// --warmup
    pub warmup: Duration,
    /// -M
    pub mode: QueryMode,
    /// --auto-pipeline
    pub pipelining: Pipelining,
    /// -s, if given
    pub scale: Option<i64>,
    /// -D
    pub variables: Vec<(String, String)>,
    /// -R
    pub arrivals: Arrivals,
    /// --keying-time, --think-time
    pub pacing: PacingChoice,
    /// --arrivals, if given
    pub spacing: Option<Spacing>,
    /// --timer-tick; zero for exact timers
    pub timer_tick: Duration,
    /// --phases, a file
    pub phases_file: Option<String>,
    /// What that file says; limit and arrivals follow from it: see [`crate::phases_file::apply`].
    pub phases: Option<Phases>,
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
    /// --reconnect
    pub on_loss: OnLoss,
    /// --ledger
    pub ledger: bool,
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
    /// --parent-lease, --lease
    pub parent_lease: bool,
    /// --lease
    pub lease: Option<Duration>,
    /// --part; `clients` are those of the part
    pub part: Option<Part>,
    /// --await-start
    pub await_start: bool,
    /// --check
    pub check: Option<Check>,
    /// --lua, --workload
    pub lua: Option<LuaChoice>,
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
    /// A Lua script, or a workload of our own: see [`Benchmark::lua`].
    Lua(String),
    /// Decided while it runs: only its name and those of its statements are known.
    Driven {
        /// Of the script.
        name: String,
        /// What its statements are called.
        commands: Vec<String>,
    },
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
    /// --dataset; for pgbench's with -s, -F, --unlogged-tables, and where tables lie and how they
    /// are divided
    pub dataset: DatasetChoice,
    /// --load-workers, --load-chunk, --resume
    pub way: Way,
    /// -q
    pub quiet: bool,
    /// --tpcc-check
    pub check: Option<TpccCheck>,
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
    let (found, complaint) = parse(&table(called_as), args);
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

/// All options that the program has under this name.
#[must_use]
pub fn table(called_as: CalledAs) -> Vec<Opt> {
    let mut all: Vec<Opt> = Vec::new();
    for option in [INITIALIZE, BENCHMARK, TPCC, COMMON].concat() {
        // -n stands in both parts of the help
        let is_new = !all.iter().any(|known| known.long == option.long);
        if is_new && is_known_as(called_as, &option) {
            all.push(option);
        }
    }
    all
}
