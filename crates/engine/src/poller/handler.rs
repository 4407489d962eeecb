//! What a poller asks of the load above it, and what the load asks of a poller.

use std::io;
use std::os::fd::OwnedFd;

use crate::clock::{Clock, Nanos};

/// Messages that wait for one that is stuck are kept up to this size. A client sends when it has
/// been answered, so only a server that answers what it has not read makes them more.
pub(super) const MAX_QUEUED_BYTES: usize = 16 * 1024 * 1024;

/// Why such a connection is closed.
pub(super) fn does_not_read() -> io::Error {
    io::Error::other("server answers, but does not read what it is sent")
}

/// What a handler wants after bytes came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// More bytes.
    Wait,
    /// [`Handler::outgoing`] to be sent, then more bytes.
    Send,
    /// The connection closed.
    Close,
}

/// What became of a connection that was to be released.
#[derive(Debug)]
pub enum Released {
    /// Its socket. What the handler has not been given is still to be read from it.
    Socket(OwnedFd),
    /// Something is still to be sent on it: it stays.
    Busy,
    /// There is none: it ended, and the handler knows.
    Gone,
}

/// Decides what is sent; does no I/O.
pub trait Handler {
    /// Bytes came on connection `token`.
    fn received(&mut self, token: usize, bytes: &[u8]) -> Next;

    /// Connection `token` ended; `why` is None when the server closed it in order.
    fn closed(&mut self, token: usize, why: Option<io::Error>);

    /// What to send on `token`. Stays the same until [`Handler::received`] is called for it: by
    /// then the poller has sent it, or has a copy of what is left.
    fn outgoing(&self, token: usize) -> &[u8];
}

/// Moves bytes between connections and a handler.
pub trait Poller: Sized {
    /// Its name in events.
    const NAME: &'static str;

    /// An empty poller for tokens under `connections`, which waits by `clock`.
    ///
    /// # Errors
    /// When the kernel has no such thing, forbids it or lacks descriptors or memory.
    fn new(connections: usize, clock: Clock) -> io::Result<Self>;

    /// Takes over a connected socket under the name `token`.
    ///
    /// # Errors
    /// When the kernel refuses to watch it.
    fn add(&mut self, token: usize, socket: OwnedFd) -> io::Result<()>;

    /// Sends what the handler has for `token`, at the latest with the next [`Poller::wait`] or
    /// [`Poller::flush`]. Messages of one token go in the order of their sends.
    fn send(&mut self, token: usize, handler: &mut impl Handler);

    /// Waits for bytes, at most until the clock reads `until` (None: without end), and serves all
    /// that came. May return early, with nothing.
    ///
    /// # Errors
    /// When waiting itself fails; a broken connection goes to [`Handler::closed`].
    fn wait(&mut self, until: Option<Nanos>, handler: &mut impl Handler) -> io::Result<()>;

    /// Gives the kernel what was to be sent and fits, without waiting, as at the end of a load.
    ///
    /// # Errors
    /// When the kernel takes nothing any more.
    fn flush(&mut self, handler: &mut impl Handler) -> io::Result<()>;

    /// Closes a connection at once.
    fn close(&mut self, token: usize);

    /// Gives a connection back, so that another poller can take it over. No byte of it is lost: the
    /// handler gets those that were taken from the socket meanwhile, and learns if it ended.
    /// Other connections may be served as in [`Poller::wait`]; not to be called by a handler.
    ///
    /// # Errors
    /// When the kernel does not let go of it.
    fn release(&mut self, token: usize, handler: &mut impl Handler) -> io::Result<Released>;
}
