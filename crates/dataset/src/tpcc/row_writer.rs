//! Makes rows of TPC-C's tables in COPY's text format, by clause 4.3.3 of the standard.

mod text;

use std::ops::Range;

use super::nurand::{LAST_NAME, c_of_load, nurand};
use super::{CUSTOMERS, DELIVERED, DISTRICTS, ITEMS, ORDER_LINES, TableName, Tpcc, last_names};
use crate::dataset::RowSource;
use crate::random_values::{Draws, mix, push_number};
use text::{push_cents, push_data, push_digits, push_text, push_zip};

/// The time in all rows for which the standard requires that of the load. It is constant so that
/// two loads with the same options are identical, and no transaction reads these columns.
const LOADED_AT: &[u8] = b"2026-01-01 00:00:00+00";
const NULL: &[u8] = b"\\N";
const W_YTD_CENTS: u64 = 30_000_000;
const D_YTD_CENTS: u64 = 3_000_000;
/// The percentage of rows of item and stock whose data contain the word ORIGINAL.
const ORIGINAL_PERCENT: u64 = 10;

/// Makes rows. Every value depends only on seed, table and unit.
pub(super) struct RowWriter {
    table: TableName,
    bad_credit_percent: u64,
    last_name_c: u64,
    stream: u64,
    /// The stream of orders, which determines the number of lines of each.
    orders: u64,
    /// Numbers of the customers in the order in which they placed the orders of a district.
    customers: Vec<u16>,
    /// The district of `customers`, counted over all warehouses.
    district: Option<u64>,
    units: Range<u64>,
}

impl RowWriter {
    /// Makes the rows of `units`, counted from 0, of a table.
    pub fn new(tpcc: &Tpcc, table: TableName, units: Range<u64>) -> Self {
        Self {
            table,
            bad_credit_percent: tpcc.profile.bad_credit_percent(),
            last_name_c: c_of_load(tpcc.profile, tpcc.seed),
            stream: stream(tpcc.seed, table),
            orders: stream(tpcc.seed, TableName::Orders),
            customers: Vec::new(),
            district: None,
            units,
        }
    }

    /// Appends the rows of a unit; returns how many.
    fn unit(&mut self, unit: u64, out: &mut Vec<u8>) -> u64 {
        let mut draws = Draws::of_row(self.stream, unit);
        match self.table {
            TableName::Item => item(unit, &mut draws, out),
            TableName::Warehouse => warehouse(unit, &mut draws, out),
            TableName::District => district(unit, &mut draws, out),
            TableName::Customer => self.customer(unit, &mut draws, out),
            TableName::History => history(unit, &mut draws, out),
            TableName::Stock => stock(unit, &mut draws, out),
            TableName::Orders => self.order(unit, out),
            TableName::NewOrder => new_order(unit, out),
            TableName::OrderLine => return self.order_lines(unit, &mut draws, out),
        }
        1
    }

    fn customer(&self, unit: u64, draws: &mut Draws, out: &mut Vec<u8>) {
        let place = Place::of(unit, CUSTOMERS);
        let name = if place.number <= last_names::COUNT {
            place.number - 1
        } else {
            let low = draws.between(0, LAST_NAME);
            let draw = draws.between(0, last_names::COUNT - 1);
            nurand(low, draw, self.last_name_c, 0, last_names::COUNT - 1)
        };
        out.extend_from_slice(LOADED_AT);
        tab_number(place.number, out);
        tab_number(place.warehouse, out);
        tab_number(place.district, out);
        out.extend_from_slice(b"\t1\t0\t");
        push_text(draws, 8, 16, out);
        out.extend_from_slice(b"\tOE\t");
        for syllable in last_names::syllables(name) {
            out.extend_from_slice(syllable.as_bytes());
        }
        address(draws, out);
        out.push(b'\t');
        push_digits(draws, 16, out);
        let credit = if draws.percent(self.bad_credit_percent) { "BC" } else { "GC" };
        out.push(b'\t');
        out.extend_from_slice(credit.as_bytes());
        out.extend_from_slice(b"\t50000.00\t");
        push_rate(draws.between(0, 5_000), out);
        out.extend_from_slice(b"\t-10.00\t10.00\t");
        push_text(draws, 300, 500, out);
        out.push(b'\n');
    }

    fn order(&mut self, unit: u64, out: &mut Vec<u8>) {
        let place = Place::of(unit, CUSTOMERS);
        self.permute((place.warehouse - 1) * DISTRICTS + place.district - 1);
        let (lines, mut draws) = self.lines_of(unit);
        out.extend_from_slice(LOADED_AT);
        tab_number(place.number, out);
        tab_number(place.warehouse, out);
        tab_number(u64::from(self.customers[(place.number - 1) as usize]), out);
        tab_number(place.district, out);
        if place.number <= DELIVERED {
            tab_number(draws.between(1, 10), out);
        } else {
            out.push(b'\t');
            out.extend_from_slice(NULL);
        }
        tab_number(lines, out);
        out.extend_from_slice(b"\t1\n");
    }

    fn order_lines(&self, unit: u64, draws: &mut Draws, out: &mut Vec<u8>) -> u64 {
        let place = Place::of(unit, CUSTOMERS);
        let is_delivered = place.number <= DELIVERED;
        let (lines, _) = self.lines_of(unit);
        for line in 1..=lines {
            out.extend_from_slice(if is_delivered { LOADED_AT } else { NULL });
            tab_number(place.number, out);
            tab_number(place.warehouse, out);
            tab_number(draws.between(1, ITEMS), out);
            tab_number(place.warehouse, out);
            tab_number(place.district, out);
            tab_number(line, out);
            out.extend_from_slice(b"\t5\t");
            let cents = if is_delivered { 0 } else { draws.between(1, 999_999) };
            push_cents(cents, out);
            out.push(b'\t');
            push_text(draws, 24, 24, out);
            out.push(b'\n');
        }
        lines
    }

    /// The number of lines of an order, and the draws for its other values.
    fn lines_of(&self, order: u64) -> (u64, Draws) {
        let mut draws = Draws::of_row(self.orders, order);
        let [fewest, most] = ORDER_LINES;
        (draws.between(fewest, most), draws)
    }

    /// Fills `customers` for a district with a Fisher-Yates shuffle.
    fn permute(&mut self, district: u64) {
        if self.district == Some(district) {
            return;
        }
        self.district = Some(district);
        let mut draws = Draws::of_row(mix(self.stream), district);
        self.customers.clear();
        self.customers.extend(1..=CUSTOMERS as u16);
        for last in (1..self.customers.len()).rev() {
            let other = draws.between(0, last as u64) as usize;
            self.customers.swap(last, other);
        }
    }
}

impl RowSource for RowWriter {
    fn append(&mut self, most: u64, out: &mut Vec<u8>) -> u64 {
        let mut rows = 0;
        while rows < most && !self.units.is_empty() {
            let unit = self.units.start;
            self.units.start += 1;
            rows += self.unit(unit, out);
        }
        rows
    }
}

/// The position of a row, with all numbers from 1.
struct Place {
    warehouse: u64,
    district: u64,
    number: u64,
}

impl Place {
    /// The position of a unit in a table with `a_district` rows for each district.
    fn of(unit: u64, a_district: u64) -> Self {
        let district = unit / a_district;
        Self { warehouse: district / DISTRICTS + 1, district: district % DISTRICTS + 1, number: unit % a_district + 1 }
    }
}

fn stream(seed: u64, table: TableName) -> u64 {
    mix(mix(seed).wrapping_add(table as u64))
}

fn item(unit: u64, draws: &mut Draws, out: &mut Vec<u8>) {
    push_number(unit + 1, out);
    tab_number(draws.between(1, 10_000), out);
    out.push(b'\t');
    push_text(draws, 14, 24, out);
    out.push(b'\t');
    push_cents(draws.between(100, 10_000), out);
    out.push(b'\t');
    push_data(draws, ORIGINAL_PERCENT, out);
    out.push(b'\n');
}

fn warehouse(unit: u64, draws: &mut Draws, out: &mut Vec<u8>) {
    push_number(unit + 1, out);
    out.push(b'\t');
    push_text(draws, 6, 10, out);
    address(draws, out);
    out.push(b'\t');
    push_rate(draws.between(0, 2_000), out);
    out.push(b'\t');
    push_cents(W_YTD_CENTS, out);
    out.push(b'\n');
}

fn district(unit: u64, draws: &mut Draws, out: &mut Vec<u8>) {
    let place = Place::of(unit, 1);
    push_number(place.warehouse, out);
    tab_number(CUSTOMERS + 1, out);
    tab_number(place.district, out);
    out.push(b'\t');
    push_cents(D_YTD_CENTS, out);
    out.push(b'\t');
    push_rate(draws.between(0, 2_000), out);
    out.push(b'\t');
    push_text(draws, 6, 10, out);
    address(draws, out);
    out.push(b'\n');
}

fn history(unit: u64, draws: &mut Draws, out: &mut Vec<u8>) {
    let place = Place::of(unit, CUSTOMERS);
    out.extend_from_slice(LOADED_AT);
    let columns = [place.number, place.warehouse, place.warehouse, place.district, place.district];
    columns.into_iter().for_each(|number| tab_number(number, out));
    out.extend_from_slice(b"\t10.00\t");
    push_text(draws, 12, 24, out);
    out.push(b'\n');
}

fn stock(unit: u64, draws: &mut Draws, out: &mut Vec<u8>) {
    push_number(unit % ITEMS + 1, out);
    tab_number(unit / ITEMS + 1, out);
    out.extend_from_slice(b"\t0");
    tab_number(draws.between(10, 100), out);
    out.extend_from_slice(b"\t0\t0");
    for _ in 0..DISTRICTS {
        out.push(b'\t');
        push_text(draws, 24, 24, out);
    }
    out.push(b'\t');
    push_data(draws, ORIGINAL_PERCENT, out);
    out.push(b'\n');
}

fn new_order(unit: u64, out: &mut Vec<u8>) {
    let place = Place::of(unit, CUSTOMERS - DELIVERED);
    push_number(place.warehouse, out);
    tab_number(DELIVERED + place.number, out);
    tab_number(place.district, out);
    out.push(b'\n');
}

/// Appends two streets, city, state and zip code, each after a tab.
fn address(draws: &mut Draws, out: &mut Vec<u8>) {
    for _ in 0..3 {
        out.push(b'\t');
        push_text(draws, 10, 20, out);
    }
    out.push(b'\t');
    push_text(draws, 2, 2, out);
    out.push(b'\t');
    push_zip(draws, out);
}

fn tab_number(number: u64, out: &mut Vec<u8>) {
    out.push(b'\t');
    push_number(number, out);
}

/// Appends a rate in ten-thousandths, below one.
fn push_rate(ten_thousandths: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0.");
    for weight in [1_000, 100, 10, 1] {
        out.push(b'0' + (ten_thousandths / weight % 10) as u8);
    }
}

#[cfg(test)]
mod tests;
