//! Options of TPC-C: its dataset and its checks.

use pgdyno_dataset::Tpcc;
use pgdyno_dataset::tpcc::Profile;
use pgdyno_dataset::tpcc::conditions::Depth;

use super::values::{I32, whole};
use super::{Connection, EventSink};
use crate::messages::Failure;

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
    pub const NAMES: [&'static str; 5] = [
        "warehouses",
        "tpcc-profile",
        "order-line-partitions",
        "tpcc-check",
        "thorough",
    ];

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

    /// Refuses --thorough where nothing is checked.
    pub fn agree(&self) -> Result<(), Failure> {
        if self.thorough && !self.check {
            return Err(Failure::new(
                "--thorough can only be used with --tpcc-check",
            ));
        }
        Ok(())
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
