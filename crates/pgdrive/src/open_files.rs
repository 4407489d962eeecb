//! The limit of open files: one socket for each client, and some more.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::messages::{Failure, plain};

/// How many descriptors pgbench needs in addition to one for each client.
const LEAST: u64 = 3;
/// How many descriptors are preferable in addition to one for each client: for pollers, logs and events.
const COMFORTABLE: u64 = 64;

/// Raises the limit for this many clients and workers as far as possible.
///
/// # Errors
/// The limit is too low for the clients; in pgbench's words.
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
    let raised = Rlimit { current: Some(wanted.min(highest)), maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Err(error) if current < least => {
            let why = plain(&error.into());
            Err(advise(Failure::new(format!("need at least {least} open files, but couldn't raise the limit: {why}"))))
        }
        _ => Ok(()),
    }
}

fn advise(failure: Failure) -> Failure {
    failure.hint("Reduce number of clients, or use limit/ulimit to increase the system limit.")
}
