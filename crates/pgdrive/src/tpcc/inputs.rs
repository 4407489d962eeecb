//! The users' random inputs for the five transactions (clauses 2.4 to 2.8).

use std::io::Write;

use pgdyno_dataset::tpcc::nurand::{self, nurand};
use pgdyno_dataset::tpcc::{CUSTOMERS, DISTRICTS, ITEMS, ORDER_LINES, Profile, last_names};
use pgdyno_script::Rng;

pub const MOST_LINES: usize = ORDER_LINES[1] as usize;
pub const UNUSED_ITEM: u32 = ITEMS as u32 + 1;

/// What all users of a run have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    pub warehouses: u32,
    pub profile: Profile,
    pub is_bound: bool,
    /// The constants `C` of NURand for last names, customer numbers and items.
    pub c: Constants,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constants {
    pub last_name_of_load: u64,
    pub last_name: u64,
    /// For customer numbers in this run; HammerDB's are uniform.
    pub customer: u64,
    /// For items in this run; HammerDB's are uniform.
    pub item: u64,
}

#[derive(Debug, Clone)]
pub struct User {
    rules: Rules,
    rng: Rng,
    home: u32,
    district: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewOrder {
    pub warehouse: u32,
    pub district: u32,
    pub customer: u32,
    pub count: usize,
    /// The lines: item, supplying warehouse and quantity. They are ordered by warehouse and item,
    /// so that two orders do not deadlock; an unused item is the last.
    pub lines: [Line; MOST_LINES],
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    pub supply: u32,
    pub item: u32,
    pub quantity: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The number, from 1 to 3000.
    Number(u32),
    /// The number of the last name, from 0 to 999.
    LastName(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payment {
    pub warehouse: u32,
    pub district: u32,
    pub customer_warehouse: u32,
    pub customer_district: u32,
    pub who: Who,
    pub cents: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inputs {
    /// A New-Order; its last item may be [`UNUSED_ITEM`].
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus {
        warehouse: u32,
        district: u32,
        who: Who,
    },
    Delivery {
        warehouse: u32,
        carrier: u32,
    },
    StockLevel {
        warehouse: u32,
        district: u32,
        /// Lower stock than this is counted.
        threshold: u32,
    },
}

impl User {
    /// User number `number`, from 0, of a run with this seed. In the standard's profile each
    /// warehouse has ten users, one for each district, and further users start over with the first
    /// warehouse; HammerDB's users have random warehouses.
    pub fn new(rules: Rules, seed: u64, number: usize) -> Self {
        // consecutive numbers must give unrelated seeds
        let spread = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut rng = Rng::seed(seed ^ spread).derive();
        let warehouses = u64::from(rules.warehouses);
        let number = number as u64;
        let (home, district) = match rules.profile {
            Profile::Spec => (number / DISTRICTS % warehouses + 1, number % DISTRICTS + 1),
            Profile::Hammerdb(_) => (rng.range_u64(1, warehouses), rng.range_u64(1, DISTRICTS)),
        };
        Self { rules, rng, home: home as u32, district: district as u32 }
    }

    /// Whether the next order has an unused item: one of a hundred (clause 2.4.1.4).
    pub fn has_unused_item(&mut self) -> bool {
        self.number(1, 100) == 1
    }

    /// The input of an order; `unused` makes its last item one that does not exist.
    pub fn new_order(&mut self, unused: bool) -> NewOrder {
        let warehouse = self.warehouse();
        let district = self.number(1, DISTRICTS);
        let customer = self.customer();
        let [fewest, most] = ORDER_LINES;
        let count = self.rng.range_u64(fewest, most) as usize;
        let mut lines = [Line::default(); MOST_LINES];
        for line in &mut lines[..count] {
            let is_remote = self.rng.range_u64(1, 100) == 1;
            *line = Line {
                supply: if is_remote { self.other_warehouse(warehouse) } else { warehouse },
                item: self.item(),
                quantity: self.number(1, 10),
            };
        }
        let sorted = count - usize::from(unused);
        lines[..sorted].sort_unstable();
        if unused {
            lines[sorted].item = UNUSED_ITEM;
        }
        NewOrder { warehouse, district, customer, count, lines }
    }

    pub fn payment(&mut self) -> Payment {
        let warehouse = self.warehouse();
        let district = self.number(1, DISTRICTS);
        let is_remote = self.rng.range_u64(1, 100) > 85;
        let (customer_warehouse, customer_district) = if is_remote {
            (self.other_warehouse(warehouse), self.number(1, DISTRICTS))
        } else {
            (warehouse, district)
        };
        let cents = match self.rules.profile {
            Profile::Hammerdb(_) => 100 * self.number(1, 5_000),
            Profile::Spec => self.number(100, 500_000),
        };
        Payment { warehouse, district, customer_warehouse, customer_district, who: self.who(), cents }
    }

    pub fn order_status(&mut self) -> Inputs {
        Inputs::OrderStatus { warehouse: self.warehouse(), district: self.number(1, DISTRICTS), who: self.who() }
    }

    /// The input of a Delivery: its warehouse and its carrier.
    pub fn delivery(&mut self) -> (u32, u32) {
        (self.warehouse(), self.number(1, 10))
    }

    pub fn stock_level(&mut self) -> Inputs {
        Inputs::StockLevel { warehouse: self.warehouse(), district: self.district, threshold: self.number(10, 20) }
    }

    fn warehouse(&mut self) -> u32 {
        if self.rules.is_bound { self.home } else { self.number(1, u64::from(self.rules.warehouses)) }
    }

    /// Any warehouse except `this`; `this` if there is no other.
    fn other_warehouse(&mut self, this: u32) -> u32 {
        let warehouses = u64::from(self.rules.warehouses);
        if warehouses == 1 {
            return this;
        }
        let drawn = self.number(1, warehouses - 1);
        drawn + u32::from(drawn >= this)
    }

    fn customer(&mut self) -> u32 {
        match self.rules.profile {
            Profile::Hammerdb(_) => self.number(1, CUSTOMERS),
            Profile::Spec => self.uneven(nurand::CUSTOMER, self.rules.c.customer, CUSTOMERS),
        }
    }

    fn item(&mut self) -> u32 {
        match self.rules.profile {
            Profile::Hammerdb(_) => self.number(1, ITEMS),
            Profile::Spec => self.uneven(nurand::ITEM, self.rules.c.item, ITEMS),
        }
    }

    /// A customer, 60 percent of the time by last name.
    fn who(&mut self) -> Who {
        if self.rng.range_u64(1, 100) > 60 {
            return Who::Number(self.customer());
        }
        let low = self.rng.range_u64(0, nurand::LAST_NAME);
        let draw = self.rng.range_u64(0, last_names::COUNT - 1);
        let c = self.rules.c.last_name;
        Who::LastName(nurand(low, draw, c, 0, last_names::COUNT - 1))
    }

    fn uneven(&mut self, a: u64, c: u64, most: u64) -> u32 {
        let low = self.rng.range_u64(0, a);
        let draw = self.rng.range_u64(1, most);
        nurand(low, draw, c, 1, most) as u32
    }

    fn number(&mut self, least: u64, most: u64) -> u32 {
        self.rng.range_u64(least, most) as u32
    }
}

pub fn push(out: &mut Vec<u8>, value: impl std::fmt::Display) {
    // writing to a vector cannot fail
    let _ = write!(out, "{value}");
}

pub fn push_cents(out: &mut Vec<u8>, cents: u64) {
    push(out, format_args!("{}.{:02}", cents / 100, cents % 100));
}

pub fn push_last_name(out: &mut Vec<u8>, number: u64) {
    for syllable in last_names::syllables(number) {
        out.extend_from_slice(syllable.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(warehouses: u32, profile: Profile) -> Rules {
        Rules {
            warehouses,
            profile,
            is_bound: true,
            c: Constants { last_name_of_load: 1, last_name: 100, customer: 259, item: 7_911 },
        }
    }

    #[test]
    fn orders_are_as_the_standard_has_them() {
        let mut user = User::new(rules(4, Profile::Spec), 1, 13);
        assert_eq!((user.home, user.district), (2, 4));
        let (mut lines, mut remote) = (0, 0);
        for _ in 0..20_000 {
            let order = user.new_order(false);
            assert_eq!(order.warehouse, 2);
            assert!((1..=10).contains(&order.district) && (1..=3_000).contains(&order.customer));
            assert!((5..=15).contains(&order.count));
            let own = &order.lines[..order.count];
            assert!(own.is_sorted());
            for line in own {
                assert!((1..=100_000).contains(&line.item) && (1..=10).contains(&line.quantity));
                assert!((1..=4).contains(&line.supply));
                lines += 1;
                remote += u32::from(line.supply != 2);
            }
        }
        let share = f64::from(remote) / f64::from(lines);
        assert!((share - 0.01).abs() < 0.0012, "{share}");
        let order = user.new_order(true);
        assert_eq!(order.lines.iter().position(|line| line.item == UNUSED_ITEM), Some(order.count - 1));
    }

    #[test]
    fn payments_are_as_the_profile_has_them() {
        for profile in Profile::ALL {
            let mut user = User::new(rules(3, profile), 9, 0);
            let home = user.home;
            let all: Vec<Payment> = (0..20_000).map(|_| user.payment()).collect();
            let share =
                |of: &dyn Fn(&Payment) -> bool| all.iter().filter(|payment| of(payment)).count() as f64 / 20_000.0;
            let remote = share(&|payment| payment.customer_warehouse != home);
            assert!((remote - 0.15).abs() < 0.013, "{remote}");
            let named = share(&|payment| matches!(payment.who, Who::LastName(_)));
            assert!((named - 0.6).abs() < 0.018, "{named}");
            assert_eq!(share(&|payment| payment.cents % 100 == 0) == 1.0, matches!(profile, Profile::Hammerdb(_)));
            assert!(all.iter().all(|payment| (100..=500_000).contains(&payment.cents)));
        }
        // one warehouse is its own neighbour
        let mut user = User::new(rules(1, Profile::HAMMERDB), 9, 7);
        assert!((0..1_000).all(|_| user.payment().customer_warehouse == 1));
        let mut free = User::new(Rules { is_bound: false, ..rules(5, Profile::HAMMERDB) }, 9, 7);
        let mut seen = [false; 5];
        (0..1_000).for_each(|_| seen[free.payment().warehouse as usize - 1] = true);
        assert_eq!(seen, [true; 5]);
    }

    #[test]
    fn draws_are_uneven_differ_by_user_and_repeat_by_seed() {
        let top_share = |profile: Profile| {
            let mut user = User::new(rules(1, profile), 3, 0);
            let mut counts = vec![0u32; 3_001];
            (0..60_000).for_each(|_| counts[user.customer() as usize] += 1);
            counts.sort_unstable_by(|a, b| b.cmp(a));
            f64::from(counts[..300].iter().sum::<u32>()) / 60_000.0
        };
        assert!(top_share(Profile::Spec) > 0.3);
        assert!(top_share(Profile::HAMMERDB) < 0.16);
        // users differ and a seed repeats
        let draw = |seed, number| User::new(rules(9, Profile::Spec), seed, number).payment();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }
}
