//! Resolves connection parameters from the command line, the environment and libpq's files.

use pgdyno_connect::{Env, Params, Sources};

use crate::messages::{Failure, Messages};
use crate::options::{Connection, ScramKeys};

/// The complete parameters; prints libpq's warnings.
///
/// # Errors
/// In libpq's words.
pub fn resolve_params(connection: &Connection, messages: &Messages) -> Result<Params, Failure> {
    let Connection {
        dbname,
        overrides,
        scram_keys,
    } = connection;
    let dbname = dbname.as_deref();
    let mut options: Vec<(&str, String)> = overrides.to_vec();
    options.push(("fallback_application_name", messages.program().to_owned()));
    // a connection string takes precedence over -h, -p and -U, as in pgbench
    let sources = Sources {
        options: &options,
        target: dbname,
        ..Sources::default()
    };
    let params = Params::resolve_from(sources, &Env::from_process()).map_err(Failure::new)?;
    params
        .warnings
        .iter()
        .for_each(|warning| messages.warning(warning));
    Ok(match scram_keys {
        ScramKeys::Kept => params,
        ScramKeys::Derived => params.without_scram_cache(),
    })
}
