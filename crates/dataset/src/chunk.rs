//! Chunks: pieces of a load that are each committed as a whole.

use std::ops::Range;

use crate::dataset::Table;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Index among all chunks of the load; identifies the chunk in the server's ledger.
    pub number: u64,
    /// Index of its table in the dataset.
    pub table: usize,
    pub relation: String,
    pub units: Range<u64>,
    /// Approximate number of rows.
    pub rows: u64,
    /// The stage of the table; see [`Table::stage`].
    pub stage: u32,
}

/// Cuts tables into chunks of at most about `rows` rows that do not cross the end of a part.
///
/// The result depends on nothing else, so a load that is resumed gets the same chunks.
pub(crate) fn cut(tables: &[Table], rows: u64) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for (place, table) in tables.iter().enumerate() {
        let most = (rows / table.rows_a_unit.max(1)).max(1);
        for part in &table.parts {
            // equal pieces instead of full ones and a rest, so that the last worker finishes earlier
            let units = part.units.end - part.units.start;
            let pieces = units.div_ceil(most);
            for piece in 0..pieces {
                let bound = |piece: u64| {
                    let offset = u128::from(units) * u128::from(piece) / u128::from(pieces);
                    part.units.start + offset as u64
                };
                let units = bound(piece)..bound(piece + 1);
                chunks.push(Chunk {
                    number: chunks.len() as u64,
                    table: place,
                    relation: part.relation.clone(),
                    rows: (units.end - units.start) * table.rows_a_unit,
                    units,
                    stage: table.stage,
                });
            }
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Part;

    fn units(chunks: &[Chunk], table: usize) -> Vec<Range<u64>> {
        let of_table = chunks.iter().filter(|chunk| chunk.table == table);
        of_table.map(|chunk| chunk.units.clone()).collect()
    }

    #[test]
    fn every_unit_is_in_one_chunk() {
        for rows in [1, 7, 100, 101, 1_000, 99_999_999] {
            let tables = [
                Table::of_rows("a", 1_000, 0),
                Table::of_rows("b", 1, 0),
                Table { rows_a_unit: 30, ..Table::of_rows("c", 17, 1) },
            ];
            let chunks = cut(&tables, rows);
            for (place, table) in tables.iter().enumerate() {
                let mut next = 0;
                for units in units(&chunks, place) {
                    assert_eq!(units.start, next);
                    assert!(units.end > units.start);
                    assert!((units.end - units.start) * table.rows_a_unit <= rows.max(30));
                    next = units.end;
                }
                assert_eq!(next, table.units);
            }
            let numbers: Vec<_> = chunks.iter().map(|chunk| chunk.number).collect();
            assert_eq!(numbers, (0..chunks.len() as u64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn chunks_end_where_partitions_end() {
        let part = |relation: &str, units| Part { relation: relation.into(), units };
        let mut table = Table::of_rows("t", 10, 0);
        // the second part is empty, as the last of many partitions may be
        table.parts = vec![part("t_1", 0..7), part("t_2", 7..7), part("t_3", 7..10)];
        let chunks = cut(&[table], 4);
        assert_eq!(units(&chunks, 0), [0..3, 3..7, 7..10]);
        let relations: Vec<_> = chunks.iter().map(|chunk| &chunk.relation).collect();
        assert_eq!(relations, ["t_1", "t_1", "t_3"]);
        // a table without rows has no chunks
        assert!(cut(&[Table::of_rows("t", 0, 0)], 4).is_empty());
    }
}
