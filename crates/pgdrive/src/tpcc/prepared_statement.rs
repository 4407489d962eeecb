//! A statement that every session of TPC-C prepares.

use pgdyno_wire::{BindTemplate, Columns, EncodeError};
#[derive(Debug)]
pub struct Prepared {
    pub name: String,
    pub sql: String,
    pub template: BindTemplate,
}

impl Prepared {
    /// Statements with their numbers of parameters; each is named by its index.
    pub fn all(statements: Vec<(String, u16)>) -> Result<Vec<Self>, EncodeError> {
        let one = |(place, (sql, parameters)): (usize, (String, u16))| {
            let name = format!("tpcc{place}");
            let template = BindTemplate::new(&name, parameters, Columns::Undescribed)?;
            Ok(Self { name, sql, template })
        };
        statements.into_iter().enumerate().map(one).collect()
    }
}
