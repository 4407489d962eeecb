//! The results of a load in TPC-C's figures: orders and transactions per minute, the mix, and
//! response times compared with the standard's limits.

use std::io::{self, Write};
use std::time::Duration;

use pgdyno_dataset::tpcc::Profile;
use pgdyno_dataset::tpcc::routines::Transaction;
use pgdyno_engine::latencies::Latencies;
use pgdyno_engine::report::{Outcome, Report};
use pgdyno_engine::spec::Spec;
use serde_json::{Value, json};

use super::deferred::{self, Delivered};
use super::inputs::Rules;
use super::mix_and_pauses::{Share, requirement};
use super::server_counts::{CountIncrease, ServerCounts};
use super::tpcc_load::Ready;
use super::transaction_kind::Kind;
use crate::events::Events;
use crate::options::TpccLoad;
use crate::phase_summary;
use crate::results::{Place, Results};

/// The most orders per minute that the ten terminals of a warehouse can place with the standard's pauses.
const MOST_A_WAREHOUSE: f64 = 12.86;
/// The greatest percentage of a delivery's districts that may have no open order (clause 2.7.1.3).
const SKIPPED_MOST_PERCENT: f64 = 1.0;

/// How long queued deliveries are waited for by default.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Figures {
    load: TpccLoad,
    rules: Rules,
    pauses: bool,
    sessions_of_deliveries: usize,
    measured_s: f64,
    /// Committed New-Orders, and those that were rolled back as required.
    committed: u64,
    rolled_back: u64,
    transactions: u64,
    shares: Vec<Share>,
    counts: Vec<u64>,
    types: Vec<Answered>,
    server: Result<CountIncrease, String>,
    delivered: Option<Delivered>,
    refusal: Option<String>,
}

#[derive(Debug)]
struct Answered {
    transaction: Transaction,
    count: u64,
    p90: Option<Duration>,
    limit: Duration,
}

impl Results for Figures {
    fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    fn add_end_fields(&self, end: &mut Value, spec: &Spec, _report: &Report, events: &mut Events) {
        end["tpcc"] = self.event(spec, events);
    }

    fn write(&self, place: Place, _report: &Report, out: &mut dyn Write) -> io::Result<()> {
        match place {
            Place::Last => self.write_lines(out),
            _ => Ok(()),
        }
    }
}

impl Figures {
    /// Collects the results after the load; waits for queued deliveries as for transactions.
    pub fn new(ready: Ready, spec: &Spec, report: &Report) -> Self {
        let programs = &spec.programs;
        let patience = match report.outcome {
            Outcome::Interrupted => Duration::ZERO,
            Outcome::Finished | Outcome::Aborted => spec.drain_limit.unwrap_or(PATIENCE),
        };
        let server = ready.server.ok_or("the first generator counts".to_owned()).and_then(ServerCounts::finish);
        let sessions_of_deliveries = ready.deferred.as_ref().map_or(0, |one| one.sessions());
        let delivered = ready.deferred.map(|deferred| deferred.finish(patience));
        let counts: Vec<u64> = report.scripts.iter().map(|one| one.counts.succeeded).collect();
        let total: u64 = counts.iter().sum();
        let weights: u32 = programs.iter().map(|program| program.weight).sum();
        let shares = counts
            .iter()
            .zip(programs)
            .map(|(count, program)| Share::new(*count, total, program.weight, weights, spec.clients));
        let types = Transaction::ALL.map(|transaction| sum_answers(transaction, report));
        let orders = [Kind::NewOrder, Kind::RolledBack].map(|kind| counts[kind as usize]);
        let [committed, rolled_back] = if ready.load.commits_unused_item() { [orders.iter().sum(), 0] } else { orders };
        let mut figures = Self {
            load: ready.load,
            rules: ready.rules,
            pauses: ready.pauses,
            sessions_of_deliveries,
            measured_s: report.measured_s(),
            committed,
            rolled_back,
            transactions: total,
            shares: shares.collect(),
            counts,
            types: types.into(),
            server,
            delivered,
            refusal: None,
        };
        figures.refusal = figures.refuse(spec);
        figures
    }

    /// Why the result is invalid; None if it is valid.
    fn refuse(&self, spec: &Spec) -> Option<String> {
        // the mix is that of all generators, so the program that merges them checks it
        let is_part = spec.share.is_some();
        if is_part || phase_summary::has_other_weights(spec) || self.transactions == 0 {
            return None;
        }
        let wrong = Kind::ALL.into_iter().zip(&self.shares);
        let wrong: Vec<String> = wrong
            .filter(|(_, share)| !share.is_as_asked())
            .map(|(kind, share)| {
                let [least, most] = share.bounds_percent;
                format!(
                    "{} {:.2} % of all, asked {:.2} % (chance explains {least:.2} to {most:.2} %)",
                    kind.name(),
                    share.percent,
                    share.asked_percent
                )
            })
            .collect();
        (!wrong.is_empty()).then(|| format!("the mix is not the one asked for: {}", wrong.join("; ")))
    }

    /// New-Orders per minute, counted by the driver.
    fn nopm(&self) -> f64 {
        self.a_minute(self.committed)
    }

    fn a_minute(&self, count: u64) -> f64 {
        count as f64 * 60.0 / self.measured_s.max(f64::MIN_POSITIVE)
    }

    fn write_lines(&self, out: &mut dyn Write) -> io::Result<()> {
        let Rules { warehouses, profile, is_bound, .. } = self.rules;
        let binding = if is_bound { "each client at its home warehouse" } else { "clients at all warehouses" };
        let pauses = if self.pauses { "keying and think time" } else { "no keying or think time" };
        writeln!(
            out,
            "derived from TPC-C: profile {}, variant {}, warehouses {warehouses}, {binding}, {pauses}",
            profile.name(),
            self.load.variant.name()
        )?;
        self.write_rates(out)?;
        match self.load.commits_unused_item() {
            true => writeln!(out, "New-Orders with an unused item: committed, as by this release of HammerDB")?,
            false => writeln!(
                out,
                "New-Orders rolled back: {} of {} ({:.3} %, required: 1 %)",
                self.rolled_back,
                self.committed + self.rolled_back,
                percent(self.rolled_back, self.committed + self.rolled_back)
            )?,
        }
        if profile == Profile::Spec {
            self.write_warnings(out)?;
        }
        self.types.iter().try_for_each(|one| self.write_type(one, out))?;
        match &self.delivered {
            Some(delivered) => self.write_deliveries(delivered, out),
            None => Ok(()),
        }
    }

    fn write_rates(&self, out: &mut dyn Write) -> io::Result<()> {
        let (nopm, tpm) = (self.nopm(), self.a_minute(self.transactions));
        match &self.server {
            Ok(counted) => {
                writeln!(
                    out,
                    "NOPM = {nopm:.1} by the driver, {:.1} by the server's sum(d_next_o_id)",
                    counted.nopm()
                )?;
                writeln!(
                    out,
                    "TPM = {tpm:.1} by the driver, {:.1} by the server's xact_commit + xact_rollback",
                    counted.tpm()
                )
            }
            Err(why) => {
                writeln!(out, "NOPM = {nopm:.1} by the driver; the server's: {why}")?;
                writeln!(out, "TPM = {tpm:.1} by the driver")
            }
        }
    }

    fn write_warnings(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.pauses {
            return writeln!(
                out,
                "keying and think time are off: this is not a throughput as the standard measures it"
            );
        }
        let a_warehouse = self.nopm() / f64::from(self.rules.warehouses);
        writeln!(
            out,
            "New-Orders a minute and warehouse: {a_warehouse:.2} (at most {MOST_A_WAREHOUSE} with ten terminals each)"
        )
    }

    fn write_type(&self, one: &Answered, out: &mut dyn Write) -> io::Result<()> {
        let share = percent(one.count, self.transactions);
        let asked: f64 = self.kinds_of(one.transaction).map(|share| share.asked_percent).sum();
        write!(out, "{:12} {:>9} {share:6.2} % (asked {asked:.2} %)", one.transaction.name(), one.count)?;
        match one.p90 {
            Some(p90) => writeln!(
                out,
                ", 90th percentile {:.3} ms ({} {} s)",
                p90.as_secs_f64() * 1e3,
                if p90 <= one.limit { "within" } else { "ABOVE" },
                one.limit.as_secs()
            ),
            None => writeln!(out),
        }
    }

    fn kinds_of(&self, transaction: Transaction) -> impl Iterator<Item = &Share> {
        let both = Kind::ALL.into_iter().zip(&self.shares);
        both.filter(move |(kind, _)| kind.transaction() == transaction).map(|(_, share)| share)
    }

    fn write_deliveries(&self, delivered: &Delivered, out: &mut dyn Write) -> io::Result<()> {
        let p90 = p90(&delivered.latency).unwrap_or_default();
        writeln!(
            out,
            "deliveries carried out: {}, 90th percentile {:.3} ms from the queue ({} {} s), by {} sessions; \
             {} failed, {} left",
            delivered.latency.moments.count,
            p90.as_secs_f64() * 1e3,
            if p90 <= deferred::LIMIT { "within" } else { "ABOVE" },
            deferred::LIMIT.as_secs(),
            self.sessions_of_deliveries,
            delivered.failed,
            delivered.left
        )?;
        let skipped = delivered.skipped_percent();
        writeln!(
            out,
            "districts without an open order: {skipped:.3} % ({} {SKIPPED_MOST_PERCENT} %)",
            if skipped <= SKIPPED_MOST_PERCENT { "within" } else { "ABOVE" }
        )
    }

    fn event(&self, spec: &Spec, events: &mut Events) -> Value {
        let c = self.rules.c;
        json!({
            "profile": self.rules.profile.name(),
            "variant": self.load.variant.name(),
            "warehouses": self.rules.warehouses,
            "home_warehouse": self.rules.is_bound,
            "pauses": self.pauses,
            "nurand_c": {
                "last_name_of_load": c.last_name_of_load,
                "last_name": c.last_name,
                "customer": (self.rules.profile == Profile::Spec).then_some(c.customer),
                "item": (self.rules.profile == Profile::Spec).then_some(c.item),
            },
            "nopm": self.nopm(),
            "tpm": self.a_minute(self.transactions),
            "server": self.server_event(),
            "unused_item": if self.load.commits_unused_item() { "commits" } else { "rolls back" },
            "new_orders": { "committed": self.committed, "rolled_back": self.rolled_back },
            "types": self.type_events(),
            "mix": self.mix_events(),
            "refused": self.refusal,
            "mix_is_one": !phase_summary::has_other_weights(spec),
            "deferred": (self.delivered.as_ref()).map(|delivered| self.deferred_event(delivered, spec, events)),
        })
    }

    fn type_events(&self) -> Vec<Value> {
        self.types
            .iter()
            .map(|one| {
                json!({
                    "name": one.transaction.name(),
                    "scripts": scripts_of(one.transaction),
                    "count": one.count,
                    "percent": percent(one.count, self.transactions),
                    "asked_percent": self.kinds_of(one.transaction).map(|share| share.asked_percent).sum::<f64>(),
                    "p90_ns": one.p90.map(|p90| p90.as_nanos() as u64),
                    "limit_s": one.limit.as_secs(),
                })
            })
            .collect()
    }

    fn mix_events(&self) -> Vec<Value> {
        Kind::ALL
            .into_iter()
            .zip(self.shares.iter().zip(&self.counts))
            .map(|(kind, (share, count))| {
                json!({
                    "script": kind as usize,
                    "name": kind.name(),
                    "count": count,
                    "percent": share.percent,
                    "asked_percent": share.asked_percent,
                    "chance_percent": share.bounds_percent,
                    "as_asked": share.is_as_asked(),
                })
            })
            .collect()
    }

    fn deferred_event(&self, delivered: &Delivered, spec: &Spec, events: &mut Events) -> Value {
        json!({
            "sessions": self.sessions_of_deliveries,
            "done": delivered.latency.moments.count,
            "failed": delivered.failed,
            "left": delivered.left,
            "p90_ns": p90(&delivered.latency).map(|p90| p90.as_nanos() as u64),
            "limit_s": deferred::LIMIT.as_secs(),
            "skipped_percent": delivered.skipped_percent(),
            "skipped_districts": delivered.skipped_districts,
            // percentiles of shares cannot be merged, but histograms can
            "histogram": spec.share.map(|_| events.histogram(&delivered.latency.histogram)),
        })
    }

    fn server_event(&self) -> Value {
        match &self.server {
            Ok(counted) => json!({
                "nopm": counted.nopm(),
                "tpm": counted.tpm(),
                "new_orders": counted.new_orders,
                "transactions": counted.transactions,
                "seconds": counted.seconds,
            }),
            Err(why) => json!({ "message": why }),
        }
    }
}

fn scripts_of(transaction: Transaction) -> Vec<usize> {
    let kinds = Kind::ALL.into_iter();
    let own = kinds.filter(|kind| kind.transaction() == transaction);
    own.map(|kind| kind as usize).collect()
}

fn sum_answers(transaction: Transaction, report: &Report) -> Answered {
    let mut latency = Latencies::default();
    let mut count = 0;
    for (kind, record) in Kind::ALL.into_iter().zip(&report.scripts) {
        if kind.transaction() == transaction {
            latency.add(&record.latency);
            count += record.counts.succeeded;
        }
    }
    Answered { transaction, count, p90: p90(&latency), limit: requirement(transaction).limit }
}

fn p90(latency: &Latencies) -> Option<Duration> {
    let value = latency.at_quantile(0.9);
    (latency.moments.count > 0).then(|| Duration::from_nanos(value))
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64 * 100.0
}
