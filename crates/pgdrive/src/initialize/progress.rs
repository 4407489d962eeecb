//! What is said while tables are made: pgbench's lines, and events.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use pgdyno_dataset::pgbench::Table;
use pgdyno_dataset::{Rows, Step, Watcher};
use serde_json::json;

use crate::events::Events;

/// Rows between two lines about a table.
const ROWS_A_LINE: u64 = 100_000;
/// Time between two lines about a table when they are to be few.
const QUIET_EVERY: Duration = Duration::from_secs(5);
/// Quiet lines name rows in multiples of this, so that small tables are not named at all.
const QUIET_ROWS: u64 = 100;
/// Between two events about a table.
const EVENT_EVERY: Duration = Duration::from_secs(1);

/// Says a line to the user.
pub fn say(line: &str) {
    write(&format!("{line}\n"));
}

fn write(text: &str) {
    // standard error may be closed; the load goes on
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// How often a line about a table is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cadence {
    /// By rows.
    Rows,
    /// By time (-q).
    Quiet,
}

/// Tells the user and the reader of events how the load goes.
pub struct Told<'a> {
    events: &'a mut Events,
    last_event: Instant,
    cadence: Cadence,
    /// What ends a line about rows: on a terminal the next one is written over it.
    line_end: char,
    /// The table whose rows come.
    table: Option<Table>,
    /// Characters in the last line about it.
    shown: usize,
    /// Quiet periods after whose end the next line about it is due.
    periods: u32,
}

impl<'a> Told<'a> {
    /// Before the first step.
    pub fn new(cadence: Cadence, events: &'a mut Events) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            events,
            last_event: Instant::now(),
            cadence,
            line_end: if terminal { '\r' } else { '\n' },
            table: None,
            shown: 0,
            periods: 1,
        }
    }

    fn is_due(&self, rows: &Rows) -> bool {
        match self.cadence {
            Cadence::Rows => rows.rows.is_multiple_of(ROWS_A_LINE),
            Cadence::Quiet => {
                rows.rows.is_multiple_of(QUIET_ROWS)
                    && (rows.rows == rows.rows_total || rows.elapsed >= QUIET_EVERY * self.periods)
            }
        }
    }

    fn tell(&mut self, rows: &Rows) {
        if self.is_due(rows) {
            let text = line(rows);
            // blanks over what a longer line before it leaves on the terminal
            let width = self.shown;
            write(&format!("{text:width$}{}", self.line_end));
            self.shown = text.len();
            self.periods = rows
                .elapsed
                .as_secs_f64()
                .div_euclid(QUIET_EVERY.as_secs_f64()) as u32
                + 1;
        }
        if rows.rows == rows.rows_total && self.shown > 0 && self.line_end == '\r' {
            let width = self.shown;
            write(&format!("{:width$}\r", ""));
        }
    }

    fn event(&mut self, rows: &Rows) {
        if rows.rows < rows.rows_total && self.last_event.elapsed() < EVENT_EVERY {
            return;
        }
        self.last_event = Instant::now();
        let fields = json!({
            "step": Step::GenerateHere.name(),
            "table": rows.table.name(),
            "rows": rows.rows,
            "rows_total": rows.rows_total,
            "bytes": rows.bytes,
            "elapsed_us": rows.elapsed.as_micros() as u64,
        });
        // a reader that is gone is noticed at the end, which is written too
        let _ = self.events.write("load", fields);
    }
}

impl Watcher for Told<'_> {
    fn step(&mut self, step: Step) {
        say(step.progress());
        self.table = None;
        let _ = self.events.write("load", json!({ "step": step.name() }));
    }

    fn partitions(&mut self, count: u32) {
        say(&format!("creating {count} partitions..."));
    }

    fn rows(&mut self, rows: &Rows) {
        if self.table != Some(rows.table) {
            self.table = Some(rows.table);
            self.shown = 0;
            self.periods = 1;
        }
        self.tell(rows);
        self.event(rows);
    }

    fn notice(&mut self, text: &str) {
        say(text);
    }
}

/// The line about a table.
fn line(rows: &Rows) -> String {
    let elapsed_s = rows.elapsed.as_secs_f64();
    let left = (rows.rows_total - rows.rows) as f64;
    let remaining_s = left * elapsed_s / rows.rows as f64;
    format!(
        "{} of {} tuples ({}%) of {} done (elapsed {elapsed_s:.2} s, remaining {remaining_s:.2} s)",
        rows.rows,
        rows.rows_total,
        rows.rows * 100 / rows.rows_total,
        rows.table.name(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgdyno_engine::clock::Clock;

    fn rows(table: Table, rows: u64, rows_total: u64, elapsed_s: u64) -> Rows {
        Rows {
            table,
            rows,
            rows_total,
            bytes: 0,
            elapsed: Duration::from_secs(elapsed_s),
        }
    }

    /// Which of these get a line.
    fn due(cadence: Cadence, all: &[Rows]) -> Vec<bool> {
        let mut events = Events::open(None, Clock::start()).expect("no file");
        let mut told = Told::new(cadence, &mut events);
        let answers = all.iter().map(|rows| {
            told.shown = 0;
            told.rows(rows);
            told.shown > 0
        });
        answers.collect()
    }

    #[test]
    fn a_line_is_pgbenchs() {
        assert_eq!(
            line(&rows(Table::Accounts, 300_000, 1_000_000, 3)),
            "300000 of 1000000 tuples (30%) of pgbench_accounts done (elapsed 3.00 s, remaining 7.00 s)"
        );
    }

    #[test]
    fn lines_come_by_rows() {
        let all = [
            rows(Table::Tellers, 10, 10, 0),
            rows(Table::Accounts, 90_000, 200_000, 60),
            rows(Table::Accounts, 100_000, 200_000, 60),
            rows(Table::Accounts, 200_000, 200_000, 60),
        ];
        assert_eq!(due(Cadence::Rows, &all), [false, false, true, true]);
    }

    #[test]
    fn quiet_lines_come_by_time_and_at_the_end() {
        let all = [
            rows(Table::Branches, 1, 1, 9),
            rows(Table::Tellers, 100, 100, 0),
            rows(Table::Accounts, 10_000, 400_000, 4),
            rows(Table::Accounts, 100_000, 400_000, 5),
            rows(Table::Accounts, 200_000, 400_000, 9),
            rows(Table::Accounts, 210_000, 400_000, 17),
            rows(Table::Accounts, 220_000, 400_000, 19),
            rows(Table::Accounts, 230_000, 400_000, 20),
            rows(Table::Accounts, 400_000, 400_000, 21),
        ];
        assert_eq!(
            due(Cadence::Quiet, &all),
            [false, true, false, true, false, true, false, true, true]
        );
    }
}
