//! pgdrive: a load engine for PostgreSQL with pgbench's command line.

mod benchmark;
mod called_as;
mod descriptors;
mod durations;
mod events;
mod exit;
mod framing;
mod getopt;
mod health;
mod help;
mod histogram_log;
mod host;
mod initialize;
mod lease;
mod ledger;
mod log_options;
mod lua;
mod lua_reports;
mod messages;
mod options;
mod outages;
mod outputs;
mod pauses;
mod percentiles;
mod phase_events;
mod phase_summary;
mod phases_file;
mod progress;
mod scripts;
mod setup;
mod start;
mod summary;
mod tpcc;
mod watcher;
mod workers;

use std::io::{self, Write};
use std::process::ExitCode;

use exit::Exit;
use messages::Messages;
use options::{Request, UsageError};

fn main() -> ExitCode {
    let mut args = std::env::args();
    let path = args.next().unwrap_or_default();
    let program = path
        .rsplit('/')
        .next()
        .filter(|name| !name.is_empty())
        .unwrap_or("pgdrive");
    let messages = Messages::new(program);
    let seed = std::env::var("PGBENCH_RANDOM_SEED").ok();
    let exit = match options::read(args.collect(), seed, messages.called_as()) {
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
        Request::Version => print(&messages.called_as().version()),
        Request::ListBuiltins => scripts::list(),
        Request::ShowScript(name) => scripts::show(name, messages),
        Request::Initialize(options) => initialize::run(options, messages),
        Request::TpccCheck(options) => tpcc::check::run(options, messages),
        Request::Benchmark(options) => benchmark::run(options, messages),
    }
}

fn print(text: &str) -> Exit {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Exit::Well,
        Err(_) => Exit::NotBegun,
    }
}
