//! An established TLS session without its socket.

use std::fmt;
use std::io::{self, BufRead, Write};

use rustls::ClientConnection;

use super::tls_error::TlsError;

/// Makes plain bytes of encrypted ones and the other way round; does no I/O.
///
/// What the server sends beside data is answered with the next data that is sealed: nothing in TLS
/// must be answered sooner.
pub struct TlsChannel {
    connection: ClientConnection,
    is_closed: bool,
}

impl fmt::Debug for TlsChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsChannel")
            .field("version", &self.connection.protocol_version())
            .finish_non_exhaustive()
    }
}

impl TlsChannel {
    pub(super) fn new(mut connection: ClientConnection) -> Self {
        // all that is sealed at once is taken at once
        connection.set_buffer_limit(None);
        TlsChannel {
            connection,
            is_closed: false,
        }
    }

    pub(super) fn connection(&self) -> &ClientConnection {
        &self.connection
    }

    /// Takes some of the encrypted bytes off the front of `encrypted`. Call it again when
    /// [`TlsChannel::plain`] is empty, until none are left.
    ///
    /// # Errors
    /// They are not what the server has sent, or an alert ends the session.
    pub fn open(&mut self, encrypted: &mut &[u8]) -> Result<(), TlsError> {
        let general = |error: io::Error| rustls::Error::General(error.to_string());
        if self.connection.read_tls(encrypted).map_err(general)? == 0 {
            // behind the end of the session nothing counts
            *encrypted = &[];
        }
        let state = self.connection.process_new_packets()?;
        self.is_closed = state.peer_has_closed();
        Ok(())
    }

    /// Plain bytes that were received and not yet consumed: some of them, or none.
    pub fn plain(&mut self) -> &[u8] {
        // when there are none it says WouldBlock
        self.connection
            .reader()
            .into_first_chunk()
            .unwrap_or_default()
    }

    /// Drops plain bytes off the front.
    pub fn consume(&mut self, bytes: usize) {
        self.connection.reader().consume(bytes);
    }

    /// Whether the server has ended the session in order.
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

    /// Appends what is waiting to be sent to `out`: in the handshake, and alerts.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) {
        // a vector takes everything
        while self.connection.wants_write() && self.connection.write_tls(out).is_ok() {}
    }
}
