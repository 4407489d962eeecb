//! How long a message of the server may be, and how much of one is kept.

/// Longest body of a row, an error or a notice: the most that PostgreSQL can allocate.
pub const MAX_MESSAGE_BYTES: u32 = 0x3fff_ffff;
/// Longest message of every other kind (libpq's limit).
pub const MAX_SHORT_MESSAGE_BYTES: u32 = 30_000;
/// How much of an error or a notice is kept; the rest is skipped.
pub const MAX_ERROR_BYTES: u32 = 64 * 1024;
