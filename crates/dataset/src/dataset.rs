//! The loader's view of a dataset: tables, statements, and rows that can be made in any order.

use std::ops::Range;

/// What a dataset contains: two loads with the same name, version and options create the same tables, whatever the
/// number of workers, and even if one of them was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Name of the dataset in `--dataset`.
    pub name: &'static str,
    /// Version of its rows and tables: increases whenever the same options give another result.
    pub version: u32,
    /// Size, in the dataset's own unit.
    pub scale: u64,
    /// Seed of the random values; None if there are none.
    pub seed: Option<u64>,
    /// All options that determine the contents, resolved, by their names on the command line.
    pub options: Vec<(&'static str, String)>,
    /// Whether rows are lost after a crash of the server.
    pub is_unlogged: bool,
}

/// A dataset: everything that a load needs.
pub trait Dataset: Sync {
    fn description(&self) -> Description;

    /// Tables, in the order in which they are filled.
    fn tables(&self) -> Vec<Table>;
    /// Makes the rows of some units of a table, which is given by its index in [`Dataset::tables`].
    fn rows(&self, table: usize, units: Range<u64>) -> Box<dyn RowSource + '_>;

    /// Statements that drop the tables of an earlier load.
    fn drop_tables(&self) -> Vec<String>;
    /// Statements that create tables, without their partitions.
    fn create_tables(&self) -> Vec<String>;
    fn create_partitions(&self) -> Vec<String> {
        Vec::new()
    }

    /// The statement that empties all tables together, so that foreign keys do not matter.
    fn truncate(&self) -> String {
        let names: Vec<String> = self.tables().into_iter().map(|table| table.name).collect();
        format!("truncate table {}", names.join(", "))
    }

    /// Statements that make all rows in the server, in order; None if the server cannot make them.
    fn insert_selects(&self) -> Option<Vec<String>> {
        None
    }

    /// Statements for after the rows, such as those for sequences; they run in the transaction of
    /// the last rows if there is a single one.
    fn after_rows(&self) -> Vec<String> {
        Vec::new()
    }

    fn vacuum(&self, manner: Manner) -> Stages {
        in_manner(manner, self.tables().iter().map(|table| manner.vacuum(&table.name)).collect())
    }

    /// Statements that create primary keys and indexes.
    fn primary_keys(&self, manner: Manner) -> Stages;
    /// Statements that create foreign keys; None if the dataset has none.
    fn foreign_keys(&self) -> Option<Stages> {
        None
    }
}

/// Stages of statements, one after the other; the statements of a stage may run in any order and in parallel.
pub type Stages = Vec<Vec<String>>;

/// How tables are filled, which determines the later steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// As pgbench does it: one statement after the other, each table as a whole.
    Serial,
    /// Over several connections, with each partition separate.
    Parallel,
}

impl Manner {
    pub(crate) fn vacuum(self, table: &str) -> String {
        match self {
            Self::Serial => format!("vacuum analyze {table}"),
            Self::Parallel => format!("vacuum (freeze, analyze) {table}"),
        }
    }
}

/// Statements that are independent of each other: one after the other, or all in one stage.
pub(crate) fn in_manner(manner: Manner, statements: Vec<String>) -> Stages {
    match manner {
        Manner::Serial => statements.into_iter().map(|sql| vec![sql]).collect(),
        Manner::Parallel => vec![statements],
    }
}

/// Makes rows in COPY's text format.
pub trait RowSource {
    /// Appends at most about `most` whole rows to `out`; returns how many, 0 when none are left.
    fn append(&mut self, most: u64, out: &mut Vec<u8>) -> u64;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    pub name: String,
    /// Number of the smallest pieces into which its rows can be cut: rows or warehouses.
    pub units: u64,
    /// Rows of a unit: exact if [`Table::exact`], otherwise approximate.
    pub rows_a_unit: u64,
    /// Whether every unit has exactly that many rows: then the load checks the total.
    pub exact: bool,
    /// Tables of a higher stage begin after all tables of the lower ones are filled.
    pub stage: u32,
    /// The relations that receive rows, each with its units: several if the loader can distinguish
    /// partitions, otherwise the table itself.
    pub parts: Vec<Part>,
}

/// A relation and the units of the table that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub relation: String,
    /// The units that belong to the relation.
    pub units: Range<u64>,
}

impl Table {
    /// A table with exactly this many rows, each a unit, without partitions.
    pub fn of_rows(name: impl Into<String>, rows: u64, stage: u32) -> Self {
        let name = name.into();
        let part = Part { relation: name.clone(), units: 0..rows };
        Self { name, units: rows, rows_a_unit: 1, exact: true, stage, parts: vec![part] }
    }

    pub fn part_rows(&self) -> impl Iterator<Item = u64> {
        let parts = self.parts.iter();
        parts.map(|part| (part.units.end - part.units.start) * self.rows_a_unit)
    }

    /// Approximate number of rows of the table.
    pub fn rows(&self) -> u64 {
        self.units * self.rows_a_unit
    }
}
