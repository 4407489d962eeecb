//! Reads the server's log if it is a file: checkpoints with their phases, crashes, starts and ends.

mod checkpoint;
mod file_tail;
mod log_line;
mod log_location;

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use crate::host::{Choice, Files, LogChoice, Postmaster, ServerIdentity};
use crate::output::Output;
use crate::probe_stop::Stop;
use crate::ticks::Ticks;
use file_tail::Tail;
use log_line::{Entry, Format, Matter};

/// The longest delay until a line is noticed.
const PERIOD: Duration = Duration::from_millis(100);
/// How many reads there are between two searches for the file, which may have been rotated.
const SEARCH_EVERY: u32 = 10;
/// How many lines a second are reported about one subject: a server with many errors must not fill
/// the disk of the results, and many autovacuums must not hide a crash.
const MOST_A_SECOND: u32 = 20;

pub fn run(choice: &Choice, output: &Output, stop: &Stop) {
    let mut ticks = Ticks::new(output.clock().at(Duration::ZERO), PERIOD);
    let mut log = Log::new(choice, output);
    while let Some(tick) = ticks.wait(stop) {
        if tick.number.is_multiple_of(SEARCH_EVERY) {
            log.search();
        }
        log.read();
    }
    // reads the lines that were written just before the end
    log.read();
}

struct Log<'a> {
    output: &'a Output,
    files: Files,
    choose: &'a LogChoice,
    data: Option<&'a Path>,
    postmaster: Postmaster,
    tail: Option<(Tail, Format)>,
    passed_on: HashMap<Matter, u32>,
}

impl<'a> Log<'a> {
    fn new(choice: &'a Choice, output: &'a Output) -> Self {
        Self {
            output,
            files: Files::below(Path::new("/")),
            choose: &choice.log,
            data: choice.data.as_deref(),
            postmaster: Postmaster::new(choice.server.clone()),
            tail: None,
            passed_on: HashMap::new(),
        }
    }

    fn search(&mut self) {
        self.passed_on.clear();
        let found = match self.choose {
            LogChoice::None => return,
            LogChoice::File(path) => Ok((path.clone(), Format::of(path))),
            // the host's side reports that there is no server
            LogChoice::Find => match self.postmaster.pid(&self.files) {
                Ok(pid) => log_location::find(&self.files, self.data, pid),
                Err(_) => return,
            },
        };
        let (path, format) = match found {
            Ok(found) => found,
            Err(problem) => return self.lacks(&problem),
        };
        if self.tail.as_ref().is_some_and(|(tail, _)| tail.is_of(&path)) {
            return;
        }
        // a file that existed at the start is read from its end on, and a later one from its beginning
        let is_first = self.tail.is_none();
        self.read();
        match Tail::open(path, is_first) {
            Ok(tail) => self.tail = Some((tail, format)),
            Err(problem) => self.lacks(&problem),
        }
    }

    fn read(&mut self) {
        let Some((tail, format)) = &mut self.tail else {
            return;
        };
        let format = *format;
        let lines = match tail.lines() {
            Ok(lines) => lines,
            Err(problem) => return self.lacks(&problem),
        };
        if lines.skipped > 0 {
            let message = format!("{} bytes of the server's log were not read", lines.skipped);
            self.output.gap("log", self.output.clock().now(), &message, None);
        }
        for line in lines.text.lines() {
            if let Some(entry) = format.read(line) {
                self.entry(&entry);
            }
        }
    }

    fn entry(&mut self, entry: &Entry) {
        let at = self.output.clock().now();
        if let Some(fields) = checkpoint::read(&entry.message) {
            return self.output.write("checkpoint", at, fields);
        }
        let Some(matter) = entry.matter() else {
            return;
        };
        let passed_on = self.passed_on.entry(matter).or_default();
        if *passed_on < MOST_A_SECOND {
            *passed_on += 1;
            self.output.write("log", at, entry.fields());
        }
    }

    fn lacks(&self, problem: &str) {
        self.output.warning("log", problem, None);
    }
}

impl Choice {
    pub fn has_log(&self) -> bool {
        match self.log {
            LogChoice::None => false,
            LogChoice::File(_) => true,
            LogChoice::Find => self.server != ServerIdentity::No,
        }
    }
}
