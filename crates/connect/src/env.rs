//! The environment in which parameters are resolved: variables, the user, the home directory.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};

use crate::param_error::ParamError;

/// Default directories of server sockets: Debian's, then upstream's.
const SOCKET_DIRS: [&str; 2] = ["/var/run/postgresql", "/tmp"];
/// Directories of system-wide configuration if PGSYSCONFDIR is not set.
const SYSTEM_CONFIG_DIRS: [&str; 2] = ["/etc/postgresql-common", "/etc"];

/// Environment variables and what the system knows about the user, as a value.
#[derive(Clone)]
pub struct Env {
    vars: HashMap<String, OsString>,
    /// None means the system's user database, by effective user ID.
    user: Option<String>,
    socket_dirs: Vec<PathBuf>,
}

impl Env {
    pub fn from_process() -> Self {
        // no variable that has a meaning here has a name that is not UTF-8
        let vars = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
        Env { vars, user: None, socket_dirs: SOCKET_DIRS.iter().map(PathBuf::from).collect() }
    }

    /// An environment with this user and no variables.
    pub fn empty(user: impl Into<String>) -> Self {
        Env {
            vars: HashMap::new(),
            user: Some(user.into()),
            socket_dirs: SOCKET_DIRS.iter().map(PathBuf::from).collect(),
        }
    }

    /// Returns the environment with a variable set.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<OsString>) -> Self {
        self.vars.insert(name.into(), value.into());
        self
    }

    /// Returns the environment with other socket directories, the most likely first.
    pub fn with_socket_dirs(mut self, dirs: impl IntoIterator<Item = PathBuf>) -> Self {
        self.socket_dirs = dirs.into_iter().collect();
        self
    }

    /// The value of a variable.
    ///
    /// # Errors
    /// It is not UTF-8: to leave it out would mean another role or server.
    pub fn var(&self, name: &str) -> Result<Option<&str>, ParamError> {
        let Some(value) = self.path(name) else {
            return Ok(None);
        };
        let not_utf8 = || ParamError::NotUtf8(name.to_owned());
        value.to_str().ok_or_else(not_utf8).map(Some)
    }

    fn path(&self, name: &str) -> Option<&OsStr> {
        self.vars.get(name).map(OsString::as_os_str)
    }

    /// Directories in which sockets may be when no host is given.
    pub fn socket_dirs(&self) -> &[PathBuf] {
        &self.socket_dirs
    }

    /// The name of the operating system's user.
    ///
    /// # Errors
    /// The user database has no such user, or cannot be read.
    pub fn user_name(&self) -> Result<String, ParamError> {
        self.user.clone().map_or_else(|| name_of(Uid::effective().as_raw()), Ok)
    }

    /// The user's home directory: HOME, otherwise that of the user database.
    pub fn home(&self) -> Option<PathBuf> {
        if let Some(home) = self.path("HOME").filter(|home| !home.is_empty()) {
            return Some(PathBuf::from(home));
        }
        match self.user {
            Some(_) => None,
            None => Some(User::from_uid(Uid::effective()).ok()??.dir),
        }
    }

    /// The system-wide service files that may exist, in the order in which they are tried.
    pub fn system_service_files(&self) -> Vec<PathBuf> {
        match self.path("PGSYSCONFDIR") {
            Some(dir) => vec![Path::new(dir).join("pg_service.conf")],
            None => SYSTEM_CONFIG_DIRS.iter().map(|dir| Path::new(dir).join("pg_service.conf")).collect(),
        }
    }
}

impl std::fmt::Debug for Env {
    /// Prints only the names of variables, because values may be passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut names: Vec<_> = self.vars.keys().collect();
        names.sort();
        f.debug_struct("Env").field("names", &names).finish()
    }
}

/// The name of the user with this ID.
pub(crate) fn name_of(uid: u32) -> Result<String, ParamError> {
    match User::from_uid(Uid::from_raw(uid)) {
        Ok(Some(user)) => Ok(user.name),
        Ok(None) => Err(ParamError::Other(format!("local user with ID {uid} does not exist"))),
        Err(errno) => Err(ParamError::Other(format!("could not look up local user ID {uid}: {}", errno.desc()))),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn given_values_win_over_the_systems() {
        let env = Env::empty("alice").with("HOME", "/home/alice");
        assert_eq!(env.user_name().as_deref(), Ok("alice"));
        assert_eq!(env.home(), Some(PathBuf::from("/home/alice")));
        assert_eq!(Env::empty("alice").home(), None);
        // the system knows root
        assert_eq!(name_of(0).as_deref(), Ok("root"));
        let unknown = name_of(4_000_000_000).map_err(|e| e.to_string());
        assert_eq!(unknown, Err("local user with ID 4000000000 does not exist".to_owned()));
        // system service files follow pgsysconfdir
        let env = Env::empty("alice").with("PGSYSCONFDIR", "/x");
        assert_eq!(env.system_service_files(), [PathBuf::from("/x/pg_service.conf")]);
        assert_eq!(Env::empty("alice").system_service_files().len(), 2);
    }

    #[test]
    fn a_variable_that_is_not_utf8_is_an_error_without_its_value() {
        let latin1 = OsString::from_vec(b"caf\xe9".to_vec());
        let env = Env::empty("alice").with("PGPASSWORD", latin1.clone()).with("HOME", latin1.clone());
        let error = env.var("PGPASSWORD").expect_err("it is not UTF-8");
        assert_eq!(error.to_string(), "environment variable \"PGPASSWORD\" is not UTF-8");
        assert_eq!(env.home(), Some(PathBuf::from(latin1)));
        assert_eq!(env.var("PGUSER"), Ok(None));
        // values of variables are not shown
        let env = Env::empty("alice").with("PGPASSWORD", "hunter2");
        let shown = format!("{env:?}");
        assert!(shown.contains("PGPASSWORD") && !shown.contains("hunter2"));
    }
}
