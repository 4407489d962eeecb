//! The command line of `pgprobe` and `pgnull`. The help is the table of the options: it has a line for each.
//!
//! pgdrive has a reader of its own, because scripts for pgbench rely on the rules of getopt_long.

mod arguments;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

pub use arguments::{Arguments, seconds, text};

/// What a command line asks for.
#[derive(Debug, PartialEq)]
pub enum Request<T> {
    /// To print this text.
    Text(String),
    Run(T),
}

/// Reads the command line and does what it asks for; returns the exit code. `resolve` makes the options complete.
pub fn start<T>(
    program: &str, help: &str, resolve: impl FnOnce(&Arguments) -> Result<Request<T>, String>,
    run: impl FnOnce(T) -> Result<(), String>,
) -> ExitCode {
    let request = Arguments::read(help, std::env::args_os().skip(1)).and_then(|given| match &given {
        _ if given.has("help") => Ok(Request::Text(help.to_owned())),
        _ if given.has("version") => Ok(Request::Text(format!("{program} (pgdyno) {}\n", env!("CARGO_PKG_VERSION")))),
        _ => resolve(&given),
    });
    let done = match request {
        Ok(Request::Run(options)) => run(options),
        Ok(Request::Text(text)) => return ExitCode::from(u8::from(!print(&text))),
        Err(error) => Err(format!("{error}\n{program}: hint: Try \"{program} --help\" for more information.")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(program, error);
            ExitCode::FAILURE
        }
    }
}

/// Prints to standard output; returns whether that succeeded.
pub fn print(text: &str) -> bool {
    let mut out = io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok()
}

/// Prints an error in the name of the program.
pub fn report(program: &str, error: impl Display) {
    // standard error may be closed, and there is nowhere else to report it
    let _ = writeln!(io::stderr(), "{program}: error: {error}");
}
