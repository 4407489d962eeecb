//! What a dataset is to the loader: tables, statements, and rows that can be made in any order.

use std::ops::Range;

/// A dataset: everything that a load has to know.
///
/// Its rows are a function of its options alone: two loads of equal [`Dataset::identity`] give the
/// same tables, whatever the number of workers and wherever one of them was broken off.
pub trait Dataset: Sync {
    /// Its name, as `--dataset` has it.
    fn name(&self) -> &'static str;
    /// Version of its rows and tables: rises whenever the same options give something else.
    fn version(&self) -> u32;
    /// Size, in the dataset's own unit.
    fn scale(&self) -> u64;
    /// What its random values come from; None when it has none.
    fn seed(&self) -> Option<u64>;
    /// All options that decide what is made, resolved, by their names on the command line.
    fn options(&self) -> Vec<(&'static str, String)>;
    /// Whether rows are gone after a crash of the server.
    fn is_unlogged(&self) -> bool;

    /// Tables, in the order in which they are filled.
    fn tables(&self) -> Vec<Table>;
    /// Makes the rows of some units of a table, which is named by its place in
    /// [`Dataset::tables`].
    fn rows(&self, table: usize, units: Range<u64>) -> Box<dyn RowSource + '_>;

    /// Drops what an earlier load left.
    fn drop_tables(&self) -> Vec<String>;
    /// Makes tables, without their partitions.
    fn create_tables(&self) -> Vec<String>;
    /// Makes partitions.
    fn create_partitions(&self) -> Vec<String>;
    /// Empties all tables, in one statement: foreign keys do not matter then.
    fn truncate(&self) -> String;
    /// Statements that make all rows in the server, in order; None when it cannot.
    fn insert_selects(&self) -> Option<Vec<String>>;
    /// What is to be done when all rows are there, in the transaction of the last of them if that
    /// is one: sequences.
    fn after_rows(&self) -> Vec<String>;
    /// Vacuums.
    fn vacuum(&self, manner: Manner) -> Stages;
    /// Makes primary keys and indexes.
    fn primary_keys(&self, manner: Manner) -> Stages;
    /// Makes foreign keys; None when the dataset has none.
    fn foreign_keys(&self) -> Option<Stages>;
}

/// Statements: one stage after the other, those of a stage in any order and at once.
pub type Stages = Vec<Vec<String>>;

/// How tables are filled, which decides what is to be done with them afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// As pgbench does it: one statement after the other, tables as wholes.
    Serial,
    /// Over several connections: partitions are worked on by themselves.
    Parallel,
}

/// Statements that need not wait for each other: one after the other, or all in one stage.
pub(crate) fn in_manner(manner: Manner, statements: Vec<String>) -> Stages {
    match manner {
        Manner::Serial => statements.into_iter().map(|sql| vec![sql]).collect(),
        Manner::Parallel => vec![statements],
    }
}

/// Makes rows in COPY's text format.
pub trait RowSource {
    /// Appends at most about `most` rows to `out`, whole ones; gives how many, 0 when none are
    /// left.
    fn append(&mut self, most: u64, out: &mut Vec<u8>) -> u64;
}

/// A table that is filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The smallest pieces into which its rows can be cut, counted from 0: rows, warehouses.
    pub units: u64,
    /// Rows that a unit has, about; exact when [`Table::exact`] says so.
    pub rows_a_unit: u64,
    /// Whether all units have just so many rows: then the load checks their sum.
    pub exact: bool,
    /// Tables of a higher stage are begun when all of the lower ones are filled.
    pub stage: u32,
    /// Relations that rows go to, with units for which they are: more than one when the loader can
    /// tell partitions apart, else the table itself.
    pub parts: Vec<Part>,
}

/// A relation and the units of its table that belong into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Name of the relation.
    pub relation: String,
    /// The units.
    pub units: Range<u64>,
}

impl Table {
    /// A table of exactly so many rows, each a unit, without partitions.
    #[must_use]
    pub fn of_rows(name: impl Into<String>, rows: u64, stage: u32) -> Self {
        let name = name.into();
        let part = Part {
            relation: name.clone(),
            units: 0..rows,
        };
        Self {
            name,
            units: rows,
            rows_a_unit: 1,
            exact: true,
            stage,
            parts: vec![part],
        }
    }

    /// Rows of each part, about.
    pub fn part_rows(&self) -> impl Iterator<Item = u64> {
        let parts = self.parts.iter();
        parts.map(|part| (part.units.end - part.units.start) * self.rows_a_unit)
    }

    /// Rows that it will have, about.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.units * self.rows_a_unit
    }
}
