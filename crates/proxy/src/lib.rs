//! A proxy between clients and a PostgreSQL server that records what a replay needs.
//!
//! The bytes of a session pass unchanged, except for mechanisms of SCRAM that are bound to the channel. Sessions are
//! opened in threads of their own ([`opening`]) and relayed by a few workers ([`worker`]); a [`tracker::Tracker`] follows
//! the messages of a session without input or output, and a [`recorder`] writes the records of all of them.

mod framer;
mod listener;
mod opening;
mod record;
mod recorder;
mod requests;
mod session;
mod tracker;
mod worker;

pub use listener::{Control, Options, ProxyError, Summary, run};
