//! TLS between the poller and a client: the poller moves encrypted bytes, the client sees plain
//! ones. A connection without TLS bypasses this module.

use std::io;

use pgdyno_connect::{TlsChannel, TlsError};

use crate::by_token::ByToken;
use crate::client::Client;
use crate::poller::Next;
use crate::shared::Shared;

/// A connection's TLS session, and the encrypted bytes that are to be sent.
///
/// Like a client's own bytes, `out` stays the same until more bytes come or the client sends again:
/// by then the poller has sent it, or has a copy.
#[derive(Debug)]
struct TlsSession {
    channel: Box<TlsChannel>,
    out: Vec<u8>,
}

/// The TLS sessions of a worker's connections; empty without any.
#[derive(Debug, Default)]
pub struct TlsSessions(ByToken<TlsSession>);

impl TlsSessions {
    /// Sets up connection `token`, with or without a TLS session.
    pub fn set(&mut self, token: usize, channel: Option<Box<TlsChannel>>) {
        self.0.set(token, channel.map(|channel| TlsSession { channel, out: Vec::new() }));
    }

    pub fn take(&mut self, token: usize) -> Option<Box<TlsChannel>> {
        self.0.take(token).map(|session| session.channel)
    }

    /// Encrypted bytes to send on `token`; None for a connection without TLS.
    #[inline]
    pub fn outgoing(&self, token: usize) -> Option<&[u8]> {
        self.0.get(token).map(|session| session.out.as_slice())
    }

    /// Passes bytes that arrived on `token` to `client`, decrypted if the connection has TLS.
    #[inline]
    pub fn receive(&mut self, token: usize, bytes: &[u8], client: &mut Client, shared: &mut Shared<'_>) -> Next {
        match self.0.get_mut(token) {
            Some(session) => session.receive(bytes, client, shared),
            _ => client.receive(bytes, shared),
        }
    }

    /// Encrypts the bytes that `client` sends after an event other than received bytes; returns the client's step.
    #[inline]
    pub fn seal(&mut self, token: usize, next: Next, client: &mut Client, shared: &mut Shared<'_>) -> Next {
        match self.0.get_mut(token) {
            Some(session) if next == Next::Send => {
                session.out.clear();
                match session.seal(client) {
                    Ok(()) => Next::Send,
                    Err(error) => broken(error, client, shared),
                }
            }
            _ => next,
        }
    }
}

impl TlsSession {
    fn seal(&mut self, client: &Client) -> Result<(), TlsError> {
        self.channel.seal(client.outgoing(), &mut self.out)
    }

    fn receive(&mut self, mut bytes: &[u8], client: &mut Client, shared: &mut Shared<'_>) -> Next {
        self.out.clear();
        let mut answer = Next::Wait;
        loop {
            let plain = self.channel.plain();
            if !plain.is_empty() {
                let length = plain.len();
                let next = client.receive(plain, shared);
                self.channel.consume(length);
                match next {
                    Next::Wait => {}
                    Next::Send => match self.seal(client) {
                        Ok(()) => answer = Next::Send,
                        Err(error) => return broken(error, client, shared),
                    },
                    Next::Close => return Next::Close,
                }
            } else if self.channel.is_closed() {
                client.handle_close(None, shared);
                return Next::Close;
            } else if bytes.is_empty() {
                return answer;
            } else if let Err(error) = self.channel.open(&mut bytes) {
                return broken(error, client, shared);
            }
        }
    }
}

fn broken(error: TlsError, client: &mut Client, shared: &mut Shared<'_>) -> Next {
    client.handle_close(Some(&io::Error::other(error)), shared);
    Next::Close
}
