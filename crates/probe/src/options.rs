//! The command line of `pgprobe`, resolved once into a complete value.

use std::time::Duration;

use pgdyno_commandline::{Arguments, Request, seconds, text};

use crate::catalogue;
use crate::host::{Choice, LogChoice, ServerIdentity};
use crate::server::own_queries::OwnQuery;

#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What to sample of the host; None with `--no-host`.
    pub host: Option<Choice>,
    /// What to sample of the server; None with `--no-server`.
    pub server: Option<Server>,
    pub time: Option<Duration>,
    pub parent_lease: bool,
    pub lease: Option<Duration>,
}

/// How to reach the server, and how often to sample its sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    pub dbname: Option<String>,
    /// Keyword and value for each of -h, -p, -U.
    pub overrides: Vec<(&'static str, String)>,
    pub waits_hz: u32,
    pub statements: usize,
    pub own: Vec<OwnQuery>,
}

/// The greatest `--waits-hz`: more frequent samples would be a load of their own.
const MOST_HZ: u64 = 100;
const TIME: &str = "seconds above 0 and up to 2147483647";

pub const HELP: &str = "\
pgprobe samples a host and a PostgreSQL server every second.

Usage:
  pgprobe [OPTION]... [DBNAME or connection string]

It writes lines of JSON to standard output; docs/reference/probe.md describes them.

The server:
  -d, --dbname=CONNSTR     database or connection string
  -h, --host=HOSTNAME      server host or socket directory
  -p, --port=PORT          server port
  -U, --username=USERNAME  role
  --waits-hz=NUM           session samples per second (default: 10; 0: none)
  --statements=NUM         top statements of pg_stat_statements, if it is installed (default: 20; 0: none)
  --query=NAME:SECONDS:SQL a read-only query that returns a number, and how often; may be repeated
  --no-server              sample only the host
The host (Linux):
  --data=DIR               the server's data directory, to find its disk and its processes
  --wal=DIR                directory of its WAL (default: pg_wal in --data)
  --postmaster=PID         process ID of the postmaster (default: from --data)
  --cluster-name=NAME      find the postmaster by the setting cluster_name
  --processes=NUM          show the NUM busiest client backends one by one (default: 50)
  --log=FILE               the server's log (default: the file that the server reports)
  --no-log                 do not read the log
  --no-host                sample only the server
Other options:
  -T, --time=SECONDS       end after SECONDS (default: at a signal)
  --parent-lease           end when standard input closes; answer a line \"clock ID\" on it with the time
  --lease=SECONDS          also end when no line has arrived for SECONDS
  --describe               print the reference of all sources and metrics, then exit
  -V, --version            output version information, then exit
  -?, --help               show this help, then exit
";

pub fn resolve(given: &Arguments) -> Result<Request<Options>, String> {
    if given.has("describe") {
        return Ok(Request::Text(catalogue::markdown()));
    }
    let time = |name| given.parsed(name, TIME, time);
    let lease = time("lease")?;
    let options = Options {
        host: (!given.has("no-host")).then(|| host(given)).transpose()?,
        server: (!given.has("no-server")).then(|| server(given)).transpose()?,
        time: time("time")?,
        parent_lease: given.has("parent-lease") || lease.is_some(),
        lease,
    };
    if options.host.is_none() && options.server.is_none() {
        return Err("--no-host and --no-server together leave nothing to sample".to_owned());
    }
    Ok(Request::Run(options))
}

fn server(given: &Arguments) -> Result<Server, String> {
    let mut overrides = Vec::new();
    for (option, keyword) in [("host", "host"), ("port", "port"), ("username", "user")] {
        overrides.extend(given.text(option)?.map(|value| (keyword, value)));
    }
    let mut databases = given.values("dbname").chain(&given.operands);
    let dbname = databases.next().map(text).transpose()?;
    if databases.next().is_some() {
        return Err("more than one database was named".to_owned());
    }
    Ok(Server {
        dbname,
        overrides,
        waits_hz: given.number("waits-hz", 0..=MOST_HZ)?.unwrap_or(10),
        statements: given.number("statements", 0..=u32::MAX.into())?.unwrap_or(20),
        own: given.values("query").map(|value| own_query(&text(value)?)).collect::<Result<_, _>>()?,
    })
}

fn host(given: &Arguments) -> Result<Choice, String> {
    let data = given.path("data");
    let postmaster = given.number("postmaster", 0..=u32::MAX.into())?;
    let server = match (postmaster, given.text("cluster-name")?, &data) {
        (Some(_), Some(_), _) => return Err("give either --postmaster or --cluster-name".to_owned()),
        (Some(pid), None, _) => ServerIdentity::Pid(pid),
        (None, Some(name), _) => ServerIdentity::ClusterName(name),
        (None, None, Some(data)) => ServerIdentity::Data(data.clone()),
        (None, None, None) => ServerIdentity::No,
    };
    let log = match (given.path("log"), given.has("no-log")) {
        (Some(_), true) => return Err("give either --log or --no-log".to_owned()),
        (Some(path), false) => LogChoice::File(path),
        (None, true) => LogChoice::None,
        (None, false) => LogChoice::Find,
    };
    let most_clients = given.number("processes", 0..=u32::MAX.into())?.unwrap_or(50);
    Ok(Choice { server, data, wal: given.path("wal"), most_clients, log })
}

fn own_query(text: &str) -> Result<OwnQuery, String> {
    let mut parts = text.splitn(3, ':');
    let (name, every, sql) = (parts.next(), parts.next().and_then(time), parts.next());
    match (name, every, sql) {
        (Some(name), Some(every), Some(sql)) if !name.is_empty() && !sql.trim().is_empty() => {
            Ok(OwnQuery { name: name.to_owned(), every, sql: sql.to_owned() })
        }
        _ => Err(format!("invalid value \"{text}\" for option --query: give NAME:SECONDS:SQL, with {TIME}")),
    }
}

fn time(text: &str) -> Option<Duration> {
    seconds(text).filter(|time| !time.is_zero())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn options(args: &[&str]) -> Result<Options, String> {
        match resolve(&Arguments::read(HELP, args.iter().map(OsString::from))?)? {
            Request::Run(options) => Ok(options),
            Request::Text(text) => Err(text),
        }
    }

    #[test]
    fn both_sides_are_sampled_by_default_and_processes_found_by_what_is_given() {
        let plain = options(&[]).expect("it is right");
        assert_eq!(plain.server.expect("a server").waits_hz, 10);
        assert_eq!(plain.host.expect("a host").server, ServerIdentity::No);
        assert!(!plain.parent_lease && plain.time.is_none());
        let leased = options(&["--lease=90"]).expect("it is right");
        assert_eq!((leased.parent_lease, leased.lease), (true, Some(Duration::from_secs(90))));
        let known = |args: &[&str]| options(args).expect("it is right").host.expect("a host").server;
        assert_eq!(known(&["--data=/d"]), ServerIdentity::Data("/d".into()));
        assert_eq!(known(&["--data=/d", "--postmaster", "7"]), ServerIdentity::Pid(7));
        assert_eq!(known(&["--cluster-name=main", "--data=/d"]), ServerIdentity::ClusterName("main".into()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (args, begin) in [
            (&["a", "b"][..], "more than one database was named"),
            (&["-d", "a", "b"], "more than one database was named"),
            (&["--waits-hz=101"], "invalid value \"101\" for option --waits-hz"),
            (&["--time=0"], "invalid value \"0\" for option --time: give seconds above 0"),
            (&["--query=a:1"], "invalid value \"a:1\" for option --query"),
            (&["--query=a:x:SELECT 1"], "invalid value \"a:x:SELECT 1\" for option --query"),
            (&["--no-host", "--no-server"], "--no-host and --no-server together leave nothing"),
        ] {
            let error = options(args).expect_err("it is wrong");
            assert!(error.starts_with(begin), "{error}");
        }
    }
}
