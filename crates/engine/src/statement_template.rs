//! Statements formatted as bytes once: only parameters are written while the load runs.

use pgdyno_script::{Capture, Op, Program, QueryMode, SlotId, Sql, Statement, Vars};
use pgdyno_wire::{BindTemplate, Columns, EncodeError, frontend};

use crate::spec::WeightedProgram;

/// Whether a connection has prepared a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    No,
    /// It was prepared in an exchange that failed: before another Parse, the name must be closed.
    Perhaps,
    Yes,
}

/// One statement, ready for its parameters.
#[derive(Debug)]
pub enum Template {
    /// A Query message: text that contains variables.
    Simple(Simple),
    /// Bind and Execute of a statement, with a Parse before them where needed.
    Bound(Bound),
}

/// A statement whose text is written for each execution.
#[derive(Debug)]
pub struct Simple {
    statement: Statement,
}

/// The constant parts of Parse, Bind and Execute.
#[derive(Debug)]
pub struct Bound {
    /// A Close of the name, which also succeeds if there is no such statement; empty for unnamed statements.
    close: Vec<u8>,
    /// The whole Parse message.
    parse: Vec<u8>,
    /// The text in which errors count positions.
    sql: String,
    /// The name of the prepared statement; empty for unnamed ones.
    name: String,
    /// Whether one Parse serves all executions on a connection.
    pub prepared: bool,
    /// Bind and Execute without the values of `params`.
    bind: BindTemplate,
    params: Vec<SlotId>,
}

impl Template {
    /// Appends the statement to `out`. `parsed` says whether this connection has prepared it. The
    /// caller appends the Sync, because a pipeline has one for many statements.
    pub fn write(&self, vars: &Vars, parsed: Parsed, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self {
            Self::Simple(simple) => write_query(&simple.statement, vars, out),
            Self::Bound(bound) => bound.write(vars, parsed, out),
        }
    }

    /// Appends the messages that prepare the statement for later; returns whether it appended any.
    pub fn prepare(&self, parsed: Parsed, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Bound(bound) if bound.prepared && parsed != Parsed::Yes => {
                bound.write_parse(parsed, out);
                true
            }
            _ => false,
        }
    }

    pub fn is_prepared(&self) -> bool {
        matches!(self, Self::Bound(bound) if bound.prepared)
    }

    /// The text that the server received, given the bytes that were sent.
    pub fn sql<'a>(&'a self, sent: &'a [u8]) -> std::borrow::Cow<'a, str> {
        match self {
            // between the type and the length, and the terminating zero
            Self::Simple(_) => String::from_utf8_lossy(sent.get(5..sent.len().max(6) - 1).unwrap_or_default()),
            Self::Bound(bound) => bound.sql.as_str().into(),
        }
    }

    /// How pgbench names the statement when it sends it: its name, or its text if it has none.
    pub fn debug_name<'a>(&'a self, sent: &'a [u8]) -> std::borrow::Cow<'a, str> {
        match self {
            Self::Bound(bound) if bound.prepared => bound.name.as_str().into(),
            _ => self.sql(sent),
        }
    }
}

impl Bound {
    fn write_parse(&self, parsed: Parsed, out: &mut Vec<u8>) {
        if parsed == Parsed::Perhaps {
            out.extend_from_slice(&self.close);
        }
        out.extend_from_slice(&self.parse);
    }

    fn write(&self, vars: &Vars, parsed: Parsed, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if !(self.prepared && parsed == Parsed::Yes) {
            self.write_parse(parsed, out);
        }
        self.bind.append(out, |index, out| vars.write_text(self.params[usize::from(index)], out))
    }
}

fn write_query(statement: &Statement, vars: &Vars, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = out.len();
    out.extend_from_slice(b"Q\0\0\0\0");
    statement.write_simple(vars, out);
    out.push(0);
    let bytes = out.len() - start - 1;
    let Ok(length) = i32::try_from(bytes) else {
        out.truncate(start);
        return Err(EncodeError::TooLong);
    };
    out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Templates by script and statement. Statements are prepared as `P_0`, `P_1`… across all scripts, as by pgbench.
pub fn templates(programs: &[WeightedProgram], mode: QueryMode) -> Result<Vec<Vec<Template>>, EncodeError> {
    let mut number = 0;
    programs
        .iter()
        .map(|p| {
            let first = number;
            number += p.program.statements.len();
            of_program(first, &p.program, mode)
        })
        .collect()
}

fn of_program(first: usize, program: &Program, mode: QueryMode) -> Result<Vec<Template>, EncodeError> {
    let captured = captured_statements(program);
    program
        .statements
        .iter()
        .zip(captured)
        .map(|(statement, captured)| template(first, statement, mode, captured))
        .collect()
}

fn captured_statements(program: &Program) -> Vec<bool> {
    let mut wanted = vec![false; program.statements.len()];
    for op in &program.ops {
        if let Op::Sql { statement, capture } = op {
            wanted[*statement] |= !matches!(capture, Capture::None);
        }
    }
    wanted
}

fn template(first: usize, statement: &Statement, mode: QueryMode, captured: bool) -> Result<Template, EncodeError> {
    let (sql, params) = match &statement.sql {
        Sql::Simple(_) => return Ok(Template::Simple(Simple { statement: statement.clone() })),
        Sql::Extended { sql, params } => (sql, params),
    };
    let prepared = mode == QueryMode::Prepared;
    let name = if prepared { format!("P_{}", first + statement.id) } else { String::new() };
    let mut close = Vec::new();
    if prepared {
        frontend::close_statement(&mut close, &name)?;
    }
    let mut parse = Vec::new();
    frontend::parse(&mut parse, &name, sql, &[])?;
    let columns = if captured { Columns::Described } else { Columns::Undescribed };
    let parameters = u16::try_from(params.len()).map_err(|_| EncodeError::TooLong)?;
    Ok(Template::Bound(Bound {
        close,
        parse,
        sql: sql.clone(),
        prepared,
        bind: BindTemplate::new(&name, parameters, columns)?,
        name,
        params: params.clone(),
    }))
}
