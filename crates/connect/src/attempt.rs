//! Tries to connect: the hosts in turn, the addresses of each, and the authentication.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Instant;

use pgdyno_wire::{Progress, SqlState, Startup, StartupError, TxStatus};

use crate::blocking_session::Session;
use crate::cancel_token::CancelToken;
use crate::connect_error::{Attempt, Cause, ConnectError};
use crate::encryption::{self, Encryption, Failure};
use crate::env::name_of;
use crate::hosts::{Endpoint, Host, Place};
use crate::param_error::system_message;
use crate::params::Params;
use crate::patience::{Interrupt, Patience};
use crate::pooler::Poolers;
use crate::stream::{RECEIVE_BYTES, Stream};
use crate::tls::TlsError;
use crate::word_options::{LoadBalance, TargetSessionAttrs};

impl Cause {
    /// What to try next: another address, another host, or nothing.
    fn next(&self) -> Next {
        match self {
            Cause::Connect { .. } | Cause::Timeout => Next::Address,
            Cause::Resolve { .. } | Cause::WrongKind(_) => Next::Host,
            Cause::Startup { error: StartupError::Server(error), .. }
                if error.sqlstate() == SqlState::CANNOT_CONNECT_NOW =>
            {
                Next::Host
            }
            _ => Next::Nothing,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Address,
    Host,
    Nothing,
}

/// An address of a host, with its name in messages.
struct Target {
    endpoint: Endpoint,
    what: String,
}

impl Session {
    /// Connects to the first host that offers a session of the requested kind.
    ///
    /// # Errors
    /// No host does; the error has every attempt with its reason.
    pub fn connect(params: &Params) -> Result<Session, ConnectError> {
        if params.poolers == Poolers::Refused {
            match connect(&params.without_traces()) {
                Ok(session) => session.end(),
                // some services need them to find the server
                Err(error) if params.options.is_some() && !error.is_pooler() => {}
                Err(error) => return Err(error),
            }
        }
        connect(params)
    }
}

/// Tries the hosts in turn.
fn connect(params: &Params) -> Result<Session, ConnectError> {
    let wanted = params.target_session_attrs;
    // the second round accepts what the first one rejected
    let rounds = match wanted {
        TargetSessionAttrs::PreferStandby => &[TargetSessionAttrs::Standby, TargetSessionAttrs::Any][..],
        _ => &[wanted],
    };
    let mut attempts = Vec::new();
    let hosts = in_order(params);
    for &wanted in rounds {
        for host in &hosts {
            match try_host(params, host, wanted, &mut attempts) {
                Ok(session) => return Ok(session),
                Err(Next::Nothing) => return Err(ConnectError { attempts }),
                Err(Next::Address | Next::Host) => {}
            }
        }
    }
    Err(ConnectError { attempts })
}

/// Tries the addresses of a host in turn.
fn try_host(
    params: &Params,
    host: &Host,
    wanted: TargetSessionAttrs,
    attempts: &mut Vec<Attempt>,
) -> Result<Session, Next> {
    let mut targets = targets(host).map_err(|cause| {
        let what = String::new();
        attempts.push(Attempt { what, cause });
        Next::Host
    })?;
    if params.load_balance_hosts == LoadBalance::Random {
        shuffle(&mut targets);
    }
    for target in targets {
        match try_target(params, host, &target, wanted, attempts) {
            Ok(session) => return Ok(session),
            Err(Next::Address) => {}
            Err(next) => return Err(next),
        }
    }
    Err(Next::Host)
}

/// Tries the allowed encryptions for one address in turn.
fn try_target(
    params: &Params,
    host: &Host,
    target: &Target,
    wanted: TargetSessionAttrs,
    attempts: &mut Vec<Attempt>,
) -> Result<Session, Next> {
    let unix = matches!(target.endpoint, Endpoint::Unix(_));
    let mut allowed = encryption::allowed(params.sslmode, unix).iter().peekable();
    while let Some(&encryption) = allowed.next() {
        let deadline = params.connect_timeout.map(|limit| Instant::now() + limit);
        let patience = Patience::new(deadline, params.interrupt.clone());
        let failure = match try_encryption(params, host, &target.endpoint, encryption, &patience) {
            Ok(mut session) => match check(&mut session, params.poolers, wanted) {
                Ok(()) => return Ok(session),
                Err(cause) => Failure::last(cause),
            },
            Err(failure) => failure,
        };
        let next = failure.cause.next();
        attempts.push(Attempt { what: target.what.clone(), cause: failure.cause });
        if !failure.depends_on_encryption || allowed.peek().is_none() {
            return Err(next);
        }
    }
    Err(Next::Nothing)
}

fn try_encryption(
    params: &Params,
    host: &Host,
    endpoint: &Endpoint,
    encryption: Encryption,
    patience: &Patience,
) -> Result<Session, Failure> {
    let opened = Instant::now();
    let stream = open(params, endpoint, patience).map_err(Failure::last)?;
    let (mut stream, channel) = encryption::take(params, host, stream, encryption, patience)?;
    let is_asked = encryption == Encryption::Plain || stream.is_encrypted();
    let mut startup = params.startup_over(host, channel);
    let (unread, status) = match start(&mut stream, &mut startup, patience) {
        Ok(ready) => ready,
        Err(Cause::Startup { error, .. }) => {
            let refused = matches!(&error, StartupError::Server(error)
                if error.sqlstate() == SqlState::INVALID_PASSWORD);
            let from_file = params.password.is_none() && startup.used_password();
            return Err(Failure {
                depends_on_encryption: is_asked && encryption::may_matter(&error, &startup),
                cause: Cause::Startup {
                    error,
                    password_file: host.password_file.clone().filter(|_| refused && from_file),
                },
            });
        }
        Err(cause) => return Err(Failure::last(cause)),
    };
    encryption::check_certificate_mode(params, &stream).map_err(Failure::last)?;
    let facts = startup.into_facts();
    let key = facts.cancel_key.as_ref();
    let cancel = key.and_then(|key| CancelToken::new(params, host, endpoint, stream.is_encrypted(), key));
    let mut session = Session::new(stream, unread, facts, status, cancel, opened);
    session.interrupt_by(params.interrupt.clone());
    Ok(session)
}

/// Connects a socket.
pub(crate) fn open(params: &Params, endpoint: &Endpoint, patience: &Patience) -> Result<Stream, Cause> {
    let unix = matches!(endpoint, Endpoint::Unix(_));
    let stream = match endpoint {
        Endpoint::Unix(path) => Stream::connect_unix(path, patience),
        Endpoint::Tcp(address) => Stream::connect_tcp(*address, patience, &params.keepalives),
    };
    let stream = stream.map_err(|error| match error.kind() {
        io::ErrorKind::TimedOut if error.raw_os_error().is_none() => Cause::Timeout,
        _ if Interrupt::caused(&error) => Cause::Interrupted,
        _ => Cause::Connect { error, unix },
    })?;
    if let (true, Some(user)) = (unix, &params.require_peer) {
        check_peer(&stream, user)?;
    }
    Ok(stream)
}

/// Exchanges messages until the session is ready; returns the bytes that came after that.
fn start(stream: &mut Stream, startup: &mut Startup, patience: &Patience) -> Result<(Vec<u8>, TxStatus), Cause> {
    let refused = |error| Cause::Startup { error, password_file: None };
    let mut out = Vec::new();
    startup.first(&mut out).map_err(|error| refused(error.into()))?;
    let mut buffer = vec![0; RECEIVE_BYTES];
    loop {
        let sent = send_all(stream, &out, patience);
        out.clear();
        // A server that refuses immediately may close before it has read everything; its error
        // message is more useful than the broken connection.
        let received = receive(stream, &mut buffer, patience);
        let bytes = match (sent, received) {
            (_, Ok(bytes)) if bytes > 0 => bytes,
            (_, Err(cause @ Cause::Tls(_))) => return Err(cause),
            (Err(cause), _) | (_, Err(cause)) => return Err(cause),
            (Ok(()), Ok(_)) => return Err(Cause::Closed),
        };
        let mut input = buffer.get(..bytes).unwrap_or_default();
        match startup.feed(&mut input, &mut out) {
            Ok(Progress::NeedMore) => {}
            Ok(Progress::Ready(status)) => return Ok((input.to_vec(), status)),
            Err(error) => return Err(refused(error)),
        }
    }
}

pub(crate) fn send_all(stream: &mut Stream, mut out: &[u8], patience: &Patience) -> Result<(), Cause> {
    while !out.is_empty() {
        match stream.try_send(out) {
            Ok(sent) => out = out.get(sent..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                stream.wait(true, patience).map_err(io_cause)?;
            }
            Err(error) => return Err(io_cause(error)),
        }
    }
    Ok(())
}

pub(crate) fn receive(stream: &mut Stream, buffer: &mut [u8], patience: &Patience) -> Result<usize, Cause> {
    loop {
        // checked for every message, because a server that never stops sending would otherwise
        // escape the limit
        patience.slice().map_err(io_cause)?;
        match stream.try_recv(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                stream.wait(false, patience).map_err(io_cause)?;
            }
            received => return received.map_err(io_cause),
        }
    }
}

pub(crate) fn io_cause(error: io::Error) -> Cause {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    if let Some(error) = tls {
        return Cause::Tls(TlsError::clone(error));
    }
    match error.kind() {
        io::ErrorKind::TimedOut if error.raw_os_error().is_none() => Cause::Timeout,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Cause::Closed,
        _ if Interrupt::caused(&error) => Cause::Interrupted,
        _ => Cause::Io(error),
    }
}

/// Looks up the addresses of a host.
fn targets(host: &Host) -> Result<Vec<Target>, Cause> {
    if let Some(path) = host.socket() {
        return Ok(vec![Target {
            what: format!("connection to server on socket \"{}\" failed: ", path.display()),
            endpoint: Endpoint::Unix(path),
        }]);
    }
    let shown = host.display();
    let looked_up = match &host.place {
        Place::Address { address, .. } => address.as_str(),
        _ => shown.as_str(),
    };
    let addresses = (looked_up, host.port)
        .to_socket_addrs()
        .map_err(|error| Cause::Resolve { name: looked_up.to_owned(), why: resolver_message(&error) })?;
    let target = |address: SocketAddr| {
        let ip = address.ip().to_string();
        let at = if ip == shown { format!("\"{shown}\"") } else { format!("\"{shown}\" ({ip})") };
        Target {
            what: format!("connection to server at {at}, port {} failed: ", host.port),
            endpoint: Endpoint::Tcp(address),
        }
    };
    Ok(addresses.map(target).collect())
}

/// The resolver's message, without the prefix that Rust adds.
fn resolver_message(error: &io::Error) -> String {
    let text = system_message(error);
    let prefix = "failed to lookup address information: ";
    text.strip_prefix(prefix).unwrap_or(&text).to_owned()
}

fn in_order(params: &Params) -> Vec<&Host> {
    let mut hosts: Vec<_> = params.hosts.iter().collect();
    if params.load_balance_hosts == LoadBalance::Random {
        shuffle(&mut hosts);
    }
    hosts
}

/// Fisher-Yates shuffle. Without randomness the order stays as it is.
fn shuffle<T>(items: &mut [T]) {
    for last in (1..items.len()).rev() {
        let Ok(random) = getrandom::u64() else {
            return;
        };
        // The bias of the remainder is negligible for lists of hosts.
        let other = random % (last as u64 + 1);
        items.swap(last, other as usize);
    }
}

fn check_peer(stream: &Stream, user: &str) -> Result<(), Cause> {
    let uid = stream.peer_uid().map_err(|error| {
        let why = system_message(&error);
        Cause::WrongPeer(format!("could not get peer credentials: {why}"))
    })?;
    let peer = name_of(uid).map_err(|error| Cause::WrongPeer(error.to_string()))?;
    if peer == user {
        Ok(())
    } else {
        Err(Cause::WrongPeer(format!("requirepeer specifies \"{user}\", but actual peer user name is \"{peer}\"")))
    }
}

/// Checks that the session is one of a server, if that is requested, and of the requested kind.
fn check(session: &mut Session, poolers: Poolers, wanted: TargetSessionAttrs) -> Result<(), Cause> {
    let pooler = match poolers {
        Poolers::Accepted => Ok(session.console()),
        Poolers::Refused => session.pooler(),
    };
    match pooler.map_err(|error| Cause::Kind(error.to_string()))? {
        Some(pooler) => Err(Cause::Pooler(Box::new(pooler))),
        None => check_kind(session, wanted),
    }
}

/// Checks that the session is of the requested kind.
fn check_kind(session: &mut Session, wanted: TargetSessionAttrs) -> Result<(), Cause> {
    use TargetSessionAttrs::{Any, PreferStandby, Primary, ReadOnly, ReadWrite, Standby};
    let (parameter, query) = match wanted {
        Any | PreferStandby => return Ok(()),
        ReadWrite | ReadOnly => ("default_transaction_read_only", "SHOW transaction_read_only"),
        Primary | Standby => ("in_hot_standby", "SELECT pg_catalog.pg_is_in_recovery()"),
    };
    let on = match session.parameter(parameter).map(|value| value == "on") {
        // From PostgreSQL 14 on the server reports this without a query.
        Some(on) => {
            let standby = session.parameter("in_hot_standby") == Some("on");
            on || (matches!(wanted, ReadWrite | ReadOnly) && standby)
        }
        None => {
            let answer = session.query_one_value(query);
            let value = answer.map_err(|error| Cause::Kind(error.to_string()))?;
            matches!(value.as_deref(), Some("on" | "t"))
        }
    };
    match (wanted, on) {
        (ReadWrite, true) => Err(Cause::WrongKind("session is read-only")),
        (ReadOnly, false) => Err(Cause::WrongKind("session is not read-only")),
        (Primary, true) => Err(Cause::WrongKind("server is in hot standby mode")),
        (Standby, false) => Err(Cause::WrongKind("server is not in hot standby mode")),
        _ => Ok(()),
    }
}
