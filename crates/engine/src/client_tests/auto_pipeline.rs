//! Statements that share a round trip: what is sent together, and whose answer is whose; those that are prepared in a
//! round trip of their own, as pgbench does it.

use super::*;

const MODES: [QueryMode; 3] = [QueryMode::Simple, QueryMode::Extended, QueryMode::Prepared];
const SYNC: &str = "S\0\0\0\x04";
const DONE: &[u8] = b"C\0\0\0\x07OK\0";

fn auto(script: &str, mode: QueryMode) -> Spec {
    Spec { pipelining: Pipelining::Auto, ..twice(script, mode) }
}

fn asked(sent: &str, mode: QueryMode) -> usize {
    match mode {
        QueryMode::Simple => sent.matches("Q\0\0\0").count(),
        _ => sent.matches(SYNC).count(),
    }
}

fn answers(mode: QueryMode, statements: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, ready) in statements.iter().enumerate() {
        bytes.extend_from_slice(DONE);
        let is_last = at + 1 == statements.len();
        // in a block there is no Sync between two statements of the extended protocol
        if mode == QueryMode::Simple || *ready == READY || is_last {
            bytes.extend_from_slice(ready);
        }
    }
    bytes
}

const BLOCK: &str = "BEGIN;\nUPDATE a;\n\\set x 1\nUPDATE b;\nEND;\n";
const BLOCK_READY: [&[u8]; 4] = [READY_IN_BLOCK, READY_IN_BLOCK, READY_IN_BLOCK, READY];

#[test]
fn a_block_is_one_round_trip() {
    for mode in MODES {
        bench!(bench, auto(BLOCK, mode));
        assert_eq!(bench.begin(), Next::Send);
        let sent = bench.sent();
        for statement in ["BEGIN", "UPDATE a", "UPDATE b", "END"] {
            assert_eq!(sent.matches(statement).count(), 1, "{mode:?} {sent:?}");
        }
        assert_eq!(asked(&sent, mode), if mode == QueryMode::Simple { 4 } else { 1 }, "{mode:?}");
        assert_eq!(bench.answer(&answers(mode, &BLOCK_READY)), Next::Send);
        assert_eq!(bench.counts().succeeded, 1);
        for record in bench.commands().iter().flatten() {
            assert_eq!(record.moments.count, 1, "each has a latency");
        }
        assert_eq!(bench.commands().iter().flatten().count(), 4);
        assert_eq!(bench.answer(&answers(mode, &BLOCK_READY)), Next::Send);
        assert_eq!(bench.sent(), "X\0\0\0\x04");
    }
    // outside a block each statement is its own transaction
    for mode in MODES {
        begun!(bench, auto("UPDATE a;\nUPDATE b;\nUPDATE c;\n", mode));
        assert_eq!(asked(&bench.sent(), mode), 3, "{mode:?}");
        bench.answer(&answers(mode, &[READY, READY]));
        assert_eq!(bench.counts().succeeded, 0);
        bench.answer(&answers(mode, &[READY]));
        assert_eq!(bench.counts().succeeded, 1);
    }
}

const NAMES: [&str; 6] = ["BEGIN", "AAA", "BBB", "CCC", "COPY", "END"];

fn statements(sent: &str) -> Vec<&'static str> {
    let named = |(at, _)| NAMES.into_iter().find(|name| sent[at..].starts_with(name));
    sent.char_indices().filter_map(named).collect()
}

fn round_trips(script: &str, mode: QueryMode) -> Vec<Vec<&'static str>> {
    let spec = Spec { limit: Limit::Transactions(1), ..auto(script, mode) };
    bench!(bench, spec);
    let mut trips = Vec::new();
    let mut in_block = false;
    let mut next = bench.begin();
    while !bench.client.is_stopped() {
        if next == Next::Wait {
            let now = bench.shared.clock.now() + crate::clock::SECOND;
            assert_eq!(bench.shared.requests.due(now), Some(0), "it sleeps");
            trips.push(vec!["slept"]);
            next = bench.wake(now);
            continue;
        }
        assert_eq!(next, Next::Send, "{script}");
        let sent = statements(&bench.sent());
        let mut ready = |name: &&str| {
            in_block = *name == "BEGIN" || (in_block && *name != "END");
            if in_block { READY_IN_BLOCK } else { READY }
        };
        let ready: Vec<&[u8]> = sent.iter().map(&mut ready).collect();
        trips.push(sent);
        next = bench.answer(&answers(mode, &ready));
    }
    let notes = &bench.shared.reports.notes;
    assert!(!bench.client.has_aborted(), "{script}: {notes:?}");
    trips
}

#[test]
fn only_what_needs_a_result_waits() {
    for (script, trips) in [
        ("AAA;\nBBB;\n\\sleep 1 ms\nCCC;\n", &[&["AAA", "BBB"][..], &["slept"], &["CCC"]][..]),
        ("AAA;\n\\shell true\nBBB;\n", &[&["AAA"], &["BBB"]]),
        ("AAA;\n\\setshell x echo 1\nBBB;\n", &[&["AAA"], &["BBB"]]),
        ("AAA;\nBBB \\aset\nCCC;\n", &[&["AAA", "BBB"], &["CCC"]]),
        ("AAA;\nCOPY t TO STDOUT;\nCCC;\n", &[&["AAA", "COPY"], &["CCC"]]),
        ("BEGIN;\nAAA;\nEND;\nBEGIN;\nBBB;\nEND;\n", &[&["BEGIN", "AAA", "END"], &["BEGIN", "BBB", "END"]]),
        ("\\if 1\nAAA;\n\\else\nBBB;\n\\endif\nCCC;\n", &[&["AAA", "CCC"]]),
        ("BEGIN;\nAAA;\n\\sleep 1 ms\nBBB;\nEND;\n", &[&["BEGIN", "AAA"], &["slept"], &["BBB", "END"]]),
        (":what AAA;\nBBB;\n", &[&["AAA"], &["BBB"]]),
    ] {
        for mode in [QueryMode::Simple, QueryMode::Extended] {
            assert_eq!(round_trips(script, mode), trips, "{script}");
        }
    }
}

#[test]
fn an_explicit_pipeline_is_a_batch_of_its_own() {
    let script = "AAA;\n\\startpipeline\nBBB;\nCCC;\n\\endpipeline\nAAA;\n";
    bench!(bench, auto(script, QueryMode::Extended));
    for expected in [&["AAA"][..], &["BBB", "CCC"], &["AAA"], &["AAA"]] {
        if expected.len() == 2 || bench.client.in_flight() {
            bench.answer(&answers(QueryMode::Extended, &[READY]));
        } else {
            bench.begin();
        }
        assert_eq!(statements(&bench.sent()), expected);
    }
    // a large batch goes in parts
    let long = format!("SELECT '{}';\n", "x".repeat(30_000));
    begun!(bench, auto(&long.repeat(5), QueryMode::Simple));
    for expected in [3, 2, 3] {
        assert_eq!(bench.sent().matches("SELECT").count(), expected);
        bench.answer(&answers(QueryMode::Simple, &vec![READY; expected]));
    }
}

#[test]
fn an_error_is_said_of_its_own_statement() {
    for mode in MODES {
        begun!(bench, auto("BEGIN;\nAAA;\n\\set x 1\nBBB wrong;\nCCC;\n", mode));
        let answers = match mode {
            QueryMode::Simple => [
                answers(mode, &[READY_IN_BLOCK, READY_IN_BLOCK]),
                error_at("42P01", 5),
                READY_FAILED.to_vec(),
                error_then("25P02", READY_FAILED),
            ]
            .concat(),
            _ => [DONE, DONE, &error_at("42P01", 5), READY_FAILED].concat(),
        };
        assert_eq!(bench.answer(&answers), Next::Close, "{mode:?}");
        let [note] = &bench.shared.reports.notes[..] else { panic!("{mode:?}") };
        let line = "client 0 script 0 aborted in command 3 query 0: ERROR:  no\nLINE 1: BBB wrong;\n            ^";
        assert_eq!((note.line, &note.lines[..]), (4, &[line.to_owned()][..]));
        let counted: Vec<u64> = bench.commands().iter().flatten().map(|record| record.moments.count).collect();
        assert_eq!(counted, [1, 1, 0, 0], "{mode:?}");
    }
    // a deferred constraint fails when the transaction of one statement is committed
    begun!(bench, auto("AAA;\nBBB;\n", QueryMode::Extended));
    assert_eq!(bench.answer(&[DONE, &error("23503"), READY, DONE, READY].concat()), Next::Close);
    assert_eq!(bench.shared.reports.notes[0].command, 0);
    assert_eq!(bench.shared.reports.notes.len(), 1);
    // a compound counts its results
    begun!(bench, auto("AAA;\nBBB\\;CCC;\n", QueryMode::Simple));
    let answers = [DONE, READY, DONE, &error("42P01"), READY].concat();
    bench.answer(&answers);
    let note = &bench.shared.reports.notes[0];
    assert_eq!((note.command, note.query), (1, 1));
    // a command that fails lets those before it run
    let script = "AAA;\n\\set x 1 / 0\nBBB;\n";
    bench!(bench, auto(script, QueryMode::Simple));
    assert_eq!(bench.begin(), Next::Send);
    assert_eq!(statements(&bench.sent()), ["AAA"]);
    assert_eq!(bench.answer(READY), Next::Close);
    let lines = bench.lines();
    assert!(lines[0].contains("division by zero"), "{lines:?}");
    assert!(lines[1].contains("aborted in command 1"), "{lines:?}");
}

#[test]
fn rows_are_those_of_the_statement_that_had_them() {
    begun!(bench, auto("AAA;\nBBB;\nCCC\\;DDD;\nEEE;\n", QueryMode::Simple));
    let tags = [&["SELECT 2"][..], &["UPDATE 0"], &["INSERT 0 1", "DELETE 3"], &["BEGIN"]];
    let tag = |text: &&str| message(b'C', format!("{text}\0").as_bytes());
    let answers = tags.map(|tags| [tags.iter().flat_map(tag).collect(), READY.to_vec()].concat());
    bench.answer(&answers.concat());
    let records = bench.commands().iter().flatten();
    let found: Vec<_> = records.map(|record| (record.row_counts.results, record.row_counts.rows)).collect();
    assert_eq!(found, [(1, 2), (1, 0), (2, 4), (0, 0)]);
    // an empty statement has a result
    begun!(bench, auto("BEGIN;\n;\nEND;\n", QueryMode::Extended));
    assert_eq!(bench.answer(&[DONE, b"I\0\0\0\x04", DONE, READY].concat()), Next::Send);
    for record in bench.commands().iter().flatten() {
        assert_eq!(record.moments.count, 1);
    }
}

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
