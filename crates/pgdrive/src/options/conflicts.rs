//! Which options a kind of load excludes, and which belong to one dataset.

use super::benchmark_rows;
use super::option_sections::GivenOptions;
use crate::messages::Failure;

/// Kinds of loads that exclude options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoadKind {
    Phases,
    Lua,
    Replay,
    Tpcc,
    Tpch,
    Queries,
}

use LoadKind::{Lua, Phases, Queries, Replay, Tpcc, Tpch};

/// Kinds, the options that they exclude, and the remedy, which continues "Leave it out: ".
const EXCLUDED: &[(&[LoadKind], &[&str], &str)] = &[
    (&[Phases], &["rate"], "give each phase its rate in the file"),
    (&[Phases], &["transactions", "time"], "the duration of the run is the sum of its phases"),
    (&[Phases], &["warmup"], "put a phase with result = false first"),
    (&[Phases], &["keying-time", "think-time"], "phases say how many clients are in use, or a rate"),
    (
        &[Lua, Tpcc, Tpch],
        &["builtin", "file", "skip-some-updates", "select-only"],
        "the load has its own scripts and no others",
    ),
    (&[Lua], &["define"], "options of the script are given by --lua-opt NAME=VALUE"),
    (&[Tpcc, Tpch, Queries], &["define"], "the load has no variables"),
    (&[Lua], &["protocol"], "the script decides which statements are prepared"),
    (&[Lua], &["auto-pipeline"], "a Lua script waits for every answer"),
    (&[Tpcc], &["protocol", "auto-pipeline"], "--tpcc-variant selects how statements are sent"),
    (&[Tpch, Queries], &["protocol", "auto-pipeline"], "queries are sent in the simple protocol, as they are"),
    (
        &[Tpch],
        &["transactions", "time", "rate", "phases", "part", "reconnect"],
        "the load runs its queries once; -c is the number of streams",
    ),
    (&[Queries], &["time", "rate", "phases", "part"], "each client runs all queries as many times as -t says"),
    (
        &[Replay],
        &[
            "builtin", "file", "skip-some-updates", "select-only", "define", "protocol", "scale", "lua", "lua-command",
            "lua-opt", "workload", "changed-texts", "ledger",
        ],
        "the file has its own statements",
    ),
    (&[Replay], &["keying-time", "think-time", "arrivals", "phases"], "the file has its own times"),
    (&[Replay], &["rate"], "the file has its own times, which --pace=FACTOR divides"),
    (&[Replay], &["client"], "the file says how many sessions there are"),
    (&[Replay], &["connect"], "the file says when sessions begin and end"),
    (&[Replay], &["transactions"], "a replay ends with its last session, or after --time=SECONDS"),
    (&[Replay], &["vacuum-all"], "a replay does not know the tables of pgbench"),
    (&[Replay], &["continue-on-error"], "a replay always continues after errors, and counts those that are new"),
    (&[Replay], &["max-tries"], "a replay repeats what the application did, including its retries"),
    (&[Replay], &["warmup"], "a replay is measured from its first session on"),
    (&[Replay], &["auto-pipeline"], "a replay sends what the application sent"),
    (&[Replay], &["reconnect"], "a replay opens a new connection for each session"),
    (&[Replay], &["count-refusals"], "a replay counts sessions without a connection"),
    (&[Replay], &["part"], "one generator replays the whole file"),
];

impl LoadKind {
    fn options(self) -> &'static str {
        match self {
            Phases => "--phases",
            Lua => "--lua and --workload",
            Replay => "--replay",
            Tpcc => "--workload=tpcc",
            Tpch => "--workload=tpch",
            Queries => "--workload=queries",
        }
    }

    pub fn check(self, given: &GivenOptions) -> Result<(), Failure> {
        for row in benchmark_rows::all().filter(|row| given.has(row.syntax.long)) {
            let name = row.syntax.long;
            // no warm-up is as good as none given
            let is_harmless = self == Phases && name == "warmup" && given.load.load.warmup.is_zero();
            let excluded = EXCLUDED.iter().find(|(kinds, names, _)| kinds.contains(&self) && names.contains(&name));
            if let (Some((_, _, remedy)), false) = (excluded, is_harmless) {
                let option = row.syntax;
                let failure = Failure::new(format!("{option} cannot be used with {}", self.options()));
                return Err(failure.hint(format!("Leave {option} out: {remedy}.")));
            }
        }
        Ok(())
    }
}

/// Options of datasets, and the datasets that have them.
const OF_DATASETS: &[(&[&str], &[&str])] = &[
    (&["tables", "table-size"], &["sbtest"]),
    (&["random-seed"], &["sbtest", "tpcc"]),
    (&["warehouses", "tpcc-profile", "order-line-partitions", "tpcc-check"], &["tpcc"]),
    (&["scale-factor"], &["tpch"]),
    (&["scale", "fillfactor", "partitions", "unlogged-tables", "tablespace", "index-tablespace"], &["pgbench"]),
];

pub(super) fn check_dataset(name: &str, given: &GivenOptions) -> Result<(), Failure> {
    for (options, owners) in OF_DATASETS {
        if let (Some(option), false) = (options.iter().find(|option| given.has(option)), owners.contains(&name)) {
            let owners = owners.join(" or --dataset=");
            let own = OF_DATASETS.iter().filter(|(_, owners)| owners.contains(&name)).flat_map(|(options, _)| *options);
            let own: Vec<String> = own.map(|option| format!("--{option}")).collect();
            return Err(Failure::new(format!("--{option} can only be used with --dataset={owners}"))
                .hint(format!("Options of dataset {name} are {}.", own.join(", "))));
        }
    }
    Ok(())
}
