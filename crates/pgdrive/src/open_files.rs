//! The limit of open files: a socket a client, and some more.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::messages::{Failure, plain};

/// What pgbench wants beside one a client.
const LEAST: u64 = 3;
/// What we would like beside one a client: pollers, logs, events.
const COMFORTABLE: u64 = 64;

/// Raises the limit for so many clients and workers where it can be raised.
///
/// # Errors
/// In pgbench's words, when it is too low for the clients.
pub fn allow(clients: usize, workers: usize) -> Result<(), Failure> {
    let least = clients as u64 + LEAST;
    let limit = getrlimit(Resource::Nofile);
    let highest = limit.maximum.unwrap_or(u64::MAX);
    if highest < least {
        let message = format!("need at least {least} open files, but system limit is {highest}");
        return Err(advise(Failure::new(message)));
    }
    let wanted = (clients + 4 * workers) as u64 + COMFORTABLE;
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(wanted.min(highest)),
        maximum: limit.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Err(error) if current < least => {
            let why = plain(&error.into());
            Err(advise(Failure::new(format!(
                "need at least {least} open files, but couldn't raise the limit: {why}"
            ))))
        }
        _ => Ok(()),
    }
}

fn advise(failure: Failure) -> Failure {
    failure.hint("Reduce number of clients, or use limit/ulimit to increase the system limit.")
}
