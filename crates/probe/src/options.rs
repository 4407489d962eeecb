//! The command line of `pgprobe`, resolved once into a complete value.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::host::{Choice, LogChoice, ServerIdentity};
use crate::server::own_queries::OwnQuery;

#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    Help,
    Version,
    Describe,
    Sample(Box<Options>),
}

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

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

impl From<lexopt::Error> for UsageError {
    fn from(error: lexopt::Error) -> Self {
        Self(error.to_string())
    }
}

/// The greatest `--waits-hz`: more frequent samples would be a load of their own.
const MOST_HZ: u32 = 100;
const WAITS_HZ: u32 = 10;
const PROCESSES: usize = 50;
const STATEMENTS: usize = 20;
/// The longest --time and --lease: an instant this far ahead can still be computed.
const LONGEST: Duration = Duration::from_secs(i32::MAX as u64);

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

/// Reads the command line (without the program's name).
pub fn read(args: impl IntoIterator<Item = OsString>) -> Result<Request, UsageError> {
    let mut parser = Parser::from_args(args);
    let mut given = ParsedOptions::default();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Short('?') | Arg::Long("help") => return Ok(Request::Help),
            Arg::Short('V') | Arg::Long("version") => return Ok(Request::Version),
            Arg::Long("describe") => return Ok(Request::Describe),
            Arg::Value(value) => given.dbname(value)?,
            Arg::Short(letter) => match long_name(letter) {
                Some(name) => given.take(name, &mut parser)?,
                None => return Err(unknown(&format!("-{letter}"))),
            },
            Arg::Long(name) => {
                let name = name.to_owned();
                given.take(&name, &mut parser)?;
            }
        }
    }
    given.resolve()
}

fn unknown(option: &str) -> UsageError {
    UsageError(format!("there is no option {option}"))
}

fn long_name(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "dbname",
        'h' => "host",
        'p' => "port",
        'U' => "username",
        'T' => "time",
        _ => return None,
    })
}

#[derive(Debug, Default)]
struct ParsedOptions {
    dbname: Option<String>,
    overrides: Vec<(&'static str, String)>,
    waits_hz: Option<u32>,
    no_server: bool,
    no_host: bool,
    data: Option<PathBuf>,
    wal: Option<PathBuf>,
    postmaster: Option<u32>,
    cluster_name: Option<String>,
    processes: Option<usize>,
    statements: Option<usize>,
    own: Vec<OwnQuery>,
    log: Option<PathBuf>,
    no_log: bool,
    time: Option<Duration>,
    parent_lease: bool,
    lease: Option<Duration>,
}

impl ParsedOptions {
    fn take(&mut self, name: &str, parser: &mut Parser) -> Result<(), UsageError> {
        match name {
            "dbname" => self.dbname(parser.value()?)?,
            "host" => self.overrides.push(("host", parser.value()?.string()?)),
            "port" => self.overrides.push(("port", parser.value()?.string()?)),
            "username" => self.overrides.push(("user", parser.value()?.string()?)),
            "waits-hz" => self.waits_hz = Some(whole_number(parser, name, MOST_HZ.into())? as u32),
            "no-server" => self.no_server = true,
            "no-host" => self.no_host = true,
            "data" => self.data = Some(parser.value()?.into()),
            "wal" => self.wal = Some(parser.value()?.into()),
            "postmaster" => self.postmaster = Some(whole_number(parser, name, u32::MAX.into())? as u32),
            "cluster-name" => self.cluster_name = Some(parser.value()?.string()?),
            "processes" => self.processes = Some(whole_number(parser, name, u32::MAX.into())? as usize),
            "statements" => self.statements = Some(whole_number(parser, name, u32::MAX.into())? as usize),
            "query" => self.own.push(own_query(&parser.value()?.string()?)?),
            "log" => self.log = Some(parser.value()?.into()),
            "no-log" => self.no_log = true,
            "time" => self.time = Some(seconds(parser, name)?),
            "lease" => self.lease = Some(seconds(parser, name)?),
            "parent-lease" => self.parent_lease = true,
            _ => return Err(unknown(&format!("--{name}"))),
        }
        Ok(())
    }

    fn dbname(&mut self, value: OsString) -> Result<(), UsageError> {
        if self.dbname.replace(value.string()?).is_some() {
            return Err(UsageError("more than one database was named".into()));
        }
        Ok(())
    }

    fn resolve(self) -> Result<Request, UsageError> {
        if self.no_host && self.no_server {
            let nothing = "--no-host and --no-server together leave nothing to sample";
            return Err(UsageError(nothing.into()));
        }
        let server = match (self.postmaster, self.cluster_name, &self.data) {
            (Some(_), Some(_), _) => {
                let both = "give either --postmaster or --cluster-name";
                return Err(UsageError(both.into()));
            }
            (Some(pid), None, _) => ServerIdentity::Pid(pid),
            (None, Some(name), _) => ServerIdentity::ClusterName(name),
            (None, None, Some(data)) => ServerIdentity::Data(data.clone()),
            (None, None, None) => ServerIdentity::No,
        };
        let log = match (self.log, self.no_log) {
            (Some(_), true) => return Err(UsageError("give either --log or --no-log".into())),
            (Some(path), false) => LogChoice::File(path),
            (None, true) => LogChoice::None,
            (None, false) => LogChoice::Find,
        };
        let host =
            Choice { server, data: self.data, wal: self.wal, most_clients: self.processes.unwrap_or(PROCESSES), log };
        let server = Server {
            dbname: self.dbname,
            overrides: self.overrides,
            waits_hz: self.waits_hz.unwrap_or(WAITS_HZ),
            statements: self.statements.unwrap_or(STATEMENTS),
            own: self.own,
        };
        Ok(Request::Sample(Box::new(Options {
            host: (!self.no_host).then_some(host),
            server: (!self.no_server).then_some(server),
            time: self.time,
            parent_lease: self.parent_lease || self.lease.is_some(),
            lease: self.lease,
        })))
    }
}

fn whole_number(parser: &mut Parser, name: &str, most: u64) -> Result<u64, UsageError> {
    let text = parser.value()?.string()?;
    let number = text.parse().ok().filter(|number| *number <= most);
    number.ok_or_else(|| UsageError(format!("--{name} needs a whole number from 0 to {most}, not \"{text}\"")))
}

fn own_query(text: &str) -> Result<OwnQuery, UsageError> {
    let mut parts = text.splitn(3, ':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(name), Some(every), Some(sql)) if !name.is_empty() && !sql.trim().is_empty() => {
            Ok(OwnQuery { name: name.to_owned(), every: duration(every, "query")?, sql: sql.to_owned() })
        }
        _ => Err(UsageError(format!("--query needs NAME:SECONDS:SQL, not \"{text}\""))),
    }
}

fn seconds(parser: &mut Parser, name: &str) -> Result<Duration, UsageError> {
    duration(&parser.value()?.string()?, name)
}

fn duration(text: &str, name: &str) -> Result<Duration, UsageError> {
    let seconds = text.parse().ok();
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero() && *time <= LONGEST).ok_or_else(|| {
        let most = LONGEST.as_secs();
        UsageError(format!("--{name} needs seconds above 0 and up to {most}, not \"{text}\""))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &[&str]) -> Result<Options, String> {
        match read(args.iter().map(OsString::from)) {
            Ok(Request::Sample(options)) => Ok(*options),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn both_sides_are_sampled_by_default() {
        let options = options(&[]).expect("it is right");
        assert_eq!(options.server.expect("a server").waits_hz, 10);
        assert_eq!(options.host.expect("a host").server, ServerIdentity::No);
        assert!(!options.parent_lease && options.time.is_none());
    }

    #[test]
    fn a_lease_with_a_time_is_a_lease() {
        let options = options(&["--lease=90"]).expect("it is right");
        assert!(options.parent_lease);
        assert_eq!(options.lease, Some(Duration::from_secs(90)));
    }

    #[test]
    fn the_server_s_processes_are_found_by_what_is_given() {
        let known = |args: &[&str]| options(args).expect("it is right").host.expect("a host").server;
        assert_eq!(known(&["--data=/d"]), ServerIdentity::Data("/d".into()));
        assert_eq!(known(&["--data=/d", "--postmaster", "7"]), ServerIdentity::Pid(7));
        let named = ServerIdentity::ClusterName("main".into());
        assert_eq!(known(&["--cluster-name=main", "--data=/d"]), named);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (args, message) in [
            (vec!["--frobnicate"], "there is no option --frobnicate"),
            (vec!["-x"], "there is no option -x"),
            (vec!["a", "b"], "more than one database was named"),
            (vec!["--waits-hz=101"], "--waits-hz needs a whole number from 0 to 100, not \"101\""),
            (vec!["--time=0"], "--time needs seconds above 0 and up to 2147483647, not \"0\""),
            (vec!["--time=1e19"], "--time needs seconds above 0 and up to 2147483647, not \"1e19\""),
            (vec!["--lease=inf"], "--lease needs seconds above 0 and up to 2147483647, not \"inf\""),
            (vec!["--query=a:1"], "--query needs NAME:SECONDS:SQL, not \"a:1\""),
            (vec!["--query=a:x:SELECT 1"], "--query needs seconds above 0 and up to 2147483647, not \"x\""),
            (vec!["--no-host", "--no-server"], "--no-host and --no-server together leave nothing to sample"),
        ] {
            assert_eq!(options(&args).expect_err("it is wrong"), message);
        }
    }

    #[test]
    fn every_option_is_in_the_help() {
        for name in [
            "dbname", "host", "port", "username", "waits-hz", "query", "no-server", "data", "wal", "postmaster",
            "cluster-name", "processes", "statements", "log", "no-log", "no-host", "time", "parent-lease", "lease",
            "describe", "version", "help",
        ] {
            assert!(HELP.contains(&format!("--{name}")), "{name}");
        }
    }
}
