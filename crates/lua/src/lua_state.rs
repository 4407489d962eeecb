//! The Lua state of one worker, in which the scripts of all its clients run as coroutines.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlua::{Function, Lua, LuaOptions, StdLib, String as LuaString, Table, Thread, Value};

use crate::option_kinds::{OptionSpec, OptionValue};
use crate::options::{OptionValues, declared, sysbench_lines};
use crate::random_string::Letters;
use crate::script::{self, Script};
use crate::script_counters::ClientCounts;
use crate::statement_cache::Statements;
use crate::statement_numbers::{Commands, Texts};

const RANDOM: &str = include_str!("runtime/random.lua");
const SESSION: &str = include_str!("runtime/session.lua");
const CLIENT: &str = include_str!("runtime/client.lua");
const WHERE: &str = include_str!("runtime/where.lua");
const COROUTINES: &str = include_str!("runtime/coroutines.lua");

/// The modules that client.lua combines, by name.
const PARTS: [(&str, &str); 7] = [
    ("cmdline", include_str!("runtime/cmdline.lua")),
    ("events", include_str!("runtime/events.lua")),
    ("foreign", include_str!("runtime/foreign.lua")),
    ("histogram", include_str!("runtime/histogram.lua")),
    ("legacy", include_str!("runtime/legacy.lua")),
    ("parameters", include_str!("runtime/parameters.lua")),
    ("reports", include_str!("runtime/reports.lua")),
];

/// Lua's own libraries, all of which scripts have, as under sysbench.
const LIBRARIES: StdLib = StdLib::ALL;

/// The engine's messages to a coroutine: the first value with which it is resumed.
pub(crate) mod code {
    pub const ANSWERED: i64 = 1;
    pub const REFUSED: i64 = 2;
    pub const BEGIN: i64 = 3;
    pub const ENDING: i64 = 4;
    pub const CONNECTED: i64 = 5;
}

/// A coroutine's requests to the engine: the first value that it yields.
pub(crate) mod ask {
    pub const DONE: i64 = 1;
    pub const QUERY: i64 = 2;
    pub const PREPARE: i64 = 3;
    pub const EXECUTE: i64 = 4;
    pub const EXECUTE_MANY: i64 = 5;
    pub const REPLACE: i64 = 6;
    pub const REFUSED: i64 = 7;
    pub const STOP: i64 = 8;
    pub const ABORT: i64 = 9;
    pub const OPEN: i64 = 10;
    pub const USE: i64 = 11;
    pub const CLOSE: i64 = 12;
    pub const SLEEP: i64 = 13;
}

/// The parameters of `sysbench.rand.unique`, by which the generators of one load take turns.
#[derive(Debug, Clone)]
pub(crate) struct Unique {
    pub next: Arc<AtomicU64>,
    /// How many generators there are.
    pub step: u64,
}

/// The settings that all states of a run share.
#[derive(Debug)]
pub(crate) struct Making {
    pub script: Script,
    pub command: String,
    /// The words of the command line, beginning with the program's name.
    pub argv: Vec<String>,
    /// The options that the script declares; None if it declares none, or if they are not known yet.
    pub declared: Option<Vec<OptionSpec>>,
    /// Whether all options are also global variables, as for scripts of sysbench 0.5.
    pub exports_options: bool,
    pub options: OptionValues,
    /// The other fields of `sysbench.opt`.
    pub settings: OptionValues,
    /// Whether the output of scripts goes to standard error.
    pub spares_stdout: bool,
    /// Distinguishes the latencies of statements over all workers; None if they are not distinguished.
    pub texts: Option<Arc<Texts>>,
    /// Parameters of `sysbench.rand.unique` over all workers.
    pub unique: Unique,
    /// Whether every transaction has a connection of its own (-C): then a client cannot have others.
    pub per_transaction: bool,
    pub memory_limit: usize,
    /// Garbage is collected when a state uses this percentage of what the last collection left.
    pub gc_pause_percent: usize,
}

impl Making {
    pub(crate) fn prepares(&self) -> bool {
        let disable = OptionValue::Text("disable".into());
        !self.options.iter().any(|(name, value)| name == "db_ps_mode" && *value == disable)
    }
}

#[derive(Debug)]
pub(crate) struct State {
    pub lua: Lua,
    pub client: Table,
    statements: Arc<Mutex<Statements>>,
    /// Whether statements are prepared; otherwise their texts contain the values (`--db-ps-mode`).
    pub prepares: bool,
    /// What its scripts count themselves.
    pub counted: Arc<ClientCounts>,
    /// Whether the latencies of statements are distinguished.
    pub by_statement: bool,
    /// Whether any loaded code may read rows: otherwise they are skipped unread.
    pub reads_rows: Arc<AtomicBool>,
}

impl State {
    /// Creates a state, and compiles the script of `making`.
    ///
    /// # Errors
    /// The script does not compile.
    pub fn new(making: &Making) -> mlua::Result<Self> {
        // otherwise a coroutine could not yield inside pcall and xpcall
        let options = LuaOptions::new().catch_rust_panics(true);
        // SAFETY: the code that the crate itself loads does not break Lua's rules. Scripts are the
        // user's programs, as under sysbench: with debug and ffi they can break them.
        let lua = unsafe { Lua::unsafe_new_with(LIBRARIES, options) };
        lua.set_memory_limit(making.memory_limit)?;
        lua.globals().get::<Function>("collectgarbage")?.call::<()>(("setpause", making.gc_pause_percent))?;
        let commands = making.texts.clone().map(Commands::new);
        let statements = Arc::new(Mutex::new(Statements::new(commands)));
        let reads_rows = Arc::new(AtomicBool::new(false));
        let engine = engine_table(&lua, making, &statements, &reads_rows)?;
        let counted = Arc::new(ClientCounts::default());
        let counting = Arc::clone(&counted);
        let count = lua.create_function(move |_, (kind, count): (u32, u64)| {
            counting.add(kind, count);
            Ok(())
        })?;
        engine.set("count", count)?;
        let client = run_runtime(&lua, &engine)?;
        Ok(Self {
            lua,
            client,
            statements,
            prepares: making.prepares(),
            counted,
            by_statement: making.texts.is_some(),
            reads_rows,
        })
    }

    /// Locks the statements of all clients.
    pub fn statements(&self) -> MutexGuard<'_, Statements> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table that represents a client in scripts, before its script has run.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub fn client_table(&self, tid: usize, seed: u64, command: &str) -> mlua::Result<Table> {
        let new: Function = self.client.get("new")?;
        new.call((tid, (seed >> 11) as f64, command))
    }

    /// A new coroutine that runs the runtime's function `body`.
    ///
    /// # Errors
    /// Lua is out of memory.
    pub fn coroutine(&self, body: &str) -> mlua::Result<Thread> {
        self.lua.create_thread(self.client.get(body)?)
    }
}

/// Runs the code of sysbench's API; returns the table `client`.
fn run_runtime(lua: &Lua, engine: &Table) -> mlua::Result<Table> {
    let own = |name: &str, text: &str| lua.load(text).set_name(format!("=[{name}]")).into_function();
    let place: Function = own("where", WHERE)?.call(())?;
    engine.set("where", place)?;
    let parts = lua.create_table()?;
    for (name, text) in PARTS {
        parts.set(name, own(name, text)?)?;
    }
    engine.set("parts", parts)?;
    let ffi = library(lua, "ffi")?;
    // LuaJIT stores what all values of ffi need only in this table, and does not mark it itself
    lua.set_named_registry_value("pgdyno.ffi", &ffi)?;
    engine.set("ffi", ffi)?;
    engine.set("coroutines", own("coroutines", COROUTINES)?.call::<Table>(())?)?;
    let random: Table = own("random", RANDOM)?.call(engine)?;
    let session: Table = own("session", SESSION)?.call((engine, &random))?;
    engine.set("searchpath", library(lua, "package")?.get::<Function>("searchpath")?)?;
    own("client", CLIENT)?.call((engine, &random, &session))
}

fn library(lua: &Lua, name: &str) -> mlua::Result<Table> {
    let package: Table = lua.globals().get("package")?;
    package.get::<Table>("loaded")?.get(name)
}

fn engine_table(
    lua: &Lua, making: &Making, statements: &Arc<Mutex<Statements>>, reads_rows: &Arc<AtomicBool>,
) -> mlua::Result<Table> {
    let engine = lua.create_table()?;
    engine.set("options", table_of(lua, &making.options)?)?;
    let opt = table_of(lua, &making.options)?;
    for (name, value) in &making.settings {
        opt.set(name.as_str(), value.clone())?;
    }
    engine.set("opt", opt)?;
    engine.set("spares_stdout", making.spares_stdout)?;
    engine.set("per_transaction", making.per_transaction)?;
    let argv = lua.create_table()?;
    for (at, word) in making.argv.iter().enumerate() {
        argv.raw_set(at, word.as_str())?;
    }
    engine.set("argv", argv)?;
    engine.set("exports_options", making.exports_options)?;
    engine.set("memory_words", memory_words(making.memory_limit))?;
    let specs = making.declared.as_deref();
    engine.set("options_text", specs.map_or_else(String::new, sysbench_lines))?;
    let path = making.script.path.as_ref();
    let shown = path.map_or_else(|| making.script.name.clone(), |path| path.display().to_string());
    engine.set("script_path", shown)?;
    engine.set("codes", codes(lua)?)?;
    engine.set("asks", asks(lua)?)?;
    add_loaders(lua, &engine, making, reads_rows)?;
    add_helpers(lua, &engine, making, statements)?;
    Ok(engine)
}

/// The functions that compile the script, its modules and its files.
fn add_loaders(lua: &Lua, engine: &Table, making: &Making, reads_rows: &Arc<AtomicBool>) -> mlua::Result<()> {
    let maker = making.script.maker(lua)?;
    reads_rows.store(maker.reads_rows, Ordering::Relaxed);
    let script = lua.create_function(move |_, ()| maker.function.call::<Function>(()))?;
    engine.set("script", script)?;
    let modules = modules(lua, making.script.clone(), Arc::clone(reads_rows))?;
    engine.set("module", modules)?;
    engine.set("file", files(lua, Arc::clone(reads_rows))?)
}

/// The functions for which Lua is too slow, or which all states share.
fn add_helpers(lua: &Lua, engine: &Table, making: &Making, statements: &Arc<Mutex<Statements>>) -> mlua::Result<()> {
    let check = lua.create_function(|_, options: Value| {
        // returns a text in place of an error, which Lua would wrap
        Ok(declared(&options).err().map(|wrong| wrong.message))
    })?;
    engine.set("check_options", check)?;
    let fill = lua.create_function(|lua, (template, seed): (LuaString, f64)| {
        let mut out = Vec::new();
        Letters::new(seed as u64).fill(&template.as_bytes(), &mut out);
        lua.create_string(&out)
    })?;
    engine.set("fill", fill)?;
    let unique = making.unique.clone();
    let unique = lua.create_function(move |_, (least, most): (f64, f64)| {
        loop {
            let number = unique.next.fetch_add(unique.step, Ordering::Relaxed);
            let scattered = f64::from(scatter(number as u32));
            if (least..=most).contains(&scattered) {
                return Ok(scattered);
            }
        }
    })?;
    engine.set("unique", unique)?;
    let known = Arc::clone(statements);
    let statement = lua.create_function(move |_, (text, types): (LuaString, Vec<u32>)| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        known.number(&text.as_bytes(), types).map_err(mlua::Error::runtime)
    })?;
    engine.set("statement", statement)
}

/// The message for a script that exceeds the memory limit of a state.
pub(crate) fn memory_words(limit: usize) -> String {
    format!("the script needs more memory than a thread of it may take, {} MB", limit / 1_000_000)
}

/// Loads modules: they are compiled once for each state, and instantiated for each client.
fn modules(lua: &Lua, script: Script, reads_rows: Arc<AtomicBool>) -> mlua::Result<Function> {
    let known = lua.create_table()?;
    lua.create_function(move |lua, name: String| {
        let maker = match known.get::<Value>(name.as_str())? {
            Value::Function(maker) => maker,
            Value::Boolean(_) => return Ok(None),
            _ => match script.module(lua, &name)? {
                Some(maker) => {
                    reads_rows.fetch_or(maker.reads_rows, Ordering::Relaxed);
                    known.set(name, &maker.function)?;
                    maker.function
                }
                None => {
                    // modules that LuaJIT finds itself may do anything; its own libraries do not read rows
                    let own = ["ffi", "bit", "jit", "string.buffer"].contains(&name.as_str());
                    reads_rows.fetch_or(!own, Ordering::Relaxed);
                    known.set(name, false)?;
                    return Ok(None);
                }
            },
        };
        maker.call::<Function>(()).map(Some)
    })
}

/// Loads files that a script finds itself, by path.
fn files(lua: &Lua, reads_rows: Arc<AtomicBool>) -> mlua::Result<Function> {
    let known = lua.create_table()?;
    lua.create_function(move |lua, path: String| {
        if let Value::Function(maker) = known.get::<Value>(path.as_str())? {
            return maker.call::<Function>(());
        }
        let maker = script::file(lua, Path::new(&path))?;
        reads_rows.fetch_or(maker.reads_rows, Ordering::Relaxed);
        known.set(path, &maker.function)?;
        maker.function.call::<Function>(())
    })
}

/// A permutation of 32-bit numbers without visible order: quadratic residues of a prime that is 3 modulo 4.
fn scatter(number: u32) -> u32 {
    const PRIME: u64 = 4_294_967_291;
    let permute = |x: u32| {
        let wide = u64::from(x);
        if wide >= PRIME {
            return x;
        }
        let residue = (wide * wide % PRIME) as u32;
        if wide <= PRIME / 2 { residue } else { (PRIME - u64::from(residue)) as u32 }
    };
    permute(permute(number) ^ 0x5bf0_3635)
}

fn codes(lua: &Lua) -> mlua::Result<Table> {
    let numbers = [
        ("ANSWERED", code::ANSWERED),
        ("REFUSED", code::REFUSED),
        ("BEGIN", code::BEGIN),
        ("ENDING", code::ENDING),
        ("CONNECTED", code::CONNECTED),
    ];
    lua.create_table_from(numbers)
}

fn asks(lua: &Lua) -> mlua::Result<Table> {
    let numbers = [
        ("DONE", ask::DONE),
        ("QUERY", ask::QUERY),
        ("PREPARE", ask::PREPARE),
        ("EXECUTE", ask::EXECUTE),
        ("EXECUTE_MANY", ask::EXECUTE_MANY),
        ("REPLACE", ask::REPLACE),
        ("OPEN", ask::OPEN),
        ("USE", ask::USE),
        ("CLOSE", ask::CLOSE),
        ("SLEEP", ask::SLEEP),
        ("REFUSED", ask::REFUSED),
        ("STOP", ask::STOP),
        ("ABORT", ask::ABORT),
    ];
    lua.create_table_from(numbers)
}

fn table_of(lua: &Lua, values: &[(String, OptionValue)]) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, value) in values {
        table.set(name.as_str(), value.clone())?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_numbers_are_all_different() {
        let mut seen: Vec<u32> = (0..100_000).map(scatter).collect();
        assert!(seen.windows(2).filter(|pair| pair[0] < pair[1]).count() < 60_000);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 100_000);
    }
}
