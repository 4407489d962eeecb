//! The scripts of a load: found, read, parsed and compiled before the first connection.

use std::io::{self, Read, Write};

use pgdyno_engine::spec::WeightedProgram;
use pgdyno_script::{Builtin, Program, QueryMode, Source, Sql, Symbols, builtin, builtin_list, compile, parse};
use serde_json::json;

use crate::commit_ledger;
use crate::exit::{Exit, refuse};
use crate::lua;
use crate::messages::{Failure, Messages, plain};
use crate::options::{Benchmark, Check, Origin, ScriptChoice};

/// Compiles `choices`; variables get their slots in `symbols`. With a ledger, built-in scripts write to it.
///
/// # Errors
/// A script has an error; in pgbench's words, with file, line and column.
pub fn load(
    choices: &[ScriptChoice], mode: QueryMode, has_ledger: bool, symbols: &mut Symbols,
) -> Result<Vec<WeightedProgram>, Failure> {
    choices
        .iter()
        .map(|choice| {
            let program = match source(&choice.origin)? {
                Some(source) => {
                    let source = match &choice.origin {
                        Origin::Builtin(_) if has_ledger => commit_ledger::in_builtin(source),
                        _ => source,
                    };
                    let script = parse(&source).map_err(Failure::new)?;
                    compile(&script, mode, symbols).map_err(Failure::new)?
                }
                None => driven(&choice.origin),
            };
            Ok(WeightedProgram { program, weight: choice.weight })
        })
        .collect()
}

pub fn check(options: &Benchmark) -> Result<(), Failure> {
    let lists = options.check == Some(Check::Statements);
    let mode = if lists { QueryMode::Extended } else { options.mode };
    let mut symbols = Symbols::new();
    let programs = load(&options.scripts, mode, options.ledger, &mut symbols)?;
    commit_ledger::wanted(options, &programs, &symbols)?;
    options.pacing.resolve(&programs)?;
    if lists {
        // a closed output needs no report
        crate::print(&statement_lines(&programs));
    }
    Ok(())
}

/// A JSON object a line for each statement: script and id as in events, line, and text with `$1` for variables.
fn statement_lines(programs: &[WeightedProgram]) -> String {
    let mut lines = String::new();
    for (script, each) in programs.iter().enumerate() {
        for statement in &each.program.statements {
            if let Sql::Extended { sql, .. } = &statement.sql {
                let (id, line) = (statement.command, statement.line);
                let object = json!({"script": script, "id": id, "line": line, "text": sql});
                lines.push_str(&format!("{object}\n"));
            }
        }
    }
    lines
}

/// The full name of each of `choices` on the command line, and its name in the summary.
pub fn names(choices: &[ScriptChoice]) -> Result<Vec<(String, String)>, Failure> {
    let name = |choice: &ScriptChoice| match &choice.origin {
        Origin::Builtin(prefix) => {
            let builtin = find(prefix)?;
            Ok((builtin.name.to_owned(), builtin.source().name))
        }
        Origin::File(path) | Origin::Lua(path) => Ok((path.clone(), path.clone())),
        Origin::Driven { name, .. } => Ok((name.clone(), name.clone())),
    };
    choices.iter().map(name).collect()
}

/// The text of a script; None for one without a text.
fn source(origin: &Origin) -> Result<Option<Source>, Failure> {
    match origin {
        Origin::Builtin(prefix) => Ok(Some(find(prefix)?.source())),
        Origin::File(path) => Ok(Some(Source { name: path.clone(), text: read(path)? })),
        Origin::Driven { .. } | Origin::Lua(_) => Ok(None),
    }
}

fn driven(origin: &Origin) -> Program {
    match origin {
        Origin::Driven { name, commands } => Program::driven(name, commands.iter().map(String::as_str)),
        Origin::Builtin(name) | Origin::File(name) | Origin::Lua(name) => Program::driven(name, [lua::STATEMENTS]),
    }
}

/// Bytes of the longest script: a device such as /dev/zero has no end, and would fill the memory.
const LONGEST: u64 = 256 * 1024 * 1024;

fn read_within(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if from.take(LONGEST + 1).read_to_end(&mut bytes)? as u64 > LONGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// The text of a file, or of standard input for `-`.
pub fn read(path: &str) -> Result<String, Failure> {
    let read = if path == "-" { read_within(io::stdin()) } else { std::fs::File::open(path).and_then(read_within) };
    let bytes = read.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
            Failure::new(format!("could not open file \"{path}\": {}", plain(&error)))
        }
        _ => Failure::new(format!("could not read file \"{path}\": {}", plain(&error))),
    })?;
    utf8(bytes, path)
}

fn utf8(bytes: Vec<u8>, path: &str) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
        Failure::new(format!("could not read file \"{path}\": line {line} is not UTF-8"))
            .hint("Convert the file, for example with iconv, and set PGCLIENTENCODING to UTF8.")
    })
}

fn find(prefix: &str) -> Result<Builtin, Failure> {
    builtin(prefix).map_err(|error| Failure::new(error).listing(builtin_list()))
}

pub fn list() -> Exit {
    write_stderr(&builtin_list())
}

pub fn show(name: &str, messages: &Messages) -> Exit {
    match find(name) {
        Ok(builtin) => write_stderr(&format!("-- {}: {}\n{}\n", builtin.name, builtin.description, builtin.text)),
        Err(failure) => refuse(&failure, messages),
    }
}

fn write_stderr(text: &str) -> Exit {
    match io::stderr().write_all(text.as_bytes()) {
        Ok(()) => Exit::Well,
        Err(_) => Exit::NotBegun,
    }
}
