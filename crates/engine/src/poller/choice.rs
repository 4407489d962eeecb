//! Which poller serves a load.

use std::io;

use super::{Poller, Uring};
use crate::clock::Clock;
use crate::spec::Io;

/// A poller that works here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// [`super::Epoll`]
    Epoll,
    /// [`super::Uring`]
    IoUring,
}

/// The poller for `io` and this many `connections` a worker.
///
/// By default io_uring wherever it works: whether there were 64 or 1,000 connections, it took less
/// CPU a transaction, gave more transactions and had no worse tail (docs/design/performance.md).
///
/// # Errors
/// When `io` asks for io_uring and the kernel has none or forbids it; then why.
pub fn choose(io: Io, connections: usize) -> io::Result<Kind> {
    // nothing but trying tells whether seccomp, a sysctl or a limit is in the way
    let tried = || Uring::new(connections, Clock::start()).map(|_| Kind::IoUring);
    match io {
        Io::Epoll => Ok(Kind::Epoll),
        Io::IoUring => tried(),
        Io::Auto => Ok(tried().unwrap_or(Kind::Epoll)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poller_that_is_asked_for_is_taken() {
        assert_eq!(choose(Io::Epoll, 1).ok(), Some(Kind::Epoll));
    }

    #[test]
    fn the_default_is_what_works() {
        let best = choose(Io::IoUring, 8).unwrap_or(Kind::Epoll);
        assert_eq!(choose(Io::Auto, 8).ok(), Some(best));
    }

    #[test]
    fn more_connections_than_descriptors_are_epolls_to_refuse() {
        // the kernel's table of files has at most 2^20
        let error = choose(Io::IoUring, 1 << 21).expect_err("it is too much");
        assert!(error.to_string().starts_with("could not set up io_uring: "));
        assert_eq!(choose(Io::Auto, 1 << 21).ok(), Some(Kind::Epoll));
    }
}
