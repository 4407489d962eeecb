//! A client as one of TPC-C's terminals: its user enters inputs, and the server answers.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use pgdyno_dataset::tpcc::routines::{Transaction, UNUSED_ITEM_SQLSTATE};
use pgdyno_engine::clock::Nanos;
use pgdyno_engine::driver::{Answer, Driver, Drivers, Event, Outgoing, Refused, Request};
use pgdyno_wire::EncodeError;

use super::Variant;
use super::client_sql::{ClientSql, Prepared, Progress};
use super::deferred::Delivery;
use super::inputs::{Inputs, NewOrder, Rules, User, Who, push, push_cents, push_last_name};
use super::mix_and_pauses::call;
use super::transaction_kind::Kind;

const NOT_ROLLED_BACK: &str = "an order with an unused item was not rolled back, or another one was";

pub fn prepared_statements(variant: Variant, rules: &Rules) -> Result<Vec<Prepared>, EncodeError> {
    Prepared::all(match variant {
        Variant::Functions | Variant::Procedures => {
            let one = |transaction: Transaction| (call(transaction, variant), transaction.inputs().len() as u16);
            Transaction::ALL.map(one).into()
        }
        Variant::Sql | Variant::SqlPipelined => ClientSql::prepared(rules.profile),
    })
}

#[derive(Debug)]
pub struct Terminals {
    pub rules: Rules,
    /// How transactions reach the server.
    pub variant: Variant,
    pub seed: u64,
    pub prepared: Arc<Vec<Prepared>>,
    /// The queue of deliveries for which terminals do not wait.
    pub deferred: Option<Sender<Delivery>>,
}

impl Drivers for Terminals {
    fn driver(&self, _worker: usize, client: usize) -> Box<dyn Driver> {
        let execution = match self.variant {
            Variant::Functions | Variant::Procedures => Execution::Routine(self.variant),
            Variant::Sql | Variant::SqlPipelined => {
                Execution::Sql(Box::new(ClientSql::new(self.rules.profile, self.variant == Variant::SqlPipelined)))
            }
        };
        Box::new(Terminal {
            user: User::new(self.rules, self.seed, client),
            execution,
            prepared: Arc::clone(&self.prepared),
            deferred: self.deferred.clone(),
            commits_unused: self.variant.commits_unused_item(self.rules.profile),
            kind: None,
            inputs: Inputs::Delivery { warehouse: 1, carrier: 1 },
        })
    }
}

struct Terminal {
    user: User,
    execution: Execution,
    prepared: Arc<Vec<Prepared>>,
    deferred: Option<Sender<Delivery>>,
    /// Whether the server commits an order with an unused item.
    commits_unused: bool,
    kind: Option<Kind>,
    /// Inputs of the current transaction; a retry has the same.
    inputs: Inputs,
}

enum Execution {
    Routine(Variant),
    Sql(Box<ClientSql>),
}

impl Driver for Terminal {
    fn resume(&mut self, event: Event<'_>, now: Nanos, out: &mut Outgoing<'_>) -> Request {
        match event {
            Event::Connected => self.prepare(out),
            Event::Begin { script, tries } => self.begin(script, tries, now, out),
            Event::Answered(answer) => match self.kind {
                Some(kind) => self.take_answer(kind, answer, out),
                None => check_prepared(answer),
            },
            Event::Woken | Event::Changed(_) | Event::Ending => Request::Done,
        }
    }
}

fn check_prepared(answer: &Answer) -> Request {
    match answer.error() {
        None => Request::Done,
        Some(error) => Request::Abort(format!("could not prepare TPC-C's statements: {error}")),
    }
}

/// Waits for the answer to the encoded messages.
fn await_answer(encoded: Result<(), EncodeError>) -> Request {
    match encoded {
        Ok(()) => Request::Await,
        Err(error) => Request::Abort(format!("could not send a transaction: {error}")),
    }
}

impl Terminal {
    fn prepare(&mut self, out: &mut Outgoing<'_>) -> Request {
        self.kind = None;
        let mut statements = self.prepared.iter();
        await_answer(statements.try_for_each(|one| out.parse(&one.name, &one.sql)))
    }

    fn begin(&mut self, script: usize, tries: u32, now: Nanos, out: &mut Outgoing<'_>) -> Request {
        let kind = Kind::ALL[script];
        self.kind = Some(kind);
        if tries == 1 {
            self.inputs = self.key_in(kind);
        }
        if let (Inputs::Delivery { warehouse, carrier }, Some(queue)) = (self.inputs, &self.deferred) {
            // the queue is closed only after the load
            let _ = queue.send(Delivery { warehouse, carrier, queued: now });
            return Request::Done;
        }
        match &mut self.execution {
            Execution::Sql(sql) => {
                sql.begin(&self.inputs);
                await_answer(sql.send(kind, &self.inputs, &self.prepared, out))
            }
            Execution::Routine(_) => {
                // the answer shows whether the order was rolled back
                if kind == Kind::RolledBack && !self.commits_unused {
                    out.keep_rows();
                }
                let template = &self.prepared[kind.transaction() as usize].template;
                await_answer(out.execute(template, |number, out| write(&self.inputs, number, out)))
            }
        }
    }

    fn key_in(&mut self, kind: Kind) -> Inputs {
        let user = &mut self.user;
        match kind {
            Kind::NewOrder => {
                let unused = self.commits_unused && user.has_unused_item();
                Inputs::NewOrder(user.new_order(unused))
            }
            Kind::RolledBack => Inputs::NewOrder(user.new_order(true)),
            Kind::Payment => Inputs::Payment(user.payment()),
            Kind::OrderStatus => user.order_status(),
            Kind::Delivery => {
                let (warehouse, carrier) = user.delivery();
                Inputs::Delivery { warehouse, carrier }
            }
            Kind::StockLevel => user.stock_level(),
        }
    }

    fn take_answer(&mut self, kind: Kind, answer: &Answer, out: &mut Outgoing<'_>) -> Request {
        let is_unused = |answer: &Answer| {
            let sqlstate = answer.error().map(|error| error.sqlstate());
            sqlstate.is_some_and(|state| state.as_str() == UNUSED_ITEM_SQLSTATE)
        };
        match (&mut self.execution, answer.error()) {
            (Execution::Routine(Variant::Functions), Some(_)) if kind == Kind::RolledBack && is_unused(answer) => {
                Request::Done
            }
            (_, Some(_)) => Request::Refused(Refused::default()),
            (Execution::Routine(variant), None) if kind == Kind::RolledBack && !self.commits_unused => {
                match (variant, answer.value(0, 0)) {
                    (Variant::Procedures, None) => Request::Done,
                    _ => Request::Abort(NOT_ROLLED_BACK.into()),
                }
            }
            (Execution::Routine(_), None) => Request::Done,
            (Execution::Sql(sql), None) => match sql.take(answer) {
                Ok(Progress::Done) if sql.rolled_back() == (kind == Kind::RolledBack) => Request::Done,
                Ok(Progress::Done) => Request::Abort(NOT_ROLLED_BACK.into()),
                Ok(Progress::More) => await_answer(sql.send(kind, &self.inputs, &self.prepared, out)),
                Err(words) => Request::Abort(words),
            },
        }
    }
}

/// Appends parameter `number`, from 0, of the transaction's routine; returns false for NULL.
fn write(inputs: &Inputs, number: u16, out: &mut Vec<u8>) -> bool {
    let integers = |values: &[u32], out: &mut Vec<u8>| push(out, values[usize::from(number)]);
    match inputs {
        Inputs::NewOrder(order) => write_order(order, number, out),
        Inputs::Payment(payment) => match number {
            4 => return write_number(payment.who, out),
            5 => return write_name(payment.who, out),
            6 => push_cents(out, u64::from(payment.cents)),
            _ => integers(
                &[payment.warehouse, payment.district, payment.customer_warehouse, payment.customer_district],
                out,
            ),
        },
        Inputs::OrderStatus { warehouse, district, who } => match number {
            2 => return write_number(*who, out),
            3 => return write_name(*who, out),
            _ => integers(&[*warehouse, *district], out),
        },
        Inputs::Delivery { warehouse, carrier } => integers(&[*warehouse, *carrier], out),
        Inputs::StockLevel { warehouse, district, threshold } => integers(&[*warehouse, *district, *threshold], out),
    }
    true
}

fn write_order(order: &NewOrder, number: u16, out: &mut Vec<u8>) {
    match number {
        0 => push(out, order.warehouse),
        1 => push(out, order.district),
        2 => push(out, order.customer),
        _ => {
            for (place, line) in order.lines[..order.count].iter().enumerate() {
                out.push(if place == 0 { b'{' } else { b',' });
                let value = [line.item, line.supply, line.quantity][usize::from(number) - 3];
                push(out, value);
            }
            out.push(b'}');
        }
    }
}

fn write_number(who: Who, out: &mut Vec<u8>) -> bool {
    match who {
        Who::Number(number) => push(out, number),
        Who::LastName(_) => return false,
    }
    true
}

fn write_name(who: Who, out: &mut Vec<u8>) -> bool {
    match who {
        Who::LastName(number) => push_last_name(out, number),
        Who::Number(_) => return false,
    }
    true
}
