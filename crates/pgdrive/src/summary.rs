//! The summary on standard output, with pgbench's lines.

use std::io::{self, Write};
use std::time::Duration;

use pgdyno_engine::clock::Nanos;
use pgdyno_engine::command_record::CommandRecord;
use pgdyno_engine::connect_record::ConnectRecord;
use pgdyno_engine::latencies::Moments;
use pgdyno_engine::pacing::{LONGEST_IN_MEANS, Pacing, Pause};
use pgdyno_engine::recorder::{Counts, ScriptRecord};
use pgdyno_engine::report::Report;
use pgdyno_engine::schedule::Arrivals;
use pgdyno_engine::spec::{Limit, OnError, OnLoss, Pipelining, Sessions, Tries};
use pgdyno_script::QueryMode;

use crate::called_as::CalledAs;
use crate::options::{Benchmark, WorkloadChoice};
use crate::outages;
use crate::percentiles::Percentiles;
use crate::phase_summary;
use crate::prepared_load::Load;
use crate::results::{Place, Results};
use crate::worker_options::Workers;

pub struct SummaryContext<'a> {
    pub options: &'a Benchmark,
    pub load: &'a Load,
    pub report: &'a Report,
    pub results: &'a dyn Results,
    pub origin: Nanos,
    pub called_as: CalledAs,
}

pub fn write(out: &mut impl Write, shown: &SummaryContext<'_>) -> io::Result<()> {
    write_common(out, shown)?;
    shown.results.write(Place::Last, shown.report, out)
}

fn write_common(out: &mut impl Write, shown: &SummaryContext<'_>) -> io::Result<()> {
    head(out, shown)?;
    let counts = shown.report.total().counts;
    length(out, shown, &counts)?;
    shown.results.write(Place::AfterLength, shown.report, out)?;
    let total = total(&counts);
    // the other lines would divide by zero
    if total == 0 {
        return outages(out, shown);
    }
    failures(out, "", shown, &counts)?;
    latency(out, shown, total)?;
    if let ([pacing], [record]) = (&shown.load.spec.pacing[..], &shown.report.scripts[..]) {
        write_pauses(out, "", pacing, record)?;
    }
    if let Some(percentiles) = &shown.options.percentiles {
        percentiles.write(out, "", &shown.report.total().latency)?;
    }
    throughput(out, shown)?;
    shown.results.write(Place::AfterThroughput, shown.report, out)?;
    outages(out, shown)?;
    scripts(out, shown, total)?;
    match &shown.load.spec.phases {
        Some(phases) => phase_summary::write(out, phases, shown.report),
        None => Ok(()),
    }
}

fn length(out: &mut impl Write, shown: &SummaryContext<'_>, counts: &Counts) -> io::Result<()> {
    match shown.load.spec.limit {
        Limit::Transactions(each) => {
            writeln!(out, "number of transactions per client: {each}")?;
            let all = each * shown.load.spec.clients as u64;
            writeln!(out, "number of transactions actually processed: {}/{all}", counts.succeeded)
        }
        Limit::Duration(duration) => {
            if let Some(phases) = &shown.load.spec.phases {
                writeln!(out, "number of phases: {}", phases.specs().len())?;
            }
            writeln!(out, "duration: {} s", duration.as_secs_f64())?;
            writeln!(out, "number of transactions actually processed: {}", counts.succeeded)
        }
        Limit::Driven => writeln!(out, "number of transactions actually processed: {}", counts.succeeded),
    }
}

fn latency(out: &mut impl Write, shown: &SummaryContext<'_>, total: u64) -> io::Result<()> {
    let counts = shown.report.total().counts;
    if let Some(limit) = shown.load.spec.latency_limit {
        writeln!(
            out,
            "number of transactions above the {:.1} ms latency limit: {}/{} ({:.3}%)",
            limit.as_secs_f64() * 1e3,
            counts.late,
            counts.succeeded,
            percent(counts.late, counts.succeeded),
        )?;
    }
    let options = shown.options;
    let is_measured = options.progress_s.is_some()
        || options.latency_limit.is_some()
        || options.arrivals != Arrivals::Closed
        || matches!(options.workload, WorkloadChoice::Replay(_))
        || shown.load.spec.pacing.iter().any(Pacing::pauses);
    if is_measured {
        simple_stats(out, "latency", &shown.report.total().latency.moments)?;
    } else {
        let including = if counts.given_up() > 0 { " (including failures)" } else { "" };
        let mean_ms = shown.report.measured_s() * 1e3 * shown.load.spec.clients as f64 / total as f64;
        writeln!(out, "latency average = {mean_ms:.3} ms{including}")?;
    }
    let lag = shown.report.total().lag;
    if lag.count > 0 {
        let (mean_ms, max_ms) = (lag.mean() / 1e6, lag.max as f64 / 1e6);
        writeln!(out, "rate limit schedule lag: avg {mean_ms:.3} (max {max_ms:.3}) ms")?;
    }
    Ok(())
}

fn outages(out: &mut impl Write, shown: &SummaryContext<'_>) -> io::Result<()> {
    match &shown.report.outages {
        Some(outages) => outages::summary(out, outages, shown.origin),
        None => Ok(()),
    }
}

fn throughput(out: &mut impl Write, shown: &SummaryContext<'_>) -> io::Result<()> {
    let tps = shown.report.tps();
    match shown.load.spec.sessions {
        Sessions::Kept | Sessions::Driven => {
            let connecting_ms = shown.report.connecting as f64 / 1e6;
            writeln!(out, "initial connection time = {connecting_ms:.3} ms")?;
            let later = shown.report.total().connecting;
            if later.count > 0 {
                let mean_ms = later.mean() / 1e6;
                writeln!(out, "average connection time of sessions = {mean_ms:.3} ms")?;
            }
            writeln!(out, "tps = {tps:.6} (without initial connection time)")
        }
        Sessions::PerTransaction => {
            let connecting_ms = shown.report.total().connecting.mean() / 1e6;
            writeln!(out, "average connection time = {connecting_ms:.3} ms")?;
            if let (OnLoss::Count, Some(connects)) = (shown.load.spec.on_loss, &shown.report.connects) {
                connecting(out, connects)?;
                writeln!(out, "number of refused transactions: {}", shown.report.refused())?;
            }
            writeln!(out, "tps = {tps:.6} (including reconnection times)")
        }
    }
}

fn connecting(out: &mut impl Write, connects: &ConnectRecord) -> io::Result<()> {
    let [p50, p99] = [0.5, 0.99].map(|quantile| connects.total.at_quantile(quantile) as f64 / 1e6);
    let parts = connects.parts().into_iter().filter(|(_, part)| part.moments.count > 0);
    let parts: Vec<String> =
        parts.map(|(name, part)| format!("{} {:.3}", name.replace('_', " "), part.moments.mean() / 1e6)).collect();
    writeln!(out, "time to connect: p50 {p50:.3} ms, p99 {p99:.3} ms; on average {} ms", parts.join(", "))
}

fn head(out: &mut impl Write, shown: &SummaryContext<'_>) -> io::Result<()> {
    let name = match &shown.load.spec.programs[..] {
        [one] => &one.program.name,
        _ => "multiple scripts",
    };
    writeln!(out, "transaction type: {name}")?;
    if shown.load.spec.drivers.is_none() {
        writeln!(out, "scaling factor: {}", shown.load.scale)?;
    }
    if let Some(partitions) = &shown.load.database.partitions {
        writeln!(out, "partition method: {}\npartitions: {}", partitions.method, partitions.count)?;
    }
    let mode = match shown.load.spec.mode {
        QueryMode::Simple => "simple",
        QueryMode::Extended => "extended",
        QueryMode::Prepared => "prepared",
    };
    if shown.load.spec.drivers.is_none() {
        writeln!(out, "query mode: {mode}")?;
    }
    if shown.load.spec.pipelining == Pipelining::Auto {
        writeln!(out, "pipelining: auto")?;
    }
    writeln!(out, "number of clients: {}", shown.load.spec.clients)?;
    let is_automatic = matches!(shown.options.workers, Workers::Automatic { .. });
    let automatic = if is_automatic && shown.called_as == CalledAs::Pgdrive { " (automatic)" } else { "" };
    writeln!(out, "number of threads: {}{automatic}", shown.load.spec.workers)?;
    if let Tries::AtMost(most) = shown.load.spec.tries {
        writeln!(out, "maximum number of tries: {most}")?;
    }
    if shown.load.spec.arrivals_are_regular() {
        writeln!(out, "arrivals: regular")?;
    }
    phase_summary::timer_tick(out, shown.load.spec.timer_tick)
}

fn total(counts: &Counts) -> u64 {
    counts.succeeded + counts.skipped + counts.given_up()
}

fn percent(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { 100.0 * part as f64 / of as f64 }
}

fn failures(out: &mut impl Write, prefix: &str, shown: &SummaryContext<'_>, counts: &Counts) -> io::Result<()> {
    let total = total(counts);
    let share = |count| percent(count, total);
    let mut line = |what: &str, count: u64| writeln!(out, "{prefix}number of {what}: {count} ({:.3}%)", share(count));
    line("failed transactions", counts.given_up())?;
    if shown.options.failures_detailed {
        line("serialization failures", counts.serialization_failures)?;
        line("deadlock failures", counts.deadlocks)?;
        if shown.load.spec.on_error == OnError::Continue {
            line("other failures", counts.other_failures)?;
        }
        if shown.load.spec.on_loss != OnLoss::Abort {
            line("transactions lost with their connections", counts.lost)?;
        }
    }
    if shown.load.spec.tries.may_retry() {
        line("transactions retried", counts.retried)?;
        writeln!(out, "{prefix}total number of retries: {}", counts.retries)?;
    }
    let is_open = shown.load.spec.arrivals != Arrivals::Closed;
    if is_open && shown.load.spec.latency_limit.is_some() {
        writeln!(out, "{prefix}number of transactions skipped: {} ({:.3}%)", counts.skipped, share(counts.skipped))?;
    }
    Ok(())
}

fn simple_stats(out: &mut impl Write, prefix: &str, moments: &Moments) -> io::Result<()> {
    if moments.count == 0 {
        return Ok(());
    }
    writeln!(out, "{prefix} average = {:.3} ms", moments.mean() / 1e6)?;
    writeln!(out, "{prefix} stddev = {:.3} ms", moments.stddev() / 1e6)
}

fn scripts(out: &mut impl Write, shown: &SummaryContext<'_>, total_of_all: u64) -> io::Result<()> {
    let several = shown.load.spec.programs.len() > 1;
    if !several && !shown.options.per_command {
        return Ok(());
    }
    for (number, record) in shown.report.scripts.iter().enumerate() {
        if several {
            script(out, shown, number, record, total_of_all)?;
        }
        if shown.options.per_command {
            let heading = if shown.load.spec.tries.may_retry() { ", failures and retries" } else { " and failures" };
            let indent = if several { " - " } else { "" };
            writeln!(out, "{indent}statement latencies in milliseconds{heading}:")?;
            commands(out, shown, number, &shown.report.commands[number])?;
            if let Some(percentiles) = &shown.options.percentiles {
                let names = percentiles.names();
                writeln!(out, "{indent}statement latency percentiles in milliseconds ({names}):")?;
                command_percentiles(out, shown, number, percentiles)?;
            }
        }
    }
    Ok(())
}

fn script(
    out: &mut impl Write, shown: &SummaryContext<'_>, number: usize, record: &ScriptRecord, total_of_all: u64,
) -> io::Result<()> {
    let programs = &shown.load.spec.programs;
    let weight = u64::from(programs[number].weight);
    let weights: u64 = programs.iter().map(|p| u64::from(p.weight)).sum();
    let count = total(&record.counts);
    writeln!(out, "SQL script {}: {}", number + 1, programs[number].program.name)?;
    if phase_summary::has_other_weights(&shown.load.spec) {
        writeln!(out, " - weight: {weight}, but phases have their own")?;
    } else {
        writeln!(out, " - weight: {weight} (targets {:.1}% of total)", percent(weight, weights))?;
    }
    writeln!(out, " - {count} transactions ({:.1}% of total)", percent(count, total_of_all))?;
    if count > 0 {
        let succeeded = record.counts.succeeded;
        let tps = succeeded as f64 / shown.report.measured_s();
        writeln!(out, " - number of transactions actually processed: {succeeded} (tps = {tps:.6})")?;
        failures(out, " - ", shown, &record.counts)?;
    }
    simple_stats(out, " - latency", &record.latency.moments)?;
    write_pauses(out, " - ", &shown.load.spec.pacing[number], record)?;
    match &shown.options.percentiles {
        Some(percentiles) => percentiles.write(out, " - ", &record.latency),
        None => Ok(()),
    }
}

fn commands(
    out: &mut impl Write, shown: &SummaryContext<'_>, script: usize, records: &[Option<CommandRecord>],
) -> io::Result<()> {
    let commands = &shown.load.spec.programs[script].program.commands;
    for (command, record) in commands.iter().zip(records) {
        let Some(record) = record else { continue };
        let mean_ms = record.moments.mean() / 1e6;
        write!(out, "   {mean_ms:11.3}  {:10} ", record.failures)?;
        if shown.load.spec.tries.may_retry() {
            write!(out, "{:10} ", record.retries)?;
        }
        writeln!(out, "{}", command.text)?;
    }
    Ok(())
}

fn command_percentiles(
    out: &mut impl Write, shown: &SummaryContext<'_>, script: usize, percentiles: &Percentiles,
) -> io::Result<()> {
    let commands = &shown.load.spec.programs[script].program.commands;
    for (command, record) in commands.iter().zip(&shown.report.commands[script]) {
        let Some(record) = record else { continue };
        percentiles.write_columns(out, &record.latencies())?;
        writeln!(out, "  {}", command.text)?;
    }
    Ok(())
}

fn write_pauses(out: &mut impl Write, prefix: &str, pacing: &Pacing, record: &ScriptRecord) -> io::Result<()> {
    for (what, pause, spent) in [("keying", pacing.keying, &record.keying), ("think", pacing.think, &record.think)] {
        if pause != Pause::None {
            writeln!(
                out,
                "{prefix}{what} time ({}) average = {:.3} ms, not part of latency",
                pause_words(pause),
                spent.mean() / 1e6
            )?;
        }
    }
    Ok(())
}

fn pause_words(pause: Pause) -> String {
    let ms = |length: Duration| length.as_secs_f64() * 1e3;
    match pause {
        Pause::None => "none".to_owned(),
        Pause::Fixed(length) => format!("fixed, {} ms", ms(length)),
        Pause::Exponential { mean } => {
            format!("exponential, mean {} ms, at most {} ms", ms(mean), ms(mean * LONGEST_IN_MEANS))
        }
    }
}
