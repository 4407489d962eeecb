//! Whether a server's certificate is trusted. Its name is not checked here.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime};
use rustls::{CertRevocationListError, CertificateError, DigitallySignedStruct, Error};
use rustls::{OtherError, PeerMisbehaved, SignatureScheme};
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, RawPublicKeyEntity, RevocationCheckDepth,
    RevocationOptionsBuilder, UnknownStatusPolicy,
};

use super::certificate::Certificate;
use super::manual_recipes;

pub(super) struct Trust {
    roots: Vec<CertificateDer<'static>>,
    anchors: Vec<TrustAnchor<'static>>,
    /// From the first second of the youngest root to the last of the oldest.
    valid_s: (i64, i64),
    others: Vec<CertificateDer<'static>>,
    crls: Vec<CertRevocationList<'static>>,
}

impl Trust {
    /// Sorts the certificates of a file: those that have issued themselves are roots, and the others help to build
    /// chains. With revocation lists, each certificate of a chain must be in their scope.
    pub fn new(certificates: Vec<CertificateDer<'static>>, crls: Vec<CertRevocationList<'static>>) -> Self {
        let mut trust =
            Trust { roots: Vec::new(), anchors: Vec::new(), valid_s: (i64::MIN, i64::MAX), others: Vec::new(), crls };
        for der in certificates {
            let Some((is_root, from_s, to_s)) = facts(&der) else {
                continue;
            };
            if !is_root {
                trust.others.push(der);
                continue;
            }
            if let Ok(anchor) = webpki::anchor_from_trusted_cert(&der) {
                trust.anchors.push(anchor.to_owned());
                trust.valid_s.0 = trust.valid_s.0.max(from_s);
                trust.valid_s.1 = trust.valid_s.1.min(to_s);
            }
            trust.roots.push(der);
        }
        trust
    }

    fn verify(
        &self, server: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>],
        algorithms: &WebPkiSupportedAlgorithms, now: UnixTime,
    ) -> Result<(), Error> {
        match self.verify_by_webpki(server, intermediates, algorithms, now) {
            Err(refusal @ (webpki::Error::CaUsedAsEndEntity | webpki::Error::UnsupportedCertVersion))
                if self.crls.is_empty() =>
            {
                let now_s = seconds(now);
                match manual_recipes::verify(server, &self.roots, algorithms.all, now_s) {
                    // why webpki refuses the rest of the chain
                    Err(CertificateError::UnknownIssuer) if !intermediates.is_empty() => Err(explained(refusal)),
                    result => result.map_err(Error::InvalidCertificate),
                }
            }
            result => result.map_err(explained),
        }
    }

    fn verify_by_webpki(
        &self, server: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>],
        algorithms: &WebPkiSupportedAlgorithms, now: UnixTime,
    ) -> Result<(), webpki::Error> {
        let certificate = EndEntityCert::try_from(server)?;
        let others: Vec<_> = intermediates.iter().chain(&self.others).cloned().collect();
        let crls: Vec<_> = self.crls.iter().collect();
        let revocation = RevocationOptionsBuilder::new(&crls).ok().map(|options| {
            options
                .with_depth(RevocationCheckDepth::Chain)
                .with_status_policy(UnknownStatusPolicy::Deny)
                .with_expiration_policy(ExpirationPolicy::Enforce)
                .build()
        });
        let now_s = seconds(now);
        let current;
        // webpki does not check the dates of roots
        let anchors = if (self.valid_s.0..=self.valid_s.1).contains(&now_s) {
            &self.anchors
        } else {
            current = self.anchors_at(now_s);
            &current
        };
        certificate
            .verify_for_usage(algorithms.all, anchors, &others, now, KeyUsage::server_auth(), revocation, None)
            .map(|_| ())
    }

    fn anchors_at(&self, now_s: i64) -> Vec<TrustAnchor<'static>> {
        let is_valid = |der: &&CertificateDer<'_>| facts(der).is_some_and(|(_, from, to)| (from..=to).contains(&now_s));
        let valid = self.roots.iter().filter(is_valid);
        valid.filter_map(|der| Some(webpki::anchor_from_trusted_cert(der).ok()?.to_owned())).collect()
    }
}

/// Whether a certificate has issued itself, and its period of validity.
fn facts(der: &[u8]) -> Option<(bool, i64, i64)> {
    let certificate = Certificate::from_der(der).ok()?;
    let (from_s, to_s) = certificate.valid_s;
    Some((certificate.is_root(), from_s, to_s))
}

fn seconds(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

/// The error of rustls that corresponds to one of webpki.
fn explained(error: webpki::Error) -> Error {
    use webpki::Error as Why;
    Error::InvalidCertificate(match error {
        Why::BadDer | Why::BadDerTime | Why::TrailingData(_) => CertificateError::BadEncoding,
        Why::CertExpired { .. } => CertificateError::Expired,
        Why::CertNotValidYet { .. } => CertificateError::NotValidYet,
        Why::InvalidCertValidity => CertificateError::Expired,
        Why::UnknownIssuer => CertificateError::UnknownIssuer,
        Why::CertRevoked => CertificateError::Revoked,
        Why::UnknownRevocationStatus => CertificateError::UnknownRevocationStatus,
        Why::CrlExpired { .. } => CertificateError::ExpiredRevocationList,
        Why::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        Why::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        Why::InvalidCrlSignatureForPublicKey => {
            return Error::InvalidCertRevocationList(CertRevocationListError::BadSignature);
        }
        other => CertificateError::Other(OtherError(Arc::new(Refusal(other)))),
    })
}

/// A refusal by webpki for which neither rustls nor OpenSSL has a message.
#[derive(Debug)]
struct Refusal(webpki::Error);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            webpki::Error::CaUsedAsEndEntity => f.write_str(
                "the server's certificate is one of an authority, which must be signed by a root \
                 itself, without revocation lists; use one with basicConstraints=CA:FALSE",
            ),
            webpki::Error::UnsupportedCertVersion => f.write_str(
                "the server's certificate is of version 1, which must be signed by a root itself, \
                 without revocation lists; use one of version 3",
            ),
            ref other => other.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}

/// Checks the chain of a server's certificate, or accepts any certificate; the handshake is checked in either case.
pub(super) struct Verifier {
    trust: Option<Trust>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    /// Without `trust`, every certificate is accepted.
    pub fn new(trust: Option<Trust>, algorithms: WebPkiSupportedAlgorithms) -> Self {
        Verifier { trust, algorithms }
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self, end_entity: &CertificateDer<'_>, intermediates: &[CertificateDer<'_>], _server_name: &ServerName<'_>,
        _ocsp_response: &[u8], now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(trust) = &self.trust {
            trust.verify(end_entity, intermediates, &self.algorithms, now)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self, message: &[u8], cert: &CertificateDer<'_>, dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let schemes = self.algorithms.mapping;
        let (_, algorithms) = schemes
            .iter()
            .find(|(scheme, _)| *scheme == dss.scheme)
            .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        let key = public_key(cert)?;
        let bad = || Error::InvalidCertificate(CertificateError::BadSignature);
        let key = RawPublicKeyEntity::try_from(&key).map_err(|_| bad())?;
        algorithms
            .iter()
            .find(|algorithm| key.verify_signature(**algorithm, message, dss.signature()).is_ok())
            .map(|_| HandshakeSignatureValid::assertion())
            .ok_or_else(bad)
    }

    fn verify_tls13_signature(
        &self, message: &[u8], cert: &CertificateDer<'_>, dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // with the key alone, because rustls's own check would refuse certificates of version 1
        verify_tls13_signature_with_raw_key(message, &public_key(cert)?, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn public_key<'a>(der: &'a CertificateDer<'_>) -> Result<SubjectPublicKeyInfoDer<'a>, Error> {
    let certificate =
        Certificate::from_der(der).map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
    Ok(SubjectPublicKeyInfoDer::from(certificate.public_key))
}
