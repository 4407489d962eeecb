//! Replays a captured load: reads a replay file, and drives the engine's clients by it.
//!
//! ```text
//! file → ReplayFile (one scan: texts, classes, places of sessions)
//!          └ SessionReader (one per running session, a buffer at a time) → Statement
//! Replay → SessionDriver (one per client) → Tally → Outcome
//!            └ Slots (shared): values of answers, which later statements send
//! ```

mod driver;
mod error;
mod lines;
mod outcome;
mod pace_and_patience;
mod prepared_names;
mod replay;
mod replay_file;
mod session_reader;
mod slots;
mod statement;

#[cfg(test)]
mod tests;

pub use error::ReplayError;
pub use outcome::{Divergence, KINDS, Outcome, Tally};
pub use pace_and_patience::Pace;
pub use replay::Replay;
pub use replay_file::{Header, ReplayFile};
pub use session_reader::check;
