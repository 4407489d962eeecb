//! Identifiers of requests to an io_uring: a completion has no other information about its request.

use io_uring::cqueue;

/// What a completion belongs to; its user data has 2, 30 and 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub kind: RequestKind,
    /// Distinguishes a connection from earlier ones with the same token; below [`GENERATIONS`].
    pub generation: u32,
    pub token: u32,
}

/// The operation that the kernel performs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// A multishot receive, which completes with every piece of bytes.
    Receive,
    /// A send of the handler's bytes, which completes in the call that submits it, silently when all were sent.
    Send,
    /// A send of a copy, which completes when all bytes were sent or no more can be.
    SendCopy,
    /// A poll of what is only watched.
    Watch,
}

/// How many generations can be distinguished.
pub const GENERATIONS: u32 = 1 << 30;

impl Request {
    /// The request in the form that the kernel passes through.
    pub fn user_data(self) -> u64 {
        (self.kind as u64) << 62 | u64::from(self.generation) << 32 | u64::from(self.token)
    }

    pub fn of(completion: &cqueue::Entry) -> Self {
        Self::from_user_data(completion.user_data())
    }

    fn from_user_data(data: u64) -> Self {
        Self {
            kind: match data >> 62 {
                0 => RequestKind::Receive,
                1 => RequestKind::Send,
                2 => RequestKind::SendCopy,
                _ => RequestKind::Watch,
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
        for kind in [RequestKind::Receive, RequestKind::Send, RequestKind::SendCopy, RequestKind::Watch] {
            for (generation, token) in [(0, 0), (1, u32::MAX), (GENERATIONS - 1, 7)] {
                let request = Request { kind, generation, token };
                assert_eq!(Request::from_user_data(request.user_data()), request);
            }
        }
    }
}
