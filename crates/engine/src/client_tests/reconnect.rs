//! Clients that lose their connection and reconnect, and what they know of the outcome of their transactions.

use super::*;
use crate::clock::SECOND;
use crate::commit_ledger::{ClientLedger, CommitLedger};
use crate::outage::{OutageNote, Outages};

fn returning(mut spec: Spec) -> Spec {
    spec.on_loss = OnLoss::Reconnect { patience: None };
    spec
}

fn refusal(is_transient: bool) -> Refusal {
    Refusal { is_transient, ..Refusal::passing("no way in") }
}

impl Bench<'_> {
    fn later(&self) -> u64 {
        self.shared.clock.now() + 2 * SECOND
    }

    fn ask(&mut self) {
        assert_eq!(self.client.wake(self.later(), &mut self.shared), Next::Wait);
        assert_eq!(self.shared.requests.next_unconnected(), Some(0));
    }

    fn come_back(&mut self) -> Next {
        self.ask();
        self.client.handle_reconnection(Ok(()), &Attempt::default(), &mut self.shared)
    }

    fn outages(&self) -> Outages {
        let tracker = self.shared.reports.outages.as_ref().expect("it is to come back");
        tracker.lock().finish(self.later(), 0).1
    }
}

#[test]
fn what_a_session_had_prepared_is_forgotten_and_variables_are_kept() {
    let mut spec = returning(twice("\\set x :x + 1\nSELECT :x;\n", QueryMode::Prepared));
    let mut symbols = Symbols::clone(&spec.symbols);
    spec.initial = vec![(symbols.slot("x"), crate::spec::Initial::Int(7))];
    begun!(bench, spec);
    assert!(bench.sent().contains("P_0"), "{:?}", bench.sent());
    assert!(bench.sent().contains('8'), "{:?}", bench.sent());
    // half a message of the old session must not be taken for the beginning of the new one
    bench.answer(&READY[..3]);
    bench.close();
    assert_eq!(bench.come_back(), Next::Send);
    assert!(bench.sent().starts_with("P\0\0\0"), "{:?}", bench.sent());
    assert!(bench.sent().contains('9'), "{:?}", bench.sent());
    assert_eq!(bench.answer(READY), Next::Send);
    assert_eq!(bench.counts().succeeded, 1);
    // a pipeline is forgotten
    let script = "\\startpipeline\nSELECT 1;\nSELECT 2;\n\\endpipeline\n";
    begun!(bench, returning(twice(script, QueryMode::Extended)));
    bench.close();
    assert_eq!(bench.come_back(), Next::Send);
    assert_eq!(bench.sent().matches("SELECT").count(), 2);
    assert_eq!(bench.answer(READY), Next::Send);
    assert_eq!(bench.counts(), Counts { succeeded: 1, lost: 1, ..Counts::default() });
    // random numbers of scripts do not depend on losses
    let script = "\\set x random(1, 1000000)\nSELECT :x;\n";
    let mut sequences = Vec::new();
    for loses in [false, true] {
        begun!(bench, returning(twice(script, QueryMode::Simple)));
        let first = bench.sent();
        if loses {
            bench.close();
            bench.come_back();
        } else {
            bench.answer(READY);
        }
        sequences.push((first, bench.sent()));
    }
    assert_eq!(sequences[0], sequences[1]);
}

#[test]
fn a_fatal_error_and_bytes_that_are_no_protocol_are_losses_and_other_errors_are_not() {
    begun!(bench, returning(select()));
    assert_eq!(bench.answer(&fatal("57P01")), Next::Close);
    bench.close();
    assert_eq!(bench.counts().lost, 1, "its end was known");
    let tracker = bench.shared.reports.outages.as_ref().expect("it is to come back");
    let told: Vec<_> = std::iter::from_fn(|| tracker.lock().take_note(0)).collect();
    let OutageNote::Lost { note, clients } = &told[1] else { panic!("{told:?}") };
    assert_eq!((note.sqlstate.as_deref(), *clients), (Some("57P01"), 1));
    assert_eq!((note.message.as_str(), note.consequence), ("gone", Consequence::Reconnecting));
    // other errors end the client as before
    begun!(bench, returning(select()));
    assert_eq!(bench.answer(&error_then("08006", READY)), Next::Close);
    assert!(bench.client.has_aborted() && !bench.client.is_away());
    assert_eq!(bench.counts(), Counts { aborted: 1, ..Counts::default() });
    // bytes that are no protocol are a loss
    begun!(bench, returning(select()));
    assert_eq!(bench.answer(b"HTTP/1.1 502 Bad Gateway\r\n"), Next::Close);
    assert!(bench.client.is_away());
    assert_eq!(bench.come_back(), Next::Send);
}

#[test]
fn attempts_go_on_until_one_succeeds() {
    begun!(bench, returning(select()));
    bench.close();
    for _ in 0..20 {
        bench.ask();
        let failed = refusal(true);
        assert_eq!(bench.client.handle_reconnection(Err(&failed), &Attempt::default(), &mut bench.shared), Next::Wait);
    }
    assert_eq!(bench.wake_now(), Next::Wait);
    assert_eq!(bench.shared.requests.next_unconnected(), None, "it waits in between");
    assert_eq!(bench.come_back(), Next::Send);
    let tally = bench.outages().tally;
    assert_eq!((tally.failed_attempts, tally.reconnects), (20, 1));
}

#[test]
fn a_sleep_that_was_lost_does_not_shorten_the_next() {
    let script = "SELECT 1;\n\\sleep 10 s\nSELECT 2;\n";
    begun!(bench, returning(twice(script, QueryMode::Simple)));
    bench.answer(READY);
    let first_sleep_ends = bench.shared.clock.now() + 10 * SECOND;
    bench.close();
    bench.come_back();
    bench.answer(READY);
    assert_eq!(bench.wake(first_sleep_ends), Next::Wait);
    assert_eq!(bench.sent(), "", "it sleeps on");
    assert_eq!(bench.wake(first_sleep_ends + SECOND), Next::Send);
}

#[test]
fn latency_counts_from_a_start_that_fell_into_the_outage() {
    let arrivals = Arrivals::Regular { rate_per_s: 20.0 };
    bench!(
        bench,
        returning(spec("SELECT 1;\n", QueryMode::Simple, Limit::Transactions(1), Tries::AtMost(1), arrivals))
    );
    // the first start lies ahead, and the connection is lost while the client waits for it
    bench.shared.starts.schedule.begin(bench.shared.clock.now() + SECOND / 20);
    assert_eq!(bench.begin(), Next::Wait);
    bench.close();
    assert_eq!(bench.counts().lost, 0, "nothing was in flight");
    while bench.come_back() == Next::Wait {
        // the client has reconnected before its start
        bench.close();
    }
    bench.answer(READY);
    let record = bench.record();
    assert_eq!((record.counts.succeeded, record.lag.count), (1, 1));
    assert!(record.latency.moments.min >= record.lag.max);
    // starts too long ago are skipped
    let arrivals = Arrivals::Regular { rate_per_s: 1000.0 };
    let mut spec =
        returning(spec("SELECT 1;\n", QueryMode::Simple, Limit::Transactions(5), Tries::AtMost(1), arrivals));
    spec.latency_limit = Some(Duration::from_nanos(1));
    bench!(bench, spec);
    bench.shared.starts.schedule.begin(bench.shared.clock.now() + SECOND / 100);
    assert_eq!(bench.begin(), Next::Wait);
    bench.close();
    let all_are_due = bench.shared.clock.now() + SECOND / 50;
    while bench.shared.clock.now() < all_are_due {}
    bench.come_back();
    assert_eq!(bench.counts(), Counts { skipped: 5, ..Counts::default() });
    assert!(bench.client.is_stopped());
}

#[test]
fn a_connection_a_transaction_is_tried_again() {
    bench!(bench, Spec { sessions: Sessions::PerTransaction, ..returning(select()) });
    assert_eq!(bench.begin(), Next::Wait);
    assert_eq!(bench.shared.requests.next_unconnected(), Some(0));
    let failed = refusal(true);
    bench.client.handle_reconnection(Err(&failed), &Attempt::default(), &mut bench.shared);
    assert!(bench.client.is_away());
    assert_eq!(bench.come_back(), Next::Send);
    bench.answer(READY);
    // the old session, which the client has terminated, ends with or without an error message
    assert_eq!(bench.answer(&fatal("57P01")), Next::Close);
    bench.close();
    assert!(!bench.client.is_away());
    bench.wake(bench.later());
    assert_eq!(bench.shared.requests.next_unconnected(), Some(0));
    assert_eq!(bench.client.handle_reconnection(Ok(()), &Attempt::default(), &mut bench.shared), Next::Send);
    bench.close();
    assert_eq!(bench.counts(), Counts { succeeded: 1, lost: 1, ..Counts::default() });
    assert!(bench.client.is_stopped() && !bench.client.has_aborted());
    let tally = bench.outages().tally;
    assert_eq!((tally.connections_lost, tally.failed_attempts), (1, 1));
}

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
