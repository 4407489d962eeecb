//! Makes rows of sysbench's tables in COPY's text format.

use std::ops::Range;

use super::Sbtest;
use crate::dataset::RowSource;
use crate::random_values::{mix, push_number};

/// The most values drawn for a row: column `k` needs 13, and each group of digits one.
const DRAWS_A_ROW: u64 = 32;
/// The number of the first draw for groups of digits.
const FIRST_GROUP: u64 = 16;
/// The numbers of groups in columns `c` and `pad`.
const GROUPS: [u64; 2] = [10, 5];
const GROUP_DIGITS: usize = 11;
const GROUP_VALUES: u128 = 100_000_000_000;

/// Makes rows. Every value depends only on seed, table, row and column.
pub(super) struct RowWriter {
    table_size: u32,
    stream: u64,
    units: Range<u64>,
}

impl RowWriter {
    /// Makes the rows `units`, counted from 0, of a table, counted from 0.
    pub fn new(dataset: &Sbtest, table: u64, units: Range<u64>) -> Self {
        Self { table_size: dataset.table_size, stream: mix(mix(dataset.seed).wrapping_add(table)), units }
    }

    fn row(&self, row: u64, out: &mut Vec<u8>) {
        push_number(row + 1, out);
        out.push(b'\t');
        push_number(self.k(row), out);
        let mut draw = FIRST_GROUP;
        for groups in GROUPS {
            let mut before = b'\t';
            for _ in 0..groups {
                out.push(before);
                before = b'-';
                let value = (u128::from(self.draw(row, draw)) * GROUP_VALUES) >> 64;
                push_group(value as u64, out);
                draw += 1;
            }
        }
        out.push(b'\n');
    }

    /// sysbench's distribution `special`, the default of its 1.0, with its parameters: three
    /// quarters of the values are uniform in the middle hundredth of the range, the others are
    /// means of 12 uniform ones. (`sb_rand_special` in `sb_rand.c`; as there, one draw makes both
    /// the choice and the value in the middle, whose lowest quarter is therefore empty.)
    fn k(&self, row: u64) -> u64 {
        let range = f64::from(self.table_size) - 1.0;
        let first = uniform(self.draw(row, 0));
        let offset = if first < 0.25 {
            let sum: f64 = (1..=12).map(|draw| uniform(self.draw(row, draw))).sum();
            sum / 12.0 * range
        } else {
            first * (range / 100.0 + 1.0) + range / 2.0 - range / 200.0
        };
        1 + offset as u64
    }

    /// Draw number `draw` of a row: splitmix64 at any position of its sequence.
    fn draw(&self, row: u64, draw: u64) -> u64 {
        mix(self.stream.wrapping_add(row * DRAWS_A_ROW + draw))
    }
}

impl RowSource for RowWriter {
    fn append(&mut self, most: u64, out: &mut Vec<u8>) -> u64 {
        let end = self.units.end.min(self.units.start.saturating_add(most));
        let rows = self.units.start..end;
        self.units.start = end;
        let count = rows.end - rows.start;
        rows.for_each(|row| self.row(row, out));
        count
    }
}

/// A number in [0, 1).
fn uniform(draw: u64) -> f64 {
    (draw >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

fn push_group(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; GROUP_DIGITS];
    for digit in digits.iter_mut().rev() {
        *digit += (value % 10) as u8;
        value /= 10;
    }
    out.extend_from_slice(&digits);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sbtest(seed: u64) -> Sbtest {
        Sbtest { tables: 2, table_size: 100_000, seed }
    }

    fn text(dataset: &Sbtest, table: u64, units: Range<u64>, most: u64) -> String {
        let mut out = Vec::new();
        let mut rows = RowWriter::new(dataset, table, units);
        while rows.append(most, &mut out) > 0 {}
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn columns_are_sysbenchs() {
        for (number, line) in text(&sbtest(1), 0, 0..1_000, 77).lines().enumerate() {
            let columns: Vec<&str> = line.split('\t').collect();
            let [id, k, c, pad] = columns[..] else { panic!("{line}") };
            assert_eq!(id, (number + 1).to_string());
            assert!((1..=100_000).contains(&k.parse::<u32>().expect("a number")));
            assert_eq!((c.len(), pad.len()), (119, 59));
            for (column, groups) in [(c, 10), (pad, 5)] {
                let all: Vec<&str> = column.split('-').collect();
                assert_eq!(all.len(), groups);
                let digits = |group: &&str| group.bytes().all(|byte| byte.is_ascii_digit());
                assert!(all.iter().all(|group| group.len() == 11 && digits(group)));
            }
        }
    }

    #[test]
    fn rows_depend_on_seed_and_table_and_not_on_the_cut() {
        let whole = text(&sbtest(7), 1, 0..5_000, u64::MAX);
        let pieces = [0..1, 1..1, 1..1_234, 1_234..5_000];
        assert!(whole == pieces.map(|units| text(&sbtest(7), 1, units, 100)).concat());
        let one = text(&sbtest(7), 0, 0..100, 100);
        for other in [text(&sbtest(8), 0, 0..100, 100), text(&sbtest(7), 1, 0..100, 100)] {
            assert!(one.lines().zip(other.lines()).all(|(a, b)| a != b));
        }
    }

    #[test]
    fn digits_are_even_and_k_is_special() {
        let text = text(&sbtest(3), 0, 0..2_000, 1_000);
        let mut counts = [0u32; 10];
        for line in text.lines() {
            let digits = line.split('\t').nth(2).expect("c").bytes();
            digits.filter(u8::is_ascii_digit).for_each(|digit| counts[usize::from(digit - b'0')] += 1);
        }
        // 22,000 expected; the standard deviation is 141
        assert!(counts.iter().all(|count| count.abs_diff(22_000) < 900), "{counts:?}");
        let dataset = sbtest(5);
        let rows = RowWriter::new(&dataset, 0, 0..0);
        let middle = (0..20_000).map(|row| rows.k(row)).filter(|k| (49_500..=50_502).contains(k));
        let share = middle.count() as f64 / 20_000.0;
        // three quarters, plus the part of the other values that falls into the middle hundredth
        assert!((0.75..0.80).contains(&share), "{share}");
    }
}
