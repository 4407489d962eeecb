//! Options of every mode: the connection, debugging output, help and version.

use super::option_row::Row;
use super::option_values::{Connection, Information, ScramKeys, choose};

#[derive(Default)]
pub(super) struct CommonOptions {
    pub connection: Connection,
    pub debug: bool,
    pub information: Option<Information>,
}

const fn row(long: &'static str, help: &'static str) -> Row<CommonOptions> {
    Row::new(long, help)
}

pub(super) const ROWS: &[Row<CommonOptions>] = &[
    row("dbname", "database name or connection string")
        .short('d')
        .takes("DBNAME")
        .text(|given| &mut given.connection.dbname),
    row("host", "database server host or socket directory").short('h').takes("HOSTNAME").set(|given, value| {
        given.connection.overrides.push(("host", value.text.to_owned()));
        Ok(())
    }),
    row("port", "database server port number").short('p').takes("PORT").set(|given, value| {
        given.connection.overrides.push(("port", value.text.to_owned()));
        Ok(())
    }),
    row("username", "connect as specified database user").short('U').takes("USERNAME").set(|given, value| {
        given.connection.overrides.push(("user", value.text.to_owned()));
        Ok(())
    }),
    row("scram-cache", "keep the keys that SCRAM derives from the password for further connections (default: on)")
        .takes("on|off")
        .set(|given, value| {
            let choices = [("on", ScramKeys::Kept), ("off", ScramKeys::Derived)];
            choose(value.text, "invalid value of --scram-cache", &choices).map(|it| given.connection.scram_keys = it)
        })
        .not_in_pgbench(),
    row("debug", "print debugging output").flag(|given| &mut given.debug),
    row("version", "output version information, then exit")
        .short('V')
        .call(|given| given.information = Some(Information::Version)),
    row("help", "show this help, then exit").short('?').call(|given| given.information = Some(Information::Help)),
];
