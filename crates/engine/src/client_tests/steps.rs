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
    seen: Arc<Mutex<Vec<&'static str>>>,
}

impl Drivers for Steps {
    fn driver(&self, _group: usize, _client: usize) -> Box<dyn Driver> {
        Box::new(self.clone())
    }
}

impl Driver for Steps {
    fn resume(&mut self, event: Event<'_>, _now: Nanos, out: &mut Outgoing<'_>) -> Request {
        if !matches!(event, Event::Begin { .. }) {
            return Request::Done;
        }
        out.cancel_after(SECOND);
        out.query("SELECT 7").expect("short");
        Request::Await
    }

    fn next_step(&mut self, _times: LoadTimes, _now: Nanos, is_connected: bool) -> Step {
        self.seen.lock().expect("no panic").push(if is_connected { "next" } else { "next, away" });
        let mut steps = self.steps.lock().expect("no panic");
        if steps.is_empty() { Step::Finish } else { steps.remove(0) }
    }
}

fn spec_of_steps(steps: Vec<Step>) -> (Spec, Arc<Mutex<Vec<&'static str>>>) {
    let mut spec = select();
    spec.programs[0].program = Program::driven("stepped", ["read"]);
    spec.limit = Limit::Driven;
    spec.sessions = Sessions::Driven;
    spec.arrivals = Arrivals::Driven;
    let seen = Arc::default();
    spec.drivers = Some(Arc::new(Steps { steps: Arc::new(Mutex::new(steps)), seen: Arc::clone(&seen) }));
    (spec, seen)
}

#[test]
fn sessions_begin_and_end_when_the_driver_says() {
    let steps = vec![Step::Transaction(0), Step::Disconnect(0), Step::Connect(0), Step::Transaction(SECOND * 1000)];
    let (spec, seen) = spec_of_steps(steps);
    bench!(bench, spec);
    assert_eq!(bench.begin(), Next::Send);
    assert_eq!(bench.answer(ROW), Next::Send);
    assert_eq!(bench.sent(), "X\0\0\0\x04");
    assert_eq!(bench.client.hold(&bench.shared), None, "no session");
    // and the server closes it, which is no loss
    bench.close();
    let now = bench.shared.clock.now();
    assert_eq!(bench.shared.requests.due(now), Some(0));
    assert_eq!(bench.wake(now), Next::Wait);
    assert_eq!(bench.shared.requests.next_unconnected(), Some(0));
    bench.client.handle_reconnection(Ok(()), &Attempt::default(), &mut bench.shared);
    assert_eq!(bench.shared.requests.next_timer(), Some(SECOND * 1000));
    assert_eq!(*seen.lock().expect("no panic"), ["next", "next", "next, away", "next"]);
    assert_eq!((bench.counts().succeeded, bench.record().connecting.count), (1, 1));
    assert!(bench.shared.reports.notes.is_empty());
}

#[test]
fn a_fatal_error_between_two_transactions_ends_the_session_and_the_client_goes_on() {
    let steps = vec![Step::Transaction(SECOND * 1000), Step::Connect(0)];
    let (spec, seen) = spec_of_steps(steps);
    bench!(bench, spec);
    assert_eq!(bench.begin(), Next::Wait);
    assert_eq!(bench.answer(&fatal("57P01")), Next::Close);
    assert_eq!(bench.sqlstate(), Some("57P01"));
    assert_eq!(bench.shared.requests.next_unconnected(), Some(0));
    assert_eq!(*seen.lock().expect("no panic"), ["next", "next, away"]);
    // the end of the connection is the same loss
    bench.close();
    assert_eq!(bench.shared.reports.notes.len(), 1);
}

#[test]
fn a_statement_that_waits_too_long_is_cancelled_and_then_left() {
    let (spec, _) = spec_of_steps(vec![Step::Transaction(0)]);
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
fn nothing_begins_after_the_deadline() {
    let (spec, seen) = spec_of_steps(vec![Step::Transaction(SECOND * 1000)]);
    bench!(bench, Spec { limit: Limit::Duration(Duration::from_secs(1)), ..spec });
    bench.shared.run.deadline = Some(SECOND);
    assert_eq!(bench.begin(), Next::Wait);
    assert_eq!(bench.shared.requests.next_timer(), Some(SECOND));
    assert_eq!(bench.wake(SECOND), Next::Send);
    assert!(bench.client.is_stopped());
    assert_eq!(*seen.lock().expect("no panic"), ["next"]);
    assert_eq!(bench.sent(), "X\0\0\0\x04");
}
