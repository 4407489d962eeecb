//! The summary's section for each phase.

use std::io::{self, Write};
use std::time::Duration;

use pgdyno_engine::phase_report::PhaseReport;
use pgdyno_engine::phases::{PhaseSpec, Phases, Ramp};
use pgdyno_engine::report::Report;
use pgdyno_engine::spec::Spec;

use crate::durations;

pub fn write(out: &mut impl Write, phases: &Phases, report: &Report) -> io::Result<()> {
    let asked = phases.specs().iter().zip(&report.phases);
    for (number, (spec, phase)) in asked.enumerate() {
        section(out, number + 1, spec, phase)?;
    }
    Ok(())
}

/// Whether a phase has a mix other than that of the command line.
pub fn has_other_weights(spec: &Spec) -> bool {
    let Some(phases) = &spec.phases else {
        return false;
    };
    let weights: Vec<u32> = spec.programs.iter().map(|p| p.weight).collect();
    phases.specs().iter().any(|phase| phase.weights != weights)
}

fn section(out: &mut impl Write, number: usize, spec: &PhaseSpec, phase: &PhaseReport) -> io::Result<()> {
    let left_out = if phase.result { "" } else { ", not in the results" };
    writeln!(out, "phase {number}: {} ({}{left_out})", phase.name, durations::format(spec.duration))?;
    if let Some(rate) = spec.rate_per_s {
        writeln!(out, " - rate: {} per second", span(rate))?;
    }
    writeln!(out, " - clients: {}", span(spec.clients))?;
    write_counts(out, phase)?;
    writeln!(out, " - tps = {:.6}", phase.tps())?;
    write_latency(out, phase)
}

fn write_counts(out: &mut impl Write, phase: &PhaseReport) -> io::Result<()> {
    let counts = phase.total().counts;
    writeln!(
        out,
        " - {} transactions scheduled: {} succeeded, {} failed, {} skipped, {} in flight",
        phase.scheduled(),
        counts.succeeded,
        counts.failed(),
        counts.skipped,
        phase.in_flight
    )?;
    if phase.unstarted > 0 {
        writeln!(out, " - {} more were due, and no client was free to begin them", phase.unstarted)?;
    }
    if counts.late > 0 {
        writeln!(out, " - {} above the latency limit", counts.late)?;
    }
    Ok(())
}

fn write_latency(out: &mut impl Write, phase: &PhaseReport) -> io::Result<()> {
    let latency = phase.total().latency;
    if latency.moments.count > 0 {
        let ms = |quantile| latency.at_quantile(quantile) as f64 / 1e6;
        writeln!(
            out,
            " - latency average = {:.3} ms, 50% {:.3}, 95% {:.3}, 99% {:.3}, max {:.3} ms",
            latency.moments.mean() / 1e6,
            ms(0.50),
            ms(0.95),
            ms(0.99),
            latency.moments.max as f64 / 1e6
        )?;
    }
    let lag = phase.total().lag;
    if lag.count > 0 {
        let (mean_ms, max_ms) = (lag.mean() / 1e6, lag.max as f64 / 1e6);
        writeln!(out, " - rate limit schedule lag: avg {mean_ms:.3} (max {max_ms:.3}) ms")?;
    }
    Ok(())
}

fn span(ramp: Ramp) -> String {
    if ramp.from == ramp.to { ramp.from.to_string() } else { format!("{} to {}", ramp.from, ramp.to) }
}

pub fn timer_tick(out: &mut impl Write, tick: Duration) -> io::Result<()> {
    if tick.is_zero() {
        return Ok(());
    }
    writeln!(out, "timer tick: {}", durations::format(tick))
}
