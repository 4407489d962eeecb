//! Rows that `\gset`, `\aset` or a driver read.

use pgdyno_script::{Capture, InvalidName, SlotId, Symbols, Vars};
use pgdyno_wire::Reply;

use crate::answer::Answer;
use crate::client_abort::{Abort, Form};
use crate::command_record::RowCounts;

/// What happens to the rows of the current statement.
#[derive(Debug, Default)]
pub struct RowReader {
    expected: ExpectedRows,
    results: usize,
    row_counts: RowCounts,
    /// None for a client whose scripts read no rows: there may be many thousand of these.
    captured: Option<Box<CapturedRows>>,
    /// The answer for the driver; None for a client without one.
    answer: Option<Box<Answer>>,
}

/// Rows whose values become variables.
#[derive(Debug, Default)]
struct CapturedRows {
    prefix: String,
    /// The columns of the current result, or of the one before; a result with rows may have no columns.
    columns: Vec<String>,
    last: Vec<Option<Vec<u8>>>,
    /// Number of rows of the current result; None while its columns have not been described, as for a command.
    count: Option<usize>,
    /// Number of rows of the last complete result, likewise.
    last_count: Option<usize>,
    /// The values for variables; with several results, those of the last. There are never more than
    /// variables, however many results a server sends.
    assigned: Vec<(SlotId, Vec<u8>)>,
    /// The first column whose name cannot be that of a variable.
    refused: Option<(String, InvalidName)>,
    /// Number of the result with that column.
    refused_in: Option<usize>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ExpectedRows {
    #[default]
    None,
    /// Exactly one row, of the last result.
    One,
    /// The last row of every result.
    Any,
}

impl RowReader {
    /// Prepares for the rows of a statement that is about to be sent.
    pub fn begin(&mut self, capture: &Capture) {
        self.expected = match capture {
            Capture::None => ExpectedRows::None,
            Capture::Gset { .. } => ExpectedRows::One,
            Capture::Aset { .. } => ExpectedRows::Any,
        };
        self.results = 0;
        self.row_counts = RowCounts::default();
        if let Capture::Gset { prefix } | Capture::Aset { prefix } = capture {
            let captured = self.captured.get_or_insert_default();
            captured.prefix.clear();
            captured.prefix.push_str(prefix);
            captured.assigned.clear();
            captured.refused = None;
            captured.refused_in = None;
            captured.count = None;
            captured.last_count = None;
        }
    }

    pub fn begin_answer(&mut self) {
        self.expected = ExpectedRows::None;
        self.results = 0;
        self.row_counts = RowCounts::default();
        self.answer.get_or_insert_default().clear();
    }

    pub fn take_answer(&mut self) -> Box<Answer> {
        self.answer.take().unwrap_or_default()
    }

    /// Takes the answer back, so that its memory serves the next one.
    pub fn return_answer(&mut self, mut answer: Box<Answer>) {
        answer.clear();
        self.answer = Some(answer);
    }

    pub fn reads_rows(&self) -> bool {
        self.expected != ExpectedRows::None
    }

    /// Number of the result that a script cannot use: the last, unless another has columns that cannot be variables.
    pub fn unfit_query(&self) -> usize {
        let refused_in = self.captured.as_ref().and_then(|captured| captured.refused_in);
        refused_in.unwrap_or(self.results.saturating_sub(1))
    }

    /// Takes the rows of the results since the statement began.
    pub fn take_row_counts(&mut self) -> RowCounts {
        std::mem::take(&mut self.row_counts)
    }

    pub fn query(&self) -> usize {
        self.results
    }

    pub fn take(&mut self, reply: &Reply<'_>, symbols: &Symbols) {
        self.results += usize::from(matches!(reply, Reply::Complete(_) | Reply::EmptyQuery));
        if let Reply::Complete(tag) = reply
            && let Some(rows) = tag.rows()
        {
            self.row_counts.add(RowCounts { results: 1, rows });
        }
        if let Some(answer) = &mut self.answer {
            answer.take(reply);
        }
        if let (ExpectedRows::One | ExpectedRows::Any, Some(captured)) = (self.expected, &mut self.captured) {
            captured.take(reply, self.expected, symbols);
            if captured.refused.is_some() && captured.refused_in.is_none() {
                captured.refused_in = Some(self.results.saturating_sub(1));
            }
        }
    }

    /// Sets the variables after the statement has succeeded.
    pub fn assign(&mut self, vars: &mut Vars, symbols: &Symbols) -> Result<(), Abort> {
        match (self.expected, &mut self.captured) {
            (ExpectedRows::One | ExpectedRows::Any, Some(captured)) => captured.assign(self.expected, vars, symbols),
            _ => Ok(()),
        }
    }
}

impl CapturedRows {
    fn take(&mut self, reply: &Reply<'_>, expected: ExpectedRows, symbols: &Symbols) {
        match reply {
            Reply::RowDescription(columns) => {
                self.columns = columns.fields().map(|field| String::from_utf8_lossy(field.name).into_owned()).collect();
                self.count = Some(0);
            }
            Reply::Row(row) => {
                self.last = row.values().map(|value| value.map(<[u8]>::to_vec)).collect();
                self.count = self.count.map(|count| count + 1);
            }
            Reply::Complete(_) | Reply::EmptyQuery => {
                self.last_count = self.count.take();
                if expected == ExpectedRows::Any && self.last_count.is_some_and(|count| count > 0) {
                    self.keep("aset", symbols);
                }
            }
            _ => {}
        }
    }

    fn keep(&mut self, context: &'static str, symbols: &Symbols) {
        for (column, value) in self.columns.iter().zip(&self.last) {
            let name = format!("{}{column}", self.prefix);
            let value = value.clone().unwrap_or_default();
            match symbols.column(context, &name) {
                // a name that no script uses has no slot, so its value is dropped
                Ok(None) => {}
                Ok(Some(slot)) => match self.assigned.iter_mut().find(|(known, _)| *known == slot) {
                    Some((_, known)) => *known = value,
                    None => self.assigned.push((slot, value)),
                },
                Err(error) => {
                    self.refused.get_or_insert((name, error));
                }
            }
        }
    }

    fn assign(&mut self, expected: ExpectedRows, vars: &mut Vars, symbols: &Symbols) -> Result<(), Abort> {
        match expected {
            ExpectedRows::One if self.last_count != Some(1) => {
                let rows = self.last_count.unwrap_or(0);
                let message = format!("expected one row, got {rows}");
                return Err(Abort::new(Form::Rows, message));
            }
            ExpectedRows::One => self.keep("gset", symbols),
            ExpectedRows::Any | ExpectedRows::None => {}
        }
        if let Some((name, error)) = self.refused.take() {
            let message = format!("error storing into variable {name}");
            return Err(Abort::new(Form::Rows, message).because(error));
        }
        for (slot, value) in self.assigned.drain(..) {
            vars.set_text(slot, &value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_tests::message;
    use pgdyno_wire::{Capture as Captured, Exchange};

    #[test]
    fn results_without_end_are_one_value_a_variable() {
        let mut symbols = Symbols::new();
        let slot = symbols.slot("a");
        let mut rows = RowReader::default();
        rows.begin(&Capture::Aset { prefix: "".into() });
        let mut exchange = Exchange::new(Captured::Rows, true);
        let column = |name: &[u8]| [name, &[0; 19]].concat();
        let columns = [&[0, 2], &column(b"a")[..], &column(b"b")].concat();
        for value in 10..99u8 {
            let text = value.to_string();
            let row = [b"\0\x02\0\0\0\x02", text.as_bytes(), &[0xff; 4]].concat();
            let answer = [message(b'T', &columns), message(b'D', &row), message(b'C', b"SELECT 1\0")].concat();
            let mut input = answer.as_slice();
            while let Ok(Some(reply)) = exchange.next(&mut input) {
                rows.take(&reply, &symbols);
            }
        }
        assert_eq!(rows.unfit_query(), 88, "all were seen");
        assert_eq!(rows.captured.expect("rows are captured").assigned, [(slot, b"98".to_vec())]);
    }
}
