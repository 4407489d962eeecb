//! What clients know of the outcome of their transactions.

use super::*;
use crate::commit_ledger::{ClientLedger, CommitLedger};

const SCRIPT: &str = "BEGIN;\nINSERT INTO l VALUES (:ledger_seq);\nEND;\n";

fn with_ledger(script: &str, mode: QueryMode, transactions: u64) -> Spec {
    let limit = Limit::Transactions(transactions);
    let mut spec = spec(script, mode, limit, Tries::AtMost(2), Arrivals::Closed);
    spec.ledger = CommitLedger::of(spec.programs.iter().map(|p| &p.program), &spec.symbols);
    assert!(spec.ledger.is_some());
    spec.on_error = OnError::Continue;
    spec.on_loss = OnLoss::Reconnect { patience: None };
    spec
}

fn page(bench: &mut Bench<'_>) -> ClientLedger {
    bench.client.take_ledger().expect("there is a ledger")
}

#[test]
fn a_lost_connection_leaves_an_unknown_end_only_behind_the_number() {
    begun!(bench, with_ledger(SCRIPT, QueryMode::Simple, 2));
    // BEGIN is in progress, and no number was sent
    bench.close();
    assert_eq!(page(&mut bench), ClientLedger::new(0));
    begun!(bench, with_ledger(SCRIPT, QueryMode::Simple, 2));
    bench.answer(READY_IN_BLOCK);
    bench.close();
    let lost = page(&mut bench);
    assert_eq!((lost.unknown.all(), lost.acknowledged()), (&[(1, 1)][..], 0));
    // a failed transaction is refused once however often it was tried
    begun!(bench, with_ledger(SCRIPT, QueryMode::Simple, 2));
    for _ in 0..2 {
        bench.answer(READY_IN_BLOCK);
        bench.answer(&error_then("40001", READY_FAILED));
        // the answer to ROLLBACK
        bench.answer(READY);
    }
    bench.answer(READY_IN_BLOCK);
    let page = page(&mut bench);
    assert_eq!((page.refused.all(), page.unknown.all()), (&[(1, 1)][..], &[(2, 2)][..]));
}
