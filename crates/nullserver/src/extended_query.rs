//! The extended protocol: Parse, Bind, Describe, Execute, Close.

use pgdyno_wire::SqlState;

use crate::answers::Answer;
use crate::classify::classify;
use crate::connection::{Connection, Portal, Rows, SharedAnswers, Statement, too_many};
use crate::encode::{self, Format};
use crate::sql;
use crate::startup_packet::{split_cstr, split_u16, split_u32};
use crate::statement_error::{Stop, Trouble};

impl Connection {
    pub(crate) fn parse(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), Stop> {
        let (name, sql) = parse_fields(body).ok_or_else(Trouble::malformed)?;
        let (one, others) = sql::split(sql);
        if !sql::is_blank(others) {
            let text = "cannot insert multiple commands into a prepared statement";
            return Err(Trouble::new(SqlState::SYNTAX_ERROR, text).into());
        }
        let answer = self.resolve(classify(one))?;
        self.check_transaction(answer)?;
        let parameters = sql::parameters(one);
        let statement = Statement { answer, parameters };
        if name.is_empty() {
            self.unnamed = Some(statement);
        } else {
            self.prepare(name, statement)?;
        }
        encode::bare(out, b'1');
        Ok(())
    }

    pub(crate) fn bind(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), Stop> {
        let bind = Bind::read(body).ok_or_else(Trouble::malformed)?;
        let statement = *self.statement(bind.statement)?;
        self.check_transaction(statement.answer)?;
        if bind.parameters != statement.parameters {
            let text = format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                bind.parameters,
                String::from_utf8_lossy(bind.statement),
                statement.parameters
            );
            return Err(Trouble::new(SqlState::PROTOCOL_VIOLATION, text).into());
        }
        let Some(format) = bind.format else {
            let text = "results in a mixture of formats are not supported";
            return Err(Trouble::new(SqlState::FEATURE_NOT_SUPPORTED, text).into());
        };
        let portal = Portal { answer: statement.answer, format };
        if bind.portal.is_empty() {
            self.portal = Some(portal);
        } else {
            let inserted = self.portals.insert(bind.portal, portal);
            inserted.map_err(|_| too_many("portals"))?;
        }
        encode::bare(out, b'2');
        Ok(())
    }

    pub(crate) fn describe(&mut self, body: &[u8], shared: &SharedAnswers, out: &mut Vec<u8>) -> Result<(), Stop> {
        let (kind, name) = object_fields(body).ok_or_else(Trouble::malformed)?;
        let (answer, format) = if kind == b'S' {
            let statement = *self.statement(name)?;
            encode::message(out, b't', |out| {
                out.extend_from_slice(&statement.parameters.to_be_bytes());
                // all parameters have type text
                (0..statement.parameters).for_each(|_| out.extend_from_slice(&25u32.to_be_bytes()));
            });
            // the formats of a statement's results are not known before Bind
            (statement.answer, Format::Text)
        } else {
            let portal = self.portal(name)?;
            (portal.answer, portal.format)
        };
        match answer {
            Answer::Rows(set) => out.extend_from_slice(shared.answers.description(set, format)),
            _ => encode::bare(out, b'n'),
        }
        Ok(())
    }

    pub(crate) fn execute(&mut self, body: &[u8], shared: &SharedAnswers, out: &mut Vec<u8>) -> Result<(), Stop> {
        let (name, _) = split_cstr(body).ok_or_else(Trouble::malformed)?;
        let Portal { answer, format } = self.portal(name)?;
        self.check_transaction(answer)?;
        self.run(answer, Rows::Bare(format), shared, out)
    }

    pub(crate) fn close(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), Stop> {
        let (kind, name) = object_fields(body).ok_or_else(Trouble::malformed)?;
        // closing what does not exist is not an error
        match (kind, name) {
            (b'S', b"") => self.unnamed = None,
            (b'S', name) => drop(self.statements.remove(name)),
            (_, b"") => self.portal = None,
            (_, name) => drop(self.portals.remove(name)),
        }
        encode::bare(out, b'3');
        Ok(())
    }

    fn statement(&self, name: &[u8]) -> Result<&Statement, Trouble> {
        let known = if name.is_empty() { self.unnamed.as_ref() } else { self.statements.get(name) };
        known.ok_or_else(|| Trouble::no_statement(name))
    }

    fn portal(&self, name: &[u8]) -> Result<Portal, Trouble> {
        let known = if name.is_empty() { self.portal } else { self.portals.get(name).copied() };
        known.ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            let text = format!("portal \"{name}\" does not exist");
            // the code of invalid_cursor_name
            let code = SqlState::parse(b"34000").unwrap_or(SqlState::INTERNAL_ERROR);
            Trouble::new(code, text)
        })
    }
}

/// Name and text in a Parse; the parameter types are ignored.
fn parse_fields(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, rest) = split_cstr(body)?;
    let (sql, rest) = split_cstr(rest)?;
    let (types, rest) = split_u16(rest)?;
    (rest.len() == 4 * usize::from(types)).then_some((name, sql))
}

/// Kind and name of the object of a Describe or Close.
fn object_fields(body: &[u8]) -> Option<(u8, &[u8])> {
    let (&kind, rest) = body.split_first()?;
    let (name, rest) = split_cstr(rest)?;
    (matches!(kind, b'S' | b'P') && rest.is_empty()).then_some((kind, name))
}

/// The fields of a Bind; the values are ignored.
struct Bind<'m> {
    portal: &'m [u8],
    statement: &'m [u8],
    parameters: u16,
    /// The format of all results; None if they differ.
    format: Option<Format>,
}

impl<'m> Bind<'m> {
    fn read(body: &'m [u8]) -> Option<Self> {
        let (portal, rest) = split_cstr(body)?;
        let (statement, rest) = split_cstr(rest)?;
        let (formats, rest) = split_u16(rest)?;
        let rest = rest.get(2 * usize::from(formats)..)?;
        let (parameters, mut rest) = split_u16(rest)?;
        for _ in 0..parameters {
            let (length, tail) = split_u32(rest)?;
            // -1 stands for NULL
            let bytes = if length == u32::MAX { 0 } else { length as usize };
            rest = tail.get(bytes..)?;
        }
        let (formats, rest) = split_u16(rest)?;
        (rest.len() == 2 * usize::from(formats)).then_some(Self {
            portal,
            statement,
            parameters,
            format: Format::of_all(rest),
        })
    }
}
