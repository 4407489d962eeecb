//! What the connection parameters say about TLS.

use std::path::{Path, PathBuf};

use pgdyno_wire::binding::BindingPolicy;

use crate::env::Env;
use crate::keyword::Settings;
use crate::param_error::ParamError;
use crate::word_options::{SslCertMode, SslMode, SslNegotiation};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePlace {
    /// The path that a parameter gives.
    Given(PathBuf),
    /// The default path in the user's home directory.
    Default(PathBuf),
    /// Nowhere: no parameter gives a path, and the user has no home directory.
    Nowhere,
}

impl FilePlace {
    pub fn path(&self) -> Option<&Path> {
        match self {
            FilePlace::Given(path) | FilePlace::Default(path) => Some(path),
            FilePlace::Nowhere => None,
        }
    }
}

/// The location of the certificates of trusted authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootSource {
    System,
    File(FilePlace),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    V1_2,
    V1_3,
}

/// What the connection parameters say about TLS, complete and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    pub negotiation: SslNegotiation,
    pub root: RootSource,
    pub certificate_mode: SslCertMode,
    pub certificate: FilePlace,
    pub key: FilePlace,
    pub crl: FilePlace,
    pub crl_folder: Option<PathBuf>,
    /// Whether the handshake contains the name of the host.
    pub sni: bool,
    pub oldest: TlsVersion,
    pub newest: TlsVersion,
    pub binding: BindingPolicy,
}

impl TlsSettings {
    /// Reads the settings, together with `sslmode`, which depends on other parameters.
    pub(crate) fn resolve(settings: &Settings, env: &Env) -> Result<(SslMode, TlsSettings), ParamError> {
        let given = |name| settings.get(name).filter(|text| !text.is_empty());
        let place = |name, file| place(given(name), file, env);
        let root = match given("sslrootcert") {
            Some("system") => RootSource::System,
            _ => RootSource::File(place("sslrootcert", "root.crt")),
        };
        let crl_folder = given("sslcrldir").map(PathBuf::from);
        let crl = match (given("sslcrl"), &crl_folder) {
            (None, Some(_)) => FilePlace::Nowhere,
            _ => place("sslcrl", "root.crl"),
        };
        let mode = match settings.get("sslmode") {
            Some(text) => SslMode::parse(text)?,
            None if root == RootSource::System => SslMode::VerifyFull,
            None => SslMode::Prefer,
        };
        let negotiation = given("sslnegotiation").map_or(Ok(SslNegotiation::Postgres), SslNegotiation::parse)?;
        let tls = TlsSettings {
            negotiation,
            root,
            certificate_mode: given("sslcertmode").map_or(Ok(SslCertMode::Allow), SslCertMode::parse)?,
            certificate: place("sslcert", "postgresql.crt"),
            key: place("sslkey", "postgresql.key"),
            crl,
            crl_folder,
            sni: given("sslsni") != Some("0"),
            oldest: version(given("ssl_min_protocol_version"), "ssl_min_protocol_version")?.unwrap_or(TlsVersion::V1_2),
            newest: version(given("ssl_max_protocol_version"), "ssl_max_protocol_version")?.unwrap_or(TlsVersion::V1_3),
            binding: match given("channel_binding") {
                Some("disable") => BindingPolicy::Never,
                None | Some("prefer") => BindingPolicy::Preferred,
                Some("require") => BindingPolicy::Required,
                Some(other) => {
                    return Err(ParamError::InvalidValue { option: "channel_binding", value: other.to_owned() });
                }
            },
        };
        tls.check(mode)?;
        Ok((mode, tls))
    }

    fn check(&self, mode: SslMode) -> Result<(), ParamError> {
        let refuse = |message: String| Err(ParamError::Other(message));
        let weak = |what: &str, strong: &str| {
            refuse(format!("weak sslmode \"{mode}\" may not be used with {what} (use {strong})"))
        };
        let is_weak = matches!(mode, SslMode::Disable | SslMode::Allow | SslMode::Prefer);
        if self.negotiation == SslNegotiation::Direct && is_weak {
            return weak("sslnegotiation=direct", "\"require\", \"verify-ca\", or \"verify-full\"");
        }
        if self.root == RootSource::System && mode != SslMode::VerifyFull {
            return weak("sslrootcert=system", "\"verify-full\"");
        }
        if self.oldest > self.newest {
            return refuse("invalid SSL protocol version range".to_owned());
        }
        Ok(())
    }
}

fn place(given: Option<&str>, file: &str, env: &Env) -> FilePlace {
    match (given, env.home()) {
        (Some(path), _) => FilePlace::Given(PathBuf::from(path)),
        (None, Some(home)) => FilePlace::Default(home.join(".postgresql").join(file)),
        (None, None) => FilePlace::Nowhere,
    }
}

fn version(text: Option<&str>, option: &'static str) -> Result<Option<TlsVersion>, ParamError> {
    let Some(text) = text else {
        return Ok(None);
    };
    match text.to_ascii_lowercase().as_str() {
        "tlsv1.2" => Ok(Some(TlsVersion::V1_2)),
        "tlsv1.3" => Ok(Some(TlsVersion::V1_3)),
        "tlsv1" | "tlsv1.1" => Err(ParamError::Other(format!(
            "{option} value \"{text}\" is not supported: TLS is spoken from version 1.2 on (use \"TLSv1.2\" or \"TLSv1.3\")"
        ))),
        _ => Err(ParamError::InvalidValue { option, value: text.to_owned() }),
    }
}
