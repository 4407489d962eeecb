//! Statements that are prepared in a round trip of their own, as pgbench does it.

use super::*;

const SYNC: &str = "S\0\0\0\x04";

fn ahead(script: &str) -> Spec {
    let mut spec = twice(script, QueryMode::Prepared);
    spec.preparing = Preparing::Ahead;
    spec
}

#[test]
fn a_statement_is_prepared_before_it_is_executed() {
    bench!(bench, ahead("SELECT :x;\n"));
    assert_eq!(bench.begin(), Next::Send);
    assert_eq!(bench.sent(), format!("P\0\0\0\x15P_0\0SELECT $1;\0\0\0{SYNC}"));
    assert_eq!(bench.answer(READY), Next::Send);
    assert!(bench.sent().starts_with('B') && bench.sent().ends_with(SYNC));
    assert_eq!(bench.counts().succeeded, 0);
    assert_eq!(bench.answer(READY), Next::Send);
    assert_eq!(bench.counts().succeeded, 1);
    // the second time, the statement is prepared
    assert!(bench.sent().starts_with('B'));
    // a server that leaves meanwhile is heard
    begun!(bench, ahead("SELECT 1;\n"));
    assert_eq!(bench.answer(&fatal("57P01")), Next::Wait);
    bench.close();
    assert!(bench.client.has_aborted());
    assert_eq!(bench.sqlstate(), Some("57P01"));
}

#[test]
fn each_statement_of_a_pipeline_is_prepared_for_itself() {
    let script = "\\startpipeline\nAAA;\nBBB;\nCCC;\n\\endpipeline\n";
    begun!(bench, ahead(script));
    assert_eq!(bench.sent().matches('P').count() / 2, 3, "P_0 to P_2");
    assert_eq!(bench.sent().matches(SYNC).count(), 3);
    assert_eq!(bench.answer(&[READY, &error_at("42601", 1), READY].concat()), Next::Wait);
    assert_eq!(bench.lines(), ["ERROR:  no\nLINE 1: BBB;\n        ^"]);
    assert_eq!(bench.answer(READY), Next::Send);
    assert_eq!(bench.sent().matches("\0P_").count(), 3, "all are executed");
    assert_eq!(bench.sent().matches(SYNC).count(), 1);
    bench.answer(READY);
    assert_eq!(bench.counts().succeeded, 1);
    // nothing is prepared in the next transaction
    assert_eq!(bench.sent().matches(SYNC).count(), 1);
}
