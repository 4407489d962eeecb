//! The five transactions as functions and as procedures, in PL/pgSQL.
//!
//! Both kinds of a transaction share a body. If a New-Order with an unused item is to be rolled back,
//! a function raises an error with an SQLSTATE of its own, because it runs within the statement's
//! transaction; a procedure executes ROLLBACK.

use super::{Profile, RoutineKind};

/// SQLSTATE of a New-Order that names an unused item.
pub const UNUSED_ITEM_SQLSTATE: &str = "TC001";

/// A type of transaction, in the order of the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transaction {
    /// An order with 5 to 15 lines.
    NewOrder,
    /// A customer pays.
    Payment,
    /// Shows a customer's last order.
    OrderStatus,
    /// Delivers the oldest open order of each district of a warehouse.
    Delivery,
    /// Counts the items of a district's last orders whose stock is low.
    StockLevel,
}

impl Transaction {
    pub const ALL: [Self; 5] = [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    pub fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "New-Order",
            Self::Payment => "Payment",
            Self::OrderStatus => "Order-Status",
            Self::Delivery => "Delivery",
            Self::StockLevel => "Stock-Level",
        }
    }

    fn routine(self) -> &'static str {
        match self {
            Self::NewOrder => "new_order",
            Self::Payment => "payment",
            Self::OrderStatus => "order_status",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock_level",
        }
    }

    pub fn function(self) -> String {
        format!("tpcc_{}", self.routine())
    }

    pub fn procedure(self) -> String {
        format!("tpcc_call_{}", self.routine())
    }

    /// Names and types of the inputs, in order.
    pub fn inputs(self) -> Vec<&'static str> {
        let inputs = match self {
            Self::NewOrder => "p_w_id int, p_d_id int, p_c_id int, p_items int[], p_supplies int[], p_quantities int[]",
            Self::Payment => {
                "p_w_id int, p_d_id int, p_c_w_id int, p_c_d_id int, p_c_id int, p_c_last text, p_amount numeric"
            }
            Self::OrderStatus => "p_w_id int, p_d_id int, p_c_id int, p_c_last text",
            Self::Delivery => "p_w_id int, p_carrier int",
            Self::StockLevel => "p_w_id int, p_d_id int, p_threshold int",
        };
        inputs.split(", ").collect()
    }

    /// Names and types of the outputs, which are what the standard's terminals display.
    pub fn outputs(self) -> Vec<&'static str> {
        let outputs = match self {
            Self::NewOrder => {
                "r_o_id int, r_c_last text, r_credit text, r_discount numeric, r_w_tax numeric, r_d_tax numeric, \
                 r_total numeric, r_names text[], r_prices numeric[], r_stocks int[], r_brands text[], \
                 r_amounts numeric[]"
            }
            Self::Payment => {
                "r_c_id int, r_customer text, r_credit text, r_credit_limit numeric, r_discount numeric, \
                 r_balance numeric, r_data text, r_warehouse text, r_district text"
            }
            Self::OrderStatus => {
                "r_c_id int, r_customer text, r_balance numeric, r_o_id int, r_entry_d timestamptz, r_carrier int, \
                 r_items int[], r_supplies int[], r_quantities int[], r_amounts numeric[], r_deliveries timestamptz[]"
            }
            Self::Delivery => "r_orders int[]",
            Self::StockLevel => "r_low int",
        };
        outputs.split(", ").collect()
    }

    fn body(self) -> &'static str {
        match self {
            Self::NewOrder => include_str!("routines/new_order.sql"),
            Self::Payment => include_str!("routines/payment.sql"),
            Self::OrderStatus => include_str!("routines/order_status.sql"),
            Self::Delivery => include_str!("routines/delivery.sql"),
            Self::StockLevel => include_str!("routines/stock_level.sql"),
        }
    }
}

/// PostgreSQL 10 has only functions.
const HAS_PROCEDURES: &str = "current_setting('server_version_num')::int >= 110000";

/// Statements that create all functions and procedures.
pub fn create(profile: Profile) -> Vec<String> {
    let both = |transaction| [create_function(transaction, profile), create_procedure(transaction, profile)];
    Transaction::ALL.into_iter().flat_map(both).collect()
}

/// The statement that drops them, whatever their arguments.
pub fn drop() -> String {
    let functions = Transaction::ALL.map(Transaction::function).join(", ");
    let procedures = Transaction::ALL.map(Transaction::procedure).join(", ");
    format!(
        "do $do$ begin \
         if {HAS_PROCEDURES} then execute 'drop routine if exists {functions}, {procedures}'; \
         else drop function if exists {functions}; end if; end $do$"
    )
}

fn create_function(transaction: Transaction, profile: Profile) -> String {
    let undo = format!("raise exception 'item number is not valid' using errcode = '{UNUSED_ITEM_SQLSTATE}';");
    let body = body(transaction, profile, RoutineKind::Function, &undo);
    let parameters = parameters(transaction, "out");
    let name = transaction.function();
    format!("create or replace function {name}({parameters}) language plpgsql as $${body}$$")
}

fn create_procedure(transaction: Transaction, profile: Profile) -> String {
    let undo = "rollback; r_o_id := null; return;";
    let body = body(transaction, profile, RoutineKind::Procedure, undo);
    let parameters = parameters(transaction, "inout");
    let name = transaction.procedure();
    format!(
        "do $do$ begin if {HAS_PROCEDURES} then execute $create$\
         create or replace procedure {name}({parameters}) language plpgsql as $${body}$$\
         $create$; end if; end $do$"
    )
}

fn parameters(transaction: Transaction, out: &str) -> String {
    let inputs = transaction.inputs().into_iter().map(str::to_owned);
    let outputs = transaction.outputs().into_iter().map(|output| format!("{out} {output}"));
    inputs.chain(outputs).collect::<Vec<_>>().join(", ")
}

/// The body for a profile: HammerDB does not update some counters that the standard requires.
fn body(transaction: Transaction, profile: Profile, kind: RoutineKind, undo: &str) -> String {
    let counts = [
        (
            "/* stock counts */",
            ", s_ytd = s_ytd + p_quantities[v_line], s_order_cnt = s_order_cnt + 1, \
             s_remote_cnt = s_remote_cnt + (p_supplies[v_line] <> p_w_id)::int",
        ),
        ("/* payment count */", ", c_payment_cnt = c_payment_cnt + 1"),
        ("/* delivery count */", ", c_delivery_cnt = c_delivery_cnt + 1"),
    ];
    let unused = if profile.commits_unused_item(kind) { "null;" } else { undo };
    let mut body = transaction.body().replace("/* unused item */", unused);
    for (place, counted) in counts {
        let text = match profile {
            Profile::Hammerdb(_) => "",
            Profile::Spec => counted,
        };
        body = body.replace(place, text);
    }
    body
}
