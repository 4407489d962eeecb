//! The probe's session: its settings, its prepared statements, and the queries that its role may not run.

use pgdyno_connect::{ConnectError, Interrupt, Params, ResultSet, Session, SessionError};

use super::activity;
use super::queries::{OLDEST, Query, of_version};
use super::top_statements::{self, Asking};

/// The SQLSTATE of pg_stat_statements without its library.
const NOT_LOADED: &str = "55000";

/// A session in which all statements are prepared.
pub struct PreparedSession {
    session: Session,
    /// By index; None if the server refused the query permanently.
    queries: Vec<Option<&'static Query>>,
    refused: Vec<(&'static str, String)>,
    statements: Option<Asking>,
}

/// Why there is no session, in a message.
pub enum NoSession {
    /// It would be one of a connection pooler.
    Pooler(String),
    Refused(String),
}

impl From<ConnectError> for NoSession {
    fn from(error: ConnectError) -> Self {
        match error.is_pooler() {
            true => Self::Pooler(error.to_string()),
            false => Self::Refused(error.to_string()),
        }
    }
}

impl From<SessionError> for NoSession {
    fn from(error: SessionError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl PreparedSession {
    pub fn connect(params: &Params) -> Result<Self, NoSession> {
        let mut session = Session::connect(params)?;
        let major = session.server_version_num / 10_000;
        if major < OLDEST {
            let message = format!("the server is older than PostgreSQL {OLDEST}");
            return Err(NoSession::Refused(message));
        }
        prepare(&mut session, major)?;
        let mut asked =
            Self { session, queries: of_version(major).map(Some).collect(), refused: Vec::new(), statements: None };
        asked.prepare_counters()?;
        asked.find_statements()?;
        Ok(asked)
    }

    /// Finds pg_stat_statements if the database has the extension; the probe creates nothing.
    fn find_statements(&mut self) -> Result<(), SessionError> {
        let found = self.run(top_statements::FIND)?;
        self.statements = Asking::read(&found);
        if self.statements.is_some() {
            // excludes the probe's own statements, which only superusers may do
            return match self.run("SET pg_stat_statements.track = none") {
                Ok(_) | Err(SessionError::Server(_)) => Ok(()),
                Err(error) => Err(error),
            };
        }
        if !self.run(top_statements::LOADED)?.rows.is_empty() {
            let problem = "pg_stat_statements is loaded, but this database lacks it: \
                           CREATE EXTENSION pg_stat_statements";
            self.refused.push(("statements", problem.to_owned()));
        }
        Ok(())
    }

    /// The queries for statements; None if the database lacks the extension.
    pub fn statements(&self) -> Option<&Asking> {
        self.statements.as_ref()
    }

    /// The costs of statements. A refused query is not repeated, nor one whose library the server has not loaded.
    pub fn costs(&mut self, asking: &Asking) -> Result<ResultSet, SessionError> {
        let answer = self.run(&asking.counters);
        if is_refusal(&answer) || code(&answer) == Some(NOT_LOADED) {
            self.statements = None;
        }
        answer
    }

    /// Prepares the queries for counters. A missing view, as in servers like PostgreSQL, affects only its source.
    fn prepare_counters(&mut self) -> Result<(), SessionError> {
        for (place, slot) in self.queries.iter_mut().enumerate() {
            let Some(query) = *slot else { continue };
            let sql = format!("PREPARE pgprobe_{place} AS {}", query.sql);
            match self.session.simple_query(&sql) {
                Ok(_) => {}
                Err(SessionError::Server(error)) => {
                    *slot = None;
                    self.refused.push((query.source, error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes the sources that the server does not support, with its messages.
    pub fn take_refused(&mut self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.refused)
    }

    pub fn version(&self) -> &str {
        &self.session.server_version
    }

    pub fn pid(&self) -> u32 {
        self.session.backend_pid()
    }

    pub fn sources(&self) -> impl Iterator<Item = &'static str> {
        let counters = self.queries.iter().flatten().map(|query| query.source);
        counters.chain(self.statements.is_some().then_some("statements"))
    }

    pub fn queries(&self) -> usize {
        self.queries.len()
    }

    /// A query by index; None if the server refused it permanently.
    pub fn query(&self, place: usize) -> Option<&'static Query> {
        self.queries.get(place).copied().flatten()
    }

    /// Adds another reason to end waits for the server.
    pub fn interrupt_by(&mut self, interrupt: Interrupt) {
        self.session.interrupt_by(interrupt);
    }

    /// Samples the waits of sessions.
    pub fn activity(&mut self) -> Result<ResultSet, SessionError> {
        self.run("EXECUTE pgprobe_activity")
    }

    /// Begins a transaction for counters.
    pub fn begin(&mut self) -> Result<ResultSet, SessionError> {
        self.run("BEGIN")
    }

    pub fn commit(&mut self) -> Result<ResultSet, SessionError> {
        self.run("COMMIT")
    }

    /// The counters of the query at index `place`. A query that is refused is not repeated.
    pub fn counters(&mut self, place: usize) -> Result<ResultSet, SessionError> {
        let answer = self.run(&format!("EXECUTE pgprobe_{place}"));
        if is_refusal(&answer) {
            self.queries[place] = None;
        }
        if let Err(SessionError::Server(_)) = &answer {
            // the transaction has failed, so the other queries continue in a new one
            self.run("ROLLBACK")?;
            self.run("BEGIN")?;
        }
        answer
    }

    pub fn run(&mut self, sql: &str) -> Result<ResultSet, SessionError> {
        Ok(self.session.simple_query(sql)?.pop().unwrap_or_default())
    }
}

/// Whether the server will refuse the query later, too: syntax, missing right or feature, but no timeout.
fn is_refusal(answer: &Result<ResultSet, SessionError>) -> bool {
    code(answer).is_some_and(|code| code.starts_with("42") || code.starts_with("0A"))
}

fn code(answer: &Result<ResultSet, SessionError>) -> Option<&str> {
    match answer {
        Err(SessionError::Server(error)) => error.code.as_ref().map(|code| code.as_str()),
        _ => None,
    }
}

fn prepare(session: &mut Session, major: i32) -> Result<(), SessionError> {
    let mut settings = String::from(
        "SET search_path = pg_catalog; SET default_transaction_read_only = on;
         SELECT set_config('client_encoding', 'UTF8', false) WHERE current_setting('server_encoding') <> 'SQL_ASCII';
         SET statement_timeout = '5s'; SET lock_timeout = '100ms'; SET max_parallel_workers_per_gather = 0;",
    );
    if major >= 11 {
        settings.push_str("SET jit = off;");
    }
    session.simple_query(&settings)?;
    let sql = format!("PREPARE pgprobe_activity AS {}", activity::statement(major));
    session.simple_query(&sql)?;
    Ok(())
}
