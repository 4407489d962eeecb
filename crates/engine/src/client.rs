//! One session's state machine: bytes and instants in, the next step out. It does no I/O.

mod auto_pipeline;
mod commands;
mod driven;
mod failures;
mod life;
mod parting;
mod pauses;
mod planned;
mod reconnect;
mod sessions;

use std::sync::Arc;

use pgdyno_script::{Rng, Value, Vars};
use pgdyno_wire::{self as wire, Exchange, Reply, ServerError, TxStatus, frontend};

use self::auto_pipeline::Batches;
pub use self::parting::Hold;
use crate::abort::{Abort, Form};
use crate::clock::Nanos;
use crate::driver::Event;
use crate::interval::Consequence;
use crate::ledger::{Fate, Page};
use crate::message::Parsed;
use crate::pacing;
use crate::poller::Next;
use crate::reconnect::{ends_session, words_of_end};
use crate::recorder::Ending;
use crate::rows::Rows;
use crate::shared::Shared;
use crate::spec::{Initial, Limit};

/// What a client is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Lets others run before its next transaction.
    Yielded,
    /// Waits for its intended start.
    Scheduled,
    /// Keys in its next transaction (--keying-time).
    Keying,
    /// Thinks about its last transaction (--think-time).
    Thinking,
    /// Goes to another worker before its next transaction.
    Departing,
    /// Waits for a connection of its own (-C), or for one in place of a lost one.
    Connecting,
    /// Waits until another of its sessions is current (drivers).
    Changing,
    /// Waits before it asks for a connection in place of a lost one.
    Disconnected,
    /// Waits until statements are prepared that are executed after that.
    Preparing,
    /// Waits for the answer to a statement or a pipeline.
    Waiting,
    /// In `\sleep`.
    Sleeping,
    /// Waits for the end of a ROLLBACK after a failed statement.
    RollingBack(Ending),
    /// Waits until somebody else has begun the start that is next (phases).
    StandingBy,
    /// Not in use for now (phases).
    Resting,
    /// Was stopped, and waits for the end of its statement in the server.
    Leaving,
    /// Has done all it had to.
    Finished,
    /// Gave up.
    Aborted,
}

/// The transaction that a client is in, or is about to begin.
#[derive(Debug, Default)]
struct Transaction {
    intended: Nanos,
    started: Nanos,
    begun: bool,
    tries: u32,
    /// Whether it has waited for the server.
    waited: bool,
    /// The random state at its begin, to which a retry returns.
    rng: Option<Rng>,
}

/// A failed try.
#[derive(Debug)]
struct Failed {
    error: Box<ServerError>,
    /// The error with its place in the statement as it was sent.
    words: String,
}

/// One session.
#[derive(Debug)]
pub struct Client {
    id: usize,
    vars: Vars,
    rng: Rng,
    /// Chooses its scripts; None: its worker does.
    choice: Option<Rng>,
    script: usize,
    /// The record of the transaction: the script's, in a run with phases the script's of its phase.
    record: usize,
    /// Next operation of the script.
    at: usize,
    state: State,
    exchange: Exchange,
    out: Vec<u8>,
    /// Of all scripts' statements, at [`Shared::place`]: whether this connection has it prepared.
    prepared: Box<[Parsed]>,
    /// Statements whose Parse is not answered yet.
    fresh: Vec<usize>,
    /// The statement whose answer is awaited; None for those of a pipeline.
    statement: Option<usize>,
    /// The statements of the pipeline, in order.
    piped: Vec<usize>,
    in_pipeline: bool,
    /// Statements that share a round trip (--auto-pipeline).
    batch: Batches,
    /// Syncs that are not yet answered.
    awaited: usize,
    tx_status: TxStatus,
    /// Operation whose answer is awaited.
    command: usize,
    command_started: Nanos,
    error: Option<Box<ServerError>>,
    /// Results that were complete when it came.
    error_query: usize,
    /// The error that is being rolled back.
    failed: Option<Box<Failed>>,
    rows: Rows,
    /// Whether the exchange hands rows over.
    captures: bool,
    /// Whether it tells of every result.
    completions: bool,
    transaction: Transaction,
    /// Draws how long it keys and thinks.
    pacing_rng: Rng,
    ended: u64,
    /// The instant that it waits for: a timer of a transaction that was lost may come before.
    wakes_at: Nanos,
    /// From a lost connection to the first success after it.
    absence: Option<Box<reconnect::Absence>>,
    /// What became of its transactions (--ledger).
    page: Option<Box<Page>>,
    /// What decides in place of a script.
    driven: Option<Box<driven::Driven>>,
    /// Its other sessions; None while it has one.
    sessions: Option<Box<sessions::Sessions>>,
}

impl Client {
    /// Client number `id`, before its first transaction.
    #[must_use]
    pub fn new(id: usize, shared: &Shared<'_>) -> Self {
        let spec = shared.spec;
        let mut vars = Vars::new(Arc::clone(&spec.symbols));
        for (slot, initial) in &spec.initial {
            match initial {
                Initial::Text(text) => vars.set_text(*slot, text.as_bytes()),
                Initial::Int(value) => vars.set_value(*slot, Value::Int(*value)),
                Initial::ClientId => vars.set_value(*slot, Value::Int(id as i64)),
            }
        }
        Self {
            id,
            vars,
            rng: Rng::seed(spec.seeds.clients[id]),
            choice: spec.seeds.choice_of_clients.get(id).copied().map(Rng::seed),
            script: 0,
            record: 0,
            at: 0,
            state: State::Scheduled,
            exchange: Exchange::new(wire::Capture::None, false),
            out: Vec::new(),
            prepared: vec![Parsed::No; shared.statements()].into(),
            fresh: Vec::new(),
            statement: None,
            piped: Vec::new(),
            in_pipeline: false,
            batch: Batches::default(),
            awaited: 0,
            tx_status: TxStatus::Idle,
            command: 0,
            command_started: 0,
            error: None,
            error_query: 0,
            failed: None,
            rows: Rows::default(),
            captures: false,
            completions: false,
            transaction: Transaction::default(),
            pacing_rng: pacing::rng(spec.seeds.clients[id]),
            ended: 0,
            wakes_at: 0,
            absence: None,
            page: spec.ledger.as_ref().map(|_| Box::new(Page::new(id))),
            driven: spec.drivers.as_ref().map(|drivers| {
                driven::Driven::new(drivers.driver(spec.group_of(shared.worker, id), id))
            }),
            sessions: None,
        }
    }

    /// What is to be sent.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        &self.out
    }

    /// Whether it is inside a transaction.
    #[must_use]
    pub fn in_flight(&self) -> bool {
        self.transaction.begun
    }

    /// The start that it waits for: drawn from the schedule, and not begun.
    #[must_use]
    pub fn awaited_start(&self) -> Option<Nanos> {
        let waits = match self.waits_away() {
            Some(has_chosen) => has_chosen,
            None => matches!(self.state, State::Scheduled | State::Connecting),
        };
        waits.then_some(self.transaction.intended)
    }

    /// Number of the record of the transaction that it is inside.
    #[must_use]
    pub fn record_in_flight(&self) -> Option<usize> {
        self.in_flight().then_some(self.record)
    }

    /// What it knows of its transactions; of one under way nothing will be heard.
    pub fn take_page(&mut self) -> Option<Page> {
        self.settle(Fate::Unknown);
        self.page.take().map(|page| *page)
    }

    fn settle(&mut self, fate: Fate) {
        if let Some(page) = &mut self.page {
            page.settle(fate);
        }
    }

    /// Whether it has stopped for good.
    #[must_use]
    pub fn stopped(&self) -> bool {
        matches!(self.state, State::Finished | State::Aborted)
    }

    /// Whether it gave up.
    #[must_use]
    pub fn aborted(&self) -> bool {
        self.state == State::Aborted
    }

    /// Begins the first transaction, now that everybody is connected.
    pub fn begin(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        shared.begin(now);
        if self.driven.is_some() {
            return self.open_driven(now, shared);
        }
        self.choose(now, shared)
    }

    /// Transactions that have ended, those of a warm-up among them.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> usize {
        self.id
    }

    /// Departs if it waits for its intended start; that goes with it.
    pub fn depart_if_waiting(&mut self, shared: &mut Shared<'_>) {
        if self.state == State::Scheduled && shared.departures.wants(self.id) {
            shared.departures.add(self.id);
        }
    }

    /// Departs before the next transaction.
    fn depart(&mut self, shared: &mut Shared<'_>) -> Next {
        self.state = State::Departing;
        shared.departures.add(self.id);
        Next::Wait
    }

    /// It could not leave the worker of `shared`, where its timer is.
    pub fn stayed(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        match self.state {
            State::Departing => self.arrived(now, shared),
            _ => Next::Wait,
        }
    }

    /// It has come to the worker of `shared`.
    pub fn arrived(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        match self.state {
            State::Scheduled => {
                self.sleep_until(self.transaction.intended, shared);
                Next::Wait
            }
            State::Departing if shared.stops(now) => self.finish(shared),
            State::Departing => self.choose(now, shared),
            _ => Next::Wait,
        }
    }

    /// The instant that it waited for has come.
    pub fn woken(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        match self.state {
            State::Connecting | State::Disconnected => self.woken_without_connection(now, shared),
            _ if now < self.wakes_at => Next::Wait,
            State::Yielded | State::StandingBy | State::Resting => self.choose(now, shared),
            State::Scheduled if shared.roster.is_some() => self.turn_came(now, shared),
            State::Scheduled => self.begin_transaction(now, shared),
            State::Keying | State::Thinking => self.paused(now, shared),
            State::Changing => {
                shared.change_session(self.id);
                Next::Wait
            }
            State::Sleeping if self.driven.is_some() => self.drive(Event::Woken, now, shared),
            State::Sleeping => {
                self.end_command(now, shared);
                self.run(now, shared)
            }
            _ => Next::Wait,
        }
    }

    /// Bytes came from the server.
    pub fn received(&mut self, bytes: &[u8], shared: &mut Shared<'_>) -> Next {
        if self.state == State::Leaving {
            return self.received_while_leaving(bytes, shared);
        }
        // one that came between an answer and the sending of this batch: now that is done
        if self.error.is_some() && self.batch.is_sent() {
            self.batched_error();
        }
        let mut input = bytes;
        let mut now = None;
        let mut next = Next::Wait;
        let mut copies = false;
        let broken = loop {
            let reply = match self.exchange.next(&mut input) {
                Ok(None) if copies => return self.end_copy(shared),
                Ok(None) => return next,
                Ok(Some(reply)) => reply,
                Err(error) => break error,
            };
            match reply {
                // of what is not sent yet there can be no answer
                Reply::Ready(_) | Reply::CopyIn if next == Next::Send => {}
                Reply::Ready(status) => {
                    self.tx_status = status;
                    if self.state == State::Preparing {
                        self.report_unprepared(shared);
                    }
                    self.awaited = self.awaited.saturating_sub(1);
                    if self.batch.is_sent() {
                        self.batched_result(true, &mut now, shared);
                    }
                    if self.awaited == 0 {
                        copies = false;
                        next = self.answered(shared);
                        // behind it there may be a notice, half of one, or why the server leaves
                        if input.is_empty() || next == Next::Close {
                            return next;
                        }
                    }
                }
                Reply::Error(error) if self.error.is_none() => {
                    let is_end = shared.outages.is_some() && ends_session(&error);
                    self.error = Some(error);
                    self.error_query = self.rows.query();
                    if is_end {
                        return self.lost("", shared);
                    }
                    if next != Next::Send && self.batch.is_sent() {
                        self.batched_error();
                    }
                }
                Reply::Error(_) => {}
                Reply::CopyIn => copies = true,
                Reply::Notice(notice) => self.print_notice(&notice, shared),
                reply => {
                    self.rows.take(&reply, &shared.spec.symbols);
                    let completes = matches!(reply, Reply::Complete(_) | Reply::EmptyQuery);
                    if completes && next != Next::Send && self.batch.is_sent() {
                        self.batched_result(false, &mut now, shared);
                    }
                }
            }
        };
        if self.stopped() {
            return next;
        }
        if shared.outages.is_some() {
            return self.lost(&broken.to_string(), shared);
        }
        let why = Abort::command("SQL", &broken.to_string());
        self.abort(&why, Consequence::ConnectionLost, shared)
    }

    /// A script has no data for `COPY FROM STDIN`: the copy is an empty one. The server has
    /// passed over the Sync that came before the end of the data.
    fn end_copy(&mut self, shared: &Shared<'_>) -> Next {
        self.out.clear();
        frontend::copy_done(&mut self.out);
        let is_simple = match &self.driven {
            Some(driven) => !driven.is_extended(),
            None => shared.is_simple,
        };
        if !is_simple {
            frontend::sync(&mut self.out);
        }
        Next::Send
    }

    /// The connection is gone.
    pub fn closed(&mut self, why: Option<&std::io::Error>, shared: &mut Shared<'_>) {
        if shared.outages.is_some() {
            self.lost(&words_of_end(why), shared);
            return;
        }
        // with -C the old connection ends while the next is waited for
        let is_own_end = shared.reconnects && !self.transaction.begun;
        if self.stopped() || is_own_end || self.replaces_session() {
            return;
        }
        let died = "perhaps the backend died while processing";
        let mut abort = match self.state {
            State::RollingBack(_) => {
                let doing = "rolling back the transaction after an error";
                Abort::new(Form::While, format!("{doing}; {died}"))
            }
            _ => Abort::command("SQL", died),
        };
        abort.cause = why.map(ToString::to_string);
        self.abort(&abort, Consequence::ConnectionLost, shared);
    }

    /// The connection that it asked for is there, or cannot be made; `since` is when that began.
    pub fn connected(
        &mut self,
        result: Result<(), &dyn std::error::Error>,
        since: Nanos,
        shared: &mut Shared<'_>,
    ) -> Next {
        let now = shared.clock.now();
        if let Err(error) = result {
            let why = Abort::new(Form::While, "establishing connection").because(error);
            return self.abort(&why, Consequence::ConnectionLost, shared);
        }
        let record = &mut shared.recorder.scripts[self.record];
        record.connecting.record(now.saturating_sub(since));
        self.forget_session();
        if !shared.schedule.is_open() {
            self.transaction.intended = now;
        }
        self.start(now, shared)
    }

    /// Waits until `instant`, exactly.
    fn wake_at(&mut self, instant: Nanos, shared: &mut Shared<'_>) {
        self.wakes_at = instant;
        shared.wake_at(instant, self.id);
    }

    /// Likewise, at the first tick (--timer-tick) that is not before `instant`.
    fn sleep_until(&mut self, instant: Nanos, shared: &mut Shared<'_>) {
        self.wakes_at = instant;
        shared.sleep_until(instant, self.id);
    }

    fn limit_reached(&self, shared: &Shared<'_>) -> bool {
        matches!(shared.spec.limit, Limit::Transactions(most) if self.ended >= most)
    }

    fn finish(&mut self, shared: &mut Shared<'_>) -> Next {
        if let Some(next) = self.close_driven(shared) {
            return next;
        }
        self.state = State::Finished;
        self.out.clear();
        frontend::terminate(&mut self.out);
        Next::Send
    }

    /// All that was sent has been answered.
    fn answered(&mut self, shared: &mut Shared<'_>) -> Next {
        let now = shared.clock.now();
        self.transaction.waited = true;
        if self.state != State::Preparing {
            shared.debug(|| format!("client {} receiving", self.id));
        }
        match self.state {
            State::Preparing => self.all_prepared(now, shared),
            State::Waiting if self.driven.is_some() => self.driven_answered(now, shared),
            State::Waiting if self.batch.is_sent() => self.batch_answered(now, shared),
            State::Waiting if self.error.is_some() => self.statement_failed(now, shared),
            State::Waiting => {
                self.forget_fresh();
                self.end_command(now, shared);
                match self.rows.assign(&mut self.vars, &shared.spec.symbols) {
                    Ok(()) => self.run(now, shared),
                    Err(why) => self.abort(&why, Consequence::ClientAborted, shared),
                }
            }
            State::RollingBack(_) if self.error.is_some() => {
                let said = self.error.as_deref().map(ToString::to_string);
                let doing = "rolling back the transaction after an error";
                let why = Abort::new(
                    Form::While,
                    format!("{doing}; {}", said.unwrap_or_default()),
                );
                self.abort(&why, Consequence::ClientAborted, shared)
            }
            State::RollingBack(ending) => self.after_failure(ending, now, shared),
            State::Yielded
            | State::Scheduled
            | State::Keying
            | State::Thinking
            | State::Departing
            | State::Connecting
            | State::Disconnected
            | State::Sleeping
            | State::Changing
            | State::StandingBy
            | State::Resting
            | State::Leaving
            | State::Finished
            | State::Aborted => Next::Wait,
        }
    }
}
