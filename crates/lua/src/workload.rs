//! A script with its options and a command, ready for the engine.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZero;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use mlua::{Function, Table, ThreadStatus, Value};
use pgdyno_engine::clock::Nanos;
use pgdyno_engine::driver::{Driver, Drivers, Event, Outgoing, Request};

use crate::driver::Session;
use crate::error::{ScriptError, words};
use crate::lua_state::{Making, State, Unique};
use crate::memory_limit::memory_limit;
use crate::option_kinds::{OptionSpec, OptionValue, key};
use crate::options::{declared, describe, invalid, resolve};
use crate::script::Script;
use crate::statement_numbers::Texts;
use crate::watchdog::Watch;

/// The settings of the command line other than the script.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// `run`, `prepare`, `cleanup`, `prewarm`, `help` or a command of the script.
    pub command: String,
    /// Options of the script, as `name=value`.
    pub options: Vec<(String, String)>,
    /// The words of the command line, beginning with the program's name.
    pub argv: Vec<String>,
    /// The connection's parameters, under sysbench's names, for `sysbench.opt`.
    pub connection: Vec<(&'static str, OptionValue)>,
    /// Number of clients of all generators of the load.
    pub threads: usize,
    /// Number of this generator, from 0, and how many there are.
    pub part: (usize, usize),
    /// Length of the load in seconds; 0 if the number of transactions is limited.
    pub time_s: u64,
    /// Number of transactions of all clients; 0 if the length is limited.
    pub events: u64,
    /// The seed that was given; 0 for none.
    pub seed: u64,
    /// Transactions per second; 0 in a closed loop.
    pub rate_per_s: f64,
    /// Seconds between two reports; 0 for none.
    pub report_interval_s: u64,
    pub seeds: Vec<u64>,
    /// Whether the output of scripts goes to standard error.
    pub spares_stdout: bool,
    /// Whether every transaction has a connection of its own.
    pub per_transaction: bool,
    /// Whether the latency of each statement is recorded separately.
    pub by_statement: bool,
}

/// A function of the script that writes a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// A report while the load runs.
    Intermediate,
    /// A report of the whole load.
    Cumulative,
}

impl Hook {
    fn name(self) -> &'static str {
        match self {
            Self::Intermediate => "report_intermediate",
            Self::Cumulative => "report_cumulative",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// A load, whose transactions are calls of `event()`.
    Load,
    /// A function of the script that is called once.
    Once,
    /// A function of the script that every client calls once.
    OnceEach,
    /// Prints the options without running anything.
    Help,
}

pub struct Workload {
    making: Making,
    seeds: Vec<u64>,
    task: Task,
    help: Vec<String>,
    /// The script's main state, in which `init()` and `done()` are called once.
    main: Main,
    workers: Mutex<HashMap<usize, Place>>,
}

/// The state in which the clients of one worker run.
#[derive(Clone)]
struct Place {
    state: Arc<State>,
    watch: Arc<Watch>,
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut workload = f.debug_struct("Workload");
        workload.field("making", &self.making).finish_non_exhaustive()
    }
}

/// A state that belongs to no client.
struct Main {
    state: State,
    client: Table,
    watch: Watch,
}

impl Main {
    /// Runs the top level of the script.
    fn open(making: &Making) -> Result<Self, ScriptError> {
        let state = State::new(making)?;
        let client = state.client_table(0, 0, &making.command)?;
        let watch = Watch::default();
        let main = Self { state, client, watch };
        main.run(main.state.client.get("load")?)?;
        Ok(main)
    }

    /// Calls a function in a new coroutine, with the client.
    fn run(&self, function: Function) -> Result<(), ScriptError> {
        let thread = self.state.coroutine("attempt")?;
        self.watch.enter();
        let failure: mlua::Result<Value> = thread.resume((function, &self.client));
        self.watch.leave();
        let failure = failure?;
        match (thread.status(), failure) {
            (ThreadStatus::Resumable, _) => {
                Err(ScriptError::new("the script sends statements before its clients are there")
                    .hint("Connect in thread_init(), or in the function of a command."))
            }
            (_, Value::String(words)) => Err(ScriptError::new(words.to_string_lossy())),
            _ => Ok(()),
        }
    }

    fn sysbench(&self) -> Result<Table, ScriptError> {
        Ok(self.client.get("sysbench")?)
    }

    /// A field of `sysbench.cmdline`; None for nil.
    fn cmdline(&self, field: &str) -> Result<Option<Value>, ScriptError> {
        let cmdline: Table = self.sysbench()?.get("cmdline")?;
        Ok(cmdline.get(field)?)
    }

    /// The options that the script declares; None if it has no declaration.
    fn declared_options(&self) -> Result<Option<Vec<OptionSpec>>, ScriptError> {
        self.run(self.state.client.get("read_options")?)?;
        let options = self.cmdline("options")?;
        options.map(|options| declared(&options)).transpose()
    }

    /// Calls the script's own validation functions for the options that were given.
    fn validate(&self, given: &[(String, String)]) -> Result<(), ScriptError> {
        let Some(Value::Table(options)) = self.cmdline("options")? else {
            return Ok(());
        };
        for pair in options.pairs::<String, Table>() {
            let (name, entry) = pair?;
            let Some(function) = entry.get::<Option<Function>>(4)? else {
                continue;
            };
            for (_, text) in given.iter().filter(|(given, _)| key(given) == key(&name)) {
                if !function.call::<bool>((name.as_str(), text.as_str()))? {
                    let message = format!("{}: the script refuses it", invalid(&name, text));
                    return Err(ScriptError::new(message));
                }
            }
        }
        Ok(())
    }

    fn global(&self, name: &str) -> Result<Option<Function>, ScriptError> {
        let env: Table = self.client.get("env")?;
        match env.get(name)? {
            Value::Function(function) => Ok(Some(function)),
            _ => Ok(None),
        }
    }

    fn call(&self, name: &str) -> Result<(), ScriptError> {
        match self.global(name)? {
            Some(function) => self.run(function),
            None => Ok(()),
        }
    }
}

impl Workload {
    /// Reads what `script` declares, gives its options their values, and finds the command.
    ///
    /// # Errors
    /// The script fails, an option or the command is unknown, or a value has another type.
    pub fn open(script: Script, settings: Settings) -> Result<Self, ScriptError> {
        let (number, of) = settings.part;
        let unique = Unique { next: Arc::new(AtomicU64::new(number as u64)), step: of as u64 };
        let name = script.name.clone();
        let mut making = Making {
            script,
            command: settings.command.clone(),
            argv: settings.argv.clone(),
            declared: None,
            exports_options: false,
            options: resolve(&name, None, &[])?,
            settings: Vec::new(),
            spares_stdout: settings.spares_stdout,
            per_transaction: settings.per_transaction,
            memory_limit: memory_limit(states(settings.threads)),
            gc_pause_percent: gc_pause_percent(settings.threads),
            texts: settings.by_statement.then(Arc::default),
            unique,
        };
        let first = Main::open(&making)?;
        let specs = first.declared_options()?;
        making.options = resolve(&name, specs.as_deref(), &settings.options)?;
        first.validate(&settings.options)?;
        making.exports_options = specs.is_none();
        making.declared.clone_from(&specs);
        making.settings = sysbench_settings(&settings);
        let main = Main::open(&making)?;
        let task = task(&main, &name, &settings.command)?;
        if task == Task::Load {
            main.call("init")?;
        }
        let help = describe(specs.as_deref().unwrap_or_default());
        Ok(Self { making, seeds: settings.seeds, task, help, main, workers: Mutex::default() })
    }

    pub fn task(&self) -> Task {
        self.task
    }

    /// The names of the script's statements that were sent so far, by the number under which each
    /// is counted; empty if they are not distinguished.
    pub fn statements(&self) -> Vec<String> {
        let texts = self.making.texts.as_deref();
        texts.map_or_else(Vec::new, Texts::names)
    }

    pub fn is_load(&self) -> bool {
        self.task == Task::Load
    }

    /// Whether statements that the script prepares are prepared in the server.
    pub fn prepares(&self) -> bool {
        self.making.prepares()
    }

    pub fn name(&self) -> &str {
        &self.making.script.name
    }

    /// Describes the options: by the script's own `help()`, or a line each.
    ///
    /// # Errors
    /// The script's `help()` fails.
    pub fn help(&self) -> Result<Vec<String>, ScriptError> {
        if self.main.global("help")?.is_some() {
            self.main.call("help")?;
            return Ok(Vec::new());
        }
        Ok(self.help.clone())
    }

    /// Whether the script has a function for this report.
    pub fn has_hook(&self, hook: Hook) -> bool {
        let has: mlua::Result<bool> = (|| {
            let has: Function = self.main.state.client.get("has_hook")?;
            has.call((&self.main.client, hook.name()))
        })();
        // a script whose sysbench.hooks is not a table has no hooks
        self.task == Task::Load && has.unwrap_or(false)
    }

    /// Lets the script report these figures, by name, with times in seconds; does nothing without such a hook.
    ///
    /// # Errors
    /// The script's hook fails.
    pub fn report(&self, hook: Hook, figures: &[(&str, f64)]) -> Result<(), ScriptError> {
        if !self.has_hook(hook) {
            return Ok(());
        }
        let state = &self.main.state;
        let figures = state.lua.create_table_from(figures.iter().copied())?;
        let reporter: Function = state.client.get("reporter")?;
        self.main.run(reporter.call((hook.name(), figures))?)
    }

    /// Ends the reports.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub fn finish_reports(&self) -> Result<(), ScriptError> {
        let finish: Function = self.main.state.client.get("finish_reports")?;
        Ok(finish.call(())?)
    }

    /// Ends the load.
    ///
    /// # Errors
    /// The script's `done()` fails.
    pub fn done(&self) -> Result<(), ScriptError> {
        match self.task {
            Task::Load => self.main.call("done"),
            _ => Ok(()),
        }
    }

    /// How many looks in a row, this one included, have found a worker or the main state in the
    /// same visit to a script, without a statement.
    pub fn look(&self) -> u32 {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let looks = workers.values().map(|place| place.watch.look());
        looks.max().unwrap_or(0).max(self.main.watch.look())
    }

    fn place(&self, worker: usize) -> mlua::Result<Place> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = workers.get(&worker) {
            return Ok(place.clone());
        }
        let place = Place { state: Arc::new(State::new(&self.making)?), watch: Arc::default() };
        workers.insert(worker, place.clone());
        Ok(place)
    }

    fn create_session(&self, worker: usize, client: usize) -> mlua::Result<Session> {
        let Place { state, watch } = self.place(worker)?;
        let kind = match self.task {
            Task::Load => "run",
            _ => "command",
        };
        let seed = self.seeds.get(client).copied().unwrap_or(client as u64);
        let table = state.client_table(client, seed, &self.making.command)?;
        let thread = state.coroutine(kind)?;
        Ok(Session::new(state, thread, table, seed, watch))
    }
}

impl Drivers for Workload {
    fn driver(&self, worker: usize, client: usize) -> Box<dyn Driver> {
        match self.create_session(worker, client) {
            Ok(session) => Box::new(session),
            Err(error) => Box::new(Broken(words(&error))),
        }
    }

    /// sysbench drops notices.
    fn prints_notices(&self) -> bool {
        false
    }
}

/// Replaces a client that could not be created; the text is the error.
struct Broken(String);

impl Driver for Broken {
    fn resume(&mut self, _event: Event<'_>, _now: Nanos, _out: &mut Outgoing<'_>) -> Request {
        Request::Abort(self.0.clone())
    }
}

/// How many states a load with this many clients has: one for each worker, and the main one.
fn states(clients: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    clients.clamp(1, cores) + 1
}

/// LuaJIT's default lets garbage grow as large as what a state keeps. Thousands of clients keep much
/// and drop little: there, garbage grows to a fifth of that.
fn gc_pause_percent(clients: usize) -> usize {
    100 + (20_000 / clients.max(1)).clamp(20, 100)
}

fn task(main: &Main, script: &str, command: &str) -> Result<Task, ScriptError> {
    let find: Function = main.state.client.get("find_command")?;
    let (routine, each): (Option<Function>, bool) = find.call((&main.client, command))?;
    if routine.is_none() && command == "help" {
        return Ok(Task::Help);
    }
    if routine.is_none() && command == "run" {
        return match main.global("event")? {
            Some(_) => Ok(Task::Load),
            None => Err(ScriptError::new(format!("script \"{script}\" has no function event()"))
                .hint("A load calls event() for every transaction. Is it a module of other scripts?")),
        };
    }
    match (routine, each) {
        (None, _) => Err(unknown_command(main, script, command)?),
        (Some(_), true) => Ok(Task::OnceEach),
        (Some(_), false) => Ok(Task::Once),
    }
}

fn unknown_command(main: &Main, script: &str, command: &str) -> Result<ScriptError, ScriptError> {
    let mut known = vec!["run".to_owned(), "help".to_owned()];
    for name in ["prepare", "prewarm", "cleanup"] {
        if main.global(name)?.is_some() {
            known.push(name.to_owned());
        }
    }
    if let Some(Value::Table(commands)) = main.cmdline("commands")? {
        for pair in commands.pairs::<String, Value>() {
            known.push(pair?.0);
        }
    }
    known.sort();
    known.dedup();
    Ok(ScriptError::new(format!("script \"{script}\" has no command \"{command}\""))
        .hint(format!("It has: {}.", known.join(", "))))
}

/// The settings of the load for `sysbench.opt`, under sysbench's names.
fn sysbench_settings(settings: &Settings) -> Vec<(String, OptionValue)> {
    use OptionValue::{Bool, Int, List, Text};
    let int = |number: u64| Int(i64::try_from(number).unwrap_or(i64::MAX));
    let threads = || int(settings.threads as u64);
    let rate = || Int(settings.rate_per_s as i64);
    let named = [
        ("threads", threads()),
        ("num_threads", threads()),
        ("time", int(settings.time_s)),
        ("max_time", int(settings.time_s)),
        ("events", int(settings.events)),
        ("max_requests", int(settings.events)),
        ("rate", rate()),
        ("tx_rate", rate()),
        ("report_interval", int(settings.report_interval_s)),
        ("report_checkpoints", List(Vec::new())),
        ("rand_seed", int(settings.seed)),
        ("percentile", Int(95)),
        ("histogram", Bool(false)),
        ("forced_shutdown", Text("off".into())),
        ("thread_stack_size", Int(64 << 10)),
        ("help", Bool(false)),
        ("version", Bool(false)),
    ];
    named.into_iter().chain(settings.connection.iter().cloned()).map(|(name, value)| (name.to_owned(), value)).collect()
}
