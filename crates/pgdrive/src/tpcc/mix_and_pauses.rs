//! The transaction types: weights, the standard's requirements and pauses, and whether the mix is the requested one.

use std::time::Duration;

use pgdyno_dataset::tpcc::Profile;
use pgdyno_dataset::tpcc::routines::Transaction;
use pgdyno_engine::pacing::{Pacing, Pause};

use super::Variant;
use super::client_sql::client_statement::Statement;
use super::transaction_kind::Kind;

/// Names under which the statements of a type are reported.
pub fn commands(kind: Kind, variant: Variant, profile: Profile) -> Vec<String> {
    match variant {
        Variant::Functions | Variant::Procedures => {
            vec![call(kind.transaction(), variant)]
        }
        Variant::Sql => {
            let own = Statement::of(kind).iter();
            own.map(|one| one.sql(profile)).collect()
        }
        Variant::SqlPipelined => vec![format!("pipelines of {}", kind.transaction().name())],
    }
}

pub fn call(transaction: Transaction, variant: Variant) -> String {
    let inputs = (1..=transaction.inputs().len()).map(|number| format!("${number}"));
    match variant {
        Variant::Procedures => {
            let outputs = transaction.outputs().into_iter().map(|_| "null".to_owned());
            let all: Vec<String> = inputs.chain(outputs).collect();
            format!("call {}({})", transaction.procedure(), all.join(", "))
        }
        _ => {
            let all: Vec<String> = inputs.collect();
            format!("select * from {}({})", transaction.function(), all.join(", "))
        }
    }
}

/// The standard's requirements for a type (clauses 5.2.3, 5.2.5.3 and 5.2.5.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirement {
    /// Least percentage of all transactions; None if there is no minimum.
    pub least_percent: Option<u32>,
    /// Ninety percent must be answered within this time.
    pub limit: Duration,
    pub keying: Duration,
    /// Mean think time after each transaction.
    pub think: Duration,
}

pub fn requirement(transaction: Transaction) -> Requirement {
    let (least_percent, limit_s, keying_s, think_s) = match transaction {
        Transaction::NewOrder => (None, 5, 18, 12),
        Transaction::Payment => (Some(43), 5, 3, 12),
        Transaction::OrderStatus => (Some(4), 5, 2, 10),
        Transaction::Delivery => (Some(4), 5, 2, 5),
        Transaction::StockLevel => (Some(4), 20, 2, 5),
    };
    Requirement {
        least_percent,
        limit: Duration::from_secs(limit_s),
        keying: Duration::from_secs(keying_s),
        think: Duration::from_secs(think_s),
    }
}

pub fn pauses(kind: Kind) -> Pacing {
    let Requirement { keying, think, .. } = requirement(kind.transaction());
    Pacing { keying: Pause::Fixed(keying), think: Pause::Exponential { mean: think } }
}

/// How often a type occurred, compared with its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    pub asked_percent: f64,
    pub percent: f64,
    /// The least and the greatest percentage that are compatible with chance.
    pub bounds_percent: [f64; 2],
}

/// How many standard deviations are compatible with chance: one run in three million exceeds them.
const DEVIATIONS: f64 = 5.0;

impl Share {
    /// Of `count` in `total`, where `weight` of `weights` was requested. Each client may have one transaction in
    /// progress when measuring begins and ends, and that is more likely to be a long one.
    pub fn new(count: u64, total: u64, weight: u32, weights: u32, clients: usize) -> Self {
        let (total, asked) = (total.max(1) as f64, f64::from(weight) / f64::from(weights));
        let deviation = (asked * (1.0 - asked) / total).sqrt();
        let allowed = DEVIATIONS * deviation + clients as f64 / total;
        Self {
            asked_percent: asked * 100.0,
            percent: count as f64 / total * 100.0,
            bounds_percent: [asked - allowed, asked + allowed].map(|share| (share * 100.0).clamp(0.0, 100.0)),
        }
    }

    pub fn is_as_asked(&self) -> bool {
        let [least, most] = self.bounds_percent;
        (least..=most).contains(&self.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_and_calls_are_the_profiles_and_chance_has_bounds() {
        for profile in Profile::ALL {
            for variant in Variant::ALL {
                let weights = Kind::ALL.map(|kind| kind.weight(profile, variant));
                assert_eq!(weights.iter().sum::<u32>(), if profile == Profile::Spec { 10_000 } else { 2_300 });
                assert_eq!(weights[Kind::RolledBack as usize] > 0, !variant.commits_unused_item(profile));
            }
        }
        // chance has bounds
        let share = |count| Share::new(count, 100_000, 43, 100, 10);
        assert!(share(43_000).is_as_asked() && share(42_300).is_as_asked());
        assert!(!share(42_000).is_as_asked() && !share(44_000).is_as_asked());
        assert!(Share::new(0, 10, 1, 100, 1).is_as_asked());
        assert!(!Share::new(0, 100_000, 1, 100, 1).is_as_asked());
        // calls name all parameters
        assert_eq!(call(Transaction::StockLevel, Variant::Functions), "select * from tpcc_stock_level($1, $2, $3)");
        assert_eq!(call(Transaction::Delivery, Variant::Procedures), "call tpcc_call_delivery($1, $2, null)");
    }
}
