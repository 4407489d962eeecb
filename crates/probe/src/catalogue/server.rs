//! What PostgreSQL says of itself.

use super::Source;

pub(super) const SOURCES: &[&Source] = &[];
