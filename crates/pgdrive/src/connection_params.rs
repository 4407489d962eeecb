//! Resolves connection parameters from the command line, the environment and libpq's files.

use pgdyno_connect::{Env, Params, Sources};

use crate::called_as::CalledAs;
use crate::messages::{Failure, Messages};
use crate::options::{Connection, ScramKeys};

/// The complete parameters; prints libpq's warnings.
pub fn resolve_params(connection: &Connection, messages: &Messages) -> Result<Params, Failure> {
    let Connection { dbname, overrides, scram_keys } = connection;
    let env = Env::from_process();
    let default = match messages.called_as() {
        CalledAs::Pgbench => Some(default_database(&env)?),
        CalledAs::Pgdrive => None,
    };
    let mut options: Vec<(&str, String)> = overrides.to_vec();
    options.push(("fallback_application_name", messages.program().to_owned()));
    // a connection string takes precedence over -h, -p and -U, as in pgbench
    let sources = Sources {
        options: &options,
        target: dbname.as_ref().or(default.as_ref()).map(String::as_str),
        ..Sources::default()
    };
    let params = Params::resolve_from(sources, &env).map_err(Failure::new)?;
    params.warnings.iter().for_each(|warning| messages.warning(warning));
    Ok(match scram_keys {
        ScramKeys::Kept => params,
        ScramKeys::Derived => params.without_scram_cache(),
    })
}

/// The database, or connection string, that pgbench uses if the command line names none. libpq
/// itself would prefer that of a service, and the name that `-U` gives.
fn default_database(env: &Env) -> Result<String, Failure> {
    for variable in ["PGDATABASE", "PGUSER"] {
        let given = env.var(variable).map_err(Failure::new)?;
        if let Some(name) = given.filter(|name| !name.is_empty()) {
            return Ok(name.to_owned());
        }
    }
    env.user_name().map_err(Failure::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_database_is_pgbenchs() {
        let database = |env: &Env| default_database(env).expect("a name");
        let env = Env::empty("os");
        assert_eq!(database(&env), "os");
        let env = env.with("PGDATABASE", "").with("PGUSER", "role");
        assert_eq!(database(&env), "role");
        assert_eq!(database(&env.with("PGDATABASE", "d")), "d");
    }
}
