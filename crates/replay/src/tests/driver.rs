//! A client of a replay, against answers without a server.

use std::sync::{Arc, Mutex};

use pgdyno_engine::clock::{Nanos, SECOND};
use pgdyno_engine::driver::{Answer, Driver, Event, LoadTimes, Outgoing, Request, Step};
use serde_json::json;

use crate::driver::SessionDriver;
use crate::outcome::Tally;
use crate::pace_and_patience::{LEAST_PATIENCE, Pace, Progress, WAIT};
use crate::tests::samples::Sample;

const ORIGIN: Nanos = 100 * SECOND;

/// A client with a connection that answers as the test says.
struct Bench {
    driver: SessionDriver,
    tally: Arc<Mutex<Tally>>,
    deadline: Option<Nanos>,
    out: Vec<u8>,
}

/// Microseconds of the capture, as an instant of the load.
fn at(us: u64) -> Nanos {
    ORIGIN + us * 1000
}

impl Bench {
    fn new(sample: &Sample, pace: Pace) -> Self {
        let file = sample.open().expect("it is valid");
        let tally = Arc::<Mutex<Tally>>::default();
        let progress = Arc::new(Progress::new(file, pace));
        let first = progress.first_session(0);
        Self { driver: SessionDriver::new(progress, Arc::clone(&tally), first), tally, deadline: None, out: Vec::new() }
    }

    fn step(&mut self, now: Nanos, is_connected: bool) -> Step {
        let times = LoadTimes { origin: ORIGIN, deadline: self.deadline };
        self.driver.next_step(times, now, is_connected)
    }

    fn resume(&mut self, event: Event<'_>, now: Nanos) -> Request {
        self.out.clear();
        self.driver.resume(event, now, &mut Outgoing::new(&mut self.out))
    }

    fn begin(&mut self, now: Nanos) -> Request {
        self.resume(Event::Begin { script: 0, tries: 1 }, now)
    }

    fn answer(&mut self, bytes: &[u8], now: Nanos) -> Request {
        self.resume(Event::Answered(&Answer::read(bytes)), now)
    }

    fn sent(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    fn tally(&self) -> Tally {
        self.tally.lock().expect("no panic").clone()
    }
}

const OK: &[u8] = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";

fn refused(sqlstate: &str) -> Vec<u8> {
    let body = format!("SERROR\0VERROR\0C{sqlstate}\0Mno\0\0");
    let mut message = vec![b'E'];
    message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    message.extend_from_slice(body.as_bytes());
    message.extend_from_slice(b"Z\0\0\0\x05E");
    message
}

/// One session with these statements, from 1 ms to 9 ms.
fn session(statements: &[serde_json::Value]) -> Sample {
    let mut sample = Sample::default();
    let lines: Vec<String> = statements.iter().map(ToString::to_string).collect();
    sample.session(1000, 9000, &lines);
    sample
}

/// A client whose session is open, with the first statement due.
fn opened(statements: &[serde_json::Value]) -> Bench {
    let mut bench = Bench::new(&session(statements), Pace::Factor(1.0));
    assert_eq!(bench.step(ORIGIN, false), Step::Connect(at(1000)));
    let Step::Transaction(_) = bench.step(at(1000), true) else { panic!("the first statement is next") };
    assert!(matches!(bench.resume(Event::Connected, at(1000)), Request::Done));
    bench
}

#[test]
fn a_session_is_opened_played_and_closed_at_its_times() {
    let mut bench = opened(&[
        json!({"at_us": 2000, "sql": "BEGIN", "of": 0}),
        json!({"at_us": 3000, "sql": "COMMIT", "of": 0, "block": true}),
        json!({"at_us": 4000, "sql": "SELECT 1", "of": 0}),
    ]);
    assert!(matches!(bench.begin(at(2000)), Request::Await));
    assert_eq!(bench.sent(), "Q\0\0\0\x0aBEGIN\0");
    // the transaction continues when its next statement is due
    assert!(matches!(bench.answer(OK, at(2500)), Request::Sleep(length) if length.as_micros() == 500));
    assert!(matches!(bench.resume(Event::Woken, at(3000)), Request::Await));
    assert_eq!(bench.sent(), "Q\0\0\0\x0bCOMMIT\0");
    assert!(matches!(bench.answer(OK, at(4500)), Request::Done));
    assert_eq!(bench.step(at(4500), true), Step::Transaction(at(4000)));
    bench.begin(at(4500));
    assert!(matches!(bench.answer(OK, at(5000)), Request::Done));
    assert_eq!(bench.step(at(5000), true), Step::Disconnect(at(9000)));
    assert_eq!(bench.step(at(9000), false), Step::Finish);
    let tally = bench.tally();
    assert_eq!((tally.started, tally.done, tally.sessions_begun), (3, 3, 1));
    assert_eq!((tally.disagreed(), tally.sessions_lost), (0, 0));
    // the last one was 0.5 ms late, because of the answer before it
    assert_eq!((tally.exact, tally.delayed_by_answer), (3, 1));
    assert_eq!(tally.lateness.moments.max, 500_000);
}

#[test]
fn a_late_connection_counts_as_late_and_not_as_latency() {
    let mut bench = Bench::new(&session(&[json!({"at_us": 2000, "sql": "SELECT 1", "of": 0})]), Pace::Factor(1.0));
    bench.step(ORIGIN, false);
    assert_eq!(bench.step(at(5000), true), Step::Transaction(at(5000)));
    bench.begin(at(5000));
    let tally = bench.tally();
    assert_eq!((tally.exact, tally.lateness.moments.max), (0, 3_000_000));
    // without pauses nothing has an intended start
    let statements = [
        json!({"at_us": 2000, "sql": "BEGIN", "of": 0}),
        json!({"at_us": 3000, "sql": "COMMIT", "of": 0, "block": true}),
    ];
    let mut bench = Bench::new(&session(&statements), Pace::Max);
    assert_eq!(bench.step(ORIGIN, false), Step::Connect(0));
    assert_eq!(bench.step(ORIGIN, true), Step::Transaction(0));
    bench.begin(ORIGIN);
    assert!(matches!(bench.answer(OK, ORIGIN + 5), Request::Await));
    assert!(matches!(bench.answer(OK, ORIGIN + 9), Request::Done));
    assert_eq!(bench.step(ORIGIN + 9, true), Step::Disconnect(0));
    assert_eq!(bench.tally().exact_share(), None);
}

/// The kinds of the messages that are sent for each of `statements`, answered one by one.
fn kinds_sent(statements: &[serde_json::Value], answers: &[Vec<u8>]) -> (Vec<String>, Bench) {
    let mut bench = opened(statements);
    let mut seen = Vec::new();
    for (number, answer) in answers.iter().enumerate() {
        let now = at(2000 + number as u64);
        bench.begin(now);
        let mut kinds = String::new();
        let mut rest = &bench.out[..];
        while let [kind, length @ ..] = rest {
            kinds.push(char::from(*kind));
            let length: [u8; 4] = length[..4].try_into().expect("a length");
            rest = &rest[1 + u32::from_be_bytes(length) as usize..];
        }
        seen.push(kinds);
        bench.answer(answer, now);
        bench.step(now, true);
    }
    (seen, bench)
}

#[test]
fn names_are_prepared_when_they_are_needed() {
    let execute = json!({"at_us": 2000, "text": 0, "name": "a", "params": ["5", null]});
    let other = json!({"at_us": 2000, "sql": "SELECT $2::int", "of": 0, "name": "a", "params": []});
    let discard = json!({"at_us": 2000, "sql": "DISCARD ALL", "of": 0});
    let mut answers = vec![OK.to_vec(); 6];
    // a failed Parse leaves no statement, so the second use prepares again
    answers[0] = refused("42601");
    let (seen, mut bench) =
        kinds_sent(&[execute.clone(), execute, other.clone(), other.clone(), discard, other.clone(), other], &answers);
    assert_eq!(seen, ["PBDE", "CPBDE", "CPBDE", "BDE", "Q", "CPBDE"]);
    assert_eq!(bench.tally().disagreements[0], 1);
    // nor does it last longer than its session
    bench.resume(Event::Connected, at(3000));
    bench.begin(at(3000));
    assert!(bench.out.starts_with(b"P"), "{}", bench.sent());
    // a name that was dropped out of sight costs one error
    let a = json!({"at_us": 2000, "sql": "SELECT 1", "of": 0, "name": "a", "params": []});
    let b = json!({"at_us": 2000, "sql": "SELECT 2", "of": 0, "name": "b", "params": []});
    let call = json!({"at_us": 2000, "sql": "SELECT reset()", "of": 0});
    let mut answers = vec![OK.to_vec(); 6];
    answers[3] = refused("26000");
    let (seen, bench) = kinds_sent(&[a.clone(), b.clone(), call, a.clone(), b, a], &answers);
    assert_eq!(seen, ["PBDE", "PBDE", "Q", "BDE", "CPBDE", "CPBDE"]);
    assert_eq!(bench.tally().disagreements[0], 1);
}

#[test]
fn answers_are_compared_with_the_capture() {
    let one = |captured: Option<&str>, rows: Option<u64>, answer: &[u8], took: Nanos| {
        let mut line = json!({"at_us": 2000, "sql": "SELECT 1", "of": 0});
        if let Some(captured) = captured {
            line["error"] = captured.into();
        }
        if let Some(rows) = rows {
            line["rows"] = rows.into();
        }
        let mut bench = opened(&[line]);
        bench.begin(at(2000));
        assert!(matches!(bench.answer(answer, at(2000) + took), Request::Done));
        bench.tally().disagreements
    };
    let error = refused("23505");
    assert_eq!(one(None, Some(1), OK, 1), [0, 0, 0, 0, 0, 0]);
    assert_eq!(one(None, Some(2), OK, 1), [0, 0, 0, 0, 1, 0]);
    assert_eq!(one(Some("23505"), Some(2), &error, 1), [0, 0, 0, 0, 0, 0]);
    assert_eq!(one(None, None, &error, 1), [1, 0, 0, 0, 0, 0]);
    assert_eq!(one(Some("23505"), None, OK, 1), [0, 1, 0, 0, 0, 0]);
    assert_eq!(one(Some("23503"), None, &error, 1), [0, 0, 1, 0, 0, 0]);
    // any error agrees with one whose code is unknown
    assert_eq!(one(Some("?????"), None, &error, 1), [0, 0, 0, 0, 0, 0]);
    assert_eq!(one(Some("?????"), None, OK, 1), [0, 1, 0, 0, 0, 0]);
    assert_eq!(one(None, None, &refused("25P02"), 1), [0, 0, 0, 1, 0, 0]);
    assert_eq!(one(Some("25P02"), None, OK, 1), [0, 0, 0, 1, 0, 0]);
    let cancelled = refused("57014");
    assert_eq!(one(None, None, &cancelled, 1), [1, 0, 0, 0, 0, 0]);
    assert_eq!(one(None, None, &cancelled, LEAST_PATIENCE), [0, 0, 0, 0, 0, 1]);
    assert_eq!(one(Some("57014"), None, &cancelled, LEAST_PATIENCE), [0, 0, 0, 0, 0, 0]);
}

/// Session 0 makes a key, and session 1 uses it.
fn pair(uses: serde_json::Value, statement: serde_json::Value) -> (Bench, SessionDriver) {
    let mut sample = Sample::default();
    sample.slots = 2;
    let gives = json!([[0, 0, 0], [1, 0, 1, "9"]]);
    sample.session(0, 9000, &[json!({"at_us": 1, "sql": "INSERT", "of": 0, "gives": gives}).to_string()]);
    let mut line = statement;
    line["uses"] = uses;
    line["at_us"] = 2.into();
    sample.session(0, 9000, &[line.to_string()]);
    let mut bench = Bench::new(&sample, Pace::Factor(1.0));
    let mut second = SessionDriver::new(Arc::clone(&bench.driver.progress), Arc::clone(&bench.tally), Some(1));
    let times = LoadTimes { origin: ORIGIN, deadline: None };
    for _ in 0..2 {
        bench.step(ORIGIN, true);
        second.next_step(times, ORIGIN, true);
    }
    (bench, second)
}

const TWO_ROWS: &[u8] =
    b"T\0\0\0\x1a\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0D\0\0\0\x0b\0\x01\0\0\0\x017D\0\0\0\x0b\0\x01\0\0\0\x018\
      C\0\0\0\x0dINSERT 2\0Z\0\0\0\x05I";

#[test]
fn values_of_an_answer_stand_where_captured_ones_stood() {
    for (statement, uses, expected) in [
        (json!({"sql": "SELECT 123, '45'", "of": 0}), json!([[0, 0, 7, 10], [1, 0, 13, 15]]), "SELECT 7, '8'\0"),
        (
            json!({"sql": "S", "of": 0, "params": ["123", "{1,2}"]}),
            json!([[0, 1, 0, 3], [1, 2, 3, 4]]),
            "\x017\0\0\0\x05{1,8}",
        ),
    ] {
        let (mut bench, mut second) = pair(uses, statement);
        bench.begin(at(1));
        bench.answer(TWO_ROWS, at(2));
        let mut out = Vec::new();
        let request = second.resume(Event::Begin { script: 0, tries: 1 }, at(3), &mut Outgoing::new(&mut out));
        assert!(matches!(request, Request::Await));
        let sent = String::from_utf8_lossy(&out);
        assert!(sent.contains(expected), "{sent:?}");
        assert_eq!((bench.tally().mapped, bench.tally().not_mapped), (2, 0));
    }
    // a row that was captured and is there again gives itself
    let seven = json!([[0, 0, 0], [1, 0, 1, "7"]]);
    let mut sample = Sample::default();
    sample.slots = 2;
    sample.session(0, 9000, &[json!({"at_us": 1, "sql": "SELECT", "of": 0, "gives": seven}).to_string()]);
    let mut bench = Bench::new(&sample, Pace::Factor(1.0));
    bench.step(ORIGIN, true);
    bench.step(ORIGIN, true);
    bench.begin(at(1));
    bench.answer(TWO_ROWS, at(2));
    assert_eq!(bench.driver.progress.slots.value(1), Some(&b"7"[..]));
}

#[test]
fn a_statement_waits_for_a_late_value_and_no_longer_than_it_may() {
    let statement = || json!({"sql": "SELECT 123", "of": 0});
    let begin = || Event::Begin { script: 0, tries: 1 };
    let (bench, mut second) = pair(json!([[0, 0, 7, 10]]), statement());
    let mut out = Vec::new();
    assert!(matches!(second.resume(begin(), at(3), &mut Outgoing::new(&mut out)), Request::Sleep(_)));
    assert!(matches!(second.resume(Event::Woken, at(3) + WAIT, &mut Outgoing::new(&mut out)), Request::Await));
    assert!(String::from_utf8_lossy(&out).contains("123"));
    assert_eq!((bench.tally().mapped, bench.tally().not_mapped), (0, 1));
    // a statement that failed gives nothing, and nothing waits for it
    let (mut bench, mut second) = pair(json!([[0, 0, 7, 10]]), statement());
    bench.begin(at(1));
    bench.answer(&refused("23505"), at(2));
    out.clear();
    assert!(matches!(second.resume(begin(), at(3), &mut Outgoing::new(&mut out)), Request::Await));
    assert_eq!(bench.tally().not_mapped, 1);
}

#[test]
fn a_transaction_stops_at_the_deadline() {
    let mut bench = opened(&[
        json!({"at_us": 2000, "sql": "BEGIN", "of": 0}),
        json!({"at_us": 3000, "sql": "COMMIT", "of": 0, "block": true}),
    ]);
    bench.deadline = Some(at(3000));
    bench.step(at(1500), true);
    bench.begin(at(2000));
    assert!(matches!(bench.answer(OK, at(2100)), Request::Stop));
    assert_eq!(bench.tally().started, 1);
}

#[test]
fn a_bad_line_stops_the_client_with_its_place() {
    let mut bench =
        opened(&[json!({"at_us": 2000, "sql": "BEGIN", "of": 0}), json!({"at_us": 1500, "sql": "COMMIT", "of": 0})]);
    bench.begin(at(2000));
    let Request::Abort(words) = bench.answer(OK, at(2100)) else { panic!("the line is invalid") };
    assert!(words.ends_with(":6: at_us goes back from 2000 to 1500"), "{words}");
}
