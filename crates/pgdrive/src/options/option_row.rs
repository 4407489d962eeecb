//! One row of the table of options: everything that the program knows about an option.

use super::option_values::Value;
use crate::called_as::CalledAs;
use crate::getopt::Syntax;
use crate::messages::Failure;

/// An option whose value is stored in a `G`, the options of its section of the help.
pub struct Row<G> {
    pub syntax: Syntax,
    pub help: &'static str,
    apply: Apply<G>,
    modes: Modes,
    is_in_pgbench: bool,
}

enum Apply<G> {
    Flag(fn(&mut G) -> &mut bool),
    Text(fn(&mut G) -> &mut Option<String>),
    Call(fn(&mut G)),
    Set(fn(&mut G, &Value<'_>) -> Result<(), Failure>),
}

/// The modes of the program (initialization, benchmarking) that accept an option.
enum Modes {
    OfItsSection,
    Any,
    /// [`Modes::Any`], but only the mode of its section under pgbench's name.
    AnyInPgdrive,
}

impl<G> Row<G> {
    /// An option without a letter, an argument and an effect.
    pub const fn new(long: &'static str, help: &'static str) -> Self {
        Self {
            syntax: Syntax::new(long),
            help,
            apply: Apply::Call(|_| {}),
            modes: Modes::OfItsSection,
            is_in_pgbench: true,
        }
    }

    pub const fn short(self, letter: char) -> Self {
        Self { syntax: self.syntax.short(letter), ..self }
    }

    pub const fn takes(self, argument: &'static str) -> Self {
        Self { syntax: self.syntax.takes(argument), ..self }
    }

    /// Adds an optional argument; `is_argument` decides whether the next word is the argument or
    /// the name of a database.
    pub const fn may_take(self, argument: &'static str, is_argument: fn(&str) -> bool) -> Self {
        Self { syntax: self.syntax.may_take(argument, is_argument), ..self }
    }

    pub const fn flag(self, field: fn(&mut G) -> &mut bool) -> Self {
        Self { apply: Apply::Flag(field), ..self }
    }

    pub const fn call(self, call: fn(&mut G)) -> Self {
        Self { apply: Apply::Call(call), ..self }
    }

    pub const fn text(self, field: fn(&mut G) -> &mut Option<String>) -> Self {
        Self { apply: Apply::Text(field), ..self }
    }

    pub const fn set(self, set: fn(&mut G, &Value<'_>) -> Result<(), Failure>) -> Self {
        Self { apply: Apply::Set(set), ..self }
    }

    pub const fn in_any_mode(self) -> Self {
        Self { modes: Modes::Any, ..self }
    }

    pub const fn in_any_mode_of_pgdrive(self) -> Self {
        Self { modes: Modes::AnyInPgdrive, ..self }
    }

    /// Hides the option under pgbench's name: results and datasets with it would not be pgbench's.
    pub const fn not_in_pgbench(self) -> Self {
        Self { is_in_pgbench: false, ..self }
    }

    pub fn is_known_as(&self, called_as: CalledAs) -> bool {
        self.is_in_pgbench || called_as == CalledAs::Pgdrive
    }

    /// Whether only the mode of its section accepts the option.
    pub fn is_of_its_mode(&self, called_as: CalledAs) -> bool {
        match self.modes {
            Modes::OfItsSection => true,
            Modes::Any => false,
            Modes::AnyInPgdrive => called_as == CalledAs::Pgbench,
        }
    }

    pub fn apply(&self, given: &mut G, value: &Value<'_>) -> Result<(), Failure> {
        match self.apply {
            Apply::Flag(field) => *field(given) = true,
            Apply::Text(field) => *field(given) = Some(value.text.to_owned()),
            Apply::Call(call) => call(given),
            Apply::Set(set) => set(given, value)?,
        }
        Ok(())
    }
}
