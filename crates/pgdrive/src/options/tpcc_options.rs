//! Options of TPC-C: its dataset, its checks and its load.

use pgdyno_dataset::Tpcc;
use pgdyno_dataset::tpcc::Profile;
use pgdyno_dataset::tpcc::consistency::Depth;
use pgdyno_engine::schedule::Arrivals;

use super::option_row::Row;
use super::option_values::{Connection, EventSink, I32, Origin, ScriptChoice, choose};
use crate::messages::Failure;
use crate::tpcc::Variant;
use crate::tpcc::mix_and_pauses::commands;
use crate::tpcc::transaction_kind::Kind;

/// The standard has no limit; row ids of order lines have 64 bits here.
const WAREHOUSES_MOST: i64 = I32;

const fn row(long: &'static str, help: &'static str) -> Row<TpccOptions> {
    Row::new(long, help).not_in_pgbench()
}

pub(super) const ROWS: &[Row<TpccOptions>] = &[
    row(
        "tpcc-profile",
        "follow the rules of HammerDB's newest release, of a release (hammerdb-6.0, hammerdb-6.1, hammerdb-6.1.1) or \
         of the standard (default: hammerdb)",
    )
    .takes("PROFILE")
    .set(|given, value| {
        let mut profiles = vec![(Profile::NEWEST_HAMMERDB, Profile::HAMMERDB)];
        profiles.extend(Profile::ALL.map(|profile| (profile.name(), profile)));
        choose(value.text, "unrecognized TPC-C profile", &profiles).map(|it| given.profile = Some(it))
    }),
    row("tpcc-variant", "send transactions as functions, procedures, sql or sql-pipelined (default: functions)")
        .takes("VARIANT")
        .set(|given, value| {
            let variants = Variant::ALL.map(|variant| (variant.name(), variant));
            choose(value.text, "unrecognized TPC-C variant", &variants).map(|it| given.variant = Some(it))
        }),
    row("warehouses", "number of warehouses to create (default: 1) or to use (default: all in the database)")
        .takes("NUM")
        .set(|given, value| value.integer(1, WAREHOUSES_MOST).map(|it| given.warehouses = Some(it as u32))),
    row("all-warehouses", "choose a warehouse for each transaction").flag(|given| &mut given.all_warehouses),
    row("tpcc-pauses", "pause for the standard's keying and think times (default: on for spec, off for hammerdb)")
        .takes("on|off")
        .set(|given, value| {
            choose(value.text, "invalid value of --tpcc-pauses", &[("on", true), ("off", false)])
                .map(|it| given.pauses = Some(it))
        }),
    row("order-line-partitions", "with -i: partition order_line into NUM ranges of warehouses (default: none)")
        .takes("NUM")
        .set(|given, value| value.integer(1, 10_000).map(|it| given.order_line_partitions = Some(it as u32))),
    row(
        "tpcc-check",
        "check the standard's consistency conditions 1 to 4, with -i after the load; exit with 3 if one is broken",
    )
    .flag(|given| &mut given.check),
    row("thorough", "with --tpcc-check: all 12 conditions").flag(|given| &mut given.thorough),
];

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct TpccOptions {
    pub warehouses: Option<u32>,
    pub profile: Option<Profile>,
    pub order_line_partitions: Option<u32>,
    pub check: bool,
    pub thorough: bool,
    pub variant: Option<Variant>,
    pub all_warehouses: bool,
    pub pauses: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TpccLoad {
    /// --warehouses; None for all in the database.
    pub warehouses: Option<u32>,
    pub profile: Profile,
    pub variant: Variant,
    /// Whether a client stays in one warehouse, which --all-warehouses prevents.
    pub is_bound: bool,
    pauses: Option<bool>,
}

impl TpccLoad {
    /// Whether users pause as in the standard; by default those of HammerDB do not.
    pub fn pauses(&self) -> bool {
        self.pauses.unwrap_or(self.profile == Profile::Spec)
    }

    /// Whether the server commits an order with an unused item.
    pub fn commits_unused_item(&self) -> bool {
        self.variant.commits_unused_item(self.profile)
    }

    /// Refuses pauses if starts come from a schedule, or if phases determine how many clients are
    /// in use.
    pub(super) fn agree(&self, arrivals: Arrivals, has_phases: bool) -> Result<(), Failure> {
        let with = match (arrivals, has_phases) {
            (Arrivals::Closed, false) => return Ok(()),
            (_, true) => "--phases",
            (_, false) => "a rate (-R/--rate)",
        };
        if !self.pauses() {
            return Ok(());
        }
        let message = format!("TPC-C's keying and think times cannot be used with {with}");
        Err(Failure::new(message).hint("Give --tpcc-pauses=off."))
    }

    pub(super) fn scripts(&self) -> Vec<ScriptChoice> {
        let script = |kind: Kind| ScriptChoice {
            origin: Origin::Driven {
                name: kind.name().to_owned(),
                commands: commands(kind, self.variant, self.profile),
            },
            weight: kind.weight(self.profile, self.variant),
        };
        Kind::ALL.map(script).into()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TpccCheck {
    pub connection: Connection,
    /// --warehouses; None for the number in the dataset stamp.
    pub warehouses: Option<u32>,
    /// --tpcc-profile; None for the profile in the dataset stamp.
    pub profile: Option<Profile>,
    pub depth: Depth,
    pub events: Option<EventSink>,
    pub parent_lease: bool,
}

impl TpccOptions {
    pub fn of_load(&self) -> bool {
        *self != Self::default()
    }

    /// Refuses options without those that they depend on; `workload` says whether TPC-C is run.
    pub fn agree(&self, initialize: bool, workload: bool) -> Result<(), Failure> {
        let of_load = self.variant.is_some() || self.all_warehouses || self.pauses.is_some();
        for (is_wrong, message) in [
            (self.thorough && !self.check, "--thorough can only be used with --tpcc-check"),
            (workload && (initialize || self.check), "--workload cannot be used with -i or --tpcc-check"),
            (
                of_load && !workload,
                "--tpcc-variant, --all-warehouses and --tpcc-pauses can only be used with --workload=tpcc",
            ),
            (self.order_line_partitions.is_some() && !initialize, "--order-line-partitions can only be used with -i"),
            (
                !initialize && !self.check && !workload && self.of_load(),
                "--warehouses and --tpcc-profile can only be used with -i, --tpcc-check or --workload=tpcc",
            ),
        ] {
            if is_wrong {
                return Err(Failure::new(message));
            }
        }
        Ok(())
    }

    pub fn load(&self) -> TpccLoad {
        TpccLoad {
            warehouses: self.warehouses,
            profile: self.profile.unwrap_or(Profile::HAMMERDB),
            variant: self.variant.unwrap_or(Variant::Functions),
            is_bound: !self.all_warehouses,
            pauses: self.pauses,
        }
    }

    pub fn dataset(&self, seed: u64) -> Result<Tpcc, Failure> {
        let warehouses = self.warehouses.unwrap_or(1);
        if self.order_line_partitions.is_some_and(|count| count > warehouses) {
            return Err(Failure::new("--order-line-partitions requires at least as many warehouses as partitions")
                .hint("A partition holds the order lines of whole warehouses."));
        }
        Ok(Tpcc {
            warehouses,
            profile: self.profile.unwrap_or(Profile::HAMMERDB),
            order_line_partitions: self.order_line_partitions,
            seed,
        })
    }

    /// What --tpcc-check checks; the connection and the events are those of the program.
    pub fn checks(&self) -> TpccCheck {
        TpccCheck {
            connection: Connection::default(),
            warehouses: self.warehouses,
            profile: self.profile,
            depth: if self.thorough { Depth::Thorough } else { Depth::Required },
            events: None,
            parent_lease: false,
        }
    }
}
