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
    let failed = |why: String| {
        let path = path.display();
        TlsError::Setup(format!("could not read {what} \"{path}\": {why}"))
    };
    let text = std::fs::read(path).map_err(|error| failed(system_message(&error)))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => Err(failed("no certificate in it".into())),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(failed(error.to_string())),
    }
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
    let failed = |why: String| {
        let path = path.display();
        TlsError::Setup(format!("could not read certificate revocation list file \"{path}\": {why}"))
    };
    let text = std::fs::read(path).map_err(|error| failed(system_message(&error)))?;
    let before = lists.len();
    for list in CertificateRevocationListDer::pem_slice_iter(&text) {
        let list = list.map_err(|error| failed(error.to_string()))?;
        let list = OwnedCertRevocationList::from_der(&list);
        let list = list.map_err(|error| failed(error.to_string()))?;
        lists.push(CertRevocationList::from(list));
    }
    if lists.len() == before {
        return Err(failed("no list in it".to_owned()));
    }
    Ok(())
}
