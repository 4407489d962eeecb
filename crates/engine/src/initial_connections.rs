//! Connects a worker's clients before the load begins.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::connections::{Connections, Purpose, Request};
use crate::error::RunError;
use crate::poller::Poller;

/// How often to check at least whether the run is to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Connects the clients numbered in `share` that `begins_connected`; their tokens are their positions.
pub fn connect_clients(
    connections: &mut Connections<impl Poller>, share: Range<usize>, begins_connected: impl Fn(usize) -> bool,
    stop: &AtomicBool,
) -> Result<(), RunError> {
    let tokens = share.clone().enumerate().filter(|(_, client)| begins_connected(*client));
    tokens.for_each(|(token, _)| connections.dialer.request(Request { token, purpose: Purpose::Connect }));
    while !connections.dialer.is_idle() {
        if stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        let mut done = connections.dialer.advance(LOOK_EVERY).map_err(RunError::System)?;
        // the others may have failed because of the first one, for example at a limit of connections
        done.sort_by_key(|dialed| dialed.tag.token);
        for dialed in done {
            let token = dialed.tag.token;
            let mut session = dialed.result.map_err(|error| match error.is_interrupted() {
                true => RunError::Interrupted,
                false => RunError::Connect { client: share.start + token, error: Box::new(error) },
            })?;
            session.print_notices();
            let transport = session.into_transport().map_err(|error| RunError::System(io::Error::other(error)))?;
            connections.add(token, transport).map_err(RunError::System)?;
        }
    }
    Ok(())
}
