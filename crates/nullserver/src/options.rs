//! The command line of `pgnull`, resolved once into a complete value.

use std::ffi::OsString;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};
use pgdyno_wire::SqlState;

#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    Help,
    Version,
    /// Everything else: run the server.
    Serve(Box<Options>),
}

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

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

impl From<lexopt::Error> for UsageError {
    /// Uses the messages of getopt_long, as PostgreSQL's programs do.
    fn from(error: lexopt::Error) -> Self {
        use lexopt::Error::{MissingValue, UnexpectedOption, UnexpectedValue};
        Self(match error {
            MissingValue { option: Some(option) } => format!("option '{option}' requires an argument"),
            UnexpectedOption(option) => format!("unrecognized option '{option}'"),
            UnexpectedValue { option, .. } => {
                format!("option '{option}' doesn't allow an argument")
            }
            other => other.to_string(),
        })
    }
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
  --version                output version information, then exit
  --help                   show this help, then exit

It prints one line when clients can connect, and ends at SIGINT or SIGTERM.
Exit status: 0 after a signal; 1 when it could not start or continue.
";

/// Reads the command line (without the program's name).
pub fn read(args: impl IntoIterator<Item = OsString>) -> Result<Request, UsageError> {
    let mut parser = Parser::from_args(args);
    let mut given = ParsedOptions::default();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Short('?') | Arg::Long("help") => return Ok(Request::Help),
            Arg::Short('V') | Arg::Long("version") => return Ok(Request::Version),
            Arg::Long("parent-lease") => given.options.parent_lease = true,
            Arg::Long(name) if HELP.contains(&format!("--{name}=")) => {
                let name = name.to_owned();
                given.take(&name, &parser.value()?.string()?)?;
            }
            other => return Err(other.unexpected().into()),
        }
    }
    given.resolve().map(|options| Request::Serve(Box::new(options)))
}

/// The options, and those that only make sense together.
struct ParsedOptions {
    options: Options,
    stall_at: Option<Duration>,
    stall_for: Option<Duration>,
    error_code: Option<SqlState>,
}

impl Default for ParsedOptions {
    fn default() -> Self {
        let options = Options {
            socket_dir: None,
            listen: None,
            port: 5432,
            threads: 1,
            scale: 1,
            stall: None,
            delay: Duration::ZERO,
            error_every: None,
            error_code: SqlState::SERIALIZATION_FAILURE,
            close_every: None,
            parent_lease: false,
        };
        Self { options, stall_at: None, stall_for: None, error_code: None }
    }
}

impl ParsedOptions {
    fn take(&mut self, name: &str, value: &str) -> Result<(), UsageError> {
        let options = &mut self.options;
        match name {
            "socket-dir" => options.socket_dir = Some(PathBuf::from(value)),
            "listen" => options.listen = Some(valid(name, value, value.parse().ok(), "an IP address")?),
            "port" => options.port = valid(name, value, value.parse().ok(), "a port from 0 to 65535")?,
            "threads" => {
                let threads = value.parse().ok().filter(|n| (1..=256).contains(n));
                options.threads = valid(name, value, threads, "a whole number from 1 to 256")?;
            }
            "scale" => {
                let scale = value.parse().ok().filter(|&n| n > 0);
                options.scale = valid(name, value, scale, "a whole number from 1 to 4294967295")?;
            }
            "delay-us" => {
                let delay = value.parse().ok().map(Duration::from_micros).filter(|delay| *delay <= LONGEST);
                options.delay = valid(name, value, delay, "whole microseconds from 0 to 2147483647000000")?;
            }
            "stall-at" => self.stall_at = Some(seconds(name, value)?),
            "stall-for" => self.stall_for = Some(seconds(name, value)?),
            "error-every" => options.error_every = Some(count(name, value)?),
            "error-sqlstate" => {
                let code = SqlState::parse(value.as_bytes());
                self.error_code = Some(valid(name, value, code, "five digits or capital letters")?);
            }
            "close-every" => options.close_every = Some(count(name, value)?),
            _ => unreachable!("the help has option {name}"),
        }
        Ok(())
    }

    fn resolve(self) -> Result<Options, UsageError> {
        let mut options = self.options;
        let wrong = |text: &str| Err(UsageError(text.to_owned()));
        if options.socket_dir.is_none() && options.listen.is_none() {
            return wrong("nowhere to listen: give --socket-dir, --listen or both");
        }
        if options.port == 0 && options.listen.is_none() {
            return wrong("--port=0 needs --listen: a unix socket has the port in its name");
        }
        if let Some(code) = self.error_code {
            if options.error_every.is_none() {
                return wrong("--error-sqlstate needs --error-every");
            }
            options.error_code = code;
        }
        if self.stall_at.is_some() != self.stall_for.is_some() {
            return wrong("--stall-at and --stall-for need each other");
        }
        options.stall = self.stall_at.zip(self.stall_for);
        Ok(options)
    }
}

/// The longest delay and the latest stall: the longest possible load.
const LONGEST: Duration = Duration::from_secs(i32::MAX as u64);

/// Returns the parsed value, or an error that says what the option accepts.
fn valid<T>(name: &str, value: &str, parsed: Option<T>, takes: &str) -> Result<T, UsageError> {
    parsed.ok_or_else(|| {
        let message = format!("invalid value \"{value}\" for option --{name}: give {takes}");
        UsageError(message)
    })
}

fn seconds(name: &str, value: &str) -> Result<Duration, UsageError> {
    let number: Option<f64> = value.parse().ok();
    let time = number.and_then(|number| Duration::try_from_secs_f64(number).ok());
    let time = time.filter(|time| *time <= LONGEST);
    valid(name, value, time, "seconds from 0 to 2147483647")
}

fn count(name: &str, value: &str) -> Result<NonZeroU64, UsageError> {
    let what = "a whole number from 1 to 18446744073709551615";
    valid(name, value, value.parse().ok(), what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(args: &str) -> Result<Options, String> {
        match read(args.split_whitespace().map(OsString::from)) {
            Ok(Request::Serve(options)) => Ok(*options),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn everything_that_is_given_is_taken() {
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
    }

    #[test]
    fn what_is_not_given_has_a_default() {
        let options = options("--socket-dir /tmp").expect("good");
        assert_eq!((options.port, options.threads, options.scale), (5432, 1, 1));
        assert_eq!((options.stall, options.delay), (None, Duration::ZERO));
        assert_eq!(options.error_every, None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            ("", "nowhere to listen: give --socket-dir, --listen or both"),
            ("db", "unexpected argument \"db\""),
            ("--nosuch", "unrecognized option '--nosuch'"),
            ("--port", "option '--port' requires an argument"),
            ("--parent-lease=1", "option '--parent-lease' doesn't allow an argument"),
            ("--port=x", "invalid value \"x\" for option --port: give a port from 0 to 65535"),
            ("--scale=0", "invalid value \"0\" for option --scale: give a whole number from 1 to 4294967295"),
            ("--threads=0", "invalid value \"0\" for option --threads: give a whole number from 1 to 256"),
            (
                "--delay-us=18446744073709551615",
                "invalid value \"18446744073709551615\" for option --delay-us: \
                 give whole microseconds from 0 to 2147483647000000",
            ),
            (
                "--error-every=0",
                "invalid value \"0\" for option --error-every: \
                 give a whole number from 1 to 18446744073709551615",
            ),
            ("--stall-at=-1", "invalid value \"-1\" for option --stall-at: give seconds from 0 to 2147483647"),
            ("--stall-at=1e300", "invalid value \"1e300\" for option --stall-at: give seconds from 0 to 2147483647"),
            ("--stall-for=nan", "invalid value \"nan\" for option --stall-for: give seconds from 0 to 2147483647"),
            (
                "--error-sqlstate=4",
                "invalid value \"4\" for option --error-sqlstate: \
                 give five digits or capital letters",
            ),
            ("--listen=::1 --stall-at=1", "--stall-at and --stall-for need each other"),
            ("--listen=::1 --error-sqlstate=40001", "--error-sqlstate needs --error-every"),
            ("--socket-dir=/tmp --port=0", "--port=0 needs --listen: a unix socket has the port in its name"),
        ];
        for (args, said) in cases {
            assert_eq!(options(args), Err(said.to_owned()), "{args}");
        }
    }

    #[test]
    fn the_help_fits_80_columns() {
        assert!(HELP.lines().all(|line| line.len() <= 80));
        assert!(matches!(read(["--help".into()]), Ok(Request::Help)));
        assert!(matches!(read(["-V".into()]), Ok(Request::Version)));
    }
}
