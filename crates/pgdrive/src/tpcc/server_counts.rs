//! What the server itself counts while a load is measured.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pgdyno_connect::{Params, Session};
use pgdyno_engine::clock::{Clock, Nanos, SECOND};
use pgdyno_engine::load_share::LoadShare;
use pgdyno_engine::spec::Limit;

use crate::database_setup;
use crate::messages::Failure;

/// Orders placed, and transactions of all databases.
const SQL: &str = "select (select sum(d_next_o_id) from district), \
     (select sum(xact_commit + xact_rollback)::int8 from pg_catalog.pg_stat_database)";

/// Whether a generator that makes this `part` of a load asks.
///
/// What the server counts is of all generators. Where all end at one instant the first asks; with a
/// number of transactions all do, and who ends last has counted the whole load.
#[must_use]
pub fn is_asked_by(part: Option<LoadShare>, limit: Limit) -> bool {
    part.is_none_or(|part| part.number == 0) || matches!(limit, Limit::Transactions(_))
}

/// What was counted between two instants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counted {
    /// Increase of sum(d_next_o_id): New-Orders that were committed.
    pub new_orders: i64,
    /// Increase of xact_commit + xact_rollback over all databases.
    pub transactions: i64,
    /// Between both looks.
    pub seconds: f64,
}

impl Counted {
    /// New-Orders a minute.
    #[must_use]
    pub fn nopm(&self) -> f64 {
        self.new_orders as f64 * 60.0 / self.seconds
    }

    /// Transactions a minute.
    #[must_use]
    pub fn tpm(&self) -> f64 {
        self.transactions as f64 * 60.0 / self.seconds
    }
}

#[derive(Debug, Clone, Copy)]
struct Look {
    at: Nanos,
    new_orders: i64,
    transactions: i64,
}

/// Looks when measuring begins and when it ends, over a connection of its own.
#[derive(Debug)]
pub struct ServerCounts {
    thread: JoinHandle<Result<Counted, String>>,
    window: Sender<Window>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    begin: Nanos,
    end: Option<Nanos>,
}

impl ServerCounts {
    /// Connects.
    ///
    /// # Errors
    /// The server refuses.
    pub fn start(params: &Params, clock: Clock) -> Result<Self, Failure> {
        let session = database_setup::connect(params)?;
        let (window, windows) = channel();
        let thread = thread::spawn(move || count(session, clock, &windows));
        Ok(Self { thread, window })
    }

    /// Of a generator that leaves it to the first one.
    #[must_use]
    pub fn of_another() -> Self {
        let (window, _) = channel();
        let thread = thread::spawn(|| Err("the first generator counts".to_owned()));
        Self { thread, window }
    }

    /// Says when measuring begins, and when it ends if that is known; else it ends with
    /// [`Self::finish`].
    pub fn measure(&self, begin: Nanos, end: Option<Nanos>) {
        // when the thread has ended already, finish tells why
        let _ = self.window.send(Window { begin, end });
    }

    /// What was counted; the load is over, so what has not ended ends now.
    ///
    /// # Errors
    /// Why the server could not say, or that the load ended before it was measured.
    pub fn finish(self) -> Result<Counted, String> {
        drop(self.window);
        match self.thread.join() {
            Ok(counted) => counted,
            Err(_) => Err("its thread has panicked".to_owned()),
        }
    }
}

fn count(
    mut session: Session,
    clock: Clock,
    windows: &Receiver<Window>,
) -> Result<Counted, String> {
    let window = windows
        .recv()
        .map_err(|_| "the load ended before it began".to_owned())?;
    if wait_until(window.begin, clock, windows) {
        return Err("the load ended before it was measured".to_owned());
    }
    let begin = look(&mut session, clock)?;
    wait_until(window.end.unwrap_or(Nanos::MAX), clock, windows);
    let end = look(&mut session, clock)?;
    let _ = session.close();
    Ok(Counted {
        new_orders: end.new_orders - begin.new_orders,
        transactions: end.transactions - begin.transactions,
        seconds: (end.at - begin.at) as f64 / SECOND as f64,
    })
}

/// Waits; true when the load was over before.
fn wait_until(instant: Nanos, clock: Clock, windows: &Receiver<Window>) -> bool {
    let now = clock.now();
    if instant <= now {
        return false;
    }
    // a wait without an end is cut to one that the system takes
    let wait = Duration::from_nanos((instant - now).min(1 << 60));
    matches!(
        windows.recv_timeout(wait),
        Err(RecvTimeoutError::Disconnected)
    )
}

fn look(session: &mut Session, clock: Clock) -> Result<Look, String> {
    let before = clock.now();
    let results = session
        .simple_query(SQL)
        .map_err(|error| error.to_string())?;
    let after = clock.now();
    let row = results.first().and_then(|result| result.rows.first());
    let value = |at: usize| -> Result<i64, String> {
        let text = row.and_then(|row| row.get(at)?.as_deref());
        let number = text.and_then(|text| text.parse().ok());
        number.ok_or_else(|| format!("the answer has no number: {text:?}"))
    };
    Ok(Look {
        at: before + (after - before) / 2,
        new_orders: value(0)?,
        transactions: value(1)?,
    })
}
