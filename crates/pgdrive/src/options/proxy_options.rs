//! `--proxy`: relays sessions between clients and the server, and records them.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use super::benchmark_options::Benchmark;
use super::option_row::Row;
use super::option_values::Connection;
use crate::messages::Failure;

#[derive(Debug, Clone, PartialEq)]
pub enum ProxyTls {
    Refused,
    /// A certificate that is made for the run.
    New,
    File(PathBuf),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ProxyChoice {
    pub connection: Connection,
    pub listen: SocketAddr,
    pub record: Option<PathBuf>,
    pub keeps_copy: bool,
    pub tls: ProxyTls,
    pub parent_lease: bool,
}

#[derive(Default)]
pub(super) struct ProxyOptions {
    listen: Option<String>,
    record: Option<String>,
    keeps_copy: bool,
    tls: Option<String>,
}

const fn row(long: &'static str, help: &'static str) -> Row<ProxyOptions> {
    Row::new(long, help).not_in_pgbench()
}

pub(super) const ROWS: &[Row<ProxyOptions>] = &[
    row("proxy", "relay sessions from this address to the server, and print a line of JSON each second")
        .takes("HOST:PORT")
        .text(|given| &mut given.listen),
    row("record", "record statements and their answers in this new file").takes("FILE").text(|given| &mut given.record),
    row("record-copy", "also record rows of COPY FROM STDIN").flag(|given| &mut given.keeps_copy),
    row(
        "proxy-tls",
        "accept TLS from clients, with the certificate and key in this PEM file, or with a new certificate",
    )
    .takes("FILE|new")
    .text(|given| &mut given.tls),
];

impl ProxyOptions {
    pub fn resolve(
        &self, connection: &Connection, load: &Benchmark, has_others: bool,
    ) -> Result<Option<ProxyChoice>, Failure> {
        let Some(listen) = &self.listen else {
            let others = [(&self.record, "--record"), (&self.tls, "--proxy-tls")];
            return match others.iter().find(|(given, _)| given.is_some()) {
                Some((_, option)) => Err(Failure::new(format!("{option} needs --proxy=HOST:PORT"))),
                None if self.keeps_copy => Err(Failure::new("--record-copy needs --proxy=HOST:PORT")),
                None => Ok(None),
            };
        };
        if has_others {
            return Err(Failure::new("options of a load or of initialization cannot be used with --proxy"));
        }
        if self.keeps_copy && self.record.is_none() {
            return Err(Failure::new("--record-copy needs --record=FILE"));
        }
        let address = listen.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
        let listen = address.ok_or_else(|| {
            Failure::new(format!("invalid address of --proxy: \"{listen}\""))
                .hint("Give HOST:PORT, such as 127.0.0.1:6543.")
        })?;
        Ok(Some(ProxyChoice {
            connection: connection.clone(),
            listen,
            record: self.record.as_ref().map(PathBuf::from),
            keeps_copy: self.keeps_copy,
            tls: match self.tls.as_deref() {
                None => ProxyTls::Refused,
                Some("new") => ProxyTls::New,
                Some(path) => ProxyTls::File(path.into()),
            },
            parent_lease: load.parent_lease,
        }))
    }
}
