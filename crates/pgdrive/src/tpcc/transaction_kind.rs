//! The kinds of transactions: the standard's five types, and New-Orders that are rolled back.

use pgdyno_dataset::tpcc::Profile;
use pgdyno_dataset::tpcc::routines::Transaction;

use super::Variant;

/// The engine's scripts. New-Orders that are to be rolled back have a script of their own, so that
/// they are drawn, timed and counted separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    NewOrder,
    /// A New-Order that is rolled back because of an unused item.
    RolledBack,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    pub const ALL: [Self; 6] =
        [Self::NewOrder, Self::RolledBack, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    pub fn name(self) -> &'static str {
        match self {
            Self::RolledBack => "New-Order rolled back",
            other => other.transaction().name(),
        }
    }

    pub fn transaction(self) -> Transaction {
        match self {
            Self::NewOrder | Self::RolledBack => Transaction::NewOrder,
            Self::Payment => Transaction::Payment,
            Self::OrderStatus => Transaction::OrderStatus,
            Self::Delivery => Transaction::Delivery,
            Self::StockLevel => Transaction::StockLevel,
        }
    }

    /// The weight, in sums of 2,300 or 10,000: one of a hundred New-Orders has an unused item. If
    /// the server commits it, it is an ordinary New-Order.
    pub fn weight(self, profile: Profile, variant: Variant) -> u32 {
        let rolled_back = if variant.commits_unused_item(profile) { 0 } else { 10 };
        match (profile, self) {
            (Profile::Hammerdb(_), Self::NewOrder) => 1_000 - rolled_back,
            (Profile::Hammerdb(_), Self::RolledBack) => rolled_back,
            (Profile::Hammerdb(_), Self::Payment) => 1_000,
            (Profile::Hammerdb(_), _) => 100,
            (Profile::Spec, Self::NewOrder) => 4_455,
            (Profile::Spec, Self::RolledBack) => 45,
            (Profile::Spec, Self::Payment) => 4_300,
            (Profile::Spec, _) => 400,
        }
    }
}
