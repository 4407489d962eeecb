//! Reads certificates and revocation lists from files.

use std::path::Path;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use webpki::{CertRevocationList, OwnedCertRevocationList};

use super::tls_error::TlsError;
use super::tls_settings::{FilePlace, RootSource, TlsSettings};
use super::verifier::Trust;
use crate::param_error::system_message;
use crate::word_options::SslMode;

/// The certificates of authorities, if there are any.
///
/// # Errors
/// They are required and missing, or cannot be read.
pub(super) fn trust(settings: &TlsSettings, mode: SslMode) -> Result<Option<Trust>, TlsError> {
    let certificates = match &settings.root {
        RootSource::System => system_roots()?,
        RootSource::File(place) => match place.path().filter(|path| path.exists()) {
            Some(path) => certificates(path, "root certificate file")?,
            None => return missing_roots(place, mode).map(|()| None),
        },
    };
    Ok(Some(Trust::new(certificates, revocations(settings)?)))
}

fn system_roots() -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map_or_else(
            || "none were found".to_owned(),
            std::string::ToString::to_string,
        );
        return setup(format!(
            "could not load system root certificate paths: {why}"
        ));
    }
    Ok(found.certs)
}

/// The error for missing root certificates, without which nothing can be verified.
fn missing_roots(place: &FilePlace, mode: SslMode) -> Result<(), TlsError> {
    if !matches!(mode, SslMode::VerifyCa | SslMode::VerifyFull) {
        return Ok(());
    }
    let hint = "Either provide the file, use the system's trusted roots with sslrootcert=system, or change sslmode to disable server certificate verification.";
    setup(match place.path() {
        Some(path) => {
            let path = path.display();
            format!("root certificate file \"{path}\" does not exist\n{hint}")
        }
        None => {
            format!("could not get home directory to locate root certificate file\n{hint}")
        }
    })
}

/// All certificates of a PEM file; at least one.
pub(super) fn certificates(
    path: &Path,
    what: &str,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
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

/// All revocation lists that the settings name.
fn revocations(settings: &TlsSettings) -> Result<Vec<CertRevocationList<'static>>, TlsError> {
    let mut lists = Vec::new();
    match &settings.crl {
        FilePlace::Given(path) => read_revocations(path, &mut lists)?,
        FilePlace::Default(path) if path.exists() => read_revocations(path, &mut lists)?,
        _ => {}
    }
    if let Some(folder) = &settings.crl_folder {
        let failed = |error: std::io::Error| {
            let (folder, why) = (folder.display(), system_message(&error));
            TlsError::Setup(format!(
                "could not read folder of certificate revocation lists \"{folder}\": {why}"
            ))
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

fn read_revocations(
    path: &Path,
    lists: &mut Vec<CertRevocationList<'static>>,
) -> Result<(), TlsError> {
    let failed = |why: String| {
        let path = path.display();
        TlsError::Setup(format!(
            "could not read certificate revocation list file \"{path}\": {why}"
        ))
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

fn setup<T>(message: String) -> Result<T, TlsError> {
    Err(TlsError::Setup(message))
}
