//! Options of TPC-C: its dataset, its checks and its load.

use pgdyno_dataset::Tpcc;
use pgdyno_dataset::tpcc::Profile;
use pgdyno_dataset::tpcc::conditions::Depth;
use pgdyno_engine::schedule::Arrivals;

use super::values::{I32, whole};
use super::{Connection, EventSink, Origin, ScriptChoice};
use crate::messages::Failure;
use crate::tpcc::Variant;
use crate::tpcc::mix::Kind;

/// The standard has no largest number; ids of order lines' rows are 64 bits wide here.
const WAREHOUSES_MOST: i64 = I32;

/// What was given of these options.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct TpccOptions {
    warehouses: Option<u32>,
    profile: Option<Profile>,
    order_line_partitions: Option<u32>,
    check: bool,
    thorough: bool,
    workload: bool,
    variant: Option<Variant>,
    all_warehouses: bool,
    pauses: Option<bool>,
}

/// `--workload=tpcc`: who the clients are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TpccLoad {
    /// --warehouses; None for all that the database has.
    pub warehouses: Option<u32>,
    /// --tpcc-profile
    pub profile: Profile,
    /// --tpcc-variant
    pub variant: Variant,
    /// Whether a client stays in one warehouse: not with --all-warehouses.
    pub is_bound: bool,
    /// --tpcc-pauses
    pauses: Option<bool>,
}

impl TpccLoad {
    /// Whether users pause as the standard has it; HammerDB's do not unless it is asked for.
    #[must_use]
    pub fn pauses(&self) -> bool {
        self.pauses.unwrap_or(self.profile == Profile::Spec)
    }

    /// Refuses pauses where starts come from a schedule, or phases say how many clients are in use.
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

    /// The scripts of the load.
    pub(super) fn scripts(&self) -> Vec<ScriptChoice> {
        let script = |kind: Kind| ScriptChoice {
            origin: Origin::Driven {
                name: kind.name().to_owned(),
                commands: kind.commands(self.variant, self.profile),
            },
            weight: kind.weight(self.profile),
        };
        Kind::ALL.map(script).into()
    }
}

/// `--tpcc-check`: looks whether a database is consistent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TpccCheck {
    /// How to reach the server.
    pub connection: Connection,
    /// --warehouses; None for what the database's mark says.
    pub warehouses: Option<u32>,
    /// --tpcc-profile; None likewise.
    pub profile: Option<Profile>,
    /// --thorough
    pub depth: Depth,
    /// --events
    pub events: Option<EventSink>,
    /// --parent-lease
    pub parent_lease: bool,
}

impl TpccOptions {
    /// Names of the options.
    pub const NAMES: [&'static str; 8] = [
        "tpcc-variant",
        "all-warehouses",
        "tpcc-pauses",
        "warehouses",
        "tpcc-profile",
        "order-line-partitions",
        "tpcc-check",
        "thorough",
    ];

    /// What --workload is when it is not one of sysbench's.
    pub const WORKLOAD: &'static str = "tpcc";

    /// Takes --workload.
    pub fn take_workload(&mut self) {
        self.workload = true;
    }

    /// Takes one of them.
    pub fn take(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        match name {
            "warehouses" => {
                let count = whole(value, "--warehouses", 1, WAREHOUSES_MOST)?;
                self.warehouses = Some(count as u32);
            }
            "tpcc-profile" => self.profile = Some(profile(value)?),
            "order-line-partitions" => {
                let count = whole(value, "--order-line-partitions", 1, 10_000)?;
                self.order_line_partitions = Some(count as u32);
            }
            "tpcc-variant" => self.variant = Some(variant(value)?),
            "all-warehouses" => self.all_warehouses = true,
            "tpcc-pauses" => {
                self.pauses = Some(match value {
                    "on" => true,
                    "off" => false,
                    _ => {
                        return Err(Failure::new("--tpcc-pauses is either \"on\" or \"off\""));
                    }
                });
            }
            "tpcc-check" => self.check = true,
            _ => self.thorough = true,
        }
        Ok(())
    }

    /// Whether one was given that a load of another dataset has no use for.
    pub fn of_load(&self) -> bool {
        *self != Self::default()
    }

    /// Whether --tpcc-check was given.
    pub fn is_check(&self) -> bool {
        self.check
    }

    /// Refuses options that say nothing beside the others.
    pub fn agree(&self, initialize: bool) -> Result<(), Failure> {
        let of_load = self.variant.is_some() || self.all_warehouses || self.pauses.is_some();
        for (is_wrong, message) in [
            (
                self.thorough && !self.check,
                "--thorough can only be used with --tpcc-check",
            ),
            (
                self.workload && (initialize || self.check),
                "--workload cannot be used with -i or --tpcc-check",
            ),
            (
                of_load && !self.workload,
                "--tpcc-variant, --all-warehouses and --tpcc-pauses can only be used with --workload=tpcc",
            ),
            (
                self.order_line_partitions.is_some() && !initialize,
                "--order-line-partitions can only be used with -i",
            ),
            (
                !initialize && !self.check && !self.workload && self.of_load(),
                "--warehouses and --tpcc-profile can only be used with -i, --tpcc-check or --workload=tpcc",
            ),
        ] {
            if is_wrong {
                return Err(Failure::new(message));
            }
        }
        Ok(())
    }

    /// The load, if it is one of TPC-C.
    pub fn load(&self) -> Option<TpccLoad> {
        self.workload.then(|| TpccLoad {
            warehouses: self.warehouses,
            profile: self.profile.unwrap_or(Profile::Hammerdb),
            variant: self.variant.unwrap_or(Variant::Functions),
            is_bound: !self.all_warehouses,
            pauses: self.pauses,
        })
    }

    /// What is loaded.
    pub fn dataset(&self, seed: u64) -> Result<Tpcc, Failure> {
        let warehouses = self.warehouses.unwrap_or(1);
        if self
            .order_line_partitions
            .is_some_and(|count| count > warehouses)
        {
            return Err(Failure::new(
                "--order-line-partitions asks for more partitions than warehouses",
            )
            .hint("A partition holds the order lines of whole warehouses."));
        }
        Ok(Tpcc {
            warehouses,
            profile: self.profile.unwrap_or(Profile::Hammerdb),
            order_line_partitions: self.order_line_partitions,
            seed,
        })
    }

    /// What is checked.
    pub fn check(
        &self,
        connection: Connection,
        events: Option<EventSink>,
        parent_lease: bool,
    ) -> TpccCheck {
        TpccCheck {
            connection,
            warehouses: self.warehouses,
            profile: self.profile,
            depth: if self.thorough {
                Depth::Thorough
            } else {
                Depth::Required
            },
            events,
            parent_lease,
        }
    }
}

fn profile(name: &str) -> Result<Profile, Failure> {
    Profile::from_name(name).ok_or_else(|| {
        Failure::new(format!("unrecognized TPC-C profile \"{name}\""))
            .hint("There are \"hammerdb\" and \"spec\".")
    })
}

fn variant(name: &str) -> Result<Variant, Failure> {
    let mut all = Variant::ALL.into_iter();
    all.find(|variant| variant.name() == name).ok_or_else(|| {
        let names = Variant::ALL.map(Variant::name).join(", ");
        Failure::new(format!("unrecognized TPC-C variant \"{name}\""))
            .hint(format!("There are {names}."))
    })
}
