//! The command line of `pgnull`, resolved once into a complete value.

use std::net::IpAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use pgdyno_commandline::{Arguments, Request, seconds};
use pgdyno_wire::SqlState;

#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    pub socket_dir: Option<PathBuf>,
    pub listen: Option<IpAddr>,
    /// Port of both sockets; 0 lets the system choose (only with TCP alone).
    pub port: u16,
    pub threads: usize,
    /// Number of rows of pgbench_branches.
    pub scale: u32,
    /// When the stall begins and how long it lasts.
    pub stall: Option<(Duration, Duration)>,
    pub delay: Duration,
    /// How many statements there are for each error.
    pub error_every: Option<NonZeroU64>,
    pub error_code: SqlState,
    /// How many statements there are for each closed connection.
    pub close_every: Option<NonZeroU64>,
    /// Whether the server ends when standard input closes.
    pub parent_lease: bool,
}

pub const HELP: &str = "\
pgnull is a PostgreSQL server that answers immediately and stores nothing.

Usage:
  pgnull [OPTION]...

Options:
  --socket-dir=DIR         listen on the unix socket DIR/.s.PGSQL.PORT
  --listen=ADDRESS         listen on ADDRESS, such as 127.0.0.1
  --port=NUM               port of both sockets (default: 5432; 0: any)
  --threads=NUM            number of threads (default: 1)
  --scale=NUM              rows of pgbench_branches (default: 1)
  --delay-us=NUM           delay answers by NUM microseconds
  --stall-at=SECONDS       begin a stall SECONDS after the first query
  --stall-for=SECONDS      end the stall after SECONDS
  --error-every=NUM        fail every NUM-th statement
  --error-sqlstate=CODE    fail with SQLSTATE CODE (default: 40001)
  --close-every=NUM        close the connection at every NUM-th statement
  --parent-lease           end when standard input closes
  -V, --version            output version information, then exit
  -?, --help               show this help, then exit

It prints one line when clients can connect, and ends at SIGINT or SIGTERM.
Exit status: 0 after a signal; 1 when it could not start or continue.
";

/// The longest delay: the longest possible load.
const LONGEST_US: u64 = i32::MAX as u64 * 1_000_000;

pub fn resolve(given: &Arguments) -> Result<Request<Options>, String> {
    let every = |name| given.number(name, 1..=u64::MAX).map(|number| number.and_then(NonZeroU64::new));
    let time = |name| given.parsed(name, "seconds from 0 to 2147483647", seconds);
    let code = |text: &str| SqlState::parse(text.as_bytes());
    let error_code = given.parsed("error-sqlstate", "five digits or capital letters", code)?;
    let stall = (time("stall-at")?, time("stall-for")?);
    let options = Options {
        socket_dir: given.path("socket-dir"),
        listen: given.parsed("listen", "an IP address", |text| text.parse().ok())?,
        port: given.number("port", 0..=65535)?.unwrap_or(5432),
        threads: given.number("threads", 1..=256)?.unwrap_or(1),
        scale: given.number("scale", 1..=u32::MAX.into())?.unwrap_or(1),
        stall: stall.0.zip(stall.1),
        delay: Duration::from_micros(given.number("delay-us", 0..=LONGEST_US)?.unwrap_or(0)),
        error_every: every("error-every")?,
        error_code: error_code.unwrap_or(SqlState::SERIALIZATION_FAILURE),
        close_every: every("close-every")?,
        parent_lease: given.has("parent-lease"),
    };
    let wrong = if let Some(operand) = given.operands.first() {
        &format!("unexpected argument {operand:?}")
    } else if options.socket_dir.is_none() && options.listen.is_none() {
        "nowhere to listen: give --socket-dir, --listen or both"
    } else if options.port == 0 && options.listen.is_none() {
        "--port=0 needs --listen: a unix socket has the port in its name"
    } else if error_code.is_some() && options.error_every.is_none() {
        "--error-sqlstate needs --error-every"
    } else if stall.0.is_some() != stall.1.is_some() {
        "--stall-at and --stall-for need each other"
    } else {
        return Ok(Request::Run(options));
    };
    Err(wrong.to_owned())
}

#[cfg(test)]
pub mod tests {
    use std::ffi::OsString;

    use super::*;

    pub fn options(args: &str) -> Result<Options, String> {
        match resolve(&Arguments::read(HELP, args.split_whitespace().map(OsString::from))?)? {
            Request::Run(options) => Ok(options),
            Request::Text(text) => Err(text),
        }
    }

    #[test]
    fn options_that_are_given_and_defaults() {
        let given = "--socket-dir=/tmp --listen 127.0.0.1 --port 6000 --threads 2 --scale 7 \
                     --delay-us 150 --stall-at 1.5 --stall-for 2 --error-every 10 \
                     --error-sqlstate 40P01 --close-every=100 --parent-lease";
        let expected = Options {
            socket_dir: Some("/tmp".into()),
            listen: Some([127, 0, 0, 1].into()),
            port: 6000,
            threads: 2,
            scale: 7,
            stall: Some((Duration::from_millis(1500), Duration::from_secs(2))),
            delay: Duration::from_micros(150),
            error_every: NonZeroU64::new(10),
            error_code: SqlState::DEADLOCK_DETECTED,
            close_every: NonZeroU64::new(100),
            parent_lease: true,
        };
        assert_eq!(options(given), Ok(expected));
        let options = options("--socket-dir /tmp").expect("good");
        assert_eq!((options.port, options.threads, options.scale), (5432, 1, 1));
        assert_eq!((options.stall, options.delay, options.error_every), (None, Duration::ZERO, None));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (args, begin) in [
            ("", "nowhere to listen"),
            ("--listen=::1 db", "unexpected argument \"db\""),
            ("--port=65536", "invalid value \"65536\" for option --port"),
            ("--threads=0", "invalid value \"0\" for option --threads"),
            ("--scale=4294967296", "invalid value \"4294967296\" for option --scale"),
            ("--delay-us=2147483647000001", "invalid value \"2147483647000001\" for option --delay-us"),
            ("--error-every=0", "invalid value \"0\" for option --error-every"),
            ("--stall-at=-1", "invalid value \"-1\" for option --stall-at"),
            ("--error-sqlstate=4", "invalid value \"4\" for option --error-sqlstate"),
            ("--listen=::1 --stall-at=1", "--stall-at and --stall-for need each other"),
            ("--listen=::1 --error-sqlstate=40001", "--error-sqlstate needs --error-every"),
            ("--socket-dir=/tmp --port=0", "--port=0 needs --listen"),
        ] {
            let error = options(args).expect_err(args);
            assert!(error.starts_with(begin), "{error}");
        }
        assert!(HELP.lines().all(|line| line.len() <= 80));
    }
}
