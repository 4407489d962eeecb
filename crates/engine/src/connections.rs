//! A worker's connections.

use std::io;

use pgdyno_connect::Transport;

use crate::cancel_tokens::CancelTokens;
use crate::clock::Clock;
use crate::poller::Poller;
use crate::tls::Channels;

/// A worker's connections: what moves their bytes, and the TLS sessions that these go through.
pub struct Connections<P> {
    /// What moves their bytes.
    pub poller: P,
    /// Their TLS sessions.
    pub channels: Channels,
    /// What cancels their statements.
    pub cancels: CancelTokens,
}

impl<P: Poller> Connections<P> {
    /// None yet, for tokens under `most`.
    ///
    /// # Errors
    /// Those of [`Poller::new`].
    pub fn new(most: usize, clock: Clock) -> io::Result<Self> {
        Ok(Self {
            poller: P::new(most, clock)?,
            channels: Channels::default(),
            cancels: CancelTokens::default(),
        })
    }

    /// Takes over a connection under the name `token`.
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
