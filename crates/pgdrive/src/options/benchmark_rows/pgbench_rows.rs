//! Benchmarking options that pgbench has too.

use std::time::Duration;

use pgdyno_engine::spec::{OnError, Sessions};

use super::super::benchmark_options::BenchmarkOptions;
use super::super::option_row::Row;
use super::super::option_values::{
    I32, Information, Origin, ScriptChoice, definition, latency_limit, protocol, rate_per_s, sampling_rate, script,
    seed, tries,
};
use crate::called_as::CalledAs;

const fn row(long: &'static str, help: &'static str) -> Row<BenchmarkOptions> {
    Row::new(long, help)
}

pub(super) const ROWS: &[Row<BenchmarkOptions>] = &[
    row("builtin", "add builtin script NAME weighted at W (default: 1) (use \"-b list\" to list available scripts)")
        .short('b')
        .takes("NAME[@W]")
        .set(|given, value| {
            if value.text == "list" {
                given.information = Some(Information::Builtins);
            } else {
                given.load.scripts.push(script(value.text, Origin::Builtin)?);
            }
            Ok(())
        }),
    row("file", "add script FILENAME weighted at W (default: 1)")
        .short('f')
        .takes("FILENAME[@W]")
        .set(|given, value| script(value.text, Origin::File).map(|it| given.load.scripts.push(it))),
    row("skip-some-updates", "skip updates of pgbench_tellers and pgbench_branches (same as \"-b simple-update\")")
        .short('N')
        .call(|given| given.load.scripts.push(ScriptChoice::builtin("simple-update"))),
    row("select-only", "perform SELECT-only transactions (same as \"-b select-only\")")
        .short('S')
        .call(|given| given.load.scripts.push(ScriptChoice::builtin("select-only"))),
    row("client", "number of concurrent database clients (default: 1)")
        .short('c')
        .takes("NUM")
        .set(|given, value| value.integer(1, I32).map(|it| given.load.clients = it as usize)),
    row("connect", "establish new connection for each transaction")
        .short('C')
        .call(|given| given.load.sessions = Sessions::PerTransaction),
    row("define", "define variable for use by custom script")
        .short('D')
        .takes("VARNAME=VALUE")
        .set(|given, value| definition(value.text).map(|it| given.load.variables.push(it))),
    row("jobs", "number of threads (default: automatic; 1 under the name pgbench)")
        .short('j')
        .takes("NUM")
        .set(|given, value| value.integer(1, I32).map(|it| given.jobs = Some(it as usize))),
    row("log", "write transaction times to log file").short('l').flag(|given| &mut given.log.wanted),
    row("latency-limit", "count transactions lasting more than NUM ms as late")
        .short('L')
        .takes("NUM")
        .set(|given, value| latency_limit(value).map(|it| given.load.latency_limit = Some(it))),
    row("protocol", "protocol for submitting queries (default: simple)")
        .short('M')
        .takes("simple|extended|prepared")
        .set(|given, value| protocol(value.text).map(|it| given.load.mode = it)),
    row("no-vacuum", "do not run VACUUM before tests").short('n').flag(|given| &mut given.no_vacuum).in_any_mode(),
    row("progress", "show thread progress report every NUM seconds")
        .short('P')
        .takes("NUM")
        .set(|given, value| value.integer(1, I32).map(|it| given.load.progress_s = Some(it as u64))),
    row("report-per-command", "report latencies, failures, and retries per command")
        .short('r')
        .flag(|given| &mut given.load.per_command),
    row("rate", "target rate in transactions per second")
        .short('R')
        .takes("NUM")
        .set(|given, value| rate_per_s(value).map(|it| given.rate_per_s = Some(it))),
    row("scale", "scaling factor: with -i, of the tables; otherwise reported for custom scripts")
        .short('s')
        .takes("NUM")
        .set(|given, value| value.integer(1, I32).map(|it| given.load.scale = Some(it)))
        .in_any_mode(),
    row("transactions", "number of transactions each client runs (default: 10)")
        .short('t')
        .takes("NUM")
        .set(|given, value| value.integer(1, I32).map(|it| given.transactions = Some(it as u64))),
    row("time", "duration of benchmark test in seconds").short('T').takes("NUM").set(|given, value| {
        given.duration = Some(match value.called_as {
            CalledAs::Pgbench => Duration::from_secs(value.integer(1, I32)? as u64),
            CalledAs::Pgdrive => value.seconds()?,
        });
        Ok(())
    }),
    row("vacuum-all", "vacuum all four standard tables before tests").short('v').flag(|given| &mut given.vacuum_all),
    row("aggregate-interval", "aggregate data over NUM seconds")
        .takes("NUM")
        .set(|given, value| value.integer(1, I32).map(|it| given.log.interval_s = Some(it as u64))),
    row("continue-on-error", "continue running after an SQL error")
        .call(|given| given.load.on_error = OnError::Continue),
    row("exit-on-abort", "exit when any client is aborted").flag(|given| &mut given.load.exit_on_abort),
    row("failures-detailed", "report the failures grouped by basic types")
        .flag(|given| &mut given.load.failures_detailed),
    row("log-prefix", "prefix for transaction time log file (default: \"pgbench_log\")")
        .takes("PREFIX")
        .text(|given| &mut given.log.prefix),
    row("max-tries", "max number of tries to run transaction (default: 1)")
        .takes("NUM")
        .set(|given, value| tries(value).map(|it| given.tries = Some(it))),
    row("progress-timestamp", "use Unix epoch timestamps for progress")
        .flag(|given| &mut given.load.progress_timestamp),
    row("random-seed", "set random seed (\"time\", \"rand\", integer)")
        .takes("SEED")
        .set(|given, value| seed(value.text, "--random-seed option").map(|it| given.load.seed = it))
        .in_any_mode_of_pgdrive(),
    row("sampling-rate", "fraction of transactions to log (e.g., 0.01 for 1%)")
        .takes("NUM")
        .set(|given, value| sampling_rate(value).map(|it| given.log.sampling_rate = Some(it))),
    row("show-script", "show builtin script code, then exit").takes("NAME").set(|given, value| {
        given.information = Some(Information::Script(value.text.to_owned()));
        Ok(())
    }),
    row("verbose-errors", "print messages of all errors").flag(|given| &mut given.load.verbose_errors),
];
