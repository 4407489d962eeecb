//! The socket of a connection.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
    sockopt,
};

use crate::cancel_token::CancelToken;
use crate::params::{FullQueue, Keepalives};
use crate::patience::Patience;
use crate::tls::{TlsChannel, TlsStream};

pub(crate) const RECEIVE_BYTES: usize = 16 * 1024;

/// A connected socket. It blocks unless [`Stream::set_nonblocking`] says otherwise.
#[derive(Debug)]
pub enum Stream {
    Unix(UnixStream),
    /// TCP, without Nagle's algorithm.
    Tcp(TcpStream),
    Tls(Box<TlsStream>),
}

/// A connected socket with its TLS session and cancel token.
#[derive(Debug)]
pub struct Transport {
    pub socket: OwnedFd,
    /// The TLS session, if the socket carries one.
    pub tls: Option<Box<TlsChannel>>,
    /// The token for cancelling a statement of the session; `None` when the server gave no key.
    pub cancel: Option<CancelToken>,
}

impl Stream {
    /// Connects to a unix socket; a path that begins with `@` is in the abstract namespace.
    ///
    pub(crate) async fn connect_unix(path: &Path, full_queue: FullQueue, patience: &Patience) -> io::Result<Stream> {
        let address = match path.to_str().and_then(|text| text.strip_prefix('@')) {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
            None => SocketAddrUnix::new(path)?,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        loop {
            match connect(&socket, &address) {
                Ok(()) => break,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if full_queue == FullQueue::Awaited => patience.pause().await?,
                Err(errno) => return Err(errno.into()),
            }
        }
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(Stream::Unix(stream))
    }

    pub(crate) async fn connect_tcp(
        address: SocketAddr, patience: &Patience, keepalives: &Keepalives,
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
                patience.wait(&socket, PollFlags::OUT).await?;
                sockopt::socket_error(&socket)??;
            }
            Err(errno) => return Err(errno.into()),
        }
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(false)?;
        Ok(Stream::Tcp(stream))
    }

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
    /// The connection or its encryption has failed.
    pub fn try_flush(&mut self) -> io::Result<bool> {
        match self {
            Stream::Unix(_) | Stream::Tcp(_) => Ok(true),
            Stream::Tls(stream) => stream.try_flush(),
        }
    }

    /// Sends as many bytes as fit without waiting. Over TLS, more are accepted than fit; the rest
    /// is sent in the next call of any method.
    pub fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Stream::Tls(stream) = self {
            return stream.try_send(bytes);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::io::retry_on_intr(|| send(self.as_fd(), bytes, flags))?)
    }

    /// Receives the available bytes without waiting; returns 0 when the other side has closed.
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Stream::Tls(stream) = self {
            return stream.try_recv(buffer);
        }
        let (bytes, _) = rustix::io::retry_on_intr(|| recv(self.as_fd(), &mut *buffer, RecvFlags::DONTWAIT))?;
        Ok(bytes)
    }

    /// Sends all bytes, and waits where they do not fit.
    pub(crate) async fn send_all(&mut self, mut bytes: &[u8], patience: &Patience) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.try_send(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(true, patience).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for bytes; returns how many were received, 0 when the other side has closed.
    pub(crate) async fn receive(&mut self, buffer: &mut [u8], patience: &Patience) -> io::Result<usize> {
        loop {
            // checked for every message, because a server that never stops sending would otherwise escape the limit
            patience.slice()?;
            match self.try_recv(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(false, patience).await?,
                received => return received,
            }
        }
    }

    /// Whether bytes that were accepted are still to be sent.
    pub fn has_unsent(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.has_unsent())
    }

    /// Waits until the stream can be read, or written to if `write` is set.
    pub(crate) async fn wait(&self, write: bool, patience: &Patience) -> io::Result<()> {
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, write || self.has_unsent());
        patience.wait(self, events).await
    }

    /// The user as which the process at the other end of a unix socket runs.
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
