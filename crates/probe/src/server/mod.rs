//! Samples the server over SQL: sessions several times a second, counters once.

mod activity;
mod counters;
pub mod own_queries;
mod probe_session;
mod queries;
mod query_interval;
mod top_statements;

use std::time::{Duration, Instant};

use pgdyno_connect::{Params, ResultSet, SessionError};
use serde_json::{Value, json};

use crate::output::{Output, Reason};
use crate::probe_cost::Queries;
use crate::probe_stop::Stop;
use crate::sample::Differs;
use crate::ticks::Ticks;
use activity::Look;
use counters::readings;
use probe_session::{NoSession, PreparedSession};
pub use queries::of_version;
use query_interval::Cadence;
use top_statements::Statements;

pub const NAME: &str = "pgprobe";

/// Time between a lost session or a refusal and the next attempt.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long the last statement may take when the probe ends.
const GRACE: Duration = Duration::from_secs(1);

/// What is sampled, and how often.
#[derive(Debug, Clone, Copy)]
pub struct Rates {
    /// Samples of sessions per second; 0 for none.
    pub waits_hz: u32,
    /// Time between two samples of counters.
    pub period: Duration,
    /// How many statements a sample shows; 0 for none.
    pub statements: usize,
}

pub fn run(params: &Params, rates: Rates, output: &Output, queries: &Queries, stop: &Stop) -> Result<(), String> {
    let mut server = Server::new(params, rates.statements, output, queries, stop);
    let ended = server.until_it_is_over(rates);
    match ended {
        Ok(()) => server.last_statements(),
        Err(_) => stop.now(),
    }
    ended
}
struct Server<'a> {
    params: &'a Params,
    output: &'a Output,
    queries: &'a Queries,
    stop: &'a Stop,
    session: Option<PreparedSession>,
    next_attempt: Instant,
    next_blockers: Instant,
    counters: Differs,
    cadence: Cadence,
    statements: Statements,
    next_statements: Instant,
    statements_every: Duration,
}

impl<'a> Server<'a> {
    fn new(params: &'a Params, statements: usize, output: &'a Output, queries: &'a Queries, stop: &'a Stop) -> Self {
        let now = Instant::now();
        Self {
            params,
            output,
            queries,
            stop,
            session: None,
            next_attempt: now,
            next_blockers: now,
            counters: Differs::default(),
            cadence: Cadence::default(),
            statements: Statements::new(statements),
            next_statements: now,
            statements_every: top_statements::EVERY,
        }
    }

    fn until_it_is_over(&mut self, rates: Rates) -> Result<(), String> {
        let looks = rates.waits_hz.max(1);
        let origin = self.output.clock().at(Duration::ZERO);
        let mut ticks = Ticks::new(origin, rates.period / looks);
        let mut counters_at = 0;
        while let Some(tick) = ticks.wait(self.stop) {
            if self.session.is_some() {
                self.output.missed("server", tick.missed);
            }
            if !self.is_connected()? {
                continue;
            }
            if rates.waits_hz > 0 {
                self.look();
            }
            if tick.number >= counters_at {
                let round = tick.number / looks;
                self.counters(round.into());
                self.statements();
                counters_at = (round + 1) * looks;
            }
        }
        Ok(())
    }

    /// Whether there is a session; connects if not, but not too often.
    fn is_connected(&mut self) -> Result<bool, String> {
        if self.session.is_some() {
            return Ok(true);
        }
        if Instant::now() < self.next_attempt {
            return Ok(false);
        }
        match PreparedSession::connect(self.params) {
            Ok(mut session) => {
                for (source, problem) in session.take_refused() {
                    self.output.warning(source, &problem, None);
                }
                let sources: Value = session.sources().collect();
                let fields = json!({"server_version": session.version(), "pid": session.pid(), "sources": sources});
                self.output.write("connected", self.output.clock().now(), fields);
                self.cadence = Cadence::new(session.queries());
                self.queries.session_is(session.pid());
                self.session = Some(session);
                Ok(true)
            }
            Err(NoSession::Pooler(problem)) => Err(problem),
            Err(NoSession::Refused(problem)) => {
                if !self.stop.is_set() {
                    self.output.warning("server", &problem, None);
                }
                self.next_attempt = Instant::now() + AGAIN_AFTER;
                Ok(false)
            }
        }
    }

    fn look(&mut self) {
        let at = self.output.clock().now();
        let Some((answer, took)) = self.ask("waits", PreparedSession::activity) else {
            return;
        };
        let look = Look::read(&answer);
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.output.write("waits", at, look.fields(took_us));
        if look.hidden() > 0 {
            let right = "the role may not see other roles' sessions: GRANT pg_monitor to it";
            self.output.warning("waits", right, None);
        }
        if look.has_lock_waits() && Instant::now() >= self.next_blockers {
            self.blockers();
        }
    }

    /// Not with every sample, because pg_blocking_pids briefly blocks the server's lock manager.
    fn blockers(&mut self) {
        self.next_blockers = Instant::now() + Duration::from_secs(1);
        let at = self.output.clock().now();
        let answer = self.ask("blockers", |session| session.run(activity::BLOCKERS));
        let fields = answer.and_then(|(answer, _)| activity::blockers(&answer));
        if let Some(fields) = fields {
            self.output.write("blockers", at, fields);
        }
    }

    fn counters(&mut self, second: u64) {
        let number = self.session.as_ref().map_or(0, PreparedSession::queries);
        // in one transaction, because servers up to 14 read a file of statistics in each
        if self.ask("server", PreparedSession::begin).is_none() {
            return;
        }
        for place in (0..number).filter(|place| self.cadence.is_due(*place, second)).collect::<Vec<_>>() {
            let Some(query) = self.session.as_ref().and_then(|session| session.query(place)) else {
                continue;
            };
            let at = self.output.clock().now();
            if let Some((answer, took)) = self.ask(query.source, |session| session.counters(place)) {
                self.cadence.answered(place, second, query, took);
                let readings = readings(query.source, &answer);
                self.output.sample(&self.counters.sample(query.source, at, readings));
            }
        }
        if self.session.is_some() {
            self.ask("server", PreparedSession::commit);
        }
    }

    /// Samples statements every ten seconds, after the counters.
    fn statements(&mut self) {
        if self.statements.are_wanted() && Instant::now() >= self.next_statements {
            self.sample_statements();
            self.next_statements = Instant::now() + self.statements_every;
        }
    }

    fn sample_statements(&mut self) {
        let session = self.session.as_ref();
        let Some(asking) = session.and_then(|session| session.statements().cloned()) else {
            return;
        };
        let at = self.output.clock().now();
        let answer = self.ask("statements", |session| session.costs(&asking));
        let Some((answer, _)) = answer else {
            // no other sample is taken while the server is busy with this one
            self.statements_every = (self.statements_every * 2).min(top_statements::EVERY_AT_MOST);
            return;
        };
        self.statements_every = top_statements::EVERY;
        let (sample, hidden) = self.statements.sample(at, &answer);
        self.output.sample(&sample);
        if hidden > 0 {
            let right = "the role may not see other roles' statements: GRANT pg_read_all_stats to it";
            self.output.warning("statements", right, None);
        }
    }

    /// The totals of all statements, at the end; the previous session may have been interrupted.
    fn last_statements(&mut self) {
        if self.statements.totals().is_none() {
            return;
        }
        let grace = Stop::within(GRACE);
        match &mut self.session {
            Some(session) => session.interrupt_by(grace),
            None => {
                let mut params = self.params.clone();
                params.interrupt = grace;
                self.session = PreparedSession::connect(&params).ok();
            }
        }
        self.sample_statements();
        let Some((since, rows)) = self.statements.totals() else {
            return;
        };
        let Some(asking) = self.session.as_ref().and_then(|session| session.statements().cloned()) else {
            return;
        };
        let at = self.output.clock().now();
        let session = self.session.as_mut();
        let line = session.map(|session| top_statements::line(|sql| session.run(sql), &asking, since, &rows));
        if let Some(fields) = line {
            self.output.write("statements", at, fields);
        }
    }

    /// An answer and how long it took; None after an error, which has been reported.
    fn ask(
        &mut self, source: &'static str, ask: impl FnOnce(&mut PreparedSession) -> Result<ResultSet, SessionError>,
    ) -> Option<(ResultSet, Duration)> {
        let session = self.session.as_mut()?;
        let began = Instant::now();
        let answer = ask(session);
        let took = began.elapsed();
        self.queries.add(took);
        match answer {
            Ok(answer) => Some((answer, took)),
            Err(error) => {
                self.note_failure(source, &error);
                None
            }
        }
    }

    fn note_failure(&mut self, source: &'static str, error: &SessionError) {
        if self.stop.is_set() {
            self.session = None;
        } else if matches!(error, SessionError::Server(_)) {
            self.output.warning(source, &error.to_string(), None);
        } else {
            let message = format!("the session was lost: {error}");
            let at = self.output.clock().now();
            self.output.gap("server", at, &message, Some(Reason::SessionLost));
            self.session = None;
            // the server may have been restarted, which resets its counters
            self.counters = Differs::default();
            self.next_attempt = Instant::now();
        }
    }
}
