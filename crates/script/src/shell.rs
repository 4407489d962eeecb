//! `\shell` and `\setshell`: the command that is run, and the integer that it prints.

use crate::error::EvalError;
use crate::value::{Fault, is_space, leading_int};
use crate::vars::{SlotId, Symbols, Vars};

const MAX_COMMAND_LENGTH: usize = 254;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellArg {
    /// Constant text (a doubled colon at its beginning is already a single one).
    Text(Box<str>),
    /// A variable's value.
    Var {
        slot: SlotId,
        /// The text in the script: `:name`.
        source: Box<str>,
    },
}

impl ShellArg {
    /// `name` and `::name` are text, and `:name` is a variable.
    pub(crate) fn new(word: &str, symbols: &mut Symbols) -> ShellArg {
        match word.strip_prefix(':') {
            Some(text) if text.starts_with(':') => ShellArg::Text(text.into()),
            Some(name) => ShellArg::Var { slot: symbols.slot(name), source: word.into() },
            None => ShellArg::Text(word.into()),
        }
    }

    fn source(&self) -> &str {
        match self {
            ShellArg::Text(text) => text,
            ShellArg::Var { source, .. } => source,
        }
    }
}

/// The word with which messages about a shell command begin.
fn program(args: &[ShellArg]) -> String {
    args.first().map(|arg| arg.source().to_owned()).unwrap_or_default()
}

pub(crate) fn join(args: &[ShellArg], vars: &Vars, out: &mut Vec<u8>) -> Result<(), Fault> {
    let start = out.len();
    for (index, arg) in args.iter().enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        match arg {
            ShellArg::Text(text) => out.extend_from_slice(text.as_bytes()),
            ShellArg::Var { slot, source } => {
                if !vars.write_text(*slot, out) {
                    let argument = source.to_string();
                    let program = program(args);
                    return Err(Box::new(EvalError::ShellUndefined { program, argument }));
                }
            }
        }
        if out.len() - start > MAX_COMMAND_LENGTH {
            return Err(Box::new(EvalError::ShellTooLong { program: program(args) }));
        }
    }
    Ok(())
}

/// The value of `\setshell`: the first line that the command printed must be an integer, with
/// optional blanks around it. As in pgbench it is truncated to 32 bits.
///
/// # Errors
/// The line is not an integer.
pub fn shell_result(args: &[ShellArg], line: &[u8]) -> Result<i64, Box<EvalError>> {
    let trimmed = line.trim_ascii();
    let digits = trimmed.strip_prefix(b"-").or(trimmed.strip_prefix(b"+")).unwrap_or(trimmed);
    let blank = line.iter().all(|b| is_space(*b)) && !line.is_empty();
    // strtol reads blanks alone as zero.
    if blank || (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit)) {
        return Ok(i64::from(leading_int(line) as i32));
    }
    Err(Box::new(EvalError::ShellNotAnInteger {
        program: program(args),
        output: String::from_utf8_lossy(line).into_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn args(words: &[&str]) -> (Vec<ShellArg>, Vars) {
        let mut symbols = Symbols::new();
        let args = words.iter().map(|word| ShellArg::new(word, &mut symbols)).collect();
        let mut vars = Vars::new(Arc::new(symbols));
        if let Some(slot) = vars.symbols().lookup("one") {
            vars.set_text(slot, b"1.0");
        }
        (args, vars)
    }

    fn joined(words: &[&str]) -> Result<String, String> {
        let (args, vars) = args(words);
        let mut out = Vec::new();
        join(&args, &vars, &mut out).map_err(|e| e.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn words_are_joined() {
        assert_eq!(joined(&["echo", ":one", "::one", "a:one"]).unwrap(), "echo 1.0 :one a:one");
        assert_eq!(joined(&["echo", ":no"]).unwrap_err(), "echo: undefined variable \":no\"");
        let long = "x".repeat(250);
        assert!(joined(&["abc", &long]).is_ok());
        assert_eq!(joined(&["abcd", &long]).unwrap_err(), "abcd: shell command is too long");
    }

    #[test]
    fn results_are_integers() {
        let (args, _) = args(&["echo"]);
        for (line, value) in [("1\n", 1), (" -7 \n", -7), ("4294967297", 1), ("\n", 0)] {
            assert_eq!(shell_result(&args, line.as_bytes()), Ok(value), "{line:?}");
        }
        let error = shell_result(&args, b"one").unwrap_err().to_string();
        assert_eq!(error, "echo: shell command must return an integer (not \"one\")");
        assert!(shell_result(&args, b"").is_err());
        assert!(shell_result(&args, b"1.5\n").is_err());
    }
}
