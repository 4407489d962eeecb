//! A worker's connections.

use std::io;

use pgdyno_connect::Transport;

use crate::cancel_tokens::CancelTokens;
use crate::clock::Clock;
use crate::poller::Poller;
use crate::tls::Channels;

/// A worker's connections: the poller that moves their bytes, and their TLS sessions.
pub struct Connections<P> {
    /// Moves the bytes.
    pub poller: P,
    /// The TLS sessions.
    pub channels: Channels,
    /// The keys for cancelling statements.
    pub cancels: CancelTokens,
}

impl<P: Poller> Connections<P> {
    /// Makes an empty set, for tokens below `most`.
    ///
    /// # Errors
    /// Those of [`Poller::new`].
    pub fn new(most: usize, clock: Clock) -> io::Result<Self> {
        Ok(Self { poller: P::new(most, clock)?, channels: Channels::default(), cancels: CancelTokens::default() })
    }

    /// Takes over a connection as `token`.
    ///
    /// # Errors
    /// Those of [`Poller::add`].
    pub fn add(&mut self, token: usize, transport: Transport) -> io::Result<()> {
        self.poller.add(token, transport.socket)?;
        self.channels.set(token, transport.tls);
        self.cancels.set(token, transport.cancel);
        Ok(())
    }
}
