//! pgbench's tables as a dataset.

use std::ops::Range;

use super::{DROP, FOREIGN_KEYS, Method, Persistence, RowWriter, Schema, TRUNCATE, Table, VACUUM};
use crate::dataset::{self, Dataset, Description, Manner, Part, RowSource, Stages};

impl Dataset for Schema {
    fn description(&self) -> Description {
        let is_unlogged = self.persistence == Persistence::Unlogged;
        let mut options = vec![
            ("scale", self.scale.to_string()),
            ("fillfactor", self.fillfactor.to_string()),
            ("unlogged-tables", is_unlogged.to_string()),
        ];
        if let Some(partitions) = self.partitions {
            options.push(("partitions", partitions.count.to_string()));
            options.push(("partition-method", partitions.method.name().to_owned()));
        }
        let spaces = [("tablespace", &self.tablespace), ("index-tablespace", &self.index_tablespace)];
        for (name, space) in spaces {
            options.extend(space.iter().map(|space| (name, space.clone())));
        }
        Description { name: "pgbench", version: 1, scale: self.scale.into(), seed: None, options, is_unlogged }
    }

    fn tables(&self) -> Vec<dataset::Table> {
        let tables = Table::ALL.iter().map(|table| {
            // foreign keys may exist already: accounts and tellers refer to branches
            let stage = u32::from(*table != Table::Branches);
            let mut made = dataset::Table::of_rows(table.name(), table.rows(self.scale), stage);
            if *table == Table::Accounts
                && let Some(parts) = self.account_parts()
            {
                made.parts = parts;
            }
            made
        });
        tables.collect()
    }

    fn rows(&self, table: usize, units: Range<u64>) -> Box<dyn RowSource + '_> {
        Box::new(GeneratedRows {
            writer: RowWriter::new(Table::ALL[table], units.start),
            left: units.end - units.start,
        })
    }

    fn drop_tables(&self) -> Vec<String> {
        vec![DROP.to_owned()]
    }

    fn create_tables(&self) -> Vec<String> {
        Schema::create_tables(self)
    }

    fn create_partitions(&self) -> Vec<String> {
        Schema::create_partitions(self).collect()
    }

    fn truncate(&self) -> String {
        TRUNCATE.to_owned()
    }

    fn insert_selects(&self) -> Option<Vec<String>> {
        let all = Table::ALL.iter();
        Some(all.map(|table| table.insert_select(self.scale)).collect())
    }

    fn vacuum(&self, manner: Manner) -> Stages {
        match manner {
            Manner::Serial => VACUUM.map(|sql| vec![sql.to_owned()]).into(),
            Manner::Parallel => self.vacuum_at_once(),
        }
    }

    fn primary_keys(&self, manner: Manner) -> Stages {
        let whole = Schema::primary_keys(self);
        match (manner, self.partitions) {
            (Manner::Serial, _) => whole.into_iter().map(|sql| vec![sql]).collect(),
            (Manner::Parallel, None) => vec![whole],
            (Manner::Parallel, Some(partitions)) => {
                // the primary key of the whole table reuses those of its partitions
                let mut small = whole;
                let accounts = small.split_off(2);
                small.extend((1..=partitions.count).map(|number| self.partition_key(number)));
                vec![small, accounts]
            }
        }
    }

    fn foreign_keys(&self) -> Option<Stages> {
        // each of them takes a lock on pgbench_branches or pgbench_history that excludes the next one
        Some(FOREIGN_KEYS.map(|sql| vec![sql.to_owned()]).into())
    }
}

impl Schema {
    fn vacuum_at_once(&self) -> Stages {
        let vacuum = |table: &str| Manner::Parallel.vacuum(table);
        let mut statements: Vec<_> = ["pgbench_branches", "pgbench_tellers", "pgbench_history"].map(vacuum).into();
        match self.partitions {
            None => {
                // the longest statement first
                statements.insert(0, vacuum("pgbench_accounts"));
                vec![statements]
            }
            Some(partitions) => {
                // analyzing the whole table analyzes its partitions, too
                let names = (1..=partitions.count).map(partition);
                statements.splice(0..0, names.map(|name| format!("vacuum (freeze) {name}")));
                vec![statements, vec!["analyze pgbench_accounts".to_owned()]]
            }
        }
    }

    /// The rows of each partition; None if only the server can tell.
    fn account_parts(&self) -> Option<Vec<Part>> {
        let partitions = self.partitions.filter(|partitions| partitions.method == Method::Range)?;
        let rows = Table::Accounts.rows(self.scale);
        let bound = |number: u32| (self.partition_rows(partitions.count) * u64::from(number)).min(rows);
        let part = |number| Part { relation: partition(number), units: bound(number - 1)..bound(number) };
        Some((1..=partitions.count).map(part).collect())
    }
}

/// Name of partition `number`, counted from 1.
fn partition(number: u32) -> String {
    format!("pgbench_accounts_{number}")
}

struct GeneratedRows {
    writer: RowWriter,
    left: u64,
}

impl RowSource for GeneratedRows {
    fn append(&mut self, most: u64, out: &mut Vec<u8>) -> u64 {
        let rows = most.min(self.left);
        self.writer.append(rows, out);
        self.left -= rows;
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::cut;
    use crate::pgbench::Partitions;

    #[test]
    fn chunks_make_the_rows_of_a_whole() {
        let schema = Schema::plain(3, None);
        let mut whole = Vec::new();
        RowWriter::new(Table::Accounts, 0).append(300_000, &mut whole);
        let mut pieces = Vec::new();
        for chunk in cut(&schema.tables(), 70_001).iter().filter(|chunk| chunk.table == 2) {
            let mut rows = schema.rows(chunk.table, chunk.units.clone());
            while rows.append(9_999, &mut pieces) > 0 {}
        }
        assert!(pieces == whole);
    }

    #[test]
    fn ranges_are_those_of_the_server() {
        for (scale, count) in [(1, 3), (7, 1), (2, 64), (1, 99_999), (1, 100_001)] {
            let method = Method::Range;
            let schema = Schema::plain(scale, Some(Partitions { method, count }));
            let parts = schema.account_parts().expect("ranges");
            assert_eq!(parts.len(), count as usize);
            let statements: Vec<_> = Schema::create_partitions(&schema).collect();
            for (part, sql) in parts.iter().zip(&statements) {
                assert!(sql.starts_with(&format!("create table {} ", part.relation)));
                // account numbers begin with 1
                let from = format!("from ({}) to", part.units.start + 1);
                assert!(sql.contains(&from) || part.units.start == 0 || part.units.is_empty(), "{sql}");
            }
            assert_eq!(parts[parts.len() - 1].units.end, u64::from(scale) * 100_000);
        }
        let hash = Method::Hash;
        assert_eq!(Schema::plain(1, Some(Partitions { method: hash, count: 4 })).tables()[2].parts.len(), 1);
    }
}
