//! `--lua` and `--workload`: transactions that a Lua script decides.

use super::option_values::{Origin, ScriptChoice};
use crate::messages::Failure;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LuaChoice {
    pub source: LuaSource,
    pub command: String,
    /// --lua-opt, --tables and --table-size
    pub options: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Reads and compiles them without running them.
    Compile,
    Execute,
    Statements,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LuaSource {
    /// --lua, a file or the name of a script that is installed with sysbench
    File(String),
    Workload(String),
}

#[derive(Debug, Default)]
pub(super) struct LuaOptions {
    source: Option<LuaSource>,
    is_twice: bool,
    pub command: Option<String>,
    pub options: Vec<(String, String)>,
}

pub(super) fn script_option(text: &str) -> Result<(String, String), Failure> {
    let option = text.split_once('=').ok_or_else(|| {
        Failure::new(format!("invalid option of a script: \"{text}\"")).hint("Give --lua-opt NAME=VALUE.")
    })?;
    Ok((option.0.to_owned(), option.1.to_owned()))
}

impl LuaOptions {
    /// Adds a script; only one is allowed.
    pub fn add(&mut self, source: LuaSource) {
        self.is_twice |= self.source.replace(source).is_some();
    }

    pub fn resolve(mut self, sizes: Vec<(String, String)>) -> Result<Option<LuaChoice>, Failure> {
        let Some(source) = self.source else {
            if self.command.is_some() || !self.options.is_empty() {
                return Err(Failure::new("--lua-opt and --lua-command need --lua or --workload"));
            }
            if !sizes.is_empty() {
                return Err(Failure::new("--tables and --table-size can only be used with -i or --workload"));
            }
            return Ok(None);
        };
        if self.is_twice {
            return Err(Failure::new("give one --lua or --workload: a load has one Lua script"));
        }
        if matches!(source, LuaSource::File(_)) && !sizes.is_empty() {
            return Err(Failure::new("--tables and --table-size cannot be used with --lua")
                .hint("Options of a script are given as --lua-opt tables=NUM."));
        }
        self.options.extend(sizes);
        Ok(Some(LuaChoice { source, command: self.command.unwrap_or_else(|| "run".to_owned()), options: self.options }))
    }
}

impl LuaChoice {
    pub fn name(&self) -> &str {
        match &self.source {
            LuaSource::File(name) | LuaSource::Workload(name) => name,
        }
    }

    /// The parameters of the connection among its options.
    pub fn connection(&self) -> Vec<(&'static str, String)> {
        pgdyno_lua::connection(&self.options)
    }

    pub fn script(&self) -> ScriptChoice {
        ScriptChoice { origin: Origin::Lua(self.name().to_owned()), weight: 1 }
    }
}
