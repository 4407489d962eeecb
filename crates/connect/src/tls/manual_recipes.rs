//! Server certificates made as in PostgreSQL's manual, which libpq accepts and webpki refuses.
//!
//! `openssl req -new -x509` makes a server's certificate that is its own authority, and `openssl x509 -req` makes one
//! of version 1 before OpenSSL 3.2. Servers that were set up with the manual's two recipes have such certificates, and
//! `sslmode=verify-ca` must work with them. So this module verifies one step: a certificate that is trusted itself, or
//! that a trusted root has signed. Longer chains are left to webpki.

use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer};
use webpki::RawPublicKeyEntity;

use super::certificate::{
    ALTERNATIVE_NAMES, BASIC_CONSTRAINTS, Certificate, EXTENDED_KEY_USAGE, KEY_USAGE, NAME_CONSTRAINTS,
};

/// Bits of a key usage (RFC 5280, section 4.2.1.3) for which servers use their keys: signature, encipherment, agreement.
const SERVER_USAGE: [usize; 3] = [0, 2, 4];
const CERTIFICATE_SIGNING: usize = 5;

/// Verifies a server's certificate with `roots`, at a time in seconds since 1970.
pub(super) fn verify(
    server: &[u8], roots: &[CertificateDer<'_>], algorithms: &[&dyn SignatureVerificationAlgorithm], now_s: i64,
) -> Result<(), CertificateError> {
    let server = Certificate::from_der(server).map_err(|_| CertificateError::BadEncoding)?;
    check_purpose(&server)?;
    check_time(&server, now_s)?;
    let mut refusal = CertificateError::UnknownIssuer;
    for root in roots.iter().filter_map(|der| Certificate::from_der(der).ok()) {
        if root.der == server.der {
            return Ok(());
        }
        let is_issuer = root.subject == server.issuer && may_sign(&root).unwrap_or(false);
        if !is_issuer || !has_signed(&root, &server, algorithms) {
            continue;
        }
        match check_time(&root, now_s) {
            Ok(()) => return Ok(()),
            Err(why) => refusal = why,
        }
    }
    Err(refusal)
}

fn check_time(certificate: &Certificate<'_>, now_s: i64) -> Result<(), CertificateError> {
    let (from_s, to_s) = certificate.valid_s;
    if now_s < from_s {
        Err(CertificateError::NotValidYet)
    } else if now_s > to_s {
        Err(CertificateError::Expired)
    } else {
        Ok(())
    }
}

/// Refuses a certificate that is not for servers, or that has a critical extension which is not understood here.
fn check_purpose(certificate: &Certificate<'_>) -> Result<(), CertificateError> {
    for extension in &certificate.extensions {
        let is_for_servers = if extension.has_id(KEY_USAGE) {
            extension.has_usage(&SERVER_USAGE)
        } else if extension.has_id(EXTENDED_KEY_USAGE) {
            extension.is_for_servers()
        } else if extension.has_id(BASIC_CONSTRAINTS) || extension.has_id(ALTERNATIVE_NAMES) || !extension.is_critical {
            continue;
        } else {
            return Err(CertificateError::UnhandledCriticalExtension);
        };
        match is_for_servers {
            Ok(true) => {}
            Ok(false) => return Err(CertificateError::InvalidPurpose),
            Err(_) => return Err(CertificateError::BadEncoding),
        }
    }
    Ok(())
}

/// Whether a root may sign server certificates. Before version 3 a certificate could not say so;
/// constraints on names are left to webpki.
fn may_sign(root: &Certificate<'_>) -> der::Result<bool> {
    let is_authority =
        root.extension(BASIC_CONSTRAINTS)?.map_or(Ok(false), |constraints| constraints.is_authority())?;
    let signs = root.extension(KEY_USAGE)?.map_or(Ok(true), |usage| usage.has_usage(&[CERTIFICATE_SIGNING]))?;
    let is_for_servers = root.extension(EXTENDED_KEY_USAGE)?.map_or(Ok(true), |usage| usage.is_for_servers())?;
    let has_no_constraints = root.extension(NAME_CONSTRAINTS)?.is_none();
    Ok((is_authority || !root.is_version_3) && signs && is_for_servers && has_no_constraints)
}

/// Whether the key of `root` has signed `server`. Any sufficiently strong algorithm is accepted,
/// because the name of the algorithm is part of the signed data.
fn has_signed(
    root: &Certificate<'_>, server: &Certificate<'_>, algorithms: &[&dyn SignatureVerificationAlgorithm],
) -> bool {
    let key = SubjectPublicKeyInfoDer::from(root.public_key);
    let Ok(key) = RawPublicKeyEntity::try_from(&key) else {
        return false;
    };
    algorithms.iter().any(|algorithm| key.verify_signature(*algorithm, server.signed, server.signature).is_ok())
}
