//! The other side of TLS: a proxy that clients connect to.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

use super::channel::TlsChannel;
use super::config::PROTOCOL;
use super::tls_error::TlsError;
use super::tls_stream::{TlsStream, failed};
use super::{certificate_files, client_key};
use crate::patience::{Interrupt, Patience, block_on};
use crate::stream::Stream;

/// A certificate with its key, and what follows from them.
#[derive(Clone)]
pub struct Acceptor(Arc<ServerConfig>);

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

impl Acceptor {
    /// Reads the chain of certificates and the key from one PEM file.
    ///
    /// # Errors
    /// The file cannot be read, others can read it, or its parts do not fit.
    pub fn from_file(path: &Path) -> Result<Self, TlsError> {
        let chain = certificate_files::certificates(path, "certificate file")?;
        Self::new(chain, client_key::read_key(path)?)
    }

    /// Makes a certificate that nobody can verify, for this host and for `address`.
    ///
    /// # Errors
    /// Those of rustls, for example missing randomness.
    pub fn self_signed(address: IpAddr) -> Result<Self, TlsError> {
        let setup = |error: rcgen::Error| TlsError::Setup(format!("could not make a certificate: {error}"));
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned(), address.to_string()]).map_err(setup)?;
        let key = PrivateKeyDer::try_from(signing_key.serialize_der());
        let key = key.map_err(|why| TlsError::Setup(why.to_owned()))?;
        Self::new(vec![cert.der().clone()], key)
    }

    fn new(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<Self, TlsError> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // as PostgreSQL
        config.send_tls13_tickets = 0;
        Ok(Self(Arc::new(config)))
    }

    /// Performs the handshake with a client. A direct one must name the protocol.
    ///
    /// # Errors
    /// The handshake fails, or takes longer than `until`.
    pub fn accept(&self, socket: Stream, until: Instant, is_direct: bool) -> io::Result<Stream> {
        let connection = ServerConnection::new(Arc::clone(&self.0)).map_err(|error| failed(error.into()))?;
        let mut stream = TlsStream::new(socket, TlsChannel::new(connection));
        block_on(stream.handshake(&Patience::new(Some(until), Interrupt::default())))?;
        if is_direct && stream.channel().connection().alpn_protocol() != Some(PROTOCOL) {
            return Err(failed(TlsError::NoProtocol));
        }
        Ok(Stream::Tls(Box::new(stream)))
    }
}
