//! TPC-C's nine tables (revision 5.11 of the standard), for both profiles of the workload.
//!
//! Two profiles, whose figures are never compared with each other: `hammerdb` is what its users
//! know, `spec` goes by the standard's clauses.

pub mod conditions;
mod dataset;
pub mod last_names;
pub mod nurand;
pub mod routines;
mod row_writer;
mod schema;

/// Version of rows, tables and routines: rises whenever the same options give something else.
pub const VERSION: u32 = 1;
/// Districts of a warehouse.
pub const DISTRICTS: u64 = 10;
/// Customers of a district, and its orders after a load.
pub const CUSTOMERS: u64 = 3_000;
/// Items, and so stock rows of a warehouse.
pub const ITEMS: u64 = 100_000;
/// Orders of a district that are delivered after a load; the others are in new_order, too.
pub const DELIVERED: u64 = 2_100;
/// Order lines of an order, the fewest and the most.
pub const ORDER_LINES: [u64; 2] = [5, 15];

/// Rows of the dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tpcc {
    /// How many, at least 1.
    pub warehouses: u32,
    /// Whose rules its rows follow.
    pub profile: Profile,
    /// Partitions of order_line by ranges of warehouses, at most one a warehouse; None when it is
    /// an ordinary table.
    pub order_line_partitions: Option<u32>,
    /// What random values come from.
    pub seed: u64,
}

/// Whose rules the workload follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// HammerDB's.
    Hammerdb,
    /// The standard's.
    Spec,
}

impl Profile {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Hammerdb, Self::Spec];

    /// As options and marks have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hammerdb => "hammerdb",
            Self::Spec => "spec",
        }
    }

    /// The profile of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == name)
    }

    /// Customers with bad credit, of a hundred.
    #[must_use]
    pub fn bad_credit_percent(self) -> u64 {
        match self {
            Self::Hammerdb => 50,
            Self::Spec => 10,
        }
    }
}

/// A table, by the standard's names but for `orders`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableName {
    /// `item`
    Item,
    /// `warehouse`
    Warehouse,
    /// `district`
    District,
    /// `customer`
    Customer,
    /// `history`
    History,
    /// `stock`
    Stock,
    /// `orders`
    Orders,
    /// `new_order`
    NewOrder,
    /// `order_line`
    OrderLine,
}

impl TableName {
    /// In the order in which a load counts them.
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

    /// Its name.
    #[must_use]
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

    /// Rows for each warehouse, about for order_line; None for item, which belongs to all.
    #[must_use]
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
