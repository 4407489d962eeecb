//! Encrypts a connected socket.

use std::io;

use pgdyno_wire::binding::Channel;
use pgdyno_wire::frontend;

use super::channel::TlsChannel;
use super::config::{PROTOCOL, TlsConfig};
use super::tls_error::TlsError;
use super::tls_stream::TlsStream;
use super::{certificate_hash, certificate_names};
use crate::attempt::io_cause;
use crate::connect_error::Cause;
use crate::hosts::Host;
use crate::params::Params;
use crate::patience::Patience;
use crate::stream::Stream;
use crate::word_options::SslNegotiation;

pub(crate) enum Negotiated {
    Encrypted(Stream, Channel),
    /// The server does not support TLS; the socket is still usable.
    Refused(Stream),
}

/// Asks the server for TLS, and performs the handshake if the server supports it.
pub(crate) async fn negotiate(
    params: &Params, host: &Host, mut stream: Stream, patience: &Patience,
) -> Result<Negotiated, Cause> {
    let config = params.tls_config()?;
    let is_direct = params.tls.negotiation == SslNegotiation::Direct;
    if !is_direct && !ask(&mut stream, patience).await? {
        return Ok(Negotiated::Refused(stream));
    }
    let (stream, channel) = shake_hands(config, &host.tls_name(), stream, patience).await?;
    if is_direct && stream.channel().connection().alpn_protocol() != Some(PROTOCOL) {
        return Err(TlsError::NoProtocol.into());
    }
    Ok(Negotiated::Encrypted(Stream::Tls(Box::new(stream)), channel))
}

async fn ask(stream: &mut Stream, patience: &Patience) -> Result<bool, Cause> {
    let mut request = Vec::new();
    frontend::ssl_request(&mut request);
    stream.send_all(&request, patience).await.map_err(io_cause)?;
    // exactly one byte: bytes after it belong to the handshake, or come from an attacker
    let mut answer = [0];
    if stream.receive(&mut answer, patience).await.map_err(io_cause)? == 0 {
        return Err(Cause::Closed);
    }
    match answer {
        [b'S'] => Ok(true),
        [b'N'] => Ok(false),
        [b'E'] => Err(TlsError::ErrorResponse.into()),
        [other] => Err(TlsError::InvalidResponse(other).into()),
    }
}

async fn shake_hands(
    config: &TlsConfig, name: &str, stream: Stream, patience: &Patience,
) -> Result<(TlsStream, Channel), Cause> {
    let (connection, witness) = config.connection(name)?;
    let mut stream = TlsStream::new(stream, TlsChannel::new(connection));
    stream.handshake(patience).await.map_err(handshake_cause)?;
    let connection = stream.channel().connection();
    let certificate = connection
        .peer_certificates()
        .and_then(|certificates| certificates.first())
        .ok_or_else(|| TlsError::Setup("certificate could not be obtained".to_owned()))?;
    if config.checks_name() {
        certificate_names::check(certificate, name)?;
    }
    config.check_asked(&witness)?;
    let channel = certificate_hash::channel(certificate);
    Ok((stream, channel))
}

fn handshake_cause(error: io::Error) -> Cause {
    match io_cause(error) {
        Cause::Closed => TlsError::Closed.into(),
        other => other,
    }
}
