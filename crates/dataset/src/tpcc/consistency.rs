//! The standard's consistency conditions (clause 3.3.2) as SQL.
//!
//! Each is one statement and therefore one snapshot: it holds after a load, after a run, and during a run.

use std::time::{Duration, Instant};

use pgdyno_connect::Session;

use super::Profile;
use crate::load_error::LoadError;
use crate::load_ledger::query;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Conditions 1 to 4, which the standard requires, and the cardinality of small tables.
    Required,
    /// All 12 conditions, and the cardinality of all tables whose number of rows never changes.
    Thorough,
}

/// Something that must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Number in the standard; 0 for the cardinalities of clause 1.2.1.
    pub number: u32,
    pub text: &'static str,
    /// A query that returns a line of text for each violation.
    sql: String,
}

/// The result of checking a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// How many warehouses, districts, orders or customers violate it.
    pub violations: u64,
    /// A text with the first few violations; empty if there are none.
    pub examples: String,
    pub elapsed: Duration,
}

impl Condition {
    /// Checks the condition.
    ///
    /// # Errors
    /// The server refused the query.
    pub fn check(&self, session: &mut Session) -> Result<Verdict, LoadError> {
        let started = Instant::now();
        let sql =
            format!("select count(*), array_to_string((array_agg(told))[1:3], '; ') from ({}) broken(told)", self.sql);
        let row = query(session, &sql)?.pop().unwrap_or_default();
        let value = |at: usize| row.get(at).and_then(Option::as_deref).unwrap_or_default();
        Ok(Verdict {
            // an answer that cannot be read counts as a violation
            violations: value(0).parse().unwrap_or(u64::MAX),
            examples: value(1).to_owned(),
            elapsed: started.elapsed(),
        })
    }
}

/// The conditions for a database with this many warehouses.
pub fn conditions(warehouses: u64, profile: Profile, depth: Depth) -> Vec<Condition> {
    let mut all =
        vec![Condition { number: 0, text: "tables of a fixed size have it", sql: cardinalities(warehouses, depth) }];
    let fixed = |(number, text, sql): (u32, &'static str, &str)| Condition { number, text, sql: sql.to_owned() };
    all.extend(REQUIRED.map(fixed));
    if depth == Depth::Thorough {
        all.extend(FURTHER.map(fixed));
        all.push(Condition {
            number: 11,
            text: "orders less open orders are the 2,100 of the load and those delivered since",
            sql: delivered_since(profile),
        });
        all.sort_by_key(|condition| condition.number);
    }
    all
}

fn cardinalities(warehouses: u64, depth: Depth) -> String {
    let mut tables = vec![("warehouse", warehouses), ("district", warehouses * 10)];
    if depth == Depth::Thorough {
        tables.extend([("item", 100_000), ("customer", warehouses * 30_000), ("stock", warehouses * 100_000)]);
    }
    let counts = tables.into_iter().map(|(table, rows)| {
        format!(
            "select format('%s has %s rows, not %s', '{table}', count(*), {rows}) from {table} \
             having count(*) <> {rows}"
        )
    });
    counts.collect::<Vec<_>>().join(" union all ")
}

/// Condition 11 applies to a database as loaded. In the standard's profile, every delivery after
/// that is counted in the customer, and moves an order from one side of the equation to the other.
fn delivered_since(profile: Profile) -> String {
    let (expected, differs) = match profile {
        Profile::Spec => {
            ("2100 + (select sum(c_delivery_cnt) from customer where c_w_id = d_w_id and c_d_id = d_id)", "<>")
        }
        Profile::Hammerdb(_) => ("2100", "<"),
    };
    format!(
        "select format('warehouse %s district %s: %s orders less %s open ones, %s delivered', \
         d_w_id, d_id, orders, open, expected) from (select d_w_id, d_id, {expected} expected, \
         (select count(*) from orders where o_w_id = d_w_id and o_d_id = d_id) as orders, \
         (select count(*) from new_order where no_w_id = d_w_id and no_d_id = d_id) as open from district) d \
         where orders - open {differs} expected"
    )
}

const REQUIRED: [(u32, &str, &str); 4] = [
    (
        1,
        "a warehouse's year-to-date amount is the sum of its districts'",
        "select format('warehouse %s: w_ytd is %s, its districts have %s', w_id, w_ytd, total)
         from warehouse left join (select d_w_id, sum(d_ytd) as total from district group by d_w_id) d on d_w_id = w_id
         where w_ytd is distinct from total",
    ),
    (
        2,
        "the next order follows the last one of orders and of new_order",
        "select format('warehouse %s district %s: next is %s, last of orders %s, of new_order %s',
                       d_w_id, d_id, d_next_o_id, last, last_open)
         from district,
              lateral (select max(o_id) as last from orders where o_w_id = d_w_id and o_d_id = d_id) o,
              lateral (select max(no_o_id) as last_open from new_order where no_w_id = d_w_id and no_d_id = d_id) n
         where d_next_o_id - 1 is distinct from last or d_next_o_id - 1 <> last_open",
    ),
    (
        3,
        "the open orders of a district have no gaps",
        "select format('warehouse %s district %s: %s open orders from %s to %s',
                       no_w_id, no_d_id, count(*), min(no_o_id), max(no_o_id))
         from new_order group by no_w_id, no_d_id having max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    ),
    (
        4,
        "a district has as many order lines as its orders say",
        "select format('warehouse %s district %s: %s order lines, its orders say %s', w, d, lines, said)
         from (select o_w_id as w, o_d_id as d, sum(o_ol_cnt) as said from orders group by 1, 2) o
              full join (select ol_w_id as w, ol_d_id as d, count(*) as lines from order_line group by 1, 2) l using (w, d)
         where lines is distinct from said",
    ),
];

const FURTHER: [(u32, &str, &str); 7] = [
    (
        5,
        "an order has no carrier just as long as it is open",
        "select format('warehouse %s district %s order %s: carrier %s, open %s',
                       coalesce(o_w_id, no_w_id), coalesce(o_d_id, no_d_id), coalesce(o_id, no_o_id),
                       coalesce(o_carrier_id::text, 'none'), no_o_id is not null)
         from orders full join new_order on no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id
         where o_id is null or (o_carrier_id is null) <> (no_o_id is not null)",
    ),
    (
        6,
        "an order has as many lines as it says",
        "select format('warehouse %s district %s order %s: %s lines, it says %s', w, d, o, lines, said)
         from (select o_w_id w, o_d_id d, o_id o, o_ol_cnt said from orders) o
              full join (select ol_w_id as w, ol_d_id as d, ol_o_id as o, count(*) as lines from order_line group by 1, 2, 3) l
              using (w, d, o)
         where lines is distinct from said",
    ),
    (
        7,
        "an order line is delivered just when its order has a carrier",
        "select format('warehouse %s district %s order %s line %s: delivered %s, carrier %s',
                       ol_w_id, ol_d_id, ol_o_id, ol_number, ol_delivery_d, o_carrier_id)
         from order_line left join orders on o_w_id = ol_w_id and o_d_id = ol_d_id and o_id = ol_o_id
         where o_id is null or (ol_delivery_d is null) <> (o_carrier_id is null)",
    ),
    (
        8,
        "a warehouse's year-to-date amount is the sum of its history",
        "select format('warehouse %s: w_ytd is %s, its history has %s', w_id, w_ytd, total)
         from warehouse left join (select h_w_id, sum(h_amount) as total from history group by h_w_id) h on h_w_id = w_id
         where w_ytd is distinct from total",
    ),
    (
        9,
        "a district's year-to-date amount is the sum of its history",
        "select format('warehouse %s district %s: d_ytd is %s, its history has %s', d_w_id, d_id, d_ytd, total)
         from district left join (select h_w_id, h_d_id, sum(h_amount) as total from history group by 1, 2) h
              on h_w_id = d_w_id and h_d_id = d_id
         where d_ytd is distinct from total",
    ),
    (
        10,
        "a customer's balance is what was delivered less what was paid",
        "select format('customer %s %s %s: balance %s, delivered %s, paid %s', w, d, c, c_balance, delivered, paid)
         from (select c_w_id w, c_d_id d, c_id c, c_balance from customer) c
              left join (select o_w_id w, o_d_id d, o_c_id c, sum(ol_amount) delivered
                         from orders join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
                         where ol_delivery_d is not null group by 1, 2, 3) o using (w, d, c)
              left join (select h_c_w_id w, h_c_d_id d, h_c_id c, sum(h_amount) paid
                         from history group by 1, 2, 3) h using (w, d, c)
         where c_balance <> coalesce(delivered, 0) - coalesce(paid, 0)",
    ),
    (
        12,
        "a customer's balance and payments make what was delivered",
        "select format('customer %s %s %s: balance %s, payments %s, delivered %s',
                       w, d, c, c_balance, c_ytd_payment, delivered)
         from (select c_w_id w, c_d_id d, c_id c, c_balance, c_ytd_payment from customer) c
              left join (select o_w_id w, o_d_id d, o_c_id c, sum(ol_amount) delivered
                         from orders join order_line on ol_w_id = o_w_id and ol_d_id = o_d_id and ol_o_id = o_id
                         where ol_delivery_d is not null group by 1, 2, 3) o using (w, d, c)
         where c_balance + c_ytd_payment <> coalesce(delivered, 0)",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_the_standards_are_there() {
        let numbers = |depth| {
            let all = conditions(3, Profile::Spec, depth);
            all.iter().map(|condition| condition.number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(Depth::Required), [0, 1, 2, 3, 4]);
        assert_eq!(numbers(Depth::Thorough), (0..=12).collect::<Vec<_>>());
    }
}
