//! Statements as bytes, formatted once: only parameters are written while running.

use pgdyno_script::{Capture, Op, Program, QueryMode, SlotId, Sql, Statement, Vars};
use pgdyno_wire::{EncodeError, frontend};

/// One statement, ready to be filled in.
#[derive(Debug)]
pub enum Template {
    /// A Query message: text with variables in it.
    Simple(Statement),
    /// Bind and Execute of a statement that is parsed before.
    Bound(Bound),
}

/// The parts of Parse, Bind and Execute that never change.
#[derive(Debug)]
pub struct Bound {
    /// The whole Parse message.
    parse: Vec<u8>,
    /// Whether one Parse serves all executions on a connection.
    pub prepared: bool,
    /// Bind from its type to the number of parameters.
    head: Vec<u8>,
    params: Vec<SlotId>,
    /// Result formats, Describe where rows are wanted, Execute.
    tail: Vec<u8>,
}

impl Template {
    /// Appends the statement to `out`. `parsed` says that this connection has it prepared.
    /// Sync is the caller's: a pipeline has one for many statements.
    pub fn write(&self, vars: &Vars, parsed: bool, out: &mut Vec<u8>) {
        match self {
            Self::Simple(statement) => write_query(statement, vars, out),
            Self::Bound(bound) => bound.write(vars, parsed, out),
        }
    }
}

impl Bound {
    fn write(&self, vars: &Vars, parsed: bool, out: &mut Vec<u8>) {
        if !(self.prepared && parsed) {
            out.extend_from_slice(&self.parse);
        }
        let start = out.len();
        out.extend_from_slice(&self.head);
        for &slot in &self.params {
            let at = out.len();
            out.extend_from_slice(&[0xff; 4]); // -1: null
            if vars.write_text(slot, out) {
                patch_length(out, at, at + 4);
            }
        }
        out.extend_from_slice(&[0, 0]); // all results as text
        patch_length(out, start + 1, start + 1);
        out.extend_from_slice(&self.tail);
    }
}

/// Writes the distance from `from` to the end into the four bytes at `at`.
fn patch_length(out: &mut [u8], at: usize, from: usize) {
    let length = (out.len() - from) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn write_query(statement: &Statement, vars: &Vars, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(b"Q\0\0\0\0");
    statement.write_simple(vars, out);
    out.push(0);
    patch_length(out, start + 1, start + 1);
}

/// Templates of all statements of one program.
///
/// # Errors
/// A statement is too long for the protocol.
pub fn templates(
    script: usize,
    program: &Program,
    mode: QueryMode,
) -> Result<Vec<Template>, EncodeError> {
    let captured = captured(program);
    program
        .statements
        .iter()
        .zip(captured)
        .map(|(statement, captured)| template(script, statement, mode, captured))
        .collect()
}

/// By statement, whether its rows are wanted.
fn captured(program: &Program) -> Vec<bool> {
    let mut wanted = vec![false; program.statements.len()];
    for op in &program.ops {
        if let Op::Sql { statement, capture } = op {
            wanted[*statement] |= !matches!(capture, Capture::None);
        }
    }
    wanted
}

fn template(
    script: usize,
    statement: &Statement,
    mode: QueryMode,
    captured: bool,
) -> Result<Template, EncodeError> {
    let (sql, params) = match &statement.sql {
        Sql::Simple(_) => return Ok(Template::Simple(statement.clone())),
        Sql::Extended { sql, params } => (sql, params),
    };
    let prepared = mode == QueryMode::Prepared;
    let name = if prepared {
        format!("P{script}_{}", statement.id)
    } else {
        String::new()
    };
    let mut parse = Vec::new();
    frontend::parse(&mut parse, &name, sql, &[])?;
    let mut head = b"B\0\0\0\0\0".to_vec(); // type, length, unnamed portal
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(&[0, 0, 0]); // end of name, all parameters as text
    head.extend_from_slice(&(params.len() as u16).to_be_bytes());
    let mut tail = Vec::new();
    if captured {
        frontend::describe_portal(&mut tail, "")?;
    }
    frontend::execute(&mut tail, "", 0)?;
    Ok(Template::Bound(Bound {
        parse,
        prepared,
        head,
        params: params.clone(),
        tail,
    }))
}
