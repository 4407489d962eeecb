//! Samples the server over SQL.

use std::time::Duration;

use pgdyno_connect::Params;

use crate::output::Output;
use crate::own::Queries;
use crate::stop::Stop;

/// Name of the probe's sessions.
pub const NAME: &str = "pgprobe";

/// Samples the server until it is over.
pub fn run(
    _params: &Params,
    _waits_hz: u32,
    _period: Duration,
    _output: &Output,
    _queries: &Queries,
    _stop: &Stop,
) {
}
