//! How much memory a state may use.

use std::fs;

/// How many bytes each of `states` states may use, so that all of them leave half of the memory.
pub(crate) fn memory_limit(states: usize) -> usize {
    let number = |text: String| text.trim().parse::<usize>().ok();
    let of_group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let of_group = of_group.and_then(number).unwrap_or(usize::MAX);
    let of_host = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        number(line.trim_end_matches("kB").to_owned()).map(|kib| kib << 10)
    });
    let whole = of_group.min(of_host.unwrap_or(usize::MAX));
    (whole / 2 / states.max(1)).max(LEAST_MEMORY)
}

/// A lower limit would not hold a few thousand clients.
const LEAST_MEMORY: usize = 256 << 20;
