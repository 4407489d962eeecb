//! Keying times before transactions and think times after them, with artificial instants where they matter.

use super::*;
use crate::clock::{Nanos, SECOND};
use crate::pacing::Pause;

fn paced(script: &str, transactions: u64, keying: Pause, think: Pause) -> Spec {
    let limit = Limit::Transactions(transactions);
    Spec { limit, pacing: vec![Pacing { keying, think }], ..twice(script, QueryMode::Simple) }
}

const fn fixed(seconds: u64) -> Pause {
    Pause::Fixed(Duration::from_secs(seconds))
}

#[test]
fn latency_counts_from_the_end_of_keying() {
    bench!(bench, paced("SELECT 1;\n", 1, fixed(5), fixed(7)));
    assert_eq!(bench.client.begin(0, &mut bench.shared), Next::Wait);
    assert!(!bench.client.in_flight(), "nobody has asked for anything yet");
    assert_eq!(bench.shared.requests.next_timer(), Some(5 * SECOND));
    // the engine's own clock is far before that instant: all of the latency would be keying
    let end = 5 * SECOND;
    assert_eq!(bench.wake(end), Next::Send);
    bench.answer(READY);
    let record = bench.record();
    assert_eq!(record.latency.moments.max, 0, "none before the keying's end");
    assert_eq!((record.keying.count, record.keying.max), (1, 5 * SECOND));
    assert_eq!(record.lag.count, 0);
    assert!(bench.client.is_stopped(), "nobody thinks after the last one");
    assert_eq!(record.think.count, 0);
}

#[test]
fn thinking_comes_between_transactions() {
    bench!(bench, paced("SELECT 1;\n", 3, Pause::None, fixed(7)));
    assert_eq!(bench.begin(), Next::Send);
    for ended in 1..=2 {
        assert!(bench.client.awaits_bytes());
        assert_eq!(bench.answer(READY), Next::Wait);
        assert!(!bench.client.in_flight() && !bench.client.awaits_bytes());
        assert_eq!(bench.shared.results.in_flight, 0);
        let wakes = bench.shared.requests.next_timer().expect("it thinks");
        assert!(wakes >= 7 * SECOND);
        assert_eq!(bench.record().counts.succeeded, ended);
        assert_eq!(bench.shared.requests.due(wakes), Some(0));
        assert_eq!(bench.wake(wakes), Next::Send);
        assert!(bench.client.in_flight());
        assert_eq!(bench.shared.results.in_flight, 1);
        assert_eq!(bench.shared.results.recorder.scripts[0].think.max, 7 * SECOND);
    }
    bench.answer(READY);
    assert!(bench.client.is_stopped());
    let record = bench.record();
    assert_eq!(record.think.count, 2);
    assert!(record.latency.moments.max <= bench.shared.clock.now(), "nobody has really thought that long");
}

#[test]
fn the_deadline_ends_who_pauses() {
    for (keying, think) in [(fixed(7), Pause::None), (Pause::None, fixed(7))] {
        bench!(
            bench,
            Spec { limit: Limit::Duration(Duration::from_secs(3)), ..paced("SELECT 1;\n", 1, keying, think) }
        );
        let deadline = bench.shared.clock.now() + 3 * SECOND;
        bench.shared.run.deadline = Some(deadline);
        bench.begin();
        if think != Pause::None {
            bench.answer(READY);
        }
        assert_eq!(bench.shared.requests.next_timer(), Some(deadline));
        assert_eq!(bench.wake(deadline), Next::Send);
        assert_eq!(bench.sent(), "X\0\0\0\x04");
        assert!(bench.client.is_stopped() && !bench.client.has_aborted());
        assert_eq!(bench.shared.measured_until(deadline, false, false), deadline, "it was there until then");
        let record = bench.record();
        assert_eq!((record.keying.count, record.think.count), (0, 0));
    }
}

#[test]
fn scripts_draw_what_they_draw_without_pauses() {
    let script = "\\set x random(1, 1000000000)\nSELECT :x;\n";
    let exponential = Pause::Exponential { mean: Duration::from_secs(1) };
    let mut found: Vec<Vec<String>> = Vec::new();
    for pause in [Pause::None, exponential] {
        bench!(bench, paced(script, 3, pause, pause));
        let mut sent = Vec::new();
        let mut next = bench.begin();
        while !bench.client.is_stopped() {
            next = match next {
                Next::Send => {
                    sent.push(bench.sent());
                    bench.answer(READY)
                }
                _ => {
                    let wakes = bench.shared.requests.next_timer().expect("it pauses");
                    assert_eq!(bench.shared.requests.due(wakes), Some(0));
                    bench.wake(wakes)
                }
            };
        }
        found.push(sent);
    }
    assert_eq!(found[0].len(), 3);
    assert_eq!(found[0], found[1]);
}

#[test]
fn who_connects_anew_thinks_without_a_connection() {
    begun!(bench, Spec { sessions: Sessions::PerTransaction, ..paced("SELECT 1;\n", 2, fixed(5), fixed(7)) });
    assert_eq!(bench.shared.requests.next_unconnected(), None, "it keys first");
    let keyed = bench.shared.requests.next_timer().expect("it keys");
    assert_eq!(bench.shared.requests.due(keyed), Some(0));
    assert_eq!(bench.wake(keyed), Next::Wait);
    assert_eq!(bench.shared.requests.next_unconnected(), Some(0));
    bench.connect();
    assert_eq!(bench.answer(READY), Next::Send);
    assert_eq!(bench.sent(), "X\0\0\0\x04");
    bench.close();
    let thought: Nanos = bench.shared.requests.next_timer().expect("it thinks");
    assert!(!bench.client.is_stopped());
    assert_eq!(bench.wake(thought), Next::Wait);
    let record = bench.record();
    assert_eq!((record.think.count, record.think.max), (1, 7 * SECOND));
}
