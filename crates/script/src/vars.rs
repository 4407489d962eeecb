//! Variables: their names exist once for a run, and their values once for each client.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{EvalError, InvalidName};
use crate::value::{Fault, TextFault, Value};

/// The target of `\set` and `\setshell`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Slot(SlotId),
    /// A name that a variable cannot have: an error, but only when the command runs.
    Invalid(Box<str>),
}

/// The position of a variable's value in every client's [`Vars`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotId(u32);

impl SlotId {
    /// Index from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Whether a variable can have this name: ASCII letters, digits (not first), `_`, anything beyond ASCII; not empty.
pub fn valid_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit()) && !name.is_empty() && name.bytes().all(is_name_byte)
}

/// Whether a byte may be part of a variable's name.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// All variable names that the programs of a run know.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    names: Vec<Box<str>>,
    slots: HashMap<Box<str>, SlotId>,
}

impl Symbols {
    pub fn new() -> Symbols {
        Symbols::default()
    }

    /// The slot of a name, which is assigned now if it is new. The name is not checked: expressions
    /// may read names to which nothing can be assigned.
    pub fn slot(&mut self, name: &str) -> SlotId {
        if let Some(slot) = self.slots.get(name) {
            return *slot;
        }
        let slot = SlotId(u32::try_from(self.names.len()).unwrap_or(u32::MAX));
        self.names.push(name.into());
        self.slots.insert(name.into(), slot);
        slot
    }

    /// The slot of a name, if any program reads or assigns it.
    pub fn lookup(&self, name: &str) -> Option<SlotId> {
        self.slots.get(name).copied()
    }

    /// The slot for a column of `\gset` or `\aset`; None if no program reads it.
    pub fn column(&self, context: &'static str, name: &str) -> Result<Option<SlotId>, InvalidName> {
        if valid_name(name) { Ok(self.lookup(name)) } else { Err(InvalidName { context, name: name.to_owned() }) }
    }

    pub fn name(&self, slot: SlotId) -> &str {
        &self.names[slot.index()]
    }

    pub fn count(&self) -> usize {
        self.names.len()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Content {
    Unset,
    Value,
    /// `text` is the current value, and its type has not been needed yet.
    Text,
    /// `text` is the current value, and `value` is its value in expressions.
    TypedText,
}

#[derive(Clone, Debug)]
struct Slot {
    content: Content,
    value: Value,
    /// Kept when a value replaces a text, so that the next text needs no allocation. Most variables
    /// never have a text, and there may be many thousand clients.
    text: Option<Box<Text>>,
}

#[derive(Clone, Debug, Default)]
struct Text(Vec<u8>);

impl Slot {
    fn text(&self) -> &[u8] {
        self.text.as_deref().map_or(&[], |text| &text.0)
    }
}

#[derive(Clone, Debug)]
pub struct Vars {
    symbols: Arc<Symbols>,
    slots: Box<[Slot]>,
}

impl Vars {
    /// All variables of `symbols`, unset. Compile all programs before this.
    pub fn new(symbols: Arc<Symbols>) -> Vars {
        let unset = Slot { content: Content::Unset, value: Value::Null, text: None };
        let slots = vec![unset; symbols.count()].into();
        Vars { symbols, slots }
    }

    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    #[inline]
    pub fn set_value(&mut self, slot: SlotId, value: Value) {
        let slot = &mut self.slots[slot.index()];
        slot.content = Content::Value;
        slot.value = value;
    }

    /// Assigns a text, as `-D` and `\gset` do. Expressions determine its type ([`Vars::get`]); SQL uses it unchanged.
    pub fn set_text(&mut self, slot: SlotId, text: &[u8]) {
        let slot = &mut self.slots[slot.index()];
        slot.content = Content::Text;
        let Text(kept) = &mut **slot.text.get_or_insert_default();
        kept.clear();
        kept.extend_from_slice(text);
    }

    /// Assigns to the target of `\set` or `\setshell` (`context`).
    #[inline]
    pub fn assign(&mut self, target: &Target, context: &'static str, value: Value) -> Result<(), InvalidName> {
        match target {
            Target::Slot(slot) => {
                self.set_value(*slot, value);
                Ok(())
            }
            Target::Invalid(name) => Err(InvalidName { context, name: name.to_string() }),
        }
    }

    /// The value for an expression. The type of a text is determined on first use: null, boolean, integer or double.
    ///
    /// # Errors
    /// The variable is not set, or its text is none of these.
    #[inline]
    pub fn get(&mut self, slot: SlotId) -> Result<Value, Box<EvalError>> {
        let content = &self.slots[slot.index()];
        match content.content {
            Content::Value | Content::TypedText => Ok(content.value),
            Content::Text => self.type_text(slot),
            Content::Unset => Err(self.undefined_error(slot)),
        }
    }

    /// Appends the value as text for SQL; returns false and appends nothing if it is not set.
    pub fn write_text(&self, slot: SlotId, out: &mut Vec<u8>) -> bool {
        let slot = &self.slots[slot.index()];
        match slot.content {
            Content::Unset => return false,
            Content::Value => slot.value.write_text(out),
            Content::Text | Content::TypedText => out.extend_from_slice(slot.text()),
        }
        true
    }

    #[cold]
    fn undefined_error(&self, slot: SlotId) -> Fault {
        let name = self.symbols.name(slot).to_owned();
        Box::new(EvalError::UndefinedVariable { name })
    }

    #[cold]
    fn type_text(&mut self, id: SlotId) -> Result<Value, Fault> {
        let slot = &mut self.slots[id.index()];
        match Value::from_text(slot.text()) {
            Ok(value) => {
                slot.value = value;
                slot.content = Content::TypedText;
                Ok(value)
            }
            Err(fault) => {
                let text = String::from_utf8_lossy(slot.text()).into_owned();
                Err(Box::new(match fault {
                    TextFault::OutOfRange => EvalError::BigintOutOfRange { text },
                    TextFault::NotAnInteger => EvalError::NotABigint { text },
                    // pgbench fails on an empty text without a message; this reports one.
                    TextFault::Malformed | TextFault::Empty => {
                        let name = self.symbols.name(id).to_owned();
                        EvalError::MalformedVariable { name, text }
                    }
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str) -> (Vars, SlotId) {
        let mut symbols = Symbols::new();
        let slot = symbols.slot(name);
        (Vars::new(Arc::new(symbols)), slot)
    }

    fn text(vars: &Vars, slot: SlotId) -> Option<String> {
        let mut out = Vec::new();
        vars.write_text(slot, &mut out).then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn names_are_checked_and_have_one_slot() {
        let mut symbols = Symbols::new();
        let (a, b) = (symbols.slot("a"), symbols.slot("b"));
        assert_eq!((symbols.slot("a"), symbols.lookup("b"), symbols.count()), (a, Some(b), 2));
        assert_eq!((symbols.name(b), symbols.lookup("c")), ("b", None));
        assert_eq!(symbols.column("gset", "a"), Ok(Some(a)));
        assert_eq!(symbols.column("gset", "unread"), Ok(None));
        let error = symbols.column("gset", "?column?").unwrap_err();
        assert_eq!(error.to_string(), "gset: invalid variable name: \"?column?\"");
        for name in ["a", "_", "A9", "é", "x_1"] {
            assert!(valid_name(name), "{name}");
        }
        for name in ["", "9a", "a b", ".", "?column?", "a$"] {
            assert!(!valid_name(name), "{name}");
        }
    }

    #[test]
    fn text_stays_as_it_is_in_sql_and_is_typed_in_expressions() {
        let (mut vars, x) = one("x");
        assert_eq!(text(&vars, x), None);
        vars.set_text(x, b"+007");
        assert_eq!(vars.get(x), Ok(Value::Int(7)));
        assert_eq!(text(&vars, x).as_deref(), Some("+007"));
        vars.set_value(x, Value::Null);
        assert_eq!(text(&vars, x).as_deref(), Some("NULL"));
        vars.set_text(x, b"on");
        assert_eq!(vars.get(x), Ok(Value::Bool(true)));
        // texts that are no values
        let (mut vars, x) = one("x");
        for (text, message) in [
            ("", "malformed variable \"x\" value: \"\""),
            ("99999999999999999999", "value \"99999999999999999999\" is out of range for type bigint"),
            ("+", "invalid input syntax for type bigint: \"+\""),
        ] {
            vars.set_text(x, text.as_bytes());
            assert_eq!(vars.get(x).unwrap_err().to_string(), message);
        }
    }
}
