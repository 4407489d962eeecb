//! Limits of the server's control group, and what they cost.

use super::files::{Files, field};
use super::kernel::present;
use crate::sample::Reading;

/// Limits of memory as large as this are none: version 1 says so with the highest multiple of a page.
const NO_LIMIT_BYTES: f64 = (1_u64 << 62) as f64;

/// `cgroup` of a process.
///
/// # Errors
/// The process is gone, or its groups cannot be read.
pub fn cgroup(files: &Files, pid: &str) -> Result<Vec<Reading>, String> {
    let groups = files.text(&format!("proc/{pid}/cgroup"))?;
    let values = version_2(files, &groups).unwrap_or_else(|| version_1(files, &groups));
    if values.is_empty() {
        return Err("could not find the files of its control group below /sys/fs/cgroup".into());
    }
    Ok(vec![Reading {
        values,
        ..Reading::default()
    }])
}

/// Version 2 alone; beside version 1 its hierarchy has no controllers.
fn version_2(files: &Files, groups: &str) -> Option<Vec<(&'static str, f64)>> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let folder = format!("sys/fs/cgroup{}", path.trim_end_matches('/'));
    let read = |name: &str| files.text_if_any(&format!("{folder}/{name}"));
    let stat = read("cpu.stat")?;
    let limit = read("cpu.max").and_then(|text| {
        let (quota, period) = text.trim().split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    });
    let bytes = |name: &str| read(name)?.trim().parse().ok();
    Some(present(&[
        ("cpu_limit", limit),
        ("cpu", field(&stat, "usage_usec")),
        ("throttled", field(&stat, "throttled_usec")),
        ("throttled_periods", field(&stat, "nr_throttled")),
        ("memory_limit", bytes("memory.max")),
        ("memory", bytes("memory.current")),
    ]))
}

fn version_1(files: &Files, groups: &str) -> Vec<(&'static str, f64)> {
    let read = |controller: &str, name: &str| {
        let path = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let is_it = parts.next()?.split(',').any(|known| known == controller);
            is_it.then(|| parts.next())?
        })?;
        let path = path.trim_end_matches('/');
        files.text_if_any(&format!("sys/fs/cgroup/{controller}{path}/{name}"))
    };
    let number = |controller: &str, name: &str| -> Option<f64> {
        read(controller, name)?.trim().parse().ok()
    };
    let stat = read("cpu", "cpu.stat").unwrap_or_default();
    let quota = number("cpu", "cpu.cfs_quota_us").filter(|quota| *quota > 0.0);
    let limit = quota.zip(number("cpu", "cpu.cfs_period_us"));
    let bytes = number("memory", "memory.limit_in_bytes");
    present(&[
        ("cpu_limit", limit.map(|(quota, period)| quota / period)),
        (
            "cpu",
            number("cpuacct", "cpuacct.usage").map(|ns| ns / 1000.0),
        ),
        (
            "throttled",
            field(&stat, "throttled_time").map(|ns| ns / 1000.0),
        ),
        ("throttled_periods", field(&stat, "nr_throttled")),
        (
            "memory_limit",
            bytes.filter(|bytes| *bytes < NO_LIMIT_BYTES),
        ),
        ("memory", number("memory", "memory.usage_in_bytes")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(made: &[(&str, &str)]) -> Vec<(&'static str, f64)> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in made {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        let readings = cgroup(&Files::below(folder.path()), "7").expect("it is there");
        readings.into_iter().next().expect("a row").values
    }

    #[test]
    fn version_2_with_limits() {
        let values = made(&[
            ("proc/7/cgroup", "0::/pg/main\n"),
            (
                "sys/fs/cgroup/pg/main/cpu.stat",
                "usage_usec 500\nnr_throttled 3\nthrottled_usec 90\n",
            ),
            ("sys/fs/cgroup/pg/main/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/pg/main/memory.max", "max\n"),
            ("sys/fs/cgroup/pg/main/memory.current", "4096\n"),
        ]);
        let expected = [
            ("cpu_limit", 1.5),
            ("cpu", 500.0),
            ("throttled", 90.0),
            ("throttled_periods", 3.0),
            ("memory", 4096.0),
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn version_1_beside_an_empty_version_2() {
        let values = made(&[
            ("proc/7/cgroup", "4:memory:/pg\n2:cpu,cpuacct:/pg\n0::/\n"),
            (
                "sys/fs/cgroup/cpu/pg/cpu.stat",
                "nr_throttled 2\nthrottled_time 5000\n",
            ),
            ("sys/fs/cgroup/cpu/pg/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/pg/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpuacct/pg/cpuacct.usage", "7000\n"),
            (
                "sys/fs/cgroup/memory/pg/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/memory/pg/memory.usage_in_bytes", "8192\n"),
        ]);
        let expected = [
            ("cpu", 7.0),
            ("throttled", 5.0),
            ("throttled_periods", 2.0),
            ("memory", 8192.0),
        ];
        assert_eq!(values, expected);
    }
}
