//! Makes rows in COPY's text format, at about the cost of copying them.

use super::Table;
use crate::random_values::push_number;

/// Writes the rows of a table in the order of their keys.
///
/// It keeps the next row as text. From one row to the next only the last digits of the key change,
/// so it increments them in place; the rest is rebuilt once for each branch.
#[derive(Debug)]
pub struct RowWriter {
    table: Table,
    /// Number of rows before the next one.
    rows: u64,
    /// The next row, with its line end.
    row: Vec<u8>,
    key_digits: usize,
}

impl RowWriter {
    /// Begins after this many rows.
    pub fn new(table: Table, rows: u64) -> Self {
        let mut writer = Self { table, rows, row: Vec::with_capacity(64), key_digits: 0 };
        writer.make_row();
        writer
    }

    /// Appends the next `count` rows.
    pub fn append(&mut self, count: u64, out: &mut Vec<u8>) {
        let end = self.rows + count;
        while self.rows < end {
            let rows_a_branch = self.table.rows_a_branch();
            let branch_end = (self.rows / rows_a_branch + 1) * rows_a_branch;
            let run_end = end.min(branch_end);
            for _ in self.rows..run_end {
                out.extend_from_slice(&self.row);
                self.count_up();
            }
            self.rows = run_end;
            if run_end == branch_end {
                self.make_row();
            }
        }
    }

    fn count_up(&mut self) {
        for digit in self.row[..self.key_digits].iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return;
            }
            *digit = b'0';
        }
        // all nines became zeros, so the key has one digit more
        self.row.insert(0, b'1');
        self.key_digits += 1;
    }

    /// Builds the next row from its number. The filler of accounts is blank instead of null: with
    /// it a row has the size that TPC-B requires.
    fn make_row(&mut self) {
        let branch = self.rows / self.table.rows_a_branch() + 1;
        self.row.clear();
        push_number(self.rows + 1, &mut self.row);
        self.key_digits = self.row.len();
        if self.table != Table::Branches {
            self.row.push(b'\t');
            push_number(branch, &mut self.row);
        }
        self.row.extend_from_slice(match self.table {
            Table::Branches | Table::Tellers => b"\t0\t\\N\n",
            Table::Accounts => b"\t0\t\n",
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows formatted one by one, as pgbench does.
    fn expected(table: Table, rows: std::ops::Range<u64>) -> String {
        rows.map(|row| match table {
            Table::Branches => format!("{}\t0\t\\N\n", row + 1),
            Table::Tellers => format!("{}\t{}\t0\t\\N\n", row + 1, row / 10 + 1),
            Table::Accounts => format!("{}\t{}\t0\t\n", row + 1, row / 100_000 + 1),
        })
        .collect()
    }

    #[test]
    fn rows_are_pgbenchs_whatever_the_pieces_and_the_first_row() {
        for (table, rows) in [(Table::Branches, 1_234), (Table::Tellers, 12_345), (Table::Accounts, 1_200_000)] {
            let mut out = Vec::new();
            RowWriter::new(table, 0).append(rows, &mut out);
            assert!(out == expected(table, 0..rows).as_bytes(), "{table:?}");
        }
        let mut whole = Vec::new();
        RowWriter::new(Table::Accounts, 0).append(300_001, &mut whole);
        let mut out = Vec::new();
        let mut writer = RowWriter::new(Table::Accounts, 0);
        for count in [0, 1, 8, 90, 99_900, 1, 0, 99_999, 100_001, 1] {
            writer.append(count, &mut out);
        }
        assert!(out == whole);
        for (table, first) in [
            (Table::Branches, 9),
            (Table::Tellers, 99),
            (Table::Tellers, 105),
            (Table::Accounts, 99_999),
            (Table::Accounts, 100_000),
            (Table::Accounts, 999_950),
            (Table::Accounts, 1_234_567),
        ] {
            let mut out = Vec::new();
            RowWriter::new(table, first).append(100_100, &mut out);
            assert!(out == expected(table, first..first + 100_100).as_bytes(), "{table:?} {first}");
        }
        for number in [0, 1, 9, 10, 99, 100, 2_147_483_648, u64::MAX] {
            let mut out = b"before ".to_vec();
            push_number(number, &mut out);
            assert_eq!(out, format!("before {number}").as_bytes());
        }
    }
}
