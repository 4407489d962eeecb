//! The steps of a load, one after the other.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgdyno_connect::{Session, SessionError};

use crate::pgbench::{self, Table};

/// Rows between two looks at the clock and the stop flag.
const BATCH: u64 = 10_000;

/// One step, named by pgbench's letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// `d`
    Drop,
    /// `t`
    CreateTables,
    /// `g`: rows made here and sent by COPY.
    GenerateHere,
    /// `G`: rows made by the server.
    GenerateInServer,
    /// `v`
    Vacuum,
    /// `p`
    PrimaryKeys,
    /// `f`
    ForeignKeys,
}

impl Step {
    /// The step with this letter.
    #[must_use]
    pub fn from_letter(letter: char) -> Option<Self> {
        Some(match letter {
            'd' => Self::Drop,
            't' => Self::CreateTables,
            'g' => Self::GenerateHere,
            'G' => Self::GenerateInServer,
            'v' => Self::Vacuum,
            'p' => Self::PrimaryKeys,
            'f' => Self::ForeignKeys,
            _ => return None,
        })
    }

    /// What is said while it runs.
    #[must_use]
    pub fn progress(self) -> &'static str {
        match self {
            Self::Drop => "dropping old tables...",
            Self::CreateTables => "creating tables...",
            Self::GenerateHere => "generating data (client-side)...",
            Self::GenerateInServer => "generating data (server-side)...",
            Self::Vacuum => "vacuuming...",
            Self::PrimaryKeys => "creating primary keys...",
            Self::ForeignKeys => "creating foreign keys...",
        }
    }

    /// What it is called in the line of times.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Drop => "drop tables",
            Self::CreateTables => "create tables",
            Self::GenerateHere => "client-side generate",
            Self::GenerateInServer => "server-side generate",
            Self::Vacuum => "vacuum",
            Self::PrimaryKeys => "primary keys",
            Self::ForeignKeys => "foreign keys",
        }
    }
}

/// How far a table is filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// The table.
    pub table: Table,
    /// Rows sent.
    pub rows: u64,
    /// Rows that it will have.
    pub rows_total: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Since the table was begun.
    pub elapsed: Duration,
}

/// Is told how the load goes.
pub trait Watcher {
    /// A step begins.
    fn step(&mut self, step: Step);
    /// Rows were sent.
    fn rows(&mut self, rows: &Rows);
}

/// Why a load ended early.
#[derive(Debug)]
pub enum LoadError {
    /// The server refused a statement, or went away.
    Session {
        /// What was being done.
        doing: &'static str,
        /// What it said.
        error: SessionError,
    },
    /// Told to stop.
    Interrupted,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session { doing, error } => write!(f, "{doing} failed: {error}"),
            Self::Interrupted => f.write_str("interrupted; the tables are not complete"),
        }
    }
}

impl std::error::Error for LoadError {}

/// Carries out `steps` at `scale` and says how long each took.
///
/// # Errors
/// At the first statement that fails; what was committed stays.
pub fn initialize(
    session: &mut Session,
    scale: u32,
    fillfactor: Option<u32>,
    steps: &[Step],
    stop: &AtomicBool,
    watcher: &mut impl Watcher,
) -> Result<Vec<(Step, Duration)>, LoadError> {
    let mut times = Vec::new();
    for &step in steps {
        let started = Instant::now();
        watcher.step(step);
        let in_step = |error| LoadError::Session {
            doing: step.name(),
            error,
        };
        match step {
            Step::Drop => execute(session, &[pgbench::DROP], stop, in_step)?,
            Step::CreateTables => execute(
                session,
                &pgbench::create_tables(scale, fillfactor),
                stop,
                in_step,
            )?,
            Step::GenerateHere => generate_here(session, scale, stop, watcher, in_step)?,
            Step::GenerateInServer => {
                let mut statements = vec!["begin".to_owned(), pgbench::TRUNCATE.to_owned()];
                statements.extend(Table::ALL.map(|table| table.insert_select(scale)));
                statements.push("commit".to_owned());
                execute(session, &statements, stop, in_step)?;
            }
            Step::Vacuum => execute(session, &pgbench::VACUUM, stop, in_step)?,
            Step::PrimaryKeys => execute(session, &pgbench::PRIMARY_KEYS, stop, in_step)?,
            Step::ForeignKeys => execute(session, &pgbench::FOREIGN_KEYS, stop, in_step)?,
        }
        times.push((step, started.elapsed()));
    }
    Ok(times)
}

fn execute(
    session: &mut Session,
    statements: &[impl AsRef<str>],
    stop: &AtomicBool,
    in_step: impl Fn(SessionError) -> LoadError,
) -> Result<(), LoadError> {
    for statement in statements {
        if stop.load(Ordering::Relaxed) {
            return Err(LoadError::Interrupted);
        }
        session.execute(statement.as_ref()).map_err(&in_step)?;
    }
    Ok(())
}

/// Truncates and fills in one transaction, so that rows can be written frozen (from PostgreSQL 14
/// on, which does not lose the visibility map with it).
fn generate_here(
    session: &mut Session,
    scale: u32,
    stop: &AtomicBool,
    watcher: &mut impl Watcher,
    in_step: impl Fn(SessionError) -> LoadError + Copy,
) -> Result<(), LoadError> {
    let freeze = if session.server_version_num >= 140_000 {
        " with (freeze on)"
    } else {
        ""
    };
    execute(session, &["begin", pgbench::TRUNCATE], stop, in_step)?;
    for table in Table::ALL {
        let sql = format!("copy {} from stdin{freeze}", table.name());
        copy(session, &sql, table, scale, stop, watcher, in_step)?;
    }
    execute(session, &["commit"], stop, in_step)
}

fn copy(
    session: &mut Session,
    sql: &str,
    table: Table,
    scale: u32,
    stop: &AtomicBool,
    watcher: &mut impl Watcher,
    in_step: impl Fn(SessionError) -> LoadError,
) -> Result<(), LoadError> {
    let started = Instant::now();
    let rows_total = table.rows(scale);
    let mut copy = session.copy_in(sql).map_err(&in_step)?;
    let mut buffer = Vec::new();
    let (mut rows, mut bytes) = (0, 0);
    while rows < rows_total {
        if stop.load(Ordering::Relaxed) {
            return Err(LoadError::Interrupted);
        }
        let until = (rows + BATCH).min(rows_total);
        buffer.clear();
        (rows..until).for_each(|row| table.write_row(row, &mut buffer));
        copy.write(&buffer).map_err(&in_step)?;
        rows = until;
        bytes += buffer.len() as u64;
        watcher.rows(&Rows {
            table,
            rows,
            rows_total,
            bytes,
            elapsed: started.elapsed(),
        });
    }
    copy.finish().map_err(&in_step)?;
    Ok(())
}
