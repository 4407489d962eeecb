//! Loads whose transactions a Lua script decides: `--lua` and `--workload`.

use std::io::{self, Write};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgdyno_connect::{Host, Params};
use pgdyno_engine::command_record::CommandRecord;
use pgdyno_engine::report::Report;
use pgdyno_engine::schedule::Arrivals;
use pgdyno_engine::spec::{Limit, Seeds, Sessions, Spec, WeightedProgram};
use pgdyno_lua::{OptionValue, Script, ScriptError, Settings, Task, Workload, command_count};
use pgdyno_script::Program;
use serde_json::{Value, json};

use crate::early_stop::Lease;
use crate::exit::{Exit, refuse};
use crate::lua_reports;
use crate::messages::{Failure, Messages};
use crate::options::{Benchmark, Check, EventSink, LuaChoice, LuaSource, Seed};
use crate::results::{Place, Results};

/// The name under which the statements of a script are reported until they are known.
pub const STATEMENTS: &str = "statements of the script";

/// How long a script may continue without a statement after the end of the load.
const STUCK_AFTER: Duration = Duration::from_secs(5);
/// Time between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const STUCK_LOOKS: u32 = (STUCK_AFTER.as_millis() / LOOK_EVERY.as_millis()) as u32;

impl From<ScriptError> for Failure {
    fn from(error: ScriptError) -> Self {
        Self { hint: error.hint, ..Self::new(error.message) }
    }
}

/// Opens the script of `choice` with its options and command; `params` are those of its connections, if they are known.
pub fn open(
    options: &Benchmark, choice: &LuaChoice, params: Option<&Params>, seeds: &Seeds, lease: &Lease, messages: &Messages,
) -> Result<Arc<Workload>, Failure> {
    let _opening = watch_opening(options, choice.name(), lease, messages);
    let script = find(choice)?;
    let threads = options.part.map_or(options.clients, |part| part.clients);
    let settings = Settings {
        command: choice.command.clone(),
        options: choice.options.clone(),
        argv: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        connection: params.map_or_else(Vec::new, connection),
        threads,
        part: options.part.map_or((0, 1), |part| (part.number, part.of)),
        time_s: match options.limit {
            Limit::Duration(duration) => duration.as_secs(),
            Limit::Transactions(_) | Limit::Driven => 0,
        },
        events: match options.limit {
            Limit::Duration(_) | Limit::Driven => 0,
            Limit::Transactions(each) => each.saturating_mul(threads as u64),
        },
        seed: match options.seed {
            Seed::Fixed(seed) => seed,
            Seed::Default | Seed::Time | Seed::Strong => 0,
        },
        rate_per_s: match options.arrivals {
            Arrivals::Poisson { rate_per_s } | Arrivals::Regular { rate_per_s } => rate_per_s,
            Arrivals::Closed | Arrivals::Phased(_) | Arrivals::Driven => 0.0,
        },
        report_interval_s: options.progress_s.unwrap_or(0),
        seeds: seeds.clients.clone(),
        spares_stdout: options.events == Some(EventSink::Stdout),
        per_transaction: options.sessions == Sessions::PerTransaction,
        by_statement: options.per_command,
    };
    Ok(Arc::new(Workload::open(script, settings)?))
}

fn find(choice: &LuaChoice) -> Result<Script, ScriptError> {
    match &choice.source {
        LuaSource::File(name) => Script::find(name),
        LuaSource::Workload(name) => Script::workload(name),
    }
}

/// The connection's parameters as sysbench's options. The script learns the password only if an option gives it.
fn connection(params: &Params) -> Vec<(&'static str, OptionValue)> {
    let hosts: Vec<_> = params.hosts.iter().map(Host::display).collect();
    let port = params.hosts.first().map_or(0, |host| host.port.into());
    vec![
        ("pgsql_host", OptionValue::Text(hosts.join(","))),
        ("pgsql_port", OptionValue::Int(port)),
        ("pgsql_user", OptionValue::Text(params.user.clone())),
        ("pgsql_db", OptionValue::Text(params.dbname.clone())),
        ("pgsql_sslmode", OptionValue::Text(params.sslmode.to_string())),
    ]
}

/// Carries out what needs no server: `help`, and `--check`.
pub fn without_server(options: &Benchmark, choice: &LuaChoice, messages: &Messages) -> Option<Exit> {
    if matches!(options.check, Some(Check::Compile | Check::Statements))
        && let LuaSource::File(_) = choice.source
    {
        // this may be another person's program, which the user may want to inspect before running any of it
        let compiled = find(choice).and_then(|script| script.compile());
        return Some(match compiled.map_err(Failure::from) {
            Ok(()) => Exit::Well,
            Err(failure) => refuse(&failure, messages),
        });
    }
    if choice.command != "help" && options.check.is_none() {
        return None;
    }
    let seeds = Seeds { clients: vec![0], ..Seeds::default() };
    // no signal is handled here, so each ends the process immediately
    let opened = open(options, choice, None, &seeds, &Lease::default(), messages);
    if let Ok(workload) = &opened
        && workload.task() != Task::Help
        && options.check.is_none()
    {
        // the script defines this command itself
        return None;
    }
    let opened = opened.and_then(|workload| match workload.task() {
        Task::Help => Ok(workload.help()?),
        _ => Ok(Vec::new()),
    });
    Some(match opened {
        Ok(lines) => {
            if !lines.is_empty() {
                // a closed output needs no report
                let name = choice.name();
                let _ = writeln!(io::stdout(), "options of {name}, with their defaults:\n{}", lines.join("\n"));
            }
            Exit::Well
        }
        Err(failure) => refuse(&failure, messages),
    })
}

/// Turns a load whose command is not `run` into one call of its function.
pub fn shape(spec: &mut Spec, task: Task) {
    if task == Task::Load {
        return;
    }
    if task == Task::Once {
        spec.clients = 1;
        spec.workers = 1;
    }
    spec.limit = Limit::Transactions(1);
    spec.arrivals = Arrivals::Closed;
    spec.warmup = Duration::ZERO;
    spec.drain_limit = None;
}

/// For -r: replaces a script with one name for all statements by one whose statements are distinguished.
pub fn tell_apart(programs: &mut [WeightedProgram]) {
    for program in programs {
        program.program = Program::unnamed(&program.program.name, command_count());
    }
}

/// Names the statements that were sent, and drops the others, after the load.
pub fn name_statements(load: &mut Spec, report: &mut Report, workload: &Workload) {
    let names = workload.statements();
    if names.is_empty() {
        return;
    }
    for (program, records) in load.programs.iter_mut().zip(&mut report.commands) {
        for (command, name) in program.program.commands.iter_mut().zip(&names) {
            command.text = name.as_str().into();
        }
        for record in records {
            let is_met = |record: &CommandRecord| record.moments.count + record.failures + record.retries > 0;
            if !record.as_ref().is_some_and(is_met) {
                *record = None;
            }
        }
    }
}

/// Ends the process when a script keeps running after the end of the load: nothing else can stop
/// it, because its worker does not return from it.
pub fn watch(workload: &Arc<Workload>, spec: &Spec, stop: &Arc<AtomicBool>, messages: &Messages) {
    let (limit, name) = (spec.limit, workload.name().to_owned());
    let length = length(limit, spec.warmup);
    let workload = Arc::clone(workload);
    let end = End::new(name, length, stop, messages);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(LOOK_EVERY);
            if end.is_over() && workload.look() > STUCK_LOOKS {
                end.process();
            }
        }
    });
}

/// The same while the script's top level and its `init()` run, before the load. A signal ends the
/// process immediately, because nothing has been measured. Dropping the result ends the watch.
fn watch_opening(options: &Benchmark, name: &str, lease: &Lease, messages: &Messages) -> Opening {
    let is_open = Arc::new(AtomicBool::new(false));
    let length = length(options.limit, options.warmup);
    let (opened, lease, messages) = (Arc::clone(&is_open), lease.clone(), messages.clone());
    let end = End::new(name.to_owned(), length, &lease.stop, &messages);
    std::thread::spawn(move || {
        let mut over = None;
        while !opened.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY);
            if lease.stop.load(Ordering::Relaxed) && !opened.load(Ordering::Relaxed) {
                messages.error(format!("stopped while script \"{}\" ran its top level or init()", end.name));
                process::exit(lease.exit().code().into());
            }
            if end.is_over() {
                let since = *over.get_or_insert_with(Instant::now);
                if since.elapsed() > STUCK_AFTER {
                    end.process();
                }
            }
        }
    });
    Opening(is_open)
}

/// How long the load is to last; None when its transactions are counted.
fn length(limit: Limit, warmup: Duration) -> Option<Duration> {
    match limit {
        Limit::Duration(duration) => Some(warmup + duration),
        Limit::Transactions(_) | Limit::Driven => None,
    }
}

/// Exists while the script's top level runs.
struct Opening(Arc<AtomicBool>);

impl Drop for Opening {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct End {
    name: String,
    /// Excludes connecting, which delays it by at most [`STUCK_AFTER`].
    deadline: Option<Instant>,
    stop: Arc<AtomicBool>,
    messages: Messages,
}

impl End {
    fn new(name: String, length: Option<Duration>, stop: &Arc<AtomicBool>, messages: &Messages) -> Self {
        Self {
            name,
            deadline: length.map(|length| Instant::now() + length),
            stop: Arc::clone(stop),
            messages: messages.clone(),
        }
    }

    fn is_over(&self) -> bool {
        let is_past = self.deadline.is_some_and(|deadline| Instant::now() > deadline);
        is_past || self.stop.load(Ordering::Relaxed)
    }

    fn process(&self) -> ! {
        self.messages.error(format!(
            "script \"{}\" is still running without a statement, {} s after the planned end of the load",
            self.name,
            STUCK_AFTER.as_secs()
        ));
        self.messages.hint("It has an endless loop; there are no results of this load.");
        process::exit(Exit::Aborted.code().into());
    }
}

/// A script reports its statements, and may report the load itself.
pub struct LuaResults(pub Arc<Workload>);

impl Results for LuaResults {
    fn write(&self, place: Place, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        match place {
            Place::AfterThroughput => summary(out, report),
            _ => Ok(()),
        }
    }

    fn has_summary(&self, spec: &Spec, report: &Report, messages: &Messages) -> bool {
        lua_reports::cumulative(&self.0, report, spec.clients, messages);
        if let Err(error) = self.0.done() {
            Failure::from(error).report(messages);
        }
        self.0.is_load()
    }
}

fn summary(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let statements = report.total().statements;
    let per_s = |count: u64| count as f64 / report.measured_s().max(f64::MIN_POSITIVE);
    writeln!(
        out,
        "number of statements: {} ({} reads, {} writes, {} others; {:.2} per second)",
        statements.total(),
        statements.reads,
        statements.writes,
        statements.others,
        per_s(statements.total()),
    )?;
    writeln!(
        out,
        "number of ignored errors: {} ({:.2} per second)",
        statements.ignored_errors,
        per_s(statements.ignored_errors),
    )?;
    writeln!(out, "number of reconnects: {}", lua_reports::reconnects(report))?;
    let p95_ms = report.total().latency.at_quantile(0.95) as f64 / 1e6;
    writeln!(out, "latency 95th percentile = {p95_ms:.3} ms")?;
    let fairness = &report.fairness;
    writeln!(
        out,
        "transactions per client: average {:.2}, stddev {:.2}, from {} to {}",
        fairness.mean(),
        fairness.stddev(),
        fairness.min,
        fairness.max,
    )
}

pub fn end_fields(report: &Report) -> Value {
    let statements = report.total().statements;
    let fairness = &report.fairness;
    json!({
        "reads": statements.reads,
        "writes": statements.writes,
        "others": statements.others,
        "queries": statements.total(),
        "ignored_errors": statements.ignored_errors,
        "reconnects": lua_reports::reconnects(report),
        "p95_ns": report.total().latency.at_quantile(0.95),
        "fairness": {
            "mean": fairness.mean(),
            "stddev": fairness.stddev(),
            "min": fairness.min,
            "max": fairness.max,
        },
    })
}
