//! The whole load model against a scripted connection: no server, no sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use pgdyno_script::{QueryMode, Rng, Symbols};
use pgdyno_wire::SqlState;

use crate::client::Client;
use crate::clock::{Clock, Nanos};
use crate::command_record::CommandRecord;
use crate::connect_record::Attempt;
use crate::interval::Consequence;
use crate::outage::SharedOutages;
use crate::pacing::Pacing;
use crate::poller::Next;
use crate::reconnect::Refusal;
use crate::recorder::{Counts, ScriptRecord};
use crate::schedule::Arrivals;
use crate::shared::{Context, Shared};
use crate::spec::{Limit, OnError, OnLoss, Pipelining, Preparing, Seeds, Sessions, Spec, Timing, Tries};
use crate::statement_template::{Template, templates};

const READY: &[u8] = b"Z\0\0\0\x05I";
/// A row with 7.
const ROW: &[u8] = b"D\0\0\0\x0b\0\x01\0\0\0\x017C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";
const READY_IN_BLOCK: &[u8] = b"Z\0\0\0\x05T";
const READY_FAILED: &[u8] = b"Z\0\0\0\x05E";

pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

fn error(sqlstate: &str) -> Vec<u8> {
    message(b'E', format!("SERROR\0VERROR\0C{sqlstate}\0Mno\0\0").as_bytes())
}

fn error_at(sqlstate: &str, position: u32) -> Vec<u8> {
    message(b'E', format!("SERROR\0VERROR\0C{sqlstate}\0Mno\0P{position}\0\0").as_bytes())
}

fn fatal(sqlstate: &str) -> Vec<u8> {
    message(b'E', format!("SFATAL\0VFATAL\0C{sqlstate}\0Mgone\0\0").as_bytes())
}

/// An error, and the end of the answer that has it.
fn error_then(sqlstate: &str, ready: &[u8]) -> Vec<u8> {
    [&error(sqlstate), ready].concat()
}

fn spec(script: &str, mode: QueryMode, limit: Limit, tries: Tries, arrivals: Arrivals) -> Spec {
    Spec { limit, tries, arrivals, timing: Timing::Statements, ..crate::fuzz_tests::spec(script, mode) }
}

fn shared<'a>(spec: &'a Spec, templates: &'a [Vec<Template>], stop: &'a AtomicBool) -> Shared<'a> {
    static DELAY: AtomicU64 = AtomicU64::new(0);
    let outages = spec.on_loss.reconnects().then(|| Arc::new(SharedOutages::new(spec.clients)));
    Shared::new(0, Context { spec, templates, clock: Clock::start(), stop, delay: &DELAY, outages })
}

/// A client and everything that it needs, driven by hand.
struct Bench<'a> {
    client: Client,
    shared: Shared<'a>,
}

impl<'a> Bench<'a> {
    fn new(spec: &'a Spec, templates: &'a [Vec<Template>], stop: &'a AtomicBool) -> Self {
        let mut shared = shared(spec, templates, stop);
        shared.run.prints_notices = false;
        Self { client: Client::new(0, &shared), shared }
    }

    fn begin(&mut self) -> Next {
        let now = self.shared.clock.now();
        self.client.begin(now, &mut self.shared)
    }

    fn connect(&mut self) -> Next {
        self.client.handle_connection(Ok(()), &Attempt::default(), &mut self.shared)
    }

    fn wake(&mut self, now: Nanos) -> Next {
        self.client.wake(now, &mut self.shared)
    }

    fn wake_now(&mut self) -> Next {
        self.wake(self.shared.clock.now())
    }

    fn answer(&mut self, bytes: &[u8]) -> Next {
        self.client.receive(bytes, &mut self.shared)
    }

    fn sent(&self) -> String {
        String::from_utf8_lossy(self.client.outgoing()).into_owned()
    }

    fn close(&mut self) {
        self.client.handle_close(None, &mut self.shared);
    }

    fn record(&self) -> &ScriptRecord {
        &self.shared.results.recorder.scripts[0]
    }

    fn counts(&self) -> Counts {
        self.record().counts
    }

    fn commands(&self) -> &[Option<CommandRecord>] {
        &self.shared.results.recorder.commands[0]
    }

    /// The lines of the first note.
    fn lines(&self) -> &[String] {
        &self.shared.reports.notes[0].lines
    }

    /// The code of the first note.
    fn sqlstate(&self) -> Option<&str> {
        self.shared.reports.notes[0].sqlstate.as_deref()
    }
}

macro_rules! bench {
    ($bench:ident, $spec:expr) => {
        let spec = $spec;
        let all = templates(&spec.programs, spec.mode).expect("short statements");
        let stop = AtomicBool::new(false);
        #[allow(unused_mut)]
        let mut $bench = Bench::new(&spec, &all, &stop);
    };
}

macro_rules! begun {
    ($bench:ident, $spec:expr) => {
        bench!($bench, $spec);
        $bench.begin();
    };
}

mod auto_pipeline;
mod driver;
mod pacing;
mod reconnect;
mod shutdown;

fn select() -> Spec {
    twice("SELECT 1;\n", QueryMode::Simple)
}

fn twice(script: &str, mode: QueryMode) -> Spec {
    spec(script, mode, Limit::Transactions(2), Tries::AtMost(1), Arrivals::Closed)
}

#[test]
fn a_statement_is_parsed_once_when_prepared() {
    begun!(bench, twice("SELECT :x;\n", QueryMode::Prepared));
    assert!(bench.sent().starts_with("P\0\0\0\x15P_0\0SELECT $1;"), "{:?}", bench.sent());
    assert!(bench.sent().ends_with("S\0\0\0\x04"));
    bench.answer(READY);
    assert!(bench.sent().starts_with("B\0\0\0"), "{:?}", bench.sent());
    // a parse in doubt closes the name first
    begun!(bench, Spec { tries: Tries::AtMost(2), ..twice("SELECT 1;\nSELECT 2;\n", QueryMode::Prepared) });
    bench.answer(READY);
    bench.answer(&error_then("40001", READY));
    assert!(bench.sent().starts_with("B\0\0\0"), "the first is prepared");
    bench.answer(READY);
    assert!(bench.sent().starts_with("C\0\0\0\x09SP_1\0P\0\0\0"), "{:?}", bench.sent());
}

#[test]
fn answers_may_come_in_any_pieces() {
    begun!(bench, select());
    for byte in &READY[..5] {
        assert_eq!(bench.answer(&[*byte]), Next::Wait);
        assert!(bench.client.awaits_bytes());
    }
    assert_eq!(bench.answer(&READY[5..]), Next::Send);
    // half a message behind an answer is not lost
    begun!(bench, select());
    let notice = message(b'N', b"SNOTICE\0VNOTICE\0C00000\0Mno\0\0");
    let (before, after) = notice.split_at(7);
    assert_eq!(bench.answer(&[READY, before].concat()), Next::Send);
    assert_eq!(bench.answer(after), Next::Wait);
    assert_eq!(bench.answer(READY), Next::Send);
    assert!(!bench.client.has_aborted());
    assert_eq!(bench.counts().succeeded, 2);
    // what is not sent yet has no answer
    begun!(bench, twice("SELECT 1;\nSELECT 2;\n", QueryMode::Simple));
    assert_eq!(bench.answer(&[READY, READY, READY].concat()), Next::Send);
    assert_eq!(bench.sent(), "Q\0\0\0\x0eSELECT 2;\0");
    assert_eq!(bench.counts().succeeded, 0);
}

#[test]
fn a_serialization_failure_rolls_back_and_a_retry_repeats_its_random_numbers() {
    begun!(bench, twice("BEGIN;\nUPDATE t SET x = 1;\nEND;\n", QueryMode::Simple));
    bench.answer(READY_IN_BLOCK);
    assert_eq!(bench.answer(&error_then("40001", READY_FAILED)), Next::Send);
    assert_eq!(bench.sent(), "Q\0\0\0\rROLLBACK\0");
    assert_eq!(bench.answer(READY), Next::Send);
    assert_eq!(bench.sent(), "Q\0\0\0\x0bBEGIN;\0", "the next transaction");
    assert_eq!(bench.counts(), Counts { serialization_failures: 1, ..Counts::default() });
    assert_eq!(bench.shared.reports.notes[0].consequence, Consequence::Failed);
    let script = "\\set x random(1, 1000000)\nSELECT :x;\n";
    begun!(bench, spec(script, QueryMode::Simple, Limit::Transactions(1), Tries::AtMost(3), Arrivals::Closed));
    let first = bench.sent();
    for _ in 0..2 {
        assert_eq!(bench.answer(&error_then("40P01", READY)), Next::Send);
        assert_eq!(bench.sent(), first);
    }
    bench.answer(&error_then("40P01", READY));
    assert!(bench.client.is_stopped());
    assert_eq!(bench.counts(), Counts { deadlocks: 1, retried: 1, retries: 2, ..Counts::default() });
}

#[test]
fn bytes_that_are_no_protocol_and_a_transaction_left_open_end_the_client() {
    begun!(bench, select());
    assert_eq!(bench.answer(b"HTTP/1.1 400 Bad Request\r\n"), Next::Close);
    assert!(bench.client.has_aborted());
    // a transaction left open ends the client
    begun!(bench, twice("BEGIN;\n", QueryMode::Simple));
    assert_eq!(bench.answer(READY_IN_BLOCK), Next::Close);
    assert!(bench.client.has_aborted());
    assert_eq!(bench.counts(), Counts { succeeded: 1, ..Counts::default() });
    assert_eq!(bench.lines(), ["client 0 aborted: end of script reached without completing the last transaction"]);
}

#[test]
fn a_lost_connection_tells_what_the_server_said_last() {
    begun!(bench, select());
    bench.answer(&error("57P01"));
    bench.close();
    assert!(bench.client.has_aborted());
    assert_eq!(bench.sqlstate(), Some("57P01"));
    // also behind an answer
    begun!(bench, select());
    assert_eq!(bench.answer(&[READY, &error("57P01")].concat()), Next::Send);
    assert_eq!(bench.counts().succeeded, 1);
    bench.close();
    assert!(bench.client.has_aborted());
    assert_eq!(bench.sqlstate(), Some("57P01"));
    // last words of one connection are not the next ones
    begun!(bench, Spec { sessions: Sessions::PerTransaction, ..select() });
    for _ in 0..2 {
        let now = bench.shared.clock.now();
        assert_eq!(bench.connect(), Next::Send);
        bench.answer(&[READY, &error("57P01")].concat());
        bench.wake(now);
    }
    assert_eq!(bench.counts().succeeded, 2);
    assert!(!bench.client.has_aborted());
}

#[test]
fn a_pipeline_is_one_message_and_waits_for_all() {
    let script = "\\startpipeline\nSELECT 1;\nSELECT 2;\n\\syncpipeline\nSELECT 3;\n\\endpipeline\n";
    bench!(bench, twice(script, QueryMode::Extended));
    assert_eq!(bench.begin(), Next::Send);
    assert_eq!(bench.sent().matches("SELECT").count(), 3);
    assert_eq!(bench.answer(READY), Next::Wait, "two Syncs were sent");
    assert_eq!(bench.answer(READY), Next::Send);
    assert_eq!(bench.counts().succeeded, 1);
    // it is prepared before it begins
    let script = "\\startpipeline\nBEGIN;\nSELECT 1;\n\\endpipeline\n";
    bench!(bench, twice(script, QueryMode::Prepared));
    assert_eq!(bench.begin(), Next::Send);
    assert_eq!(bench.sent().matches("P_").count(), 2);
    assert!(!bench.sent().contains("B\0\0\0"), "{:?}", bench.sent());
    assert_eq!(bench.answer(READY), Next::Send);
    assert!(bench.sent().starts_with("B\0\0\0"), "{:?}", bench.sent());
    assert_eq!(bench.answer(READY), Next::Send);
    assert!(bench.sent().starts_with("B\0\0\0"), "once is enough");
}

#[test]
fn a_script_without_sql_lets_others_run_and_a_client_that_is_long_overdue_is_given_up() {
    bench!(bench, twice("\\set x 1\n", QueryMode::Simple));
    assert_eq!(bench.begin(), Next::Wait);
    assert!(!bench.client.is_stopped());
    let now = bench.shared.clock.now();
    assert_eq!(bench.shared.requests.due(now), Some(0));
    assert_eq!(bench.wake(now), Next::Send);
    assert!(bench.client.is_stopped());
    begun!(bench, Spec { drain_limit: Some(Duration::from_millis(1500)), ..select() });
    assert_eq!(bench.client.abort_overdue(&mut bench.shared), Next::Close);
    assert!(bench.client.has_aborted());
    assert_eq!(
        bench.lines(),
        ["client 0 aborted in command 0 (SQL) of script 0; not done 1.5 s after the end of the run (--drain-limit)"]
    );
}

#[test]
fn every_transaction_asks_for_its_own_connection() {
    bench!(bench, Spec { sessions: Sessions::PerTransaction, ..select() });
    for transaction in 1..=2 {
        let now = bench.shared.clock.now();
        assert_eq!(if transaction == 1 { bench.begin() } else { bench.wake(now) }, Next::Wait);
        assert_eq!(bench.shared.requests.next_unconnected(), Some(0));
        assert_eq!(bench.connect(), Next::Send);
        assert_eq!(bench.sent(), "Q\0\0\0\x0eSELECT 1;\0");
        assert_eq!(bench.answer(READY), Next::Send);
        assert_eq!(bench.sent(), "X\0\0\0\x04");
        bench.close();
        assert!(!bench.client.has_aborted());
    }
    assert!(bench.client.is_stopped());
    assert_eq!(bench.shared.results.recorder.scripts[0].connecting.count, 2, "each is timed");
    // a connection that cannot be made ends the client
    begun!(bench, Spec { sessions: Sessions::PerTransaction, ..select() });
    let refused = Refusal::passing("connection refused");
    assert_eq!(bench.client.handle_connection(Err(&refused), &Attempt::default(), &mut bench.shared), Next::Close);
    assert_eq!(bench.lines(), ["connection refused", "client 0 aborted while establishing connection"]);
}

#[test]
fn refused_and_lost_transactions_are_counted_and_the_client_goes_on() {
    bench!(
        bench,
        Spec {
            sessions: Sessions::PerTransaction,
            on_loss: OnLoss::Count,
            ..spec("SELECT 1;\n", QueryMode::Simple, Limit::Transactions(4), Tries::AtMost(1), Arrivals::Closed)
        }
    );
    let sqlstate = Some(SqlState::parse(b"53300").expect("five characters"));
    let refused = Refusal { sqlstate, ..Refusal::passing("sorry, too many clients already") };
    bench.begin();
    for transaction in 1..=4 {
        assert_eq!(bench.shared.requests.next_unconnected(), Some(0));
        let result = if transaction < 3 { Err(&refused) } else { Ok(()) };
        let next = bench.client.handle_connection(result, &Attempt::default(), &mut bench.shared);
        match transaction {
            1 | 2 => assert_eq!(next, Next::Close),
            3 => assert_eq!(bench.answer(&fatal("57P01")), Next::Close),
            _ => assert_eq!(bench.answer(READY), Next::Send),
        }
        bench.wake_now();
    }
    assert!(bench.client.is_stopped() && !bench.client.has_aborted());
    let record = &bench.shared.results.recorder;
    let counts = record.scripts[0].counts;
    assert_eq!((counts.succeeded, counts.other_failures, counts.lost, counts.failed()), (1, 2, 1, 3));
    assert_eq!(record.scripts[0].latency.moments.count, 1, "of those that were served");
    assert_eq!(record.connects.as_ref().map(|connects| connects.total.moments.count), Some(2));
    let notes: Vec<_> =
        bench.shared.reports.notes.iter().map(|note| (note.sqlstate.as_deref(), note.consequence)).collect();
    assert_eq!(notes[0], (Some("53300"), Consequence::Failed));
    assert_eq!(notes[2], (Some("57P01"), Consequence::Failed));
    let errors = std::mem::take(&mut bench.shared.results.recorder.errors).into_list();
    let errors: Vec<_> = errors.iter().map(|error| (error.message.as_str(), error.count, error.is_refusal)).collect();
    assert_eq!(errors, [("sorry, too many clients already", 2, true), ("gone", 1, false)]);
}

// after the macros, which this module uses
mod next_transaction;
