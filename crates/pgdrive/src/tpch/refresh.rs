//! The refresh functions: RF1 adds new orders with their line items, RF2 removes as many old ones (clause 2.5).
//!
//! dbgen leaves gaps in the order keys for RF1, and each pair of functions has a range of orders of
//! its own. RF1 copies the orders of its range under keys of the gap after them; RF2 removes the
//! originals. Sizes and distributions of all tables therefore remain, however many pairs have run.

use pgdyno_dataset::Tpch;

/// Of 32 successive order keys, the first 8 are in use; the next 8 are those of RF1.
const GAP: u64 = 8;
const KEYS: u64 = 32;
/// The bits of a key that are zero unless RF1 made it.
const GAP_BITS: u64 = KEYS - GAP;

/// How many orders one function adds or removes: 1,500 for each scale factor.
pub fn orders(tpch: Tpch) -> u64 {
    tpch.orders() / 1_000
}

pub const PAIRS: usize = 1_000;

/// The key of an order, by its number from 1.
fn key(order: u64) -> u64 {
    order / GAP * KEYS + order % GAP
}

fn range(tpch: Tpch, pair: usize, column: &str) -> String {
    let size = orders(tpch);
    let first = (pair as u64 - 1) * size + 1;
    format!("{column} between {} and {} and {column} & {GAP_BITS} = 0", key(first), key(first + size - 1))
}

/// RF1 of pair number `pair`, from 1.
pub fn rf1(tpch: Tpch, pair: usize) -> String {
    let lines = range(tpch, pair, "l_orderkey");
    let orders = range(tpch, pair, "o_orderkey");
    format!(
        "begin;
insert into lineitem
select l_orderkey + {GAP}, l_partkey, l_suppkey, l_linenumber, l_quantity, l_extendedprice, l_discount, l_tax,
       l_returnflag, l_linestatus, l_shipdate, l_commitdate, l_receiptdate, l_shipinstruct, l_shipmode, l_comment
from lineitem where {lines};
insert into orders
select o_orderkey + {GAP}, o_custkey, o_orderstatus, o_totalprice, o_orderdate, o_orderpriority, o_clerk,
       o_shippriority, o_comment
from orders where {orders};
commit"
    )
}

/// RF2 of pair number `pair`, from 1.
pub fn rf2(tpch: Tpch, pair: usize) -> String {
    format!(
        "begin;
delete from lineitem where {};
delete from orders where {};
commit",
        range(tpch, pair, "l_orderkey"),
        range(tpch, pair, "o_orderkey")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_divide_the_orders() {
        let tpch = Tpch::new(0.01).expect("a scale factor");
        assert_eq!(orders(tpch), 15);
        assert!(rf2(tpch, 1).contains("o_orderkey between 1 and 39 and o_orderkey & 24 = 0"));
        assert!(rf2(tpch, 2).contains("o_orderkey between 64 and 102 and"));
        let last = (PAIRS as u64) * orders(tpch);
        assert_eq!((last, key(last)), (15_000, 60_000));
    }
}
