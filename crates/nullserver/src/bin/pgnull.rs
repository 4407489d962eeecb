//! pgnull: a PostgreSQL server that answers immediately.

use std::io::{self, Write};
use std::process::ExitCode;

use pgdyno_nullserver::{Options, Request, options, serve};

fn main() -> ExitCode {
    match options::read(std::env::args_os().skip(1)) {
        Ok(Request::Help) => print(options::HELP),
        Ok(Request::Version) => print(&format!("pgnull (pgdyno) {}\n", env!("CARGO_PKG_VERSION"))),
        Ok(Request::Serve(options)) => run(&options),
        Err(error) => {
            print_line(&format!("pgnull: {error}"));
            print_line("pgnull: hint: Try \"pgnull --help\" for more information.");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> ExitCode {
    let ready = |addresses: &str| {
        // standard output may be closed, but clients can connect nevertheless
        let _ = print(&format!("pgnull: ready on {addresses}\n"));
    };
    match serve(options, ready) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_line(&format!("pgnull: error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> ExitCode {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn print_line(line: &str) {
    // standard error may be closed, and there is nowhere else to report it
    let _ = writeln!(io::stderr(), "{line}");
}
