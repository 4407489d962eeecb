//! What a command line asks for, or what is wrong with it.

use super::benchmark_options::Benchmark;
use super::initialize_options::Initialize;
use super::option_values::Information;
use super::tpcc_options::TpccCheck;
use crate::messages::Failure;

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// `--help` and the like
    Information(Information),
    /// `-i`
    Initialize(Box<Initialize>),
    /// `--tpcc-check` without `-i`
    TpccCheck(TpccCheck),
    Benchmark(Box<Benchmark>),
}

/// A usage error: with or without "Try --help".
#[derive(Debug)]
pub enum UsageError {
    /// Said by getopt.
    Getopt(String),
    /// Said by us.
    Failure(Failure),
}

impl From<Failure> for UsageError {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}
