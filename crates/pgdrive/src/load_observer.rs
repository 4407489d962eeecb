//! Reports what happens while a load runs.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pgdyno_engine::clock::{Clock, Nanos};
use pgdyno_engine::interval::{Consequence, ErrorNote, Merged};
use pgdyno_engine::outage::OutageNote;
use pgdyno_engine::spec::{OnLoss, Spec};
use pgdyno_engine::{Connected, Observer, RunError};
use serde_json::json;

use crate::called_as::CalledAs;
use crate::events::Events;
use crate::exit::Outputs;
use crate::histogram_log::HistogramLog;
use crate::lua_reports::Reports;
use crate::messages::Messages;
use crate::outages::OutageReporter;
use crate::prepared_load::Load;
use crate::progress::Progress;

/// The reports of a load while it runs (-P).
pub enum Reporter {
    Progress(Progress),
    Script(Reports),
}

impl Reporter {
    fn begin(&mut self, origin: Nanos, clients: usize) {
        match self {
            Self::Progress(progress) => progress.begin(origin),
            Self::Script(reports) => reports.begin(origin, clients),
        }
    }

    fn interval(&mut self, merged: &Merged) {
        match self {
            Self::Progress(progress) => progress.interval(merged),
            Self::Script(reports) => reports.interval(merged),
        }
    }
}

/// Passes what happens to events, the progress line and standard error.
pub struct Watcher<'a> {
    pub events: &'a mut Events,
    pub histogram: Option<HistogramLog>,
    pub verbose_errors: bool,
    pub outages: OutageReporter,
    pub first_aborted: Option<usize>,
    pub progress: Option<Reporter>,
    pub messages: &'a Messages,
    pub load: &'a Load,
    pub stop: &'a AtomicBool,
    /// Lines of standard input, one of which says when to begin; None to begin immediately.
    pub start: Option<Receiver<String>>,
    pub outputs: Outputs,
}

impl Watcher<'_> {
    /// Stops a load whose events cannot be written, because its figures would be lost.
    fn check(&self, written: io::Result<()>) {
        if written.is_err() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Writes to the histogram log; if that fails, the load continues without it.
    fn log_histogram(&mut self, write: impl FnOnce(&mut HistogramLog) -> io::Result<()>) {
        let Some(log) = &mut self.histogram else {
            return;
        };
        let written = write(log);
        let what = format!("the histogram log to \"{}\"", log.path());
        if self.outputs.check(what, written) {
            self.messages.detail("The load continues without it.");
            self.histogram = None;
        }
    }
}

impl Observer for Watcher<'_> {
    fn ready(&mut self, clock: Clock, connecting: Nanos) -> Result<Nanos, RunError> {
        let Some(lines) = self.start.take() else {
            return Ok(clock.now());
        };
        let written = self.events.write("ready", json!({ "connect_us": connecting / 1000 }));
        self.check(written);
        awaited(&lines, clock, self.stop).map_err(|refusal| match refusal {
            Refusal::Interrupted => RunError::Interrupted,
            Refusal::Because(why) => RunError::Start(why),
        })
    }

    fn connected(&mut self, connected: &Connected) {
        self.events.set_origin(connected.origin);
        self.outages.begin(connected.origin);
        if let Some(progress) = &mut self.progress {
            progress.begin(connected.origin, self.load.spec.clients);
        }
        self.load.workload.begin(connected.origin, &self.load.spec);
        let fields = json!({
            "server_version": self.load.database.server_version,
            "address": self.load.spec.params.display().to_string(),
            "scale": self.load.scale,
            "connect_us": connected.connecting / 1000,
            "origin_us": connected.origin / 1000,
            "io": connected.io,
        });
        let written = self.events.write("connected", fields);
        self.check(written);
        self.log_histogram(|log| log.begin(connected.origin));
    }

    fn interval(&mut self, merged: &Merged) {
        let written = self.events.interval(merged);
        self.check(written);
        self.log_histogram(|log| log.interval(merged));
        if let Some(progress) = &mut self.progress {
            progress.interval(merged);
        }
    }

    fn error(&mut self, note: &ErrorNote) {
        let written = self.events.error(note, 1);
        self.check(written);
        match note.consequence {
            Consequence::ClientAborted | Consequence::ConnectionLost => {
                self.first_aborted.get_or_insert(note.client);
                // without reconnects, all clients may give up when the server is lost
                if self.load.spec.on_loss == OnLoss::Abort || self.outages.says_aborted() {
                    say_aborted(note, &self.load.spec, self.messages);
                }
            }
            Consequence::Failed | Consequence::Retried if self.verbose_errors => {
                note.lines.iter().for_each(|line| self.messages.plain(line));
            }
            Consequence::Unprepared => {
                note.lines.iter().for_each(|line| self.messages.error(line));
            }
            Consequence::Failed | Consequence::Retried | Consequence::Reconnecting => {}
        }
    }

    fn outage(&mut self, note: &OutageNote) {
        let written = self.outages.tell(note, self.events, self.messages);
        self.check(written);
    }
}

/// Reports a client that gives up: a server's error with SQLSTATE and statement, or in pgbench's words.
fn say_aborted(note: &ErrorNote, spec: &Spec, messages: &Messages) {
    let ErrorNote { client, script, command, query, message, .. } = note;
    let sqlstate = match (&note.sqlstate, messages.called_as()) {
        // a Lua script's own message contains the position
        (Some(sqlstate), CalledAs::Pgdrive) if spec.drivers.is_none() => sqlstate,
        _ => return note.lines.iter().for_each(|line| messages.error(line)),
    };
    let severity = note.severity.as_deref().unwrap_or("ERROR");
    messages.error(format!(
        "client {client} script {script} aborted in command {command} query {query}: {severity}:  {sqlstate}: {message}"
    ));
    if let Some(detail) = &note.detail {
        messages.detail(detail);
    }
    let program = &spec.programs[*script].program;
    if let Some(command) = program.commands.get(*command) {
        messages.detail(format!("{}:{}: {}", program.name, note.line, command.text));
    }
    if let Some(hint) = &note.hint {
        messages.hint(hint);
    }
}

/// Time between two checks whether the load is to stop.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// The load was stopped, or its parent has ended.
    Interrupted,
    Because(String),
}

/// The instant in a line "start EPOCH", with EPOCH in microseconds since 1970 on this host's wall
/// clock; other lines are ignored.
///
/// # Errors
/// The load is stopped in the meantime, or the instant has passed: a generator that begins later
/// than the others would make the load look slower than it is.
fn awaited(lines: &Receiver<String>, clock: Clock, stop: &AtomicBool) -> Result<Nanos, Refusal> {
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Refusal::Interrupted);
        }
        let line = match lines.recv_timeout(LOOK) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Err(Refusal::Interrupted),
        };
        if let Some(text) = line.strip_prefix("start ") {
            let epoch_us = text
                .trim()
                .parse()
                .map_err(|_| Refusal::Because(format!("invalid start instant: \"{}\"", text.trim())))?;
            return on_clock(epoch_us, clock);
        }
    }
}

fn on_clock(epoch_us: u64, clock: Clock) -> Result<Nanos, Refusal> {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = clock.now();
    let ahead = Duration::from_micros(epoch_us).checked_sub(wall);
    match ahead {
        Some(ahead) => Ok(now + ahead.as_nanos() as Nanos),
        None => {
            let ago = wall.saturating_sub(Duration::from_micros(epoch_us));
            Err(Refusal::Because(format!("the start instant was {:.3} s ago when it was received", ago.as_secs_f64())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    fn epoch_us() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).expect("later than 1970").as_micros() as u64
    }

    #[test]
    fn the_wall_clocks_instant_becomes_the_engines() {
        let (say, received) = channel();
        let clock = Clock::start();
        say.send("alive\n".to_owned()).expect("it is open");
        say.send(format!("start {}\n", epoch_us() + 3_600_000_000)).expect("it is open");
        let before = clock.now();
        let at = awaited(&received, clock, &AtomicBool::new(false)).expect("an instant");
        let hour = 3_600_000_000_000;
        assert!(at >= before + hour - 1_000_000 && at <= clock.now() + hour);
        // what cannot be followed is refused
        let ask = |lines: &[String], is_stopped| {
            let (say, received) = channel();
            for line in lines {
                say.send(line.clone()).expect("it is open");
            }
            drop(say);
            awaited(&received, Clock::start(), &AtomicBool::new(is_stopped))
        };
        assert_eq!(ask(&[], false), Err(Refusal::Interrupted));
        assert_eq!(ask(&[format!("start {}\n", epoch_us() + 1_000_000)], true), Err(Refusal::Interrupted));
        for (line, complaint) in [
            ("start soon\n".to_owned(), "invalid start instant: \"soon\""),
            (format!("start {}", epoch_us() - 2_000_000), "s ago"),
        ] {
            let Err(Refusal::Because(why)) = ask(&[line], false) else { panic!("{complaint}") };
            assert!(why.contains(complaint), "{why}");
        }
    }
}
