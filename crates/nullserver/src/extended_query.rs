//! The extended protocol: Parse, Bind, Describe, Execute, Close.

use pgdyno_wire::{Parts, SqlState};

use crate::answers::{Answer, Format};
use crate::encode;
use crate::refusal::{Refusal, refuse};
use crate::session::{Portal, Session, Statement, insert, well_formed};
use crate::shared::Shared;
use crate::sql;

impl Session {
    pub(crate) fn parse(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let mut parts = Parts(body);
        let (name, sql) = well_formed(parts.cstr().zip(parts.cstr()))?;
        let (one, others) = sql::split(sql);
        if !sql::is_blank(others) {
            return refuse(SqlState::SYNTAX_ERROR, "cannot insert multiple commands into a prepared statement");
        }
        let answer = self.resolve(one)?;
        self.prepare(name, Statement { answer, parameters: sql::parameters(one) })?;
        encode::bare(out, b'1');
        Ok(())
    }

    pub(crate) fn bind(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let Bind { portal, statement: name, parameters, format } = well_formed(Bind::read(body))?;
        let statement = *self.statement(name)?;
        self.check_transaction(statement.answer)?;
        if parameters != statement.parameters {
            let text = format!(
                "bind message supplies {parameters} parameters, but prepared statement \"{}\" requires {}",
                String::from_utf8_lossy(name),
                statement.parameters
            );
            return refuse(SqlState::PROTOCOL_VIOLATION, text);
        }
        let Some(format) = format else {
            return refuse(SqlState::FEATURE_NOT_SUPPORTED, "results in a mixture of formats are not supported");
        };
        insert(&mut self.portals, portal, Portal { answer: statement.answer, format })?;
        encode::bare(out, b'2');
        Ok(())
    }

    pub(crate) fn describe(&mut self, body: &[u8], shared: &Shared, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let (is_statement, name) = well_formed(object(body))?;
        let Portal { answer, format } = match is_statement {
            false => *self.portal(name)?,
            true => {
                let Statement { answer, parameters } = *self.statement(name)?;
                encode::message(out, b't', |out| {
                    out.extend_from_slice(&parameters.to_be_bytes());
                    // all parameters have type text
                    (0..parameters).for_each(|_| out.extend_from_slice(&25u32.to_be_bytes()));
                });
                // the formats of a statement's results are not known before Bind
                Portal { answer, format: Format::Text }
            }
        };
        match answer {
            Answer::Rows(set, _) => out.extend_from_slice(&shared.answers.rows(set, format).description),
            _ => encode::bare(out, b'n'),
        }
        Ok(())
    }

    pub(crate) fn execute(&mut self, body: &[u8], shared: &Shared, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let Portal { answer, format } = *self.portal(well_formed(Parts(body).cstr())?)?;
        self.check_transaction(answer)?;
        self.run(answer, Some(format), shared, out)
    }

    /// Closing what does not exist is not an error.
    pub(crate) fn close(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), Refusal> {
        let (is_statement, name) = well_formed(object(body))?;
        if is_statement {
            self.statements.remove(name);
        } else {
            self.portals.remove(name);
        }
        encode::bare(out, b'3');
        Ok(())
    }

    fn portal(&self, name: &[u8]) -> Result<&Portal, Refusal> {
        match self.portals.get(name) {
            Some(portal) => Ok(portal),
            None => {
                let text = format!("portal \"{}\" does not exist", String::from_utf8_lossy(name));
                refuse(SqlState::INVALID_CURSOR_NAME, text)
            }
        }
    }
}

/// Whether a Describe or Close is about a statement, or about a portal; and its name.
fn object(body: &[u8]) -> Option<(bool, &[u8])> {
    let mut parts = Parts(body);
    let (kind, name) = (parts.byte()?, parts.cstr()?);
    matches!(kind, b'S' | b'P').then_some((kind == b'S', name))
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
        let mut parts = Parts(body);
        let (portal, statement) = (parts.cstr()?, parts.cstr()?);
        for _ in 0..parts.u16()? {
            parts.u16()?;
        }
        let parameters = parts.u16()?;
        for _ in 0..parameters {
            parts.value()?;
        }
        let formats = parts.u16()?;
        (parts.0.len() == 2 * usize::from(formats)).then_some(Self {
            portal,
            statement,
            parameters,
            format: Format::of_all(parts.0),
        })
    }
}
