//! An encrypted socket whose calls wait.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::channel::TlsChannel;
use super::tls_error::TlsError;
use crate::patience::Patience;
use crate::stream::Stream;

/// How many encrypted bytes are received at a time.
const RECEIVE_BYTES: usize = 16 * 1024;
/// How many plain bytes are encrypted at a time.
const SEAL_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub struct TlsStream {
    socket: Stream,
    channel: TlsChannel,
    /// Bytes that were received and not decrypted yet.
    received: Vec<u8>,
    /// Bytes that were encrypted and not sent yet.
    sealed: Vec<u8>,
}

impl TlsStream {
    pub(super) fn new(socket: Stream, channel: TlsChannel) -> Self {
        TlsStream { socket, channel, received: Vec::new(), sealed: Vec::new() }
    }

    pub(super) fn channel(&self) -> &TlsChannel {
        &self.channel
    }

    pub(super) async fn handshake(&mut self, patience: &Patience) -> io::Result<()> {
        while self.channel.connection().is_handshaking() {
            self.channel.flush(&mut self.sealed);
            let sent = self.send_sealed();
            // the reason why the server has closed is still to be read
            match self.receive() {
                Ok(0) => return Err(failed(TlsError::Closed)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    sent?;
                    self.socket.wait(self.has_unsent(), patience).await?;
                }
                Err(error) => {
                    self.channel.flush(&mut self.sealed);
                    let _ = self.send_sealed();
                    return Err(error);
                }
            }
        }
        self.channel.flush(&mut self.sealed);
        while !self.try_flush()? {
            self.socket.wait(true, patience).await?;
        }
        Ok(())
    }

    /// Receives and decrypts the available bytes; returns how many were received, 0 when the other side has closed.
    fn receive(&mut self) -> io::Result<usize> {
        if self.received.is_empty() {
            self.received.resize(RECEIVE_BYTES, 0);
            let received = self.socket.try_recv(&mut self.received);
            self.received.truncate(*received.as_ref().unwrap_or(&0));
            if received? == 0 {
                return Ok(0);
            }
        }
        let mut left = self.received.as_slice();
        let opened = self.channel.open(&mut left);
        let taken = self.received.len() - left.len();
        self.received.drain(..taken);
        opened.map_err(failed)?;
        Ok(taken)
    }

    /// Sends as many encrypted bytes as fit.
    fn send_sealed(&mut self) -> io::Result<()> {
        while !self.sealed.is_empty() {
            match self.socket.try_send(&self.sealed) {
                Ok(sent) => drop(self.sealed.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tries to send the rest of the accepted bytes; returns whether all have been sent.
    pub(crate) fn try_flush(&mut self) -> io::Result<bool> {
        self.send_sealed()?;
        Ok(self.sealed.is_empty())
    }

    /// Accepts some of the bytes; returns `WouldBlock` while earlier ones do not fit.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.try_flush()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (now, _) = bytes.split_at(bytes.len().min(SEAL_BYTES));
        self.channel.seal(now, &mut self.sealed).map_err(failed)?;
        self.send_sealed()?;
        Ok(now.len())
    }

    pub(crate) fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // a server that has closed may have sent the reason before
        let sent = self.send_sealed();
        loop {
            let plain = self.channel.plain();
            if !plain.is_empty() {
                let bytes = plain.len().min(buffer.len());
                buffer[..bytes].copy_from_slice(&plain[..bytes]);
                self.channel.consume(bytes);
                return Ok(bytes);
            }
            if self.channel.is_closed() {
                return Ok(0);
            }
            match self.receive() {
                Ok(0) => return Ok(0),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return sent.and(Err(error));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether encrypted bytes are still to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.sealed.is_empty()
    }

    /// Decrypted bytes that were not returned yet.
    pub(crate) fn take_plain(&mut self) -> io::Result<Vec<u8>> {
        let mut taken = Vec::new();
        loop {
            let plain = self.channel.plain();
            let bytes = plain.len();
            taken.extend_from_slice(plain);
            self.channel.consume(bytes);
            if bytes > 0 {
                continue;
            }
            if self.received.is_empty() || self.channel.is_closed() {
                return Ok(taken);
            }
            self.receive()?;
        }
    }

    /// The socket and the session, for code that moves bytes itself. Call [`TlsStream::take_plain`]
    /// before, so that everything that was received has been decrypted.
    pub(crate) fn into_parts(self) -> (Stream, TlsChannel) {
        (self.socket, self.channel)
    }
}

impl AsFd for TlsStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Wraps the error for callers that know only errors of sockets.
pub(super) fn failed(error: TlsError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
