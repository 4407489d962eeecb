//! How a worker changes the session of a client that has several: the client keeps the session that
//! was current, outside of the poller.

use std::io;

use pgdyno_connect::Transport;

use crate::driver::Change;
use crate::poller::{Next, Poller, Released};
use crate::worker::Worker;

impl<P: Poller> Worker<'_, P> {
    pub(super) fn change_sessions(&mut self) -> io::Result<()> {
        // those that are postponed have their turn after the poller has waited
        for _ in 0..self.load.shared.requests.changes() {
            let Some(client) = self.load.shared.requests.next_change() else {
                break;
            };
            let token = self.load.token(client);
            match self.load.clients[token].requested_change() {
                Some(Change::Replace { .. }) => self.replace_session(token),
                Some(change) => self.change_session(token, change)?,
                // its connection was lost in the meantime, or it has stopped
                None => {
                    self.dialed.remove(&token);
                }
            }
        }
        Ok(())
    }

    fn replace_session(&mut self, token: usize) {
        let Some(result) = self.take_dialed(token) else {
            return;
        };
        let result = result.and_then(|transport| self.attach(token, transport).map_err(|error| error.to_string()));
        self.step(token, |client, shared| client.finish_session_change(None, result, shared));
    }

    fn change_session(&mut self, token: usize, change: Change) -> io::Result<()> {
        let opened = match change {
            Change::Use(_) => None,
            _ => match self.take_dialed(token) {
                None => return Ok(()),
                opened => opened,
            },
        };
        self.poller.flush(&mut self.load)?;
        let left = match self.poller.release(token) {
            Released::Socket(socket) => self.load.transport(token, socket),
            Released::Gone => return Ok(()),
            Released::Pending => {
                self.dialed.extend(opened.map(|opened| (token, Some(opened))));
                self.step(token, |client, shared| {
                    shared.requests.change_session(client.id());
                    Next::Wait
                });
                return Ok(());
            }
            Released::Busy => {
                self.dialed.extend(opened.map(|opened| (token, Some(opened))));
                let now = self.load.shared.clock.now();
                self.step(token, |client, shared| client.postpone_change(now, shared));
                return Ok(());
            }
        };
        let (left, result) = match opened.unwrap_or_else(|| self.kept_session(token, change)) {
            Ok(transport) => {
                self.attach(token, transport)?;
                (Some(left), Ok(()))
            }
            Err(words) => {
                self.attach(token, left)?;
                (None, Err(words))
            }
        };
        self.step(token, |client, shared| client.finish_session_change(left, result, shared));
        Ok(())
    }

    fn kept_session(&mut self, token: usize, change: Change) -> Result<Transport, String> {
        let (Change::Use(number) | Change::Open(number)) = change else {
            return Err("there is no such session".to_owned());
        };
        let client = self.load.clients.get_mut(token);
        let kept = client.and_then(|client| client.take_kept(number));
        kept.ok_or_else(|| format!("there is no session number {number}"))
    }
}
