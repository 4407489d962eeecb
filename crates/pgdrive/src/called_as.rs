//! What depends on the program's name.

use std::time::Duration;

use pgdyno_engine::spec::{Preparing, Window};

/// The version of PostgreSQL whose pgbench this program implements.
pub const PGBENCH_VERSION: &str = "18.0";

/// The name under which the program was started, which may be a link or a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CalledAs {
    /// pgdrive: errors are reported with SQLSTATE and statement, and durations may have decimals.
    #[default]
    Pgdrive,
    /// pgbench: output and errors are exactly pgbench's.
    Pgbench,
}

impl CalledAs {
    pub fn of(program: &str) -> Self {
        if program == "pgbench" { Self::Pgbench } else { Self::Pgdrive }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Pgdrive => "pgdrive",
            Self::Pgbench => "pgbench",
        }
    }

    /// How long busy clients are waited for after the end of a run; pgbench has no limit.
    pub fn drain_limit(self) -> Option<Duration> {
        match self {
            Self::Pgdrive => Some(Duration::from_secs(60)),
            Self::Pgbench => None,
        }
    }

    /// When statements are prepared (-M prepared); pgbench does it before their first execution.
    pub fn preparing(self) -> Preparing {
        match self {
            Self::Pgdrive => Preparing::WithFirstUse,
            Self::Pgbench => Preparing::Ahead,
        }
    }

    /// By what throughput is divided.
    pub fn window(self) -> Window {
        match self {
            Self::Pgdrive => Window::Planned,
            Self::Pgbench => Window::ToLastTransaction,
        }
    }

    pub fn version(self) -> String {
        match self {
            Self::Pgdrive => format!("pgdrive (pgdyno) {}\n", env!("CARGO_PKG_VERSION")),
            Self::Pgbench => format!("pgbench (PostgreSQL) {PGBENCH_VERSION}\n"),
        }
    }

    pub fn banner(self, server: &str) -> String {
        match self {
            Self::Pgdrive => {
                format!("pgdrive ({}, server {server})", env!("CARGO_PKG_VERSION"))
            }
            // pgbench prints this if both have the same version
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
