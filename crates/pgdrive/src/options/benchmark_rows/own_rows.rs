//! Benchmarking options that only pgdrive has.

use pgdyno_engine::schedule::Spacing;
use pgdyno_engine::spec::{Io, Pipelining};

use super::super::benchmark_options::BenchmarkOptions;
use super::super::lua_options::{Check, LuaSource, script_option};
use super::super::option_row::Row;
use super::super::option_values::{EventSink, I32, choose, part, timer_tick};
use super::super::pause_options::PauseChoice;
use super::super::reconnect_option::{Patience, is_patience};
use super::super::replay_options::pace;
use crate::getopt::no_word;
use crate::percentiles::{self, Percentiles};

const fn row(long: &'static str, help: &'static str) -> Row<BenchmarkOptions> {
    Row::new(long, help)
}

pub(super) const ROWS: &[Row<BenchmarkOptions>] = &[
    row("percentiles", "show latency percentiles (default: 50,90,95,99,99.9,99.99), with -r also per statement")
        .may_take("[=LIST]", percentiles::is_list)
        .set(|given, value| Percentiles::parse(value.text).map(|it| given.load.percentiles = Some(it))),
    row("histogram", "write an HdrHistogram interval log, a line per second")
        .takes("FILE")
        .text(|given| &mut given.load.histogram),
    row("lua", "run a Lua script of sysbench: a file, or the name of an installed one (oltp_read_write)")
        .takes("SCRIPT")
        .set(|given, value| {
            given.lua.add(LuaSource::File(value.text.to_owned()));
            Ok(())
        })
        .not_in_pgbench(),
    row("lua-command", "run (default), prepare, cleanup, prewarm, help or a command of the script")
        .takes("COMMAND")
        .text(|given| &mut given.lua.command)
        .not_in_pgbench(),
    row("lua-opt", "set an option of the script")
        .takes("NAME=VALUE")
        .set(|given, value| script_option(value.text).map(|it| given.lua.options.push(it)))
        .not_in_pgbench(),
    row(
        "workload",
        "run a workload of sysbench on dataset sbtest (oltp-read-write, oltp-point-select...; with --tables and \
         --table-size), tpcc or tpch: see their options; queries: the SQL files of -f, or --tpch-queries, each by \
         itself, in as many rounds as -t",
    )
    .takes("NAME")
    .set(|given, value| {
        match value.text {
            "tpcc" => given.tpcc = true,
            "tpch" => given.tpch = true,
            "queries" => given.queries = true,
            name => given.lua.add(LuaSource::Workload(name.to_owned())),
        }
        Ok(())
    })
    .not_in_pgbench(),
    row(
        "changed-texts",
        "with --workload=queries: run each query again with another constant, unknown to a cache of results",
    )
    .flag(|given| &mut given.changed_texts)
    .not_in_pgbench(),
    row("replay", "replay a captured load: the sessions of a replay file, at their times")
        .takes("FILE")
        .text(|given| &mut given.replay.path)
        .not_in_pgbench(),
    row("pace", "with --replay: divide captured times by FACTOR (default: 1), or leave out all pauses (max)")
        .takes("FACTOR|max")
        .set(|given, value| pace(value.text).map(|it| given.replay.pace = Some(it)))
        .not_in_pgbench(),
    row("json", "write the results to FILE as a JSON object").takes("FILE").text(|given| &mut given.load.json),
    row("warmup", "run the load for SECONDS before measuring begins")
        .takes("SECONDS")
        .set(|given, value| value.seconds_or_zero().map(|it| given.load.warmup = it)),
    row("auto-pipeline", "send statements that need no earlier result in one round trip")
        .call(|given| given.load.pipelining = Pipelining::Auto)
        .not_in_pgbench(),
    row(
        "keying-time",
        "pause before every transaction (100ms, 2s, fixed:2s, exponential:12s), of all scripts or one by name or \
         number; latency counts from its end",
    )
    .takes("[SCRIPT=]TIME")
    .set(|given, value| PauseChoice::parse(value.text, "--keying-time").map(|it| given.load.pacing.keying.push(it)))
    .not_in_pgbench(),
    row("think-time", "pause after every transaction, as for --keying-time")
        .takes("[SCRIPT=]TIME")
        .set(|given, value| PauseChoice::parse(value.text, "--think-time").map(|it| given.load.pacing.think.push(it)))
        .not_in_pgbench(),
    row("drain-limit", "abort clients still busy SECONDS after -T (default: 60)")
        .takes("SECONDS")
        .set(|given, value| value.seconds_or_zero().map(|it| given.load.drain_limit = Some(it))),
    row("io", "use this interface of the kernel (default: auto)").takes("auto|epoll|io_uring").set(|given, value| {
        let pollers = [("auto", Io::Auto), ("epoll", Io::Epoll), ("io_uring", Io::IoUring)];
        choose(value.text, "invalid I/O method (--io)", &pollers).map(|it| given.load.io = it)
    }),
    row(
        "reconnect",
        "reconnect clients that lose their connection, and abort them after TIME (60s, 500ms, always; default: the \
         end of the run, with -t 60s)",
    )
    .may_take("[=TIME]", is_patience)
    .set(|given, value| Patience::parse(value.text).map(|it| given.reconnect = Some(it))),
    row(
        "count-refusals",
        "with -C: count a connection that fails as a failed transaction, instead of aborting the client",
    )
    .flag(|given| &mut given.counts_refusals)
    .not_in_pgbench(),
    row(
        "ledger",
        "store the number of every write transaction in table pgdyno_ledger, and report which were acknowledged",
    )
    .flag(|given| &mut given.load.ledger)
    .not_in_pgbench(),
    row("arrivals", "set the spacing of starts (default: poisson)")
        .takes("poisson|regular")
        .set(|given, value| {
            let spacings = [("poisson", Spacing::Poisson), ("regular", Spacing::Regular)];
            choose(value.text, "invalid arrivals (--arrivals)", &spacings).map(|it| given.load.spacing = Some(it))
        })
        .not_in_pgbench(),
    row(
        "timer-tick",
        "wake sleeping clients at multiples of TIME (\"1ms\"): less CPU, more schedule lag (default: exact times)",
    )
    .takes("TIME")
    .set(|given, value| timer_tick(value.text).map(|it| given.load.timer_tick = it))
    .not_in_pgbench(),
    row("phases", "change rate, clients and scripts over time as the TOML file defines")
        .takes("FILE")
        .text(|given| &mut given.load.phases_file)
        .not_in_pgbench(),
    row("events", "write events as JSON Lines (\"-\": to standard output, and the summary to standard error)")
        .takes("FILE")
        .set(|given, value| {
            given.load.events = Some(match value.text {
                "-" => EventSink::Stdout,
                path => EventSink::File(path.to_owned()),
            });
            Ok(())
        })
        .in_any_mode(),
    row("max-workers", "limit the automatic number of threads")
        .takes("NUM")
        .set(|given, value| value.integer(1, I32).map(|it| given.max_workers = Some(it as usize))),
    row("worker-busy", "print a warning when a thread uses more than this percentage of a core (default: 70)")
        .takes("PERCENT")
        .set(|given, value| value.integer(1, 100).map(|it| given.load.busy_share = it as f64 / 100.0)),
    row(
        "check",
        "read and compile the scripts, then exit; with execute also run a Lua script's top level and its init(); \
         with statements print their SQL with $1 for variables",
    )
    .may_take("[=execute|statements]", no_word)
    .set(|given, value| {
        let checks = [("", Check::Compile), ("execute", Check::Execute), ("statements", Check::Statements)];
        choose(value.text, "invalid argument of --check", &checks).map(|it| given.load.check = Some(it))
    }),
    row("parent-lease", "stop when standard input closes").flag(|given| &mut given.load.parent_lease).in_any_mode(),
    row("lease", "also stop when no line has arrived for SECONDS")
        .takes("SECONDS")
        .set(|given, value| value.seconds().map(|it| given.load.lease = Some(it)))
        .not_in_pgbench(),
    row("part", "run as generator K of N of one load, with a share of the clients (-c) and of the rate")
        .takes("K/N")
        .set(|given, value| part(value.text).map(|it| given.part = Some(it)))
        .not_in_pgbench(),
    row(
        "await-start",
        "wait for a line \"start INSTANT\" on standard input when connected (in microseconds since 1970)",
    )
    .flag(|given| &mut given.load.await_start)
    .not_in_pgbench(),
];
