//! Clients whose transactions, and when they and sessions begin, a driver decides.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pgdyno_script::Program;

use super::*;
use crate::client::Overdue;
use crate::clock::{Nanos, SECOND};
use crate::driver::{Change, Driver, Drivers, Event, LoadTimes, Outgoing, Refused, Request, Step};

/// What the driver does at each event, in order; the events are recorded.
type Play = fn(&mut Outgoing<'_>) -> Request;

#[derive(Debug, Default)]
struct Played {
    steps: Arc<Mutex<Vec<Play>>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Drivers for Played {
    fn driver(&self, _worker: usize, _client: usize) -> Box<dyn Driver> {
        Box::new(Self { steps: Arc::clone(&self.steps), seen: Arc::clone(&self.seen) })
    }
}

impl Driver for Played {
    fn resume(&mut self, event: Event<'_>, _now: Nanos, out: &mut Outgoing<'_>) -> Request {
        let words = match event {
            Event::Answered(answer) => {
                let error = answer.error().map(|error| error.message.clone());
                let value = answer.value(0, 0).map(String::from_utf8_lossy);
                format!("answered {value:?} {error:?} {}", answer.in_block())
            }
            other => format!("{other:?}"),
        };
        self.seen.lock().expect("no panic").push(words);
        let step = self.steps.lock().expect("no panic").remove(0);
        step(out)
    }
}

fn driven(steps: Vec<Play>) -> (Spec, Arc<Mutex<Vec<String>>>) {
    let mut spec = select();
    spec.programs[0].program = Program::driven("played", ["read", "write"]);
    let played = Played { steps: Arc::new(Mutex::new(steps)), seen: Arc::default() };
    let seen = Arc::clone(&played.seen);
    spec.drivers = Some(Arc::new(played));
    (spec, seen)
}

fn done(_: &mut Outgoing<'_>) -> Request {
    Request::Done
}

fn ask(out: &mut Outgoing<'_>) -> Request {
    out.keep_rows();
    out.command(1);
    out.query("SELECT 7").expect("short");
    Request::Await
}

fn open(_: &mut Outgoing<'_>) -> Request {
    Request::Change(Change::Open(1))
}

fn refused(_: &mut Outgoing<'_>) -> Request {
    Request::Refused(Refused::default())
}

fn ignorable(_: &mut Outgoing<'_>) -> Request {
    Request::Refused(Refused { ignorable: true, words: None })
}

#[test]
fn a_driver_is_told_of_its_session_its_transactions_and_their_answers() {
    let (spec, seen) = driven(vec![done, ask, done, done, done]);
    bench!(bench, spec);
    assert_eq!(bench.begin(), Next::Send);
    assert_eq!(bench.sent(), "Q\0\0\0\x0dSELECT 7\0");
    assert!(bench.client.in_flight());
    // the second transaction has no request
    assert_eq!(bench.answer(ROW), Next::Send);
    assert_eq!(bench.sent(), "X\0\0\0\x04");
    assert!(bench.client.is_stopped() && !bench.client.has_aborted());
    assert_eq!(
        *seen.lock().expect("no panic"),
        [
            "Connected", "Begin { script: 0, tries: 1 }", "answered Some(\"7\") None false",
            "Begin { script: 0, tries: 1 }", "Ending"
        ]
    );
    let record = bench.record();
    assert_eq!(record.counts.succeeded, 2);
    assert_eq!(record.statements.reads, 1);
    assert_eq!(bench.commands()[1].as_ref().expect("it is timed").moments.count, 1);
}

#[test]
fn a_pipeline_has_one_sync_unless_the_driver_says_more() {
    fn pipeline(out: &mut Outgoing<'_>) -> Request {
        out.parse("a", "SELECT 1").expect("short");
        out.sync();
        out.parse("b", "SELECT 2").expect("short");
        Request::Await
    }
    let (spec, seen) = driven(vec![pipeline, done, done, done, done]);
    bench!(bench, spec);
    assert_eq!(bench.begin(), Next::Send);
    assert_eq!(bench.sent().matches("S\0\0\0\x04").count(), 2);
    assert_eq!(bench.answer(b"1\0\0\0\x04Z\0\0\0\x05I"), Next::Wait);
    assert_eq!(seen.lock().expect("no panic").len(), 1, "one is awaited");
    bench.answer(b"1\0\0\0\x04Z\0\0\0\x05I");
    // neither transaction has a request, so they follow each other immediately
    let told = seen.lock().expect("no panic").join(", ");
    assert!(told.ends_with("Begin { script: 0, tries: 1 }, Begin { script: 0, tries: 1 }, Ending"));
}

#[test]
fn an_error_ends_the_client_unless_it_may_be_tried_again() {
    let (spec, _) = driven(vec![done, ask, refused]);
    begun!(bench, spec);
    assert_eq!(bench.answer(&error_then("42P01", READY)), Next::Close);
    assert!(bench.client.has_aborted());
    assert_eq!(bench.sqlstate(), Some("42P01"));

    let (mut spec, seen) = driven(vec![done, ask, refused, ask]);
    spec.tries = Tries::AtMost(2);
    begun!(bench, spec);
    assert_eq!(bench.answer(&error_then("40001", READY_FAILED)), Next::Send);
    assert_eq!(bench.sent(), "Q\0\0\0\x0dROLLBACK\0");
    bench.answer(b"C\0\0\0\x0dROLLBACK\0Z\0\0\0\x05I");
    assert_eq!(bench.sent(), "Q\0\0\0\x0dSELECT 7\0");
    assert_eq!(seen.lock().expect("no panic").last().map(String::as_str), Some("Begin { script: 0, tries: 2 }"));
    // an ignorable error is counted and tried again
    let (mut spec, _) = driven(vec![done, ask, ignorable, ask, done, done, done]);
    spec.tries = Tries::AtMost(2);
    begun!(bench, spec);
    assert_eq!(bench.answer(&error_then("23505", READY)), Next::Send);
    bench.answer(ROW);
    let record = bench.record();
    assert_eq!(record.statements.ignored_errors, 1);
    assert_eq!((record.counts.retries, record.counts.succeeded), (1, 2));
}

#[test]
fn a_driver_sleeps_stops_and_gives_up() {
    fn sleep(_: &mut Outgoing<'_>) -> Request {
        Request::Sleep(Duration::from_nanos(1))
    }
    fn stop(_: &mut Outgoing<'_>) -> Request {
        Request::Stop
    }
    let (spec, seen) = driven(vec![done, sleep, stop, done]);
    bench!(bench, spec);
    assert_eq!(bench.begin(), Next::Wait);
    assert_eq!(bench.wake(bench.shared.clock.now() + 1000), Next::Send);
    assert!(bench.client.is_stopped() && !bench.client.has_aborted());
    assert_eq!(bench.counts().ended(), 0);
    assert_eq!(seen.lock().expect("no panic")[2], "Woken");

    fn abort(_: &mut Outgoing<'_>) -> Request {
        Request::Abort("a.lua:3: no".into())
    }
    let (spec, _) = driven(vec![done, abort]);
    bench!(bench, spec);
    assert_eq!(bench.begin(), Next::Close);
    assert_eq!(bench.lines(), ["client 0 aborted: a.lua:3: no"]);
}

#[test]
fn a_new_connection_is_made_known_before_the_transaction_goes_on() {
    let (mut spec, seen) = driven(vec![ask, done, ask]);
    spec.sessions = Sessions::PerTransaction;
    bench!(bench, spec);
    assert_eq!(bench.begin(), Next::Wait);
    assert_eq!(bench.connect(), Next::Send);
    assert_eq!(seen.lock().expect("no panic")[0], "Connected");
    bench.answer(ROW);
    assert_eq!(seen.lock().expect("no panic").last().map(String::as_str), Some("Begin { script: 0, tries: 1 }"));
}

#[test]
fn a_session_that_cannot_be_opened_leaves_the_current_one() {
    let (spec, seen) = driven(vec![done, open, ask]);
    begun!(bench, spec);
    let refused = Err("too many clients".to_owned());
    assert_eq!(bench.client.finish_session_change(None, refused, &mut bench.shared), Next::Send);
    let told = seen.lock().expect("no panic").join(", ");
    assert!(told.ends_with("Changed(Some(\"too many clients\"))"), "{told}");
}

// ---- when sessions and transactions begin ----

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
