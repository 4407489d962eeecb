//! Clients that are stopped early: what they have to end, and what ends it.

use super::*;
use crate::client::Hold;

const TERMINATE: &str = "X\0\0\0\x04";

#[test]
fn a_statement_holds_a_client_until_it_is_answered() {
    bench!(bench, select());
    assert_eq!(bench.client.hold(&bench.shared), Some(Hold::Idle));
    bench.begin();
    assert_eq!(bench.client.hold(&bench.shared), Some(Hold::Statement));
    bench.client.stop_when_answered();
    // an answer in pieces, and a failed one
    let answer = error_then("57014", READY);
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
    // a copy is ended too
    begun!(bench, twice("COPY t FROM STDIN;\n", QueryMode::Extended));
    bench.client.stop_when_answered();
    assert_eq!(bench.answer(b"G\0\0\0\x07\0\0\0"), Next::Send);
    assert_eq!(bench.sent(), "c\0\0\0\x04S\0\0\0\x04");
    assert!(bench.client.is_stopping());
    assert_eq!(bench.answer(READY), Next::Send);
    assert_eq!(bench.sent(), TERMINATE);
    // what is no protocol ends the wait
    begun!(bench, select());
    bench.client.stop_when_answered();
    assert_eq!(bench.answer(b"HTTP/1.1 400 Bad Request\r\n"), Next::Close);
    assert!(!bench.client.is_stopping());
}

#[test]
fn a_client_without_a_connection_has_none_to_end() {
    begun!(bench, Spec { sessions: Sessions::PerTransaction, ..select() });
    assert_eq!(bench.client.hold(&bench.shared), None);
    bench.connect();
    assert_eq!(bench.client.hold(&bench.shared), Some(Hold::Statement));
    bench.answer(READY);
    // it has sent Terminate, and waits for its next turn
    assert_eq!(bench.sent(), TERMINATE);
    assert_eq!(bench.client.hold(&bench.shared), None);
}
