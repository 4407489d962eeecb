//! The hosts of a connection string: lists of names, addresses and ports, matched up.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use crate::env::Env;
use crate::keyword::Settings;
use crate::param_error::ParamError;
use crate::secret::Secret;

pub const DEFAULT_PORT: u16 = 5432;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A unix socket in one of these directories: the first that contains it, otherwise the first
    /// that exists. There are several only when no host was given.
    Socket(Vec<PathBuf>),
    /// A unix socket in the abstract namespace; the name is the text after the `@`.
    AbstractSocket(String),
    /// TCP, with a name to look up.
    Name(String),
    /// TCP, with an address and optionally a name.
    Address {
        address: String,
        /// The name of the host, if one was given.
        name: Option<String>,
    },
}

#[derive(Clone, Debug)]
pub struct Host {
    pub place: Place,
    /// TCP port, or the number in the socket's name.
    pub port: u16,
    pub password: Option<Secret>,
    pub password_file: Option<PathBuf>,
}

impl Host {
    /// The unix socket to connect to; `None` for TCP. The path of an abstract socket begins with `@`.
    pub fn socket(&self) -> Option<PathBuf> {
        let name = format!(".s.PGSQL.{}", self.port);
        match &self.place {
            Place::Socket(dirs) => {
                let with_socket = dirs.iter().find(|dir| dir.join(&name).exists());
                let dir = with_socket.or_else(|| dirs.iter().find(|dir| dir.is_dir())).or_else(|| dirs.first());
                Some(dir.map_or_else(|| PathBuf::from(&name), |dir| dir.join(&name)))
            }
            Place::AbstractSocket(dir) => Some(PathBuf::from(format!("@{dir}/{name}"))),
            Place::Name(_) | Place::Address { .. } => None,
        }
    }

    /// The host as it is written in connection strings and messages.
    pub fn display(&self) -> String {
        match &self.place {
            Place::Socket(dirs) => dirs.first().map_or_else(String::new, |dir| dir.display().to_string()),
            Place::AbstractSocket(name) => format!("@{name}"),
            Place::Name(name) => name.clone(),
            Place::Address { address, name } => name.clone().unwrap_or_else(|| address.clone()),
        }
    }

    /// The name that a server's certificate must have; empty when no name was given.
    pub(crate) fn tls_name(&self) -> String {
        match &self.place {
            Place::Name(name) => name.clone(),
            Place::Address { name, .. } => name.clone().unwrap_or_default(),
            Place::Socket(_) | Place::AbstractSocket(_) => String::new(),
        }
    }

    /// The names under which a password file may list the host, in the order to try them.
    pub(crate) fn password_hosts(&self, env: &Env) -> Vec<String> {
        let mut names = vec![self.display()];
        if let Place::Socket(dirs) = &self.place
            && dirs.iter().all(|dir| env.socket_dirs().contains(dir))
        {
            // Sockets in a default directory have this name, too.
            names.push("localhost".to_owned());
        }
        names
    }
}

/// Matches up the lists of `host`, `hostaddr` and `port`.
pub(crate) fn resolve(settings: &Settings, env: &Env) -> Result<Vec<Host>, ParamError> {
    let names = list(settings.get("host"));
    let addresses = list(settings.get("hostaddr"));
    let ports = list(settings.get("port"));
    let count = addresses.len().max(names.len()).max(1);
    if !addresses.is_empty() && !names.is_empty() && names.len() != addresses.len() {
        return Err(ParamError::Other(format!(
            "could not match {} host names to {} hostaddr values",
            names.len(),
            addresses.len()
        )));
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(ParamError::Other(format!("could not match {} port numbers to {count} hosts", ports.len())));
    }
    let at = |list: &[&str], index: usize| list.get(index).map_or("", |text| *text).to_owned();
    (0..count)
        .map(|index| {
            let port = at(&ports, if ports.len() == 1 { 0 } else { index });
            Ok(Host {
                place: place(at(&names, index), at(&addresses, index), env)?,
                port: parse_port(&port)?,
                password: None,
                password_file: None,
            })
        })
        .collect()
}

fn list(text: Option<&str>) -> Vec<&str> {
    match text {
        None | Some("") => Vec::new(),
        Some(text) => text.split(',').collect(),
    }
}

fn place(name: String, address: String, env: &Env) -> Result<Place, ParamError> {
    if !address.is_empty() {
        let numbers = address.split('%').next().unwrap_or(&address);
        if numbers.parse::<IpAddr>().is_err() {
            return Err(ParamError::Other(format!(
                "could not parse network address \"{address}\": Name or service not known"
            )));
        }
        let name = (!name.is_empty()).then_some(name);
        return Ok(Place::Address { address, name });
    }
    Ok(if name.is_empty() {
        Place::Socket(env.socket_dirs().to_vec())
    } else if name.starts_with('/') {
        Place::Socket(vec![PathBuf::from(name)])
    } else if let Some(name) = name.strip_prefix('@') {
        Place::AbstractSocket(name.to_owned())
    } else {
        Place::Name(name)
    })
}

fn parse_port(text: &str) -> Result<u16, ParamError> {
    if text.is_empty() {
        return Ok(DEFAULT_PORT);
    }
    match text.trim().parse() {
        Ok(0) => Err(ParamError::InvalidPort(text.to_owned())),
        Ok(port) => Ok(port),
        // Digits with too large a value, or with a sign.
        Err(_) if text.trim().parse::<i64>().is_ok() => Err(ParamError::InvalidPort(text.to_owned())),
        Err(_) => Err(ParamError::InvalidInteger { option: "port", value: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(host: &str, hostaddr: &str, port: &str) -> Result<Vec<String>, String> {
        let mut settings = Settings::default();
        for (name, value) in [("host", host), ("hostaddr", hostaddr), ("port", port)] {
            settings.set(name, value).expect("known");
        }
        let env = Env::empty("alice").with_socket_dirs([PathBuf::from("/none")]);
        let hosts = resolve(&settings, &env).map_err(|error| error.to_string())?;
        let shown = hosts.iter().map(|host| {
            let kind = match host.place {
                Place::Socket(_) | Place::AbstractSocket(_) => "unix",
                Place::Name(_) => "name",
                Place::Address { .. } => "addr",
            };
            format!("{kind} {} {}", host.display(), host.port)
        });
        Ok(shown.collect())
    }

    #[test]
    fn lists_are_matched_up_or_refused_in_libpqs_words() {
        for (host, hostaddr, port, expected) in [
            ("", "", "", &["unix /none 5432"][..]),
            ("a,b", "", "", &["name a 5432", "name b 5432"]),
            ("a,b", "", "1", &["name a 1", "name b 1"]),
            ("a,b", "", "1,", &["name a 1", "name b 5432"]),
            ("a,,/s", "", "1,2,3", &["name a 1", "unix /none 2", "unix /s 3"]),
            ("a,b", "127.0.0.1,", "", &["addr a 5432", "name b 5432"]),
            ("", "::1,127.0.0.1", "", &["addr ::1 5432", "addr 127.0.0.1 5432"]),
            ("", "fe80::1%eth0", "", &["addr fe80::1%eth0 5432"]),
            ("@x", "", "7", &["unix @x 7"]),
        ] {
            let expected: Vec<_> = expected.iter().map(|&text| text.to_owned()).collect();
            assert_eq!(hosts(host, hostaddr, port), Ok(expected), "{host}");
        }
        for (host, hostaddr, port, expected) in [
            ("a,b", "::1", "", "could not match 2 host names to 1 hostaddr values"),
            ("a,b,c", "", "1,2", "could not match 2 port numbers to 3 hosts"),
            ("", "", "1,2", "could not match 2 port numbers to 1 hosts"),
            ("a", "b", "", "could not parse network address \"b\": Name or service not known"),
            ("a", "", "0", "invalid port number: \"0\""),
            ("a", "", "65536", "invalid port number: \"65536\""),
            ("a", "", "-1", "invalid port number: \"-1\""),
            ("a", "", "x", "invalid integer value \"x\" for connection option \"port\""),
        ] {
            assert_eq!(hosts(host, hostaddr, port), Err(expected.to_owned()));
        }
    }

    #[test]
    fn the_socket_that_exists_is_taken() {
        let [empty, full] = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
        std::fs::write(full.path().join(".s.PGSQL.7"), "").expect("writable");
        let dirs = vec![PathBuf::from("/nonexistent"), empty.path().to_owned(), full.path().to_owned()];
        let host = |port| Host { place: Place::Socket(dirs.clone()), port, password: None, password_file: None };
        assert_eq!(host(7).socket(), Some(full.path().join(".s.PGSQL.7")));
        assert_eq!(host(8).socket(), Some(empty.path().join(".s.PGSQL.8")));
    }
}
