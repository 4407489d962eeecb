//! Reads certificates and revocation lists from files.

use std::path::Path;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use webpki::{CertRevocationList, OwnedCertRevocationList};

use super::tls_error::TlsError;
use super::tls_settings::{FilePlace, TlsSettings};
use crate::param_error::system_message;

/// The roots that this machine trusts; at least one.
pub(super) fn system_roots() -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map_or_else(|| "none were found".to_owned(), std::string::ToString::to_string);
        return Err(TlsError::Setup(format!("could not load system root certificate paths: {why}")));
    }
    Ok(found.certs)
}

/// All certificates of a PEM file; at least one.
pub(super) fn certificates(path: &Path, what: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    parts(path, what, "certificate")
}

/// The parts of a kind in a PEM file; at least one.
fn parts<T: PemObject>(path: &Path, what: &str, part: &str) -> Result<Vec<T>, TlsError> {
    let failed = |why| TlsError::Setup(format!("could not read {what} \"{}\": {why}", path.display()));
    let text = std::fs::read(path).map_err(|error| failed(system_message(&error)))?;
    let parts = T::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>().map_err(|error| failed(error.to_string()))?;
    if parts.is_empty() { Err(failed(format!("no {part} in it"))) } else { Ok(parts) }
}

pub(super) fn revocations(settings: &TlsSettings) -> Result<Vec<CertRevocationList<'static>>, TlsError> {
    let mut lists = Vec::new();
    match &settings.crl {
        FilePlace::Given(path) => read_revocations(path, &mut lists)?,
        FilePlace::Default(path) if path.exists() => read_revocations(path, &mut lists)?,
        _ => {}
    }
    if let Some(folder) = &settings.crl_folder {
        let failed = |error: std::io::Error| {
            let (folder, why) = (folder.display(), system_message(&error));
            TlsError::Setup(format!("could not read folder of certificate revocation lists \"{folder}\": {why}"))
        };
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_file() {
                read_revocations(&path, &mut lists)?;
            }
        }
    }
    Ok(lists)
}

fn read_revocations(path: &Path, lists: &mut Vec<CertRevocationList<'static>>) -> Result<(), TlsError> {
    let what = "certificate revocation list file";
    for list in parts::<CertificateRevocationListDer>(path, what, "list")? {
        let failed = |why| TlsError::Setup(format!("could not read {what} \"{}\": {why}", path.display()));
        lists.push(OwnedCertRevocationList::from_der(&list).map_err(failed)?.into());
    }
    Ok(())
}
