//! The values of a load's options, and their defaults.

use std::time::Duration;

use pgdyno_engine::load_share::LoadShare;
use pgdyno_engine::phases::Phases;
use pgdyno_engine::schedule::{Arrivals, Spacing};
use pgdyno_engine::spec::{Io, Limit, OnError, OnLoss, Pipelining, Sessions, Tries};
use pgdyno_script::QueryMode;

use super::log_options::{LogChoice, LogOptions};
use super::lua_options::{Check, LuaChoice, LuaOptions};
use super::option_values::{Connection, EventSink, Information, ScriptChoice, Seed, Vacuum};
use super::pause_options::PacingChoice;
use super::query_choice::QueriesChoice;
use super::reconnect_option::Patience;
use super::replay_options::{ReplayChoice, ReplayOptions};
use super::tpcc_options::TpccLoad;
use crate::percentiles::Percentiles;
use crate::worker_options::{BUSY_SHARE, Workers};

#[derive(Debug, Clone, PartialEq, Default)]
pub enum WorkloadChoice {
    #[default]
    Scripts,
    Lua(LuaChoice),
    Replay(ReplayChoice),
    Tpcc(TpccLoad),
    Tpch,
    Queries(QueriesChoice),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Benchmark {
    pub connection: Connection,
    pub scripts: Vec<ScriptChoice>,
    pub workload: WorkloadChoice,
    pub clients: usize,
    pub workers: Workers,
    /// --worker-busy, a share of a core
    pub busy_share: f64,
    pub limit: Limit,
    pub drain_limit: Option<Duration>,
    pub warmup: Duration,
    pub mode: QueryMode,
    pub pipelining: Pipelining,
    pub scale: Option<i64>,
    pub variables: Vec<(String, String)>,
    pub arrivals: Arrivals,
    pub pacing: PacingChoice,
    pub spacing: Option<Spacing>,
    /// --timer-tick; zero for exact timers
    pub timer_tick: Duration,
    pub phases_file: Option<String>,
    /// The contents of that file, from which limit and arrivals follow: see `phases_file::apply`.
    pub phases: Option<Phases>,
    pub latency_limit: Option<Duration>,
    pub tries: Tries,
    pub vacuum: Vacuum,
    pub progress_s: Option<u64>,
    pub progress_timestamp: bool,
    pub log: Option<LogChoice>,
    pub per_command: bool,
    pub percentiles: Option<Percentiles>,
    pub histogram: Option<String>,
    pub json: Option<String>,
    pub failures_detailed: bool,
    pub verbose_errors: bool,
    pub debug: bool,
    pub on_error: OnError,
    pub on_loss: OnLoss,
    pub ledger: bool,
    pub sessions: Sessions,
    pub exit_on_abort: bool,
    pub io: Io,
    pub seed: Seed,
    pub events: Option<EventSink>,
    pub parent_lease: bool,
    pub lease: Option<Duration>,
    /// --part; `clients` are those of this share
    pub part: Option<LoadShare>,
    pub await_start: bool,
    pub check: Option<Check>,
}

impl Default for Benchmark {
    /// A load without options, as in pgbench.
    fn default() -> Self {
        Self {
            connection: Connection::default(),
            scripts: Vec::new(),
            workload: WorkloadChoice::Scripts,
            clients: 1,
            workers: Workers::Fixed(1),
            busy_share: BUSY_SHARE,
            limit: Limit::Transactions(10),
            drain_limit: None,
            warmup: Duration::ZERO,
            mode: QueryMode::Simple,
            pipelining: Pipelining::Explicit,
            scale: None,
            variables: Vec::new(),
            arrivals: Arrivals::Closed,
            pacing: PacingChoice::default(),
            spacing: None,
            timer_tick: Duration::ZERO,
            phases_file: None,
            phases: None,
            latency_limit: None,
            tries: Tries::AtMost(1),
            vacuum: Vacuum::Small,
            progress_s: None,
            progress_timestamp: false,
            log: None,
            per_command: false,
            percentiles: None,
            histogram: None,
            json: None,
            failures_detailed: false,
            verbose_errors: false,
            debug: false,
            on_error: OnError::Abort,
            on_loss: OnLoss::Abort,
            ledger: false,
            sessions: Sessions::Kept,
            exit_on_abort: false,
            io: Io::Auto,
            seed: Seed::Default,
            events: None,
            parent_lease: false,
            lease: None,
            part: None,
            await_start: false,
            check: None,
        }
    }
}

/// The options that were given: most are stored in the load directly, and the others are resolved
/// together.
#[derive(Default)]
pub(super) struct BenchmarkOptions {
    pub load: Benchmark,
    pub information: Option<Information>,
    pub jobs: Option<usize>,
    pub max_workers: Option<usize>,
    pub transactions: Option<u64>,
    pub duration: Option<Duration>,
    pub rate_per_s: Option<f64>,
    pub tries: Option<Tries>,
    pub no_vacuum: bool,
    pub vacuum_all: bool,
    pub log: LogOptions,
    pub reconnect: Option<Patience>,
    pub counts_refusals: bool,
    /// Number of this generator, from 0, and how many there are.
    pub part: Option<(usize, usize)>,
    pub lua: LuaOptions,
    pub replay: ReplayOptions,
    pub tpcc: bool,
    pub tpch: bool,
    pub queries: bool,
    pub changed_texts: bool,
}
