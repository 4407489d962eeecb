//! A statement that gives a source, in a range of versions.

/// A source in a range of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    pub source: &'static str,
    /// First major version.
    pub from: i32,
    pub to: i32,
    /// Seconds from one answer to the next.
    pub every_s: u64,
    pub sql: &'static str,
}

pub(super) const OLDEST: i32 = 10;
/// No end yet.
pub(super) const NEWEST: i32 = i32::MAX;
