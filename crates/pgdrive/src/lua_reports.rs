//! Reports that a Lua script writes itself: `sysbench.hooks.report_intermediate` and `report_cumulative`.

use std::sync::Arc;

use pgdyno_engine::clock::{Nanos, SECOND};
use pgdyno_engine::interval::Merged;
use pgdyno_engine::latencies::Latencies;
use pgdyno_engine::recorder::Statements;
use pgdyno_engine::report::Report;
use pgdyno_lua::{Hook, Workload};

use crate::messages::{Failure, Messages};

/// The percentile of latencies, which is the default of sysbench's `--percentile`.
const PERCENTILE: f64 = 0.95;

/// Adds up intervals until the next report, in place of the progress line.
#[derive(Debug)]
pub struct Reports {
    /// None after a failure: the load continues without reports.
    workload: Option<Arc<Workload>>,
    messages: Messages,
    every: Nanos,
    is_open: bool,
    origin: Nanos,
    from: Nanos,
    /// Number of clients at the end of the last interval that had any: at the end of the load all have stopped.
    clients: usize,
    sums: Sums,
}

#[derive(Debug, Default)]
struct Sums {
    succeeded: u64,
    statements: Statements,
    latency: Latencies,
}

impl Reports {
    /// A report every `every_s` seconds, if the script writes any.
    pub fn new(workload: &Arc<Workload>, every_s: u64, is_open: bool, messages: &Messages) -> Option<Self> {
        workload.has_hook(Hook::Intermediate).then(|| Self {
            workload: Some(Arc::clone(workload)),
            messages: messages.clone(),
            every: every_s * SECOND,
            is_open,
            origin: 0,
            from: 0,
            clients: 0,
            sums: Sums::default(),
        })
    }

    pub fn begin(&mut self, origin: Nanos, clients: usize) {
        self.clients = clients;
        self.origin = origin;
        self.from = origin;
    }

    pub fn interval(&mut self, merged: &Merged) {
        for script in &merged.scripts {
            self.sums.succeeded += script.counts.succeeded;
            self.sums.statements.add(&script.statements);
            self.sums.latency.add(&script.latency);
        }
        if merged.clients > 0 {
            self.clients = merged.clients;
        }
        if merged.to - self.from < self.every {
            return;
        }
        let sums = std::mem::take(&mut self.sums);
        let reconnects = sums.statements.reconnects;
        let times = [merged.to - self.from, merged.to - self.origin].map(seconds);
        self.from = merged.to;
        let mut figures = sums.figures(self.clients, times, reconnects);
        let in_flight = if self.is_open { merged.in_flight } else { 0 };
        // starts that wait for a client are known only at the end
        figures.extend([("queue_length", 0.0), ("concurrency", in_flight as f64)]);
        if let Some(workload) = &self.workload
            && let Err(error) = workload.report(Hook::Intermediate, &figures)
        {
            Failure::from(error).report(&self.messages);
            self.workload = None;
        }
    }
}

impl Sums {
    fn figures(&self, threads: usize, times: [f64; 2], reconnects: u64) -> Vec<(&str, f64)> {
        let percentile = self.latency.at_quantile(PERCENTILE);
        vec![
            ("threads_running", threads as f64),
            ("time_interval", times[0]),
            ("time_total", times[1]),
            ("latency_pct", seconds(percentile)),
            ("events", self.succeeded as f64),
            ("reads", self.statements.reads as f64),
            ("writes", self.statements.writes as f64),
            ("other", self.statements.others as f64),
            ("errors", self.statements.ignored_errors as f64),
            ("reconnects", reconnects as f64),
        ]
    }
}

pub fn cumulative(workload: &Workload, report: &Report, threads: usize, messages: &Messages) {
    let total = report.total();
    let sums = Sums { succeeded: total.counts.succeeded, statements: total.statements, latency: total.latency };
    let moments = &sums.latency.moments;
    let mut figures = sums.figures(threads, [report.measured_s(); 2], reconnects(report));
    figures.extend([
        ("latency_min", seconds(moments.min)),
        ("latency_max", seconds(moments.max)),
        ("latency_avg", moments.mean() / SECOND as f64),
        ("latency_sum", moments.sum / SECOND as f64),
    ]);
    let reported = workload
        .finish_reports()
        .and_then(|()| workload.report(Hook::Cumulative, &figures))
        .and_then(|()| workload.finish_reports());
    if let Err(error) = reported {
        Failure::from(error).report(messages);
    }
}

fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / SECOND as f64
}

/// How many connections replaced lost ones, and how many the script replaced itself.
pub fn reconnects(report: &Report) -> u64 {
    let outages = report.outages.as_ref();
    let lost = outages.map_or(0, |outages| outages.tally.reconnects);
    lost + report.total().statements.reconnects
}
