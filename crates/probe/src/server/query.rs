//! A statement for a source, in a range of versions.

/// A source in a range of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    pub source: &'static str,
    /// The first major version.
    pub from: i32,
    pub to: i32,
    /// Seconds between two answers.
    pub every_s: u64,
    pub sql: &'static str,
}

pub(super) const OLDEST: i32 = 10;
/// No last version yet.
pub(super) const NEWEST: i32 = i32::MAX;
