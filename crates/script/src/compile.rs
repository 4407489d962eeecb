//! From commands to steps: names become slots, conditions become jumps.

use crate::ast::{self, CommandKind, Script, SleepText};
use crate::compile_expression::lower;
use crate::error::CompileError;
use crate::expr::Expr;
use crate::program::{Command, Op, Program, QueryMode, SleepAmount, Statement};
use crate::shell::ShellArg;
use crate::statement_effect::Sequel;
use crate::substitute::substitute;
use crate::vars::{Symbols, Target, valid_name};

/// Compiles a script for a query mode. All programs of a run share `symbols`.
///
/// # Errors
/// A statement has more variables than the extended protocols take.
pub fn compile(script: &Script, mode: QueryMode, symbols: &mut Symbols) -> Result<Program, CompileError> {
    let mut compiler = Compiler {
        mode,
        symbols,
        program: Program {
            name: script.name.as_str().into(),
            ops: Vec::new(),
            statements: Vec::new(),
            commands: Vec::new(),
            op_commands: Vec::new(),
        },
        open: Vec::new(),
    };
    for command in &script.commands {
        compiler.command(command)?;
    }
    Ok(compiler.program)
}

/// An `\if` whose `\endif` has not come yet: the steps whose targets are unknown.
#[derive(Default)]
struct Condition {
    /// The test of the current branch, which jumps to the next branch.
    test: Option<usize>,
    /// The jumps after each branch, which go to the end.
    ends: Vec<usize>,
}

struct Compiler<'s> {
    mode: QueryMode,
    symbols: &'s mut Symbols,
    program: Program,
    open: Vec<Condition>,
}

impl Compiler<'_> {
    fn command(&mut self, command: &ast::Command) -> Result<(), CompileError> {
        self.program.commands.push(Command {
            line: command.line,
            word: command.word.as_str().into(),
            text: command.text.as_str().into(),
            statement: None,
        });
        match &command.kind {
            CommandKind::Sql { sql, capture } => {
                let statement = self.statement(command, sql)?;
                let capture = capture.clone();
                self.push(Op::Sql { statement, capture });
            }
            CommandKind::Set { name, expr } => {
                let expr = self.expr(expr);
                let target = self.target(name);
                self.push(Op::Set { target, expr });
            }
            CommandKind::SetShell { name, args } => {
                let args = self.shell_args(args);
                let target = self.target(name);
                self.push(Op::SetShell { target, args });
            }
            CommandKind::Shell { args } => {
                let args = self.shell_args(args);
                self.push(Op::Shell { args });
            }
            CommandKind::Sleep { amount, unit_us } => {
                let amount = self.sleep_amount(amount);
                let unit_us = *unit_us;
                self.push(Op::Sleep { amount, unit_us });
            }
            CommandKind::If(expr) => {
                self.open.push(Condition::default());
                self.test(expr);
            }
            CommandKind::Elif(expr) => {
                self.end_branch();
                self.test(expr);
            }
            CommandKind::Else => self.end_branch(),
            CommandKind::Endif => self.end_condition(),
            CommandKind::StartPipeline => self.push(Op::StartPipeline),
            CommandKind::SyncPipeline => self.push(Op::SyncPipeline),
            CommandKind::EndPipeline => self.push(Op::EndPipeline),
        }
        Ok(())
    }

    fn sleep_amount(&mut self, amount: &SleepText) -> SleepAmount {
        match amount {
            SleepText::Constant(units) => SleepAmount::Const(*units),
            SleepText::Variable(name) => SleepAmount::Slot(self.symbols.slot(name)),
        }
    }

    fn push(&mut self, op: Op) {
        self.program.ops.push(op);
        self.program.op_commands.push(self.program.commands.len() as u32 - 1);
    }

    fn statement(&mut self, command: &ast::Command, sql: &str) -> Result<usize, CompileError> {
        let id = self.program.statements.len();
        let number = self.program.commands.len() - 1;
        self.program.statements.push(Statement {
            id,
            command: number,
            line: command.line,
            text: command.text.as_str().into(),
            sql: substitute(sql, self.mode, self.symbols)?,
            sequel: Sequel::of(sql),
        });
        self.program.commands[number].statement = Some(id);
        Ok(id)
    }

    fn expr(&mut self, expr: &ast::Expr) -> Expr {
        Expr(lower(expr, self.symbols))
    }

    fn target(&mut self, name: &str) -> Target {
        if valid_name(name) { Target::Slot(self.symbols.slot(name)) } else { Target::Invalid(name.into()) }
    }

    fn shell_args(&mut self, words: &[String]) -> Vec<ShellArg> {
        words.iter().map(|word| ShellArg::new(word, self.symbols)).collect()
    }

    /// Adds the test of a branch; its target on failure is known at the next branch.
    fn test(&mut self, expr: &ast::Expr) {
        let expr = self.expr(expr);
        let step = self.program.ops.len();
        self.push(Op::JumpUnless { expr, target: 0 });
        if let Some(condition) = self.open.last_mut() {
            condition.test = Some(step);
        }
    }

    /// Ends a branch at `\elif` or `\else`: execution from above jumps to the end, and a failed test continues here.
    fn end_branch(&mut self) {
        let step = self.program.ops.len();
        self.push(Op::Jump(0));
        let Some(condition) = self.open.last_mut() else {
            return; // The parser accepts none of these commands without an \if.
        };
        condition.ends.push(step);
        if let Some(test) = condition.test.take() {
            self.aim(test);
        }
    }

    fn end_condition(&mut self) {
        let condition = self.open.pop().unwrap_or_default();
        for step in condition.ends.into_iter().chain(condition.test) {
            self.aim(step);
        }
    }

    /// Sets the target of a jump to the next step.
    fn aim(&mut self, step: usize) {
        let here = self.program.ops.len();
        if let Op::Jump(target) | Op::JumpUnless { target, .. } = &mut self.program.ops[step] {
            *target = here;
        }
    }
}
