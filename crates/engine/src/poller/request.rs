//! Names for requests to an io_uring: a completion carries nothing else that tells what it is of.

use io_uring::cqueue;

/// What a completion is about; its user data, in 2, 30 and 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub kind: RequestKind,
    /// Tells a connection from those that had its token before; under [`GENERATIONS`].
    pub generation: u32,
    pub token: u32,
}

/// What the kernel was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// Multishot: completes with every piece of bytes.
    Receive,
    /// Of the handler's bytes; completes in the call that submits it, silently when all went.
    Send,
    /// Of a copy; completes when all went or nothing more can.
    SendCopy,
}

/// Generations that can be told apart.
pub const GENERATIONS: u32 = 1 << 30;

impl Request {
    /// As the kernel carries it.
    pub fn user_data(self) -> u64 {
        (self.kind as u64) << 62 | u64::from(self.generation) << 32 | u64::from(self.token)
    }

    /// What `completion` is of.
    pub fn of(completion: &cqueue::Entry) -> Self {
        Self::from_user_data(completion.user_data())
    }

    fn from_user_data(data: u64) -> Self {
        Self {
            kind: match data >> 62 {
                0 => RequestKind::Receive,
                1 => RequestKind::Send,
                _ => RequestKind::SendCopy,
            },
            generation: (data >> 32) as u32 & (GENERATIONS - 1),
            token: data as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_the_kernel() {
        for kind in [
            RequestKind::Receive,
            RequestKind::Send,
            RequestKind::SendCopy,
        ] {
            for (generation, token) in [(0, 0), (1, u32::MAX), (GENERATIONS - 1, 7)] {
                let request = Request {
                    kind,
                    generation,
                    token,
                };
                assert_eq!(Request::from_user_data(request.user_data()), request);
            }
        }
    }
}
