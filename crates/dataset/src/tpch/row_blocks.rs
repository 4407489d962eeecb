//! Rows of the generator, block by block, in COPY's text format.

use std::fmt::Display;
use std::io::Write as _;
use std::ops::Range;

use crate::dataset::RowSource;

/// About how many rows the generator makes for a block.
const ROWS_A_BLOCK: u64 = 5_000;

/// The number of blocks of a table that is generated from this many rows for a hundredth of the
/// scale factor; 0 for a table of a fixed size.
pub(super) fn blocks(hundredths: u32, sources_a_hundredth: u64) -> u64 {
    (u64::from(hundredths) * sources_a_hundredth / ROWS_A_BLOCK).max(1)
}

/// The rows of some of a table's blocks. `open` begins a block, by its number from 1 and the number of all blocks.
pub(super) struct RowBlocks<O, I> {
    units: Range<u64>,
    of: u64,
    open: O,
    block: Option<I>,
}

impl<O, I> RowBlocks<O, I> {
    pub fn new(units: Range<u64>, of: u64, open: O) -> Self {
        Self { units, of, open, block: None }
    }
}

impl<O, I> RowSource for RowBlocks<O, I>
where
    O: FnMut(i32, i32) -> I,
    I: Iterator<Item: Display>,
{
    fn append(&mut self, most: u64, out: &mut Vec<u8>) -> u64 {
        let mut count = 0;
        while count < most {
            let row = self.block.as_mut().and_then(Iterator::next);
            match row {
                Some(row) => {
                    append_row(&row, out);
                    count += 1;
                }
                None => match self.units.next() {
                    // 1,000 is the largest scale factor, so there are at most 300,000 blocks
                    Some(unit) => self.block = Some((self.open)(unit as i32 + 1, self.of as i32)),
                    None => break,
                },
            }
        }
        count
    }
}

/// Appends a row with a bar after each column: no column holds a bar, or what COPY would read as another.
fn append_row(row: &impl Display, out: &mut Vec<u8>) {
    let from = out.len();
    // writing to a vector cannot fail
    let _ = write!(out, "{row}");
    for byte in &mut out[from..] {
        if *byte == b'|' {
            *byte = b'\t';
        }
    }
    if let Some(last) = out.last_mut() {
        *last = b'\n';
    }
}
