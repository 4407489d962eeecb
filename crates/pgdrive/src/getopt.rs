//! Parses options as GNU getopt_long does: clusters, abbreviations, operands anywhere.
//!
//! A library would have other rules and messages than those on which scripts for pgbench rely.

use std::fmt;
use std::iter::Peekable;

/// Begins the description of an optional argument. It is attached with a `=`, as getopt_long
/// requires, or is the next word if that can be nothing else: see [`Syntax::may_take`].
pub const OPTIONAL: &str = "[=";

#[derive(Debug, Clone, Copy)]
pub struct Syntax {
    pub long: &'static str,
    pub short: Option<char>,
    /// The argument's name in the help; None without an argument.
    pub argument: Option<&'static str>,
    is_argument: fn(&str) -> bool,
}

impl Syntax {
    /// An option without a letter and without an argument.
    pub const fn new(long: &'static str) -> Self {
        Self { long, short: None, argument: None, is_argument: no_word }
    }

    pub const fn short(mut self, letter: char) -> Self {
        self.short = Some(letter);
        self
    }

    pub const fn takes(mut self, argument: &'static str) -> Self {
        self.argument = Some(argument);
        self
    }

    /// Adds an optional argument; `is_argument` decides whether the next word is the argument or a database's name.
    pub const fn may_take(mut self, argument: &'static str, is_argument: fn(&str) -> bool) -> Self {
        self.argument = Some(argument);
        self.is_argument = is_argument;
        self
    }
}

impl fmt::Display for Syntax {
    /// Formats the option for messages: `-c/--client`, `--warmup`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(letter) = self.short {
            write!(f, "-{letter}/")?;
        }
        write!(f, "--{}", self.long)
    }
}

/// For [`Syntax::may_take`]: the next word is never the argument.
pub const fn no_word(_: &str) -> bool {
    false
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// An option, by its long name, with its argument.
    Option(&'static str, String),
    Operand(String),
}

/// An error of getopt_long, with its message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Complaint {
    #[error("unrecognized option '--{0}'")]
    Unrecognized(String),
    #[error("invalid option -- '{0}'")]
    Invalid(char),
    #[error("option requires an argument -- '{0}'")]
    ShortNeedsArgument(char),
    #[error("option '--{0}' requires an argument")]
    LongNeedsArgument(&'static str),
    #[error("option '--{0}' doesn't allow an argument")]
    TakesNoArgument(&'static str),
    /// An abbreviation such as `--p`, with the options that it may mean.
    #[error("option '--{name}' is ambiguous; possibilities: '--{}'", candidates.join("' '--"))]
    Ambiguous { name: String, candidates: Vec<&'static str> },
}

/// Parses `args` (without the program's name) with `table`; returns everything before the first
/// error, and the error. Operands come last, because getopt_long permutes them.
pub fn parse(table: &[Syntax], args: impl IntoIterator<Item = String>) -> (Vec<Found>, Option<Complaint>) {
    let mut found = Vec::new();
    let mut operands = Vec::new();
    let mut args = args.into_iter().peekable();
    let complaint = loop {
        let Some(arg) = args.next() else { break None };
        if arg == "--" {
            operands.extend(args.by_ref().map(Found::Operand));
        } else if let Some(long) = arg.strip_prefix("--") {
            match read_long(table, long, &mut args) {
                Ok(option) => found.push(option),
                Err(complaint) => break Some(complaint),
            }
        } else if let Some(cluster) = arg.strip_prefix('-').filter(|cluster| !cluster.is_empty()) {
            if let Err(complaint) = read_cluster(table, cluster, &mut args, &mut found) {
                break Some(complaint);
            }
        } else {
            operands.push(Found::Operand(arg));
        }
    };
    found.append(&mut operands);
    (found, complaint)
}

fn read_long(
    table: &[Syntax], text: &str, rest: &mut Peekable<impl Iterator<Item = String>>,
) -> Result<Found, Complaint> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let option = find_long(table, name)?;
    let value = match (option.argument, value) {
        (None, Some(_)) => return Err(Complaint::TakesNoArgument(option.long)),
        (None, None) => String::new(),
        (Some(_), Some(value)) => value,
        (Some(argument), None) if argument.starts_with(OPTIONAL) => {
            rest.next_if(|word| (option.is_argument)(word)).unwrap_or_default()
        }
        (Some(_), None) => rest.next().ok_or(Complaint::LongNeedsArgument(option.long))?,
    };
    Ok(Found::Option(option.long, value))
}

fn find_long<'t>(table: &'t [Syntax], name: &str) -> Result<&'t Syntax, Complaint> {
    if let Some(exact) = table.iter().find(|option| option.long == name) {
        return Ok(exact);
    }
    let candidates: Vec<&Syntax> = table.iter().filter(|option| option.long.starts_with(name)).collect();
    match candidates[..] {
        [] => Err(Complaint::Unrecognized(name.to_owned())),
        [one] => Ok(one),
        _ => {
            let candidates = candidates.iter().map(|option| option.long).collect();
            Err(Complaint::Ambiguous { name: name.to_owned(), candidates })
        }
    }
}

fn read_cluster(
    table: &[Syntax], cluster: &str, rest: &mut impl Iterator<Item = String>, found: &mut Vec<Found>,
) -> Result<(), Complaint> {
    for (at, letter) in cluster.char_indices() {
        let option = table.iter().find(|option| option.short == Some(letter)).ok_or(Complaint::Invalid(letter))?;
        if option.argument.is_none() {
            found.push(Found::Option(option.long, String::new()));
            continue;
        }
        let attached = &cluster[at + letter.len_utf8()..];
        let value = if attached.is_empty() {
            rest.next().ok_or(Complaint::ShortNeedsArgument(letter))?
        } else {
            attached.to_owned()
        };
        found.push(Found::Option(option.long, value));
        return Ok(());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Syntax] = &[
        Syntax::new("client").short('c').takes("NUM"),
        Syntax::new("connect").short('C'),
        Syntax::new("select-only").short('S'),
        Syntax::new("every").may_take("[=SECONDS]", |word| word.parse::<u32>().is_ok()),
    ];

    fn read(args: &[&str]) -> (Vec<Found>, Option<String>) {
        let (found, complaint) = parse(TABLE, args.iter().map(ToString::to_string));
        (found, complaint.map(|complaint| complaint.to_string()))
    }

    fn option(name: &'static str, value: &str) -> Found {
        Found::Option(name, value.to_owned())
    }

    #[test]
    fn arguments_are_given_as_to_getopt() {
        for args in [&["-c4"][..], &["-c", "4"], &["--client=4"], &["--client", "4"], &["--cl", "4"]] {
            assert_eq!(read(args), (vec![option("client", "4")], None), "{args:?}");
        }
        // one that may be left out
        let operand = |text: &str| Found::Operand(text.into());
        for (args, expected) in [
            (&["--every=4", "db"][..], [option("every", "4"), operand("db")]),
            (&["--every", "4", "db"], [option("every", "4"), operand("db")]),
            (&["db", "--every", "4"], [option("every", "4"), operand("db")]),
            (&["--every", "db"], [option("every", ""), operand("db")]),
            (&["db", "--every"], [option("every", ""), operand("db")]),
            (&["--every", "--", "4"], [option("every", ""), operand("4")]),
            (&["--every", "-S"], [option("every", ""), option("select-only", "")]),
        ] {
            assert_eq!(read(args), (expected.into(), None), "{args:?}");
        }
        // clusters and permuted operands
        let expected = vec![option("select-only", ""), option("client", "4"), Found::Operand("db".into())];
        assert_eq!(read(&["db", "-Sc4"]), (expected, None));
        let (found, _) = read(&["--", "-S"]);
        assert_eq!(found, [Found::Operand("-S".into())]);
        // complaints are getopts
        let complaint = |args: &[&str]| read(args).1.unwrap_or_default();
        assert_eq!(complaint(&["--nosuch"]), "unrecognized option '--nosuch'");
        assert_eq!(complaint(&["-Sy"]), "invalid option -- 'y'");
        assert_eq!(complaint(&["-c"]), "option requires an argument -- 'c'");
        assert_eq!(complaint(&["--client"]), "option '--client' requires an argument");
        assert_eq!(complaint(&["--connect=1"]), "option '--connect' doesn't allow an argument");
        assert_eq!(complaint(&["--c"]), "option '--c' is ambiguous; possibilities: '--client' '--connect'");
    }
}
