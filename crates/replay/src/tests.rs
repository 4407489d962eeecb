//! Tests of files and clients, and the replay files that the crate's tests share.

mod driver;
mod file;
pub mod samples;
