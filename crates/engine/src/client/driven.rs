//! How a client does what a [`Driver`] decides.

use std::fmt;

use pgdyno_wire::{ServerError, SqlState};

use crate::client::{Client, Failed, State};
use crate::clock::Nanos;
use crate::driver::{Asked, Driver, Event, Outgoing, Refused, Request};
use crate::interval::Consequence;
use crate::poller::Next;
use crate::recorder::{Ending, Statements};
use crate::shared::Shared;
use crate::spec::OnError;

/// What decides for a client, and what it is at.
pub(super) struct Driven {
    driver: Box<dyn Driver>,
    stage: Stage,
    /// Whether the driver was told of the present connection.
    knows_session: bool,
    /// What was asked last.
    asked: Asked,
    /// The last error of the server in this transaction.
    error: Option<Box<ServerError>>,
    /// Whether the transaction is tried again whatever the error was.
    ignores_error: bool,
    /// Transactions in a row that asked nothing of the server.
    silent: u32,
}

/// Transactions that ask nothing of the server may follow each other so often before others run.
const MOST_SILENT: u32 = 32;

/// What [`Request::Done`] ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// What comes before the first transaction.
    Opening,
    /// What a new session in the midst of the load needs, before the transaction that waits.
    Reopening,
    /// A transaction.
    Transaction,
    /// What comes before the end of the session.
    Closing,
}

impl fmt::Debug for Driven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut driven = f.debug_struct("Driven");
        driven.field("stage", &self.stage).finish_non_exhaustive()
    }
}

impl Driven {
    pub fn new(driver: Box<dyn Driver>) -> Box<Self> {
        Box::new(Self {
            driver,
            stage: Stage::Opening,
            knows_session: false,
            asked: Asked::default(),
            error: None,
            ignores_error: false,
            silent: 0,
        })
    }

    /// The next session is another one.
    pub fn forget_session(&mut self) {
        self.knows_session = false;
    }

    /// The session in its place is known already.
    pub fn knows_session(&mut self) {
        self.knows_session = true;
    }

    /// Whether what is on its way needs a Sync behind a COPY.
    pub fn is_extended(&self) -> bool {
        self.asked.is_extended
    }
}

impl Client {
    /// Makes the session known before the first transaction. With a connection a transaction there is
    /// none yet.
    pub(super) fn open_driven(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if shared.reconnects {
            return self.choose(now, shared);
        }
        self.tell_of_session(Stage::Opening, now, shared)
    }

    /// Begins the transaction that was chosen, or tries it again.
    pub(super) fn run_driven(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if self
            .driven
            .as_ref()
            .is_some_and(|driven| !driven.knows_session)
        {
            return self.tell_of_session(Stage::Reopening, now, shared);
        }
        self.set_stage(Stage::Transaction);
        if let Some(driven) = &mut self.driven {
            driven.error = None;
            driven.ignores_error = false;
        }
        let event = Event::Begin {
            script: self.script,
            tries: self.transaction.tries,
        };
        self.drive(event, now, shared)
    }

    /// The driver has asked for the new session itself.
    pub(super) fn keep_knowing_session(&mut self) {
        if let Some(driven) = &mut self.driven {
            driven.knows_session();
        }
    }

    fn tell_of_session(&mut self, stage: Stage, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if let Some(driven) = &mut self.driven {
            driven.knows_session = true;
        }
        self.set_stage(stage);
        self.drive(Event::Connected, now, shared)
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(driven) = &mut self.driven {
            driven.stage = stage;
        }
    }

    /// The session is to be closed: the driver may have something to do before.
    pub(super) fn close_driven(&mut self, shared: &mut Shared<'_>) -> Option<Next> {
        let driven = self.driven.as_mut()?;
        if driven.stage == Stage::Closing || !driven.knows_session {
            return None;
        }
        driven.stage = Stage::Closing;
        let now = shared.clock.now();
        Some(self.drive(Event::Ending, now, shared))
    }

    /// All that the driver had sent is answered.
    pub(super) fn driven_answered(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        self.end_command(now, shared);
        let mut answer = self.rows.take_answer();
        answer.count(&mut shared.recorder.scripts[self.record].statements);
        answer.end(self.error.take(), self.tx_status);
        let request = self.ask_driver(Event::Answered(&answer), now);
        if let (Some(error), Some(driven)) = (answer.take_error(), &mut self.driven) {
            driven.error = Some(error);
        }
        self.rows.return_answer(answer);
        self.carry_out(request, now, shared)
    }

    /// The driver goes on.
    pub(super) fn drive(&mut self, event: Event<'_>, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let request = self.ask_driver(event, now);
        self.carry_out(request, now, shared)
    }

    fn ask_driver(&mut self, event: Event<'_>, now: Nanos) -> Request {
        let Some(driven) = &mut self.driven else {
            return Request::Stop;
        };
        self.out.clear();
        let mut out = Outgoing::new(&mut self.out);
        let request = driven.driver.resume(event, now, &mut out);
        driven.asked = out.close();
        request
    }

    fn carry_out(&mut self, request: Request, now: Nanos, shared: &mut Shared<'_>) -> Next {
        if let Some(driven) = &self.driven
            && driven.asked.counted != Statements::default()
        {
            let statements = &mut shared.recorder.scripts[self.record].statements;
            statements.add(&driven.asked.counted);
        }
        match request {
            Request::Await => self.await_answer(now, shared),
            Request::Sleep(length) => {
                self.state = State::Sleeping;
                let length = Nanos::try_from(length.as_nanos()).unwrap_or(Nanos::MAX);
                self.sleep_until(now.saturating_add(length), shared);
                Next::Wait
            }
            Request::Change(change) => self.want(change, shared),
            Request::Close(number) => {
                self.close_kept(number);
                self.drive(Event::Changed(None), now, shared)
            }
            Request::Done => self.driven_done(now, shared),
            Request::Refused(refused) => self.driven_refused(refused, now, shared),
            Request::Stop => {
                self.transaction.begun = false;
                self.finish(shared)
            }
            Request::Abort(words) => self.give_up_driven(&words, shared),
        }
    }

    fn await_answer(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let asked = self
            .driven
            .as_ref()
            .map_or_else(Asked::default, |driven| driven.asked);
        if asked.readies == 0 {
            return self.give_up_driven("it waits for an answer, and has sent nothing", shared);
        }
        self.awaited = asked.readies;
        self.command = asked.command;
        self.command_started = now;
        self.statement = None;
        self.rows.begin_answer();
        self.report(asked.rows, true);
        self.state = State::Waiting;
        shared.debug(|| format!("client {} sending", self.id));
        Next::Send
    }

    fn driven_done(&mut self, now: Nanos, shared: &mut Shared<'_>) -> Next {
        match self.driven.as_ref().map(|driven| driven.stage) {
            Some(Stage::Opening) => self.choose(now, shared),
            Some(Stage::Reopening) => self.run_driven(now, shared),
            Some(Stage::Transaction) => {
                // one that asked nothing took time, too
                let now = if self.transaction.waited {
                    now
                } else {
                    shared.clock.now()
                };
                self.end_transaction(Ending::Succeeded, now, shared)
            }
            Some(Stage::Closing) | None => self.finish(shared),
        }
    }

    fn driven_refused(&mut self, refused: Refused, now: Nanos, shared: &mut Shared<'_>) -> Next {
        let Some(driven) = &mut self.driven else {
            return Next::Wait;
        };
        let error = driven.error.take();
        let in_transaction = driven.stage == Stage::Transaction;
        driven.ignores_error = refused.ignorable;
        let ending = match error.as_deref().map(ServerError::sqlstate) {
            Some(SqlState::SERIALIZATION_FAILURE) => Ending::SerializationFailure,
            Some(SqlState::DEADLOCK_DETECTED) => Ending::Deadlock,
            _ => Ending::OtherFailure,
        };
        let aborts = ending == Ending::OtherFailure
            && !refused.ignorable
            && shared.spec.on_error == OnError::Abort;
        let of_server = error.as_ref().map(ToString::to_string);
        let words = refused.words.or(of_server).unwrap_or_default();
        let error = match error {
            Some(error) if in_transaction && !aborts => error,
            error => {
                driven.error = error;
                return self.give_up_driven(&words, shared);
            }
        };
        let statements = &mut shared.recorder.scripts[self.record].statements;
        statements.ignored_errors += u64::from(refused.ignorable);
        self.failed = Some(Box::new(Failed { error, words }));
        self.roll_back(ending, now, shared)
    }

    /// Whether the next transaction may follow one that asked nothing of the server, at once.
    pub(super) fn goes_on_silently(&mut self) -> bool {
        let Some(driven) = &mut self.driven else {
            return false;
        };
        driven.silent += 1;
        if driven.silent >= MOST_SILENT {
            driven.silent = 0;
        }
        driven.silent > 0
    }

    /// Whether the script wants another try after any error.
    pub(super) fn ignores_error(&self) -> bool {
        self.driven
            .as_ref()
            .is_some_and(|driven| driven.ignores_error)
    }

    fn give_up_driven(&mut self, words: &str, shared: &mut Shared<'_>) -> Next {
        // with the server's error, if there was one, the note has its SQLSTATE
        self.error = self.driven.as_mut().and_then(|driven| driven.error.take());
        let line = format!("client {} aborted: {words}", self.id);
        let consequence = Consequence::ClientAborted;
        self.give_up(words.to_owned(), vec![line], consequence, shared)
    }
}
