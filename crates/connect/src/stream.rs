//! The socket of a connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with, sockopt,
};

use crate::params::Keepalives;
use crate::patience::Patience;

/// A connected socket. It blocks unless [`Stream::set_nonblocking`] says otherwise.
#[derive(Debug)]
pub enum Stream {
    /// A unix socket.
    Unix(UnixStream),
    /// TCP, without Nagle's delay.
    Tcp(TcpStream),
}

impl Stream {
    /// Connects to a unix socket; a path that begins with `@` is in the abstract namespace.
    ///
    /// When the server's backlog is full this waits, where libpq gives up with `EAGAIN`.
    ///
    /// # Errors
    /// Those of the system; `TimedOut` when the deadline passes, or that of an interruption.
    pub fn connect_unix(path: &Path, patience: impl Into<Patience>) -> io::Result<Stream> {
        let patience = patience.into();
        let address = match path.to_str().and_then(|text| text.strip_prefix('@')) {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
            None => SocketAddrUnix::new(path)?,
        };
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        loop {
            // A connect that blocks on the backlog ends by the timeout for sending.
            let slice = patience.slice()?;
            if slice.is_some() {
                sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, slice)?;
            }
            match connect(&socket, &address) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if slice.is_some() => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, None)?;
        Ok(Stream::Unix(UnixStream::from(socket)))
    }

    /// Connects by TCP.
    ///
    /// # Errors
    /// Those of the system; `TimedOut` when the deadline passes, or that of an interruption.
    pub fn connect_tcp(
        address: SocketAddr,
        patience: impl Into<Patience>,
        keepalives: &Keepalives,
    ) -> io::Result<Stream> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = socket_with(
            family,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        set_keepalives(&socket, keepalives)?;
        match connect(&socket, &address) {
            Ok(()) => {}
            // An interrupted connect goes on by itself.
            Err(Errno::INPROGRESS | Errno::INTR) => {
                wait(&socket, PollFlags::OUT, &patience.into())?;
                sockopt::socket_error(&socket)??;
            }
            Err(errno) => return Err(errno.into()),
        }
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(Stream::Tcp(stream))
    }

    /// Whether calls return `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Stream::Unix(socket) => socket.set_nonblocking(nonblocking),
            Stream::Tcp(socket) => socket.set_nonblocking(nonblocking),
        }
    }

    /// Sends what fits without waiting.
    ///
    /// # Errors
    /// Those of the system; `WouldBlock` when nothing fits.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::io::retry_on_intr(|| {
            send(self.as_fd(), bytes, flags)
        })?)
    }

    /// Receives what is there without waiting; 0 when the other side has closed.
    ///
    /// # Errors
    /// Those of the system; `WouldBlock` when nothing is there.
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (bytes, _) =
            rustix::io::retry_on_intr(|| recv(self.as_fd(), &mut *buffer, RecvFlags::DONTWAIT))?;
        Ok(bytes)
    }

    /// Waits until the stream can be read, or until it can be written if `write` is wanted.
    ///
    /// # Errors
    /// Those of the system; `TimedOut` when the deadline passes, or that of an interruption.
    pub fn wait(&self, write: bool, patience: impl Into<Patience>) -> io::Result<()> {
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, write);
        wait(self, events, &patience.into())
    }

    /// The user that the process at the other end of a unix socket runs as.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn peer_uid(&self) -> io::Result<u32> {
        Ok(sockopt::socket_peercred(self)?.uid.as_raw())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(socket) => socket.as_fd(),
            Stream::Tcp(socket) => socket.as_fd(),
        }
    }
}

impl From<Stream> for OwnedFd {
    fn from(stream: Stream) -> OwnedFd {
        match stream {
            Stream::Unix(socket) => socket.into(),
            Stream::Tcp(socket) => socket.into(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(socket) => socket.read(buffer),
            Stream::Tcp(socket) => socket.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(socket) => socket.write(bytes),
            Stream::Tcp(socket) => socket.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn set_keepalives(socket: &OwnedFd, keepalives: &Keepalives) -> io::Result<()> {
    sockopt::set_socket_keepalive(socket, keepalives.enabled)?;
    if let Some(idle) = keepalives.idle {
        sockopt::set_tcp_keepidle(socket, idle)?;
    }
    if let Some(interval) = keepalives.interval {
        sockopt::set_tcp_keepintvl(socket, interval)?;
    }
    if let Some(count) = keepalives.count {
        sockopt::set_tcp_keepcnt(socket, count)?;
    }
    if let Some(timeout) = keepalives.user_timeout {
        let ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(socket, ms)?;
    }
    Ok(())
}

/// Waits for events on a socket.
fn wait(socket: &impl AsFd, events: PollFlags, patience: &Patience) -> io::Result<()> {
    loop {
        let timeout = match patience.slice()? {
            Some(left) => Some(Timespec::try_from(left).map_err(io::Error::other)?),
            None => None,
        };
        let mut fds = [PollFd::new(socket, events)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => {}
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
