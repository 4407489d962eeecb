//! pgprobe: samples a host and a PostgreSQL server every second.

mod catalogue;
mod clock;
mod host;
mod log;
mod options;
mod output;
mod probe_cost;
mod probe_stop;
mod run;
mod sample;
mod server;
mod ticks;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use options::Request;
use run::Ended;

fn main() -> ExitCode {
    match options::read(std::env::args_os().skip(1)) {
        Ok(Request::Help) => print(options::HELP),
        Ok(Request::Version) => print(&format!("pgprobe (pgdyno) {}\n", env!("CARGO_PKG_VERSION"))),
        Ok(Request::Describe) => print(&catalogue::markdown()),
        Ok(Request::Sample(options)) => match run::run(&options) {
            Ok(Ended::Whole) => ExitCode::SUCCESS,
            Ok(Ended::Cut) => ExitCode::FAILURE,
            Err(error) => report_failure(error, None),
        },
        Err(error) => report_failure(error, Some("Try \"pgprobe --help\" for more information.")),
    }
}

fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn report_failure(error: impl Display, hint: Option<&str>) -> ExitCode {
    // standard error may be closed, and there is nowhere else to report it
    let _ = writeln!(io::stderr(), "pgprobe: error: {error}");
    if let Some(hint) = hint {
        let _ = writeln!(io::stderr(), "pgprobe: hint: {hint}");
    }
    ExitCode::FAILURE
}
