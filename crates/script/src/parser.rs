//! Parses a script's text into commands.

use crate::ast::{Command, CommandKind, Script, SleepText, Source};
use crate::error::{ParseError, SyntaxError};
use crate::expr_parser::{ExprError, parse_expr};
use crate::lexer::Lexer;
use crate::program::Capture;
use crate::sql_scanner::{Scanned, SqlScanner, Stop};
use crate::value::leading_int;

/// The most words of a backslash command, including its name.
const MAX_WORDS: usize = 256;

/// Length limit of a statement's text in reports, in bytes.
const MAX_DISPLAY: usize = 127;

/// Parses a whole script.
///
/// # Errors
/// The first error, in pgbench's words, with its position.
pub fn parse(source: &Source) -> Result<Script, ParseError> {
    let text = source.text.split('\0').next().unwrap_or("");
    let mut parser = Parser {
        name: &source.name,
        text,
        scanner: SqlScanner::new(text),
        commands: Vec::new(),
        line: 1,
        line_offset: 0,
    };
    while parser.piece()? != Stop::End {}
    let commands = parser.commands;
    if commands.is_empty() {
        return Err(ParseError::Empty { script: source.name.clone() });
    }
    check_conditions(&source.name, &commands)?;
    Ok(Script { name: source.name.clone(), commands })
}

struct Parser<'t> {
    name: &'t str,
    text: &'t str,
    scanner: SqlScanner<'t>,
    commands: Vec<Command>,
    /// Line number of `line_offset`, up to which lines are counted.
    line: u32,
    line_offset: usize,
}

/// The backslash command that is being parsed, for its errors.
struct Context<'t> {
    line: u32,
    start: usize,
    word: &'t str,
}

/// A word of a command and the offset that errors report for it.
type Word<'t> = (&'t str, usize);

impl<'t> Parser<'t> {
    /// Parses one statement, and the backslash command that ended it if one did.
    fn piece(&mut self) -> Result<Stop, ParseError> {
        let Scanned { sql, start, stop } = self.scanner.next_piece();
        let sql = sql.trim_start_matches(|c: char| c.is_ascii() && crate::value::is_space(c as u8));
        if !sql.is_empty() {
            let line = self.line_at(start);
            self.commands.push(Command {
                line,
                word: "SQL".to_owned(),
                text: first_line(sql).to_owned(),
                kind: CommandKind::Sql { sql: sql.to_owned(), capture: Capture::None },
            });
        }
        if stop == Stop::Backslash {
            self.backslash_command()?;
        }
        Ok(stop)
    }

    /// Line of an offset; offsets must be ascending.
    fn line_at(&mut self, offset: usize) -> u32 {
        let between = &self.text.as_bytes()[self.line_offset..offset];
        self.line += between.iter().filter(|b| **b == b'\n').count() as u32;
        self.line_offset = offset;
        self.line
    }

    fn backslash_command(&mut self) -> Result<(), ParseError> {
        let start = self.scanner.position - 1;
        let line = self.line_at(start);
        let mut lexer = Lexer::new(self.text, self.scanner.position);
        let Some((word, _)) = lexer.word() else {
            self.scanner.position = lexer.position;
            return Ok(());
        };
        let context = Context { line, start, word };
        let kind = match word.to_ascii_lowercase().as_str() {
            "set" => {
                let Some((name, _)) = lexer.word() else {
                    return Err(self.error(&context, "missing argument"));
                };
                let expr = self.expr(&context, &mut lexer)?;
                Some(CommandKind::Set { name: name.to_owned(), expr })
            }
            "if" => Some(CommandKind::If(self.expr(&context, &mut lexer)?)),
            "elif" => Some(CommandKind::Elif(self.expr(&context, &mut lexer)?)),
            name => self.words_command(name, &context, &mut lexer)?,
        };
        self.scanner.position = lexer.position;
        if let Some(kind) = kind {
            let text = self.command_text(start, lexer.position).to_owned();
            self.commands.push(Command { line, word: word.to_owned(), text, kind });
        }
        Ok(())
    }

    /// Parses a command that consists of words. None if it belongs to the previous command.
    fn words_command(
        &mut self, name: &str, context: &Context<'t>, lexer: &mut Lexer<'t>,
    ) -> Result<Option<CommandKind>, ParseError> {
        let mut words: Vec<Word<'t>> = Vec::new();
        while let Some(word) = lexer.word() {
            if words.len() + 1 >= MAX_WORDS {
                return Err(self.error(context, "too many arguments"));
            }
            words.push(word);
        }
        let whole = self.command_text(context.start, lexer.position);
        let fail = |message| Err(self.error_in(context, whole, message, None, None));
        let texts = |words: &[Word<'t>]| words.iter().map(|(text, _)| text.to_string()).collect();
        let kind = match (name, words.as_slice()) {
            ("sleep", _) => self.sleep(context, whole, &words)?,
            ("shell", []) => return fail("missing command"),
            ("shell", words) => CommandKind::Shell { args: texts(words) },
            ("setshell", [] | [_]) => return fail("missing argument"),
            ("setshell", [(name, _), words @ ..]) => {
                CommandKind::SetShell { name: name.to_string(), args: texts(words) }
            }
            ("gset" | "aset", [_, _, ..]) => return fail("too many arguments"),
            ("gset" | "aset", words) => {
                let prefix = words.first().map_or("", |(prefix, _)| prefix).into();
                let gset = name == "gset";
                let capture = if gset { Capture::Gset { prefix } } else { Capture::Aset { prefix } };
                self.capture(context, capture)?;
                return Ok(None);
            }
            ("else", []) => CommandKind::Else,
            ("endif", []) => CommandKind::Endif,
            ("startpipeline", []) => CommandKind::StartPipeline,
            ("syncpipeline", []) => CommandKind::SyncPipeline,
            ("endpipeline", []) => CommandKind::EndPipeline,
            ("else" | "endif" | "startpipeline" | "syncpipeline" | "endpipeline", _) => {
                return fail("unexpected argument");
            }
            _ => return fail("invalid command"),
        };
        Ok(Some(kind))
    }

    /// Parses `\sleep 10 ms`, `\sleep 10ms` or `\sleep :x us`; the default unit is seconds.
    fn sleep(&self, context: &Context<'t>, whole: &str, words: &[Word<'t>]) -> Result<CommandKind, ParseError> {
        let fail = |message, detail, place: Option<usize>| Err(self.error_in(context, whole, message, detail, place));
        let (amount, unit) = match *words {
            [] => return fail("missing argument", None, None),
            [_, _, (_, place), ..] => return fail("too many arguments", None, Some(place)),
            [amount] => (amount, None),
            [amount, unit] => (amount, Some(unit)),
        };
        let (text, place) = amount;
        if let Some(name) = text.strip_prefix(':') {
            let unit_us = self.sleep_unit(context, whole, unit)?;
            return Ok(CommandKind::Sleep { amount: SleepText::Variable(name.to_owned()), unit_us });
        }
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
        let unit = match (rest, unit) {
            ("", unit) => unit,
            (glued, None) if glued.len() < digits.len() => Some((glued, place + text.len() - glued.len())),
            _ => {
                let message = "invalid sleep time, must be an integer";
                return fail(message, Some(text.to_owned()), Some(place));
            }
        };
        let unit_us = self.sleep_unit(context, whole, unit)?;
        let amount = SleepText::Constant(leading_int(text.as_bytes()));
        Ok(CommandKind::Sleep { amount, unit_us })
    }

    fn sleep_unit(&self, context: &Context<'t>, whole: &str, unit: Option<Word<'t>>) -> Result<i64, ParseError> {
        let Some((unit, place)) = unit else {
            return Ok(1_000_000);
        };
        match unit.to_ascii_lowercase().as_str() {
            "us" => Ok(1),
            "ms" => Ok(1_000),
            "s" => Ok(1_000_000),
            _ => {
                let message = "unrecognized time unit, must be us, ms or s";
                Err(self.error_in(context, whole, message, Some(unit.to_owned()), Some(place)))
            }
        }
    }

    /// Attaches `\gset` or `\aset` to the previous statement.
    fn capture(&mut self, context: &Context<'t>, capture: Capture) -> Result<(), ParseError> {
        let detail = match self.commands.last_mut() {
            Some(Command { kind: CommandKind::Sql { capture: before, .. }, .. }) => {
                if *before == Capture::None {
                    *before = capture;
                    return Ok(());
                }
                None
            }
            Some(command) => Some(command.text.clone()),
            None => None,
        };
        Err(ParseError::Syntax(Box::new(SyntaxError {
            script: self.name.to_owned(),
            line: context.line,
            message: "\\gset must follow an SQL command",
            detail,
            command: None,
            text: None,
            column: None,
        })))
    }

    fn expr(&self, context: &Context<'t>, lexer: &mut Lexer<'t>) -> Result<crate::ast::Expr, ParseError> {
        parse_expr(lexer).map_err(|error| self.expr_error(context, lexer, error))
    }

    /// The position of an error is the last byte of the last token. pgbench then reads on to the
    /// end of the line, where an invalid character takes precedence.
    fn expr_error(&self, context: &Context<'t>, lexer: &mut Lexer<'t>, mut error: ExprError) -> ParseError {
        let mut place = lexer.position - 1;
        while !lexer.at_newline {
            match lexer.token() {
                Ok(crate::lexer::Token::End) => break,
                Ok(_) => {}
                Err(later) => {
                    error = later;
                    place = lexer.position - 1;
                }
            }
        }
        let whole = self.command_text(context.start, lexer.position);
        let detail = (!error.detail.is_empty()).then_some(error.detail);
        self.error_in(context, whole, error.message, detail, Some(place))
    }

    fn command_text(&self, start: usize, end: usize) -> &'t str {
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }

    fn error(&self, context: &Context<'_>, message: &'static str) -> ParseError {
        ParseError::Syntax(Box::new(SyntaxError {
            script: self.name.to_owned(),
            line: context.line,
            message,
            detail: None,
            command: Some(context.word.to_owned()),
            text: None,
            column: None,
        }))
    }

    /// An error with the command's text, at an offset within it.
    fn error_in(
        &self, context: &Context<'_>, whole: &str, message: &'static str, detail: Option<String>, place: Option<usize>,
    ) -> ParseError {
        ParseError::Syntax(Box::new(SyntaxError {
            script: self.name.to_owned(),
            line: context.line,
            message,
            detail,
            command: Some(context.word.to_owned()),
            text: Some(whole.to_owned()),
            column: place.map(|place| place - context.start),
        }))
    }
}

fn first_line(sql: &str) -> &str {
    let line = sql.split(['\n', '\r']).next().unwrap_or("");
    let fits = line.char_indices().map(|(start, c)| start + c.len_utf8());
    &line[..fits.take_while(|end| *end <= MAX_DISPLAY).last().unwrap_or(0)]
}

fn check_conditions(script: &str, commands: &[Command]) -> Result<(), ParseError> {
    // Whether the \else of each open \if has been seen.
    let mut open: Vec<bool> = Vec::new();
    let fail =
        |number: usize, message| Err(ParseError::Condition { script: script.to_owned(), command: number, message });
    for (index, command) in commands.iter().enumerate() {
        let number = index + 1;
        match (&command.kind, open.last_mut()) {
            (CommandKind::If(_), _) => open.push(false),
            (CommandKind::Elif(_), None) => return fail(number, "\\elif without matching \\if"),
            (CommandKind::Elif(_), Some(true)) => return fail(number, "\\elif after \\else"),
            (CommandKind::Else, None) => return fail(number, "\\else without matching \\if"),
            (CommandKind::Else, Some(true)) => return fail(number, "\\else after \\else"),
            (CommandKind::Else, Some(seen)) => *seen = true,
            (CommandKind::Endif, None) => return fail(number, "\\endif without matching \\if"),
            (CommandKind::Endif, Some(_)) => {
                open.pop();
            }
            _ => {}
        }
    }
    if open.is_empty() { Ok(()) } else { fail(commands.len() + 1, "\\if without matching \\endif") }
}
