//! Options of a load. A row, the field that it sets and the default stand together here, which makes
//! the file long and a new option short.

use std::time::Duration;

use pgdyno_engine::load_share::LoadShare;
use pgdyno_engine::phases::Phases;
use pgdyno_engine::schedule::{Arrivals, Spacing};
use pgdyno_engine::spec::{Io, Limit, OnError, OnLoss, Pipelining, Sessions, Tries};
use pgdyno_engine::worker_count::BUSY_SHARE;
use pgdyno_script::QueryMode;

use super::log_options::{LogChoice, LogOptions};
use super::lua_options::{Check, LuaChoice, LuaOptions, LuaSource, script_option};
use super::option_row::{Conflict, Partner, Row};
use super::option_values::{
    Connection, EventSink, I32, Information, Origin, ScriptChoice, Seed, Vacuum, definition, io,
    latency_limit, part, protocol, rate_per_s, sampling_rate, script, seed, spacing, timer_tick,
    tries,
};
use super::pause_options::{PacingChoice, PauseChoice};
use super::reconnect_option::{Patience, is_patience};
use super::tpcc_options::TpccLoad;
use crate::called_as::CalledAs;
use crate::getopt::no_word;
use crate::percentiles::{self, Percentiles};
use crate::worker_options::Workers;

#[derive(Debug, Clone, PartialEq)]
pub struct Benchmark {
    /// How to reach the server.
    pub connection: Connection,
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
    /// The contents of that file, from which limit and arrivals follow: see `phases_file::apply`.
    pub phases: Option<Phases>,
    /// -L
    pub latency_limit: Option<Duration>,
    /// --max-tries
    pub tries: Tries,
    /// Which tables are vacuumed before the load.
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
    /// --part; `clients` are those of this share
    pub part: Option<LoadShare>,
    /// --await-start
    pub await_start: bool,
    /// --check
    pub check: Option<Check>,
    /// --lua, --workload
    pub lua: Option<LuaChoice>,
}

impl Default for Benchmark {
    /// A load without options, as in pgbench.
    fn default() -> Self {
        Self {
            connection: Connection::default(),
            scripts: Vec::new(),
            tpcc: None,
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
            lua: None,
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
    /// Number of this generator, from 0, and how many there are.
    pub part: Option<(usize, usize)>,
    pub lua: LuaOptions,
    /// --workload=tpcc
    pub tpcc: bool,
}

const SCRIPTS: Conflict<BenchmarkOptions> =
    Conflict::new(Partner::Lua, "A Lua script is the only script of its load.")
        .called("-f/--file and -b/--builtin");
const PAUSES: Conflict<BenchmarkOptions> = Conflict::new(
    Partner::Phases,
    "phases say how many clients are in use, or a rate",
)
.called("--keying-time and --think-time");

const fn row(long: &'static str, help: &'static str) -> Row<BenchmarkOptions> {
    Row::new(long, help)
}

pub(super) const ROWS: &[Row<BenchmarkOptions>] = &[
    row(
        "builtin",
        "add builtin script NAME weighted at W (default: 1)\n\
         (use \"-b list\" to list available scripts)",
    )
    .short('b')
    .takes("NAME[@W]")
    .set(|given, value| {
        if value.text == "list" {
            given.information = Some(Information::Builtins);
        } else {
            given
                .load
                .scripts
                .push(script(value.text, Origin::Builtin)?);
        }
        Ok(())
    })
    .not_with(SCRIPTS),
    row("file", "add script FILENAME weighted at W (default: 1)")
        .short('f')
        .takes("FILENAME[@W]")
        .set(|given, value| {
            given.load.scripts.push(script(value.text, Origin::File)?);
            Ok(())
        })
        .not_with(SCRIPTS),
    row(
        "skip-some-updates",
        "skip updates of pgbench_tellers and pgbench_branches\n\
         (same as \"-b simple-update\")",
    )
    .short('N')
    .call(|given| {
        given
            .load
            .scripts
            .push(ScriptChoice::builtin("simple-update"))
    })
    .not_with(SCRIPTS),
    row(
        "select-only",
        "perform SELECT-only transactions\n\
         (same as \"-b select-only\")",
    )
    .short('S')
    .call(|given| {
        given
            .load
            .scripts
            .push(ScriptChoice::builtin("select-only"))
    })
    .not_with(SCRIPTS),
    row(
        "client",
        "number of concurrent database clients (default: 1)",
    )
    .short('c')
    .takes("NUM")
    .set(|given, value| {
        given.load.clients = value.integer(1, I32)? as usize;
        Ok(())
    }),
    row("connect", "establish new connection for each transaction")
        .short('C')
        .call(|given| given.load.sessions = Sessions::PerTransaction),
    row("define", "define variable for use by custom script")
        .short('D')
        .takes("VARNAME=VALUE")
        .set(|given, value| {
            given.load.variables.push(definition(value.text)?);
            Ok(())
        })
        .not_with(Conflict::new(
            Partner::Lua,
            "Give options of the script with --lua-opt NAME=VALUE.",
        )),
    row(
        "jobs",
        "number of threads (default: automatic; 1 under the\n\
         name pgbench)",
    )
    .short('j')
    .takes("NUM")
    .set(|given, value| {
        given.jobs = Some(value.integer(1, I32)? as usize);
        Ok(())
    }),
    row("log", "write transaction times to log file")
        .short('l')
        .flag(|given| &mut given.log.wanted),
    row(
        "latency-limit",
        "count transactions lasting more than NUM ms as late",
    )
    .short('L')
    .takes("NUM")
    .set(|given, value| {
        given.load.latency_limit = Some(latency_limit(value)?);
        Ok(())
    }),
    row(
        "protocol",
        "protocol for submitting queries (default: simple)",
    )
    .short('M')
    .takes("simple|extended|prepared")
    .set(|given, value| {
        given.load.mode = protocol(value.text)?;
        Ok(())
    })
    .not_with(Conflict::new(
        Partner::Lua,
        "The script decides which statements are prepared.",
    )),
    row("no-vacuum", "do not run VACUUM before tests")
        .short('n')
        .flag(|given| &mut given.no_vacuum)
        .in_any_mode(),
    row("progress", "show thread progress report every NUM seconds")
        .short('P')
        .takes("NUM")
        .set(|given, value| {
            given.load.progress_s = Some(value.integer(1, I32)? as u64);
            Ok(())
        }),
    row(
        "report-per-command",
        "report latencies, failures, and retries per command",
    )
    .short('r')
    .flag(|given| &mut given.load.per_command),
    row("rate", "target rate in transactions per second")
        .short('R')
        .takes("NUM")
        .set(|given, value| {
            given.rate_per_s = Some(rate_per_s(value)?);
            Ok(())
        })
        .not_with(Conflict::new(
            Partner::Phases,
            "give each phase its rate in the file",
        )),
    row(
        "scale",
        "scaling factor: with -i, of the tables; otherwise\n\
         reported for custom scripts",
    )
    .short('s')
    .takes("NUM")
    .set(|given, value| {
        given.load.scale = Some(value.integer(1, I32)?);
        Ok(())
    })
    .in_any_mode(),
    row(
        "transactions",
        "number of transactions each client runs (default: 10)",
    )
    .short('t')
    .takes("NUM")
    .set(|given, value| {
        given.transactions = Some(value.integer(1, I32)? as u64);
        Ok(())
    })
    .not_with(Conflict::new(
        Partner::Phases,
        "the duration of the run is the sum of its phases",
    )),
    row("time", "duration of benchmark test in seconds")
        .short('T')
        .takes("NUM")
        .set(|given, value| {
            given.duration = Some(match value.called_as {
                CalledAs::Pgbench => Duration::from_secs(value.integer(1, I32)? as u64),
                CalledAs::Pgdrive => value.seconds()?,
            });
            Ok(())
        })
        .not_with(Conflict::new(
            Partner::Phases,
            "the duration of the run is the sum of its phases",
        )),
    row("vacuum-all", "vacuum all four standard tables before tests")
        .short('v')
        .flag(|given| &mut given.vacuum_all),
    row("aggregate-interval", "aggregate data over NUM seconds")
        .takes("NUM")
        .set(|given, value| {
            given.log.interval_s = Some(value.integer(1, I32)? as u64);
            Ok(())
        }),
    row("continue-on-error", "continue running after an SQL error")
        .call(|given| given.load.on_error = OnError::Continue),
    row("exit-on-abort", "exit when any client is aborted")
        .flag(|given| &mut given.load.exit_on_abort),
    row(
        "failures-detailed",
        "report the failures grouped by basic types",
    )
    .flag(|given| &mut given.load.failures_detailed),
    row(
        "log-prefix",
        "prefix for transaction time log file\n\
         (default: \"pgbench_log\")",
    )
    .takes("PREFIX")
    .text(|given| &mut given.log.prefix),
    row(
        "max-tries",
        "max number of tries to run transaction (default: 1)",
    )
    .takes("NUM")
    .set(|given, value| {
        given.tries = Some(tries(value)?);
        Ok(())
    }),
    row(
        "progress-timestamp",
        "use Unix epoch timestamps for progress",
    )
    .flag(|given| &mut given.load.progress_timestamp),
    row(
        "random-seed",
        "set random seed (\"time\", \"rand\", integer)",
    )
    .takes("SEED")
    .set(|given, value| {
        given.load.seed = seed(value.text, "--random-seed option")?;
        Ok(())
    })
    .in_any_mode_of_pgdrive(),
    row(
        "sampling-rate",
        "fraction of transactions to log (e.g., 0.01 for 1%)",
    )
    .takes("NUM")
    .set(|given, value| {
        given.log.sampling_rate = Some(sampling_rate(value)?);
        Ok(())
    }),
    row("show-script", "show builtin script code, then exit")
        .takes("NAME")
        .set(|given, value| {
            given.information = Some(Information::Script(value.text.to_owned()));
            Ok(())
        }),
    row("verbose-errors", "print messages of all errors")
        .flag(|given| &mut given.load.verbose_errors),
    row(
        "percentiles",
        "show latency percentiles (default:\n\
         50,90,95,99,99.9,99.99), with -r also per statement",
    )
    .may_take("[=LIST]", percentiles::is_list)
    .set(|given, value| {
        given.load.percentiles = Some(Percentiles::parse(value.text)?);
        Ok(())
    }),
    row(
        "histogram",
        "write an HdrHistogram interval log, a line per second",
    )
    .takes("FILE")
    .text(|given| &mut given.load.histogram),
    row(
        "lua",
        "run a Lua script of sysbench: a file, or the name of\n\
         an installed one (oltp_read_write)",
    )
    .takes("SCRIPT")
    .set(|given, value| {
        given.lua.add(LuaSource::File(value.text.to_owned()));
        Ok(())
    })
    .not_in_pgbench(),
    row(
        "lua-command",
        "run (default), prepare, cleanup, prewarm, help or\n\
         a command of the script",
    )
    .takes("COMMAND")
    .text(|given| &mut given.lua.command)
    .not_in_pgbench(),
    row("lua-opt", "set an option of the script")
        .takes("NAME=VALUE")
        .set(|given, value| {
            given.lua.options.push(script_option(value.text)?);
            Ok(())
        })
        .not_in_pgbench(),
    row(
        "allow-lua-system",
        "trust the Lua script: let it start programs, write\n\
         files and call C",
    )
    .flag(|given| &mut given.lua.allows_system)
    .not_in_pgbench(),
    row(
        "workload",
        "run a workload of sysbench on dataset sbtest\n\
         (oltp-read-write, oltp-point-select...; with --tables\n\
         and --table-size), or tpcc: see TPC-C options",
    )
    .takes("NAME")
    .set(|given, value| {
        match value.text {
            "tpcc" => given.tpcc = true,
            name => given.lua.add(LuaSource::Workload(name.to_owned())),
        }
        Ok(())
    })
    .not_in_pgbench(),
    row("json", "write the results to FILE as a JSON object")
        .takes("FILE")
        .text(|given| &mut given.load.json),
    row("warmup", "run the load this long before measuring begins")
        .takes("SECONDS")
        .set(|given, value| {
            given.load.warmup = value.seconds_or_zero()?;
            Ok(())
        })
        .not_with(
            Conflict::new(Partner::Phases, "put a phase with result = false first")
                .unless(|given| given.load.warmup.is_zero()),
        ),
    row(
        "auto-pipeline",
        "send statements that need no earlier result in one\n\
         round trip",
    )
    .call(|given| given.load.pipelining = Pipelining::Auto)
    .not_with(Conflict::new(
        Partner::Lua,
        "A Lua script waits for every answer.",
    ))
    .not_in_pgbench(),
    row(
        "keying-time",
        "pause before every transaction (100ms, 2s, fixed:2s,\n\
         exponential:12s), of all scripts or one by name or\n\
         number; latency counts from its end",
    )
    .takes("[SCRIPT=]TIME")
    .set(|given, value| {
        given
            .load
            .pacing
            .keying
            .push(PauseChoice::parse(value.text, "--keying-time")?);
        Ok(())
    })
    .not_with(PAUSES)
    .not_in_pgbench(),
    row(
        "think-time",
        "pause after every transaction, as for --keying-time",
    )
    .takes("[SCRIPT=]TIME")
    .set(|given, value| {
        given
            .load
            .pacing
            .think
            .push(PauseChoice::parse(value.text, "--think-time")?);
        Ok(())
    })
    .not_with(PAUSES)
    .not_in_pgbench(),
    row(
        "drain-limit",
        "abort clients still busy SECONDS after -T\n\
         (default: 60)",
    )
    .takes("SECONDS")
    .set(|given, value| {
        given.load.drain_limit = Some(value.seconds_or_zero()?);
        Ok(())
    }),
    row("io", "use this interface of the kernel (default: auto)")
        .takes("auto|epoll|io_uring")
        .set(|given, value| {
            given.load.io = io(value.text)?;
            Ok(())
        }),
    row(
        "reconnect",
        "reconnect clients that lose their connection, and\n\
         abort them after TIME (60s, 500ms; default: the end\n\
         of the run, with -t 60s)",
    )
    .may_take("[=TIME]", is_patience)
    .set(|given, value| {
        given.reconnect = Some(Patience::parse(value.text)?);
        Ok(())
    }),
    row(
        "ledger",
        "store the number of every write transaction in table\n\
         pgdyno_ledger, and report which were acknowledged",
    )
    .flag(|given| &mut given.load.ledger)
    .not_in_pgbench(),
    row("arrivals", "set the spacing of starts (default: poisson)")
        .takes("poisson|regular")
        .set(|given, value| {
            given.load.spacing = Some(spacing(value.text)?);
            Ok(())
        })
        .not_in_pgbench(),
    row(
        "timer-tick",
        "wake sleeping clients at multiples of TIME (\"1ms\"):\n\
         less CPU, more schedule lag (default: exact times)",
    )
    .takes("TIME")
    .set(|given, value| {
        given.load.timer_tick = timer_tick(value.text)?;
        Ok(())
    })
    .not_in_pgbench(),
    row(
        "phases",
        "change rate, clients and scripts over time as the\n\
         TOML file defines",
    )
    .takes("FILE")
    .text(|given| &mut given.load.phases_file)
    .not_in_pgbench(),
    row(
        "events",
        "write events as JSON Lines (\"-\": to standard output,\n\
         and the summary to standard error)",
    )
    .takes("FILE")
    .set(|given, value| {
        given.load.events = Some(match value.text {
            "-" => EventSink::Stdout,
            path => EventSink::File(path.to_owned()),
        });
        Ok(())
    })
    .in_any_mode(),
    row(
        "max-workers",
        "limit the automatic number of threads (default: the\n\
         CPU cores, or half of them if the server is local)",
    )
    .takes("NUM")
    .set(|given, value| {
        given.max_workers = Some(value.integer(1, I32)? as usize);
        Ok(())
    }),
    row(
        "worker-busy",
        "add a thread, or print a warning, when one uses more\n\
         than this percentage of a core (default: 70)",
    )
    .takes("PERCENT")
    .set(|given, value| {
        given.load.busy_share = value.integer(1, 100)? as f64 / 100.0;
        Ok(())
    }),
    row(
        "check",
        "read and compile the scripts, then exit; with execute\n\
         also run a Lua script's top level and its init()",
    )
    .may_take("[=execute]", no_word)
    .set(|given, value| {
        given.load.check = Some(Check::parse(value.text)?);
        Ok(())
    }),
    row("parent-lease", "stop when standard input closes")
        .flag(|given| &mut given.load.parent_lease)
        .in_any_mode(),
    row("lease", "also stop when no line has arrived for SECONDS")
        .takes("SECONDS")
        .set(|given, value| {
            given.load.lease = Some(value.seconds()?);
            Ok(())
        })
        .not_in_pgbench(),
    row(
        "part",
        "run as generator K of N of one load, with a share of\n\
         the clients (-c) and of the rate",
    )
    .takes("K/N")
    .set(|given, value| {
        given.part = Some(part(value.text)?);
        Ok(())
    })
    .not_in_pgbench(),
    row(
        "await-start",
        "wait for a line \"start INSTANT\" on standard input\n\
         when connected (in microseconds since 1970)",
    )
    .flag(|given| &mut given.load.await_start)
    .not_in_pgbench(),
];
