//! What cancels the statements of a worker's sessions, by connection.

use pgdyno_connect::CancelToken;

/// The tokens of a worker's connections; empty where the server gave no keys.
#[derive(Debug, Default)]
pub struct Cancels(Vec<Option<CancelToken>>);

impl Cancels {
    /// Connection `token` is a new one.
    pub fn set(&mut self, token: usize, cancel: Option<CancelToken>) {
        if cancel.is_some() && self.0.len() <= token {
            self.0.resize_with(token + 1, || None);
        }
        if let Some(place) = self.0.get_mut(token) {
            *place = cancel;
        }
    }

    /// That of `token`, which goes elsewhere or ends.
    pub fn take(&mut self, token: usize) -> Option<CancelToken> {
        self.0.get_mut(token)?.take()
    }
}
