//! pgdrive: a load engine for PostgreSQL with pgbench's command line.

mod benchmark;
mod called_as;
mod commit_ledger;
mod database_setup;
mod durations;
mod early_stop;
mod events;
mod exit;
mod generator_health;
mod getopt;
mod help;
mod histogram_log;
mod initialize;
mod load_observer;
mod lua;
mod lua_reports;
mod measurement;
mod messages;
mod options;
mod outages;
mod percentiles;
mod phase_summary;
mod phases_file;
mod prepared_load;
mod progress;
mod proxy;
mod queries;
mod replay;
mod results;
mod run_events;
mod scripts;
mod setup_canceller;
mod summary;
mod tpcc;
mod tpch;
mod worker_options;
mod workload;

use std::io::{self, Write};
use std::process::ExitCode;

use exit::{Exit, refuse};
use messages::Messages;
use options::{Information, Request, UsageError};

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    let path = args.next().unwrap_or_default();
    let path = path.to_string_lossy();
    let program = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("pgdrive");
    let messages = Messages::new(program);
    let seed = std::env::var_os("PGBENCH_RANDOM_SEED");
    let seed = seed.map(|text| text.to_string_lossy().into_owned());
    let request = options::words(args).and_then(|words| options::read(words, seed, messages.called_as()));
    let exit = match request {
        Ok(request) => carry_out(&request, &messages),
        Err(UsageError::Getopt(text)) => {
            messages.plain(text);
            messages.hint(format!("Try \"{program} --help\" for more information."));
            Exit::NotBegun
        }
        Err(UsageError::Failure(failure)) => refuse(&failure, &messages),
    };
    exit.into()
}

fn carry_out(request: &Request, messages: &Messages) -> Exit {
    match request {
        Request::Information(Information::Help) => print(&help::text(messages.program())),
        Request::Information(Information::Version) => print(&messages.called_as().version()),
        Request::Information(Information::Builtins) => scripts::list(),
        Request::Information(Information::Script(name)) => scripts::show(name, messages),
        Request::Initialize(options) => initialize::run(options, messages),
        Request::TpccCheck(options) => tpcc::check::run(options, messages),
        Request::TpchQueries(wanted) => tpch::show(wanted),
        Request::Proxy(options) => proxy::run(options, messages),
        Request::Benchmark(options) => benchmark::run(options, messages),
    }
}

fn print(text: &str) -> Exit {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Exit::Well,
        Err(_) => Exit::NotBegun,
    }
}
