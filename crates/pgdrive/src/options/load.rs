//! Options of `-i` that pgbench does not have, and the way of a load that follows from them.

use std::thread::available_parallelism;

use pgdyno_dataset::pgbench::Schema;
use pgdyno_dataset::{Beginning, Chunks, Dataset, Pieces, Sbtest, Table, Tpcc, Way};

use super::Seed;
use super::tpcc::TpccOptions;
use super::values::{I32, whole};
use crate::called_as::CalledAs;
use crate::messages::Failure;

/// Connections at most when nobody says how many.
const WORKERS_MOST: usize = 8;
/// Rows in a chunk at most when nobody says how many: at its end a COPY leaves some pages empty.
const CHUNK_ROWS_MOST: u64 = 1_000_000;
/// Chunks for each connection at least, so that all end at about the same time.
const CHUNKS_A_WORKER: u64 = 4;
const DEFAULT_TABLE_SIZE: u32 = 10_000;
const DEFAULT_SEED: u64 = 1;

/// What is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatasetChoice {
    /// pgbench's tables.
    Pgbench(Schema),
    /// sysbench's.
    Sbtest(Sbtest),
    /// TPC-C's.
    Tpcc(Tpcc),
}

impl DatasetChoice {
    /// The dataset itself.
    #[must_use]
    pub fn dataset(&self) -> &dyn Dataset {
        match self {
            Self::Pgbench(schema) => schema,
            Self::Sbtest(sbtest) => sbtest,
            Self::Tpcc(tpcc) => tpcc,
        }
    }
}

/// What was given of these options.
#[derive(Debug, Default)]
pub(super) struct LoadOptions {
    dataset: Option<String>,
    tables: Option<u32>,
    table_size: Option<u32>,
    workers: Option<usize>,
    chunk_rows: Option<u64>,
    resume: bool,
}

impl LoadOptions {
    /// Names of the options.
    pub const NAMES: [&'static str; 6] = [
        "dataset",
        "tables",
        "table-size",
        "load-workers",
        "load-chunk",
        "resume",
    ];

    /// Takes one of them.
    pub fn take(&mut self, name: &str, value: String) -> Result<(), Failure> {
        match name {
            "dataset" => self.dataset = Some(value),
            "tables" => self.tables = Some(whole(&value, "--tables", 1, 100_000)? as u32),
            "table-size" => {
                self.table_size = Some(whole(&value, "--table-size", 1, I32)? as u32);
            }
            "load-workers" => {
                self.workers = Some(whole(&value, "--load-workers", 1, 1_000)? as usize);
            }
            "load-chunk" => {
                self.chunk_rows = Some(whole(&value, "--load-chunk", 0, I32)? as u64);
            }
            _ => self.resume = true,
        }
        Ok(())
    }

    /// Sizes of sysbench's tables, as options of a workload.
    pub fn sizes(&self) -> Vec<(String, String)> {
        let sizes = [("tables", self.tables), ("table_size", self.table_size)];
        sizes
            .into_iter()
            .filter_map(|(name, size)| Some((name.to_owned(), size?.to_string())))
            .collect()
    }

    /// The dataset. `pgbench_option` says that one was given which only pgbench's tables have.
    pub fn dataset(
        &self,
        schema: Schema,
        pgbench_option: bool,
        seed: Option<Seed>,
        tpcc: &TpccOptions,
    ) -> Result<DatasetChoice, Failure> {
        let name = self.dataset.as_deref().unwrap_or("pgbench");
        let of_tables = self.tables.is_some() || self.table_size.is_some();
        for (is_given, options, owners) in [
            (of_tables, "--tables and --table-size", &["sbtest"][..]),
            (seed.is_some(), "--random-seed", &["sbtest", "tpcc"]),
            (
                tpcc.of_load(),
                "--warehouses, --tpcc-profile, --order-line-partitions and --tpcc-check",
                &["tpcc"],
            ),
        ] {
            if is_given && !owners.contains(&name) {
                let owners = owners.join(" or --dataset=");
                let message = format!("{options} can only be used with --dataset={owners}");
                return Err(Failure::new(message));
            }
        }
        if pgbench_option && matches!(name, "sbtest" | "tpcc") {
            let size = match name {
                "sbtest" => "--tables and --table-size",
                _ => "--warehouses",
            };
            return Err(Failure::new(format!(
                "-s, -F, --partitions, --unlogged-tables and tablespaces cannot be used with --dataset={name}"
            ))
            .hint(format!("Its size is given by {size}.")));
        }
        let seed = || match seed {
            None | Some(Seed::Default) => Ok(DEFAULT_SEED),
            Some(Seed::Fixed(seed)) => Ok(seed),
            Some(Seed::Time | Seed::Strong) => Err(Failure::new(
                "a load needs a number as its random seed, so that it can be made again",
            )),
        };
        match name {
            "pgbench" => Ok(DatasetChoice::Pgbench(schema)),
            "sbtest" => Ok(DatasetChoice::Sbtest(Sbtest {
                tables: self.tables.unwrap_or(1),
                table_size: self.table_size.unwrap_or(DEFAULT_TABLE_SIZE),
                seed: seed()?,
            })),
            "tpcc" => Ok(DatasetChoice::Tpcc(tpcc.dataset(seed()?)?)),
            other => Err(Failure::new(format!("unrecognized dataset \"{other}\""))
                .hint("There are \"pgbench\", \"sbtest\" and \"tpcc\".")),
        }
    }

    /// How it is loaded.
    pub fn way(&self, called_as: CalledAs, dataset: &dyn Dataset) -> Way {
        if called_as == CalledAs::Pgbench {
            return Way::OneTransaction;
        }
        let cores = available_parallelism().map_or(1, usize::from);
        Way::Chunks(Chunks {
            workers: self.workers.unwrap_or(cores.min(WORKERS_MOST)),
            pieces: self.pieces(&dataset.tables()),
            beginning: if self.resume {
                Beginning::Resume
            } else {
                Beginning::Anew
            },
        })
    }

    /// Relations as wholes, which is the least work for the server, unless more connections were
    /// asked for than would have something to do.
    fn pieces(&self, tables: &[Table]) -> Pieces {
        let workers = match (self.chunk_rows, self.workers) {
            (Some(0), _) | (None, None | Some(1)) => return Pieces::Relations,
            (Some(rows), _) => return Pieces::Rows(rows),
            (None, Some(workers)) => workers as u64,
        };
        let parts = tables.iter().flat_map(Table::part_rows);
        let (all, largest) = parts.fold((0, 0), |(all, largest), rows| {
            (all + rows, rows.max(largest))
        });
        // more than one and a half times its share of the work
        if largest * workers * 2 > all * 3 {
            let rows = largest.div_ceil(workers * CHUNKS_A_WORKER);
            Pieces::Rows(rows.clamp(1, CHUNK_ROWS_MOST))
        } else {
            Pieces::Relations
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Initialize, Request, read};

    fn init_as(called_as: CalledAs, args: &[&str]) -> Result<Initialize, String> {
        let args = ["-i"].iter().chain(args).map(ToString::to_string).collect();
        match read(args, None, called_as) {
            Ok(Request::Initialize(init)) => Ok(*init),
            other => Err(format!("{other:?}")),
        }
    }

    fn chunks(args: &[&str]) -> Chunks {
        match init_as(CalledAs::Pgdrive, args).expect("a load").way {
            Way::Chunks(chunks) => chunks,
            Way::OneTransaction => panic!("in one transaction"),
        }
    }

    #[test]
    fn under_pgbenchs_name_a_load_is_pgbenchs() {
        let init = init_as(CalledAs::Pgbench, &["-s", "9"]).expect("a load");
        assert_eq!(init.way, Way::OneTransaction);
        for option in LoadOptions::NAMES {
            let said = init_as(CalledAs::Pgbench, &[&format!("--{option}")]);
            let said = said.expect_err("a complaint");
            // two of them begin as an option of pgbench does
            let expected = if option == "tables" {
                "requires an argument"
            } else {
                "unrecognized"
            };
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn relations_are_cut_when_workers_would_be_idle() {
        for (args, pieces) in [
            (&["-s", "100"][..], Pieces::Relations),
            (&["-s", "100", "--load-workers=1"], Pieces::Relations),
            (&["-s", "100", "--load-workers=4"], Pieces::Rows(625_000)),
            (&["-s", "9999", "--load-workers=4"], Pieces::Rows(1_000_000)),
            (
                &["-s", "100", "--load-workers=4", "--load-chunk=0"],
                Pieces::Relations,
            ),
            (&["-s", "100", "--load-chunk=77"], Pieces::Rows(77)),
            (
                &["-s", "100", "--load-workers=4", "--partitions=4"],
                Pieces::Relations,
            ),
            (
                &["-s", "100", "--load-workers=4", "--partitions=2"],
                Pieces::Rows(312_500),
            ),
            (
                &["--dataset=sbtest", "--tables=8", "--load-workers=4"],
                Pieces::Relations,
            ),
        ] {
            assert_eq!(chunks(args).pieces, pieces, "{args:?}");
        }
        assert_eq!(chunks(&["--load-workers=4"]).workers, 4);
        assert_eq!(chunks(&["--resume"]).beginning, Beginning::Resume);
    }

    #[test]
    fn datasets_have_options_of_their_own() {
        let sbtest = init_as(
            CalledAs::Pgdrive,
            &[
                "--dataset=sbtest",
                "--tables=3",
                "--table-size=500",
                "--random-seed=9",
            ],
        );
        let expected = Sbtest {
            tables: 3,
            table_size: 500,
            seed: 9,
        };
        assert_eq!(
            sbtest.expect("a load").dataset,
            DatasetChoice::Sbtest(expected)
        );
        for (args, complaint) in [
            (&["--dataset=tpch"][..], "unrecognized dataset"),
            (
                &["--dataset=tpcc", "-s2"],
                "cannot be used with --dataset=tpcc",
            ),
            (&["--warehouses=2"], "can only be used with --dataset=tpcc"),
            (
                &[
                    "--dataset=tpcc",
                    "--warehouses=2",
                    "--order-line-partitions=3",
                ],
                "more partitions than warehouses",
            ),
            (
                &["--dataset=tpcc", "--tpcc-profile=tpc"],
                "unrecognized TPC-C profile",
            ),
            (
                &["--dataset=sbtest", "-s2"],
                "cannot be used with --dataset=sbtest",
            ),
            (&["--tables=2"], "can only be used with --dataset=sbtest"),
            (
                &["--random-seed=2"],
                "can only be used with --dataset=sbtest",
            ),
            (
                &["--dataset=sbtest", "--random-seed=time"],
                "needs a number",
            ),
            (
                &["--load-workers=0"],
                "--load-workers must be in range 1..1000",
            ),
        ] {
            let said = init_as(CalledAs::Pgdrive, args).expect_err("a complaint");
            assert!(said.contains(complaint), "{said}");
        }
        let said = init_as(CalledAs::Pgbench, &["--random-seed=2"]).expect_err("a complaint");
        assert!(
            said.contains("cannot be used in initialization (-i) mode"),
            "{said}"
        );
    }
}
