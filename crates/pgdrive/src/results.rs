//! What a workload needs to begin, and what it reports in addition to the figures of every load.

use std::io::{self, Write};

use pgdyno_connect::Params;
use pgdyno_engine::clock::Clock;
use pgdyno_engine::report::Report;
use pgdyno_engine::spec::Spec;
use serde_json::Value;

use crate::events::Events;
use crate::messages::Messages;
use crate::options::Benchmark;

/// What a workload needs when it reads its database.
pub struct SetUp<'a> {
    pub options: &'a Benchmark,
    pub params: &'a Params,
    pub seed: u64,
    pub clock: Clock,
    pub messages: &'a Messages,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    AfterLength,
    AfterThroughput,
    Last,
}

/// What a workload reports in addition to every load's figures.
pub trait Results {
    fn refusal(&self) -> Option<&str> {
        None
    }

    fn add_end_fields(&self, _end: &mut Value, _spec: &Spec, _report: &Report, _events: &mut Events) {}

    fn write(&self, _place: Place, _report: &Report, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    /// Ends the workload before the summary; returns whether there is one.
    fn has_summary(&self, _spec: &Spec, _report: &Report, _messages: &Messages) -> bool {
        true
    }
}
