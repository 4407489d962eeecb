//! Server certificates made as in PostgreSQL's manual, which libpq accepts and webpki refuses.
//!
//! `openssl req -new -x509` makes a server's certificate that is its own authority, and `openssl
//! x509 -req` makes one of version 1 before OpenSSL 3.2. Servers that were set up with the manual's
//! two recipes have such certificates, and `sslmode=verify-ca` must work with them. So this module
//! verifies one step: a certificate that is trusted itself, or that a trusted root has signed.
//! Longer chains are left to webpki.

use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer};
use webpki::RawPublicKeyEntity;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Version;

/// Verifies a server's certificate with `roots`, at a time in seconds since 1970.
///
/// # Errors
/// It is not valid at that time, not meant for a server, or not signed by a root.
pub(super) fn verify(
    server: &[u8],
    roots: &[CertificateDer<'_>],
    algorithms: &[&dyn SignatureVerificationAlgorithm],
    now_s: i64,
) -> Result<(), CertificateError> {
    let now = ASN1Time::from_timestamp(now_s).map_err(|_| CertificateError::BadEncoding)?;
    let server = read(server).ok_or(CertificateError::BadEncoding)?;
    check_purpose(&server)?;
    check_time(&server, now)?;
    let mut refusal = CertificateError::UnknownIssuer;
    for root in roots.iter().filter_map(|der| read(der)) {
        if root.as_raw() == server.as_raw() {
            return Ok(());
        }
        let is_issuer = root.subject().as_raw() == server.issuer().as_raw() && may_sign(&root);
        if !is_issuer || !has_signed(&root, &server, algorithms) {
            continue;
        }
        match check_time(&root, now) {
            Ok(()) => return Ok(()),
            Err(why) => refusal = why,
        }
    }
    Err(refusal)
}

fn read(der: &[u8]) -> Option<X509Certificate<'_>> {
    match X509Certificate::from_der(der) {
        Ok((&[], certificate)) => Some(certificate),
        _ => None,
    }
}

fn check_time(certificate: &X509Certificate<'_>, now: ASN1Time) -> Result<(), CertificateError> {
    let validity = certificate.validity();
    if now < validity.not_before {
        Err(CertificateError::NotValidYet)
    } else if now > validity.not_after {
        Err(CertificateError::Expired)
    } else {
        Ok(())
    }
}

/// Refuses a certificate that is not for servers, or that has a critical extension which is not
/// understood here.
fn check_purpose(certificate: &X509Certificate<'_>) -> Result<(), CertificateError> {
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::KeyUsage(usage)
                if !(usage.digital_signature() || usage.key_encipherment() || usage.key_agreement()) =>
            {
                return Err(CertificateError::InvalidPurpose);
            }
            ParsedExtension::ExtendedKeyUsage(usage) if !usage.server_auth => {
                return Err(CertificateError::InvalidPurpose);
            }
            ParsedExtension::KeyUsage(_)
            | ParsedExtension::ExtendedKeyUsage(_)
            | ParsedExtension::BasicConstraints(_)
            | ParsedExtension::SubjectAlternativeName(_) => {}
            _ if extension.critical => return Err(CertificateError::UnhandledCriticalExtension),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a root may sign server certificates. Before version 3 a certificate could not say so;
/// constraints on names are left to webpki.
fn may_sign(root: &X509Certificate<'_>) -> bool {
    let is_authority = root.version() != X509Version::V3 || root.is_ca();
    let signs = match root.key_usage() {
        Ok(usage) => usage.is_none_or(|usage| usage.value.key_cert_sign()),
        Err(_) => false,
    };
    let is_for_servers = match root.extended_key_usage() {
        Ok(usage) => usage.is_none_or(|usage| usage.value.server_auth),
        Err(_) => false,
    };
    let has_no_constraints = matches!(root.name_constraints(), Ok(None));
    is_authority && signs && is_for_servers && has_no_constraints
}

/// Whether the key of `root` has signed `server`. Any sufficiently strong algorithm is accepted,
/// because the name of the algorithm is part of the signed data.
fn has_signed(
    root: &X509Certificate<'_>,
    server: &X509Certificate<'_>,
    algorithms: &[&dyn SignatureVerificationAlgorithm],
) -> bool {
    let key = SubjectPublicKeyInfoDer::from(root.public_key().raw);
    let Ok(key) = RawPublicKeyEntity::try_from(&key) else {
        return false;
    };
    let (content, signature) = (server.tbs_certificate.as_ref(), &server.signature_value.data);
    algorithms.iter().any(|algorithm| key.verify_signature(*algorithm, content, signature).is_ok())
}
