//! Limits of the server's control group, and their effects.

use super::files::{Files, field};
use crate::sample::{Reading, Values, present};

/// Greater limits of memory mean no limit: version 1 reports that as the greatest multiple of a page.
const NO_LIMIT_BYTES: f64 = (1_u64 << 62) as f64;

pub fn cgroup(files: &Files, pid: &str) -> Result<Vec<Reading>, String> {
    let groups = files.text(&format!("proc/{pid}/cgroup"))?;
    let values = version_2(files, &groups).unwrap_or_else(|| version_1(files, &groups));
    if values.is_empty() {
        return Err("could not find the files of its control group below /sys/fs/cgroup".into());
    }
    Ok(vec![Reading { values, ..Reading::default() }])
}

/// For version 2 alone; alongside version 1 its hierarchy has no controllers.
fn version_2(files: &Files, groups: &str) -> Option<Values> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let own = Folder::new(files, "sys/fs/cgroup", path);
    let stat = own.text("cpu.stat")?;
    let quota = |folder: &Folder| {
        let text = folder.text("cpu.max")?;
        let (quota, period) = text.trim().split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    };
    let (limit, limited) = lowest(own.with_above(), quota);
    let limited = limited.and_then(|folder| folder.text("cpu.stat"));
    let limited = limited.unwrap_or_else(|| stat.clone());
    let memory_limit = |folder: &Folder| folder.number("memory.max");
    let events = own.text("memory.events").unwrap_or_default();
    Some(present(&[
        ("cpu_limit", limit),
        ("cpu", field(&stat, "usage_usec")),
        ("throttled", field(&limited, "throttled_usec")),
        ("throttled_periods", field(&limited, "nr_throttled")),
        ("memory_limit", lowest(own.with_above(), memory_limit).0),
        ("memory", own.number("memory.current")),
        ("memory_at_limit", field(&events, "max")),
        ("oom_kills", field(&events, "oom_kill")),
    ]))
}

fn version_1(files: &Files, groups: &str) -> Values {
    let folder = |controller: &str| {
        let path = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let is_it = parts.next()?.split(',').any(|known| known == controller);
            is_it.then(|| parts.next())?
        });
        // a controller that does not exist has no files
        Folder::new(files, &format!("sys/fs/cgroup/{controller}"), path.unwrap_or("/"))
    };
    let (cpu, memory) = (folder("cpu"), folder("memory"));
    let quota = |folder: &Folder| {
        let quota = folder.number("cpu.cfs_quota_us").filter(|us| *us > 0.0)?;
        Some(quota / folder.number("cpu.cfs_period_us")?)
    };
    let (limit, limited) = lowest(cpu.with_above(), quota);
    let stat = limited.unwrap_or(cpu).text("cpu.stat").unwrap_or_default();
    let bytes = |folder: &Folder| {
        let bytes = folder.number("memory.limit_in_bytes")?;
        (bytes < NO_LIMIT_BYTES).then_some(bytes)
    };
    let used = folder("cpuacct").number("cpuacct.usage");
    let oom = memory.text("memory.oom_control").unwrap_or_default();
    present(&[
        ("cpu_limit", limit),
        ("cpu", used.map(|ns| ns / 1000.0)),
        ("throttled", field(&stat, "throttled_time").map(|ns| ns / 1000.0)),
        ("throttled_periods", field(&stat, "nr_throttled")),
        ("memory_limit", lowest(memory.with_above(), bytes).0),
        ("memory", memory.number("memory.usage_in_bytes")),
        ("memory_at_limit", memory.number("memory.failcnt")),
        ("oom_kills", field(&oom, "oom_kill")),
    ])
}

#[derive(Debug, Clone)]
struct Folder<'a> {
    files: &'a Files,
    root: String,
    /// Path of the group, without a slash at the end.
    path: String,
}

impl<'a> Folder<'a> {
    fn new(files: &'a Files, root: &str, path: &str) -> Self {
        Self { files, root: root.to_owned(), path: path.trim_end_matches('/').to_owned() }
    }

    fn text(&self, name: &str) -> Option<String> {
        let Self { files, root, path } = self;
        files.text_if_any(&format!("{root}{path}/{name}"))
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.trim().parse().ok()
    }

    /// The group and its visible ancestors, whose limits apply, too.
    fn with_above(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.clone()), |folder| {
            let (above, _) = folder.path.rsplit_once('/')?;
            Some(Self { path: above.to_owned(), ..folder.clone() })
        })
    }
}

/// The lowest limit, and the group that has it.
fn lowest<'a>(
    groups: impl Iterator<Item = Folder<'a>>, limit: impl Fn(&Folder) -> Option<f64>,
) -> (Option<f64>, Option<Folder<'a>>) {
    let limits = groups.filter_map(|group| Some((limit(&group)?, group)));
    limits.min_by(|(a, _), (b, _)| a.total_cmp(b)).unzip()
}

#[cfg(test)]
mod tests {
    use super::super::files::tests::files;
    use super::*;

    fn made(made: &[(&str, &str)]) -> Values {
        let (_folder, files) = files(made);
        cgroup(&files, "7").expect("it is there").remove(0).values
    }

    #[test]
    fn limits_of_both_versions_are_read() {
        let values = made(&[
            ("proc/7/cgroup", "0::/pg/main\n"),
            ("sys/fs/cgroup/pg/main/cpu.stat", "usage_usec 500\nnr_throttled 3\nthrottled_usec 90\n"),
            ("sys/fs/cgroup/pg/main/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/pg/main/memory.max", "max\n"),
            ("sys/fs/cgroup/pg/main/memory.current", "4096\n"),
        ]);
        let expected =
            [("cpu_limit", 1.5), ("cpu", 500.0), ("throttled", 90.0), ("throttled_periods", 3.0), ("memory", 4096.0)];
        assert_eq!(values, expected);
        // a limit above binds too and its group is the one that waits
        let values = made(&[
            ("proc/7/cgroup", "0::/pod/pg\n"),
            ("sys/fs/cgroup/pod/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/pod/cpu.stat", "usage_usec 900\nnr_throttled 8\nthrottled_usec 70\n"),
            ("sys/fs/cgroup/pod/memory.max", "4096\n"),
            ("sys/fs/cgroup/pod/pg/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/pod/pg/cpu.stat", "usage_usec 500\n"),
            ("sys/fs/cgroup/pod/pg/memory.max", "8192\n"),
            ("sys/fs/cgroup/pod/pg/memory.events", "low 0\nhigh 0\nmax 5\noom 1\noom_kill 1\n"),
        ]);
        let expected = [
            ("cpu_limit", 0.5),
            ("cpu", 500.0),
            ("throttled", 70.0),
            ("throttled_periods", 8.0),
            ("memory_limit", 4096.0),
            ("memory_at_limit", 5.0),
            ("oom_kills", 1.0),
        ];
        assert_eq!(values, expected);
        // version 1 beside an empty version 2
        let values = made(&[
            ("proc/7/cgroup", "4:memory:/pg\n2:cpu,cpuacct:/pg\n0::/\n"),
            ("sys/fs/cgroup/cpu/pg/cpu.stat", "nr_throttled 2\nthrottled_time 5000\n"),
            ("sys/fs/cgroup/cpu/pg/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/pg/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpuacct/pg/cpuacct.usage", "7000\n"),
            ("sys/fs/cgroup/memory/pg/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/pg/memory.usage_in_bytes", "8192\n"),
        ]);
        assert_eq!(values, [("cpu", 7.0), ("throttled", 5.0), ("throttled_periods", 2.0), ("memory", 8192.0)]);
    }
}
