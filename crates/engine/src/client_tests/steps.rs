//! Clients whose drivers decide when sessions and transactions begin.

use std::sync::{Arc, Mutex};

use pgdyno_script::Program;

use super::*;
use crate::client::Overdue;
use crate::clock::{Nanos, SECOND};
use crate::driver::{Driver, Drivers, Event, LoadTimes, Outgoing, Request, Step};
use crate::spec::Spec;

/// Takes the steps in order; each transaction is one statement that may take a second.
#[derive(Debug, Clone)]
struct Steps {
    steps: Arc<Mutex<Vec<Step>>>,
    seen: Arc<Mutex<Vec<String>>>,
    begins_connected: bool,
}

impl Steps {
    fn see(&self, words: impl Into<String>) {
        self.seen.lock().expect("no panic").push(words.into());
    }
}

impl Drivers for Steps {
    fn driver(&self, _group: usize, _client: usize) -> Box<dyn Driver> {
        Box::new(self.clone())
    }

    fn begins_connected(&self, _client: usize) -> bool {
        self.begins_connected
    }
}

impl Driver for Steps {
    fn resume(&mut self, event: Event<'_>, _now: Nanos, out: &mut Outgoing<'_>) -> Request {
        match event {
            Event::Begin { .. } => {
                self.see("begin");
                out.intended(0);
                out.cancel_after(SECOND);
                out.query("SELECT 7").expect("short");
                Request::Await
            }
            Event::Answered(answer) => {
                if answer.error().is_some() {
                    out.fail();
                }
                Request::Done
            }
            other => {
                self.see(format!("{other:?}"));
                Request::Done
            }
        }
    }

    fn next_step(&mut self, _times: LoadTimes, _now: Nanos, is_connected: bool) -> Step {
        self.see(if is_connected { "next" } else { "next, away" });
        let mut steps = self.steps.lock().expect("no panic");
        if steps.is_empty() { Step::Finish } else { steps.remove(0) }
    }

    fn copy_data(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"d\0\0\0\x067\n");
    }
}

fn stepped(steps: Vec<Step>, begins_connected: bool) -> (Spec, Arc<Mutex<Vec<String>>>) {
    let mut spec = twice("SELECT 1;\n", QueryMode::Simple);
    spec.programs[0].program = Program::driven("stepped", ["read"]);
    spec.limit = Limit::Driven;
    spec.sessions = Sessions::Driven;
    spec.arrivals = Arrivals::Driven;
    let seen = Arc::default();
    spec.drivers =
        Some(Arc::new(Steps { steps: Arc::new(Mutex::new(steps)), seen: Arc::clone(&seen), begins_connected }));
    (spec, seen)
}

fn seen(all: &Arc<Mutex<Vec<String>>>) -> String {
    all.lock().expect("no panic").join(", ")
}

#[test]
fn sessions_begin_and_end_when_the_driver_says() {
    let steps = vec![Step::Connect(0), Step::Transaction(0), Step::Disconnect(0), Step::Connect(SECOND * 1000)];
    let (spec, all) = stepped(steps, false);
    bench!(bench, spec);
    assert_eq!(bench.begin(), Next::Wait);
    assert_eq!(bench.shared.requests.next_unconnected(), Some(0));
    assert_eq!(bench.client.hold(&bench.shared), None, "no session");
    let since = bench.shared.clock.now();
    let connected = bench.client.handle_reconnection(Ok(()), &made(since), &mut bench.shared);
    assert_eq!(connected, Next::Send);
    assert_eq!(bench.sent(), "Q\0\0\0\x0dSELECT 7\0");
    // the session ends
    assert_eq!(bench.answer(ROW), Next::Send);
    assert_eq!(bench.sent(), "X\0\0\0\x04");
    assert_eq!(bench.client.hold(&bench.shared), None);
    // and the server closes it, which is no loss
    bench.close();
    let now = bench.shared.clock.now();
    assert_eq!(bench.shared.requests.due(now), Some(0));
    assert_eq!(bench.client.wake(now, &mut bench.shared), Next::Wait);
    assert_eq!(bench.shared.requests.next_timer(), Some(SECOND * 1000));
    assert_eq!(seen(&all), "next, away, next, Connected, begin, next, next, away");
    let record = bench.record();
    assert_eq!((record.counts.succeeded, record.connecting.count), (1, 1));
    assert_eq!(bench.shared.reports.notes.len(), 0);
    // the statement's latency counts from the instant that the driver named
    let command = bench.commands()[0].as_ref();
    assert!(command.expect("it is timed").moments.min >= since);
}

#[test]
fn a_lost_session_or_a_fatal_error_ends_the_session_and_the_client_goes_on() {
    let steps = vec![Step::Transaction(0), Step::Connect(0)];
    let (spec, all) = stepped(steps, true);
    bench!(bench, spec);
    assert_eq!(bench.begin(), Next::Send);
    bench.close();
    assert_eq!(bench.shared.requests.next_unconnected(), Some(0));
    assert_eq!(seen(&all), "next, Connected, begin, next, away");
    assert_eq!(bench.counts().lost, 1);
    assert_eq!(bench.shared.reports.notes[0].consequence, Consequence::Reconnecting);
    let since = bench.shared.clock.now();
    bench.client.handle_reconnection(Ok(()), &made(since), &mut bench.shared);
    assert!(bench.client.is_stopped(), "there is no further step");
    // a FATAL error ends a session between two transactions, too
    let steps = vec![Step::Transaction(SECOND * 1000), Step::Connect(0)];
    let (spec, all) = stepped(steps, true);
    bench!(bench, spec);
    assert_eq!(bench.begin(), Next::Wait);
    let fatal = b"E\0\0\0\x23SFATAL\0VFATAL\0C57P01\0Mgone now\0\0";
    assert_eq!(bench.answer(fatal), Next::Close);
    assert_eq!(bench.sqlstate(), Some("57P01"));
    assert_eq!(bench.shared.requests.next_unconnected(), Some(0));
    assert_eq!(seen(&all), "next, next, away");
    // the end of the connection is the same loss
    bench.close();
    assert_eq!(bench.shared.reports.notes.len(), 1);
}

#[test]
fn a_statement_that_waits_too_long_is_cancelled_and_then_left() {
    let (spec, _) = stepped(vec![Step::Transaction(0)], true);
    bench!(bench, spec);
    assert_eq!(bench.begin(), Next::Send);
    let now = bench.shared.clock.now();
    let late = now + 2 * SECOND;
    assert_eq!(bench.client.next_overdue_step(now), None);
    assert_eq!(bench.client.next_overdue_step(late), Some(Overdue::Cancel));
    assert_eq!(bench.client.next_overdue_step(late), None);
    let later = late + 60 * SECOND;
    assert_eq!(bench.client.next_overdue_step(later), Some(Overdue::Close));
    bench.answer(ROW);
    assert_eq!(bench.client.next_overdue_step(later), None);
}

#[test]
fn an_error_fails_the_transaction_and_copy_gets_the_rows_of_the_driver() {
    let (spec, _) = stepped(vec![Step::Transaction(0), Step::Transaction(0)], true);
    begun!(bench, spec);
    let refused = [&error("40001")[..], READY_FAILED].concat();
    assert_eq!(bench.answer(&refused), Next::Send);
    assert_eq!(bench.sent(), "Q\0\0\0\x0dSELECT 7\0");
    let refused = [&error("25P02")[..], READY_FAILED].concat();
    bench.answer(&refused);
    assert_eq!(bench.counts(), Counts { serialization_failures: 1, other_failures: 1, ..Counts::default() });
    let command = bench.commands()[0].as_ref();
    assert_eq!(command.expect("it is timed").failures, 2);
    let notes = bench.shared.reports.notes.iter();
    let notes: Vec<_> = notes.map(|note| note.sqlstate.as_deref()).collect();
    assert_eq!(notes, [Some("40001"), Some("25P02")]);
    // copy gets the rows of the driver
    let (spec, _) = stepped(vec![Step::Transaction(0)], true);
    begun!(bench, spec);
    assert_eq!(bench.answer(b"G\0\0\0\x09\0\0\x01\0\0"), Next::Send);
    assert_eq!(bench.sent(), "d\0\0\0\x067\nc\0\0\0\x04");
}

#[test]
fn nothing_begins_after_the_deadline() {
    let (mut spec, all) = stepped(vec![Step::Transaction(SECOND * 1000)], true);
    spec.limit = Limit::Duration(Duration::from_secs(1));
    bench!(bench, spec);
    bench.shared.run.deadline = Some(SECOND);
    assert_eq!(bench.begin(), Next::Wait);
    assert_eq!(bench.shared.requests.next_timer(), Some(SECOND));
    assert_eq!(bench.client.wake(SECOND, &mut bench.shared), Next::Send);
    assert!(bench.client.is_stopped());
    assert_eq!(seen(&all), "next");
    assert_eq!(bench.sent(), "X\0\0\0\x04");
}
