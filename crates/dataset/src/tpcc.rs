//! TPC-C's nine tables (revision 5.11 of the standard), for all profiles of the workload.
//!
//! Figures of different profiles are not comparable: those of `hammerdb` follow HammerDB, and `spec`
//! the clauses of the standard.

pub mod consistency;
mod dataset;
pub mod last_names;
pub mod nurand;
pub mod routines;
mod row_writer;
mod schema;

/// Version of rows, tables and routines: increases whenever the same options give another result.
pub const VERSION: u32 = 1;
pub const DISTRICTS: u64 = 10;
/// Number of customers of a district, and of its orders after a load.
pub const CUSTOMERS: u64 = 3_000;
/// Number of items, and so of stock rows of a warehouse.
pub const ITEMS: u64 = 100_000;
/// Number of a district's orders that are delivered after a load; the others are also in new_order.
pub const DELIVERED: u64 = 2_100;
pub const ORDER_LINES: [u64; 2] = [5, 15];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tpcc {
    /// Number of warehouses, at least 1.
    pub warehouses: u32,
    /// Whose rules the rows follow.
    pub profile: Profile,
    /// Partitions of order_line by ranges of warehouses, at most one for each warehouse; None for an ordinary table.
    pub order_line_partitions: Option<u32>,
    pub seed: u64,
}

/// Whose rules the workload follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// The rules of HammerDB, as of a release.
    Hammerdb(Release),
    /// The rules of the standard.
    Spec,
}

/// A release of HammerDB. Releases differ in what the server does with an order that contains an
/// unused item; `docs/design/tprocc.md` has the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// 4.0 to 6.0: functions and procedures commit it.
    V6_0,
    /// 6.1: functions and procedures roll it back.
    V6_1,
    /// 6.1.1: functions commit it, procedures roll it back.
    V6_1_1,
}

/// The kinds of routines in which the server executes a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoutineKind {
    /// Cannot end its transaction, except by an error.
    Function,
    /// Can end its transaction.
    Procedure,
}

impl Profile {
    /// The newest release of HammerDB.
    pub const HAMMERDB: Self = Self::Hammerdb(Release::V6_1_1);
    /// Another name of the newest release of HammerDB.
    pub const NEWEST_HAMMERDB: &str = "hammerdb";
    pub const ALL: [Self; 4] =
        [Self::Hammerdb(Release::V6_0), Self::Hammerdb(Release::V6_1), Self::Hammerdb(Release::V6_1_1), Self::Spec];

    /// Name of the profile in options, results and dataset stamps.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hammerdb(Release::V6_0) => "hammerdb-6.0",
            Self::Hammerdb(Release::V6_1) => "hammerdb-6.1",
            Self::Hammerdb(Release::V6_1_1) => "hammerdb-6.1.1",
            Self::Spec => "spec",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        if name == Self::NEWEST_HAMMERDB {
            return Some(Self::HAMMERDB);
        }
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// The profile that a dataset stamp names. Before releases were told apart, `hammerdb` always rolled back.
    pub fn from_stamp(name: &str) -> Option<Self> {
        match name {
            Self::NEWEST_HAMMERDB => Some(Self::Hammerdb(Release::V6_1)),
            _ => Self::from_name(name),
        }
    }

    pub fn commits_unused_item(self, kind: RoutineKind) -> bool {
        match self {
            Self::Hammerdb(Release::V6_0) => true,
            Self::Hammerdb(Release::V6_1_1) => kind == RoutineKind::Function,
            Self::Hammerdb(Release::V6_1) | Self::Spec => false,
        }
    }

    pub fn bad_credit_percent(self) -> u64 {
        match self {
            Self::Hammerdb(_) => 50,
            Self::Spec => 10,
        }
    }
}

/// A table, by its name in the standard except for `orders`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableName {
    Item,
    Warehouse,
    District,
    Customer,
    History,
    Stock,
    Orders,
    NewOrder,
    OrderLine,
}

impl TableName {
    /// All tables in the order in which a load lists them.
    pub const ALL: [Self; 9] = [
        Self::Item,
        Self::Warehouse,
        Self::District,
        Self::Customer,
        Self::History,
        Self::Stock,
        Self::Orders,
        Self::NewOrder,
        Self::OrderLine,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Item => "item",
            Self::Warehouse => "warehouse",
            Self::District => "district",
            Self::Customer => "customer",
            Self::History => "history",
            Self::Stock => "stock",
            Self::Orders => "orders",
            Self::NewOrder => "new_order",
            Self::OrderLine => "order_line",
        }
    }

    /// Rows for each warehouse, approximate for order_line; None for item, which all warehouses share.
    pub fn rows_a_warehouse(self) -> Option<u64> {
        Some(match self {
            Self::Item => return None,
            Self::Warehouse => 1,
            Self::District => DISTRICTS,
            Self::Customer | Self::History | Self::Orders => DISTRICTS * CUSTOMERS,
            Self::Stock => ITEMS,
            Self::NewOrder => DISTRICTS * (CUSTOMERS - DELIVERED),
            Self::OrderLine => DISTRICTS * CUSTOMERS * (ORDER_LINES[0] + ORDER_LINES[1]) / 2,
        })
    }
}
