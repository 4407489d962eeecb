//! Before the load: reads facts about the database, and vacuums.

use std::io::Write;

use pgdyno_connect::{Env, Params, Pooler, Session, SessionError, Sources};
use pgdyno_wire::{ServerError, SqlState};

use crate::called_as::CalledAs;
use crate::messages::{Failure, Messages};
use crate::options::{Connection, ScramKeys, Vacuum};

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

#[derive(Debug)]
pub struct Database {
    /// The server's version as it reports it, such as `18.6`.
    pub server_version: String,
    /// Number of rows of pgbench_branches; only with a built-in script.
    pub scale: Option<i64>,
    /// How pgbench_accounts is partitioned; only with a built-in script.
    pub partitions: Option<Partitions>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partitions {
    /// `range` or `hash`.
    pub method: String,
    pub count: i64,
}

/// Partitions of the first pgbench_accounts in the search path; no row without such a table. pgnull
/// recognises the query by its beginning, which is that of pgbench's.
const PARTITIONS: &str = "select o.n, p.partstrat, \
    (select count(*) from pg_catalog.pg_inherits i where i.inhparent = c.oid) \
    from pg_catalog.pg_class c join pg_catalog.pg_namespace s on s.oid = c.relnamespace \
    cross join lateral (select pg_catalog.array_position(pg_catalog.current_schemas(true), s.nspname)) as o(n) \
    left join pg_catalog.pg_partitioned_table p on p.partrelid = c.oid \
    where c.relname = 'pgbench_accounts' and o.n is not null order by 1 limit 1";

pub fn connect(params: &Params) -> Result<Session, Failure> {
    let mut session =
        Session::connect(params).map_err(|error| Failure::new(error).also("could not create connection for setup"))?;
    session.print_notices();
    Ok(session)
}

/// Connects the first session, which looks for a connection pooler. Sessions of a pooler keep the name that a client
/// gives them, so they get no name that the user did not choose: then `params` have none.
///
/// # Errors
/// As [`connect`]; the connection fails when it asks.
pub fn connect_first(params: &mut Params) -> Result<(Session, Option<Pooler>), Failure> {
    let name = params.take_fallback_name();
    let mut session = connect(params)?;
    let pooler = match session.pooler() {
        Ok(pooler) => pooler,
        // a server that is not quite PostgreSQL may refuse the question
        Err(error) if error.server_error().is_some() => None,
        Err(error) => {
            let message = format!("could not ask whether it is a connection pooler: {error}");
            return Err(Failure::new(message));
        }
    };
    if let (None, Some(name)) = (&pooler, name) {
        // without its name it works just as well
        let _ = session.execute(&format!("set application_name = '{}'", name.replace('\'', "''")));
        params.application_name = Some(name);
    }
    Ok((session, pooler))
}

/// Reads the facts; `builtin` says that a built-in script is used.
pub fn look(
    session: &mut Session, params: &Params, builtin: bool, scale_given: bool, messages: &Messages,
) -> Result<Database, Failure> {
    let mut database = Database { server_version: session.server_version.clone(), scale: None, partitions: None };
    if builtin {
        let scale = branches(session, params)?;
        if scale_given {
            messages.warning(format!("scale option ignored, using count from pgbench_branches table ({scale})"));
        }
        database.scale = Some(scale);
        database.partitions = partitions(session, params)?;
    }
    Ok(database)
}

fn branches(session: &mut Session, params: &Params) -> Result<i64, Failure> {
    let sql = "select count(*) from pgbench_branches";
    let text = session.query_one_value(sql).map_err(|error| {
        let why = describe(&error, sql);
        let failure = Failure::new(format!("could not count number of branches: {why}"));
        if error.server_error().map(ServerError::sqlstate) == Some(SqlState::UNDEFINED_TABLE) {
            return failure.hint(initialization_advice(params));
        }
        failure
    })?;
    let text = text.unwrap_or_default();
    text.parse().map_err(|_| Failure::new(format!("invalid count(*) from pgbench_branches: \"{text}\"")))
}

fn initialization_advice(params: &Params) -> String {
    let dbname = &params.dbname;
    format!("Perhaps you need to do initialization (\"pgbench -i\") in database \"{dbname}\".")
}

/// The error with the statement's line and a caret, as libpq shows it.
fn describe(error: &SessionError, sql: &str) -> String {
    match error.server_error() {
        Some(error) => error.display_with_query(sql),
        None => error.to_string(),
    }
}

fn partitions(session: &mut Session, params: &Params) -> Result<Option<Partitions>, Failure> {
    // servers before 10 do not have this catalog
    if session.server_version_num < 100_000 {
        return Ok(None);
    }
    let results = match session.simple_query(PARTITIONS) {
        Ok(results) => results,
        // only the summary needs them, so pgbench continues without
        Err(error) if error.server_error().is_some() => return Ok(None),
        Err(error) => {
            return Err(Failure::new(format!("could not read the partitions of pgbench_accounts: {error}")));
        }
    };
    let Some(row) = results.first().and_then(|result| result.rows.first()) else {
        let message = "no pgbench_accounts table found in \"search_path\"";
        return Err(Failure::new(message).hint(initialization_advice(params)));
    };
    let value = |at: usize| row.get(at).and_then(Option::as_deref).unwrap_or_default();
    let method = match value(1) {
        "" => return Ok(None),
        "h" => "hash",
        _ => "range",
    };
    Ok(Some(Partitions { method: method.to_owned(), count: value(2).parse().unwrap_or(0) }))
}

/// Vacuums as requested. A missing table is reported and skipped, as in pgbench.
pub fn vacuum(session: &mut Session, vacuum: Vacuum, messages: &Messages) {
    if vacuum == Vacuum::Nothing {
        return;
    }
    stage("starting vacuum...", messages, || {
        ["vacuum pgbench_branches", "vacuum pgbench_tellers", "truncate pgbench_history"]
            .iter()
            .filter_map(|sql| error_of(session, sql))
            .collect()
    });
    if vacuum == Vacuum::All {
        stage("starting vacuum pgbench_accounts...", messages, || {
            error_of(session, "vacuum analyze pgbench_accounts").into_iter().collect()
        });
    }
}

/// Executes a statement and prints its notices; returns its error, if it fails.
fn error_of(session: &mut Session, sql: &str) -> Option<String> {
    let failed = session.execute(sql).err();
    session.print_notices();
    failed.map(|error| describe(&error, sql))
}

fn stage(title: &str, messages: &Messages, work: impl FnOnce() -> Vec<String>) {
    // standard error may be closed; the work continues nevertheless
    let say = |text: &str| drop(write!(std::io::stderr(), "{text}"));
    say(title);
    for error in work() {
        messages.error(error);
        messages.detail("(ignoring this error and continuing anyway)");
    }
    say("end.\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_database_is_pgbenchs() {
        let database = |env: &Env| default_database(env).expect("a name");
        assert_eq!(database(&Env::empty("os")), "os");
        let env = Env::empty("os").with("PGDATABASE", "").with("PGUSER", "role");
        assert_eq!(database(&env), "role");
        assert_eq!(database(&env.with("PGDATABASE", "d")), "d");
    }
}
