//! How a worker gets its connections: the initial ones, one for each transaction (-C), and those
//! that replace lost ones.

use std::io;
use std::sync::Arc;

use pgdyno_connect::{Session, Transport};

use crate::client::Client;
use crate::poller::Poller;
use crate::reconnect::{Dispatch, Refusal};
use crate::worker::Worker;

impl<P: Poller> Worker<'_, P> {
    /// Watches the connector's bell, whose token comes after those of the clients.
    pub(super) fn watch_connector(&mut self) -> io::Result<()> {
        if let Some(reconnecting) = &self.links.reconnecting {
            let (dispatch, bell) = Dispatch::new(Arc::clone(&reconnecting.connector))?;
            self.poller.add(self.load.clients.len(), bell.into())?;
            self.dispatch = Some(dispatch);
        }
        Ok(())
    }

    /// Makes the connections that clients request (-C), one after the other, as pgbench does; with
    /// a connector, requests them there, and takes those that are ready.
    pub(super) fn connect_clients(&mut self) {
        if self.dispatch.is_some() {
            self.ask_for_connections();
            return self.take_connections();
        }
        while let Some(client) = self.load.shared.next_unconnected() {
            let Some(token) = self.load.token(client) else {
                continue;
            };
            let since = self.load.shared.clock.now();
            let connected = self.connect(token);
            if self.load.shared.stopped() {
                // an interruption may have ended the attempt
                return;
            }
            let result = connected.as_ref().copied().map_err(AsRef::as_ref);
            self.step(token, |client, shared| client.connected(result, since, shared));
        }
    }

    pub(super) fn connect(&mut self, token: usize) -> Result<(), Box<dyn std::error::Error>> {
        // sends the end of the previous session
        self.poller.flush(&mut self.load)?;
        let mut session = Session::connect(&self.load.shared.spec.params)?;
        if self.load.shared.prints_notices {
            session.print_notices();
        }
        self.attach(token, session.into_transport()?)?;
        Ok(())
    }

    /// Takes over a connection as `token`.
    pub(super) fn attach(&mut self, token: usize, transport: Transport) -> io::Result<()> {
        self.poller.add(token, transport.socket)?;
        self.load.channels.set(token, transport.tls);
        self.load.cancels.set(token, transport.cancel);
        Ok(())
    }

    fn ask_for_connections(&mut self) {
        let load = &mut self.load;
        while let (Some(client), Some(dispatch)) = (load.shared.next_unconnected(), &self.dispatch) {
            if let Some(token) = load.token(client) {
                dispatch.ask(token, load.shared.clock.now());
            }
        }
    }

    fn take_connections(&mut self) {
        while let Some(made) = self.dispatch.as_ref().and_then(Dispatch::take) {
            let token = made.token;
            let client = self.load.clients.get(token).and_then(Option::as_ref);
            if client.is_none_or(Client::stopped) {
                continue;
            }
            let result = made.result.and_then(|transport| {
                // with -C, sends the end of the previous session
                self.poller.flush(&mut self.load).and_then(|()| self.attach(token, transport)).map_err(Refusal::passing)
            });
            let result = result.as_ref().copied();
            self.step(token, |client, shared| client.reconnected(result, made.since, shared));
        }
    }
}
