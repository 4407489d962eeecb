//! The hash of a certificate by which SCRAM is bound to the channel (RFC 5929, section 4.1).

use pgdyno_wire::binding::Channel;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry as oid;
use x509_parser::prelude::FromDer;
use x509_parser::signature_algorithm::SignatureAlgorithm;

/// The channel for a certificate (DER): its hash is that of the signature algorithm, or SHA-256 in
/// place of MD5 and SHA-1.
pub(super) fn channel(certificate: &[u8]) -> Channel {
    match hash(certificate) {
        Some(hash) => Channel::Tls(hash),
        None => Channel::TlsWithoutHash,
    }
}

fn hash(der: &[u8]) -> Option<Vec<u8>> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let signature = &certificate.signature_algorithm;
    let is = |known: &[oid::Oid<'static>]| known.contains(&signature.algorithm);
    let named = SignatureAlgorithm::try_from(signature);
    let of_pss = match &named {
        Ok(SignatureAlgorithm::RSASSA_PSS(params)) => Some(params.hash_algorithm_oid()),
        _ => None,
    };
    let hashed_by = |known: oid::Oid<'static>| of_pss == Some(&known);
    let too_old = [oid::OID_PKCS1_SHA1WITHRSA, oid::OID_PKCS1_MD5WITHRSAENC];
    if is(&[oid::OID_PKCS1_SHA256WITHRSA, oid::OID_SIG_ECDSA_WITH_SHA256])
        || is(&too_old)
        || hashed_by(oid::OID_NIST_HASH_SHA256)
        || hashed_by(oid::OID_HASH_SHA1)
    {
        Some(Sha256::digest(der).to_vec())
    } else if is(&[oid::OID_PKCS1_SHA384WITHRSA, oid::OID_SIG_ECDSA_WITH_SHA384])
        || hashed_by(oid::OID_NIST_HASH_SHA384)
    {
        Some(Sha384::digest(der).to_vec())
    } else if is(&[oid::OID_PKCS1_SHA512WITHRSA, oid::OID_SIG_ECDSA_WITH_SHA512])
        || hashed_by(oid::OID_NIST_HASH_SHA512)
    {
        Some(Sha512::digest(der).to_vec())
    } else if is(&[oid::OID_PKCS1_SHA224WITHRSA, oid::OID_SIG_ECDSA_WITH_SHA224]) {
        Some(Sha224::digest(der).to_vec())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};

    fn signed(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
        let key = KeyPair::generate_for(algorithm).expect("a key");
        let params = CertificateParams::default();
        params.self_signed(&key).expect("signed").der().to_vec()
    }

    #[test]
    fn the_hash_is_the_signatures() {
        let der = signed(&rcgen::PKCS_ECDSA_P256_SHA256);
        assert_eq!(channel(&der), Channel::Tls(Sha256::digest(&der).to_vec()));
        let der = signed(&rcgen::PKCS_ECDSA_P384_SHA384);
        assert_eq!(channel(&der), Channel::Tls(Sha384::digest(&der).to_vec()));
        assert_eq!(channel(&signed(&rcgen::PKCS_ED25519)), Channel::TlsWithoutHash);
        assert_eq!(channel(b"no certificate"), Channel::TlsWithoutHash);
    }
}
