//! Invariants of a client, whatever its server sends. The fuzz target calls it with fuzzed bytes,
//! and the test below with every file of its corpus.

#[path = "../../wire/src/fuzz_tests/messages.rs"]
mod messages;

use std::cell::RefCell;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use arbitrary::{Result, Unstructured};
use pgdyno_connect::{Env, Params};
use pgdyno_script::{QueryMode, Rng, Source, Symbols, compile, parse};

use crate::client::Client;
use crate::clock::{Clock, Nanos};
use crate::connect_record::Attempt;
use crate::outage::SharedOutages;
use crate::pacing::Pacing;
use crate::poller::Next;
use crate::shared::{Context, Shared};
use crate::spec::{Limit, OnError, Pipelining, Preparing, Seeds, Sessions, Spec, Timing, Tries, WeightedProgram};
use crate::statement_template::{Template, templates};

const SCRIPTS: [&str; 6] = [
    "SELECT 1;\nSELECT :a;\n",
    "SELECT a, b FROM t \\gset\n\\set c :a + 1\nSELECT :c, :b;\n",
    "SELECT 1 AS a \\; SELECT 2 AS b \\aset\nSELECT :a, :b;\n",
    "BEGIN;\nUPDATE t SET a = :client_id;\nEND;\n",
    "\\startpipeline\nSELECT 1;\n\\syncpipeline\nSELECT :a;\nSELECT 3;\n\\endpipeline\nSELECT 4;\n",
    "COPY t FROM STDIN;\n\\sleep 1 us\nSELECT 1;\n",
];
const MODES: [QueryMode; 3] = [QueryMode::Simple, QueryMode::Extended, QueryMode::Prepared];
const MOST_TRANSACTIONS: u64 = 3;
/// How many bytes one step may send in addition to values that the server itself has sent.
const SPARE_BYTES: usize = 4096;
/// Turns without a byte from the server; far more than the commands of any script.
const MOST_TURNS: usize = 1000;

static STOP: AtomicBool = AtomicBool::new(false);
static DELAY: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Indexed by spec, for reuse, because creating histograms is slow.
    static SHARED: RefCell<Vec<Option<Shared<'static>>>> = const { RefCell::new(Vec::new()) };
}

/// Drives a client through a whole run. The first byte chooses whether the server keeps the order
/// of the protocol; then the pieces in which its bytes come must make no difference.
pub fn client(data: &[u8]) {
    let Some((&mode, recipe)) = data.split_first() else { return };
    if mode & 1 == 0 {
        let size = usize::from(mode >> 1).max(1);
        drive(recipe, size, Order::Any);
        return;
    }
    let whole = drive(recipe, usize::MAX, Order::Kept);
    let size = usize::from(mode >> 1) % 20 + 1;
    assert_eq!(drive(recipe, size, Order::Kept), whole, "in pieces of {size}");
}

/// Which answers the server sends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Whole messages, with a ReadyForQuery for each that is due, and no COPY: answers to statements that a client has
    /// not sent yet come before or after it, depending on how they are cut.
    Kept,
    /// Any message, at any time.
    Any,
}

fn drive(recipe: &[u8], piece_bytes: usize, order: Order) -> String {
    let mut u = Unstructured::new(recipe);
    let which = u.int_in_range(0..=SPECS - 1).unwrap_or(0);
    SHARED.with_borrow_mut(|all| {
        if all.is_empty() {
            all.resize_with(SPECS, || None);
        }
        let shared = all[which].get_or_insert_with(|| {
            let (spec, templates) = &specs()[which];
            let outages = spec.on_loss.reconnects().then(|| Arc::new(SharedOutages::new(spec.clients)));
            let mut shared =
                Shared::new(0, Context { spec, templates, clock: Clock::start(), stop: &STOP, delay: &DELAY, outages });
            shared.run.prints_notices = false;
            shared
        });
        run(Drive::new(shared), &mut u, piece_bytes, order)
    })
}

fn run(mut drive: Drive<'_>, u: &mut Unstructured<'_>, piece_bytes: usize, order: Order) -> String {
    drive.begin();
    while !u.is_empty() && !drive.client.is_stopped() {
        let Ok(bytes) = drive.answer(u, order) else { break };
        for piece in bytes.chunks(piece_bytes) {
            if !drive.receive(piece) {
                break;
            }
        }
        drive.turn();
    }
    drive.end()
}

struct Drive<'a> {
    client: Client,
    shared: &'a mut Shared<'static>,
    /// How many ReadyForQuery messages the server owes.
    due: usize,
    received_bytes: usize,
    log: String,
}

impl<'a> Drive<'a> {
    fn new(shared: &'a mut Shared<'static>) -> Self {
        while shared.requests.due(Nanos::MAX).is_some() || shared.requests.next_unconnected().is_some() {}
        shared.reports.notes.clear();
        shared.results.recorder.scripts[0].clear();
        Drive { client: Client::new(0, shared), shared, due: 0, received_bytes: 0, log: String::new() }
    }

    fn now(&self) -> Nanos {
        self.shared.clock.now()
    }

    fn begin(&mut self) {
        let now = self.now();
        let next = self.client.begin(now, self.shared);
        self.act(next);
        self.turn();
    }

    fn act(&mut self, next: Next) {
        if next != Next::Send {
            if next == Next::Close {
                assert!(self.client.is_stopped(), "closed, and not stopped");
            }
            return;
        }
        let outgoing = self.client.outgoing();
        assert!(!outgoing.is_empty(), "nothing to send");
        assert!(outgoing.len() <= 8 * self.received_bytes + SPARE_BYTES);
        self.due += due(outgoing);
        writeln!(self.log, "> {}", outgoing.escape_ascii()).expect("a String takes everything");
    }

    fn turn(&mut self) {
        for _ in 0..MOST_TURNS {
            let now = self.now();
            let timer = self.shared.requests.next_timer();
            let next = if self.shared.requests.due(Nanos::MAX).is_some() {
                // a client that is woken too early continues to wait
                self.client.wake(timer.unwrap_or(now).max(now), self.shared)
            } else if self.shared.requests.next_unconnected().is_some() {
                self.due = 0;
                self.client.handle_connection(Ok(()), &Attempt { began: now, ..Attempt::default() }, self.shared)
            } else {
                return;
            };
            self.act(next);
        }
        panic!("the client never waits for the server");
    }

    fn answer(&mut self, u: &mut Unstructured<'_>, order: Order) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if order == Order::Any {
            messages::message(u, messages::RUNNING, &mut bytes)?;
            return Ok(bytes);
        }
        for _ in 0..u.int_in_range(0..=3)? {
            messages::sound_message(u, b"TDCCENSIs12nAVdHc", &mut bytes)?;
        }
        for _ in 0..std::mem::take(&mut self.due) {
            messages::framed(b'Z', &[*u.choose(b"IIIITE")?], &mut bytes);
        }
        if u.ratio(1, 4)? {
            messages::sound_message(u, b"NSAE", &mut bytes)?;
        }
        Ok(bytes)
    }

    fn receive(&mut self, piece: &[u8]) -> bool {
        self.received_bytes += piece.len();
        let next = self.client.receive(piece, self.shared);
        // a note may be due to an earlier piece than what is sent
        for note in self.shared.reports.notes.drain(..) {
            assert!(!note.lines.is_empty());
            writeln!(self.log, "{:?} {:?}", note.lines, note.message).expect("a String takes everything");
        }
        self.act(next);
        next != Next::Close
    }

    fn end(mut self) -> String {
        self.client.handle_close(None, self.shared);
        let between = self.shared.run.reconnects && !self.client.in_flight();
        assert!(self.client.is_stopped() || between, "closed, and not stopped");
        assert!(!self.client.in_flight(), "it never ended");
        let counts = self.shared.results.recorder.scripts[0].counts;
        assert!(counts.ended() <= MOST_TRANSACTIONS, "{counts:?}");
        write!(self.log, "{counts:?}").expect("a String takes everything");
        self.log
    }
}

fn due(mut messages: &[u8]) -> usize {
    let mut count = 0;
    while let Some((&[kind, l0, l1, l2, l3], rest)) = messages.split_first_chunk() {
        let body_bytes = u32::from_be_bytes([l0, l1, l2, l3]) as usize - 4;
        count += usize::from(matches!(kind, b'Q' | b'S'));
        messages = rest.get(body_bytes..).expect("whole messages");
    }
    assert!(messages.is_empty(), "half a message");
    count
}

/// A load and its messages.
type Case = (Spec, Vec<Vec<Template>>);

const SPECS: usize = SCRIPTS.len() * MODES.len() * 4;

fn specs() -> &'static [Case] {
    static SPECS: OnceLock<Vec<Case>> = OnceLock::new();
    SPECS.get_or_init(|| {
        let mut specs = Vec::new();
        for script in SCRIPTS {
            for mode in MODES {
                let (explicit, auto) = (Pipelining::Explicit, Pipelining::Auto);
                let (kept, renewed) = (Sessions::Kept, Sessions::PerTransaction);
                for (on_error, tries, sessions, pipelining) in [
                    (OnError::Abort, Tries::AtMost(1), kept, explicit),
                    (OnError::Continue, Tries::AtMost(3), kept, explicit),
                    (OnError::Abort, Tries::AtMost(2), renewed, explicit),
                    (OnError::Continue, Tries::AtMost(3), kept, auto),
                ] {
                    let mut spec = spec(script, mode);
                    spec.on_error = on_error;
                    spec.tries = tries;
                    spec.sessions = sessions;
                    spec.pipelining = pipelining;
                    if sessions == renewed {
                        spec.preparing = Preparing::Ahead;
                    }
                    let templates = templates(&spec.programs, mode).expect("short statements");
                    specs.push((spec, templates));
                }
            }
        }
        specs
    })
}

pub(crate) fn spec(script: &str, mode: QueryMode) -> Spec {
    let mut symbols = Symbols::new();
    let source = Source { name: "fuzz".into(), text: script.into() };
    let parsed = parse(&source).expect("it parses");
    let program = compile(&parsed, mode, &mut symbols).expect("it compiles");
    let (seeds, _) = Seeds::draw(&mut Rng::seed(1), 1, 1, false);
    let params = Params::resolve(Some("host=/nowhere user=u"), &[], &Env::empty("u"));
    Spec {
        params: params.expect("it is complete"),
        programs: vec![WeightedProgram { program, weight: 1 }],
        symbols: Arc::new(symbols),
        mode,
        limit: Limit::Transactions(MOST_TRANSACTIONS),
        pacing: vec![Pacing::default()],
        timing: Timing::EveryCommand,
        seeds,
        ..Spec::default()
    }
}

#[cfg(test)]
#[path = "../../../fuzz/corpus.rs"]
pub(crate) mod corpus;

#[test]
fn the_corpus() {
    corpus::replay("client", client);
}
