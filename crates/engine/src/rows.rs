//! Rows that a script wants: `\gset` and `\aset`.

use pgdyno_script::{Capture, Symbols, Vars};
use pgdyno_wire::Reply;

use crate::abort::{Abort, Form};

/// What is done with the rows of the statement under way.
#[derive(Debug, Default)]
pub struct Rows {
    prefix: String,
    wish: Wish,
    columns: Vec<String>,
    last: Vec<Option<String>>,
    count: usize,
    results: usize,
    /// Columns and values of the last result that had rows, for `\aset`.
    assigned: Vec<(String, String)>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Wish {
    #[default]
    Nothing,
    /// Exactly one row, of the last result.
    One,
    /// The last row of every result.
    Any,
}

impl Rows {
    /// A statement is about to be sent.
    pub fn begin(&mut self, capture: &Capture) {
        self.wish = match capture {
            Capture::None => Wish::Nothing,
            Capture::Gset { .. } => Wish::One,
            Capture::Aset { .. } => Wish::Any,
        };
        if let Capture::Gset { prefix } | Capture::Aset { prefix } = capture {
            self.prefix.clear();
            self.prefix.push_str(prefix);
        }
        self.results = 0;
        if self.wish != Wish::Nothing {
            self.columns.clear();
            self.assigned.clear();
            self.count = 0;
        }
    }

    /// Whether rows are wanted at all.
    #[must_use]
    pub fn wanted(&self) -> bool {
        self.wish != Wish::Nothing
    }

    /// Number of the last result.
    #[must_use]
    pub fn last_query(&self) -> usize {
        self.results.saturating_sub(1)
    }

    /// Number of the result that is under way.
    #[must_use]
    pub fn query(&self) -> usize {
        self.results
    }

    /// Takes a reply that is not the end of the exchange.
    pub fn take(&mut self, reply: &Reply<'_>) {
        match reply {
            Reply::RowDescription(columns) if self.wish != Wish::Nothing => {
                self.columns = columns
                    .fields()
                    .map(|field| String::from_utf8_lossy(field.name).into_owned())
                    .collect();
                self.count = 0;
            }
            Reply::Row(row) if self.wish != Wish::Nothing => {
                self.last = row
                    .values()
                    .map(|value| value.map(|v| String::from_utf8_lossy(v).into_owned()))
                    .collect();
                self.count += 1;
            }
            Reply::Complete(_) => {
                self.results += 1;
                if self.wish == Wish::Any && self.count > 0 {
                    self.keep();
                }
            }
            Reply::EmptyQuery => self.results += 1,
            _ => {}
        }
    }

    fn keep(&mut self) {
        for (column, value) in self.columns.iter().zip(&self.last) {
            let name = format!("{}{column}", self.prefix);
            self.assigned
                .push((name, value.clone().unwrap_or_default()));
        }
    }

    /// Sets the variables, now that the statement has succeeded.
    ///
    /// # Errors
    /// In pgbench's words, when the rows are not what `\gset` needs.
    pub fn assign(&mut self, vars: &mut Vars, symbols: &Symbols) -> Result<(), Abort> {
        match self.wish {
            Wish::Nothing => return Ok(()),
            Wish::One if self.columns.is_empty() => {
                return Err(Abort::new(Form::Rows, "expected one row, got 0"));
            }
            Wish::One if self.count != 1 => {
                let message = format!("expected one row, got {}", self.count);
                return Err(Abort::new(Form::Rows, message));
            }
            Wish::One => self.keep(),
            Wish::Any => {}
        }
        let context = if self.wish == Wish::One {
            "gset"
        } else {
            "aset"
        };
        for (name, value) in self.assigned.drain(..) {
            match symbols.column(context, &name) {
                // a name that no script mentions has no slot, and nobody to read it
                Ok(None) => {}
                Ok(Some(slot)) => vars.set_text(slot, value.as_bytes()),
                Err(error) => {
                    let message = format!("error storing into variable {name}");
                    return Err(Abort::new(Form::Rows, message).because(error));
                }
            }
        }
        Ok(())
    }
}
