//! Clients that are stopped early: what they have to end, and what ends it.

use super::*;
use crate::client::Hold;

const TERMINATE: &str = "X\0\0\0\x04";

#[test]
fn a_statement_holds_a_client_until_it_is_answered() {
    bench!(bench, twice("SELECT 1;\n", QueryMode::Simple));
    assert_eq!(bench.client.hold(&bench.shared), Some(Hold::Idle));
    bench.begin();
    assert_eq!(bench.client.hold(&bench.shared), Some(Hold::Statement));
    bench.client.stop_when_answered();
    // an answer in pieces, and a failed one
    let answer = [&error("57014")[..], READY].concat();
    let (first, rest) = answer.split_at(answer.len() - 3);
    assert_eq!(bench.answer(first), Next::Wait);
    assert!(bench.client.is_stopping());
    assert_eq!(bench.answer(rest), Next::Send);
    assert_eq!(bench.sent(), TERMINATE);
    assert!(!bench.client.is_stopping());
    assert_eq!(bench.client.hold(&bench.shared), None);
    // it is not counted
    let counts = bench.counts();
    assert_eq!((counts.succeeded, counts.failed()), (0, 0));
    assert!(bench.shared.reports.notes.is_empty());
    // one that is being prepared does, too
    let mut spec = twice("SELECT 1;\n", QueryMode::Prepared);
    spec.preparing = Preparing::Ahead;
    begun!(bench, spec);
    assert_eq!(bench.client.hold(&bench.shared), Some(Hold::Statement));
    bench.client.stop_when_answered();
    assert_eq!(bench.answer(READY), Next::Send);
    assert_eq!(bench.sent(), TERMINATE);
    // every part of a pipeline is waited for
    let script = "\\startpipeline\nSELECT 1;\n\\syncpipeline\nSELECT 2;\n\\endpipeline\n";
    begun!(bench, twice(script, QueryMode::Extended));
    bench.client.stop_when_answered();
    assert_eq!(bench.answer(READY), Next::Wait);
    assert!(bench.client.is_stopping());
    assert_eq!(bench.answer(READY), Next::Send);
    assert_eq!(bench.sent(), TERMINATE);
    // a copy is ended too
    begun!(bench, twice("COPY t FROM STDIN;\n", QueryMode::Extended));
    bench.client.stop_when_answered();
    assert_eq!(bench.answer(b"G\0\0\0\x07\0\0\0"), Next::Send);
    assert_eq!(bench.sent(), "c\0\0\0\x04S\0\0\0\x04");
    assert!(bench.client.is_stopping());
    assert_eq!(bench.answer(READY), Next::Send);
    assert_eq!(bench.sent(), TERMINATE);
    // what is no protocol ends the wait
    begun!(bench, twice("SELECT 1;\n", QueryMode::Simple));
    bench.client.stop_when_answered();
    assert_eq!(bench.answer(b"HTTP/1.1 400 Bad Request\r\n"), Next::Close);
    assert!(!bench.client.is_stopping());
}

#[test]
fn a_client_without_a_connection_has_none_to_end() {
    let mut spec = twice("SELECT 1;\n", QueryMode::Simple);
    spec.sessions = Sessions::PerTransaction;
    begun!(bench, spec);
    assert_eq!(bench.client.hold(&bench.shared), None);
    bench.client.handle_connection(Ok(()), &Attempt::default(), &mut bench.shared);
    assert_eq!(bench.client.hold(&bench.shared), Some(Hold::Statement));
    bench.answer(READY);
    // it has sent Terminate, and waits for its next turn
    assert_eq!(bench.sent(), TERMINATE);
    assert_eq!(bench.client.hold(&bench.shared), None);
    // between two statements nothing is waited for
    begun!(bench, twice("BEGIN;\n\\sleep 1 s\nEND;\n", QueryMode::Simple));
    bench.answer(READY_IN_BLOCK);
    assert_eq!(bench.client.hold(&bench.shared), Some(Hold::Idle));
    assert_eq!(bench.client.terminate(), Next::Send);
    assert_eq!(bench.sent(), TERMINATE);
}
