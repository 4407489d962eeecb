//! The messages of a client, and what it asks for with them.

use std::sync::Arc;

use pgdyno_wire::Parts;

pub fn bind(body: &[u8]) -> Option<Binding> {
    let mut parts = Parts(body);
    let (portal, statement, codes) = (parts.cstr()?.to_vec(), parts.cstr()?.to_vec(), parts.codes()?);
    let values = (0..usize::from(parts.u16()?))
        .map(|number| Some((parts.value()?.map(<[u8]>::to_vec), format_of(&codes, number))))
        .collect::<Option<_>>()?;
    Some(Binding { portal, statement, formats: parts.codes()?, parameters: Some(values) })
}

/// The names and values of a startup packet.
pub fn startup_settings(packet: &[u8]) -> Vec<(String, String)> {
    let mut parts = Parts(packet.get(8..).unwrap_or_default());
    let mut settings = Vec::new();
    while let (Some(name), Some(value)) = (parts.cstr().filter(|name| !name.is_empty()), parts.cstr()) {
        settings.push((text(name), text(value)));
    }
    settings
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The format of value `number`: one code may be for all of them.
pub fn format_of(codes: &[u16], number: usize) -> u16 {
    match codes {
        [] => 0,
        [all] => *all,
        _ => codes.get(number).copied().unwrap_or(0),
    }
}

#[derive(Debug)]
pub struct Column {
    pub name: String,
    pub oid: u32,
}

pub type Columns = Arc<[Column]>;
/// Values and their formats.
pub type Parameters = Arc<[(Option<Vec<u8>>, u16)]>;

/// A prepared statement.
#[derive(Debug, Default, Clone)]
pub struct Prepared {
    pub name: Vec<u8>,
    /// None if it was too long.
    pub sql: Option<Arc<[u8]>>,
    pub types: Arc<[u32]>,
    pub columns: Option<Columns>,
}

#[derive(Debug, Default)]
pub struct Portal {
    pub statement: Prepared,
    pub columns: Option<Columns>,
    pub formats: Vec<u16>,
    /// None if they were too long.
    pub parameters: Option<Parameters>,
    /// Whether its first rows were already fetched.
    pub has_begun: bool,
}

#[derive(Debug, Default)]
pub struct Binding {
    pub portal: Vec<u8>,
    pub statement: Vec<u8>,
    /// Of the answer's columns.
    pub formats: Vec<u16>,
    /// None if they were too long.
    pub parameters: Option<Parameters>,
}

/// What the client asked for and the server has not answered yet.
#[derive(Debug)]
pub enum Request {
    Query {
        sql: Option<Arc<[u8]>>,
        at: i64,
    },
    Parse(Prepared),
    Bind(Binding),
    DescribeStatement(Vec<u8>),
    DescribePortal(Vec<u8>),
    Execute {
        portal: Vec<u8>,
        at: i64,
    },
    Close {
        is_portal: bool,
        name: Vec<u8>,
    },
    Sync,
    Call {
        at: i64,
    },
    /// The end of the client's rows for a COPY.
    CopyEnd,
}
