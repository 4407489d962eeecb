//! Reports the progress of -i: pgbench's lines, and events.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use pgdyno_dataset::{Rows, Step, Watcher};
use serde_json::json;

use crate::events::Events;
use crate::messages::Messages;

/// Rows between two lines about a table.
const ROWS_A_LINE: u64 = 100_000;
/// Time between two lines about all tables.
const LINE_EVERY: Duration = Duration::from_secs(1);
/// Time between two lines about a table with -q.
const QUIET_EVERY: Duration = Duration::from_secs(5);
/// With -q, lines appear only at multiples of this number of rows, so that small tables have none.
const QUIET_ROWS: u64 = 100;
/// Time between two events about a table, or about all tables.
const EVENT_EVERY: Duration = Duration::from_secs(1);

pub fn print_line(line: &str) {
    write(&format!("{line}\n"));
}

fn write(text: &str) {
    // standard error may be closed; the load continues
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cadence {
    Rows,
    Quiet,
    /// Every second, for all tables together, with rates.
    Seconds,
}

/// What was reported about a table, or about all.
#[derive(Debug, Default)]
struct About {
    last_event: Option<Instant>,
    last_line: Option<Instant>,
    /// Number of periods of -q that have had their line.
    periods: u32,
}

pub struct LoadReporter<'a> {
    events: &'a mut Events,
    messages: &'a Messages,
    cadence: Cadence,
    /// The end of a line about rows: on a terminal the next line overwrites it.
    line_end: char,
    /// Indexed by table; None stands for all tables.
    about: HashMap<Option<String>, About>,
    /// Number of characters in the last line about rows.
    shown: usize,
    step: Step,
    resumable: bool,
}

impl<'a> LoadReporter<'a> {
    pub fn new(cadence: Cadence, events: &'a mut Events, messages: &'a Messages) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            events,
            messages,
            cadence,
            line_end: if terminal { '\r' } else { '\n' },
            about: HashMap::new(),
            shown: 0,
            step: Step::GenerateHere,
            resumable: false,
        }
    }

    pub fn resumable(&self) -> bool {
        self.resumable
    }

    fn is_due(&mut self, rows: &Rows<'_>) -> bool {
        let about = self.about.entry(rows.table.map(ToOwned::to_owned)).or_default();
        match (self.cadence, rows.table) {
            (Cadence::Rows, Some(_)) => rows.rows.is_multiple_of(ROWS_A_LINE),
            (Cadence::Quiet, Some(_)) => {
                let periods = rows.elapsed.as_secs_f64().div_euclid(QUIET_EVERY.as_secs_f64());
                let due = rows.rows.is_multiple_of(QUIET_ROWS)
                    && (rows.rows == rows.rows_total || periods as u32 > about.periods);
                if due {
                    about.periods = periods as u32;
                }
                due
            }
            (Cadence::Seconds, None) => {
                let due = rows.rows == rows.rows_total
                    || about.last_line.map_or(rows.elapsed, |line| line.elapsed()) >= LINE_EVERY;
                if due {
                    about.last_line = Some(Instant::now());
                }
                due
            }
            _ => false,
        }
    }

    fn tell(&mut self, rows: &Rows<'_>) {
        if self.is_due(rows) {
            let text = line(rows);
            // blanks overwrite the rest of a longer line on the terminal
            let width = self.shown;
            write(&format!("{text:width$}{}", self.line_end));
            self.shown = text.len();
        }
        if rows.rows == rows.rows_total && self.shown > 0 && self.line_end == '\r' {
            let width = self.shown;
            write(&format!("{:width$}\r", ""));
        }
    }

    fn event(&mut self, rows: &Rows<'_>) {
        let about = self.about.entry(rows.table.map(ToOwned::to_owned)).or_default();
        let early = about.last_event.is_some_and(|last| last.elapsed() < EVENT_EVERY);
        if rows.rows < rows.rows_total && early {
            return;
        }
        about.last_event = Some(Instant::now());
        let elapsed_s = rows.elapsed.as_secs_f64().max(1e-6);
        let fields = json!({
            "step": self.step.name(),
            "table": rows.table,
            "rows": rows.rows,
            "rows_total": rows.rows_total,
            "bytes": rows.bytes,
            "elapsed_us": rows.elapsed.as_micros() as u64,
            "rows_before": rows.rows_before,
            "rows_per_s": (rows.rows_now() as f64 / elapsed_s).round(),
            "remaining_us": rows.remaining().as_micros() as u64,
        });
        // a reader that has ended is noticed at the last event
        let _ = self.events.write("load", fields);
    }
}

impl Watcher for LoadReporter<'_> {
    fn step(&mut self, step: Step) {
        print_line(step.progress());
        self.step = step;
        self.about.clear();
        self.shown = 0;
        let _ = self.events.write("load", json!({ "step": step.name() }));
    }

    fn step_done(&mut self, step: Step, elapsed: Duration, rows: u64, bytes: u64) {
        let fields = json!({
            "step": step.name(),
            "elapsed_us": elapsed.as_micros() as u64,
            "rows": rows,
            "bytes": bytes,
        });
        let _ = self.events.write("step", fields);
    }

    fn partitions(&mut self, count: usize) {
        print_line(&format!("creating {count} partitions..."));
    }

    fn rows(&mut self, rows: &Rows<'_>) {
        self.tell(rows);
        self.event(rows);
    }

    fn resumable(&mut self) {
        self.resumable = true;
    }

    fn resumed(&mut self, chunks_done: u64, chunks: u64) {
        print_line(&format!("resuming: {chunks_done} of {chunks} chunks are loaded"));
        let fields = json!({ "chunks_done": chunks_done, "chunks": chunks });
        let _ = self.events.write("resumed", fields);
    }

    fn notice(&mut self, text: &str) {
        print_line(text);
    }

    fn warning(&mut self, text: &str) {
        self.messages.warning(text);
    }
}

fn line(rows: &Rows<'_>) -> String {
    let elapsed_s = rows.elapsed.as_secs_f64();
    let of_table = rows.table.map_or_else(String::new, |table| format!(" of {table}"));
    let mut text = format!(
        "{} of {} tuples ({}%){of_table} done (elapsed {elapsed_s:.2} s, remaining {:.2} s)",
        rows.rows,
        rows.rows_total,
        rows.rows * 100 / rows.rows_total.max(1),
        rows.remaining().as_secs_f64(),
    );
    if rows.table.is_none() && elapsed_s > 0.0 {
        let rows_per_s = rows.rows_now() as f64 / elapsed_s;
        // bytes that an earlier load has sent took no time now
        let share = rows.rows_now() as f64 / rows.rows.max(1) as f64;
        let mb_per_s = rows.bytes as f64 * share / elapsed_s / 1e6;
        text.push_str(&format!(", {rows_per_s:.0} tuples/s, {mb_per_s:.1} MB/s"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgdyno_engine::clock::Clock;

    const ACCOUNTS: &str = "pgbench_accounts";
    const TELLERS: &str = "pgbench_tellers";

    fn rows(table: &str, rows: u64, rows_total: u64, elapsed_s: u64) -> Rows<'_> {
        let elapsed = Duration::from_secs(elapsed_s);
        Rows { table: Some(table), rows, rows_total, bytes: rows * 20, rows_before: 0, elapsed }
    }

    fn due(cadence: Cadence, all: &[Rows<'_>]) -> Vec<bool> {
        let mut events = Events::open(None, Clock::start()).expect("no file");
        let messages = Messages::new("pgdrive");
        let mut reporter = LoadReporter::new(cadence, &mut events, &messages);
        let answers = all.iter().map(|rows| {
            reporter.shown = 0;
            reporter.rows(rows);
            reporter.shown > 0
        });
        answers.collect()
    }

    #[test]
    fn a_line_is_pgbenchs() {
        assert_eq!(
            line(&rows(ACCOUNTS, 300_000, 1_000_000, 3)),
            "300000 of 1000000 tuples (30%) of pgbench_accounts done (elapsed 3.00 s, remaining 7.00 s)"
        );
        // lines about all have rates
        let mut all = rows(ACCOUNTS, 300_000, 1_000_000, 3);
        all.table = None;
        assert_eq!(
            line(&all),
            "300000 of 1000000 tuples (30%) done (elapsed 3.00 s, remaining 7.00 s), 100000 tuples/s, 2.0 MB/s"
        );
        // rows of an earlier load took no time
        all.rows_before = 200_000;
        assert_eq!(
            line(&all),
            "300000 of 1000000 tuples (30%) done (elapsed 3.00 s, remaining 21.00 s), 33333 tuples/s, 0.7 MB/s"
        );
        assert_eq!(due(Cadence::Seconds, &[all, all, rows(ACCOUNTS, 1_000, 1_000, 9)]), [true, false, false]);
        assert_eq!(due(Cadence::Quiet, &[all]), [false]);
    }

    #[test]
    fn lines_come_by_rows_and_quiet_ones_by_time_and_at_the_end() {
        let all = [
            rows(TELLERS, 10, 10, 0),
            rows(ACCOUNTS, 90_000, 200_000, 60),
            rows(ACCOUNTS, 100_000, 200_000, 60),
            rows(ACCOUNTS, 200_000, 200_000, 60),
        ];
        assert_eq!(due(Cadence::Rows, &all), [false, false, true, true]);
        let all = [
            rows("pgbench_branches", 1, 1, 9),
            rows(TELLERS, 100, 100, 0),
            rows(ACCOUNTS, 10_000, 400_000, 4),
            rows(ACCOUNTS, 100_000, 400_000, 5),
            rows(ACCOUNTS, 200_000, 400_000, 9),
            rows(ACCOUNTS, 210_000, 400_000, 17),
            rows(ACCOUNTS, 220_000, 400_000, 19),
            rows(ACCOUNTS, 230_000, 400_000, 20),
            rows(ACCOUNTS, 400_000, 400_000, 21),
        ];
        assert_eq!(due(Cadence::Quiet, &all), [false, true, false, true, false, true, false, true, true]);
    }
}
