//! The generator's own load, for events.

use pgdyno_engine::health::{Health, Healths};
use pgdyno_engine::latencies::Moments;
use serde_json::{Value, json};

use crate::host_counters::peak_resident_bytes;

/// How much of the host's resources the load used.
#[derive(Debug, Clone, Copy)]
pub struct Footprint {
    /// CPU time stolen from the host; None if the host does not report it.
    pub steal_us: Option<u64>,
    before_bytes: Option<u64>,
    peak_bytes: Option<u64>,
}

impl Footprint {
    /// Measures at the end of a load; `before_bytes` is the peak of memory before the first connection.
    pub fn now(before_bytes: Option<u64>, steal_us: Option<u64>) -> Self {
        Self { steal_us, before_bytes, peak_bytes: peak_resident_bytes() }
    }

    /// The field `memory` of the `end` event.
    pub fn memory(&self, clients: usize) -> Value {
        match (self.before_bytes, self.peak_bytes) {
            (Some(before), Some(peak)) => json!({
                "peak_bytes": peak,
                "per_connection_bytes": peak.saturating_sub(before) / clients as u64,
            }),
            _ => Value::Null,
        }
    }
}

/// The workers' loads in one interval.
pub fn workers(workers: &[Health]) -> Value {
    workers.iter().map(worker).collect()
}

/// The workers' loads in the measured part.
pub fn totals(healths: &Healths) -> Value {
    let totals = healths.workers.iter().map(|total| {
        let mut worker = worker(&total.health);
        worker["highest_cpu_share"] = json!(total.highest_share);
        worker
    });
    totals.collect()
}

/// The schedule lag; null in a closed loop.
pub fn lag(lag: &Moments) -> Value {
    if lag.count == 0 { Value::Null } else { json!({ "mean": lag.mean(), "max": lag.max }) }
}

fn worker(health: &Health) -> Value {
    json!({
        "cpu_us": health.cpu / 1000,
        "cpu_share": health.share(),
        "waited_us": health.waited.map(|waited| waited / 1000),
        "clients": health.clients,
        "wakeups": health.wakeups,
        "replies": { "mean": health.mean_replies(), "max": health.most_replies },
        "lag_ns": lag(&health.lag),
        "late_us": health.late / 1000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgdyno_engine::clock::SECOND;

    #[test]
    fn a_worker_is_told_with_its_share_of_a_core() {
        let mut health = Health { span: SECOND, cpu: SECOND / 4, clients: 3, ..Health::default() };
        health.woke(4);
        health.woke(8);
        let event = worker(&health);
        assert_eq!(event["cpu_share"], json!(0.25));
        assert_eq!(event["replies"], json!({ "mean": 6.0, "max": 8 }));
        assert_eq!(event["lag_ns"], Value::Null);
    }

    #[test]
    fn memory_is_shared_out_over_connections() {
        let footprint = Footprint { steal_us: None, before_bytes: Some(1000), peak_bytes: Some(5000) };
        let event = footprint.memory(4);
        assert_eq!(event, json!({ "peak_bytes": 5000, "per_connection_bytes": 1000 }));
        let unknown = Footprint { peak_bytes: None, ..footprint };
        assert_eq!(unknown.memory(4), Value::Null);
    }
}
