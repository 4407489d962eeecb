//! TPC-C's tables: names, types and order of columns are those of HammerDB's build for PostgreSQL,
//! so that rows have the same size as there.

use super::{Profile, TableName, Tpcc};
use crate::dataset::{Manner, Part, Stages, in_manner};
use crate::table_guard;

/// For each table, a column that another application's table of the same name is unlikely to have.
const OWN_COLUMNS: [(TableName, &str); 9] = [
    (TableName::Item, "i_im_id"),
    (TableName::Warehouse, "w_ytd"),
    (TableName::District, "d_next_o_id"),
    (TableName::Customer, "c_payment_cnt"),
    (TableName::History, "h_c_w_id"),
    (TableName::Stock, "s_dist_01"),
    (TableName::Orders, "o_ol_cnt"),
    (TableName::NewOrder, "no_o_id"),
    (TableName::OrderLine, "ol_dist_info"),
];

/// A statement that fails if a table has the name of one of ours but other columns.
pub(super) fn guard() -> String {
    table_guard::guard("TPC-C", &OWN_COLUMNS.map(|(table, column)| (table.name(), column)))
}

pub(super) fn create_tables(tpcc: &Tpcc) -> Vec<String> {
    // the standard's runs may be so long that one row is counted more than 32,767 times
    let count = match tpcc.profile {
        Profile::Hammerdb(_) => "smallint",
        Profile::Spec => "integer",
    };
    // an order that commits with an unused item has a line without a price
    let of_line = match tpcc.profile {
        Profile::Hammerdb(_) => "",
        Profile::Spec => " not null",
    };
    let address = |prefix: &str| {
        format!(
            "{prefix}_street_1 varchar(20) not null, {prefix}_street_2 varchar(20) not null, \
             {prefix}_city varchar(20) not null, {prefix}_state char(2) not null, \
             {prefix}_zip char(9) not null"
        )
    };
    let by_warehouses = match tpcc.order_line_partitions {
        Some(_) => " partition by range (ol_w_id)",
        None => "",
    };
    let dists: String = (1..=10).map(|number| format!("s_dist_{number:02} char(24) not null, ")).collect();
    vec![
        "create table item(i_id integer not null, i_im_id integer not null, i_name varchar(24) not null, \
         i_price numeric(5,2) not null, i_data varchar(50) not null)"
            .to_owned(),
        format!(
            "create table warehouse(w_id integer not null, w_name varchar(10) not null, {}, \
             w_tax numeric(4,4) not null, w_ytd numeric(16,2) not null)",
            address("w")
        ),
        format!(
            "create table district(d_w_id integer not null, d_next_o_id integer not null, d_id smallint not null, \
             d_ytd numeric(12,2) not null, d_tax numeric(4,4) not null, d_name varchar(10) not null, {})",
            address("d")
        ),
        format!(
            "create table customer(c_since timestamptz not null, c_id integer not null, c_w_id integer not null, \
             c_d_id smallint not null, c_payment_cnt {count} not null, c_delivery_cnt {count} not null, \
             c_first varchar(16) not null, c_middle char(2) not null, c_last varchar(16) not null, {}, \
             c_phone char(16) not null, c_credit char(2) not null, c_credit_lim numeric(12,2) not null, \
             c_discount numeric(4,4) not null, c_balance numeric(12,2) not null, \
             c_ytd_payment numeric(12,2) not null, c_data varchar(500) not null)",
            address("c")
        ),
        "create table history(h_date timestamptz not null, h_c_id integer, h_c_w_id integer not null, \
         h_w_id integer not null, h_c_d_id smallint not null, h_d_id smallint not null, \
         h_amount numeric(6,2) not null, h_data varchar(24) not null)"
            .to_owned(),
        format!(
            "create table stock(s_i_id integer not null, s_w_id integer not null, s_ytd integer not null, \
             s_quantity smallint not null, s_order_cnt {count} not null, s_remote_cnt {count} not null, \
             {dists}s_data varchar(50) not null)"
        ),
        "create table orders(o_entry_d timestamptz not null, o_id integer not null, o_w_id integer not null, \
         o_c_id integer not null, o_d_id smallint not null, o_carrier_id smallint, o_ol_cnt smallint not null, \
         o_all_local smallint not null)"
            .to_owned(),
        "create table new_order(no_w_id integer not null, no_o_id integer not null, no_d_id smallint not null)"
            .to_owned(),
        format!(
            "create table order_line(ol_delivery_d timestamptz, ol_o_id integer not null, ol_w_id integer not null, \
             ol_i_id integer not null, ol_supply_w_id integer not null, ol_d_id smallint not null, \
             ol_number smallint not null, ol_quantity smallint not null, ol_amount numeric(6,2){of_line}, \
             ol_dist_info char(24){of_line}){by_warehouses}"
        ),
    ]
}

/// Partitions of order_line, each with its warehouses, counted from 0. None without partitions.
pub(super) fn partitions(tpcc: &Tpcc) -> Option<Vec<Part>> {
    let count = u64::from(tpcc.order_line_partitions?);
    let bound = |number: u64| u64::from(tpcc.warehouses) * number / count;
    let part = |number: u64| Part { relation: format!("order_line_{number}"), units: bound(number - 1)..bound(number) };
    Some((1..=count).map(part).collect())
}

/// CREATE TABLE statements of the partitions. The ranges of the first and the last are open.
pub(super) fn create_partitions(tpcc: &Tpcc) -> Vec<String> {
    let parts = partitions(tpcc).unwrap_or_default();
    let last = parts.len().saturating_sub(1);
    let create = |(place, part): (usize, &Part)| {
        let edge = |is_open: bool, open: &str, warehouses: u64| {
            if is_open { open.to_owned() } else { (warehouses + 1).to_string() }
        };
        format!(
            "create table {} partition of order_line for values from ({}) to ({})",
            part.relation,
            edge(place == 0, "minvalue", part.units.start),
            edge(place == last, "maxvalue", part.units.end),
        )
    };
    parts.iter().enumerate().map(create).collect()
}

pub(super) fn vacuum(tpcc: &Tpcc, manner: Manner) -> Stages {
    let whole = |table: TableName| manner.vacuum(table.name());
    // the longest statement first
    let mut tables: Vec<TableName> = TableName::ALL.into();
    tables.reverse();
    let Some(parts) = partitions(tpcc) else {
        return in_manner(manner, tables.into_iter().map(whole).collect());
    };
    tables.retain(|table| *table != TableName::OrderLine);
    let each = parts.iter().map(|part| format!("vacuum (freeze) {}", part.relation));
    let statements = each.chain(tables.into_iter().map(whole)).collect();
    let mut stages = in_manner(manner, statements);
    // analyzing the whole table analyzes its partitions, too
    stages.push(vec!["analyze order_line".to_owned()]);
    stages
}

/// Primary keys, then the two other indexes: building both of a table in parallel would wait for each other.
pub(super) fn keys(tpcc: &Tpcc, manner: Manner) -> Stages {
    const KEYS: [(&str, &str); 8] = [
        ("stock", "s_i_id, s_w_id"),
        ("customer", "c_w_id, c_d_id, c_id"),
        ("orders", "o_w_id, o_d_id, o_id"),
        ("new_order", "no_w_id, no_d_id, no_o_id"),
        ("item", "i_id"),
        ("district", "d_w_id, d_id"),
        ("warehouse", "w_id"),
        ("order_line", "ol_w_id, ol_d_id, ol_o_id, ol_number"),
    ];
    const INDEXES: [&str; 2] = [
        "create unique index customer_i2 on customer(c_w_id, c_d_id, c_last, c_first, c_id)",
        "create unique index orders_i2 on orders(o_w_id, o_d_id, o_c_id, o_id)",
    ];
    let key = |relation: &str, columns: &str| {
        format!("alter table {relation} add constraint {relation}_i1 primary key ({columns})")
    };
    let mut first: Vec<String> = KEYS.map(|(table, columns)| key(table, columns)).into();
    let mut second: Vec<String> = INDEXES.map(str::to_owned).into();
    if let (Some(parts), Manner::Parallel) = (partitions(tpcc), manner) {
        // the primary key of the whole table reuses those of its partitions
        second.extend(first.pop());
        let columns = KEYS[KEYS.len() - 1].1;
        first.splice(0..0, parts.iter().map(|part| key(&part.relation, columns)));
    } else {
        first.rotate_right(1);
    }
    [in_manner(manner, first), in_manner(manner, second)].concat()
}
