//! The TLS configuration that all connections with the same parameters share.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, SignatureScheme, SupportedProtocolVersion};

use super::tls_error::TlsError;
use super::tls_settings::{TlsSettings, TlsVersion};
use super::verifier::Verifier;
use super::{client_key, trust};
use crate::word_options::{SslCertMode, SslMode};

pub(super) const PROTOCOL: &[u8] = b"postgresql";

/// A configuration that is created when it is first needed, and shared by clones.
#[derive(Clone, Default)]
pub(crate) struct TlsConfigCell(Arc<OnceLock<Result<TlsConfig, TlsError>>>);

impl fmt::Debug for TlsConfigCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsConfigCell")
    }
}

impl TlsConfigCell {
    /// The configuration. The first call reads the files.
    ///
    /// # Errors
    /// They cannot be read or used; later calls return the error of the first.
    pub fn get(&self, settings: &TlsSettings, mode: SslMode) -> Result<&TlsConfig, TlsError> {
        let config = self.0.get_or_init(|| TlsConfig::new(settings, mode));
        config.as_ref().map_err(Clone::clone)
    }
}

/// A configuration with its files read and keys loaded.
pub(crate) struct TlsConfig {
    client: Arc<ClientConfig>,
    certificate: Option<Arc<CertifiedKey>>,
    certificate_mode: SslCertMode,
    sni: bool,
    checks_name: bool,
}

impl TlsConfig {
    pub(super) fn new(settings: &TlsSettings, mode: SslMode) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let trust = trust::trust(settings, mode)?;
        let certificate = client_key::load(settings, &provider)?;
        let client = client_config(settings, provider, |algorithms| Arc::new(Verifier::new(trust, algorithms)))?;
        let mut config = TlsConfig {
            client: Arc::new(client),
            certificate,
            certificate_mode: settings.certificate_mode,
            sni: settings.sni,
            checks_name: mode == SslMode::VerifyFull,
        };
        config.client = config.with_witness(&Arc::default());
        Ok(config)
    }

    /// Whether the certificate must have the name of the host.
    pub fn checks_name(&self) -> bool {
        self.checks_name
    }

    /// Begins a session with a host; the witness records whether the server asks for our certificate.
    ///
    /// # Errors
    /// Those of rustls, for example missing randomness.
    pub fn connection(&self, host: &str) -> Result<(ClientConnection, Arc<Witness>), TlsError> {
        let witness = Arc::new(Witness::default());
        // without a need for a witness, the configuration is shared
        let client = match self.certificate_mode {
            SslCertMode::Require => self.with_witness(&witness),
            SslCertMode::Allow | SslCertMode::Disable => Arc::clone(&self.client),
        };
        let name = match ServerName::try_from(host.to_owned()) {
            Ok(name) if self.sni => name,
            // an address is not sent to the server
            _ => ServerName::from(std::net::IpAddr::from([127, 0, 0, 1])),
        };
        Ok((ClientConnection::new(client, name)?, witness))
    }

    /// The same configuration, with a resolver that lets `witness` record requests for our certificate.
    fn with_witness(&self, witness: &Arc<Witness>) -> Arc<ClientConfig> {
        let mut client = ClientConfig::clone(&self.client);
        client.client_auth_cert_resolver =
            Arc::new(Resolver { certificate: self.certificate.clone(), witness: Arc::clone(witness) });
        Arc::new(client)
    }

    /// Refuses a server that had to ask for our certificate and did not.
    ///
    /// # Errors
    /// In libpq's words.
    pub fn check_asked(&self, witness: &Witness) -> Result<(), TlsError> {
        match self.certificate_mode {
            SslCertMode::Require if !witness.asked() => {
                Err(TlsError::ClientCertificate("server did not request an SSL certificate"))
            }
            SslCertMode::Require if self.certificate.is_none() => {
                Err(TlsError::ClientCertificate("server accepted connection without a valid SSL certificate"))
            }
            _ => Ok(()),
        }
    }
}

fn client_config(
    settings: &TlsSettings, provider: Arc<CryptoProvider>,
    verifier: impl FnOnce(rustls::crypto::WebPkiSupportedAlgorithms) -> Arc<Verifier>,
) -> Result<ClientConfig, TlsError> {
    let algorithms = provider.signature_verification_algorithms;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions(settings))?
        .dangerous()
        .with_custom_certificate_verifier(verifier(algorithms))
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.enable_sni = settings.sni;
    // libpq resumes no sessions, and PostgreSQL gives out no tickets
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn versions(settings: &TlsSettings) -> &'static [&'static SupportedProtocolVersion] {
    static ONLY_1_2: [&SupportedProtocolVersion; 1] = [&TLS12];
    static ONLY_1_3: [&SupportedProtocolVersion; 1] = [&TLS13];
    static BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];
    match (settings.oldest, settings.newest) {
        (TlsVersion::V1_2, TlsVersion::V1_2) => &ONLY_1_2,
        (TlsVersion::V1_3, _) => &ONLY_1_3,
        (TlsVersion::V1_2, TlsVersion::V1_3) => &BOTH,
    }
}

/// Records whether the server asks for our certificate.
#[derive(Debug, Default)]
pub(crate) struct Witness(AtomicBool);

impl Witness {
    fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Sends our certificate, whatever authorities the server names, as OpenSSL does.
#[derive(Debug)]
struct Resolver {
    certificate: Option<Arc<CertifiedKey>>,
    witness: Arc<Witness>,
}

impl ResolvesClientCert for Resolver {
    fn resolve(&self, _root_hint_subjects: &[&[u8]], _sigschemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.witness.0.store(true, Ordering::Relaxed);
        self.certificate.clone()
    }

    fn has_certs(&self) -> bool {
        true
    }
}
