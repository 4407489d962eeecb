//! `--lua` and `--workload`: transactions that a Lua script decides.

use super::load::LoadOptions;
use super::{Origin, ScriptChoice};
use crate::messages::Failure;

/// A Lua script with what is asked of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LuaChoice {
    /// Where it comes from.
    pub source: LuaSource,
    /// --lua-command
    pub command: String,
    /// --lua-opt, --tables and --table-size
    pub options: Vec<(String, String)>,
    /// --allow-lua-system
    pub allows_system: bool,
}

/// What `--check` does with scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Reads and compiles them; nothing that a file says is run.
    Compile,
    /// Also runs the top level and `init()` of a Lua script, as the start of a load does.
    Execute,
}

impl Check {
    /// Reads the option's argument, which may be left out.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        match text {
            "" => Ok(Self::Compile),
            "execute" => Ok(Self::Execute),
            _ => Err(
                Failure::new(format!("invalid argument of --check: \"{text}\""))
                    .hint("Give --check or --check=execute."),
            ),
        }
    }
}

/// Where a Lua script comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LuaSource {
    /// --lua, a file or the name of a script that is installed with sysbench
    File(String),
    /// --workload
    Own(String),
}

/// What was given of these options.
#[derive(Debug, Default)]
pub(super) struct LuaOptions {
    source: Option<LuaSource>,
    is_twice: bool,
    command: Option<String>,
    options: Vec<(String, String)>,
    allows_system: bool,
}

impl LuaOptions {
    /// Names of the options.
    pub const NAMES: [&'static str; 5] = [
        "lua",
        "workload",
        "lua-opt",
        "lua-command",
        "allow-lua-system",
    ];

    /// Takes one of them.
    pub fn take(&mut self, name: &str, value: String) -> Result<(), Failure> {
        match name {
            "lua" => self.take_source(LuaSource::File(value)),
            "workload" => self.take_source(LuaSource::Own(value)),
            "lua-command" => self.command = Some(value),
            "allow-lua-system" => self.allows_system = true,
            _ => {
                let (name, value) = value.split_once('=').ok_or_else(|| {
                    Failure::new(format!("invalid option of a script: \"{value}\""))
                        .hint("Give --lua-opt NAME=VALUE.")
                })?;
                self.options.push((name.to_owned(), value.to_owned()));
            }
        }
        Ok(())
    }

    fn take_source(&mut self, source: LuaSource) {
        self.is_twice |= self.source.replace(source).is_some();
    }

    /// The script that was asked for, if one was; `load` may have sizes of its tables, `others` are
    /// options that were given and that it cannot be used with.
    pub fn resolve(
        mut self,
        load: &LoadOptions,
        others: &[(bool, &str, &str)],
    ) -> Result<Option<LuaChoice>, Failure> {
        let sizes = load.sizes();
        let Some(source) = self.source else {
            if self.command.is_some() || !self.options.is_empty() {
                return Err(Failure::new(
                    "--lua-opt and --lua-command need --lua or --workload",
                ));
            }
            if self.allows_system {
                return Err(Failure::new("--allow-lua-system needs --lua"));
            }
            if !sizes.is_empty() {
                return Err(Failure::new(
                    "--tables and --table-size can only be used with -i or --workload",
                ));
            }
            return Ok(None);
        };
        if self.is_twice {
            return Err(Failure::new(
                "give one --lua or --workload: a load has one Lua script",
            ));
        }
        if matches!(source, LuaSource::Own(_)) && self.allows_system {
            return Err(Failure::new("--allow-lua-system needs --lua")
                .hint("The workloads of --workload do not leave the sandbox."));
        }
        if matches!(source, LuaSource::File(_)) && !sizes.is_empty() {
            return Err(
                Failure::new("--tables and --table-size cannot be used with --lua")
                    .hint("Options of a script are given as --lua-opt tables=NUM."),
            );
        }
        for (is_given, option, hint) in others {
            if *is_given {
                return Err(Failure::new(format!(
                    "{option} cannot be used with --lua and --workload"
                ))
                .hint(hint));
            }
        }
        self.options.extend(sizes);
        Ok(Some(LuaChoice {
            source,
            command: self.command.unwrap_or_else(|| "run".to_owned()),
            options: self.options,
            allows_system: self.allows_system,
        }))
    }
}

impl LuaChoice {
    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.source {
            LuaSource::File(name) | LuaSource::Own(name) => name,
        }
    }

    /// Parameters of the connection among its options.
    #[must_use]
    pub fn connection(&self) -> Vec<(&'static str, String)> {
        pgdyno_lua::connection(&self.options)
    }

    /// The only script of its load.
    #[must_use]
    pub fn script(&self) -> ScriptChoice {
        ScriptChoice {
            origin: Origin::Lua(self.name().to_owned()),
            weight: 1,
        }
    }
}
