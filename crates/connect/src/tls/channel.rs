//! An established TLS session without its socket.

use std::fmt;
use std::io::{self, BufRead, Write};

use rustls::Connection;

use super::tls_error::TlsError;

/// Encrypts and decrypts bytes; does no I/O.
///
/// Messages of the server other than data are answered together with the next data, which TLS permits for all of them.
pub struct TlsChannel {
    connection: Connection,
    is_closed: bool,
}

impl fmt::Debug for TlsChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsChannel").field("version", &self.connection.protocol_version()).finish_non_exhaustive()
    }
}

impl TlsChannel {
    pub(super) fn new(connection: impl Into<Connection>) -> Self {
        let mut connection = connection.into();
        // everything that is encrypted in one call is also taken in one call
        connection.set_buffer_limit(None);
        TlsChannel { connection, is_closed: false }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Decrypts some bytes from the front of `encrypted`. Call it again when [`TlsChannel::plain`]
    /// is empty, until none are left.
    ///
    /// # Errors
    /// The bytes were changed on their way, or an alert ends the session.
    pub fn open(&mut self, encrypted: &mut &[u8]) -> Result<(), TlsError> {
        let general = |error: io::Error| rustls::Error::General(error.to_string());
        if self.connection.read_tls(encrypted).map_err(general)? == 0 {
            // bytes after the end of the session are ignored
            *encrypted = &[];
        }
        let state = self.connection.process_new_packets()?;
        self.is_closed = state.peer_has_closed();
        Ok(())
    }

    /// Decrypted bytes that were not consumed yet; there may be more after these are.
    pub fn plain(&mut self) -> &[u8] {
        // returns WouldBlock when there are none
        self.connection.reader().into_first_chunk().unwrap_or_default()
    }

    /// Drops decrypted bytes from the front.
    pub fn consume(&mut self, bytes: usize) {
        self.connection.reader().consume(bytes);
    }

    /// Whether the server has closed the session in order.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Appends `plain` to `out`, encrypted.
    ///
    /// # Errors
    /// The session is over.
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        let general = |error: io::Error| rustls::Error::General(error.to_string());
        self.connection.writer().write_all(plain).map_err(general)?;
        self.flush(out);
        Ok(())
    }

    /// Appends the bytes that TLS itself has to send, in the handshake and for alerts.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) {
        // writing to a vector cannot fail
        while self.connection.wants_write() && self.connection.write_tls(out).is_ok() {}
    }
}
