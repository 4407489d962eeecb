//! The tables of TPC-H, with the rows of the specification's own generator, dbgen.

mod row_blocks;
mod schema;

use std::ops::Range;

use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

use crate::dataset::{Dataset, Description, Manner, RowSource, Stages, Table};
use row_blocks::{RowBlocks, blocks};

/// The words of the generator, from which parameters of queries are drawn, too.
pub use tpchgen::distribution::Distributions as Words;

pub const VERSION: u32 = 1;
pub const MOST_SCALE: f64 = 1_000.0;
/// Scale factors have two decimals: the dataset's own unit is a hundredth.
const UNITS_A_SCALE: f64 = 100.0;

/// TPC-H's tables at a scale factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tpch {
    /// Hundredths of the scale factor, at least 1.
    hundredths: u32,
}

impl Tpch {
    /// The tables at scale factor `scale`; None unless it is from 0.01 to [`MOST_SCALE`] and has at most two decimals.
    pub fn new(scale: f64) -> Option<Self> {
        let hundredths = scale * UNITS_A_SCALE;
        let is_whole = (hundredths - hundredths.round()).abs() < 1e-6;
        let fits = (0.01..=MOST_SCALE).contains(&scale);
        (fits && is_whole).then(|| Self { hundredths: hundredths.round() as u32 })
    }

    /// The tables of a dataset stamp with this scale.
    pub fn of_stamp(scale: u64) -> Option<Self> {
        let hundredths = u32::try_from(scale).ok()?;
        Some(Self { hundredths })
    }

    pub fn scale_factor(self) -> f64 {
        f64::from(self.hundredths) / UNITS_A_SCALE
    }

    pub fn orders(self) -> u64 {
        u64::from(self.hundredths) * 15_000
    }
}

impl Default for Tpch {
    /// Scale factor 1.
    fn default() -> Self {
        Self { hundredths: UNITS_A_SCALE as u32 }
    }
}

impl Dataset for Tpch {
    fn description(&self) -> Description {
        Description {
            name: "tpch",
            version: VERSION,
            scale: self.hundredths.into(),
            seed: None,
            options: vec![("scale-factor", self.scale_factor().to_string())],
            is_unlogged: false,
        }
    }

    /// A unit is a block of the generator's rows, or of the rows from which it derives others.
    fn tables(&self) -> Vec<Table> {
        let table = |name: &schema::Table| {
            let blocks = blocks(self.hundredths, name.sources_a_hundredth);
            let rows = u64::from(self.hundredths) * name.rows_a_hundredth;
            Table { rows_a_unit: (rows / blocks).max(1), exact: false, ..Table::of_rows(name.name, blocks, 0) }
        };
        schema::TABLES.iter().map(table).collect()
    }

    fn rows(&self, table: usize, units: Range<u64>) -> Box<dyn RowSource + '_> {
        let table = &schema::TABLES[table];
        let of = blocks(self.hundredths, table.sources_a_hundredth);
        let scale = self.scale_factor();
        macro_rules! of {
            ($generator:ident) => {
                Box::new(RowBlocks::new(units, of, move |part, of| $generator::new(scale, part, of).iter()))
            };
        }
        match table.name {
            "region" => of!(RegionGenerator),
            "nation" => of!(NationGenerator),
            "supplier" => of!(SupplierGenerator),
            "customer" => of!(CustomerGenerator),
            "part" => of!(PartGenerator),
            "partsupp" => of!(PartSuppGenerator),
            "orders" => of!(OrderGenerator),
            _ => of!(LineItemGenerator),
        }
    }

    fn drop_tables(&self) -> Vec<String> {
        let names = schema::TABLES.each_ref().map(|table| table.name).join(", ");
        vec![schema::guard(), format!("set local client_min_messages = warning; drop table if exists {names}")]
    }

    fn create_tables(&self) -> Vec<String> {
        let create = |table: &schema::Table| format!("create table {}({})", table.name, table.columns);
        schema::TABLES.iter().map(create).collect()
    }

    fn primary_keys(&self, manner: Manner) -> Stages {
        schema::keys(manner)
    }

    fn foreign_keys(&self) -> Option<Stages> {
        Some(schema::foreign_keys())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_factor_has_two_decimals_and_limits() {
        for (scale, hundredths) in [(0.01, 1), (0.29, 29), (1.0, 100), (1_000.0, 100_000)] {
            assert_eq!(Tpch::new(scale).map(|tpch| tpch.description().scale), Some(hundredths));
        }
        for scale in [0.0, 0.001, 0.015, -1.0, 1_000.01, f64::NAN, f64::INFINITY] {
            assert_eq!(Tpch::new(scale), None, "{scale}");
        }
    }

    #[test]
    fn blocks_hold_the_rows_of_the_whole_table() {
        let tpch = Tpch::new(0.03).expect("a scale factor");
        let place = |name| schema::TABLES.iter().position(|table| table.name == name);
        let orders = place("orders").expect("a table");
        let all = |units: Vec<Range<u64>>| {
            let mut out = Vec::new();
            for units in units {
                let mut rows = tpch.rows(orders, units);
                while rows.append(1_000, &mut out) > 0 {}
            }
            out
        };
        let units = tpch.tables()[orders].units;
        assert!(units > 2, "{units}");
        let pieces = all(vec![0..1, 1..units - 1, units - 1..units]);
        assert_eq!(pieces, all(std::iter::once(0..units).collect()));
        let lines: Vec<&[u8]> = pieces.split(|byte| *byte == b'\n').collect();
        assert_eq!(lines.len() as u64, tpch.orders() + 1);
        // the first row as the specification's generator makes it at every scale, but for the customer
        let columns: Vec<&[u8]> = lines[0].split(|byte| *byte == b'\t').collect();
        assert_eq!((columns.len(), columns[0], columns[4]), (9, &b"1"[..], &b"1996-01-02"[..]));
    }
}
