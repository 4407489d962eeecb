//! A compiled script: what the engine runs.

use crate::error::EvalError;
use crate::expr::{Env, Expr};
use crate::random::Rng;
use crate::shell::ShellArg;
use crate::statement_effect::Sequel;
use crate::value::{Fault, Value, leading_int};
use crate::vars::{SlotId, Target, Vars};

/// How statements reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryMode {
    /// One message a statement; variables are replaced in its text.
    Simple,
    /// Parse, bind, execute each time; variables are parameters.
    Extended,
    /// Parse once a client, then bind and execute.
    Prepared,
}

/// What to do with the rows of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Discard them.
    None,
    /// The last result must be one row; its columns become variables.
    Gset {
        /// Put before the columns' names.
        prefix: Box<str>,
    },
    /// The last row of every result that has rows becomes variables.
    Aset {
        /// Put before the columns' names.
        prefix: Box<str>,
    },
}

/// How long to sleep, before the unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SleepAmount {
    /// A number; negative is no sleep.
    Const(i64),
    /// A variable, read when the command runs.
    Slot(SlotId),
}

/// One step. Jump targets are indices of [`Program::ops`]; its length is the end.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Send a statement.
    Sql {
        /// Index of [`Program::statements`].
        statement: usize,
        /// What to do with its rows.
        capture: Capture,
    },
    /// Evaluate and assign; see [`Vars::assign`].
    Set {
        /// Where to.
        target: Target,
        /// What.
        expr: Expr,
    },
    /// Wait; see [`Program::sleep_us`].
    Sleep {
        /// How many units.
        amount: SleepAmount,
        /// Microseconds of a unit.
        unit_us: i64,
    },
    /// Run a shell command; see [`Program::shell_command`].
    Shell {
        /// Its words.
        args: Vec<ShellArg>,
    },
    /// Run a shell command and assign the integer that it prints.
    SetShell {
        /// Where to.
        target: Target,
        /// Its words.
        args: Vec<ShellArg>,
    },
    /// Go on at a step.
    Jump(usize),
    /// Go on at a step if the condition is not true.
    JumpUnless {
        /// The condition.
        expr: Expr,
        /// The step.
        target: usize,
    },
    /// Begin a pipeline.
    StartPipeline,
    /// Send a sync without waiting.
    SyncPipeline,
    /// Send a sync and wait for all results.
    EndPipeline,
}

/// One command as pgbench counts and reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Line in the script, from 1; 0 when it is in none.
    pub line: u32,
    /// What "aborted in command 3 (...)" calls it: `SQL`, or a backslash command's
    /// name as typed.
    pub word: Box<str>,
    /// What `-r` shows: the first line of SQL, a whole backslash command.
    pub text: Box<str>,
    /// Its statement, if it is SQL.
    pub statement: Option<usize>,
}

/// A piece of the text of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// As it is.
    Text(Box<str>),
    /// A variable's value, or the source text if it is not set.
    Var {
        /// The variable.
        slot: SlotId,
        /// `:name`.
        source: Box<str>,
    },
}

/// What to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sql {
    /// Text in which variables are replaced each time.
    Simple(Vec<Piece>),
    /// Text with `$1`, `$2`, ... and the variable of each.
    Extended {
        /// The text.
        sql: String,
        /// One variable an occurrence.
        params: Vec<SlotId>,
    },
}

/// A statement of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Index in [`Program::statements`].
    pub id: usize,
    /// Index in [`Program::commands`].
    pub command: usize,
    /// Line in the script, from 1.
    pub line: u32,
    /// Its first line, for display.
    pub text: Box<str>,
    /// What to send.
    pub sql: Sql,
    /// What it means for those behind it.
    pub sequel: Sequel,
}

impl Statement {
    /// Appends the text of the simple protocol. A statement of the extended
    /// protocols is appended with its `$n`.
    pub fn write_simple(&self, vars: &Vars, out: &mut Vec<u8>) {
        match &self.sql {
            Sql::Extended { sql, .. } => out.extend_from_slice(sql.as_bytes()),
            Sql::Simple(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                        Piece::Var { slot, source } => {
                            if !vars.write_text(*slot, out) {
                                out.extend_from_slice(source.as_bytes());
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A compiled script; immutable, shared by all clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Name of the script.
    pub name: Box<str>,
    /// The steps.
    pub ops: Vec<Op>,
    /// The statements, in order.
    pub statements: Vec<Statement>,
    /// The commands, in order. Conditions are among them, `\gset` and `\aset` not.
    pub commands: Vec<Command>,
    /// Command of each step.
    pub(crate) op_commands: Vec<u32>,
}

impl Program {
    /// A script that has no steps of its own: what its transactions do is decided while they run.
    /// `commands` are the names under which its statements are reported; at least one.
    pub fn driven<'a>(name: &str, commands: impl IntoIterator<Item = &'a str>) -> Self {
        let commands: Vec<Command> = commands
            .into_iter()
            .enumerate()
            .map(|(number, text)| Command {
                line: 1,
                word: "SQL".into(),
                text: text.into(),
                statement: Some(number),
            })
            .collect();
        Self {
            name: name.into(),
            ops: Vec::new(),
            statements: Vec::new(),
            op_commands: (0..commands.len() as u32).collect(),
            commands,
        }
    }

    /// Likewise, with `count` commands whose texts are known only while they are sent: they have no line.
    pub fn unnamed(name: &str, count: usize) -> Self {
        let mut program = Self::driven(name, std::iter::repeat_n("", count));
        program
            .commands
            .iter_mut()
            .for_each(|command| command.line = 0);
        program
    }

    /// The step `op`, or the last one where there are not so many.
    #[must_use]
    pub fn clamp_step(&self, op: usize) -> usize {
        op.min(self.op_commands.len().saturating_sub(1))
    }

    /// Number of a step's command, from 0: pgbench's "aborted in command 3".
    #[inline]
    pub fn command_number(&self, op: usize) -> usize {
        self.op_commands[op] as usize
    }

    /// A step's command.
    pub fn command(&self, op: usize) -> &Command {
        &self.commands[self.command_number(op)]
    }

    /// Evaluates an expression of this program. `debug` gets each value that the
    /// function `debug` is called with; see [`Program::debug_line`].
    ///
    /// # Errors
    /// Displayed as pgbench logs them.
    #[inline]
    pub fn eval(
        &self,
        expr: &Expr,
        vars: &mut Vars,
        rng: &mut Rng,
        debug: &mut dyn FnMut(Value),
    ) -> Result<Value, Box<EvalError>> {
        expr.0.eval(&mut Env { vars, rng, debug })
    }

    /// The line that `debug()` prints in a step of script number `script` (from 0).
    pub fn debug_line(&self, script: usize, op: usize, value: Value) -> String {
        let command = self.command_number(op) + 1;
        format!(
            "debug(script={script},command={command}): {}",
            value.debug_text()
        )
    }

    /// Microseconds to sleep at a step; not positive is no sleep.
    ///
    /// # Errors
    /// The variable is not set, or does not begin with a number.
    pub fn sleep_us(
        &self,
        op: usize,
        amount: &SleepAmount,
        unit_us: i64,
        vars: &Vars,
    ) -> Result<i64, Box<EvalError>> {
        let units = match amount {
            SleepAmount::Const(units) => *units,
            SleepAmount::Slot(slot) => self.sleep_variable(op, *slot, vars)?,
        };
        Ok(units.saturating_mul(unit_us))
    }

    fn sleep_variable(&self, op: usize, slot: SlotId, vars: &Vars) -> Result<i64, Fault> {
        let command = || self.command(op).word.to_string();
        let name = || vars.symbols().name(slot).to_owned();
        let mut text = Vec::new();
        if !vars.write_text(slot, &mut text) {
            return Err(Box::new(EvalError::SleepUndefined {
                command: command(),
                name: name(),
            }));
        }
        let units = leading_int(&text);
        if units == 0 && !text.first().is_some_and(u8::is_ascii_digit) {
            let text = String::from_utf8_lossy(&text).into_owned();
            let (command, name) = (command(), name());
            return Err(Box::new(EvalError::SleepInvalid {
                command,
                text,
                name,
            }));
        }
        Ok(units)
    }

    /// Joins the words of a shell command, variables replaced, into `out`.
    ///
    /// # Errors
    /// A variable is not set, or the command is longer than pgbench allows.
    pub fn shell_command(
        &self,
        args: &[ShellArg],
        vars: &Vars,
        out: &mut Vec<u8>,
    ) -> Result<(), Box<EvalError>> {
        crate::shell::join(args, vars, out)
    }
}
