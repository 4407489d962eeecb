//! Chains of certificates that OpenSSL takes and webpki does not.
//!
//! PostgreSQL's documentation makes a server's certificate by `openssl req -new -x509`, which is one
//! of an authority, and signs others by `openssl x509 -req`, which (before OpenSSL 3.2) makes them
//! of version 1. webpki refuses both for a server, whoever signed them. Only such certificates come
//! here, and what is not understood is refused.

use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer};
use webpki::RawPublicKeyEntity;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{KeyUsage, ParsedExtension};
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Version;

/// Signatures between a server's certificate and a root's, at most.
const MAX_DEPTH: u32 = 8;
/// Signatures that are tried at most, so that a server cannot keep us busy.
const MAX_SIGNATURES: u32 = 64;

/// What a chain is made of.
pub(super) struct Search<'a> {
    roots: Vec<X509Certificate<'a>>,
    others: Vec<X509Certificate<'a>>,
    algorithms: &'a [&'a dyn SignatureVerificationAlgorithm],
    now: ASN1Time,
    signatures: u32,
}

impl<'a> Search<'a> {
    /// A search among trusted `roots` and `others`, at an instant in seconds since 1970. Those that
    /// cannot be read are left out.
    pub fn new(
        roots: &'a [CertificateDer<'a>],
        others: impl Iterator<Item = &'a CertificateDer<'a>>,
        algorithms: &'a [&'a dyn SignatureVerificationAlgorithm],
        now_s: i64,
    ) -> Result<Self, CertificateError> {
        Ok(Search {
            roots: roots.iter().filter_map(|der| read(der)).collect(),
            others: others.filter_map(|der| read(der)).collect(),
            algorithms,
            now: ASN1Time::from_timestamp(now_s).map_err(|_| CertificateError::BadEncoding)?,
            signatures: 0,
        })
    }

    /// Whether a chain leads from a server's certificate to a root.
    ///
    /// # Errors
    /// None does, or the certificate is not good for a server.
    pub fn verify(mut self, server: &[u8]) -> Result<(), CertificateError> {
        let server = read(server).ok_or(CertificateError::BadEncoding)?;
        check_critical(&server)?;
        if !is_for_servers(&server) {
            return Err(CertificateError::InvalidPurpose);
        }
        self.climb(&server, 0)
    }

    /// Looks for the issuer of a certificate, and for its issuer.
    fn climb(&mut self, of: &X509Certificate<'_>, depth: u32) -> Result<(), CertificateError> {
        self.check_time(of)?;
        if self.roots.iter().any(|root| root.as_raw() == of.as_raw()) {
            return Ok(());
        }
        if depth == MAX_DEPTH {
            return Err(CertificateError::UnknownIssuer);
        }
        let issuers: Vec<_> = self.roots.iter().chain(&self.others).cloned().collect();
        let mut why = CertificateError::UnknownIssuer;
        for issuer in issuers {
            let is_issuer = issuer.subject().as_raw() == of.issuer().as_raw()
                && issuer.as_raw() != of.as_raw()
                && self.may_sign(&issuer, depth);
            if !is_issuer || !self.has_signed(&issuer, of) {
                continue;
            }
            match self.climb(&issuer, depth + 1) {
                Ok(()) => return Ok(()),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn check_time(&self, certificate: &X509Certificate<'_>) -> Result<(), CertificateError> {
        let validity = certificate.validity();
        if self.now < validity.not_before {
            Err(CertificateError::NotValidYet)
        } else if self.now > validity.not_after {
            Err(CertificateError::Expired)
        } else {
            Ok(())
        }
    }

    /// Whether a certificate is one of an authority, with so many others below it. Before version 3
    /// there was no way to say so: such a one must be a root.
    fn may_sign(&self, issuer: &X509Certificate<'_>, below: u32) -> bool {
        if issuer.version() != X509Version::V3 {
            return self
                .roots
                .iter()
                .any(|root| root.as_raw() == issuer.as_raw());
        }
        let is_authority = match issuer.basic_constraints() {
            Ok(Some(basic)) => {
                let fits = basic
                    .value
                    .path_len_constraint
                    .is_none_or(|most| below <= most);
                basic.value.ca && fits
            }
            _ => false,
        };
        let may_sign = match issuer.key_usage() {
            Ok(usage) => usage.is_none_or(|usage| usage.value.key_cert_sign()),
            Err(_) => false,
        };
        let serves = match issuer.extended_key_usage() {
            Ok(usage) => usage.is_none_or(|usage| usage.value.server_auth),
            Err(_) => false,
        };
        // constraints on names are webpki's business
        let is_free = matches!(issuer.name_constraints(), Ok(None));
        is_authority && may_sign && serves && is_free && check_critical(issuer).is_ok()
    }

    /// Whether the key of `issuer` has signed `of`: by any algorithm that is good enough, for the
    /// one that is named is part of what is signed.
    fn has_signed(&mut self, issuer: &X509Certificate<'_>, of: &X509Certificate<'_>) -> bool {
        let key = SubjectPublicKeyInfoDer::from(issuer.public_key().raw);
        let Ok(key) = RawPublicKeyEntity::try_from(&key) else {
            return false;
        };
        self.signatures += 1;
        self.signatures <= MAX_SIGNATURES
            && self.algorithms.iter().any(|algorithm| {
                let (content, signature) = (of.tbs_certificate.as_ref(), &of.signature_value.data);
                key.verify_signature(*algorithm, content, signature).is_ok()
            })
    }
}

fn read<'a>(der: &'a [u8]) -> Option<X509Certificate<'a>> {
    match X509Certificate::from_der(der) {
        Ok((&[], certificate)) => Some(certificate),
        _ => None,
    }
}

/// Whether a server's certificate may be used by a server.
fn is_for_servers(certificate: &X509Certificate<'_>) -> bool {
    let exchanges = |usage: &KeyUsage| {
        usage.digital_signature() || usage.key_encipherment() || usage.key_agreement()
    };
    let usage = match certificate.key_usage() {
        Ok(usage) => usage.is_none_or(|usage| exchanges(usage.value)),
        Err(_) => false,
    };
    let extended = match certificate.extended_key_usage() {
        Ok(usage) => usage.is_none_or(|usage| usage.value.server_auth),
        Err(_) => false,
    };
    usage && extended
}

/// Refuses what must be understood and is not.
fn check_critical(certificate: &X509Certificate<'_>) -> Result<(), CertificateError> {
    let known = |extension: &ParsedExtension<'_>| {
        matches!(
            extension,
            ParsedExtension::BasicConstraints(_)
                | ParsedExtension::KeyUsage(_)
                | ParsedExtension::ExtendedKeyUsage(_)
                | ParsedExtension::SubjectAlternativeName(_)
        )
    };
    let mut critical = certificate.extensions().iter().filter(|one| one.critical);
    if critical.all(|extension| known(extension.parsed_extension())) {
        Ok(())
    } else {
        Err(CertificateError::UnhandledCriticalExtension)
    }
}
