//! TPC-C: its checks, and its load.

pub mod check;
