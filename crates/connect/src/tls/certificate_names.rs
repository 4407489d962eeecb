//! Whether a certificate belongs to a host, by libpq's rules.

use std::net::{IpAddr, Ipv6Addr};

use der::asn1::AnyRef;
use der::{Tag, TagNumber, Tagged};

use super::certificate::{ALTERNATIVE_NAMES, Certificate};
use super::tls_error::TlsError;

/// Kinds of alternative names (RFC 5280, section 4.2.1.6).
const DNS_NAME: TagNumber = TagNumber(2);
const IP_ADDRESS: TagNumber = TagNumber(7);

/// Checks that the certificate (DER) contains the host, which is a name or an address.
///
/// The alternative names count. The common name counts only if none of them is of the host's kind
/// (address or name). A wildcard matches the first label.
pub(super) fn check(certificate: &[u8], host: &str) -> Result<(), TlsError> {
    let wrong = |text: String| Err(TlsError::Setup(text));
    if host.is_empty() {
        return wrong("host name must be specified for a verified SSL connection".to_owned());
    }
    let Ok(certificate) = Certificate::from_der(certificate) else {
        return wrong("could not read the server's certificate".to_owned());
    };
    let address = host.parse::<IpAddr>().ok();
    let mut seen = Vec::new();
    let mut is_of_kind = false;
    for name in alternative_names(&certificate)? {
        let Tag::ContextSpecific { number, .. } = name.tag() else {
            continue;
        };
        let (shown, matches) = match number {
            DNS_NAME => {
                is_of_kind |= address.is_none();
                let name = text(name)?;
                (name.to_owned(), matches(name, host))
            }
            IP_ADDRESS => {
                is_of_kind |= address.is_some();
                let found = ip(name.value());
                let shown = found.map_or_else(|| "invalid address".to_owned(), |ip| ip.to_string());
                (shown, found.is_some() && found == address)
            }
            _ => continue,
        };
        if matches {
            return Ok(());
        }
        seen.push(shown);
    }
    if !is_of_kind && let Some(name) = certificate.common_name().map_err(|_| unreadable())? {
        let name = text(name)?;
        if matches(name, host) {
            return Ok(());
        }
        seen.push(name.to_owned());
    }
    wrong(mismatch(&seen, host))
}

/// The message for a certificate with these names, none of which is the host's.
fn mismatch(names: &[String], host: &str) -> String {
    match names {
        [] => "could not get server's host name from server certificate".to_owned(),
        [name] => {
            format!("server certificate for \"{name}\" does not match host name \"{host}\"")
        }
        [name, others @ ..] => format!(
            "server certificate for \"{name}\" (and {} other name{}) does not match host name \"{host}\"",
            others.len(),
            if others.len() == 1 { "" } else { "s" }
        ),
    }
}

fn alternative_names<'a>(certificate: &Certificate<'a>) -> Result<Vec<AnyRef<'a>>, TlsError> {
    let names = certificate.extension(ALTERNATIVE_NAMES).map_err(|_| unreadable())?;
    names.map_or(Ok(Vec::new()), |names| names.members().map_err(|_| unreadable()))
}

fn unreadable() -> TlsError {
    TlsError::Setup("could not read the names of the server's certificate".to_owned())
}

/// Text that has no zero byte: one could end the name for other readers, but not here.
fn text(name: AnyRef<'_>) -> Result<&str, TlsError> {
    if name.tag() == Tag::BmpString {
        return Err(unreadable());
    }
    let text = std::str::from_utf8(name.value()).map_err(|_| unreadable())?;
    if text.contains('\0') {
        return Err(TlsError::Setup("SSL certificate's name contains embedded null".to_owned()));
    }
    Ok(text)
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(four));
    }
    let sixteen = <[u8; 16]>::try_from(bytes).ok()?;
    Some(IpAddr::V6(Ipv6Addr::from(sixteen)))
}

fn matches(name: &str, host: &str) -> bool {
    if name.eq_ignore_ascii_case(host) {
        return true;
    }
    let Some(domain) = name.strip_prefix('*').filter(|rest| rest.starts_with('.')) else {
        return false;
    };
    // a wildcard matches one label of a name, and no part of an address
    host.parse::<IpAddr>().is_err()
        && host.find('.').is_some_and(|dot| dot > 0 && host[dot..].eq_ignore_ascii_case(domain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    fn certificate(common: Option<&str>, alternatives: &[&str]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(common) = common {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        for text in alternatives {
            let name = match text.parse() {
                Ok(ip) => SanType::IpAddress(ip),
                Err(_) => SanType::DnsName((*text).try_into().expect("ASCII")),
            };
            params.subject_alt_names.push(name);
        }
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("signed").der().to_vec()
    }

    fn said(common: Option<&str>, alternatives: &[&str], host: &str) -> Result<(), String> {
        check(&certificate(common, alternatives), host).map_err(|error| error.to_string())
    }

    #[test]
    fn names_match_or_are_shown() {
        for (common, alternatives, host) in [
            (Some("db.example"), &[][..], "db.example"),
            (Some("DB.Example"), &[], "db.eXample"),
            (Some("*.example"), &[], "db.example"),
            (Some("other"), &["db.example"], "db.example"),
            (None, &["a", "*.b.example"], "x.b.example"),
            (None, &["127.0.0.1"], "127.0.0.1"),
            (None, &["::1"], "0:0:0:0:0:0:0:1"),
            (Some("127.0.0.1"), &[], "127.0.0.1"),
            // for an address, when there are only names, the common name counts
            (Some("127.0.0.1"), &["db.example"], "127.0.0.1"),
            (Some("db.example"), &["127.0.0.1"], "db.example"),
        ] {
            assert_eq!(said(common, alternatives, host), Ok(()), "{host}");
        }
        for (common, alternatives, host, shown) in [
            (Some("a"), &[][..], "b", "\"a\""),
            // the common name does not count if there are alternative names
            (Some("b"), &["a"], "b", "\"a\""),
            (None, &["a", "c"], "b", "\"a\" (and 1 other name)"),
            (None, &["a", "c", "127.0.0.1"], "b", "\"a\" (and 2 other names)"),
            (Some("127.0.0.1"), &["127.0.0.2"], "127.0.0.1", "\"127.0.0.2\""),
            (None, &["*.example"], "a.b.example", "\"*.example\""),
            (None, &["*.example"], "example", "\"*.example\""),
            (None, &["*.example"], ".example", "\"*.example\""),
            (Some("*.0.0.1"), &[], "127.0.0.1", "\"*.0.0.1\""),
            (Some("x*.example"), &[], "xy.example", "\"x*.example\""),
        ] {
            let error = format!("server certificate for {shown} does not match host name \"{host}\"");
            assert_eq!(said(common, alternatives, host), Err(error));
        }
        for (common, host, error) in [
            (None, "b", "could not get server's host name from server certificate"),
            (Some("a"), "", "host name must be specified for a verified SSL connection"),
            (Some("b\0.evil"), "b", "SSL certificate's name contains embedded null"),
        ] {
            assert_eq!(said(common, &[], host), Err(error.to_owned()), "{host}");
        }
    }
}
