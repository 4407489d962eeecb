//! What a command line requests, or its error.

use super::benchmark_options::Benchmark;
use super::initialize_options::Initialize;
use super::option_values::Information;
use super::proxy_options::ProxyChoice;
use super::query_choice::TpchQueries;
use super::tpcc_options::TpccCheck;
use crate::messages::Failure;

#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    Information(Information),
    Initialize(Box<Initialize>),
    TpccCheck(TpccCheck),
    TpchQueries(TpchQueries),
    Proxy(Box<ProxyChoice>),
    Benchmark(Box<Benchmark>),
}

/// A usage error, with or without "Try --help".
#[derive(Debug)]
pub enum UsageError {
    Getopt(String),
    Failure(Failure),
}

impl From<Failure> for UsageError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}
