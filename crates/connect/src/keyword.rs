//! The options that a connection string may have: those of libpq in PostgreSQL 18.

use std::collections::BTreeMap;

use crate::param_error::ParamError;

/// Names of options, with the environment variable of each that has one.
const KEYWORDS: &[(&str, Option<&str>)] = &[
    ("application_name", Some("PGAPPNAME")),
    ("channel_binding", Some("PGCHANNELBINDING")),
    ("client_encoding", Some("PGCLIENTENCODING")),
    ("connect_timeout", Some("PGCONNECT_TIMEOUT")),
    ("dbname", Some("PGDATABASE")),
    ("fallback_application_name", None),
    ("gssdelegation", Some("PGGSSDELEGATION")),
    ("gssencmode", Some("PGGSSENCMODE")),
    ("gsslib", Some("PGGSSLIB")),
    ("host", Some("PGHOST")),
    ("hostaddr", Some("PGHOSTADDR")),
    ("keepalives", None),
    ("keepalives_count", None),
    ("keepalives_idle", None),
    ("keepalives_interval", None),
    ("krbsrvname", Some("PGKRBSRVNAME")),
    ("load_balance_hosts", Some("PGLOADBALANCEHOSTS")),
    ("max_protocol_version", Some("PGMAXPROTOCOLVERSION")),
    ("min_protocol_version", Some("PGMINPROTOCOLVERSION")),
    ("oauth_client_id", None),
    ("oauth_client_secret", None),
    ("oauth_issuer", None),
    ("oauth_scope", None),
    ("options", Some("PGOPTIONS")),
    ("passfile", Some("PGPASSFILE")),
    ("password", Some("PGPASSWORD")),
    ("port", Some("PGPORT")),
    ("replication", None),
    ("require_auth", Some("PGREQUIREAUTH")),
    ("requirepeer", Some("PGREQUIREPEER")),
    ("scram_client_key", None),
    ("scram_server_key", None),
    ("service", Some("PGSERVICE")),
    ("servicefile", Some("PGSERVICEFILE")),
    ("ssl_max_protocol_version", Some("PGSSLMAXPROTOCOLVERSION")),
    ("ssl_min_protocol_version", Some("PGSSLMINPROTOCOLVERSION")),
    ("sslcert", Some("PGSSLCERT")),
    ("sslcertmode", Some("PGSSLCERTMODE")),
    ("sslcompression", Some("PGSSLCOMPRESSION")),
    ("sslcrl", Some("PGSSLCRL")),
    ("sslcrldir", Some("PGSSLCRLDIR")),
    ("sslkey", Some("PGSSLKEY")),
    ("sslkeylogfile", None),
    ("sslmode", Some("PGSSLMODE")),
    ("sslnegotiation", Some("PGSSLNEGOTIATION")),
    ("sslpassword", None),
    ("sslrootcert", Some("PGSSLROOTCERT")),
    ("sslsni", Some("PGSSLSNI")),
    ("target_session_attrs", Some("PGTARGETSESSIONATTRS")),
    ("tcp_user_timeout", None),
    ("user", Some("PGUSER")),
];

/// An option of connection strings only, which libpq translates into another.
const REQUIRESSL: &str = "requiressl";

/// Whether a connection string may have this option.
pub(crate) fn is_known(name: &str) -> bool {
    name == REQUIRESSL || find(name).is_some()
}

pub fn find(name: &str) -> Option<&'static str> {
    let known = KEYWORDS.iter().map(|(known, _)| *known);
    known.into_iter().find(|known| *known == name)
}

/// All options that have an environment variable, with its name.
pub(crate) fn with_variable() -> impl Iterator<Item = (&'static str, &'static str)> {
    KEYWORDS.iter().filter_map(|(name, variable)| Some((*name, (*variable)?)))
}

/// Options and their values, as text. It may contain passwords, so it does not implement Debug.
#[derive(Clone, Default)]
pub struct Settings(BTreeMap<&'static str, String>);

impl Settings {
    /// The value of an option, if it was given; it may be empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Sets an option; replaces an earlier value.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> Result<(), ParamError> {
        let name = find(name).ok_or_else(|| ParamError::UnknownOption(name.to_owned()))?;
        self.0.insert(name, value.into());
        Ok(())
    }

    /// Sets an option of a connection string, which may also be `requiressl`, sslmode's predecessor.
    pub(crate) fn set_or_translate(&mut self, name: &str, value: String) -> Result<(), ParamError> {
        if name != REQUIRESSL {
            return self.set(name, value);
        }
        let sslmode = if value.starts_with('1') { "require" } else { "prefer" };
        self.set("sslmode", sslmode)
    }

    /// Sets a known option, unless it was given before.
    pub(crate) fn set_default(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.entry(name).or_insert_with(|| value.into());
    }

    pub(crate) fn extend(&mut self, others: Settings) {
        self.0.extend(others.0);
    }

    #[cfg(any(test, fuzzing))]
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_sorted_and_single() {
        assert!(KEYWORDS.is_sorted_by(|a, b| a.0 < b.0));
    }
}
