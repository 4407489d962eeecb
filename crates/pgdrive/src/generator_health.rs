//! The generator's own load, for events.

use pgdyno_engine::health::{Health, Healths};
use pgdyno_engine::latencies::Moments;
use serde_json::{Value, json};

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

pub fn workers(workers: &[Health]) -> Value {
    workers.iter().map(worker).collect()
}

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

/// Peak resident memory of this process in bytes. `ru_maxrss` would be at least the parent's.
pub fn peak_resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// CPU time of all cores that the hypervisor gave to other guests.
#[derive(Debug, Default)]
pub struct Steal {
    first_us: Option<u64>,
    last_us: Option<u64>,
}

impl Steal {
    pub fn begin(&mut self) {
        self.first_us = read();
        self.last_us = self.first_us;
    }

    /// Microseconds since the last call; None if the host does not report them.
    pub fn since_last(&mut self) -> Option<u64> {
        let now_us = read()?;
        // the kernel may correct its counter downwards
        Some(now_us.saturating_sub(self.last_us.replace(now_us)?))
    }

    pub fn since_begun(&self) -> Option<u64> {
        Some(read()?.saturating_sub(self.first_us?))
    }
}

fn read() -> Option<u64> {
    steal_us(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// The eighth figure of the line of all CPUs (proc(5)), in microseconds.
fn steal_us(stat: &str) -> Option<u64> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: u64 = line.split_whitespace().nth(7)?.parse().ok()?;
    Some(ticks * 1_000_000 / rustix::param::clock_ticks_per_second())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgdyno_engine::clock::SECOND;

    #[test]
    fn workers_have_their_share_of_a_core_and_steal_is_the_eighth_figure() {
        let mut health = Health { span: SECOND, cpu: SECOND / 4, clients: 3, ..Health::default() };
        health.woke(4);
        health.woke(8);
        let event = worker(&health);
        assert_eq!(event["cpu_share"], json!(0.25));
        assert_eq!(event["replies"], json!({ "mean": 6.0, "max": 8 }));
        assert_eq!(event["lag_ns"], Value::Null);
        // steal is the eighth figure
        let tick_us = 1_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(steal_us("cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\n"), Some(80 * tick_us));
        assert_eq!(steal_us("cpu  10 20 30\n"), None);
        assert_eq!(steal_us(""), None);
    }

    #[test]
    fn memory_in_use_is_shared_out_over_connections() {
        let footprint = Footprint { steal_us: None, before_bytes: Some(1000), peak_bytes: Some(5000) };
        assert_eq!(footprint.memory(4), json!({ "peak_bytes": 5000, "per_connection_bytes": 1000 }));
        assert_eq!(Footprint { peak_bytes: None, ..footprint }.memory(4), Value::Null);
        // memory in use is seen
        let before = peak_resident_bytes().expect("Linux has it");
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = peak_resident_bytes().expect("Linux has it");
        assert!(after >= before + block.len() as u64 / 2, "{before} {after}");
    }
}
