//! Transactions whose statements the client sends one by one: what is next, and what it needs of an answer.

pub mod client_statement;

use pgdyno_dataset::tpcc::Profile;
use pgdyno_engine::driver::{Answer, Outgoing};
use pgdyno_wire::{BindTemplate, Columns, EncodeError};

use super::inputs::{Inputs, Line, MOST_LINES, NewOrder, Payment, Who, push, push_cents, push_last_name};
use super::transaction_kind::Kind;
use client_statement::Statement;

const DISTRICTS: usize = 10;
const DIST_INFO: usize = 24;
const MOST_PARAMETERS: usize = 9;

#[derive(Debug)]
pub struct Prepared {
    pub name: String,
    pub sql: String,
    pub template: BindTemplate,
}

impl Prepared {
    /// Statements with their numbers of parameters; each is named by its index.
    pub fn all(statements: Vec<(String, u16)>) -> Result<Vec<Self>, EncodeError> {
        let one = |(place, (sql, parameters)): (usize, (String, u16))| {
            let name = format!("tpcc{place}");
            let template = BindTemplate::new(&name, parameters, Columns::Undescribed)?;
            Ok(Self { name, sql, template })
        };
        statements.into_iter().enumerate().map(one).collect()
    }
}

#[derive(Debug)]
pub struct ClientSql {
    profile: Profile,
    is_pipelined: bool,
    plan: Vec<Step>,
    first: usize,
    next: usize,
    learnt: EarlierResults,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    statement: Statement,
    /// Index of the order line or of the district, from 0.
    number: usize,
    waits: bool,
}

#[derive(Debug, Default)]
struct EarlierResults {
    order: u32,
    customer: u32,
    next_order: u32,
    prices_cents: [u64; MOST_LINES],
    dist_infos: [[u8; DIST_INFO]; MOST_LINES],
    warehouse_name: Vec<u8>,
    district_name: Vec<u8>,
    /// For each district: its order, if there is one, its customer and its amount.
    orders: [Option<u32>; DISTRICTS],
    customers: [u32; DISTRICTS],
    totals_cents: [u64; DISTRICTS],
    unused_item: bool,
    rolled_back: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    Done,
}

#[derive(Clone, Copy)]
enum Value<'a> {
    Int(u32),
    Cents(u64),
    LastName(u64),
    Text(&'a [u8]),
}

impl ClientSql {
    pub fn new(profile: Profile, is_pipelined: bool) -> Self {
        Self { profile, is_pipelined, plan: Vec::new(), first: 0, next: 0, learnt: EarlierResults::default() }
    }

    /// Whether the transaction named an unused item.
    pub fn rolled_back(&self) -> bool {
        self.learnt.rolled_back
    }

    pub fn prepared(profile: Profile) -> Vec<(String, u16)> {
        let one = |statement: Statement| (statement.sql(profile), statement.parameters(profile));
        Statement::ALL.into_iter().map(one).collect()
    }

    pub fn begin(&mut self, inputs: &Inputs) {
        self.plan.clear();
        (self.first, self.next) = (0, 0);
        self.learnt.unused_item = false;
        self.learnt.rolled_back = false;
        self.step(Statement::Begin);
        match inputs {
            Inputs::NewOrder(order) => self.plan_new_order(order),
            Inputs::Payment(payment) => self.plan_payment(payment),
            Inputs::OrderStatus { who, .. } => self.plan_order_status(*who),
            Inputs::Delivery { .. } => self.plan_delivery(),
            Inputs::StockLevel { .. } => {
                self.step(Statement::StockDistrict);
                self.later(Statement::StockCount);
            }
        }
        self.step(Statement::Commit);
    }

    fn plan_new_order(&mut self, order: &NewOrder) {
        self.step(Statement::NewOrderCustomer);
        self.step(Statement::NewOrderDistrict);
        for number in 0..order.count {
            self.each(Statement::NewOrderItem, number, false);
            self.each(Statement::NewOrderStock, number, false);
        }
        self.later(Statement::NewOrderOrder);
        self.step(Statement::NewOrderOpen);
        for number in 0..order.count {
            self.each(Statement::NewOrderLine, number, false);
        }
    }

    fn plan_payment(&mut self, payment: &Payment) {
        self.step(Statement::PaymentWarehouse);
        self.step(Statement::PaymentDistrict);
        if let Who::LastName(_) = payment.who {
            self.step(Statement::CustomerByName);
        }
        self.later(Statement::PaymentCustomer);
        self.step(Statement::PaymentHistory);
    }

    fn plan_order_status(&mut self, who: Who) {
        if let Who::LastName(_) = who {
            self.step(Statement::CustomerByName);
            self.later(Statement::StatusCustomer);
        } else {
            self.step(Statement::StatusCustomer);
        }
        self.step(Statement::StatusOrder);
        self.later(Statement::StatusLines);
    }

    fn plan_delivery(&mut self) {
        let stages =
            [Statement::DeliveryOpen, Statement::DeliveryOrder, Statement::DeliveryLines, Statement::DeliveryCustomer];
        for (stage, statement) in stages.into_iter().enumerate() {
            for district in 0..DISTRICTS {
                // orders and lines both need the order's number, but not each other
                let waits = district == 0 && stage % 2 == 1;
                self.each(statement, district, waits);
            }
        }
    }

    fn step(&mut self, statement: Statement) {
        self.each(statement, 0, false);
    }

    fn later(&mut self, statement: Statement) {
        self.each(statement, 0, true);
    }

    fn each(&mut self, statement: Statement, number: usize, waits: bool) {
        self.plan.push(Step { statement, number, waits });
    }

    pub fn send(
        &mut self, kind: Kind, inputs: &Inputs, prepared: &[Prepared], out: &mut Outgoing<'_>,
    ) -> Result<(), EncodeError> {
        out.keep_rows();
        self.first = self.next;
        self.skip_empty_districts();
        while let Some(step) = self.plan.get(self.next) {
            let is_first = self.next == self.first;
            if !is_first && (step.waits || !self.is_pipelined) {
                break;
            }
            let template = &prepared[step.statement as usize].template;
            if !self.is_pipelined {
                let own = Statement::of(kind);
                let command = own.iter().position(|one| *one == step.statement);
                out.command(command.unwrap_or(0));
            }
            self.send_step(*step, inputs, template, out)?;
            self.next += 1;
            if self.is_pipelined {
                // nothing more is known of districts until the next answer
                self.skip_empty_districts();
            }
        }
        Ok(())
    }

    /// Removes from the plan the statements of districts without an open order.
    fn skip_empty_districts(&mut self) {
        while let Some(step) = self.plan.get(self.next) {
            let of_order = matches!(
                step.statement,
                Statement::DeliveryOrder | Statement::DeliveryLines | Statement::DeliveryCustomer
            );
            // no district is known to be empty while that statement is in progress
            let is_known = of_order && (self.first..self.next).all(|at| !self.opens(at));
            if !is_known || self.learnt.orders[step.number].is_some() {
                break;
            }
            let waits = step.waits;
            self.plan.remove(self.next);
            if let Some(following) = self.plan.get_mut(self.next) {
                following.waits |= waits;
            }
        }
    }

    fn opens(&self, at: usize) -> bool {
        self.plan[at].statement == Statement::DeliveryOpen
    }

    fn send_step(
        &self, step: Step, inputs: &Inputs, template: &BindTemplate, out: &mut Outgoing<'_>,
    ) -> Result<(), EncodeError> {
        let values = self.values(step, inputs);
        out.execute(template, |number, out| {
            match values[usize::from(number)] {
                Value::Int(value) => push(out, value),
                Value::Cents(cents) => push_cents(out, cents),
                Value::LastName(number) => push_last_name(out, number),
                Value::Text(text) => out.extend_from_slice(text),
            }
            true
        })
    }

    fn values(&self, step: Step, inputs: &Inputs) -> [Value<'_>; MOST_PARAMETERS] {
        match inputs {
            Inputs::NewOrder(order) => self.new_order_values(step, order),
            Inputs::Payment(payment) => self.payment_values(step.statement, payment),
            Inputs::OrderStatus { warehouse, district, who } => {
                let third = match step.statement {
                    Statement::CustomerByName => by_name(*who),
                    Statement::StatusLines => Value::Int(self.learnt.order),
                    _ => self.customer(*who),
                };
                pad_values([Value::Int(*warehouse), Value::Int(*district), third])
            }
            Inputs::Delivery { warehouse, carrier } => {
                let learnt = &self.learnt;
                let number = step.number;
                let (third, fourth) = match step.statement {
                    Statement::DeliveryCustomer => {
                        (Value::Int(learnt.customers[number]), Value::Cents(learnt.totals_cents[number]))
                    }
                    _ => (Value::Int(learnt.orders[number].unwrap_or(0)), Value::Int(*carrier)),
                };
                pad_values([Value::Int(*warehouse), Value::Int(number as u32 + 1), third, fourth])
            }
            Inputs::StockLevel { warehouse, district, threshold } => pad_values([
                Value::Int(*warehouse),
                Value::Int(*district),
                Value::Int(self.learnt.next_order),
                Value::Int(*threshold),
            ]),
        }
    }

    fn new_order_values(&self, step: Step, order: &NewOrder) -> [Value<'_>; MOST_PARAMETERS] {
        let learnt = &self.learnt;
        let (w, d) = (Value::Int(order.warehouse), Value::Int(order.district));
        let Line { supply, item, quantity } = order.lines[step.number];
        let is_remote = supply != order.warehouse;
        let (i, s, q) = (Value::Int(item), Value::Int(supply), Value::Int(quantity));
        match step.statement {
            Statement::NewOrderItem => pad_values([i]),
            Statement::NewOrderStock => pad_values([i, s, q, d, Value::Int(u32::from(is_remote))]),
            Statement::NewOrderOrder => {
                let own = &order.lines[..order.count];
                let all_local = own.iter().all(|line| line.supply == order.warehouse);
                pad_values([
                    Value::Int(learnt.order),
                    d,
                    w,
                    Value::Int(order.customer),
                    Value::Int(order.count as u32),
                    Value::Int(u32::from(all_local)),
                ])
            }
            Statement::NewOrderOpen => pad_values([Value::Int(learnt.order), d, w]),
            Statement::NewOrderLine => [
                Value::Int(learnt.order),
                d,
                w,
                Value::Int(step.number as u32 + 1),
                i,
                s,
                q,
                Value::Cents(u64::from(quantity) * learnt.prices_cents[step.number]),
                Value::Text(&learnt.dist_infos[step.number]),
            ],
            _ => pad_values([w, d, Value::Int(order.customer)]),
        }
    }

    fn payment_values(&self, statement: Statement, payment: &Payment) -> [Value<'_>; MOST_PARAMETERS] {
        let (w, d) = (Value::Int(payment.warehouse), Value::Int(payment.district));
        let c_w = Value::Int(payment.customer_warehouse);
        let c_d = Value::Int(payment.customer_district);
        let amount = Value::Cents(u64::from(payment.cents));
        let customer = self.customer(payment.who);
        match statement {
            Statement::PaymentWarehouse => pad_values([w, amount]),
            Statement::PaymentDistrict => pad_values([w, d, amount]),
            Statement::CustomerByName => pad_values([c_w, c_d, by_name(payment.who)]),
            Statement::PaymentCustomer => pad_values([c_w, c_d, customer, amount, d, w]),
            _ => pad_values([
                c_d,
                c_w,
                customer,
                d,
                w,
                amount,
                Value::Text(&self.learnt.warehouse_name),
                Value::Text(&self.learnt.district_name),
            ]),
        }
    }

    fn customer(&self, who: Who) -> Value<'_> {
        match who {
            Who::Number(number) => Value::Int(number),
            Who::LastName(_) => Value::Int(self.learnt.customer),
        }
    }

    /// Processes an answer without an error.
    ///
    /// # Errors
    /// The contents of the database are wrong; the text says how.
    pub fn take(&mut self, answer: &Answer) -> Result<Progress, String> {
        for (result, at) in (self.first..self.next).enumerate() {
            let step = self.plan[at];
            self.learn(step, answer, result).ok_or_else(|| missing_row(step, self.profile))?;
        }
        if self.learnt.unused_item {
            self.learnt.unused_item = false;
            self.learnt.rolled_back = true;
            self.plan.truncate(self.next);
            self.step(Statement::Rollback);
        }
        if self.next < self.plan.len() { Ok(Progress::More) } else { Ok(Progress::Done) }
    }

    /// Stores the results of a statement; None if it returned no row where one is required.
    fn learn(&mut self, step: Step, answer: &Answer, result: usize) -> Option<()> {
        let learnt = &mut self.learnt;
        let number = step.number;
        let value = |column| answer.value(result, column);
        match step.statement {
            Statement::NewOrderDistrict | Statement::StatusOrder => {
                learnt.order = integer(value(0)?)?;
            }
            Statement::NewOrderItem => match value(0) {
                Some(price) => learnt.prices_cents[number] = cents(price)?,
                None => learnt.unused_item = true,
            },
            Statement::NewOrderStock if !learnt.unused_item => {
                learnt.dist_infos[number].copy_from_slice(value(2)?.get(..DIST_INFO)?);
            }
            Statement::CustomerByName => learnt.customer = integer(value(0)?)?,
            Statement::PaymentWarehouse => keep(&mut learnt.warehouse_name, value(0)?),
            Statement::PaymentDistrict => keep(&mut learnt.district_name, value(0)?),
            Statement::DeliveryOpen => {
                learnt.orders[number] = value(0).map(|order| integer(order).unwrap_or(0));
            }
            Statement::DeliveryOrder => learnt.customers[number] = integer(value(0)?)?,
            Statement::DeliveryLines => learnt.totals_cents[number] = cents(value(0)?)?,
            Statement::StockDistrict => learnt.next_order = integer(value(0)?)?,
            Statement::NewOrderCustomer
            | Statement::PaymentCustomer
            | Statement::StatusCustomer
            | Statement::StatusLines
            | Statement::StockCount => {
                value(0)?;
            }
            _ => {}
        }
        Some(())
    }
}

fn missing_row(step: Step, profile: Profile) -> String {
    let sql = step.statement.sql(profile);
    format!("no row where there must be one, as in a database of fewer warehouses: {sql}")
}

fn pad_values<'a, const N: usize>(values: [Value<'a>; N]) -> [Value<'a>; MOST_PARAMETERS] {
    let mut all = [Value::Int(0); MOST_PARAMETERS];
    all[..N].copy_from_slice(&values);
    all
}

fn by_name(who: Who) -> Value<'static> {
    match who {
        Who::LastName(number) => Value::LastName(number),
        Who::Number(number) => Value::Int(number),
    }
}

fn keep(place: &mut Vec<u8>, text: &[u8]) {
    place.clear();
    place.extend_from_slice(text);
}

fn integer(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses an amount with two decimals.
fn cents(text: &[u8]) -> Option<u64> {
    let (units, cents) = std::str::from_utf8(text).ok()?.split_once('.')?;
    let (units, hundredths): (u64, u64) = (units.parse().ok()?, cents.parse().ok()?);
    (cents.len() == 2).then_some(units * 100 + hundredths)
}
