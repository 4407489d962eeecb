//! The workers of a run, seen from the thread that merges what they say; and how they become more.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::thread::{self, Scope};

use crate::clock::{Clock, Nanos};
use crate::handover::{Order, OrderSender, Parcel, orders};
use crate::interval::{Merged, Merger, Phase};
use crate::message::Template;
use crate::poller::Poller;
use crate::reconnect::Returning;
use crate::recorder::ScriptRecord;
use crate::scaling::{Addition, Rule, Scaling, decide};
use crate::shared::Shared;
use crate::spec::Spec;
use crate::timetable::Timetable;
use crate::worker::{Connections, Links, Word, Worker, WorkerEnd};

/// A worker was added.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Added {
    /// Its number.
    pub worker: usize,
    /// When, since the engine's start.
    pub at: Nanos,
    /// Why, and whose clients it takes over.
    pub addition: Addition,
}

/// What every thread of the engine works with.
#[derive(Clone, Copy)]
pub struct Stage<'a> {
    /// What is run.
    pub spec: &'a Spec,
    /// By script and statement.
    pub templates: &'a [Vec<Template>],
    /// The engine's clock.
    pub clock: Clock,
    /// Ends all.
    pub stop: &'a AtomicBool,
    /// How much later than meant a worker began, at most; nanoseconds.
    pub late: &'a AtomicU64,
}

/// How one worker is spoken to.
#[derive(Debug)]
struct Line {
    recycling: Sender<Vec<ScriptRecord>>,
    orders: OrderSender,
    has_ended: bool,
}

/// When a worker begins, and whence its clients come.
pub struct Begin {
    from: Nanos,
    arriving: Receiver<Parcel>,
}

/// A thread that is not a worker yet.
struct Candidate {
    begin: Sender<Begin>,
    addition: Addition,
    /// Its clients come by these.
    parcels: (Sender<Parcel>, Receiver<Parcel>),
    line: Line,
}

/// A worker's thread before it has clients: [`hired`] with one of the pollers.
pub type Hired = fn(usize, usize, Stage<'_>, Timetable, &Receiver<Begin>, Links);

/// All workers.
pub struct Crew<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    stage: Stage<'scope>,
    timetable: Timetable,
    hired: Hired,
    words: SyncSender<Word>,
    heard: Receiver<Word>,
    lines: Vec<Line>,
    candidate: Option<Candidate>,
    last_added: Option<Nanos>,
    /// The system refused a worker: no other is tried.
    is_refused: bool,
}

/// What [`Crew`] is made from.
pub struct Beginning<'scope> {
    /// See there.
    pub stage: Stage<'scope>,
    /// See there.
    pub timetable: Timetable,
    /// See there.
    pub hired: Hired,
    /// Both ends of what the workers say.
    pub words: (SyncSender<Word>, Receiver<Word>),
}

/// Both sides of a worker's links: its own, and the engine's.
pub fn links(words: &SyncSender<Word>, returning: Option<Returning>) -> (Links, Channels) {
    let (recycling, recycled) = channel();
    let (sender, orders) = orders();
    let links = Links {
        words: words.clone(),
        recycled,
        returning,
        orders,
    };
    (links, Channels(recycling, sender))
}

/// The engine's side of [`links`].
pub struct Channels(Sender<Vec<ScriptRecord>>, OrderSender);

impl Channels {
    /// Gives the worker an empty set of `records` beforehand.
    pub fn spare(&self, records: usize) {
        let _ = self.0.send(vec![ScriptRecord::default(); records]);
    }
}

impl From<Channels> for Line {
    fn from(Channels(recycling, orders): Channels) -> Self {
        Self {
            recycling,
            orders,
            has_ended: false,
        }
    }
}

impl<'scope, 'env> Crew<'scope, 'env> {
    /// The workers that a run begins with, by number.
    pub fn new(
        scope: &'scope Scope<'scope, 'env>,
        beginning: Beginning<'scope>,
        workers: Vec<Channels>,
    ) -> Self {
        let Beginning {
            stage,
            timetable,
            hired,
            words: (words, heard),
        } = beginning;
        Self {
            scope,
            stage,
            timetable,
            hired,
            words,
            heard,
            lines: workers.into_iter().map(Line::from).collect(),
            candidate: None,
            last_added: None,
            is_refused: false,
        }
    }

    /// The next word; None when the last worker has ended.
    pub fn hear(&mut self) -> Option<Word> {
        let is_over = self.candidate.is_none() && self.lines.iter().all(|line| line.has_ended);
        if is_over {
            return None;
        }
        self.heard.recv().ok()
    }

    /// Worker number `worker` has ended.
    pub fn ended(&mut self, worker: usize) {
        match self.lines.get_mut(worker) {
            Some(line) => line.has_ended = true,
            // it panicked before it was one
            None => self.candidate = None,
        }
    }

    /// Gives `records` back to worker number `worker`.
    pub fn recycle(&self, worker: usize, records: Vec<ScriptRecord>) {
        // one that has ended needs none
        let _ = self.lines[worker].recycling.send(records);
    }

    /// Looks at an interval, and begins to hire a worker if it shows that one is wanted.
    ///
    /// # Errors
    /// When the system refuses a thread; no other is tried then.
    pub fn look(&mut self, merged: &Merged) -> io::Result<()> {
        let Scaling::Automatic(rule) = self.stage.spec.scaling else {
            return Ok(());
        };
        if self.candidate.is_some() || self.is_refused || self.is_ending(merged.phase) {
            return Ok(());
        }
        match decide(self.rule(rule), self.last_added, merged.to, &merged.workers) {
            Some(addition) => self.hire(addition).inspect_err(|_| self.is_refused = true),
            None => Ok(()),
        }
    }

    /// There is a seed for each of the most workers that the load was prepared for.
    fn rule(&self, rule: Rule) -> Rule {
        Rule {
            most: rule.most.min(self.stage.spec.seeds.choice.len()),
            ..rule
        }
    }

    fn is_ending(&self, phase: Phase) -> bool {
        phase == Phase::Drain || self.stage.stop.load(Ordering::Relaxed)
    }

    fn hire(&mut self, addition: Addition) -> io::Result<()> {
        let number = self.lines.len();
        // workers are added only to loads whose lost clients stay lost: see `Spec::scaling`
        let (links, channels) = links(&self.words, None);
        let (begin, begun) = channel();
        let (stage, timetable, hired) = (self.stage, self.timetable.clone(), self.hired);
        let body = move || hired(number, addition.clients, stage, timetable, &begun, links);
        thread::Builder::new()
            .name(format!("worker-{number}"))
            .spawn_scoped(self.scope, body)?;
        self.candidate = Some(Candidate {
            begin,
            addition,
            parcels: channel(),
            line: channels.into(),
        });
        Ok(())
    }

    /// The thread that was hired is ready, or is not: lets it begin. None when it is too late.
    ///
    /// # Errors
    /// What the system refused to it; no other is tried then.
    pub fn hired(
        &mut self,
        result: io::Result<()>,
        merger: &mut Merger,
    ) -> io::Result<Option<Added>> {
        let Some(candidate) = self.candidate.take() else {
            return Ok(None);
        };
        if let Err(error) = result {
            self.is_refused = true;
            return Err(error);
        }
        let giver = &self.lines[candidate.addition.giver];
        if giver.has_ended || self.stage.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        // no interval that was heard of ends later than now: the first one of the new worker does
        let from = self.stage.clock.now();
        let (to, arriving) = candidate.parcels;
        let begin = Begin { from, arriving };
        if candidate.begin.send(begin).is_err() {
            return Ok(None);
        }
        let clients = candidate.addition.clients;
        giver.orders.give(Order { clients, to });
        self.last_added = Some(from);
        self.lines.push(candidate.line);
        Ok(Some(Added {
            worker: merger.join(from),
            at: from,
            addition: candidate.addition,
        }))
    }
}

/// The thread of a worker that is added: gets ready, then waits for the word to begin.
pub fn hired<P: Poller>(
    number: usize,
    clients: usize,
    stage: Stage<'_>,
    timetable: Timetable,
    begun: &Receiver<Begin>,
    links: Links,
) {
    let _last_word = LastWord::of(number, &links);
    let log = stage
        .spec
        .log
        .as_ref()
        .and_then(|log| log.files.get(number));
    let ready = Connections::<P>::new(clients).and_then(|connections| {
        log.map_or(Ok(()), crate::log::LogFile::create)?;
        Ok(connections)
    });
    let (said, connections) = match ready {
        Ok(connections) => (Ok(()), Some(connections)),
        Err(error) => (Err(error), None),
    };
    // the engine listens as long as it waits for this
    let _ = links.words.send(Word::Hired(said));
    // it was too late, or the poller is not there: it never was a worker
    let (Some(connections), Ok(begin)) = (connections, begun.recv()) else {
        return;
    };
    let Stage {
        spec,
        templates,
        clock,
        stop,
        ..
    } = stage;
    let shared = Shared::new(number, spec, templates, clock, stop);
    let mut worker = Worker::new(number, Vec::new(), connections, shared, timetable, links);
    worker.begin_empty(begin.from, begin.arriving);
    worker.run();
}

/// Tells of a worker's end if it panics: the engine waits for a last word of each.
pub struct LastWord {
    worker: usize,
    words: SyncSender<Word>,
}

impl LastWord {
    /// For worker number `worker`.
    pub fn of(worker: usize, links: &Links) -> Self {
        Self {
            worker,
            words: links.words.clone(),
        }
    }
}

impl Drop for LastWord {
    fn drop(&mut self) {
        if thread::panicking() {
            let end = WorkerEnd::idle(self.worker, Some(io::Error::other("a worker panicked")));
            // nobody listens only when the engine itself is gone
            let _ = self.words.send(Word::Ended(end));
        }
    }
}
