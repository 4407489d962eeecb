//! pgdrive: a load engine for PostgreSQL with pgbench's command line.

mod benchmark;
mod events;
mod exit;
mod getopt;
mod help;
mod initialize;
mod lease;
mod messages;
mod options;
mod progress;
mod scripts;
mod setup;
mod summary;

use std::io::{self, Write};
use std::process::ExitCode;

use exit::Exit;
use messages::Messages;
use options::{Request, UsageError};

fn main() -> ExitCode {
    let mut args = std::env::args();
    let called_as = args.next().unwrap_or_default();
    let program = called_as
        .rsplit('/')
        .next()
        .filter(|name| !name.is_empty())
        .unwrap_or("pgdrive");
    let messages = Messages::new(program);
    let exit = match options::read(args.collect(), std::env::var("PGBENCH_RANDOM_SEED").ok()) {
        Ok(request) => carry_out(&request, &messages),
        Err(UsageError::Getopt(text)) => {
            messages.plain(text);
            messages.hint(format!("Try \"{program} --help\" for more information."));
            Exit::NotBegun
        }
        Err(UsageError::Failure(failure)) => {
            failure.say(&messages);
            Exit::NotBegun
        }
    };
    exit.into()
}

fn carry_out(request: &Request, messages: &Messages) -> Exit {
    match request {
        Request::Help => print(&help::text(messages.program())),
        Request::Version => print(&format!(
            "{} (pgdyno) {}\n",
            messages.program(),
            env!("CARGO_PKG_VERSION")
        )),
        Request::ListBuiltins => scripts::list(),
        Request::ShowScript(name) => scripts::show(name, messages),
        Request::Initialize(options) => initialize::run(options, messages),
        Request::Benchmark(options) => benchmark::run(options, messages),
    }
}

fn print(text: &str) -> Exit {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Exit::Well,
        Err(_) => Exit::NotBegun,
    }
}
