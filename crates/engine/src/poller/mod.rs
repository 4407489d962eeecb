//! The interface between the load and the kernel: bytes in, bytes out, timers.
//!
//! A [`Handler`] decides, and a [`Poller`] does the I/O. Whether the poller asks the kernel for readiness (epoll) or
//! for completions (io_uring), the handler only receives bytes and is asked for bytes to send.

mod alarm;
mod buffers;
mod choice;
mod epoll;
#[cfg(any(test, fuzzing))]
pub mod fuzz_tests;
mod handler;
#[cfg(test)]
mod tests;
mod uring;
mod uring_request;

pub use choice::{PollerKind, choose};
pub use epoll::Epoll;
pub use handler::{Handler, Next, Poller, Released};
pub use uring::Uring;
