//! Cancelling a statement: a CancelRequest on a connection of its own, to the server that runs it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use pgdyno_wire::frontend;

use crate::attempt::{open, receive, send_all};
use crate::cancel_token::{Address, CancelToken, Key};
use crate::connect_error::Cause;
use crate::encryption::encrypt;
use crate::hosts::Endpoint;
use crate::params::Params;
use crate::patience::{Patience, block_on};

/// How many requests run at the same time: each takes a few round trips, and the server forks for
/// each.
const AT_ONCE: usize = 32;
/// How many bytes of the server's answer to a request are read; they are ignored.
const ANSWER_BYTES: usize = 512;

impl CancelToken {
    /// Asks the server to cancel the statement, and waits until it has passed the request on.
    ///
    /// The request goes to the address of the session, over TLS if the session does, and with the
    /// parameters by which the session was made. The session shows whether a statement was
    /// cancelled: a request that arrives between two statements has no effect.
    ///
    /// # Errors
    /// There is no connection, its encryption fails, or `patience` ends before the server has
    /// closed the connection.
    pub fn send(&self, params: &Params, patience: &Patience) -> Result<(), Cause> {
        block_on(self.request(params, patience))
    }

    async fn request(&self, params: &Params, patience: &Patience) -> Result<(), Cause> {
        let Some(host) = params.hosts.get(usize::from(self.host)) else {
            return Err(Cause::Closed);
        };
        let endpoint = match (&self.address, host.socket()) {
            (Address::Unix, Some(path)) => Endpoint::Unix(path),
            (Address::Unix, None) => return Err(Cause::Closed),
            (Address::V4(address), _) => Endpoint::Tcp(SocketAddr::V4(*address)),
            (Address::V6(address), _) => Endpoint::Tcp(SocketAddr::V6(**address)),
        };
        let mut stream = open(params, &endpoint, patience).await?;
        if self.is_encrypted {
            stream = encrypt(params, host, stream, patience).await?;
        }
        let key = match &self.key {
            Key::Four(key) => &key[..],
            Key::Long(key) => key,
        };
        let mut message = Vec::new();
        // a key from a message is short enough
        frontend::cancel_request(&mut message, self.pid, key).map_err(|_| Cause::Closed)?;
        send_all(&mut stream, &message, patience).await?;
        let mut ignored = [0; ANSWER_BYTES];
        loop {
            match receive(&mut stream, &mut ignored, patience).await {
                Ok(1..) => {}
                Err(cause @ (Cause::Timeout | Cause::Interrupted)) => return Err(cause),
                // however it closes the connection, the server has read the request
                Ok(0) | Err(_) => return Ok(()),
            }
        }
    }
}

/// Sends the requests of `tokens`, several at a time; a request is left out if `is_wanted` returns
/// false for its number when its turn comes. Returns when all are sent or `patience` ends.
///
/// # Errors
/// One of the errors of [`CancelToken::send`]; the other requests are sent nevertheless.
pub fn cancel_all(
    params: &Params,
    tokens: &[&CancelToken],
    is_wanted: impl Fn(usize) -> bool + Sync,
    patience: &Patience,
) -> Result<(), Cause> {
    let next = AtomicUsize::new(0);
    let failure = Mutex::new(None);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(token) = tokens.get(number) else {
                return;
            };
            if patience.slice().is_err() {
                return;
            }
            if is_wanted(number)
                && let Err(cause) = token.send(params, patience)
            {
                let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert(cause);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..AT_ONCE.min(tokens.len()) {
            let helper = thread::Builder::new().name("cancelling".into());
            if helper.spawn_scoped(scope, work).is_err() {
                // the threads that have started do the work
                break;
            }
        }
        work();
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(cause) => Err(cause),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_small_and_keeps_its_secret() {
        assert!(size_of::<Option<CancelToken>>() <= 48);
        let token = CancelToken {
            pid: 7,
            key: Key::Four(*b"\xab\xcd\xef\x01"),
            address: Address::Unix,
            host: 0,
            is_encrypted: false,
        };
        let shown = format!("{token:?}");
        assert!(shown.contains("pid: 7"), "{shown}");
        assert!(!shown.contains("171"), "{shown}");
    }
}
