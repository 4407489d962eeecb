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

use std::process::ExitCode;

fn main() -> ExitCode {
    pgdyno_commandline::start("pgprobe", options::HELP, options::resolve, |options| run::run(&options))
}
