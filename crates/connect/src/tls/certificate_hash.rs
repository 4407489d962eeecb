//! The hash of a certificate by which SCRAM is bound to the channel (RFC 5929, section 4.1).

use der::asn1::{AnyRef, ObjectIdentifier};
use der::{Decode, Result};
use pgdyno_wire::binding::Channel;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::certificate::{Algorithm, Certificate, field, members};

/// Identifiers of signature algorithms by the hash that binds the channel: with RSA, with ECDSA, the hash alone.
const SHA_256: [&str; 7] = [
    "1.2.840.113549.1.1.11", "1.2.840.10045.4.3.2", "2.16.840.1.101.3.4.2.1",
    // SHA-1, and MD5 with RSA
    "1.2.840.113549.1.1.5", "1.2.840.10045.4.1", SHA_1, "1.2.840.113549.1.1.4",
];
const SHA_384: [&str; 3] = ["1.2.840.113549.1.1.12", "1.2.840.10045.4.3.3", "2.16.840.1.101.3.4.2.2"];
const SHA_512: [&str; 3] = ["1.2.840.113549.1.1.13", "1.2.840.10045.4.3.4", "2.16.840.1.101.3.4.2.3"];
const SHA_224: [&str; 3] = ["1.2.840.113549.1.1.14", "1.2.840.10045.4.3.1", "2.16.840.1.101.3.4.2.4"];
const SHA_1: &str = "1.3.14.3.2.26";
/// RSASSA-PSS, whose hash is a parameter.
const PSS: &str = "1.2.840.113549.1.1.10";

/// The channel for a certificate (DER): its hash is the signature algorithm's, SHA-256 for MD5 and SHA-1.
pub(super) fn channel(certificate: &[u8]) -> Channel {
    match hash(certificate) {
        Some(hash) => Channel::Tls(hash),
        None => Channel::TlsWithoutHash,
    }
}

fn hash(der: &[u8]) -> Option<Vec<u8>> {
    let algorithm = Certificate::from_der(der).ok()?.algorithm;
    let mut name = identifier_text(algorithm.id)?;
    if name == PSS {
        name = pss_hash_identifier(algorithm.parameters?).ok()??;
    }
    let name = name.as_str();
    if SHA_256.contains(&name) {
        Some(Sha256::digest(der).to_vec())
    } else if SHA_384.contains(&name) {
        Some(Sha384::digest(der).to_vec())
    } else if SHA_512.contains(&name) {
        Some(Sha512::digest(der).to_vec())
    } else if SHA_224.contains(&name) {
        Some(Sha224::digest(der).to_vec())
    } else {
        None
    }
}

/// The hash of RSASSA-PSS's parameters (RFC 4055, section 3.1), which is SHA-1 if they name none.
fn pss_hash_identifier(parameters: AnyRef<'_>) -> Result<Option<String>> {
    match field(&parameters.sequence(members)?, 0) {
        Some(hash) => Ok(identifier_text(AnyRef::from_der(hash.value())?.sequence(Algorithm::decode)?.id)),
        None => Ok(Some(SHA_1.to_owned())),
    }
}

fn identifier_text(id: AnyRef<'_>) -> Option<String> {
    ObjectIdentifier::from_bytes(id.value()).ok().map(|id| id.to_string())
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
    fn the_hash_is_the_signatures_or_its_parameter() {
        let der = signed(&rcgen::PKCS_ECDSA_P256_SHA256);
        assert_eq!(channel(&der), Channel::Tls(Sha256::digest(&der).to_vec()));
        let der = signed(&rcgen::PKCS_ECDSA_P384_SHA384);
        assert_eq!(channel(&der), Channel::Tls(Sha384::digest(&der).to_vec()));
        assert_eq!(channel(&signed(&rcgen::PKCS_ED25519)), Channel::TlsWithoutHash);
        assert_eq!(channel(b"no certificate"), Channel::TlsWithoutHash);
        // openssl req -x509 -newkey rsa-pss -sigopt rsa_padding_mode:pss -sha384
        let der = include_bytes!("rsa_pss_sha384.der");
        assert_eq!(channel(der), Channel::Tls(Sha384::digest(der).to_vec()));
    }
}
