//! A small blocking session, for set-up queries and COPY.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use pgdyno_wire::startup::Facts;
use pgdyno_wire::{ServerError, TxStatus, frontend};

use crate::cancel_token::CancelToken;
use crate::connect_times::{ConnectTimes, Milestones};
use crate::message_stream::{Event, Link};
use crate::notice;
use crate::patience::{Interrupt, Patience, block_on};
use crate::session_error::SessionError;
use crate::stream::{Stream, Transport};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultSet {
    /// Names of the columns; empty when the statement returns no rows.
    pub columns: Vec<String>,
    /// Rows of text; `None` is NULL. Bytes that are not UTF-8 are replaced.
    pub rows: Vec<Vec<Option<String>>>,
    /// The command's tag, such as `INSERT 0 5`; empty for an empty query.
    pub tag: String,
    /// Rows returned or affected, if the tag reports them.
    pub row_count: Option<u64>,
}

/// A session whose calls wait for their answers.
///
/// Dropping it closes the socket; [`Session::close`] sends Terminate before.
pub struct Session {
    link: Link,
    status: TxStatus,
    usable: bool,
    cancel: Option<CancelToken>,
    /// When connecting began.
    pub(crate) opened: Instant,
    milestones: Milestones,
    /// The server's version as it reports it, such as `15.18 (Debian 15.18-0+deb12u1)`.
    pub server_version: String,
    /// The version as a number: 150018 for 15.18, 90624 for 9.6.24; 0 when it cannot be read.
    pub server_version_num: i32,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("stream", &self.link.stream)
            .field("server_version", &self.server_version)
            .field("status", &self.status)
            .field("usable", &self.usable)
            .finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(
        stream: Stream, facts: Facts, status: TxStatus, cancel: Option<CancelToken>, opened: Instant,
        milestones: Milestones, patience: Patience,
    ) -> Self {
        let server_version = facts.parameter("server_version").unwrap_or("").to_owned();
        Session {
            link: Link::new(stream, facts, patience),
            status,
            usable: true,
            cancel,
            opened,
            milestones,
            server_version_num: version_number(&server_version),
            server_version,
        }
    }

    /// Lets `interrupt` end every wait for the server; the session is unusable after that.
    pub fn interrupt_by(&mut self, interrupt: Interrupt) {
        self.link.patience = Patience::new(None, interrupt);
    }

    /// A parameter that the server reported, such as `TimeZone`, with its current value.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.link.facts.parameter(name)
    }

    /// How long its connection took that was begun at `began`.
    pub fn connect_times(&self, began: Instant) -> ConnectTimes {
        self.milestones.since(began)
    }

    /// Process ID of the backend; 0 when the server did not report it.
    pub fn backend_pid(&self) -> u32 {
        let key = self.link.facts.cancel_key.as_ref();
        key.map_or(0, |key| key.pid)
    }

    /// The token that cancels a running statement; `None` if the server sent no cancel key.
    pub fn cancel_token(&self) -> Option<&CancelToken> {
        self.cancel.as_ref()
    }

    pub fn transaction_status(&self) -> TxStatus {
        self.status
    }

    /// The notices since the last call; at most the first 64 of them.
    pub fn take_notices(&mut self) -> Vec<ServerError> {
        std::mem::take(&mut self.link.facts.notices)
    }

    /// Prints the notices to standard error, as libpq does.
    pub fn print_notices(&mut self) {
        for notice in self.take_notices() {
            notice::print(&notice.to_string());
        }
    }

    /// Runs one or more statements in the simple protocol; returns a result for each.
    ///
    /// # Errors
    /// The server refused one of them, or the connection is lost. A COPY statement is refused, too;
    /// use [`Session::copy_in`].
    pub fn simple_query(&mut self, sql: &str) -> Result<Vec<ResultSet>, SessionError> {
        block_on(self.query(sql))
    }

    async fn query(&mut self, sql: &str) -> Result<Vec<ResultSet>, SessionError> {
        self.begin_query(sql).await?;
        self.results().await
    }

    /// Sends messages that end with a Sync; returns a result for each statement.
    pub(crate) fn run_messages(&mut self, messages: &[u8]) -> Result<Vec<ResultSet>, SessionError> {
        block_on(async {
            self.begin_answer()?;
            self.link.send(messages).await?;
            self.results().await
        })
    }

    async fn results(&mut self) -> Result<Vec<ResultSet>, SessionError> {
        let mut results = Vec::new();
        let mut current = ResultSet::default();
        let mut failure = None;
        loop {
            match self.next_event().await? {
                Event::Ready(status) => {
                    self.ready(status);
                    return failure.map_or(Ok(results), Err);
                }
                Event::Columns(columns) => current.columns = columns,
                Event::Row(row) => current.rows.push(row),
                Event::Complete { tag, rows } => {
                    current.tag = tag;
                    current.row_count = rows;
                    results.push(std::mem::take(&mut current));
                }
                Event::EmptyQuery => results.push(std::mem::take(&mut current)),
                Event::Error(error) => {
                    failure.get_or_insert(SessionError::Server(error));
                }
                Event::CopyIn => {
                    let what = "could not run query: the server expects COPY data";
                    failure.get_or_insert(SessionError::Unexpected(what));
                    self.refuse_copy(what).await?;
                }
                Event::CopyOut => {
                    let what = "could not run query: the server sends COPY data";
                    failure.get_or_insert(SessionError::Unexpected(what));
                }
                // This COPY cannot be ended properly.
                Event::CopyBoth => {
                    return Err(SessionError::Unexpected("could not run query: it starts replication"));
                }
            }
        }
    }

    /// The first column of the first row of the last statement; `None` is NULL.
    ///
    /// # Errors
    /// As [`Session::simple_query`], or there is no row.
    pub fn query_one_value(&mut self, sql: &str) -> Result<Option<String>, SessionError> {
        block_on(self.query_value(sql))
    }

    pub(crate) async fn query_value(&mut self, sql: &str) -> Result<Option<String>, SessionError> {
        let result = self.query(sql).await?.pop().unwrap_or_default();
        let row = result.rows.into_iter().next();
        row.and_then(|row| row.into_iter().next())
            .ok_or(SessionError::Unexpected("could not take a value: the query gave no row"))
    }

    /// Runs statements whose rows do not matter; returns the number of rows affected by the last
    /// one, 0 when its tag does not report it.
    pub fn execute(&mut self, sql: &str) -> Result<u64, SessionError> {
        let last = self.simple_query(sql)?.pop();
        Ok(last.and_then(|result| result.row_count).unwrap_or(0))
    }

    /// The socket with its TLS session and cancel token, for code that moves bytes itself.
    ///
    /// # Errors
    /// The session is unusable, or bytes were received that are not yet read.
    pub fn into_transport(self) -> Result<Transport, SessionError> {
        if !self.usable || !self.link.is_quiet() {
            return Err(SessionError::Unusable);
        }
        let transport = self.link.into_stream()?.into_transport();
        Ok(Transport { cancel: self.cancel, ..transport })
    }

    /// Sends Terminate and closes the socket.
    ///
    /// # Errors
    /// The message could not be sent; the socket is closed nevertheless.
    pub fn close(mut self) -> Result<(), SessionError> {
        let mut leave = Vec::new();
        frontend::terminate(&mut leave);
        block_on(self.link.send(&leave))
    }

    /// Sends Terminate, and waits until the server has ended the session, so that another one can take its place.
    pub(crate) fn end(mut self) {
        let mut leave = Vec::new();
        frontend::terminate(&mut leave);
        // whatever happens, the session is over
        let ended = block_on(self.link.send(&leave));
        while ended.is_ok() && block_on(self.link.next()).is_ok() {}
    }

    /// Sends bytes; after an error the session is unusable.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        let sent = block_on(self.link.send(bytes));
        self.usable &= sent.is_ok();
        sent
    }

    /// The next event; after an error the session is unusable.
    pub(crate) async fn next_event(&mut self) -> Result<Event, SessionError> {
        let event = self.link.next().await;
        self.usable &= event.is_ok();
        event
    }

    /// Whether the server has already refused what is being sent.
    pub(crate) fn refusal_waits(&mut self) -> Result<bool, SessionError> {
        let received = self.link.receive_ready();
        if self.link.error_waits() {
            return Ok(true);
        }
        self.usable &= received.is_ok();
        received.map(|()| false)
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.link.stream.as_fd()
    }

    /// Ends a complete answer: the session is usable again.
    pub(crate) fn ready(&mut self, status: TxStatus) {
        self.status = status;
        self.usable = true;
    }

    pub(crate) async fn refuse_copy(&mut self, reason: &str) -> Result<(), SessionError> {
        let mut out = Vec::new();
        frontend::copy_fail(&mut out, reason)?;
        let sent = self.link.send(&out).await;
        self.usable &= sent.is_ok();
        sent
    }

    /// Sends a query. Until its answer is complete, the session counts as unusable.
    pub(crate) async fn begin_query(&mut self, sql: &str) -> Result<(), SessionError> {
        let mut out = Vec::new();
        frontend::query(&mut out, sql)?;
        self.begin_answer()?;
        self.link.send(&out).await
    }

    fn begin_answer(&mut self) -> Result<(), SessionError> {
        if !std::mem::replace(&mut self.usable, false) {
            return Err(SessionError::Unusable);
        }
        self.link.begin_answer();
        Ok(())
    }
}

/// A version as libpq counts it: `major * 10000 + minor` from 10 on, and three parts of two digits before.
fn version_number(version: &str) -> i32 {
    let mut parts = [0i32; 3];
    let mut count = 0;
    for (part, text) in parts.iter_mut().zip(version.splitn(3, '.')) {
        let digits = text.find(|c: char| !c.is_ascii_digit());
        let Ok(number) = text[..digits.unwrap_or(text.len())].parse::<i32>() else {
            break;
        };
        *part = number.min(9_999);
        count += 1;
        if digits.is_some() {
            break;
        }
    }
    let [major, minor, revision] = parts;
    if count < 3 && major >= 10 { major * 10_000 + minor } else { major * 10_000 + minor * 100 + revision }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_numbers() {
        for (version, number) in [
            ("15.18 (Debian 15.18-0+deb12u1)", 150_018),
            ("15.18", 150_018),
            ("18beta1", 180_000),
            ("19devel", 190_000),
            ("9.6.24", 90_624),
            ("9.6", 90_600),
            ("10.23", 100_023),
            ("", 0),
            ("x", 0),
        ] {
            assert_eq!(version_number(version), number, "{version}");
        }
    }
}
