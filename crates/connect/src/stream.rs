//! The socket of a connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
    sockopt,
};

use crate::cancel_token::CancelToken;
use crate::params::Keepalives;
use crate::patience::Patience;
use crate::tls::{TlsChannel, TlsStream};

/// How many bytes are received at a time.
pub(crate) const RECEIVE_BYTES: usize = 16 * 1024;

/// A connected socket. It blocks unless [`Stream::set_nonblocking`] says otherwise.
#[derive(Debug)]
pub enum Stream {
    /// A unix socket.
    Unix(UnixStream),
    /// TCP, without Nagle's algorithm.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream>),
}

/// A connected socket with its TLS session and cancel token.
#[derive(Debug)]
pub struct Transport {
    /// The socket.
    pub socket: OwnedFd,
    /// The TLS session, if the socket carries one.
    pub tls: Option<Box<TlsChannel>>,
    /// The token for cancelling a statement of the session; `None` when the server gave no key.
    pub cancel: Option<CancelToken>,
}

impl Stream {
    /// Connects to a unix socket; a path that begins with `@` is in the abstract namespace.
    ///
    /// When the server's backlog is full this waits, unlike libpq, which fails with `EAGAIN`.
    ///
    /// # Errors
    /// Those of the system; `TimedOut` after the deadline; the error of an interruption.
    pub fn connect_unix(path: &Path, patience: impl Into<Patience>) -> io::Result<Stream> {
        let patience = patience.into();
        let address = match path.to_str().and_then(|text| text.strip_prefix('@')) {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
            None => SocketAddrUnix::new(path)?,
        };
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        loop {
            // The timeout for sending ends a connect that blocks on the backlog.
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
    /// Those of the system; `TimedOut` after the deadline; the error of an interruption.
    pub fn connect_tcp(
        address: SocketAddr,
        patience: impl Into<Patience>,
        keepalives: &Keepalives,
    ) -> io::Result<Stream> {
        let family = match address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        set_keepalives(&socket, keepalives)?;
        match connect(&socket, &address) {
            Ok(()) => {}
            // An interrupted connect continues by itself.
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

    /// Sets whether calls of `Read` and `Write` return `WouldBlock` instead of waiting. Those of a
    /// TLS session always wait.
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Stream::Unix(socket) => socket.set_nonblocking(nonblocking),
            Stream::Tcp(socket) => socket.set_nonblocking(nonblocking),
            Stream::Tls(stream) => stream.socket().set_nonblocking(nonblocking),
        }
    }

    /// Whether bytes are encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }

    /// The socket and the TLS session over it, for code that moves bytes itself.
    pub(crate) fn into_transport(self) -> Transport {
        match self {
            Stream::Unix(socket) => Transport { socket: socket.into(), tls: None, cancel: None },
            Stream::Tcp(socket) => Transport { socket: socket.into(), tls: None, cancel: None },
            Stream::Tls(stream) => {
                let (socket, channel) = stream.into_parts();
                Transport { socket: socket.into_transport().socket, tls: Some(Box::new(channel)), cancel: None }
            }
        }
    }

    /// Bytes that were received and decrypted but not returned yet.
    pub(crate) fn take_plain(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Stream::Unix(_) | Stream::Tcp(_) => Ok(Vec::new()),
            Stream::Tls(stream) => stream.take_plain(),
        }
    }

    /// Sends as many of the accepted bytes as fit; returns whether all were sent.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn try_flush(&mut self) -> io::Result<bool> {
        match self {
            Stream::Unix(_) | Stream::Tcp(_) => Ok(true),
            Stream::Tls(stream) => stream.try_flush(),
        }
    }

    /// Sends as many bytes as fit without waiting. Over TLS, more are accepted than fit; the rest
    /// is sent in the next call of any method.
    ///
    /// # Errors
    /// Those of the system; `WouldBlock` when nothing fits; `InvalidData` with a
    /// [`TlsError`](crate::TlsError) when the TLS session is broken.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Stream::Tls(stream) = self {
            return stream.try_send(bytes);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::io::retry_on_intr(|| send(self.as_fd(), bytes, flags))?)
    }

    /// Receives the available bytes without waiting; returns 0 when the other side has closed.
    ///
    /// # Errors
    /// Those of the system; `WouldBlock` when there are none; `InvalidData` with a
    /// [`TlsError`](crate::TlsError) when the TLS session is broken.
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Stream::Tls(stream) = self {
            return stream.try_recv(buffer);
        }
        let (bytes, _) = rustix::io::retry_on_intr(|| recv(self.as_fd(), &mut *buffer, RecvFlags::DONTWAIT))?;
        Ok(bytes)
    }

    /// Waits until the stream can be read, or written to if `write` is set.
    ///
    /// # Errors
    /// Those of the system; `TimedOut` after the deadline; the error of an interruption.
    pub fn wait(&self, write: bool, patience: impl Into<Patience>) -> io::Result<()> {
        let patience = patience.into();
        if let Stream::Tls(stream) = self {
            return stream.wait(write, &patience);
        }
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, write);
        wait(self, events, &patience)
    }

    /// The user as which the process at the other end of a unix socket runs.
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
            Stream::Tls(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(socket) => socket.read(buffer),
            Stream::Tcp(socket) => socket.read(buffer),
            Stream::Tls(_) => loop {
                match self.try_recv(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.wait(false, None)?;
                    }
                    received => return received,
                }
            },
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(socket) => socket.write(bytes),
            Stream::Tcp(socket) => socket.write(bytes),
            Stream::Tls(_) => {
                self.flush()?;
                let accepted = self.try_send(bytes)?;
                self.flush()?;
                Ok(accepted)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.try_flush()? {
            self.wait(true, None)?;
        }
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
