//! Recognises sessions of a connection pooler.
//!
//! What a client leaves in such a session (settings, prepared statements, advisory locks) reaches others, so a pooler
//! is recognised before anything is changed. `docs/design/poolers.md` says which ones, and how.

use std::time::Duration;

use pgdyno_wire::{SqlState, frontend};

use crate::blocking_session::Session;
use crate::pooler::Pooler;
use crate::session_error::SessionError;

/// The end of the version that PgBouncer's console reports.
const CONSOLE: &str = "/bouncer";
/// With a statement timeout of 1 ms, most first attempts succeed.
const ATTEMPTS: u32 = 20;
/// How much older than its connection a session may seem, when the server's clock is being set, or
/// when several attempts at the query take time.
const CLOCKS: Duration = Duration::from_secs(2);
const SERVER: &str = "select /* pgdyno */ pg_catalog.pg_backend_pid(), \
    coalesce('at ' || pg_catalog.host(pg_catalog.inet_server_addr()), 'through a socket on its own host'), \
    pg_catalog.current_setting('port')";
/// The name of a statement that is closed before it can stay in a session.
const NAME: &str = "pgdyno_pooler";
const IS_THERE: &str = "select /* pgdyno */ pg_catalog.count(*) from pg_catalog.pg_prepared_statements \
    where name operator(pg_catalog.=) 'pgdyno_pooler'";

impl Session {
    /// Returns PgBouncer's console, if it answers instead of a server. Asks nothing.
    pub(crate) fn console(&self) -> Option<Pooler> {
        let version = &self.server_version;
        version.ends_with(CONSOLE).then(|| Pooler::Console(version.clone()))
    }

    /// Returns the pooler that answers instead of a server; None at a server. Changes nothing.
    pub fn pooler(&mut self) -> Result<Option<Pooler>, SessionError> {
        if let Some(console) = self.console() {
            return Ok(Some(console));
        }
        let reported = self.backend_pid();
        let age = self.opened.elapsed() + CLOCKS;
        // pgnull recognises the query by its beginning, and captures leave out its session by the comment
        let is_own = format!(
            "select /* pgdyno */ (pid operator(pg_catalog.=) {reported} and pg_catalog.clock_timestamp() \
             operator(pg_catalog.-) backend_start operator(pg_catalog.<) pg_catalog.make_interval(secs => {}))\
             ::pg_catalog.int4 from pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid())",
            age.as_secs_f64()
        );
        // in two transactions: a pooler may pass on the number of its first session, and then use another one
        for _ in 0..2 {
            if self.value_despite_timeouts(&is_own)?.as_deref() != Some("1") {
                return self.shared(reported).map(Some);
            }
        }
        Ok(None)
    }

    /// The value of a query that a role's timeout may cancel: nothing lifts that before this is known to be a server.
    fn value_despite_timeouts(&mut self, sql: &str) -> Result<Option<String>, SessionError> {
        for _ in 1..ATTEMPTS {
            match self.query_one_value(sql) {
                Err(error) if error.sqlstate() == Some(SqlState::QUERY_CANCELED) => {}
                answer => return answer,
            }
        }
        self.query_one_value(sql)
    }

    fn shared(&mut self, reported: u32) -> Result<Pooler, SessionError> {
        let row =
            self.simple_query(SERVER)?.pop().and_then(|result| result.rows.into_iter().next()).unwrap_or_default();
        let value = |at: usize| row.get(at).and_then(Option::as_deref).unwrap_or("unknown");
        Ok(Pooler::Shared {
            processes: (reported, value(0).to_owned()),
            server: format!("the pooler reaches it {}, port {}", value(1), value(2)),
        })
    }

    /// Whether names of prepared statements reach the server as they are. A pooler that gives them
    /// names of its own keeps the statements of its clients apart. Leaves no statement.
    ///
    /// # Errors
    /// As [`Session::simple_query`]; a pooler that pools single statements refuses transactions.
    pub fn passes_names_on(&mut self) -> Result<bool, SessionError> {
        // a pooler does not change the session within a transaction, and closes it if the client ends meanwhile
        self.simple_query("begin; set local statement_timeout = 0")?;
        let mut out = Vec::new();
        frontend::parse(&mut out, NAME, IS_THERE, &[])?;
        frontend::bind(&mut out, "", NAME, [])?;
        frontend::execute(&mut out, "", 0)?;
        frontend::sync(&mut out);
        let results = self.run_messages(&out);
        out.clear();
        frontend::close_statement(&mut out, NAME)?;
        frontend::sync(&mut out);
        self.run_messages(&out)?;
        self.simple_query("rollback")?;
        let count = results?.pop().and_then(|result| result.rows.into_iter().next());
        Ok(count.is_none_or(|row| row.first() != Some(&Some("0".to_owned()))))
    }
}
