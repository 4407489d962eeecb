//! TPC-H's tables: types, keys and indexes.

use crate::dataset::{Manner, Stages, in_manner};
use crate::table_guard;

pub(super) struct Table {
    pub name: &'static str,
    pub columns: &'static str,
    pub key: &'static str,
    /// For a hundredth of the scale factor: the rows that are generated, and those from which the
    /// generator derives them. 0 for a table of a fixed size.
    pub rows_a_hundredth: u64,
    pub sources_a_hundredth: u64,
}

/// The largest first, because its vacuum and its keys take longest.
pub(super) static TABLES: [Table; 8] = [
    Table {
        name: "lineitem",
        columns: "l_orderkey bigint not null, l_partkey integer not null, l_suppkey integer not null, \
                  l_linenumber integer not null, l_quantity numeric(15,2) not null, \
                  l_extendedprice numeric(15,2) not null, l_discount numeric(15,2) not null, \
                  l_tax numeric(15,2) not null, l_returnflag char(1) not null, l_linestatus char(1) not null, \
                  l_shipdate date not null, l_commitdate date not null, l_receiptdate date not null, \
                  l_shipinstruct char(25) not null, l_shipmode char(10) not null, l_comment varchar(44) not null",
        key: "l_orderkey, l_linenumber",
        rows_a_hundredth: 60_000,
        sources_a_hundredth: 15_000,
    },
    Table {
        name: "orders",
        columns: "o_orderkey bigint not null, o_custkey integer not null, o_orderstatus char(1) not null, \
                  o_totalprice numeric(15,2) not null, o_orderdate date not null, \
                  o_orderpriority char(15) not null, o_clerk char(15) not null, \
                  o_shippriority integer not null, o_comment varchar(79) not null",
        key: "o_orderkey",
        rows_a_hundredth: 15_000,
        sources_a_hundredth: 15_000,
    },
    Table {
        name: "partsupp",
        columns: "ps_partkey integer not null, ps_suppkey integer not null, ps_availqty integer not null, \
                  ps_supplycost numeric(15,2) not null, ps_comment varchar(199) not null",
        key: "ps_partkey, ps_suppkey",
        rows_a_hundredth: 8_000,
        sources_a_hundredth: 2_000,
    },
    Table {
        name: "part",
        columns: "p_partkey integer not null, p_name varchar(55) not null, p_mfgr char(25) not null, \
                  p_brand char(10) not null, p_type varchar(25) not null, p_size integer not null, \
                  p_container char(10) not null, p_retailprice numeric(15,2) not null, \
                  p_comment varchar(23) not null",
        key: "p_partkey",
        rows_a_hundredth: 2_000,
        sources_a_hundredth: 2_000,
    },
    Table {
        name: "customer",
        columns: "c_custkey integer not null, c_name varchar(25) not null, c_address varchar(40) not null, \
                  c_nationkey integer not null, c_phone char(15) not null, c_acctbal numeric(15,2) not null, \
                  c_mktsegment char(10) not null, c_comment varchar(117) not null",
        key: "c_custkey",
        rows_a_hundredth: 1_500,
        sources_a_hundredth: 1_500,
    },
    Table {
        name: "supplier",
        columns: "s_suppkey integer not null, s_name char(25) not null, s_address varchar(40) not null, \
                  s_nationkey integer not null, s_phone char(15) not null, s_acctbal numeric(15,2) not null, \
                  s_comment varchar(101) not null",
        key: "s_suppkey",
        rows_a_hundredth: 100,
        sources_a_hundredth: 100,
    },
    Table {
        name: "nation",
        columns: "n_nationkey integer not null, n_name char(25) not null, n_regionkey integer not null, \
                  n_comment varchar(152) not null",
        key: "n_nationkey",
        rows_a_hundredth: 0,
        sources_a_hundredth: 0,
    },
    Table {
        name: "region",
        columns: "r_regionkey integer not null, r_name char(25) not null, r_comment varchar(152) not null",
        key: "r_regionkey",
        rows_a_hundredth: 0,
        sources_a_hundredth: 0,
    },
];

/// Foreign keys: table, columns, the table to which they refer. Their columns have indexes, which
/// the specification allows (clause 1.5.4), as far as the primary key does not begin with them.
const REFERENCES: [(&str, &str, &str); 9] = [
    ("lineitem", "l_orderkey", "orders"),
    ("lineitem", "l_partkey, l_suppkey", "partsupp"),
    ("orders", "o_custkey", "customer"),
    ("partsupp", "ps_partkey", "part"),
    ("partsupp", "ps_suppkey", "supplier"),
    ("customer", "c_nationkey", "nation"),
    ("supplier", "s_nationkey", "nation"),
    ("nation", "n_regionkey", "region"),
    ("lineitem", "l_suppkey", "supplier"),
];

/// A statement that fails if a table has the name of one of ours but other columns.
pub(super) fn guard() -> String {
    let first = |table: &'static Table| {
        let (column, _) = table.columns.split_once(' ').unwrap_or_default();
        (table.name, column)
    };
    table_guard::guard("TPC-H", &TABLES.iter().map(first).collect::<Vec<_>>())
}

/// Primary keys, then indexes: building two of a table in parallel would wait for each other.
pub(super) fn keys(manner: Manner) -> Stages {
    let key = |table: &Table| format!("alter table {} add primary key ({})", table.name, table.key);
    let keys = TABLES.iter().map(key).collect();
    let is_new = |(table, columns, _): &&(&str, &str, &str)| {
        let mut tables = TABLES.iter();
        !tables.any(|one| one.name == *table && one.key.starts_with(columns))
    };
    let index = |(table, columns, _): &(&str, &str, &str)| format!("create index on {table}({columns})");
    let indexes = REFERENCES.iter().filter(is_new).map(index).collect();
    [in_manner(manner, keys), in_manner(manner, indexes)].concat()
}

/// Foreign keys, one after the other: each locks both of its tables.
pub(super) fn foreign_keys() -> Stages {
    // a lineitem's supplier follows from its partsupp
    let (_, needed) = REFERENCES.split_last().unwrap_or((&REFERENCES[0], &[]));
    let add = |(table, columns, other): &(&str, &str, &str)| {
        vec![format!("alter table {table} add foreign key ({columns}) references {other}")]
    };
    needed.iter().map(add).collect()
}
