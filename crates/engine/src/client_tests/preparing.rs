//! Statements that are prepared in a round trip of their own, as pgbench does it.

use super::*;

const SYNC: &str = "S\0\0\0\x04";

fn ahead(script: &str) -> Spec {
    let mut spec = twice(script, QueryMode::Prepared);
    spec.preparing = Preparing::Ahead;
    spec
}

fn error_at(sqlstate: &str, position: u32) -> Vec<u8> {
    let mut message = error(sqlstate);
    message.pop();
    message.extend_from_slice(format!("P{position}\0\0").as_bytes());
    let length = message.len() as u32 - 1;
    message[1..5].copy_from_slice(&length.to_be_bytes());
    message
}

fn answer(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn a_statement_is_prepared_before_it_is_executed() {
    bench!(bench, ahead("SELECT :x;\n"));
    assert_eq!(bench.begin(), Next::Send);
    assert_eq!(bench.sent(), format!("P\0\0\0\x15P_0\0SELECT $1;\0\0\0{SYNC}"));
    assert_eq!(bench.answer(READY), Next::Send);
    assert!(bench.sent().starts_with('B') && bench.sent().ends_with(SYNC));
    assert_eq!(bench.shared.results.recorder.scripts[0].counts.succeeded, 0);
    assert_eq!(bench.answer(READY), Next::Send);
    assert_eq!(bench.shared.results.recorder.scripts[0].counts.succeeded, 1);
    // the second time, the statement is prepared
    assert!(bench.sent().starts_with('B'));
}

#[test]
fn what_cannot_be_prepared_is_executed_all_the_same() {
    bench!(bench, ahead("SELECT 1 +;\n"));
    bench.begin();
    let refused = answer(&[&error_at("42601", 11), READY]);
    assert_eq!(bench.answer(&refused), Next::Send);
    assert!(bench.sent().starts_with('B') && !bench.client.has_aborted());
    let note = &bench.shared.reports.notes[0];
    assert_eq!(note.consequence, Consequence::Unprepared);
    assert_eq!(note.sqlstate.as_deref(), Some("42601"));
    let words = "ERROR:  no\nLINE 1: SELECT 1 +;\n                  ^";
    assert_eq!(note.lines, [words]);
    bench.answer(&answer(&[&error("26000"), READY]));
    assert!(bench.client.has_aborted());
    let note = &bench.shared.reports.notes[1];
    assert_eq!(note.consequence, Consequence::ClientAborted);
    assert_eq!(note.lines, ["client 0 script 0 aborted in command 0 query 0: ERROR:  no"]);
}

#[test]
fn each_statement_of_a_pipeline_is_prepared_for_itself() {
    let script = "\\startpipeline\nAAA;\nBBB;\nCCC;\n\\endpipeline\n";
    bench!(bench, ahead(script));
    bench.begin();
    assert_eq!(bench.sent().matches('P').count() / 2, 3, "P_0 to P_2");
    assert_eq!(bench.sent().matches(SYNC).count(), 3);
    let refused = answer(&[READY, &error_at("42601", 1), READY]);
    assert_eq!(bench.answer(&refused), Next::Wait);
    assert_eq!(bench.shared.reports.notes[0].lines, ["ERROR:  no\nLINE 1: BBB;\n        ^"]);
    assert_eq!(bench.answer(READY), Next::Send);
    assert_eq!(bench.sent().matches("\0P_").count(), 3, "all are executed");
    assert_eq!(bench.sent().matches(SYNC).count(), 1);
    bench.answer(READY);
    assert_eq!(bench.shared.results.recorder.scripts[0].counts.succeeded, 1);
    // nothing is prepared in the next transaction
    assert_eq!(bench.sent().matches(SYNC).count(), 1);
}

#[test]
fn a_server_that_leaves_meanwhile_is_heard() {
    bench!(bench, ahead("SELECT 1;\n"));
    bench.begin();
    let mut farewell = error("57P01");
    farewell.splice(5..11, *b"SFATAL");
    farewell.splice(12..18, *b"VFATAL");
    assert_eq!(bench.answer(&farewell), Next::Wait);
    bench.client.handle_close(None, &mut bench.shared);
    assert!(bench.client.has_aborted());
    assert_eq!(bench.shared.reports.notes[0].sqlstate.as_deref(), Some("57P01"));
}
