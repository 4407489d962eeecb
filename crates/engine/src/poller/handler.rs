//! The interface between a poller and the load that uses it.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::clock::{Clock, Nanos};

/// How many bytes of messages are queued after one that is stuck. A client sends after it was
/// answered, so only a server that answers without reading exceeds this.
pub(super) const MAX_QUEUED_BYTES: usize = 16 * 1024 * 1024;

pub(super) fn does_not_read() -> io::Error {
    io::Error::other("server answers, but does not read what it is sent")
}

/// What a handler wants after it received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Wait for more bytes.
    Wait,
    /// Send [`Handler::outgoing`], then wait for more bytes.
    Send,
    Close,
}

/// The result of releasing a connection.
#[derive(Debug)]
pub enum Released {
    /// The socket. Bytes that the handler has not received are still to be read from it.
    Socket(OwnedFd),
    /// Not yet: the kernel still reads from it. Nothing further may arrive until it is released or sent on.
    Pending,
    /// The connection stays, because something is still to be sent on it, or the kernel does not let go of it.
    Busy,
    /// There is no connection: it ended, and the handler knows.
    Gone,
}

/// Decides what to send; does no I/O.
pub trait Handler {
    /// Handles bytes that arrived on connection `token`.
    fn receive(&mut self, token: usize, bytes: &[u8]) -> Next;

    /// Handles the end of connection `token`; `why` is None if the server closed it in order.
    fn handle_close(&mut self, token: usize, why: Option<io::Error>);

    /// Whether the server owes bytes on connection `token`. If not, its end may be noticed some time later.
    fn awaits(&self, _token: usize) -> bool {
        true
    }

    /// The bytes to send on `token`. They stay the same until [`Handler::receive`] is called for
    /// it: by then the poller has sent them, or has a copy of the rest.
    fn outgoing(&self, token: usize) -> &[u8];
}

/// Moves bytes between connections and a handler.
pub trait Poller: Sized {
    const NAME: &'static str;

    /// An empty poller for tokens under `connections`, which waits by `clock`.
    ///
    /// # Errors
    /// The kernel does not have the interface, forbids it, or lacks descriptors or memory.
    fn new(connections: usize, clock: Clock) -> io::Result<Self>;

    /// Ends each wait as soon as `fd` is readable; the handler is not called for it.
    fn watch(&mut self, fd: BorrowedFd<'_>) -> io::Result<()>;

    /// Takes over a connected socket as `token`.
    fn add(&mut self, token: usize, socket: OwnedFd) -> io::Result<()>;

    /// Sends the handler's bytes for `token`, at the latest in the next [`Poller::wait`] or
    /// [`Poller::flush`]. Messages of one token keep the order of these calls.
    fn send(&mut self, token: usize, handler: &mut impl Handler);

    /// Waits for bytes, at most until the clock reads `until` (None: without end), and passes
    /// everything that arrived to the handler. May return early without any.
    ///
    /// # Errors
    /// When waiting itself fails; a broken connection goes to [`Handler::handle_close`].
    fn wait(&mut self, until: Option<Nanos>, handler: &mut impl Handler) -> io::Result<()>;

    /// Sends as much of the pending bytes as fits, without waiting, as at the end of a load.
    fn flush(&mut self, handler: &mut impl Handler) -> io::Result<()>;

    fn close(&mut self, token: usize);

    /// Releases a connection, so that another poller can take it over; does not wait. If that is pending, the caller
    /// repeats it after the next [`Poller::wait`], which a confirmation of the kernel ends. No byte is lost: the
    /// handler receives those that were read from the socket in the meantime, and learns if the connection ended.
    fn release(&mut self, token: usize) -> Released;
}
