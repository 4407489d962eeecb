//! How long the parts of connecting took.

use std::time::{Duration, Instant};

/// When an attempt that succeeded reached its milestones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Milestones {
    pub connected: Instant,
    /// None without TLS.
    pub encrypted: Option<Instant>,
    /// When the client had sent its last message of the authentication; None if the server asked for none.
    pub answered: Option<Instant>,
    pub ready: Instant,
}

/// How long the parts of connecting took; together, all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectTimes {
    /// Until the socket was connected, with the look-up of the name and attempts that failed.
    pub socket: Duration,
    /// Negotiation and handshake; None without TLS.
    pub tls: Option<Duration>,
    /// From the start-up message to the client's last message; None if the server asked for nothing.
    pub authentication: Option<Duration>,
    /// From there until the session was ready. The server sends AuthenticationOk only with ReadyForQuery, so this
    /// includes its check of that last message.
    pub backend: Duration,
}

impl Milestones {
    /// The times of a connection that was begun at `began`.
    pub fn since(&self, began: Instant) -> ConnectTimes {
        let open = self.encrypted.unwrap_or(self.connected);
        ConnectTimes {
            socket: self.connected - began,
            tls: self.encrypted.map(|at| at - self.connected),
            authentication: self.answered.map(|at| at - open),
            backend: self.ready - self.answered.unwrap_or(open),
        }
    }
}

impl ConnectTimes {
    /// From the beginning until the session was ready.
    pub fn total(&self) -> Duration {
        self.socket + self.tls.unwrap_or_default() + self.authentication.unwrap_or_default() + self.backend
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_whatever_the_server_asks_for() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        for (encrypted, answered, expected) in [
            (None, None, (None, None, 9)),
            (Some(at(3)), None, (Some(2), None, 7)),
            (None, Some(at(6)), (None, Some(5), 4)),
            (Some(at(3)), Some(at(6)), (Some(2), Some(3), 4)),
        ] {
            let times = Milestones { connected: at(1), encrypted, answered, ready: at(10) }.since(began);
            let ms = |part: Duration| part.as_millis() as u64;
            assert_eq!((times.tls.map(ms), times.authentication.map(ms), ms(times.backend)), expected);
            assert_eq!((times.socket, times.total()), (Duration::from_millis(1), Duration::from_millis(10)));
        }
    }
}
