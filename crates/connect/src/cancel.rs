//! Cancelling a statement: a CancelRequest on a connection of its own, to the server that runs it.

use std::net::SocketAddr;
use std::time::Duration;

use pgdyno_wire::frontend;

use crate::attempt::{io_cause, open};
use crate::cancel_token::{Address, CancelToken, Key};
use crate::connect_error::Cause;
use crate::dialer::{AT_ONCE, Dialer};
use crate::encryption::encrypt;
use crate::hosts::Endpoint;
use crate::params::Params;
use crate::patience::{Patience, block_on};

/// A request wakes its dialer itself.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
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
    /// There is no connection, its encryption fails, or `patience` ends before the server has closed the connection.
    pub fn send(&self, params: &Params, patience: &Patience) -> Result<(), Cause> {
        block_on(self.request(params, patience))
    }

    pub(crate) async fn request(&self, params: &Params, patience: &Patience) -> Result<(), Cause> {
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
        stream.send_all(&message, patience).await.map_err(io_cause)?;
        let mut ignored = [0; ANSWER_BYTES];
        loop {
            match stream.receive(&mut ignored, patience).await.map_err(io_cause) {
                Ok(1..) => {}
                Err(cause @ (Cause::Timeout | Cause::Interrupted)) => return Err(cause),
                // however it closes the connection, the server has read the request
                Ok(0) | Err(_) => return Ok(()),
            }
        }
    }
}

/// Sends the requests of `tokens`, many at a time. Returns when all are sent or `patience` ends.
///
/// # Errors
/// One of the errors of [`CancelToken::send`]; the other requests are sent nevertheless.
pub fn cancel_all(params: &Params, tokens: &[CancelToken], patience: &Patience) -> Result<(), Cause> {
    let mut dialer = Dialer::<()>::new(params.clone(), AT_ONCE).map_err(Cause::Io)?;
    tokens.iter().for_each(|token| dialer.cancel(token.clone(), patience.clone()));
    while !dialer.is_idle() {
        dialer.advance(LONGEST_WAIT).map_err(Cause::Io)?;
    }
    dialer.take_cancel_failure().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_small_and_keeps_its_secret() {
        assert!(size_of::<Option<CancelToken>>() <= 48);
        let key = Key::Four(*b"\xab\xcd\xef\x01");
        let token = CancelToken { pid: 7, key, address: Address::Unix, host: 0, is_encrypted: false };
        let shown = format!("{token:?}");
        assert!(shown.contains("pid: 7"), "{shown}");
        assert!(!shown.contains("171"), "{shown}");
    }
}
