//! A worker's connections.

use std::io;
use std::os::fd::AsFd;

use pgdyno_connect::{AT_ONCE, CancelToken, Dialer, Transport};

use crate::by_token::ByToken;
use crate::clock::Clock;
use crate::poller::Poller;
use crate::reconnect::load_params;
use crate::spec::{Sessions, Spec};
use crate::tls::TlsSessions;

/// What a new connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The client has none.
    Connect,
    /// The session that its driver requested.
    ChangeSession,
}

/// A request for a connection of the client with this token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub token: usize,
    pub purpose: Purpose,
}

/// A worker's connections: the poller that moves their bytes, and their TLS sessions.
pub struct Connections<P> {
    /// Moves the bytes.
    pub poller: P,
    pub tls_sessions: TlsSessions,
    /// The keys for cancelling statements.
    pub cancels: ByToken<CancelToken>,
    /// Makes them.
    pub dialer: Dialer<Request>,
}

impl<P: Poller> Connections<P> {
    /// Makes an empty set, for tokens below `most`.
    pub fn new(most: usize, clock: Clock, spec: &Spec) -> io::Result<Self> {
        let at_once = match spec.sessions {
            // fewer would limit the load
            Sessions::PerTransaction => most.max(1),
            Sessions::Kept | Sessions::Driven => AT_ONCE,
        };
        let dialer = Dialer::new(load_params(spec), at_once)?;
        let mut poller = P::new(most, clock)?;
        poller.watch(dialer.as_fd())?;
        Ok(Self { poller, tls_sessions: TlsSessions::default(), cancels: ByToken::default(), dialer })
    }

    /// Takes over a connection as `token`.
    pub fn add(&mut self, token: usize, transport: Transport) -> io::Result<()> {
        self.poller.add(token, transport.socket)?;
        self.tls_sessions.set(token, transport.tls);
        self.cancels.set(token, transport.cancel);
        Ok(())
    }
}
