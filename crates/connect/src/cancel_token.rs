//! The data that a cancel request needs: a session's address and its key.

use std::fmt;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};

use pgdyno_wire::startup::CancelKey;

use crate::hosts::{Endpoint, Host};
use crate::params::Params;

/// Identifies a session's statement for a cancel request. It is small, because a load has one for each session.
#[derive(Clone, PartialEq, Eq)]
pub struct CancelToken {
    pub(crate) pid: u32,
    pub(crate) key: Key,
    pub(crate) address: Address,
    /// Index of the session's host among those of the parameters.
    pub(crate) host: u16,
    pub(crate) is_encrypted: bool,
}

#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Key {
    /// A key of protocol 3.0.
    Four([u8; 4]),
    /// A key of protocol 3.2.
    Long(Box<[u8]>),
}

/// The address of the session. A name may have several addresses, and only one of them has the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Unix,
    V4(SocketAddrV4),
    V6(Box<SocketAddrV6>),
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken")
            .field("pid", &self.pid)
            .field("address", &self.address)
            .field("is_encrypted", &self.is_encrypted)
            .finish_non_exhaustive()
    }
}

impl CancelToken {
    pub(crate) fn new(
        params: &Params, host: &Host, endpoint: &Endpoint, is_encrypted: bool, key: &CancelKey,
    ) -> Option<Self> {
        let host = params.hosts.iter().position(|known| std::ptr::eq(known, host))?;
        Some(Self {
            pid: key.pid,
            key: match <[u8; 4]>::try_from(key.key.as_slice()) {
                Ok(four) => Key::Four(four),
                Err(_) => Key::Long(key.key.as_slice().into()),
            },
            address: match endpoint {
                Endpoint::Unix(_) => Address::Unix,
                Endpoint::Tcp(SocketAddr::V4(address)) => Address::V4(*address),
                Endpoint::Tcp(SocketAddr::V6(address)) => Address::V6(Box::new(*address)),
            },
            host: u16::try_from(host).ok()?,
            is_encrypted,
        })
    }
}
