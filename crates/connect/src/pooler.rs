//! Connection poolers, which give the same session of a server to many clients.

use std::fmt;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Poolers {
    /// They may: the sessions are left as they are.
    #[default]
    Accepted,
    /// Connecting fails at the address of a pooler.
    Refused,
}

/// Why an address is that of a connection pooler; displayed as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pooler {
    /// The console of PgBouncer, with this version.
    Console(String),
    /// The server's sessions are not those of the clients.
    Shared {
        /// The process that the pooler reported, and the one at the server.
        processes: (u32, String),
        /// Where the pooler finds the server.
        server: String,
    },
}

impl Pooler {
    /// What the user can do, as a clause without a full stop.
    pub fn remedy(&self) -> String {
        match self {
            Pooler::Console(_) => "name the server itself, and one of its databases".to_owned(),
            Pooler::Shared { server, .. } => format!("name the server itself: {server}"),
        }
    }
}

impl fmt::Display for Pooler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pooler::Console(version) => {
                write!(f, "it is PgBouncer's console ({version}), not a server")
            }
            Pooler::Shared { processes: (reported, own), .. } => {
                f.write_str("it is a connection pooler, not a server: ")?;
                match reported.to_string() == *own {
                    true => f.write_str("the server's session is older than the connection"),
                    false => {
                        write!(f, "it reports {reported} as the process of the session, which is {own} at the server")
                    }
                }
            }
        }
    }
}
