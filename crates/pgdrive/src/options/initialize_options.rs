//! Options of `-i`: which dataset is created, and how it is loaded.

use std::thread::available_parallelism;

use pgdyno_dataset::pgbench::{Method, Partitions, Persistence, Schema};
use pgdyno_dataset::{Beginning, Chunks, Dataset, LoadMode, Pieces, Sbtest, Step, Table, Tpcc, Tpch};

use super::option_row::Row;
use super::option_values::{Connection, EventSink, I32, Seed, partition_method, partitions, steps};
use super::tpcc_options::{TpccCheck, TpccOptions};
use super::tpch_options::TpchOptions;
use crate::called_as::CalledAs;
use crate::messages::Failure;

/// The most connections by default.
const WORKERS_MOST: usize = 8;
/// The most rows in a chunk by default: at the end of a chunk, COPY leaves some pages empty.
const CHUNK_ROWS_MOST: u64 = 1_000_000;
/// The least number of chunks for each connection, so that all end at about the same time.
const CHUNKS_A_WORKER: u64 = 4;
const DEFAULT_TABLE_SIZE: u32 = 10_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatasetChoice {
    Pgbench(Schema),
    Sbtest(Sbtest),
    Tpcc(Tpcc),
    Tpch(Tpch),
}

impl DatasetChoice {
    pub fn dataset(&self) -> &dyn Dataset {
        match self {
            Self::Pgbench(schema) => schema,
            Self::Sbtest(sbtest) => sbtest,
            Self::Tpcc(tpcc) => tpcc,
            Self::Tpch(tpch) => tpch,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initialize {
    pub connection: Connection,
    /// -I, without what -n takes away and with what --foreign-keys adds
    pub steps: Vec<Step>,
    /// --dataset; for pgbench's with -s, -F, --unlogged-tables, and where tables lie and how they
    /// are divided
    pub dataset: DatasetChoice,
    pub mode: LoadMode,
    pub quiet: bool,
    pub check: Option<TpccCheck>,
    pub events: Option<EventSink>,
    pub parent_lease: bool,
}

#[derive(Default)]
pub(super) struct InitializeOptions {
    pub wanted: bool,
    pub steps: Option<Vec<Step>>,
    pub fillfactor: Option<u32>,
    pub no_vacuum: bool,
    pub quiet: bool,
    pub scale: Option<i64>,
    pub foreign_keys: bool,
    pub index_tablespace: Option<String>,
    pub tablespace: Option<String>,
    pub partitions: u32,
    pub partition_method: Option<Method>,
    pub unlogged: bool,
    pub dataset: Option<String>,
    pub sizes: SbtestSizes,
    pub workers: Option<usize>,
    pub chunk_rows: Option<u64>,
    pub resume: bool,
}

/// Sizes of sysbench's tables, for a dataset or a workload.
#[derive(Default)]
pub(super) struct SbtestSizes {
    pub tables: Option<u32>,
    pub table_size: Option<u32>,
}

const fn row(long: &'static str, help: &'static str) -> Row<InitializeOptions> {
    Row::new(long, help)
}

pub(super) const ROWS: &[Row<InitializeOptions>] = &[
    row("initialize", "invokes initialization mode").short('i').flag(|given| &mut given.wanted).in_any_mode(),
    row(
        "init-steps",
        "run selected initialization steps, in this order\n\
         d: drop any existing pgbench tables\n\
         t: create the four tables of pgbench\n\
         g: generate data, client-side\n\
         G: generate data, server-side\n\
         v: invoke VACUUM on the tables\n\
         p: create primary key indexes on the tables\n\
         f: create foreign keys between the tables",
    )
    .short('I')
    .takes("[dtgGvpf]+ (default \"dtgvp\")")
    .set(|given, value| steps(value.text).map(|it| given.steps = Some(it))),
    row("fillfactor", "set fill factor")
        .short('F')
        .takes("NUM")
        .set(|given, value| value.integer(10, 100).map(|it| given.fillfactor = Some(it as u32))),
    row("no-vacuum", "do not run VACUUM during initialization")
        .short('n')
        .flag(|given| &mut given.no_vacuum)
        .in_any_mode(),
    row("quiet", "quiet logging (one message each 5 seconds)").short('q').flag(|given| &mut given.quiet),
    row("scale", "scaling factor")
        .short('s')
        .takes("NUM")
        .set(|given, value| value.integer(1, I32).map(|it| given.scale = Some(it)))
        .in_any_mode(),
    row("foreign-keys", "create foreign key constraints between tables").flag(|given| &mut given.foreign_keys),
    row("index-tablespace", "create indexes in the specified tablespace")
        .takes("TABLESPACE")
        .text(|given| &mut given.index_tablespace),
    row("partition-method", "partition pgbench_accounts with this method (default: range)")
        .takes("(range|hash)")
        .set(|given, value| partition_method(value.text).map(|it| given.partition_method = Some(it))),
    row("partitions", "partition pgbench_accounts into NUM parts (default: 0)")
        .takes("NUM")
        .set(|given, value| partitions(value).map(|it| given.partitions = it)),
    row("tablespace", "create tables in the specified tablespace")
        .takes("TABLESPACE")
        .text(|given| &mut given.tablespace),
    row("unlogged-tables", "create tables as unlogged tables").flag(|given| &mut given.unlogged),
    row("dataset", "tables of pgbench, of sysbench's oltp scripts, of TPC-C or of TPC-H (default: pgbench)")
        .takes("pgbench|sbtest|tpcc|tpch")
        .text(|given| &mut given.dataset)
        .not_in_pgbench(),
    row("tables", "number of tables of dataset sbtest (default: 1)")
        .takes("NUM")
        .set(|given, value| value.integer(1, 100_000).map(|it| given.sizes.tables = Some(it as u32)))
        .in_any_mode()
        .not_in_pgbench(),
    row("table-size", "rows in each table of dataset sbtest (default: 10000)")
        .takes("NUM")
        .set(|given, value| value.integer(1, I32).map(|it| given.sizes.table_size = Some(it as u32)))
        .in_any_mode()
        .not_in_pgbench(),
    row("load-workers", "load over NUM connections (default: one for each CPU, at most 8; a table or partition each)")
        .takes("NUM")
        .set(|given, value| value.integer(1, 1_000).map(|it| given.workers = Some(it as usize)))
        .not_in_pgbench(),
    row("load-chunk", "commit every NUM rows, so that a load can be resumed within a table (0: whole tables, frozen)")
        .takes("NUM")
        .set(|given, value| value.integer(0, I32).map(|it| given.chunk_rows = Some(it as u64)))
        .not_in_pgbench(),
    row("resume", "resume an interrupted load that was started with the same options")
        .flag(|given| &mut given.resume)
        .not_in_pgbench(),
];

impl SbtestSizes {
    pub fn of_workload(&self) -> Vec<(String, String)> {
        let sizes = [("tables", self.tables), ("table_size", self.table_size)];
        sizes.into_iter().filter_map(|(name, size)| Some((name.to_owned(), size?.to_string()))).collect()
    }
}

impl InitializeOptions {
    /// The steps: -I, without those that -n removes and with those that --foreign-keys adds.
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = self.steps.clone().unwrap_or_else(|| Step::DEFAULT.to_vec());
        if self.no_vacuum {
            steps.retain(|step| *step != Step::Vacuum);
        }
        if self.foreign_keys && !steps.contains(&Step::ForeignKeys) {
            steps.push(Step::ForeignKeys);
        }
        steps
    }

    fn partitions(&self) -> Result<Option<Partitions>, Failure> {
        match (self.partitions, self.partition_method) {
            (0, None) => Ok(None),
            (0, Some(_)) => Err(Failure::new("--partition-method requires greater than zero --partitions")),
            (count, method) => Ok(Some(Partitions { method: method.unwrap_or(Method::Range), count })),
        }
    }

    fn schema(&self) -> Result<Schema, Failure> {
        Ok(Schema {
            scale: self.scale.unwrap_or(1) as u32,
            fillfactor: self.fillfactor.unwrap_or(100),
            persistence: if self.unlogged { Persistence::Unlogged } else { Persistence::Logged },
            partitions: self.partitions()?,
            tablespace: self.tablespace.clone(),
            index_tablespace: self.index_tablespace.clone(),
        })
    }

    pub fn name(&self) -> &str {
        self.dataset.as_deref().unwrap_or("pgbench")
    }

    /// The dataset; `seed` is None without --random-seed.
    pub fn dataset(
        &self, seed: Option<Seed>, tpcc: &TpccOptions, tpch: &TpchOptions,
    ) -> Result<DatasetChoice, Failure> {
        let schema = self.schema()?;
        let seed = || seed.unwrap_or(Seed::Default).number("a load");
        match self.name() {
            "pgbench" => Ok(DatasetChoice::Pgbench(schema)),
            "sbtest" => Ok(DatasetChoice::Sbtest(Sbtest {
                tables: self.sizes.tables.unwrap_or(1),
                table_size: self.sizes.table_size.unwrap_or(DEFAULT_TABLE_SIZE),
                seed: seed()?,
            })),
            "tpcc" => Ok(DatasetChoice::Tpcc(tpcc.dataset(seed()?)?)),
            "tpch" => Ok(DatasetChoice::Tpch(tpch.dataset())),
            other => Err(Failure::new(format!("unrecognized dataset \"{other}\""))
                .hint("Valid datasets are \"pgbench\", \"sbtest\", \"tpcc\" and \"tpch\".")),
        }
    }

    pub fn mode(&self, called_as: CalledAs, dataset: &dyn Dataset) -> LoadMode {
        if called_as == CalledAs::Pgbench {
            return LoadMode::OneTransaction;
        }
        let cores = available_parallelism().map_or(1, usize::from);
        LoadMode::Chunks(Chunks {
            workers: self.workers.unwrap_or(cores.min(WORKERS_MOST)),
            pieces: self.pieces(&dataset.tables()),
            beginning: if self.resume { Beginning::Resume } else { Beginning::Anew },
        })
    }

    /// Whole relations, which are the least work for the server, unless more connections were
    /// requested than these could use.
    fn pieces(&self, tables: &[Table]) -> Pieces {
        let workers = match (self.chunk_rows, self.workers) {
            (Some(0), _) | (None, None | Some(1)) => return Pieces::Relations,
            (Some(rows), _) => return Pieces::Rows(rows),
            (None, Some(workers)) => workers as u64,
        };
        let parts = tables.iter().flat_map(Table::part_rows);
        let (all, largest) = parts.fold((0, 0), |(all, largest), rows| (all + rows, rows.max(largest)));
        // the largest one has more than one and a half times a connection's share of the work
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
    use crate::options::{Request, read};

    fn init_as(called_as: CalledAs, args: &[&str]) -> Result<Initialize, String> {
        match read(["-i"].iter().chain(args).map(ToString::to_string).collect(), None, called_as) {
            Ok(Request::Initialize(init)) => Ok(*init),
            other => Err(format!("{other:?}")),
        }
    }

    fn chunks(args: &[&str]) -> Chunks {
        match init_as(CalledAs::Pgdrive, args).expect("a load").mode {
            LoadMode::Chunks(chunks) => chunks,
            LoadMode::OneTransaction => panic!("in one transaction"),
        }
    }

    #[test]
    fn relations_are_cut_when_workers_would_be_idle() {
        for (args, pieces) in [
            (&["-s", "100"][..], Pieces::Relations),
            (&["-s", "100", "--load-workers=1"], Pieces::Relations),
            (&["-s", "100", "--load-workers=4"], Pieces::Rows(625_000)),
            (&["-s", "9999", "--load-workers=4"], Pieces::Rows(1_000_000)),
            (&["-s", "100", "--load-workers=4", "--load-chunk=0"], Pieces::Relations),
            (&["-s", "100", "--load-chunk=77"], Pieces::Rows(77)),
            (&["-s", "100", "--load-workers=4", "--partitions=4"], Pieces::Relations),
            (&["-s", "100", "--load-workers=4", "--partitions=2"], Pieces::Rows(312_500)),
            (&["--dataset=sbtest", "--tables=8", "--load-workers=4"], Pieces::Relations),
        ] {
            assert_eq!(chunks(args).pieces, pieces, "{args:?}");
        }
        assert_eq!(chunks(&["--load-workers=4"]).workers, 4);
        assert_eq!(chunks(&["--resume"]).beginning, Beginning::Resume);
    }

    #[test]
    fn under_pgbenchs_name_a_load_is_pgbenchs_and_sbtest_has_options_of_its_own() {
        assert_eq!(init_as(CalledAs::Pgbench, &["-s", "9"]).expect("a load").mode, LoadMode::OneTransaction);
        let sbtest =
            init_as(CalledAs::Pgdrive, &["--dataset=sbtest", "--tables=3", "--table-size=500", "--random-seed=9"]);
        let expected = Sbtest { tables: 3, table_size: 500, seed: 9 };
        assert_eq!(sbtest.expect("a load").dataset, DatasetChoice::Sbtest(expected));
    }
}
