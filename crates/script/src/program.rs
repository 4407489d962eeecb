//! A compiled script: what the engine runs.

use crate::error::EvalError;
use crate::expr::{Env, Expr};
use crate::random::Rng;
use crate::shell::ShellArg;
use crate::statement_effect::Sequel;
use crate::value::{Fault, Value, leading_int};
use crate::vars::{SlotId, Target, Vars};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryMode {
    /// One message for each statement; variables are replaced in its text.
    Simple,
    /// Parse, bind and execute each time; variables are parameters.
    Extended,
    /// Parse once for each client, then bind and execute.
    Prepared,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capture {
    /// They are discarded.
    None,
    /// The last result must be one row, whose columns become variables.
    Gset {
        /// Prefix of the variables' names.
        prefix: Box<str>,
    },
    /// The last row of every result with rows becomes variables.
    Aset {
        /// Prefix of the variables' names.
        prefix: Box<str>,
    },
}

/// The length of a sleep, without its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SleepAmount {
    /// A number; a negative one means no sleep.
    Const(i64),
    /// A variable, read when the command runs.
    Slot(SlotId),
}

/// One step. Jump targets are indices of [`Program::ops`]; its length is the end.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    Sql {
        /// Index of [`Program::statements`].
        statement: usize,
        capture: Capture,
    },
    /// Evaluates an expression and assigns its value; see [`Vars::assign`].
    Set {
        target: Target,
        expr: Expr,
    },
    /// Waits; see [`Program::sleep_us`].
    Sleep {
        /// Number of units.
        amount: SleepAmount,
        /// Length of a unit in microseconds.
        unit_us: i64,
    },
    /// Runs a shell command; see [`Program::shell_command`].
    Shell {
        args: Vec<ShellArg>,
    },
    /// Runs a shell command and assigns the integer that it prints.
    SetShell {
        target: Target,
        args: Vec<ShellArg>,
    },
    /// Continues at a step.
    Jump(usize),
    /// Continues at a step if the condition is not true.
    JumpUnless {
        expr: Expr,
        /// The step.
        target: usize,
    },
    StartPipeline,
    /// Sends a Sync without waiting.
    SyncPipeline,
    /// Sends a Sync and waits for all results.
    EndPipeline,
}

/// One command as pgbench counts and reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Line in the script, from 1; 0 if it is in none.
    pub line: u32,
    /// The name in "aborted in command 3 (...)": `SQL`, or a backslash command's name as typed.
    pub word: Box<str>,
    /// The text in reports of `-r`: the first line of SQL, or a whole backslash command.
    pub text: Box<str>,
    /// Index of the statement, if the command is SQL.
    pub statement: Option<usize>,
}

/// A piece of the text of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(Box<str>),
    /// A variable's value, or the source text if it is not set.
    Var {
        slot: SlotId,
        /// The text in the script: `:name`.
        source: Box<str>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sql {
    /// Text in which variables are replaced for each execution.
    Simple(Vec<Piece>),
    /// Text with `$1`, `$2`, ... and the variable of each.
    Extended {
        sql: String,
        /// One variable for each occurrence.
        params: Vec<SlotId>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Index in [`Program::statements`].
    pub id: usize,
    /// Index in [`Program::commands`].
    pub command: usize,
    /// Line in the script, from 1.
    pub line: u32,
    /// The first line, for display.
    pub text: Box<str>,
    pub sql: Sql,
    /// Its effect on the following statements.
    pub sequel: Sequel,
}

impl Statement {
    /// Appends the text of the simple protocol. A statement of the extended protocols is appended with its `$n`.
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
    pub name: Box<str>,
    pub ops: Vec<Op>,
    pub statements: Vec<Statement>,
    /// The commands, in order. Conditions are among them, `\gset` and `\aset` are not.
    pub commands: Vec<Command>,
    /// Number of the command of each step.
    pub(crate) op_commands: Vec<u32>,
}

impl Program {
    /// A script without steps, whose transactions are decided while they run. `commands` are the
    /// names under which its statements are reported; at least one.
    pub fn driven<'a>(name: &str, commands: impl IntoIterator<Item = &'a str>) -> Self {
        let commands: Vec<Command> = commands
            .into_iter()
            .enumerate()
            .map(|(number, text)| Command { line: 1, word: "SQL".into(), text: text.into(), statement: Some(number) })
            .collect();
        Self {
            name: name.into(),
            ops: Vec::new(),
            statements: Vec::new(),
            op_commands: (0..commands.len() as u32).collect(),
            commands,
        }
    }

    /// A script without steps, with `count` commands whose texts are known when they are sent: they have no line.
    pub fn unnamed(name: &str, count: usize) -> Self {
        let mut program = Self::driven(name, std::iter::repeat_n("", count));
        program.commands.iter_mut().for_each(|command| command.line = 0);
        program
    }

    pub fn clamp_step(&self, op: usize) -> usize {
        op.min(self.op_commands.len().saturating_sub(1))
    }

    /// Number of a step's command, from 0, as in pgbench's "aborted in command 3".
    #[inline]
    pub fn command_number(&self, op: usize) -> usize {
        self.op_commands[op] as usize
    }

    pub fn command(&self, op: usize) -> &Command {
        &self.commands[self.command_number(op)]
    }

    /// Evaluates an expression of this program. `debug` receives the argument of each call of the
    /// function `debug`; see [`Program::debug_line`].
    ///
    /// # Errors
    /// Displayed as pgbench logs them.
    #[inline]
    pub fn eval(
        &self, expr: &Expr, vars: &mut Vars, rng: &mut Rng, debug: &mut dyn FnMut(Value),
    ) -> Result<Value, Box<EvalError>> {
        expr.0.eval(&mut Env { vars, rng, debug })
    }

    /// The line that `debug()` prints in a step of script number `script` (from 0).
    pub fn debug_line(&self, script: usize, op: usize, value: Value) -> String {
        let command = self.command_number(op) + 1;
        format!("debug(script={script},command={command}): {}", value.debug_text())
    }

    /// Microseconds to sleep at a step; zero or less means no sleep.
    ///
    /// # Errors
    /// The variable is not set, or does not begin with a number.
    pub fn sleep_us(&self, op: usize, amount: &SleepAmount, unit_us: i64, vars: &Vars) -> Result<i64, Box<EvalError>> {
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
            return Err(Box::new(EvalError::SleepUndefined { command: command(), name: name() }));
        }
        let units = leading_int(&text);
        if units == 0 && !text.first().is_some_and(u8::is_ascii_digit) {
            let text = String::from_utf8_lossy(&text).into_owned();
            let (command, name) = (command(), name());
            return Err(Box::new(EvalError::SleepInvalid { command, text, name }));
        }
        Ok(units)
    }

    /// Joins the words of a shell command, with variables replaced, in `out`.
    ///
    /// # Errors
    /// A variable is not set, or the command exceeds pgbench's limit.
    pub fn shell_command(&self, args: &[ShellArg], vars: &Vars, out: &mut Vec<u8>) -> Result<(), Box<EvalError>> {
        crate::shell::join(args, vars, out)
    }
}
