//! The server's processes, one by one and as sums by kind.

use std::collections::{BTreeMap, HashSet};

use super::files::{Files, field, word};
use super::postmaster::{children, parent};
use super::title;
use crate::catalogue::source;
use crate::clock::Stamp;
use crate::probe_cost::Queries;
use crate::sample::{Differ, Labels, Reading, Row, Sample, Values, find, present};

const CLIENT: &str = "client backend";

/// Remembers the counters of processes.
#[derive(Debug)]
pub struct Processes {
    differ: Differ,
    most_clients: usize,
    io_refused: bool,
    /// The children in the last sample.
    known: Vec<u32>,
    /// The probe's own backend, and what it had used.
    own: (u32, f64),
}

impl Processes {
    /// Reports the `most_clients` busiest client backends one by one, and sums of all.
    pub fn new(most_clients: usize) -> Self {
        Self {
            differ: Differ::new(source("process")),
            most_clients,
            io_refused: false,
            known: Vec::new(),
            own: (0, 0.0),
        }
    }

    /// Counts the probe's own session with the probe, because it is not a part of the load.
    fn own_session(&mut self, pid: u32, reading: &Reading, queries: &Queries) {
        let used = find(&reading.values, "cpu").copied().unwrap_or(0.0);
        let (before, had_used) = self.own;
        queries.session_used((used - if before == pid { had_used } else { 0.0 }).max(0.0));
        self.own = (pid, used);
    }

    /// Whether the kernel refused to show a process's I/O.
    pub fn io_refused(&self) -> bool {
        self.io_refused
    }

    /// All children of the postmaster. The kernel's list skips some of them if others end while it is read
    /// (`get_children_pid`), and a process that reappeared in the next sample would count from its beginning.
    fn children(&mut self, files: &Files, postmaster: u32) -> Vec<u32> {
        let mut found = children(files, postmaster);
        let listed: HashSet<u32> = found.iter().copied().collect();
        let is_skipped = |pid: &u32| !listed.contains(pid) && parent(files, *pid) == Some(postmaster);
        found.extend(self.known.drain(..).filter(is_skipped));
        self.known.clone_from(&found);
        found
    }

    /// The sources `process` and `processes` for this postmaster.
    pub fn samples(&mut self, files: &Files, at: Stamp, postmaster: u32, queries: &Queries) -> [Sample; 2] {
        let mut readings: Vec<Reading> = process_reading(files, postmaster, true).into_iter().collect();
        for pid in self.children(files, postmaster) {
            // a process that has just ended is left out
            let Some(reading) = process_reading(files, pid, false) else {
                continue;
            };
            if pid == queries.session() {
                self.own_session(pid, &reading, queries);
            } else {
                readings.push(reading);
            }
        }
        // a process that ends while it is read lacks its I/O, too
        let lacks_io = |reading: &Reading| find(&reading.values, "read").is_none();
        self.io_refused = !readings.is_empty() && readings.iter().all(lacks_io);
        let states = states(&readings);
        let mut each = self.differ.sample(at, readings);
        let sums = Sample { source: source("processes"), rows: sums(&each.rows, states), ..each.clone() };
        keep_busiest(&mut each.rows, self.most_clients);
        [each, sums]
    }
}

fn process_reading(files: &Files, pid: u32, is_postmaster: bool) -> Option<Reading> {
    let stat = files.text_if_any(&format!("proc/{pid}/stat"))?;
    let (_, after) = stat.rsplit_once(')')?;
    // from the third field on; see proc_pid_stat(5)
    let words: Vec<&str> = after.split_whitespace().collect();
    let labels = if is_postmaster {
        vec![("kind", "postmaster".to_owned())]
    } else {
        title::read(&files.text_if_any(&format!("proc/{pid}/cmdline"))?)?.labels()
    };
    let mut more = labels;
    more.push(("state", (*words.first()?).to_owned()));
    let started = *words.get(19)?;
    Some(Reading {
        // a process ID may be reused
        key: vec![("pid", pid.to_string()), ("started", started.to_owned())],
        more,
        values: values(files, pid, &words),
    })
}

fn values(files: &Files, pid: u32, words: &[&str]) -> Values {
    let us_a_tick = 1e6 / rustix::param::clock_ticks_per_second() as f64;
    let ticks_us = |number| word(words, number).map(|ticks| ticks * us_a_tick);
    let exact = files.text_if_any(&format!("proc/{pid}/schedstat")).unwrap_or_default();
    let exact: Vec<&str> = exact.split_whitespace().collect();
    let exact_us = |number| word(&exact, number).map(|ns| (ns / 1000.0).round());
    let cpu = exact_us(0).or_else(|| Some(ticks_us(11)? + ticks_us(12)?));
    let io = files.text_if_any(&format!("proc/{pid}/io")).unwrap_or_default();
    present(&[
        ("cpu", cpu),
        ("system", ticks_us(12)),
        ("run_wait", exact_us(1)),
        ("read", field(&io, "read_bytes")),
        ("written", field(&io, "write_bytes")),
        ("read_calls", field(&io, "rchar")),
        ("written_calls", field(&io, "wchar")),
        ("faults", word(words, 7)),
        ("major_faults", word(words, 9)),
    ])
}

/// Numbers of processes, of running and of waiting ones, by kind.
type States = BTreeMap<String, [f64; 3]>;

fn states(readings: &[Reading]) -> States {
    let mut by_kind = States::new();
    for reading in readings {
        let counts = by_kind.entry(label(&reading.more, "kind").to_owned()).or_default();
        counts[0] += 1.0;
        match label(&reading.more, "state") {
            "R" => counts[1] += 1.0,
            "D" => counts[2] += 1.0,
            _ => {}
        }
    }
    by_kind
}

fn sums(each: &[Row], states: States) -> Vec<Row> {
    let rows = states.into_iter().map(|(kind, [number, running, waiting])| {
        let mut values = vec![("number", number), ("running", running), ("waiting", waiting)];
        for metric in source("process").metrics {
            let of_kind = each.iter().filter(|row| label(&row.labels, "kind") == kind);
            let sum: f64 = of_kind.map(|row| value(row, metric.name)).sum();
            if sum > 0.0 {
                values.push((metric.name, sum));
            }
        }
        let labels = vec![("kind", kind)];
        Row { labels, values }
    });
    rows.collect()
}

/// Keeps the busiest client backends; of equal ones those with the most I/O.
fn keep_busiest(rows: &mut Vec<Row>, most: usize) {
    let (mut clients, mut others): (Vec<Row>, Vec<Row>) =
        rows.drain(..).partition(|row| label(&row.labels, "kind") == CLIENT);
    clients.sort_by(|a, b| {
        let order = |row: &Row| (value(row, "cpu"), value(row, "written"));
        order(b).partial_cmp(&order(a)).unwrap_or(std::cmp::Ordering::Equal)
    });
    clients.truncate(most);
    others.extend(clients);
    for row in &mut others {
        row.labels.retain(|(name, _)| *name != "started");
    }
    *rows = others;
}

fn label<'a>(labels: &'a Labels, name: &str) -> &'a str {
    find(labels, name).map_or("", String::as_str)
}

fn value(row: &Row, name: &str) -> f64 {
    find(&row.values, name).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::files::tests::{files, put};
    use super::*;

    fn row(kind: &str, pid: &str, cpu: f64) -> Row {
        let labels = vec![("pid", pid.into()), ("started", "1".into()), ("kind", kind.into())];
        Row { labels, values: vec![("cpu", cpu)] }
    }

    /// A folder with the files of a postmaster, number 7, and two children.
    fn server() -> (tempfile::TempDir, Files) {
        let (folder, files) = files(&[("proc/7/task/7/children", "8 9")]);
        let put = |name: &str, text: &str| put(&folder.path().join("proc"), name, text);
        for (pid, parent, title) in [(7, 1, ""), (8, 7, "walwriter"), (9, 7, "checkpointer")] {
            let rest = "0 ".repeat(17);
            put(&format!("{pid}/stat"), &format!("{pid} (postgres) S {parent} {rest}55 0"));
            put(&format!("{pid}/cmdline"), &format!("postgres: {title}"));
            put(&format!("{pid}/io"), "read_bytes: 4096\n");
            put(&format!("{pid}/schedstat"), "900000000 0 0\n");
        }
        (folder, files)
    }

    #[test]
    fn a_child_that_the_kernels_list_skipped_is_sampled_nevertheless() {
        let (folder, files) = server();
        let (mut processes, queries) = (Processes::new(9), Queries::default());
        let clock = crate::clock::Clock::start();
        let mut sums = || {
            let [_, sums] = processes.samples(&files, clock.now(), 7, &queries);
            let row = |kind| {
                let row = sums.rows.iter().find(|row| label(&row.labels, "kind") == kind);
                row.map(|row| (value(row, "number"), value(row, "cpu")))
            };
            (row("walwriter"), row("checkpointer"))
        };
        let list = folder.path().join("proc/7/task/7/children");
        let cpu = folder.path().join("proc/8/schedstat");
        sums();
        std::fs::write(&list, "9").expect("a file");
        std::fs::write(&cpu, "900500000 0 0\n").expect("a file");
        assert_eq!(sums(), (Some((1.0, 500.0)), Some((1.0, 0.0))));
        std::fs::write(&list, "8 9").expect("a file");
        std::fs::write(&cpu, "901500000 0 0\n").expect("a file");
        assert_eq!(sums(), (Some((1.0, 1000.0)), Some((1.0, 0.0))));
        std::fs::write(&list, "9").expect("a file");
        std::fs::remove_dir_all(folder.path().join("proc/8")).expect("it is ours");
        assert_eq!(sums(), (None, Some((1.0, 0.0))));
    }

    #[test]
    fn io_is_refused_if_no_process_shows_it() {
        let (folder, files) = server();
        let (mut processes, queries) = (Processes::new(9), Queries::default());
        let now = crate::clock::Clock::start().now();
        for (pid, is_refused) in [(9, false), (8, false), (7, true)] {
            // it ended between two reads, or may not be read
            std::fs::remove_file(folder.path().join(format!("proc/{pid}/io"))).expect("removed");
            processes.samples(&files, now, 7, &queries);
            assert_eq!(processes.io_refused(), is_refused, "{pid}");
        }
    }

    #[test]
    fn the_busiest_clients_are_kept_and_all_are_summed() {
        let mut rows =
            vec![row(CLIENT, "1", 5.0), row("checkpointer", "2", 1.0), row(CLIENT, "3", 9.0), row(CLIENT, "4", 7.0)];
        let states = States::from([(CLIENT.to_owned(), [3.0, 1.0, 0.0])]);
        let sums = sums(&rows, states);
        assert_eq!(sums.len(), 1);
        assert_eq!(value(&sums[0], "cpu"), 21.0);
        assert_eq!(value(&sums[0], "running"), 1.0);
        keep_busiest(&mut rows, 2);
        let pids: Vec<_> = rows.iter().map(|row| label(&row.labels, "pid")).collect();
        assert_eq!(pids, ["2", "3", "4"]);
        assert!(rows.iter().all(|row| label(&row.labels, "started").is_empty()));
    }
}
