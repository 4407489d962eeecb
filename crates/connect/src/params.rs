//! All parameters of a connection, resolved once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use pgdyno_wire::binding::{Binding, Channel};
use pgdyno_wire::require_auth::RequireAuth;
use pgdyno_wire::scram::KeyCache;
use pgdyno_wire::{Startup, StartupParams};
use zeroize::Zeroizing;

use crate::conninfo;
use crate::env::Env;
use crate::hosts::{self, Host};
use crate::keyword::{self, Settings};
use crate::param_error::ParamError;
use crate::patience::Interrupt;
use crate::pgpass::{Key, PasswordFile};
use crate::pooler::Poolers;
use crate::secret::Secret;
use crate::service;
use crate::tls::{TlsConfig, TlsConfigCell, TlsError, TlsSettings};
use crate::word_options::{LoadBalance, SslMode, TargetSessionAttrs};

/// Settings that libpq takes from environment variables and sends when a session starts.
const SESSION_VARIABLES: [(&str, &str); 3] = [("PGDATESTYLE", "datestyle"), ("PGTZ", "timezone"), ("PGGEQO", "geqo")];

/// The sources of parameters other than the environment.
///
/// Later fields win over earlier ones. An empty value of `options` or `overrides` counts as not given, as in libpq.
#[derive(Clone, Copy, Default)]
pub struct Sources<'a> {
    /// Options of a command line that rank below a connection string, as in psql and pgbench.
    pub options: &'a [(&'a str, String)],
    /// The name of a database, or a connection string.
    pub target: Option<&'a str>,
    /// Options that rank above everything else.
    pub overrides: &'a [(&'a str, String)],
}

/// TCP keepalives, which detect that the other side is gone. None is the system's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalives {
    pub enabled: bool,
    /// Idle time before the first probe.
    pub idle: Option<Duration>,
    /// Time between probes.
    pub interval: Option<Duration>,
    /// Probes before giving up.
    pub count: Option<u32>,
    /// How long sent data may stay without an answer.
    pub user_timeout: Option<Duration>,
}

/// What a full queue of connections at a unix socket means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FullQueue {
    /// The client waits until there is room.
    #[default]
    Awaited,
    /// The connection fails with `EAGAIN`, as with libpq.
    Refuses,
}

/// The parameters of a connection, complete and checked. [`Params::resolve`] makes them.
///
/// Clones share the keys that SCRAM derives from the password, so that only the first of many
/// connections pays for it ([`Params::without_scram_cache`] prevents that).
#[derive(Clone, Debug)]
pub struct Params {
    pub hosts: Vec<Host>,
    pub user: String,
    pub dbname: String,
    /// The password that was given for all hosts; those from a password file are stored with the hosts.
    pub password: Option<Secret>,
    /// The value of `application_name`, otherwise of `fallback_application_name`.
    pub application_name: Option<String>,
    /// Whether that is the fallback, which the user did not choose.
    has_fallback_name: bool,
    /// Options for the server's command line.
    pub options: Option<String>,
    pub client_encoding: Option<String>,
    /// Replication mode, for a walsender.
    pub replication: Option<String>,
    /// Other settings to start the session with: names and values.
    pub session_settings: Vec<(String, String)>,
    /// How long an attempt at one address may take; None for no limit.
    pub connect_timeout: Option<Duration>,
    pub sslmode: SslMode,
    /// The other settings of TLS. The files that they name are read when the first connection needs
    /// them, once for all clones.
    pub tls: TlsSettings,
    pub target_session_attrs: TargetSessionAttrs,
    pub poolers: Poolers,
    pub full_queue: FullQueue,
    pub load_balance_hosts: LoadBalance,
    /// The number of connections so far that were spread over the hosts, of all clones together.
    pub(crate) spread: Arc<AtomicUsize>,
    pub keepalives: Keepalives,
    /// The user as which the server must run, for a unix socket.
    pub require_peer: Option<String>,
    /// The allowed authentication methods; all when `None`.
    pub require_auth: Option<RequireAuth>,
    /// Warnings for the user, for example about a password file that others can read.
    pub warnings: Vec<String>,
    /// Ends connecting, and every wait of the session, early.
    pub interrupt: Interrupt,
    scram_keys: Option<KeyCache>,
    tls_config: TlsConfigCell,
}

impl Default for Params {
    /// libpq's built-in defaults, for the user postgres.
    fn default() -> Self {
        Self::resolve(None, &[], &Env::empty("postgres")).expect("the defaults are complete")
    }
}

impl Params {
    /// Resolves parameters: `overrides`, then the connection string, then the service file, then
    /// variables, then built-in defaults.
    ///
    /// # Errors
    /// A parameter is unknown, malformed or not supported.
    pub fn resolve(target: Option<&str>, overrides: &[(&str, String)], env: &Env) -> Result<Params, ParamError> {
        let sources = Sources { target, overrides, ..Sources::default() };
        Params::resolve_from(sources, env)
    }

    /// Resolves parameters from options that rank below and above the connection string.
    pub fn resolve_from(sources: Sources<'_>, env: &Env) -> Result<Params, ParamError> {
        let settings = gather(sources, env)?;
        refuse_unsupported(&settings)?;
        let given = |name| settings.get(name).filter(|text| !text.is_empty());
        let owned = |name| given(name).map(str::to_owned);
        let user = match given("user") {
            Some(user) => user.to_owned(),
            None => env.user_name()?,
        };
        let (sslmode, tls) = TlsSettings::resolve(&settings, env)?;
        let mut params = Params {
            hosts: hosts::resolve(&settings, env)?,
            dbname: owned("dbname").unwrap_or_else(|| user.clone()),
            user,
            password: given("password").map(Secret::new),
            application_name: application_name(&settings),
            has_fallback_name: settings.get("application_name").is_none(),
            options: owned("options"),
            client_encoding: given("client_encoding").map(|name| encoding(name, env)).transpose()?,
            replication: owned("replication"),
            session_settings: session_settings(env)?,
            connect_timeout: seconds(&settings, "connect_timeout")?,
            sslmode,
            tls,
            target_session_attrs: word(
                &settings,
                "target_session_attrs",
                TargetSessionAttrs::Any,
                TargetSessionAttrs::parse,
            )?,
            poolers: Poolers::Accepted,
            full_queue: FullQueue::default(),
            load_balance_hosts: word(&settings, "load_balance_hosts", LoadBalance::Disable, LoadBalance::parse)?,
            // processes that connect once each are spread, too
            spread: Arc::new(AtomicUsize::new(getrandom::u64().unwrap_or_default() as usize)),
            keepalives: keepalives(&settings)?,
            require_peer: owned("requirepeer"),
            warnings: Vec::new(),
            interrupt: Interrupt::default(),
            require_auth: RequireAuth::parse(given("require_auth").unwrap_or_default()).map_err(ParamError::Other)?,
            scram_keys: Some(KeyCache::default()),
            tls_config: TlsConfigCell::default(),
        };
        if params.password.is_none() {
            params.read_password_file(given("passfile"), env)?;
        }
        Ok(params)
    }

    /// Returns the same parameters, except that SCRAM derives its keys for every connection, as libpq does.
    pub fn without_scram_cache(mut self) -> Params {
        self.scram_keys = None;
        self
    }

    /// Takes the application name away if it is the fallback, and returns it.
    pub fn take_fallback_name(&mut self) -> Option<String> {
        self.application_name.take_if(|_| self.has_fallback_name)
    }

    /// Returns the same parameters without what a connection pooler would keep for its next client.
    pub(crate) fn without_traces(&self) -> Params {
        Params {
            application_name: None,
            options: None,
            client_encoding: None,
            session_settings: Vec::new(),
            ..self.clone()
        }
    }

    pub(crate) fn tls_config(&self) -> Result<&TlsConfig, TlsError> {
        self.tls_config.get(&self.tls, self.sslmode)
    }

    /// The start of a session on one of the hosts, for a caller that uses plain sockets of its own.
    pub fn startup(&self, host: &Host) -> Startup {
        self.startup_over(host, Channel::Plain)
    }

    /// The start of a session on one of the hosts, over this channel.
    pub(crate) fn startup_over(&self, host: &Host, channel: Channel) -> Startup {
        let mut settings: Vec<(String, String)> = Vec::new();
        for (name, value) in [
            ("replication", &self.replication),
            ("options", &self.options),
            ("application_name", &self.application_name),
            ("client_encoding", &self.client_encoding),
        ] {
            let value = value.as_ref().map(|text| (name.to_owned(), text.clone()));
            settings.extend(value);
        }
        settings.extend_from_slice(&self.session_settings);
        let password = self.password.as_ref().or(host.password.as_ref());
        Startup::new(StartupParams {
            user: self.user.clone(),
            database: Some(self.dbname.clone()),
            settings,
            password: password.map(|text| Zeroizing::new(text.reveal().as_bytes().to_vec())),
            binding: Binding { channel, wanted: self.tls.binding },
            require_auth: self.require_auth.clone(),
            scram_keys: self.scram_keys.clone(),
        })
    }

    /// The connection as a connection string without the password, for messages.
    pub fn display(&self) -> String {
        let hosts: Vec<_> = self.hosts.iter().map(Host::display).collect();
        let ports: Vec<_> = self.hosts.iter().map(|host| host.port.to_string()).collect();
        [
            ("host", hosts.join(",")),
            ("port", ports.join(",")),
            ("dbname", self.dbname.clone()),
            ("user", self.user.clone()),
        ]
        .map(|(name, value)| format!("{name}={}", conninfo::quote(&value)))
        .join(" ")
    }

    fn read_password_file(&mut self, given: Option<&str>, env: &Env) -> Result<(), ParamError> {
        let default = || env.home().map(|home| home.join(".pgpass"));
        let Some(path) = given.map(PathBuf::from).or_else(default) else {
            return Ok(());
        };
        let (file, warning) = PasswordFile::read(&path);
        self.warnings.extend(warning);
        for host in &mut self.hosts {
            for name in host.password_hosts(env) {
                let key = Key { host: &name, port: host.port, dbname: &self.dbname, user: &self.user };
                host.password = file.find(key).map_err(|_| not_utf8(&name, &path))?;
                if host.password.is_some() {
                    break;
                }
            }
            host.password_file = host.password.as_ref().map(|_| path.clone());
        }
        Ok(())
    }
}

/// An empty name counts: libpq then sends none, and does not fall back.
fn application_name(settings: &Settings) -> Option<String> {
    let name = settings.get("application_name").or_else(|| settings.get("fallback_application_name"))?;
    (!name.is_empty()).then(|| name.to_owned())
}

fn not_utf8(host: &str, path: &Path) -> ParamError {
    let path = path.display();
    ParamError::Other(format!("the password for host \"{host}\" in file \"{path}\" is not UTF-8"))
}

fn gather(sources: Sources<'_>, env: &Env) -> Result<Settings, ParamError> {
    let mut settings = Settings::default();
    set_all(&mut settings, sources.options)?;
    match sources.target {
        Some(text) if conninfo::is_conninfo(text) => settings.extend(conninfo::parse(text)?),
        Some(name) if !name.is_empty() => settings.set("dbname", name)?,
        _ => {}
    }
    set_all(&mut settings, sources.overrides)?;
    service::apply(&mut settings, env)?;
    for (name, variable) in keyword::with_variable() {
        if settings.get(name).is_none()
            && let Some(value) = env.var(variable)?
        {
            settings.set_default(name, value);
        }
    }
    // the predecessor of PGSSLMODE
    let required = env.var("PGREQUIRESSL")?;
    if required.is_some_and(|value| value.starts_with('1')) {
        settings.set_default("sslmode", "require");
    }
    Ok(settings)
}

fn set_all(settings: &mut Settings, pairs: &[(&str, String)]) -> Result<(), ParamError> {
    for (name, value) in pairs {
        if value.is_empty() {
            keyword::find(name).ok_or_else(|| ParamError::UnknownOption((*name).to_owned()))?;
        } else {
            settings.set(name, value.as_str())?;
        }
    }
    Ok(())
}

fn refuse_unsupported(settings: &Settings) -> Result<(), ParamError> {
    let refuse = |message: String| Err(ParamError::Other(message));
    match settings.get("gssencmode") {
        None | Some("disable" | "prefer") => {}
        Some("require") => {
            return refuse("gssencmode value \"require\" invalid when GSSAPI support is not compiled in".to_owned());
        }
        Some(other) => return Err(ParamError::InvalidValue { option: "gssencmode", value: other.to_owned() }),
    }
    for (name, harmless) in [
        ("min_protocol_version", &["", "3.0"][..]),
        ("scram_client_key", &[""]),
        ("scram_server_key", &[""]),
        ("oauth_issuer", &[""]),
    ] {
        let value = settings.get(name).unwrap_or("");
        if !harmless.contains(&value) {
            return refuse(format!("connection option \"{name}\" is not supported"));
        }
    }
    Ok(())
}

fn word<T>(
    settings: &Settings, name: &str, default: T, parse: impl FnOnce(&str) -> Result<T, ParamError>,
) -> Result<T, ParamError> {
    settings.get(name).map_or(Ok(default), parse)
}

fn integer(settings: &Settings, name: &'static str) -> Result<Option<i32>, ParamError> {
    let read = |text: &str| {
        let number = text.trim().parse();
        number.map_err(|_| ParamError::InvalidInteger { option: name, value: text.to_owned() })
    };
    settings.get(name).map(read).transpose()
}

fn positive(settings: &Settings, name: &'static str) -> Result<Option<u32>, ParamError> {
    let number = integer(settings, name)?.and_then(|number| u32::try_from(number).ok());
    Ok(number.filter(|&number| number > 0))
}

fn keepalives(settings: &Settings) -> Result<Keepalives, ParamError> {
    let user_timeout = positive(settings, "tcp_user_timeout")?;
    Ok(Keepalives {
        enabled: integer(settings, "keepalives")?.is_none_or(|on| on != 0),
        idle: seconds(settings, "keepalives_idle")?,
        interval: seconds(settings, "keepalives_interval")?,
        count: positive(settings, "keepalives_count")?,
        user_timeout: user_timeout.map(|ms| Duration::from_millis(ms.into())),
    })
}

fn seconds(settings: &Settings, name: &'static str) -> Result<Option<Duration>, ParamError> {
    let number = positive(settings, name)?;
    Ok(number.map(|seconds| Duration::from_secs(seconds.into())))
}

fn encoding(name: &str, env: &Env) -> Result<String, ParamError> {
    if name != "auto" {
        return Ok(name.to_owned());
    }
    let mut locale = "C";
    // the last one that is set counts
    for variable in ["LANG", "LC_CTYPE", "LC_ALL"] {
        let given = env.var(variable)?;
        locale = given.filter(|text| !text.is_empty()).unwrap_or(locale);
    }
    let locale = locale.to_ascii_lowercase();
    let utf8 = locale.ends_with("utf-8") || locale.ends_with("utf8");
    Ok(if utf8 { "UTF8" } else { "SQL_ASCII" }.to_owned())
}

fn session_settings(env: &Env) -> Result<Vec<(String, String)>, ParamError> {
    let mut settings = Vec::new();
    for (variable, name) in SESSION_VARIABLES {
        let given = env.var(variable)?;
        let wanted = given.filter(|value| !value.eq_ignore_ascii_case("default"));
        settings.extend(wanted.map(|value| (name.to_owned(), value.to_owned())));
    }
    Ok(settings)
}
