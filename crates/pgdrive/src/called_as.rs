//! What the program's own name decides.

use std::time::Duration;

use pgdyno_engine::spec::{Preparing, Window};

/// The version of PostgreSQL whose pgbench this is, for those who ask.
pub const PGBENCH_VERSION: &str = "18.0";

/// Under which name the program was started (a link or a copy may have another).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CalledAs {
    /// Ours: errors come with SQLSTATE and statement, durations may have decimals.
    #[default]
    Pgdrive,
    /// pgbench: what it prints and refuses is pgbench's, to the letter.
    Pgbench,
}

impl CalledAs {
    /// By the program's name without its folder.
    #[must_use]
    pub fn of(program: &str) -> Self {
        if program == "pgbench" {
            Self::Pgbench
        } else {
            Self::Pgdrive
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pgdrive => "pgdrive",
            Self::Pgbench => "pgbench",
        }
    }

    /// How long after the end of a run busy clients are waited for; pgbench waits for ever.
    #[must_use]
    pub fn drain_limit(self) -> Option<Duration> {
        match self {
            Self::Pgdrive => Some(Duration::from_secs(60)),
            Self::Pgbench => None,
        }
    }

    /// When statements are prepared (-M prepared); pgbench waits for that first.
    #[must_use]
    pub fn preparing(self) -> Preparing {
        match self {
            Self::Pgdrive => Preparing::WithFirstUse,
            Self::Pgbench => Preparing::Ahead,
        }
    }

    /// What throughput divides by.
    #[must_use]
    pub fn window(self) -> Window {
        match self {
            Self::Pgdrive => Window::Planned,
            Self::Pgbench => Window::ToLastTransaction,
        }
    }

    /// The line of --version.
    #[must_use]
    pub fn version(self) -> String {
        match self {
            Self::Pgdrive => format!("pgdrive (pgdyno) {}\n", env!("CARGO_PKG_VERSION")),
            Self::Pgbench => format!("pgbench (PostgreSQL) {PGBENCH_VERSION}\n"),
        }
    }

    /// The first line of a load.
    #[must_use]
    pub fn banner(self, server: &str) -> String {
        match self {
            Self::Pgdrive => {
                format!("pgdrive ({}, server {server})", env!("CARGO_PKG_VERSION"))
            }
            // as pgbench says it when both are of one version
            Self::Pgbench if server.split(' ').next() == Some(PGBENCH_VERSION) => {
                format!("pgbench ({PGBENCH_VERSION})")
            }
            Self::Pgbench => format!("pgbench ({PGBENCH_VERSION}, server {server})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_called_pgbench_is_one() {
        let name = CalledAs::of("pgbench");
        assert_eq!(name.version(), "pgbench (PostgreSQL) 18.0\n");
        assert_eq!(name.banner("15.3"), "pgbench (18.0, server 15.3)");
        assert_eq!(name.banner("18.0 (Debian)"), "pgbench (18.0)");
        assert_eq!(CalledAs::of("pgdrive"), CalledAs::Pgdrive);
        assert!(CalledAs::Pgdrive.banner("18.1").ends_with(", server 18.1)"));
    }
}
