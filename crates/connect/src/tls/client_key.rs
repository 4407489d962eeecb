//! Our own certificate and its private key.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use super::certificate::Certificate;
use super::certificate_files;
use super::tls_error::TlsError;
use super::tls_settings::TlsSettings;
use crate::param_error::system_message;
use crate::word_options::SslCertMode;

/// The certificate and the key, if there is a certificate.
pub(super) fn load(settings: &TlsSettings, provider: &CryptoProvider) -> Result<Option<Arc<CertifiedKey>>, TlsError> {
    if settings.certificate_mode == SslCertMode::Disable {
        return Ok(None);
    }
    let Some(path) = settings.certificate.path() else {
        return Ok(None);
    };
    match fs::metadata(path) {
        // the server may not require a certificate
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => {
            let (path, why) = (path.display(), system_message(&error));
            return setup(format!("could not open certificate file \"{path}\": {why}"));
        }
        Ok(_) => {}
    }
    let certificates = certificate_files::certificates(path, "certificate file")?;
    let Some(key_path) = settings.key.path() else {
        return setup("certificate present, but not private key file".to_owned());
    };
    let key = read_key(key_path)?;
    let failed =
        |why: String| TlsError::Setup(format!("could not load private key file \"{}\": {why}", key_path.display()));
    let key = provider.key_provider.load_private_key(key).map_err(|error| failed(error.to_string()))?;
    if let (Some(Ok(ours)), Some(keys)) = (certificates.first().map(|der| Certificate::from_der(der)), key.public_key())
        && ours.public_key != keys.as_ref()
    {
        let (path, key_path) = (path.display(), key_path.display());
        return setup(format!(
            "certificate \"{path}\" does not match private key file \"{key_path}\": key values mismatch"
        ));
    }
    Ok(Some(Arc::new(CertifiedKey::new(certificates, key))))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

pub(super) fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let shown = path.display();
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return setup(format!("certificate present, but not private key file \"{shown}\""));
        }
        Err(error) => {
            let why = system_message(&error);
            return setup(format!("could not stat private key file \"{shown}\": {why}"));
        }
        Ok(found) => check_access(path, &found)?,
    }
    let failed = |why: String| TlsError::Setup(format!("could not load private key file \"{shown}\": {why}"));
    let bytes = fs::read(path).map_err(|error| failed(system_message(&error)))?;
    let bytes = Zeroizing::new(bytes);
    let text = String::from_utf8_lossy(&bytes);
    if text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED") {
        return setup(format!(
            "could not load private key file \"{shown}\": it is encrypted, which is not supported\nA copy without encryption is made by: openssl pkey -in {shown} -out FILE"
        ));
    }
    match PrivateKeyDer::from_pem_slice(&bytes) {
        Ok(key) => Ok(key),
        Err(pem) => match PrivateKeyDer::try_from(bytes.as_slice()) {
            Ok(key) => Ok(key.clone_key()),
            Err(_) => Err(failed(pem.to_string())),
        },
    }
}

/// Checks that nobody but its owner can read a key; a group may read a key that root owns.
fn check_access(path: &Path, found: &Metadata) -> Result<(), TlsError> {
    let path = path.display();
    if !found.is_file() {
        return setup(format!("private key file \"{path}\" is not a regular file"));
    }
    let forbidden = if found.uid() == 0 { 0o037 } else { 0o077 };
    if found.mode() & forbidden != 0 {
        return setup(format!(
            "private key file \"{path}\" has group or world access; file must have permissions u=rw (0600) or less if owned by the current user, or permissions u=rw,g=r (0640) or less if owned by root"
        ));
    }
    Ok(())
}

fn setup<T>(message: String) -> Result<T, TlsError> {
    Err(TlsError::Setup(message))
}
