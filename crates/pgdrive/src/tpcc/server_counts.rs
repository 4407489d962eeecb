//! The server's own counts during the measurement.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pgdyno_connect::{Params, Session};
use pgdyno_engine::clock::{Clock, Nanos, SECOND};
use pgdyno_engine::load_share::LoadShare;
use pgdyno_engine::spec::Limit;

use crate::database_setup;
use crate::messages::Failure;

/// Orders placed in all districts, and transactions of all databases.
const SQL: &str = "select (select sum(d_next_o_id) from district), \
     (select sum(xact_commit + xact_rollback)::int8 from pg_catalog.pg_stat_database)";

/// Whether the generator with this share of a load queries the counts.
///
/// The server counts the transactions of all generators. If all end at one instant, the first one queries; with a
/// number of transactions all do, and the last one to end has counted the whole load.
pub fn is_asked_by(part: Option<LoadShare>, limit: Limit) -> bool {
    part.is_none_or(|part| part.number == 0) || matches!(limit, Limit::Transactions(_))
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CountIncrease {
    /// Increase of sum(d_next_o_id): committed New-Orders.
    pub new_orders: i64,
    /// Increase of xact_commit + xact_rollback over all databases.
    pub transactions: i64,
    pub seconds: f64,
}

impl CountIncrease {
    pub fn nopm(&self) -> f64 {
        self.new_orders as f64 * 60.0 / self.seconds
    }

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

/// Queries the counts when measuring begins and when it ends, over a connection of its own.
#[derive(Debug)]
pub struct ServerCounts {
    thread: JoinHandle<Result<CountIncrease, String>>,
    window: Sender<Window>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    begin: Nanos,
    end: Option<Nanos>,
}

impl ServerCounts {
    pub fn start(params: &Params, clock: Clock) -> Result<Self, Failure> {
        let session = database_setup::connect(params)?;
        let (window, windows) = channel();
        let thread = thread::spawn(move || count(session, clock, &windows));
        Ok(Self { thread, window })
    }

    /// Sets when measuring begins, and when it ends if that is known; otherwise it ends with [`Self::finish`].
    pub fn measure(&self, begin: Nanos, end: Option<Nanos>) {
        // if the thread has ended already, finish returns the reason
        let _ = self.window.send(Window { begin, end });
    }

    /// The counts; measuring ends now unless it has ended before.
    pub fn finish(self) -> Result<CountIncrease, String> {
        drop(self.window);
        match self.thread.join() {
            Ok(counted) => counted,
            Err(_) => Err("its thread has panicked".to_owned()),
        }
    }
}

fn count(mut session: Session, clock: Clock, windows: &Receiver<Window>) -> Result<CountIncrease, String> {
    let window = windows.recv().map_err(|_| "the load ended before it began".to_owned())?;
    if wait_until(window.begin, clock, windows) {
        return Err("the load ended before it was measured".to_owned());
    }
    let begin = look(&mut session, clock)?;
    wait_until(window.end.unwrap_or(Nanos::MAX), clock, windows);
    let end = look(&mut session, clock)?;
    let _ = session.close();
    Ok(CountIncrease {
        new_orders: end.new_orders - begin.new_orders,
        transactions: end.transactions - begin.transactions,
        seconds: (end.at - begin.at) as f64 / SECOND as f64,
    })
}

/// Waits until `instant`; returns true if the load ended before.
fn wait_until(instant: Nanos, clock: Clock, windows: &Receiver<Window>) -> bool {
    let now = clock.now();
    if instant <= now {
        return false;
    }
    // the system does not accept an unlimited wait
    let wait = Duration::from_nanos((instant - now).min(1 << 60));
    matches!(windows.recv_timeout(wait), Err(RecvTimeoutError::Disconnected))
}

fn look(session: &mut Session, clock: Clock) -> Result<Look, String> {
    let before = clock.now();
    let results = session.simple_query(SQL).map_err(|error| error.to_string())?;
    let after = clock.now();
    let row = results.first().and_then(|result| result.rows.first());
    let value = |at: usize| -> Result<i64, String> {
        let text = row.and_then(|row| row.get(at)?.as_deref());
        let number = text.and_then(|text| text.parse().ok());
        number.ok_or_else(|| format!("the answer has no number: {text:?}"))
    };
    Ok(Look { at: before + (after - before) / 2, new_orders: value(0)?, transactions: value(1)? })
}
