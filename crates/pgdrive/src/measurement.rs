//! The measurement itself: runs the engine, and turns its report into the summary, events and the exit code.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::mem::take;
use std::sync::mpsc::Receiver;

use pgdyno_engine::RunError;
use pgdyno_engine::clock::Clock;
use pgdyno_engine::report::{self, Report};
use pgdyno_engine::run::LONGEST_SHUTDOWN;
use pgdyno_engine::schedule::Arrivals;
use pgdyno_engine::spec::Spec;
use serde_json::Value;

use crate::called_as::CalledAs;
use crate::early_stop::Lease;
use crate::events::{Events, text_out};
use crate::exit::{Exit, Outputs, unwritten};
use crate::generator_health::{Footprint, peak_resident_bytes};
use crate::histogram_log::HistogramLog;
use crate::load_observer::{Reporter, Watcher};
use crate::lua_reports::Reports;
use crate::messages::{Failure, Messages, plain};
use crate::options::Benchmark;
use crate::outages::OutageReporter;
use crate::prepared_load::Load;
use crate::progress::{Columns, Progress};
use crate::results::Results;
use crate::run_events::{Reason, end_event, end_without_report};
use crate::summary::{self, SummaryContext};
use crate::worker_options::warn_of_ceiling;
use crate::workload::Workload;

pub struct Run<'a> {
    pub options: &'a Benchmark,
    pub messages: &'a Messages,
    pub lease: &'a Lease,
    pub clock: Clock,
}

struct Ended {
    report: Report,
    first_aborted: Option<usize>,
    outputs: Outputs,
    /// The exit of a load that ended because its events could not be written.
    cut: Option<Exit>,
    before_bytes: Option<u64>,
}

struct Finished<'a> {
    run: &'a Run<'a>,
    load: &'a Load,
    report: &'a Report,
    results: Box<dyn Results>,
    cut: Option<Exit>,
}

/// Runs the load and reports its result; reports every failure before it returns.
pub fn measure(run: &Run<'_>, load: Load, events: &mut Events, start: Option<Receiver<String>>) -> Exit {
    let mut files = match Files::create(run.options) {
        Ok(files) => files,
        Err(failure) => {
            say_unmeasured(&failure, Reason::NotPrepared, run.messages, events);
            return Exit::NotBegun;
        }
    };
    name_phases(&load.spec, &mut files, events);
    let json = files.json.take();
    match drive(run, &load, files.histogram, start, events) {
        Ok(ended) => report_results(run, load, ended, json, events),
        Err(exit) => exit,
    }
}

fn report_results(
    run: &Run<'_>, mut load: Load, ended: Ended, json: Option<(String, File)>, events: &mut Events,
) -> Exit {
    let mut report = ended.report;
    let results = take(&mut load.workload).finish(&mut load.spec, &mut report);
    let finished = Finished { run, load: &load, report: &report, results, cut: ended.cut };
    let mut outputs = ended.outputs;
    if let Some((path, error)) = load.spec.log.as_ref().and_then(|log| log.failure.get()) {
        outputs.report(format!("the log to \"{}\"", path.display()), error);
    }
    if finished.is_left_without_results(ended.first_aborted) {
        return finished.exit();
    }
    let exit = outputs.exit(finished.exit());
    let end = if events.wanted() || json.is_some() {
        finished.end_event(exit, ended.before_bytes, events)
    } else {
        Value::Null
    };
    finished.write_results(exit, end, json, events, outputs)
}

fn drive(
    run: &Run<'_>, load: &Load, histogram: Option<HistogramLog>, start: Option<Receiver<String>>, events: &mut Events,
) -> Result<Ended, Exit> {
    let (messages, lease) = (run.messages, run.lease);
    let mut watcher = Watcher {
        events,
        histogram,
        verbose_errors: run.options.verbose_errors,
        outages: OutageReporter::default(),
        first_aborted: None,
        progress: reporter(run, load),
        messages,
        load,
        stop: &lease.stop,
        start,
        outputs: Outputs::new(messages),
    };
    let before_bytes = peak_resident_bytes();
    load.workload.watch(&load.spec, &lease.stop, messages);
    let result = pgdyno_engine::run(&load.spec, run.clock, &lease.stop, &mut watcher);
    let first_aborted = watcher.first_aborted;
    watcher.outages.end(messages);
    let mut outputs = watcher.outputs;
    let cut = exit_of_cut_events(events, lease, messages);
    if let Some(error) = events.failure() {
        outputs.report(events.name(), error);
    }
    match result {
        Ok(report) => Ok(Ended { report, first_aborted, outputs, cut, before_bytes }),
        Err(RunError::Interrupted) if cut.is_some() => Err(cut.unwrap_or(Exit::NotBegun)),
        Err(error) => {
            say_unmeasured(&Failure::new(&error), Reason::from(&error), messages, events);
            Err(match error {
                RunError::Interrupted => lease.exit(),
                _ => Exit::NotBegun,
            })
        }
    }
}

fn say_unmeasured(failure: &Failure, reason: Reason, messages: &Messages, events: &mut Events) {
    // Events keeps its own failure
    let _ = end_without_report(events, reason, failure);
    failure.report(messages);
}

fn reporter(run: &Run<'_>, load: &Load) -> Option<Reporter> {
    let options = run.options;
    let is_open = options.arrivals != Arrivals::Closed;
    let every_s = options.progress_s?;
    if let Workload::Lua(script) = &load.workload
        && let Some(reports) = Reports::new(script, every_s, is_open, run.messages)
    {
        return Some(Reporter::Script(reports));
    }
    let columns = Columns {
        lag: is_open,
        skipped: is_open && options.latency_limit.is_some(),
        retries: options.tries.may_retry(),
        timestamp: options.progress_timestamp,
    };
    Some(Reporter::Progress(Progress::new(every_s, columns)))
}

fn name_phases(spec: &Spec, files: &mut Files, events: &mut Events) {
    let phases = spec.phases.iter().flat_map(|phases| phases.specs());
    let names: Vec<String> = phases.map(|phase| phase.name.clone()).collect();
    if let Some(histogram) = &mut files.histogram {
        histogram.set_phases(names.clone());
    }
    events.set_phases(names);
}

/// The exit of a run that ended because its events could not be written; None if they could, or if
/// a signal arrived. A reader that has ended counts as a parent that has ended.
pub fn exit_of_cut_events(events: &Events, lease: &Lease, messages: &Messages) -> Option<Exit> {
    let failure = events.failure().filter(|_| !lease.has_signal())?;
    Some(match failure.kind() {
        ErrorKind::BrokenPipe => lease.exit(),
        _ => unwritten(messages),
    })
}

impl Finished<'_> {
    fn exit(&self) -> Exit {
        match self.report.outcome {
            report::Outcome::Finished if self.results.refusal().is_some() => Exit::Refused,
            report::Outcome::Finished => Exit::Well,
            report::Outcome::Aborted => Exit::Aborted,
            report::Outcome::Interrupted => self.cut.unwrap_or_else(|| self.run.lease.exit()),
        }
    }

    /// Whether the program ends immediately and without results, as pgbench does at
    /// --exit-on-abort; reports that.
    fn is_left_without_results(&self, first_aborted: Option<usize>) -> bool {
        let Run { options, messages, .. } = self.run;
        let is_aborted = self.report.outcome == report::Outcome::Aborted;
        let is_left = options.exit_on_abort && is_aborted;
        if !is_left || messages.called_as() != CalledAs::Pgbench {
            return false;
        }
        let (spec, client) = (&self.load.spec, first_aborted.unwrap_or(0));
        let thread = (0..spec.workers).find(|worker| spec.clients_of(*worker).contains(&client)).unwrap_or(0);
        messages.error(format!("Run was aborted due to an error in thread {thread}"));
        true
    }

    /// The fields of the last event, and of --json.
    fn end_event(&self, exit: Exit, before_bytes: Option<u64>, events: &mut Events) -> Value {
        let spec = &self.load.spec;
        let footprint = Footprint::now(before_bytes, events.steal_us());
        let mut end = end_event(spec, self.report, exit, &footprint, events);
        self.results.add_end_fields(&mut end, spec, self.report, events);
        if let (Exit::Refused, Some(refusal)) = (exit, self.results.refusal()) {
            end["outcome"] = "refused".into();
            end["message"] = refusal.into();
        }
        end
    }

    fn write_results(
        &self, exit: Exit, mut end: Value, json: Option<(String, File)>, events: &mut Events, mut outputs: Outputs,
    ) -> Exit {
        if !self.results.has_summary(&self.load.spec, self.report, self.run.messages) {
            return end_with(exit, end, events, outputs);
        }
        outputs.check("the summary", self.write_summary(events));
        if let Some((path, file)) = json {
            outputs.check(format!("the results to \"{path}\""), write_json(file, &end));
        }
        let exit = outputs.exit(exit);
        if end.is_object() {
            end["exit_code"] = exit.code().into();
        }
        let exit = end_with(exit, end, events, outputs);
        self.say_last_words();
        exit
    }

    fn write_summary(&self, events: &Events) -> io::Result<()> {
        let options = self.run.options;
        let shown = SummaryContext {
            options,
            load: self.load,
            report: self.report,
            results: &*self.results,
            origin: events.origin(),
            called_as: self.run.messages.called_as(),
        };
        summary::write(&mut text_out(options.events.as_ref()), &shown)
    }

    fn say_last_words(&self) {
        let (report, messages) = (self.report, self.run.messages);
        match report.outcome {
            report::Outcome::Aborted => {
                messages.error("Run was aborted; the above results are incomplete.");
            }
            report::Outcome::Interrupted if self.cut.is_some() => {
                messages.error("stopped because events could not be written; the above results are incomplete")
            }
            report::Outcome::Interrupted => {
                messages.warning("interrupted; the above results are incomplete");
            }
            report::Outcome::Finished => {}
        }
        if let Some(refusal) = self.results.refusal() {
            messages.error(refusal);
        }
        if report.unstarted > 0 && messages.called_as() == CalledAs::Pgdrive {
            messages.warning(format!(
                "{} transactions were due before the end and no client was free to begin them; no latency includes their waiting",
                report.unstarted
            ));
        }
        if report.left_running > 0 {
            warn_of_statements(report.left_running, messages);
        }
        warn_of_ceiling(&self.load.spec, report, self.run.options.busy_share, messages);
    }
}

/// Writes the last event; returns the exit, which is `exit` if all outputs could be written.
fn end_with(exit: Exit, end: Value, events: &mut Events, mut outputs: Outputs) -> Exit {
    if events.write("end", end).is_err()
        && let Some(error) = events.failure()
    {
        outputs.report(events.name(), error);
    }
    outputs.exit(exit)
}

fn warn_of_statements(count: u64, messages: &Messages) {
    let (statements, they) = match count {
        1 => ("1 statement".to_owned(), "it"),
        _ => (format!("{count} statements"), "they"),
    };
    let seconds = LONGEST_SHUTDOWN.as_secs();
    messages.warning(format!(
        "the server may still run {statements}: {they} did not end within {seconds} s of being canceled"
    ));
    messages.hint("pg_stat_activity shows them; pg_terminate_backend(pid) ends a session.");
}

struct Files {
    histogram: Option<HistogramLog>,
    json: Option<(String, File)>,
}

impl Files {
    fn create(options: &Benchmark) -> Result<Self, Failure> {
        let refused =
            |path: &str, error: io::Error| Failure::new(format!("could not create file \"{path}\": {}", plain(&error)));
        let histogram =
            options.histogram.as_ref().map(|path| HistogramLog::create(path).map_err(|error| refused(path, error)));
        let json = options.json.as_ref().map(|path| {
            let file = File::create(path).map_err(|error| refused(path, error));
            file.map(|file| (path.clone(), file))
        });
        Ok(Self { histogram: histogram.transpose()?, json: json.transpose()? })
    }
}

fn write_json(mut file: File, end: &Value) -> io::Result<()> {
    writeln!(file, "{end}")
}
