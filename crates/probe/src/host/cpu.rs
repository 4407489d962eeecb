//! CPU time by mode, of all cores and of each.

use super::files::{Files, word};
use crate::sample::Reading;

/// The source `cpu`, from the text of `/proc/stat`.
pub fn all(stat: &str) -> Result<Vec<Reading>, String> {
    let cores = lines(stat).filter(|(name, _)| *name != "cpu").count();
    let (_, modes) = lines(stat).find(|(name, _)| *name == "cpu").ok_or("/proc/stat has no line of all CPUs")?;
    let reading = Reading { values: values(&modes, cores.max(1) as f64), ..Reading::default() };
    Ok(vec![reading])
}

/// The source `core`.
pub fn each(stat: &str, files: &Files) -> Vec<Reading> {
    let cores = lines(stat).filter_map(|(name, modes)| {
        let number = name.strip_prefix("cpu").filter(|number| !number.is_empty())?;
        let mut values = values(&modes, 1.0);
        values.extend(frequency_mhz(number, files).map(|mhz| ("frequency", mhz)));
        Some(Reading { key: vec![("core", number.to_owned())], values, ..Reading::default() })
    });
    cores.collect()
}

fn lines(stat: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let cpus = stat.lines().take_while(|line| line.starts_with("cpu"));
    cpus.filter_map(|line| {
        let (name, modes) = line.split_once(' ')?;
        Some((name, modes.split_whitespace().collect()))
    })
}

/// Microseconds for each core. The kernel includes guests in user and nice.
fn values(modes: &[&str], cores: f64) -> Vec<(&'static str, f64)> {
    let us_a_tick = 1e6 / rustix::param::clock_ticks_per_second() as f64;
    let ticks = |number| word(modes, number).unwrap_or(0.0);
    let guest = ticks(8) + ticks(9);
    let by_mode = [
        ("user", ticks(0) + ticks(1) - guest),
        ("system", ticks(2)),
        ("idle", ticks(3)),
        ("iowait", ticks(4)),
        ("irq", ticks(5) + ticks(6)),
        ("steal", ticks(7)),
        ("guest", guest),
    ];
    by_mode.map(|(mode, ticks)| (mode, ticks * us_a_tick / cores)).to_vec()
}

fn frequency_mhz(core: &str, files: &Files) -> Option<f64> {
    let name = format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq");
    let khz: f64 = files.text_if_any(&name)?.trim().parse().ok()?;
    Some(khz / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::super::files::tests::files;
    use super::*;

    #[test]
    fn guests_are_not_counted_twice_and_all_cores_are_one() {
        let stat = "cpu  300 20 100 1000 40 6 8 12 50 10\ncpu0 100 0 50 500 20 3 4 6 0 0\n\
                    cpu1 200 20 50 500 20 3 4 6 50 10\nintr 5\n";
        let tick = 1e6 / rustix::param::clock_ticks_per_second() as f64;
        let all = all(stat).expect("it is right");
        let expected = [
            ("user", 130.0 * tick),
            ("system", 50.0 * tick),
            ("idle", 500.0 * tick),
            ("iowait", 20.0 * tick),
            ("irq", 7.0 * tick),
            ("steal", 6.0 * tick),
            ("guest", 30.0 * tick),
        ];
        assert_eq!(all[0].values, expected);
        let (_folder, files) = files(&[("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "2500000\n")]);
        let each = each(stat, &files);
        assert_eq!(each.len(), 2);
        assert_eq!(each[1].key, [("core", "1".to_owned())]);
        assert_eq!(each[1].values.last(), Some(&("frequency", 2500.0)));
        assert_eq!(each[0].values.len(), 7);
    }
}
