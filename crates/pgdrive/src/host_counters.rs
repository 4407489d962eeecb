//! Counters of the host: memory of this process, and CPU time that was stolen.

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

    /// Microseconds since the beginning.
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

    #[test]
    fn steal_is_the_eighth_figure() {
        let tick_us = 1_000_000 / rustix::param::clock_ticks_per_second();
        let stat = "cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(steal_us(stat), Some(80 * tick_us));
        assert_eq!(steal_us("cpu  10 20 30\n"), None);
        assert_eq!(steal_us(""), None);
    }

    #[test]
    fn memory_in_use_is_seen() {
        let before = peak_resident_bytes().expect("Linux has it");
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = peak_resident_bytes().expect("Linux has it");
        assert!(after >= before + block.len() as u64 / 2, "{before} {after}");
    }
}
