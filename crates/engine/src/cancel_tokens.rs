//! The keys by which the statements of a worker's sessions can be cancelled, by connection.

use pgdyno_connect::CancelToken;

/// The tokens of a worker's connections; empty where the server gave no keys.
#[derive(Debug, Default)]
pub struct CancelTokens(Vec<Option<CancelToken>>);

impl CancelTokens {
    /// Records the key of a new connection `token`.
    pub fn set(&mut self, token: usize, cancel: Option<CancelToken>) {
        if cancel.is_some() && self.0.len() <= token {
            self.0.resize_with(token + 1, || None);
        }
        if let Some(place) = self.0.get_mut(token) {
            *place = cancel;
        }
    }

    /// The key of connection `token`.
    pub fn get(&self, token: usize) -> Option<&CancelToken> {
        self.0.get(token)?.as_ref()
    }

    /// Removes and returns the key of connection `token`, which moves to another worker or ends.
    pub fn take(&mut self, token: usize) -> Option<CancelToken> {
        self.0.get_mut(token)?.take()
    }
}
