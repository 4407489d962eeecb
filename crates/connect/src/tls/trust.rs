//! Which certificates of servers are trusted: those of the authorities that sslrootcert names.
//! Without them, and unless sslmode asks for it, nothing is verified, as in libpq.

use super::certificate_files;
use super::tls_error::TlsError;
use super::tls_settings::{FilePlace, RootSource, TlsSettings};
use super::verifier::Trust;
use crate::word_options::SslMode;

/// The certificates of authorities, if there are any.
pub(super) fn trust(settings: &TlsSettings, mode: SslMode) -> Result<Option<Trust>, TlsError> {
    let certificates = match &settings.root {
        RootSource::System => certificate_files::system_roots()?,
        RootSource::File(place) => match place.path().filter(|path| path.exists()) {
            Some(path) => certificate_files::certificates(path, "root certificate file")?,
            None => return missing_roots(place, mode).map(|()| None),
        },
    };
    Ok(Some(Trust::new(certificates, certificate_files::revocations(settings)?)))
}

/// The error for missing root certificates, without which nothing can be verified.
fn missing_roots(place: &FilePlace, mode: SslMode) -> Result<(), TlsError> {
    if !matches!(mode, SslMode::VerifyCa | SslMode::VerifyFull) {
        return Ok(());
    }
    let hint = "Either provide the file, use the system's trusted roots with sslrootcert=system, or change sslmode to disable server certificate verification.";
    Err(TlsError::Setup(match place.path() {
        Some(path) => {
            let path = path.display();
            format!("root certificate file \"{path}\" does not exist\n{hint}")
        }
        None => {
            format!("could not get home directory to locate root certificate file\n{hint}")
        }
    }))
}
